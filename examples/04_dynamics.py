"""A motor turns a four-bar linkage that carries an arm with springs: tip path and energy with two integrators.

Writes a plot into the folder given (by default the current one):  python 04_dynamics.py docs/pictures
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import supple

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")

b = supple.Builder("whip")
b.link("crank", start=(0, 0, 0), end=(0, 0, 0.15), mass=0.3)
b.link("coupler", start=(0, 0, 0.15), end=(0.6, 0, 0.4), mass=0.6)
b.link("rocker", start=(0.5, 0, 0), end=(0.6, 0, 0.4), mass=0.5)
b.hinge("axle", "world", "crank", at=(0, 0, 0), axis="y")
b.hinge("knee", "crank", "coupler", at=(0, 0, 0.15), axis="y", damping=0.01)
b.hinge("pivot", "world", "rocker", at=(0.5, 0, 0), axis="y", damping=0.01)
b.hinge("closure", "rocker", "coupler", at=(0.6, 0, 0.4), axis="y")
for i in range(6):  # an arm of links with springs on the rocker
    below, foot = (f"arm_{i - 1}" if i else "rocker"), np.array([0.6, 0, 0.4 + 0.08 * i])
    b.link(f"arm_{i}", start=foot, end=foot + [0, 0, 0.08], mass=0.05)
    b.hinge(f"bend_{i}", below, f"arm_{i}", at=foot, axis="y", stiffness=11.0, damping=0.02)
b.site("tip", "arm_5", at=(0.6, 0, 0.88))
b.motor("drive", "axle")
mech = b.build()


def crank_angle(t):
    """Angle of the crank: it accelerates for one second, then makes one turn per second."""
    return 2 * np.pi * (t**2 / 2 if t < 1 else t - 0.5)


def simulate(method, dt, duration=3.0):
    """Returns times (n,), tip positions (n, 3) and energies (n,) at every step."""
    sim = supple.Simulation(mech, dt, method, motors={"drive": crank_angle})
    times, path, energy = [], [], []
    for _ in range(round(duration / dt)):
        sim.step()
        times.append(sim.time)
        path.append(sim.poses["tip"][:3, 3])
        energy.append(sim.energy.total)
    assert sim.gap < 1e-9
    return np.array(times), np.array(path), np.array(energy)


truth = simulate("bdf2", 2.5e-4)
runs = {("euler", 4e-3): "#d1495b", ("bdf2", 4e-3): "#2e86ab"}
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
left.plot(*truth[1][:, ::2].T, color="#2b2f36", lw=0.8, label="bdf2, 0.25 ms")
right.plot(truth[0], truth[2], color="#2b2f36", lw=0.8, label="bdf2, 0.25 ms")
for (method, dt), colour in runs.items():
    times, path, energy = simulate(method, dt)
    exact = truth[1][round(dt / 2.5e-4) - 1 :: round(dt / 2.5e-4)]
    print(f"{method} with dt = {dt:g} s: tip off by at most {1e3 * np.abs(path - exact).max():.1f} mm in 3 s")
    left.plot(*path[:, ::2].T, color=colour, lw=1.2, ls="--", label=f"{method}, {1e3 * dt:g} ms")
    right.plot(times, energy, color=colour, lw=1.2, ls="--", label=f"{method}, {1e3 * dt:g} ms")
left.set(xlabel="x, m", ylabel="z, m", title="path of the tip")
right.set(xlabel="time, s", ylabel="J", title="energy: kinetic, strain and weight")
right.legend(frameon=False, fontsize=8)
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)
figure.savefig(folder / "dynamics.png", dpi=90)
