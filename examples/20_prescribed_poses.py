"""Statics at prescribed poses: both tips of the Y are held where a task needs them, then one is led along a path.

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
mech = supple.library.y()
tips = ["left_tip", "right_tip"]

# the left tip is moved and turned, the right one moved: its rotations stay free
left = mech.poses["left_tip"] @ spatial.pose(spatial.so3_exp([0, 0, 0.4]), [0, 0, 0])
left[:3, 3] += [0.25, 0.2, -0.1]
right = spatial.translation(mech.poses["right_tip"][:3, 3] + [0.2, -0.25, -0.2])
hold = {"left_tip": left, "right_tip": Hold(right, ("x", "y", "z"))}
eq = supple.equilibrium(mech, hold=hold)
for name in tips:
    print(f"{name} needs {np.round(eq.holds[name][:3], 3)} N and {np.round(eq.holds[name][3:] + 0.0, 3)} N m")
again = supple.equilibrium(mech, eq.holds)  # the wrenches alone
assert np.allclose(again.poses.array, eq.poses.array, atol=1e-8)

# the linear model there: what 1 N more does to the left tip while the wrenches stay
model = eq.linear(tips)
more = np.array([0, 0, 1.0, 0, 0, 0])
moved = (model.compliance_at("left_tip", axes="world") @ more)[:3]
exact = supple.equilibrium(mech, eq.holds | {"left_tip": eq.holds["left_tip"] + more}, start=eq)
found = exact.poses["left_tip"][:3, 3] - left[:3, 3]
off = np.linalg.norm(moved - found)
print(f"1 N more moves it by {1e3 * np.linalg.norm(found):.2f} mm; the linear model is {1e3 * off:.2f} mm off")

# a path: every equilibrium starts at the one before, so that all lie on one continuous branch
at, forces = eq, []
for share in np.linspace(0, 1, 11)[1:]:
    hold["left_tip"] = left @ spatial.exp(share * np.array([0, 0.1, 0.2, 0, 0.5, 0]))
    at = supple.equilibrium(mech, hold=hold, start=at)
    forces.append(np.linalg.norm(at.holds["left_tip"][:3]))
print(f"along the path the force on the left tip changes from {forces[0]:.2f} to {forces[-1]:.2f} N")

draw(mech, eq.poses.array, path=folder / "prescribed_poses.png", ghost=mech.poses.array, title="Y, both tips held")
