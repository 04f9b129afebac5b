"""Derivatives with respect to the two states that a tape starts from in the middle of a run, against central
differences of the simulation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import supple
from mechanisms import KINDS, four_bar, random_mechanism
from mujoco_reference import load_quietly
from small_mechanisms import arm, driven, held_arm, satellite, square, wheels, with_motor
from supple import elastic, spatial
from supple.elastic.cache import with_cached_basis
from supple.engine import Simulation, Tape, adjoint
from supple.engine.dynamics import SavedState, tree_rates
from supple.errors import MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.axes import of_tree
from supple.mechanism.identity import Identity
from supple.retargeting.altered import stiffened

DT = 2e-3
STATES = ("", "_before")


class Objective:
    """A scalar with random weights: linear in coordinates, positions and velocities of bodies, and motor torques."""

    def __init__(self, rng: np.random.Generator, mech: Mechanism, steps: int) -> None:
        n, bodies = steps + 1, len(mech.bodies)
        self.coordinates = rng.normal(size=(n, mech.dof))
        self.points = {body.name: rng.normal(size=(n, 3)) for body in mech.bodies}
        self.velocities = 0.05 * rng.normal(size=(n, bodies, 6))
        self.torques = {motor.name: 0.05 * rng.normal(size=n) for motor in mech.motors}
        for weights in self.torques.values():
            weights[0] = 0  # the torque at the start is kept

    def value(self, tape: Tape) -> float:
        points = sum(np.sum(weights * adjoint.points(tape, name)) for name, weights in self.points.items())
        torques = sum(weights @ tape.torques[name] for name, weights in self.torques.items())
        motion = np.sum(self.coordinates * tape.coordinates) + np.sum(self.velocities * adjoint.velocities(tape))
        return float(points + torques + motion)

    def gradients(self, tape: Tape) -> dict[str, Any]:
        """With respect to the motion, for `adjoint.gradient`."""
        poses = sum(adjoint.point_gradient(tape, name, weights) for name, weights in self.points.items())
        return {
            "coordinates": self.coordinates, "poses": poses, "velocities": self.velocities, "torques": self.torques
        }  # fmt: skip

    def along(self, tape: Tape, motion: adjoint.Motion) -> tuple[float, float]:
        """The derivative along a motion, and the sum of the sizes of its terms."""
        by = self.gradients(tape)
        by["torques"] = np.reshape(list(self.torques.values()), (-1, tape.steps + 1)).T
        terms = [weights * getattr(motion, name)[0] for name, weights in by.items()]
        return float(sum(map(np.sum, terms))), float(sum(np.abs(part).sum() for part in terms))


def central_difference(value: Callable[[float], float], size: float) -> float:
    """Fourth order."""
    near, far = ((value(s) - value(-s)) / (2 * s) for s in (size, 2 * size))
    return (4 * near - far) / 3


def bare(mech: Mechanism) -> Mechanism:
    """The mechanism without what a simulation checks at its start."""
    joints = tuple(replace(j, limits=np.tile([-np.inf, np.inf], (len(j.axes), 1))) for j in mech.joints)
    return replace(mech, joints=joints, motors=(), couplings=(), actuators=())


def fields(sim: Simulation, described: np.ndarray) -> dict[str, np.ndarray]:
    """Views of the two states that the core describes, by name and in its order."""
    eqs, mech = sim._eqs, sim.mechanism
    axes, rows = len(eqs.axis), len(eqs.row) + len(eqs.limit_names)
    bodies, joints = len(mech.bodies), len(mech.joints)
    shapes: dict[str, tuple[int, ...]] = {"q": (axes,), "mu": (rows,)}
    shapes |= dict.fromkeys(("q_before", "p", "p_before", "rate_before", "rate"), (axes,))
    shapes["lambda"] = (joints, 6)
    shapes |= dict.fromkeys(("momentum", "momentum_before", "velocity"), (bodies, 6))
    shapes |= dict.fromkeys(("turn", "centre", "centre_before"), (bodies, 3))
    for state in STATES:
        for k, flexible in enumerate(mech.flexible):
            modes = flexible.basis.modes.shape[2]
            shapes |= {f"c{k}{state}": (3,), f"c_rate{k}{state}": (3,)}
            shapes |= {f"Z{k}{state}": (modes + 1, 3, 3), f"Z_rate{k}{state}": (modes + 1, 3, 3)}
            shapes |= {f"eta{k}{state}": (modes,), f"force{k}{state}": (modes,)}
    found, first = {}, 0
    for name, shape in shapes.items():
        found[name] = described[first : first + int(np.prod(shape))].reshape(shape)
        first += found[name].size
    assert first == described.size
    return found


@dataclass(frozen=True)
class Kinematics:
    """Poses, momenta, ... of a mechanism at coordinates (dof,) that move at rates (dof,)."""

    own: dict[str, np.ndarray]
    R: np.ndarray

    @classmethod
    def of(cls, mech: Mechanism, q: np.ndarray, rates: np.ndarray) -> Kinematics:
        sim = Simulation(bare(mech), DT, q=q, rates=rates)
        return cls(fields(sim, sim._core.described()), sim.poses.array[:, :3, :3])


@dataclass(frozen=True)
class Run:
    """A mechanism in the middle of a run, and directions of its two states."""

    sim: Simulation
    directions: dict[str, np.ndarray]
    """(dof,) of q, rates, q_before and rates_before; those of q before loops are closed again."""
    mass: dict[str, float]
    sparse: bool
    young: float
    """Relative change of the modulus of flexible bodies."""
    steps: int = 8

    def closed(self, q: np.ndarray) -> np.ndarray:
        mech = bare(self.sim.mechanism)
        return np.array(supple.assemble(mech, q).q) if mech.topology.loops else q

    def state(self, saved: np.ndarray, state: str, size: float) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates and rates (dof,) of a state, moved along its directions."""
        mech, own = self.sim.mechanism, fields(self.sim, saved)
        q, rates = of_tree(mech, own[f"q{state}"]), tree_rates(mech, own[f"q{state}"], own[f"rate{state}"])
        moved = self.closed(q + size * self.directions[f"q{state}"]) if size else q
        return moved, rates + size * self.directions[f"rates{state}"]

    def exact(self, saved: np.ndarray) -> dict[str, np.ndarray]:
        """The directions along which the states move, with closed loops."""
        found = dict(self.directions)
        for state in STATES if self.sim.mechanism.topology.loops else ():
            near, far = (
                (self.state(saved, state, s)[0] - self.state(saved, state, -s)[0]) / (2 * s) for s in (1e-3, 2e-3)
            )
            found[f"q{state}"] = (4 * near - far) / 3
        return found

    def altered(self, size: float) -> Mechanism:
        mech = self.sim.mechanism
        bodies = (replace(b, mass=b.mass + size * self.mass.get(b.name, 0.0)) for b in mech.bodies)
        flexible = (replace(f, part=stiffened(f.part, 1 + size * self.young)) for f in mech.flexible)
        return replace(mech, bodies=tuple(bodies), flexible=tuple(flexible))

    def moved(self, saved: np.ndarray, size: float) -> np.ndarray:
        """What the core describes, with both states moved along the directions. Momenta change as kinematics says; the
        rest turns with the bodies."""
        result = saved.copy()
        own, mech = fields(self.sim, result), self.sim.mechanism
        turned = {}
        for state in STATES:
            then = Kinematics.of(mech, *self.state(saved, state, 0.0))
            now = Kinematics.of(self.altered(size), *self.state(saved, state, size))
            turn = now.R @ then.R.transpose(0, 2, 1)
            turned[state] = now.R
            for name in ("q", "p", "rate", "centre", *(("velocity",) if state == "" else ())):
                own[f"{name}{state}"] += now.own[name] - then.own[name]
            rest = (own[f"momentum{state}"] - then.own["momentum"]).reshape(-1, 2, 3)
            for b in mech.bodies if self.mass else ():
                rest[mech.body_index(b.name), 0] *= 1 + size * self.mass[b.name] / b.mass
            own[f"momentum{state}"][:] = np.einsum("bij,bkj->bki", turn, rest).reshape(-1, 6) + now.own["momentum"]
            for k, flexible in enumerate(mech.flexible):
                by = turn[mech.body_index(flexible.reference)]
                for name in ("c", "Z", "eta", "force"):
                    own[f"{name}{k}{state}"] += now.own[f"{name}{k}"] - then.own[f"{name}{k}"]
                for name in (f"c_rate{k}", f"Z_rate{k}"):
                    rest = own[f"{name}{state}"] - then.own[name]
                    own[f"{name}{state}"][:] = rest @ by.T + now.own[name]  # matrices by columns
        relative = turned["_before"].transpose(0, 2, 1) @ turned[""]
        own["turn"][:] = [spatial.log(spatial.pose(R, np.zeros(3)))[3:] for R in relative]
        return result

    def tape(self, saved: SavedState, described: np.ndarray, size: float) -> Tape:
        sim = self.sim
        if self.mass or self.young:
            mech = self.altered(size)
            sim = Simulation(mech, sim.dt, sim.method)
            sim._core.use_passes(not self.sparse)
            saved = replace(saved, of=Identity(mech))
        sim.restore(saved)
        sim._core.set_described(self.moved(described, size))
        with sim.tape() as tape:
            sim.step(self.steps)
        return tape

    def check(self, seed: int = 0, sizes: tuple[float, ...] = (2e-4, 1e-3, 2e-5)) -> adjoint.Gradient:
        """Gradient and tangent agree with central differences, and with each other to rounding."""
        saved, described = self.sim.save(), self.sim._core.described()
        objective = Objective(np.random.default_rng(seed), self.sim.mechanism, self.steps)
        tape = self.tape(saved, described, 0.0)
        directions, gradient = self.exact(described), adjoint.gradient(tape, **objective.gradients(tape))
        products = [float(getattr(gradient, name) @ d) for name, d in directions.items()]
        products += [gradient.mass[name] * change for name, change in self.mass.items()]
        young = {f.name: self.young * f.part.material.young for f in self.sim.mechanism.flexible}
        products += [gradient.young[name] * change for name, change in young.items()]
        motion = adjoint.tangent(
            tape,
            **{name: d[None] for name, d in directions.items()},
            mass={name: [change] for name, change in self.mass.items()},
            young={name: [change] for name, change in young.items()},
        )
        forward, terms = objective.along(tape, motion)
        scale = sum(map(abs, products)) + terms
        assert abs(forward - sum(products)) < 1e-11 * scale

        def error(size: float) -> float:
            difference = central_difference(lambda s: objective.value(self.tape(saved, described, s)), size)
            return abs(difference - sum(products)) / scale

        assert any(error(size) < 1e-7 for size in sizes)
        return gradient


