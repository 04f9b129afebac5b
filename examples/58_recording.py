"""A hand lifts a block: recorded into one file, logged as a table and a plot, and shown as a video.

Writes two pictures into the folder given (by default the current one):  python 58_recording.py docs/pictures
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import supple
from supple.recording import Recording
from supple.viewer.rendering import Renderer

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
scene = supple.scenes.hand()
log = scene.world.log(["block", "contact force", "energy"], rate=100)
with TemporaryDirectory() as place:
    file = Path(place, "grasp.npz")
    scene.record(1.6, file, rate=60)
    run = Recording.load(file)
    print(f"{run}; {file.stat().st_size / 1e6:.1f} MB")
    up = np.ptp(log["block z"])
    print(f"the block was lifted by {1e3 * up:.1f} mm; the log has {len(log)} rows of {len(log.columns)} columns")
    last = run.contacts(run.times[-1])
    held = sum(abs(contact.force @ contact.normal) for contact in last)
    print(f"{len(last)} contacts press with {held:.2f} N in all at the end")
    log.to_csv(Path(place, "grasp.csv"))
    log.plot(folder / "recording_log.png")
    picture = Renderer(run, (960, 540), view=(14, -60)).picture(1.6)
    try:
        pictures = supple.viewer.write_video(run, Path(place, "grasp.mp4"), size=(320, 180), view=(14, -60))
        print(f"a video of {pictures} pictures; for 1920 x 1080: supple replay grasp.npz -o grasp.mp4")
    except ImportError as error:
        print(error)

import matplotlib.image  # noqa: E402

matplotlib.image.imsave(folder / "recording.png", picture)
