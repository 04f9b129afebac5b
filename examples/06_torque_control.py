"""A six-axis arm under torque control: inverse kinematics, then a PD controller with gravity compensation.

Writes a plot of the errors into the folder given (by default the current one):
python 06_torque_control.py docs/pictures
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import supple

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")

b = supple.Builder("arm")
points = [(0, 0, 0), (0, 0, 0.3), (0, 0, 0.75), (0.1, 0, 0.75), (0.45, 0, 0.75), (0.55, 0, 0.75), (0.6, 0, 0.75)]
for i, (axis, mass) in enumerate(zip("zyyxyx", (4.0, 6.0, 2.0, 3.0, 1.0, 0.5), strict=True)):
    b.link(f"link{i}", points[i], points[i + 1], mass, radius=0.05)
    b.hinge(f"axis{i}", f"link{i - 1}" if i else "world", f"link{i}", points[i], axis, armature=0.1, effort=150.0)
b.site("hand", "link5", at=points[-1])
arm = b.build()

# ten lines: from a pose of the hand to torques
pose = arm.poses["hand"].copy()
pose[:3, 3] += [-0.1, 0.3, -0.2]
goal = supple.inverse_kinematics(arm, {"hand": pose})
sim = supple.Simulation(arm, dt=1e-3)
stiffness, damping = 400.0, 60.0
times, errors = [], []
for _ in range(3000):
    sim.set_torque(stiffness * (goal.q - sim.q) - damping * sim.qd + supple.gravity_torques(arm, sim.q))
    sim.step()
    times.append(sim.time)
    errors.append(goal.q - sim.q)

print(f"inverse kinematics: {goal.status}, residual {goal.residual:.0e}, {goal.iterations} iterations")
print(f"error of the joints after {sim.time:g} s: {1e3 * np.abs(errors[-1]).max():.3f} mrad")
print(f"error of the hand: {1e3 * np.linalg.norm(sim.poses['hand'][:3, 3] - pose[:3, 3]):.3f} mm")
assert goal.reached
assert np.abs(errors[-1]).max() < 1e-3

# the torques of a motion that the controller only follows: feed them forward and the arm does not lag behind
sim.reset()
start, half = np.asarray(sim.q), 0.5 * (goal.q - sim.q)
for k in range(1000):  # the torques of a step act at its end
    t = 1e-3 * (k + 1)
    q, qd, qdd = (start + half * (1 - np.cos(np.pi * t)), half * np.pi * np.sin(np.pi * t),
                  half * np.pi**2 * np.cos(np.pi * t))  # fmt: skip
    tau = supple.inverse_dynamics(arm, q, qd, qdd)
    sim.set_torque(tau + stiffness * (q - sim.q) + damping * (qd - sim.qd))
    sim.step()
print(f"with inverse dynamics along a path of 1 s: {1e3 * np.abs(q - sim.q).max():.3f} mrad off at its end")
assert np.abs(q - sim.q).max() < 1e-3

figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
axes.semilogy(times, 1e3 * np.abs(errors), lw=1.2, label=list(arm.coordinates))
axes.set(xlabel="time, s", ylabel="error, mrad", title="PD with gravity compensation")
axes.legend(frameon=False, fontsize=8, ncols=2)
axes.spines[["top", "right"]].set_visible(False)
figure.savefig(folder / "torque_control.png", dpi=90)