def swinging(
    mech: Mechanism,
    method: str = "bdf2",
    *,
    sparse: bool = False,
    q: np.ndarray | None = None,
    rates: np.ndarray | None = None,
    motors: dict[str, Callable[[float], float]] | None = None,
    steps: int = 9,
    dt: float = DT,
    masses: bool = False,
    young: float = 0.0,
    seed: int = 0,
) -> Run:
    """A run after some steps with a load, and random directions of its states."""
    rng = np.random.default_rng(seed)
    sim = Simulation(mech, dt, method, q=q, rates=rates, motors=motors)
    sim._core.use_passes(not sparse)
    sim.apply(mech.bodies[-1].name, rng.normal(size=6))
    sim.step(steps)
    names = [f"{what}{state}" for what in ("q", "rates") for state in STATES]
    mass = {b.name: 0.1 * b.mass for b in mech.bodies} if masses else {}
    unit = np.where([".eta" in name for name in mech.coordinates], 1e-3, 1.0)  # amplitudes of modes in mm
    sizes = {name: unit * (50.0 if "rates" in name else 1.0) for name in names}  # so that all change the motion alike
    return Run(sim, {name: size * rng.normal(size=mech.dof) for name, size in sizes.items()}, mass, sparse, young)


def speeds(mech: Mechanism, size: float = 1.0) -> np.ndarray:
    return size * np.random.default_rng(4).normal(size=mech.dof)


