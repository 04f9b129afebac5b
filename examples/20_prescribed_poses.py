"""Statics at prescribed poses: the tip of a helix is moved and turned, held in some directions only, and led on.

Writes a picture into the folder given (by default the current one):  python 20_prescribed_poses.py docs/pictures
"""

import sys
from pathlib import Path

import numpy as np

import supple
from supple import spatial
from supple.engine import Hold
from supple.viewer import draw

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
mech = supple.library.helix(50)
goal = spatial.translation(mech.poses["tip"][:3, 3] + [0.1, 0.3, -0.15])

# the tip is moved and free to turn; then it is turned there
free = supple.equilibrium(mech, hold={"tip": Hold(goal, ("x", "y", "z"))})
goal = free.poses["tip"] @ spatial.pose(spatial.so3_exp([0, 0.3, 0]), [0, 0, 0])
eq = supple.equilibrium(mech, hold={"tip": goal}, start=free)
for title, each in (("moved", free), ("turned", eq)):
    force, torque = np.split(np.round(each.holds["tip"], 3) + 0.0, 2)
    print(f"{title}: {force} N and {torque} N m; stable: {each.stable}")
again = supple.equilibrium(mech, eq.holds, start=eq)  # held by the wrench alone
assert np.allclose(again.poses.array, eq.poses.array, atol=1e-7)

# the linear model there: what 1 N more does to the tip
model = eq.linear(["tip"])
more = np.array([0, 0, 1.0, 0, 0, 0])
moved = (model.compliance_at("tip") @ more)[:3]
pushed = supple.equilibrium(mech, {"tip": eq.holds["tip"] + more}, start=eq)
found = pushed.poses["tip"][:3, 3] - goal[:3, 3]
off = np.linalg.norm(moved - found)
print(f"1 N more moves it by {1e3 * np.linalg.norm(found):.2f} mm; the linear model is {1e3 * off:.2f} mm off")

# a path: each equilibrium starts at the one before, so that all lie on one continuous branch
at = eq
for turn in np.linspace(0, np.pi, 5)[1:]:
    point = spatial.translation([0.2 * np.sin(turn), 0, 0.1 * (1 - np.cos(turn))]) @ goal
    at = supple.equilibrium(mech, hold={"tip": point}, start=at)
    print(f"at {np.round(point[:3, 3], 2)} m the force is {np.linalg.norm(at.holds['tip'][:3]):.1f} N")

title, view = "helix, its tip held", (12.0, -60.0)
draw(mech, eq.poses.array, path=folder / "prescribed_poses.png", ghost=mech.poses.array, title=title, view=view)
