"""Recordings: an hour of a World in a file (memory, time, size) by a program that is then killed, and the time of a
picture of a video.

A hand holds a block; 30 frames per second with contacts. The memory is the largest resident size of the process. At the
end the process is killed with SIGKILL, and the file is read: what it lacks is measured in seconds of computing.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, process_time

import numpy as np

import supple
from _report import Report, parse_args
from supple.errors import RecordingWarning
from supple.recording import Recording
from supple.viewer.rendering import Renderer

AFTER = 3.0
"""s of computing after the recorded time, before the process is killed."""
PARTS = 6
"""Readings of the memory."""


def main() -> None:
    args = parse_args(__doc__)
    report = Report("recordings", args)
    seconds = 12.0 if args.quick else 3600.0
    with TemporaryDirectory() as folder:
        file = Path(folder, "hour.npz")
        lines, lost = recorded_and_killed(file, seconds)
        size, memory = file.stat().st_size, [megabytes for _, megabytes, _ in lines]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RecordingWarning)
            run = Recording.load(file)
        report.row(
            what="a world", simulated_s=seconds, frames=len(run), mb=size / 1e6, kb_a_frame=size / len(run) / 1e3,
            cpu_s=lines[PARTS - 1][2], memory_mb_at_first=memory[0], memory_mb_at_last=memory[-1],
        )  # fmt: skip
        report.target("memory that the process gained after a sixth, MB", memory[-1] - memory[0], at_most=3.0)
        report.target("computing that the file of the killed process lacks, s", lost(run), at_most=1.5)
        drawing(report, "a world", run, 3 if args.quick else 20)
    sim = supple.Simulation(supple.library.ladder(), 2e-3)
    sim.apply("tip", [0, 50, 0, 0, 0, 0])
    with sim.record() as recorder:
        sim.step(500)
    drawing(report, "ladder", recorder.recording, 3 if args.quick else 20)
    report.finish()


def record(file: str, seconds: float) -> None:
    """Records a world until the process is killed; prints time, memory (MB) and CPU time, first after each sixth of
    `seconds`, then all the time."""
    scene = supple.scenes.hand()
    scene.run(3.0)  # it has grasped and lifted the block
    world, start, count = scene.world, process_time(), 0
    world.record(file)
    while True:
        count += 1
        world.step(round((seconds / PARTS if count <= PARTS else 0.1) / world.dt))
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(world.time, memory, process_time() - start, flush=True)


def recorded_and_killed(file: Path, seconds: float) -> tuple[list[tuple[float, ...]], Callable[[Recording], float]]:
    """What `record` printed in a process of its own, and a function that returns how many seconds of computing before
    its end are missing in its file."""
    command = [sys.executable, __file__, "--record", str(file), str(seconds)]
    lines, end = [], np.inf
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(tuple(map(float, line.split())))
            if len(lines) == PARTS:
                end = monotonic() + AFTER
            if monotonic() > end:
                process.kill()
                break

    def lost(run: Recording) -> float:
        kept = float(run.times[-1])
        return lines[-1][2] - min(cpu for time, _, cpu in lines if time >= kept)

    return lines, lost


def drawing(report: Report, what: str, run: Recording, pictures: int) -> None:
    """CPU time of pictures of 1920 x 1080 pixels."""
    renderer = Renderer(run)
    renderer.picture(float(run.times[0]))
    start = process_time()
    for i in range(pictures):
        renderer.picture(float(run.times[i * (len(run) - 1) // pictures]))
    report.row(what=f"a picture of {what}", cpu_ms=1e3 * (process_time() - start) / pictures)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--record"]:
        record(sys.argv[2], float(sys.argv[3]))
    main()
