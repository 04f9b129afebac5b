"""Speed of the viewer: frames per second that reach a browser, and the cost of a frame.

A script drags a chain of 400 links and, if its file is present, the Shadow hand of 26 bodies with its meshes. The
browser is a client of the page's protocol that draws nothing. With `--long` it drags for that many seconds and
measures the growth of memory.
"""

import asyncio
import resource
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from time import perf_counter, sleep

import numpy as np

import supple
from _report import Report, best, parse_args
from supple.viewer.server import address
from supple.viewer.showing import viewing

HAND = Path(__file__).parents[2] / "shared/robots/shadow_hand/right_hand.xml"
PORT = 18080
METHODS = ("engine", "blended", "linear")
CAMERA = {
    "wxyz": (1, 0, 0, 0),
    "position": (0, -5, 1),
    "fov": 1.0,
    "near": 0.01,
    "far": 100.0,
    "image_height": 540,
    "image_width": 900,
    "look_at": (0, 0, 1),
    "up_direction": (0, 0, 1),
}
"""A camera, as a browser sends it; viser lists a client once it has received this."""


class Client(threading.Thread):
    """A client that counts the messages a browser would receive, and sends drag events."""

    def __init__(self, server) -> None:
        super().__init__(daemon=True)
        self.url = address(server).replace("http", "ws")
        self.count, self.size, self.wanted = 0, 0, True
        self._loop, self._socket = asyncio.new_event_loop(), None

    def run(self) -> None:
        self._loop.run_until_complete(self._receive())

    async def _receive(self) -> None:
        import viser
        import websockets

        name = f"viser-v{viser.__version__}"
        with suppress(websockets.exceptions.ConnectionClosed):
            async with websockets.connect(self.url, subprotocols=[name], max_size=None) as socket:
                await socket.send(_message("ViewerCameraMessage", **CAMERA))
                self._socket = socket
                while self.wanted:
                    message = await socket.recv()
                    self.count += 1
                    self.size += len(message)

    def drag(self, end_effector: str, phase: str, point) -> None:
        """Sends a drag event of a handle to a point (3,), m; `phase` is start, update or end."""
        at = tuple(float(x) for x in point)
        places = {"start_position": at, "end_position": at, "start_screen_pos": (0, 0), "end_screen_pos": (0, 0)}
        button = {"instance_index": None, "button": "left", "modifier": None, "owner": ""}
        message = _message("SceneNodeDragMessage", phase=phase, name=f"/handles/{end_effector}", **places, **button)
        asyncio.run_coroutine_threadsafe(self._socket.send(message), self._loop).result(30)


def _message(kind: str, **fields) -> bytes:
    import msgspec

    return msgspec.msgpack.encode({"type": kind, **fields})


def frame_rate(report: Report, name: str, mech, seconds: float) -> float:
    with viewing(mech, port=PORT) as page:
        session = page.session
        tip = session.end_effectors[0]
        client = Client(page.server)
        client.start()
        until = perf_counter() + 30
        while client.count < 5 and perf_counter() < until:
            sleep(0.1)
        frames, counted, received = set(), client.count, client.size
        start, rest = perf_counter(), session.frame.pulls[tip].point
        while (now := perf_counter() - start) < seconds:
            session.pull(tip, rest + 0.1 * mech.radius * np.array([np.sin(3 * now), np.cos(2 * now), 0.0]))
            frames.add(session.frame.time)
            sleep(0.005)
        took = perf_counter() - start
        rate = (client.count - counted) / took
        report.row(
            what=name,
            bodies=len(mech.bodies),
            frames_per_second=len(frames) / took,
            messages_per_second=rate,
            kB_per_second=(client.size - received) / took / 1e3,
            make_frame_ms=1e3 * best(session._make_frame, repeat=20),
            real_time_factor=session.frame.real_time_factor,
        )
        client.wanted = False
        return min(rate, len(frames) / took)


def drag_long(report: Report, seconds: float) -> None:
    """Drags the tip through the page's protocol, releases it, switches methods and resets, again and again.

    Memory is read every twentieth of the time. Its growth counts from the second reading on, when every method has been
    used."""
    faults: list[str] = []
    threading.excepthook = lambda args: faults.append(f"{args.thread}: {args.exc_value!r}")
    with viewing(supple.library.ladder(), port=PORT) as page:
        session = page.session
        notices, notify = [], session.notify

        def record_notice(text: str, warning: bool = False) -> None:
            notices.append(text)
            notify(text, warning)

        session.notify = record_notice
        client = Client(page.server)
        client.start()
        while client.count < 5:
            sleep(0.1)
        rest, start, used = session.frame.pulls["tip"].point, perf_counter(), []
        for i in range(10**9):
            now = perf_counter() - start
            phase = {0: "start", 199: "end"}.get(i % 200, "update")
            client.drag("tip", phase, rest + [0.0, 0.6 * np.sin(2 * now), 0.2 * np.cos(now)])
            if i % 200 == 199:
                session.method = METHODS[i // 200 % len(METHODS)]
            if i % 2000 == 1999:
                session.reset()
                session.paused = False
            if now > len(used) * seconds / 20:
                used.append((now, memory()))
                factor = session.frame.real_time_factor
                print(f"{now:7.0f} s  {used[-1][1]:7.1f} MB  {factor:.2f} x real time", flush=True)
            if now > seconds:
                break
            sleep(0.02)
        for text in sorted(set(notices)):
            print(f"{notices.count(text)} times: {text}")
        early, middle, late = (used[k][1] for k in (1, len(used) // 2, -1))
        report.row(what="dragging", seconds=now, early_MB=early, middle_MB=middle, late_MB=late, drags=i)
        report.target("growth of memory while dragging, MB", late - early, at_most=20)
        report.target("steps that failed while dragging", sum(t.startswith("paused") for t in notices), at_most=0)
        report.target("exceptions while dragging", len(faults), at_most=0)
        print(*faults, sep="\n")


def memory() -> float:
    """MB in use now (Linux), or the largest so far (other systems)."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def frame_rates(report: Report, seconds: float) -> None:
    rate = frame_rate(report, "chain of 400", supple.library.helix(400), seconds)
    report.target("chain of 400 links, frames per second to the browser", rate, at_least=30)
    if HAND.exists():
        rate = frame_rate(report, "Shadow hand", supple.load(HAND), seconds)
        report.target("Shadow hand with meshes, frames per second to the browser", rate, at_least=30)
    else:
        print(f"there is no file {HAND}: the Shadow hand is left out")


def main() -> None:
    warnings.simplefilter("ignore")
    args = parse_args(__doc__, seconds=3600)
    report = Report("viewer", args)
    if args.long is None:
        frame_rates(report, 4.0 if args.quick else 15.0)
    else:
        drag_long(report, args.long)
    report.finish()


if __name__ == "__main__":
    main()
