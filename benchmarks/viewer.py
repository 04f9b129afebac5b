"""How fast the viewer is: frames a second that reach a browser, and what a frame costs.

A chain of 400 links and, where the robots are beside the project, the Shadow hand of 26 bodies with its meshes, dragged
about by a script. The browser is a bare client of the page's protocol, so that drawing costs nothing; with
`--soak SECONDS` the dragging goes on and the growth of memory is measured.
"""

import asyncio
import resource
import sys
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


class Client(threading.Thread):
    """Receives what a browser would, and counts the frames: bursts of messages between pauses."""

    def __init__(self, server) -> None:
        super().__init__(daemon=True)
        self.url = address(server).replace("http", "ws")
        self.count, self.size, self.wanted = 0, 0, True

    def run(self) -> None:
        asyncio.run(self._receive())

    async def _receive(self) -> None:
        import viser
        import websockets

        name = f"viser-v{viser.__version__}"
        with suppress(websockets.exceptions.ConnectionClosed):
            async with websockets.connect(self.url, subprotocols=[name], max_size=None) as socket:
                while self.wanted:
                    message = await socket.recv()
                    self.count += 1
                    self.size += len(message)


def measure(report: Report, name: str, mech, seconds: float) -> float:
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
            frames_a_second=len(frames) / took,
            messages_a_second=rate,
            kB_a_second=(client.size - received) / took / 1e3,
            look_ms=1e3 * best(session._look, repeat=20),
            real_time_factor=session.frame.factor,
        )
        client.wanted = False
        return min(rate, len(frames) / took)


def soak(report: Report, seconds: float) -> None:
    """Growth of memory under a script that drags, switches and resets, once every method was used."""
    with viewing(supple.library.ladder(), port=PORT) as page:
        session, start = page.session, perf_counter()
        rest, early = session.frame.pulls["tip"].point, 0.0
        client = Client(page.server)
        client.start()
        for method in METHODS:
            session.method = method
        for i in range(10**9):
            now = perf_counter() - start
            session.pull("tip", rest + [0.0, 0.6 * np.sin(2 * now), 0.2 * np.cos(now)])
            if i % 500 == 499:
                session.method = METHODS[i // 500 % len(METHODS)]
            if i % 4000 == 3999:
                session.reset()
            if early == 0 and now > min(60.0, 0.2 * seconds):
                early = memory()
            if now > seconds:
                break
            sleep(0.02)
        report.target("growth of memory while dragging, MB", memory() - early, at_most=20)
        bad = [m.text for m in session.messages if m.text.startswith("paused")]
        report.target("steps that failed while dragging", len(bad), at_most=0)


def memory() -> float:
    """MB in use now (Linux), or at most so far."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> None:
    warnings.simplefilter("ignore")
    long = float(sys.argv.pop(sys.argv.index("--soak") + 1)) if "--soak" in sys.argv else 0.0
    sys.argv = [word for word in sys.argv if word != "--soak"]
    args = parse_args(__doc__)
    report = Report("viewer", args)
    seconds = 4.0 if args.quick else 15.0
    rate = measure(report, "chain of 400", supple.library.helix(400), seconds)
    report.target("chain of 400 links, frames a second to the browser", rate, at_least=30)
    if HAND.exists():
        rate = measure(report, "Shadow hand", supple.load(HAND), seconds)
        report.target("Shadow hand with meshes, frames a second to the browser", rate, at_least=30)
    else:
        print(f"the Shadow hand is not here ({HAND}); its row is left out")
    if long:
        soak(report, long)
    report.finish()


if __name__ == "__main__":
    main()
