"""The compiled reduced simulation against the same equations in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import mechanisms
import supple
from engine_reference import unlimited
from supple import spatial

MODELS = {
    "helix": lambda: supple.reduce(supple.library.helix(37), ["tip"], modes=3),
    "y": lambda: supple.reduce(supple.library.y(), ["left_tip", "right_tip"]),
    "ladder": lambda: supple.reduce(supple.library.ladder(5), ["tip", "rung_2"]),
    "loaded": lambda: loaded(),
    "random": lambda: random_model(),
}


def loaded() -> supple.ReducedModel:
    mech = supple.library.helix(9)
    return supple.reduce(mech, ["tip"], at=supple.equilibrium(mech, {"tip": [0, 30, 60, 1, 0, 0]}))


def random_model() -> supple.ReducedModel:
    rng = np.random.default_rng(12)
    mech = unlimited(mechanisms.random_mechanism(rng, 11, ("hinge", "ball", "universal", "slide"), sites=4))
    sites = [site.name for site in mech.sites if site.body != "world"]
    return supple.reduce(mech, [mech.bodies[-1].name, sites[0]])


def turned(rotation: np.ndarray, wrench: np.ndarray) -> np.ndarray:
    return np.concatenate([rotation @ wrench[:3], rotation @ wrench[3:]])


def by_tip(rows: np.ndarray, xi: np.ndarray, wrench: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """E^T Jr^T S Jr E, where S x is the change of -Jr^T w by a twist x of the tip: 1/2 ad(x)^T w, and `lost` (6, 3)
    times its rotation for a wrench that does not turn with the tip."""
    columns = []
    for x in np.eye(6):
        bracket = np.zeros((6, 6))  # ad(x) y = [x, y]
        bracket[:3, :3] = bracket[3:, 3:] = spatial.skew(x[3:])
        bracket[:3, 3:] = spatial.skew(x[:3])
        columns.append(0.5 * bracket.T @ wrench + lost @ x[3:])
    jacobian = spatial.right_jacobian(xi) @ rows
    return jacobian.T @ np.array(columns).T @ jacobian


class Twin:
    """Linearly implicit Euler: (M + h D + h^2 (K + K_g)) v' = M v + h (f - b - K (y - y_target)).

    The geometric stiffness K_g of the loads is left out where it makes a positive K indefinite.
    """

    def __init__(self, model: supple.ReducedModel, dt: float) -> None:
        self.model, self.h = model, dt
        self.mass, self.damping, self.stiffness = (
            model.basis.T @ matrix @ model.basis for matrix in (model.mass, model.damping, model.stiffness)
        )
        e = len(model.end_effectors)
        self.bias = model.basis[: 6 * e].T @ model.wrenches
        self.y, self.v = np.zeros(len(self.mass)), np.zeros(len(self.mass))
        self.target = np.zeros(len(self.mass))
        self.shift = np.zeros(len(model.basis))
        self.loads: dict[str, tuple[np.ndarray, str]] = {}
        self.handles: dict[str, tuple[np.ndarray, np.ndarray, float, float]] = {}
        self._loads_of: tuple = ()
        self._geometric = np.zeros_like(self.mass)

    def tip(self, name: str):
        i = self.model.end_effectors.index(name)
        rows = self.model.basis[6 * i : 6 * i + 6]
        xi = rows @ self.y + self.shift[6 * i : 6 * i + 6]
        return rows, xi, self.model.end_effector_poses[i] @ spatial.exp(xi)

    def geometric_stiffness(self) -> np.ndarray:
        """-df/dy of the loads where the set-points hold the model, with the tip's frame there as the origin of xi."""
        y, self.y = self.y, self.target
        result = np.zeros_like(self.mass)
        for name, (wrench, frame) in self.loads.items():
            rows, xi, pose = self.tip(name)
            body = turned(pose[:3, :3].T, wrench) if frame == "world" else wrench
            lost = -np.vstack([spatial.skew(body[:3]), spatial.skew(body[3:])])
            result += by_tip(rows, xi, body, lost if frame == "world" else 0 * lost)
        self.y = y
        return result

    def step(self) -> None:
        h = self.h
        system = self.mass + h * self.damping + h * h * self.stiffness
        key = (self.target.tobytes(), *((n, w.tobytes(), f) for n, (w, f) in self.loads.items()))
        if key != self._loads_of:
            self._loads_of, K_g = key, self.geometric_stiffness()
            lowest = [np.linalg.eigvalsh(self.stiffness + each)[0] for each in (0 * K_g, (K_g + K_g.T) / 2)]
            self._geometric = K_g * (lowest[0] <= 0 or lowest[1] > 0)
        system += h * h * self._geometric
        right = self.mass @ self.v + h * (self.stiffness @ (self.target - self.y) - self.bias)
        for name, (wrench, frame) in self.loads.items():
            rows, xi, pose = self.tip(name)
            body = turned(pose[:3, :3].T, wrench) if frame == "world" else wrench
            right += h * rows.T @ (spatial.right_jacobian(xi).T @ body)
        for name, (held, point, k, d) in self.handles.items():
            rows, xi, pose = self.tip(name)
            rotation = pose[:3, :3]
            jacobian = np.hstack([rotation, -rotation @ spatial.skew(held)]) @ spatial.right_jacobian(xi) @ rows
            right += h * k * jacobian.T @ (point - rotation @ held - pose[:3, 3])
            system = system + h * (h * k + d) * jacobian.T @ jacobian
            if np.linalg.eigvalsh(self.stiffness)[0] <= 0:  # the handle's geometric stiffness counts too
                force = k * rotation.T @ (point - rotation @ held - pose[:3, 3])
                body = np.concatenate([force, np.cross(held, force)])
                lost = -np.vstack([np.eye(3), spatial.skew(held)]) @ spatial.skew(force)
                system = system + h * h * by_tip(rows, xi, body, lost)
        self.v = np.linalg.solve(system, right)
        self.y = self.y + h * self.v

    def poses(self) -> np.ndarray:
        return self.model.rest_poses.array @ spatial.exp(self.model.motion_map @ (self.model.basis @ self.y))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("dt", [1e-4, 2e-3, 0.05])