@pytest.mark.parametrize("method", ["bdf2", "euler"])
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "fixed"])
def test_joints_of_every_kind(kind: str, method: str) -> None:
    mech = random_mechanism(np.random.default_rng(KINDS.index(kind)), 3, [kind], sites=1)
    swinging(mech, method, rates=speeds(mech)).check()


@pytest.mark.parametrize("method", ["bdf2", "euler"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("mech", [satellite(), arm(), held_arm()], ids=lambda m: m.name)
def test_trees_and_a_bushing(mech: Mechanism, sparse: bool, method: str) -> None:
    gradient = swinging(mech, method, sparse=sparse, rates=speeds(mech)).check()
    uses_before = method == "bdf2"
    assert np.any(gradient.q_before) == uses_before
    assert np.any(gradient.rates_before) == uses_before


@pytest.mark.parametrize("sparse", [False, True])
def test_motors_and_couplings(sparse: bool) -> None:
    for mech in (driven(), with_motor()):
        motors = {mech.motors[0].name: lambda t: 0.3 * np.sin(5 * t)}
        swinging(mech, sparse=sparse, motors=motors).check()
    swinging(wheels(stiffness=20.0, damping=1.0), sparse=sparse, rates=np.array([1.0, -2.0])).check()


@pytest.mark.parametrize("method", ["bdf2", "euler"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "mech",
    [
        square(a={"stiffness": 3.0, "damping": 0.1}, d={"stiffness": 2.0, "damping": 0.2}),
        four_bar(stiffness=5.0, damping=0.1),
        supple.library.ladder(),
    ],
    ids=["square", "four-bar", "ladder"],
)
def test_loops(mech: Mechanism, sparse: bool, method: str) -> None:
    swinging(mech, method, sparse=sparse, steps=40).check()


def test_a_gripper(robots: Path) -> None:
    mech = load_quietly(robots / "robotiq_2f85" / "2f85.xml")
    half = supple.assemble(mech, {f"{side}_driver_joint": 0.4 for side in ("left", "right")})
    swinging(mech, q=half.q).check()


@pytest.mark.parametrize("method", ["bdf2", "euler"])
def test_a_flexible_body(method: str) -> None:
    part = elastic.rod(0.4, 0.004, elastic.spring_steel(), sections=12)
    build = supple.Builder("cantilever", gravity=(2.0, 0, -9.81))
    build.flexible("rod", with_cached_basis(part, modes=8, plane="y"))
    build.hinge("foot", "world", "rod.start", at=(0, 0, 0), axis="y", stiffness=20.0)
    build.body("tip", spatial.translation(np.array([0, 0, 0.4])), 0.1, inertia=(1e-5,) * 3)
    build.hinge("hold", "rod.end", "tip", at=(0, 0, 0.4), axis="y", stiffness=1.0, damping=1e-3)
    mech = build.build()
    swinging(mech, method, rates=speeds(mech, 0.1), young=1.0).check()


@pytest.mark.parametrize("sparse", [False, True])
def test_masses_of_a_moving_mechanism(sparse: bool) -> None:
    """Masses change the momenta of both states."""
    swinging(satellite(), sparse=sparse, rates=speeds(satellite()), masses=True).check()


def in_parts(mech: Mechanism, method: str, sparse: bool) -> tuple[Tape, Tape, Tape]:
    """Tapes of nine steps in the middle of a run, of the first five and of the last four."""
    motors = {motor.name: lambda t: 0.3 * np.sin(5 * t) for motor in mech.motors}
    rates = None if motors or mech.topology.loops else speeds(mech)
    sim = swinging(mech, method, sparse=sparse, rates=rates, motors=motors).sim
    saved, tapes = sim.save(), []
    for steps in (9, 5, 4):
        if steps == 5:
            sim.restore(saved)
        with sim.tape() as tape:
            sim.step(steps)
        tapes.append(tape)
    whole, first, second = tapes
    return whole, first, second


MOVING = [
    satellite(),
    arm(),
    with_motor(),
    square(c={"stiffness": 5.0, "damping": 0.1}),
    random_mechanism(np.random.default_rng(8), 6, ["fixed", "ball", "hinge"], free_base=True, sprung=False),
]


@pytest.mark.parametrize("method", ["bdf2", "euler"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("mech", MOVING, ids=lambda m: m.name)
def test_gradients_of_a_tape_in_two_parts(mech: Mechanism, sparse: bool, method: str) -> None:
    """Gradients with respect to the states before the second part are gradients of the motion of the first."""
    whole, first, second = in_parts(mech, method, sparse)
    by = Objective(np.random.default_rng(1), mech, 9).gradients(whole)
    torques = by.pop("torques")
    expected = adjoint.gradient(whole, **by, torques=torques)
    after = {name: rows[5:] for name, rows in by.items()}
    later = adjoint.gradient(second, **after, torques={name: row[5:] for name, row in torques.items()})
    by = {name: rows[:6].copy() for name, rows in by.items()}
    for rows in by.values():
        rows[5] = 0  # counted in the second part
    by["coordinates"][4:] += [later.coordinates_before, later.coordinates]
    by["velocities"][4:] += [later.velocities_before, later.velocities]
    found = adjoint.gradient(first, **by, torques={name: row[:6] for name, row in torques.items()})
    largest = np.abs(expected.q).max()
    for name in ("q", "rates", "q_before", "rates_before"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-10 * largest)
    for name, value in expected.mass.items():
        assert found.mass[name] + later.mass[name] == pytest.approx(value, rel=1e-9, abs=1e-12)
    for name, rows in expected.motors.items():
        parts = np.append(found.motors[name], later.motors[name][1:])
        np.testing.assert_allclose(parts, rows, rtol=0, atol=1e-10 * np.abs(rows).max())


@pytest.mark.parametrize("method", ["bdf2", "euler"])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("mech", MOVING, ids=lambda m: m.name)
def test_directions_of_a_tape_in_two_parts(mech: Mechanism, sparse: bool, method: str) -> None:
    whole, first, second = in_parts(mech, method, sparse)
    rng, body = np.random.default_rng(2), mech.bodies[-1].name
    loads = rng.normal(size=(2, 10, 6))
    expected = adjoint.tangent(whole, loads={body: loads}, mass={body: [0.1, 0.2]})
    moved = adjoint.tangent(first, loads={body: loads[:, :6]}, mass={body: [0.1, 0.2]})
    found = adjoint.tangent(
        second, q=moved.coordinates[:, -1], velocities=moved.velocities[:, -1], q_before=moved.coordinates[:, -2],
        velocities_before=moved.velocities[:, -2], loads={body: loads[:, 5:]}, mass={body: [0.1, 0.2]},
    )  # fmt: skip
    for name in ("coordinates", "poses", "velocities"):
        rows = getattr(expected, name)[:, 5:]
        np.testing.assert_allclose(getattr(found, name), rows, rtol=0, atol=1e-10 * np.abs(rows).max())


def test_refusals() -> None:
    mech = arm()
    tape = swinging(mech).sim.tape()
    tape.stop()
    for wrong in ({"q_before": np.zeros((1, 2))}, {"velocities": np.zeros((1, 2, 3))}):
        with pytest.raises(MechanismError, match=next(iter(wrong))):
            adjoint.tangent(tape, **wrong)
    with pytest.raises(MechanismError, match="velocities_before"):
        adjoint.tangent(tape, q=np.zeros((2, mech.dof)), velocities_before=np.zeros((1, 2, 6)))
