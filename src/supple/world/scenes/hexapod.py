"""A six-legged robot that walks over uneven ground."""

from __future__ import annotations

import numpy as np

from supple import spatial
from supple.mechanism import Builder, Mechanism, Shape
from supple.mechanism.record import Array
from supple.mechanism.shapes import HeightField
from supple.world.objects import moments
from supple.world.scenes._scene import Scene, motion
from supple.world.world import World

HULL = (0.20, 0.10, 0.03)
HIP, THIGH, SHIN = 0.05, 0.10, 0.16
"""m: half lengths of the hull, and lengths of the legs' links."""
FOOT = 0.018
"""m, radius of a foot."""
STAND = SHIN + FOOT + THIGH * np.sin(-0.35)
"""m, height of the hips above the ground."""
NAMES = ("left_front", "left_middle", "left_back", "right_front", "right_middle", "right_back")


def robot(stiffness: float = 60.0, damping: float = 1.2) -> Mechanism:
    """A hull of 4 kg on six legs of three sprung hinges each (N m/rad, N m s/rad): `swing` turns a leg forwards
    and backwards, `lift` and `bend` lift it. Only the feet (spheres at the sites `foot`) and the hull have contact."""
    b = Builder("hexapod")
    hull = Shape("box", HULL, np.eye(4), friction=(0.8, 0, 0))  # type: ignore[arg-type]
    high = STAND
    b.body(
        "hull", spatial.translation([0.0, 0, high]), 4.0, inertia=4.0 * moments("box", np.array(HULL)), shapes=[hull]
    )
    b.free("float", "world", "hull")
    spring = {"stiffness": stiffness, "damping": damping}
    for i, name in enumerate(NAMES):
        side, along = (1.0, -1.0)[i // 3], (0.16, 0.0, -0.16)[i % 3]
        out = np.array([0.0, side, 0.0])
        hip = np.array([along, side * HULL[1], high])
        knee = hip + HIP * out
        ankle = knee + THIGH * (np.cos(0.35) * out + np.array([0, 0, np.sin(0.35)]))
        foot = ankle - np.array([0, 0, SHIN])
        fore = np.array([1.0, 0, 0])
        _link(b, f"{name}_hip", hip, knee, 0.10)
        _link(b, f"{name}_thigh", knee, ankle, 0.15)
        _link(b, f"{name}_shin", ankle, foot, 0.10, foot=True)
        b.hinge(f"{name}_swing", "hull", f"{name}_hip", hip, (0.0, 0, side), **spring)
        b.hinge(f"{name}_lift", f"{name}_hip", f"{name}_thigh", knee, side * fore, **spring)
        b.hinge(f"{name}_bend", f"{name}_thigh", f"{name}_shin", ankle, side * fore, **spring)
        b.site(f"{name}_foot", f"{name}_shin", foot)
    return b.build()


def _link(b: Builder, name: str, start: Array, end: Array, mass: float, foot: bool = False) -> None:
    length, radius = float(np.linalg.norm(end - start)), 0.012
    rod = Shape("capsule", (radius, length / 2 - radius / 2), spatial.translation([0.0, 0, length / 2]),  # type: ignore[arg-type]
                contact_type=0, contact_affinity=0)  # fmt: skip
    shapes = [rod]
    if foot:
        at = spatial.translation([0.0, 0, length])
        shapes.append(Shape("sphere", (FOOT,), at, friction=(0.8, 0, 0)))  # type: ignore[arg-type]
    turn = spatial.rotation_between([0.0, 0, 1], (end - start) / length)
    across = mass * (3 * radius**2 + length**2) / 12
    inertia = (across, across, mass * radius**2 / 2)
    b.body(name, spatial.pose(turn, start), mass, (0, 0, length / 2), inertia, shapes)


def uneven(height: float = 0.02, size: float = 3.0, seed: int = 7) -> HeightField:
    """Smooth bumps up to `height` m on a square of half length `size` m, flat around the centre."""
    n = 121
    grid = np.linspace(-size, size, n)
    x, y = np.meshgrid(grid, grid)
    rng, heights = np.random.default_rng(seed), np.zeros((n, n))
    for _ in range(24):
        wave, phase = rng.normal(size=2) * 6.0, rng.uniform(0, 2 * np.pi)
        heights += np.sin(wave[0] * x + wave[1] * y + phase)
    heights *= height / np.abs(heights).max()
    start = np.clip((np.hypot(x, y) - 0.35) / 0.3, 0, 1)
    return HeightField(heights * start**2 * (3 - 2 * start), (size, size), np.eye(4), "uneven", (0.8, 0, 0))  # type: ignore[arg-type]


def gait(stride: float = 0.22, lift: float = 0.45, period: float = 0.8, start: float = 0.5):  # type: ignore[no-untyped-def]
    """Set-points of a tripod gait: three feet push while the other three swing forward (rad, s)."""

    def steer(time: float) -> dict[str, float]:
        targets = {}
        ramp = float(np.clip((time - start) / period, 0, 1))
        for i, name in enumerate(NAMES):
            phase = 2 * np.pi * ((time - start) / period + 0.5 * ((i % 3 + i // 3) % 2))
            targets[f"{name}_swing"] = ramp * stride * float(np.cos(phase))
            targets[f"{name}_lift"] = ramp * lift * max(0.0, float(np.sin(phase)))
        return targets

    return steer


def hexapod(level: str = "reduced", dt: float = 1e-3, height: float = 0.02) -> Scene:
    """A six-legged robot walks over bumps up to `height` m. It is reduced to its six feet and its moving hull, or
    simulated in full (`level="full"`)."""
    mech = robot()
    sim = motion(mech, [f"{name}_foot" for name in NAMES], dt, level)
    world = World()
    world.add(sim)
    ground = uneven(height)
    beyond = Shape("plane", (0, 0, 1), spatial.translation([0.0, 0, float(ground.heights.min())]), name="beyond")  # type: ignore[arg-type]
    world.ground(ground, beyond)
    return Scene("a six-legged robot on uneven ground", world, sim, (ground,), gait())
