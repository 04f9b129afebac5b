"""A bicycle chain of 30 links with a force on its end, adaptive quasi-statics (figure 1 of Redon and Lin).

Writes a picture into the folder given (by default the current one):  python 30_bicycle_chain.py docs/pictures
"""

import sys
from pathlib import Path
from time import perf_counter

import matplotlib.pyplot as plt
import numpy as np

import supple
from supple.viewer import draw

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
mech = supple.library.bicycle_chain()
force, steps, dt = [-0.004, 0, 0.01, 0, 0, 0], 10_000, 0.02


def pulled(error):
    """Poses after ten thousand steps, mean number of computed joints, and microseconds per step."""
    chain = supple.AdaptiveLinkage(mech, error, "relative_joint")
    chain.apply("end", force)
    start = perf_counter()
    computed = sum(chain.step(dt).computed for _ in range(steps)) / steps
    return chain.poses.array, computed, 1e6 * (perf_counter() - start) / steps


def pins(poses):
    """x and z (31, 2) of the pins and of the free end, mm."""
    end = poses[-1] @ [0.0127, 0, 0, 1]
    return 1e3 * np.vstack([poses[:, :3, 3], end[:3]])[:, [0, 2]]


exact, joints, microseconds = pulled(0.0)
print(f"all joints: {joints:.0f} computed per step, {microseconds:.0f} us")
figure, panels = plt.subplots(1, 4, figsize=(12, 3.6), constrained_layout=True)
panels[0].plot(*pins(mech.poses.array).T, "o-", color="#9aa5b1", ms=3, label="start")
panels[0].plot(*pins(exact).T, "o-", color="#2b2f36", ms=3, label="all joints")
panels[0].set_title("10,000 steps, all joints")
for panel, power in zip(panels[1:], (7, 4, 1), strict=True):
    poses, joints, microseconds = pulled(2.0**-power)
    apart = np.linalg.norm(poses[:, :3, 3] - exact[:, :3, 3], axis=1).max()
    print(f"2^-{power}: {joints:.1f} joints per step, {microseconds:.0f} us, at most {1e3 * apart:.2f} mm from exact")
    panel.plot(*pins(exact).T, color="#2b2f36", lw=5, alpha=0.25, label="all joints")
    panel.plot(*pins(poses).T, "o-", color="#d1495b", ms=3, label=f"error 2^-{power}")
    panel.set_title(f"error 2^-{power}: {joints:.1f} joints per step")
for panel in panels:
    panel.set_aspect("equal", adjustable="datalim")
    panel.set_xlabel("x, mm")
    panel.legend(frameon=False, fontsize=8)
panels[0].set_ylabel("z, mm")
figure.savefig(folder / "bicycle_chain.png", dpi=110)

few = supple.library.bicycle_chain(links=7)
bent = supple.AdaptiveLinkage(few)
bent.apply("end", force)
for _ in range(60):
    bent.step(dt)
draw(few, bent.poses.array, path=folder / "bicycle_chain_links.png", labels=[], title="bicycle chain", view=(20, -70))
