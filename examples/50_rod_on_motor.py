"""A flexible rod on a motor: frequencies, sag, and the vibration that a quick turn leaves behind.

Writes a picture into the folder given (by default the current one):  python 50_rod_on_motor.py docs/pictures
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import supple

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
mech = supple.library.rod_on_motor(modes=8, sections=12)
upright = supple.equilibrium(mech)
first, second = supple.modes(mech, at=upright, count=2).frequencies
print(f"upright the rod vibrates at {first:.3f} and {second:.2f} Hz")

angle = np.radians(30)
rigid = 0.7 * np.array([np.sin(angle), 0, np.cos(angle)])
turned = supple.equilibrium(mech, targets={"motor": angle})
sag = np.linalg.norm(turned.poses["tip"][:3, 3] - rigid)
print(f"at 30 degrees the tip sags by {1e3 * sag:.1f} mm")


def ramp(t):
    """Hold for 0.2 s, then 30 degrees in 0.4 s."""
    return angle * np.clip((t - 0.2) / 0.4, 0, 1)


dt = 1e-3
sim = supple.Simulation(mech, dt, "bdf2", at=upright, motors={"motor": ramp})
times, deviations = [], []
for _ in range(3000):
    sim.step()
    now = ramp(sim.time)
    times.append(sim.time)
    deviations.append(sim.poses["tip"][:3, 3] @ [np.cos(now), 0, -np.sin(now)])
deviations = 1e3 * np.array(deviations)
after = deviations[np.array(times) > 0.6]
print(f"after the turn the tip swings by {np.ptp(after):.0f} mm from peak to peak")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3), width_ratios=(2, 1))
left.plot(times, deviations, color="#d1495b")
left.axvspan(0.2, 0.6, color="#dfe5ea", label="the motor turns")
left.set(xlabel="time, s", ylabel="tip, mm from the turned axis")
left.legend(loc="lower right")
part = mech.flexible[0].part
for eq, colour in ((upright, "#8fa3b5"), (turned, "#d1495b")):
    eta = eq.coordinates["rod.end"]
    frame = eq.poses["rod.start"]
    nodes = part.nodes - part.basis.origin + part.basis.displacements(eta)
    line = nodes[np.linalg.norm(part.nodes[:, :2], axis=1) < 1e-9] @ frame[:3, :3].T + frame[:3, 3]
    line = line[np.argsort(line @ [0, 0, 1])]
    right.plot(line[:, 0], line[:, 2], color=colour, lw=2)
right.plot([0, rigid[0]], [0, rigid[2]], color="#8fa3b5", lw=1, ls="--")
right.set(aspect="equal", xlabel="x, m", ylabel="z, m")
figure.tight_layout()
figure.savefig(folder / "rod_on_motor.png", dpi=90)
