"""Recordings: an hour of a World in a file (memory, time, size), and the time of a picture of a video.

A hand holds a block; 30 frames per second with contacts. The memory is the largest resident size of the process.
"""

from __future__ import annotations

import resource
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time

import supple
from _report import Report, parse_args
from supple.recording import Recording
from supple.viewer.rendering import Renderer

PARTS = 6
"""Readings of the memory."""


def main() -> None:
    args = parse_args(__doc__)
    report = Report("recordings", args)
    seconds = 12.0 if args.quick else 3600.0
    with TemporaryDirectory() as folder:
        file = Path(folder, "hour.npz")
        scene = supple.scenes.hand()
        scene.run(3.0)  # it has grasped and lifted the block
        world, memory, cost = scene.world, [], []
        with world.record(file) as recorder:
            for _ in range(PARTS):
                start = process_time()
                world.step(round(seconds / PARTS / world.dt))
                cost.append(process_time() - start)
                memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3)
            frames = recorder.frames
        size = file.stat().st_size
        report.row(
            what="a world", simulated_s=seconds, frames=frames, mb=size / 1e6, kb_a_frame=size / frames / 1e3,
            cpu_s=sum(cost), memory_mb_at_first=memory[0], memory_mb_at_last=memory[-1],
        )  # fmt: skip
        report.target("memory that the process gained after a sixth, MB", memory[-1] - memory[0], at_most=3.0)
        run = Recording.load(file)
        drawing(report, "a world", run, 3 if args.quick else 20)
    sim = supple.Simulation(supple.library.ladder(), 2e-3)
    sim.apply("tip", [0, 50, 0, 0, 0, 0])
    with sim.record() as recorder:
        sim.step(500)
    drawing(report, "ladder", recorder.recording, 3 if args.quick else 20)
    report.finish()


def drawing(report: Report, what: str, run: Recording, pictures: int) -> None:
    """CPU time of pictures of 1920 x 1080 pixels."""
    renderer = Renderer(run)
    renderer.picture(float(run.times[0]))
    start = process_time()
    for i in range(pictures):
        renderer.picture(float(run.times[i * (len(run) - 1) // pictures]))
    report.row(what=f"a picture of {what}", cpu_ms=1e3 * (process_time() - start) / pictures)


if __name__ == "__main__":
    main()