def test_steps_and_links(name, dt):
    model = MODELS[name]()
    fast, twin = supple.ReducedSimulation(model, dt), Twin(model, dt)
    if model.at is not None:
        twin.loads["tip"] = (np.array([0, 30, 60, 1, 0, 0.0]), "world")
    rng = np.random.default_rng(1)
    size = 0.05 / np.abs(model.compliance).max()
    tips = model.end_effectors
    for k in range(150):
        if k % 30 == 0:
            tip, frame = tips[k // 30 % len(tips)], ("world", "body")[k // 60 % 2]
            wrench = size * rng.normal(size=6)
            fast.apply(tip, wrench, frame=frame)
            twin.loads[tip] = (wrench, frame)
        if k == 60:
            held, stiffness, damping = rng.normal(size=3) * 0.1, 300.0, 4.0
            point = model.rest_poses[tips[0]][:3, 3] + 0.05 * rng.normal(size=3)
            fast.pull(tips[0], point, stiffness, damping, at=held)
            twin.handles[tips[0]] = (held, point, stiffness, damping)
        if k == 120:
            fast.pull(tips[0], None)
            twin.handles.clear()
        fast.step()
        twin.step()
        if k % 10 == 9:
            np.testing.assert_allclose(fast.displacement, model.basis @ twin.y, rtol=0, atol=1e-12)
            np.testing.assert_allclose(fast.poses.array, twin.poses(), rtol=0, atol=1e-12)
    assert np.abs(fast.displacement).max() > 1e-4
    assert fast.time == pytest.approx(150 * dt)


def test_links_turned_beyond_half_a_turn():
    """Links take series up to a rotation of pi and sine and cosine beyond; both are exact, as is the step between."""
    b = supple.Builder("winder")
    for i in range(11):
        b.body(f"link{i}", spatial.exp(np.array([0.1 * i, 0, 0, 0.3 * i, 0.1, 0])), 1.0, inertia=(1, 1, 1))
        parent = "world" if i == 0 else f"link{i - 1}"
        b.hinge(f"hinge{i}", parent, f"link{i}", (0.1 * i, 0, 0), "z", stiffness=10.0, damping=1.0)
    mech = b.build()
    model = supple.reduce(mech, ["link10"])
    fast, twin = supple.ReducedSimulation(model, 0.01), Twin(model, 0.01)
    for torque in (2.0, 20.0, -60.0):
        wrench = np.array([0, 0, 0, 0, 0, torque])
        fast.apply("link10", wrench)
        twin.loads["link10"] = (wrench, "world")
        for _ in range(60):
            fast.step(5)
            for _ in range(5):
                twin.step()
            np.testing.assert_allclose(fast.poses.array, twin.poses(), rtol=0, atol=1e-11)
    assert np.abs(twin.y).max() > np.pi


def test_set_points_of_motors_move_tips_where_springs_do_not():
    b = supple.Builder("motorised", gravity=(0, 0, 0))
    for i, axis in enumerate("zyz"):
        b.link(f"link{i}", (0.3 * i, 0, 0), (0.3 * i + 0.3, 0, 0), mass=1.0)
        inner = f"link{i - 1}" if i else "world"
        b.hinge(f"hinge{i}", inner, f"link{i}", (0.3 * i, 0, 0), axis, stiffness=30.0 * (i != 1), damping=1.0)
    b.motor("motor", "hinge1")
    model = supple.reduce(b.build(), ["link2"])
    assert model.rank == 2
    moved, _, _ = model.target_effect("motor")
    shift = 0.3 * (moved - model.basis @ model.cobasis @ moved)
    assert np.abs(shift).max() > 0.1
    fast, twin = supple.ReducedSimulation(model, 2e-3), Twin(model, 2e-3)
    twin.target, twin.shift = 0.3 * model.cobasis @ moved, shift
    fast.set_target("motor", 0.3)
    wrench, point = np.array([1.0, 2.0, -1.0, 0.1, 0.2, 0.3]), np.array([0.8, 0.3, 0.2])
    fast.apply("link2", wrench)
    fast.pull("link2", point, 50.0, 1.0)
    twin.loads["link2"], twin.handles["link2"] = (wrench, "world"), (np.zeros(3), point, 50.0, 1.0)
    for _ in range(200):
        fast.step()
        twin.step()
    np.testing.assert_allclose(fast.displacement, model.basis @ twin.y + shift, rtol=0, atol=1e-12)
    np.testing.assert_allclose(fast.end_effector_pose("link2"), twin.tip("link2")[2], rtol=0, atol=1e-12)
    np.testing.assert_allclose(fast.poses["link2"], twin.tip("link2")[2], rtol=0, atol=1e-12)
    fast.reset()
    np.testing.assert_array_equal(fast.displacement, 0)


def test_set_points_move_the_target():
    mech = supple.library.y()
    model = supple.reduce(mech, ["left_tip", "right_tip"])
    fast, twin = supple.ReducedSimulation(model, 2e-3), Twin(model, 2e-3)
    fast.set_target("trunk_hinge_2", 0.05)
    fast.set_target("left_hinge_3", -0.1)
    effects = [(0.05, model.target_effect("trunk_hinge_2")), (-0.1, model.target_effect("left_hinge_3"))]
    goal = sum(size * moved for size, (moved, _, _) in effects)
    twin.target = model.cobasis @ goal
    offsets = sum(size * (links - model.motion_map @ moved) for size, (moved, links, _) in effects)
    fast.step(100)
    for _ in range(100):
        twin.step()
    np.testing.assert_allclose(fast.displacement, model.basis @ twin.y, rtol=0, atol=1e-12)
    shown = model.rest_poses.array @ spatial.exp(model.motion_map @ (model.basis @ twin.y) + offsets)
    np.testing.assert_allclose(fast.poses.array, shown, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["helix", "y", "ladder", "loaded", "random"])
def test_joints_reconstruction_is_forward_kinematics(name):
    model = MODELS[name]()
    mech = model.mechanism
    fast = supple.ReducedSimulation(model, 2e-3, reconstruction="joints")
    size = 0.2 / np.abs(model.coordinate_map @ model.compliance).max()
    for tip in model.end_effectors:
        fast.apply(tip, size * np.random.default_rng(2).normal(size=6))
    for _ in range(5):
        fast.step(40)
        q = np.concatenate([fast.coordinates[mech.joints[j].name] for j in mech.topology.tree])
        np.testing.assert_allclose(fast.poses.array, supple.kinematics(mech, q).poses.array, rtol=0, atol=1e-12)
    assert np.abs(q - np.concatenate([mech.reference])).max() > 1e-3


@pytest.mark.parametrize("name", ["helix", "y", "random"])
@pytest.mark.parametrize("corrections", [0, 1, 4])
def test_chord_corrections_of_trees(name, corrections):
    """q from the linear map, then q += Phi_q log(FK(q)^-1 H) for the end effectors: all well within reach."""
    model = MODELS[name]()
    mech, tips = model.mechanism, model.end_effectors
    fast = supple.ReducedSimulation(model, 2e-3, reconstruction="joints", corrections=corrections)
    size = 0.02 / np.abs(model.coordinate_map @ model.compliance).max()
    for tip in tips:
        fast.apply(tip, size * np.random.default_rng(2).normal(size=6))
    fast.step(100)
    by_tips = model.coordinate_map[:, : 6 * len(tips)]
    ends = np.cumsum([0, *(len(j.axes) for j in mech.joints)])
    q, increments = model.q, model.coordinate_map @ fast.displacement
    for _ in range(corrections + 1):
        q = moved(mech, q, increments)
        tree = np.concatenate([q[ends[j] : ends[j + 1]] for j in mech.topology.tree])
        poses = supple.kinematics(mech, tree).poses
        errors = [spatial.log(spatial.inverse(poses[tip]) @ fast.end_effector_pose(tip)) for tip in tips]
        increments = by_tips @ np.concatenate(errors)
    np.testing.assert_allclose(np.concatenate(list(fast.coordinates.values())), q, rtol=0, atol=1e-11)
    np.testing.assert_allclose(fast.poses.array, poses.array, rtol=0, atol=1e-11)
    np.testing.assert_allclose(fast.gaps[: len(tips)], errors, rtol=0, atol=1e-11)


def moved(mech: supple.Mechanism, q: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Coordinates of every joint, rotation vectors moved as R <- R exp(increment)."""
    result, start = q + by, 0
    for joint in mech.joints:
        for size in joint.blocks:
            part = slice(start, start + size)
            if size == 3:
                result[part] = spatial.so3_log(spatial.so3_exp(q[part]) @ spatial.so3_exp(by[part]))
            start += size
    return result


def test_threads_give_the_same_bits():
    model = supple.reduce(supple.library.helix(83), ["tip"])
    shown = []
    for threads in (1, 2, 3):
        sim = supple.ReducedSimulation(model, 2e-3, threads=threads)
        sim.apply("tip", [3.0, 5.0, -20.0, 0, 1, 0])
        poses = []
        for _ in range(20):
            sim.step(5)
            poses.append(sim.poses.array)
        shown.append(np.array(poses))
    np.testing.assert_array_equal(shown[0], shown[1])
    np.testing.assert_array_equal(shown[0], shown[2])
