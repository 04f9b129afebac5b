"""A vehicle with wheel suspension that drives over bumps."""

from __future__ import annotations

import numpy as np

from supple import spatial
from supple.mechanism import Builder, Mechanism, Shape
from supple.mechanism.shapes import HeightField
from supple.reduced import ReducedSimulation
from supple.world.objects import moments
from supple.world.scenes._scene import Scene, motion
from supple.world.world import World

CHASSIS = (1.6, 0.6, 0.15)
WHEEL = 0.30
"""m: half lengths of the chassis, radius of a wheel."""
ARM = 0.35
"""m, length of a wishbone."""
CORNERS = ("front_left", "front_right", "back_left", "back_right")


def robot(stiffness: float = 3000.0, damping: float = 240.0) -> Mechanism:
    """A chassis of 280 kg on four double wishbones, each a closed loop of two arms and a wheel carrier, sprung and
    damped at the lower arm (N m/rad, N m s/rad). Wheels are spheres that slide without friction and do not turn."""
    b = Builder("vehicle")
    high = WHEEL + 0.05
    shape = Shape("box", CHASSIS, np.eye(4), friction=(0.0, 0, 0))  # type: ignore[arg-type]
    inertia = 280.0 * moments("box", shape.size)
    b.body("chassis", spatial.translation([0.0, 0, high + 0.25]), 280.0, inertia=inertia, shapes=[shape])
    b.free("float", "world", "chassis")
    for i, name in enumerate(CORNERS):
        x, side = (1.25, -1.25)[i // 2], (1.0, -1.0)[i % 2]
        inner, outer = side * CHASSIS[1], side * (CHASSIS[1] + ARM)
        low_in, low_out = np.array([x, inner, high]), np.array([x, outer, high - 0.05])
        up_in, up_out = np.array([x, inner, high + 0.22]), np.array([x, outer - 0.05 * side, high + 0.2])
        wheel = np.array([x, outer + 0.12 * side, WHEEL])
        b.link(f"{name}_lower", low_in, low_out, 4.0, 0.025)
        b.link(f"{name}_upper", up_in, up_out, 3.0, 0.02)
        ball = Shape("sphere", (WHEEL,), np.eye(4), friction=(0.0, 0, 0))  # type: ignore[arg-type]
        b.body(f"{name}_wheel", spatial.translation(wheel), 18.0, inertia=18.0 * moments("sphere", np.array([WHEEL])),
               shapes=[ball])  # fmt: skip
        b.hinge(f"{name}_spring", "chassis", f"{name}_lower", low_in, "x", stiffness=stiffness, damping=damping)
        b.hinge(f"{name}_top", "chassis", f"{name}_upper", up_in, "x")
        b.hinge(f"{name}_low_joint", f"{name}_lower", f"{name}_wheel", low_out, "x")
        b.hinge(f"{name}_up_joint", f"{name}_upper", f"{name}_wheel", up_out, "x")
    return b.build()


def bumps(height: float, length: float = 40.0) -> HeightField:
    """A track along x: a corrugated part, then single bumps on alternating sides."""
    nx, ny = 801, 9
    x, y = np.linspace(-5.0, length - 5.0, nx), np.linspace(-3.0, 3.0, ny)
    along = np.zeros((ny, nx))
    board = (x > 6) & (x < 14)
    along[:, board] = height / 2 * (1 - np.cos(2 * np.pi * (x[board] - 6) / 2.0))
    for start, side in ((18.0, 1), (23.0, -1), (28.0, 1)):
        bump = (x > start) & (x < start + 1.5)
        rows = (y * side) > 0.2
        along[np.ix_(rows, bump)] = height * (1 - np.cos(2 * np.pi * (x[bump] - start) / 1.5)) / 2 * 1.3
    middle = (length - 10.0) / 2
    pose = spatial.translation([middle, 0.0, 0.0])
    return HeightField(along, (length / 2, 3.0), pose, "track", (0.0, 0, 0))  # type: ignore[arg-type]


def suspension(level: str = "reduced", dt: float = 1e-3, speed: float = 6.0, height: float = 0.05) -> Scene:
    """A vehicle coasts at `speed` m/s over bumps of `height` m. It is reduced to its four wheels and its moving
    chassis, or simulated in full (`level="full"`)."""
    mech = robot()
    sim = (
        motion(mech, [f"{name}_wheel" for name in CORNERS], dt, level)
        if level != "full"
        else _coasting(mech, dt, speed)
    )
    if isinstance(sim, ReducedSimulation):
        sim.set_base_velocity([speed, 0, 0, 0, 0, 0])
    world = World()
    world.add(sim)
    track = bumps(height)
    world.ground(track, Shape("plane", (0, 0, 1), np.eye(4), name="beyond", friction=(0.0, 0, 0)))  # type: ignore[arg-type]
    return Scene("a vehicle over bumps", world, sim, (track,))


def _coasting(mech: Mechanism, dt: float, speed: float):  # type: ignore[no-untyped-def]
    from supple.engine import Simulation

    rates = np.zeros(mech.dof)
    rates[list(mech.coordinates).index("float.0")] = speed
    return Simulation(mech, dt, rates=rates)
