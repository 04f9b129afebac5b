"""The compiled blended model against section 7 of the FORK-1S paper in NumPy, with the changes of
core/reduced/blended.hpp."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.spatial.transform import Rotation

import blend_sweep
import supple
from pulls import random_models, rotated_wrench
from supple import spatial
from supple.reduced.blending import BlendedMotion
from supple.reduced.eigenframes import Eigenframe, eigenframe

# The constants of docs/theory/blended.md.
NEIGHBOURS, REACH = 4, 1.2  # weights vanish at REACH times the distance of this neighbour
MOST_CANCELLED = 0.8  # of the blend's stiffness, by the geometric stiffness of loads that do not act
RANGE = 0.5  # of a model under loads, over the extent of the collection
PREDICTION_STEPS = 3  # of Newton, for the displacement that a model predicts under loads
OWN_LOAD_RANGE = 0.02  # nearer to the load of a model, over the range of loads, no rest pose is predicted
WIDEST_OFFSET = 0.4  # of a load from the line between those of two models, over their distance
ON_PATH = 1e-3  # distance of a load from a path, over the range of loads, that counts as none
REST_REGION = 1 / 16  # around a model, over the distance from the predicted rest pose
STEEPEST = 3.0  # displacement that a model predicts up to the mean load, over the distance of its sample
AGREEMENT = 0.5  # mean eigenvectors shorter than this are not normalised
LEAST_REST_COMPLIANCE, FAR_REST_COMPLIANCE = 1e-6, 0.01  # at and far from a predicted rest pose, over the largest one
UNDAMPED = 1e-9  # s, damping over stiffness of a model without dampers
LEAST_DAMPING = 2e-3  # s, damping over stiffness of changing weights
ENERGY_FLOOR = 0.01  # of the largest compliance, where energy is summed up
ENERGY_MARGIN = 0.25  # of the energy above that of the models in use
FREE_TURN, MOST_TURN = 1.2, 1.55  # rad, by which a model turns a link
STRIDE, MOST_PARTS = 0.2, 16  # a step that moves further is divided

COLLECTIONS = {
    "one": lambda: random_models(supple.library.helix(11), ["tip"], 1, 0.0),
    "helix": lambda: random_models(supple.library.helix(11), ["tip"], 7, 0.5),
    "two tips": lambda: random_models(supple.library.y(), ["left_tip", "right_tip"], 6, 0.3),
    "ranks": lambda: random_models(supple.library.ladder(4), ["tip"], 6, 0.4),  # 2 at rest, 3 elsewhere
    "few": lambda: random_models(supple.library.robot_arm(), ["tip"], 3, 0.3),  # fewer than the neighbours that count
    "undamped": lambda: random_models(supple.library.helix(6, damping=0.0), ["tip"], 6, 0.5),
}


def mean(poses: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The weighted mean of poses (k, ..., 4, 4) by dual quaternions: sums of a q and of a p q, in any order."""
    q = _quaternions(poses[..., :3, :3])
    q = q * np.where((q * q[np.argmax(weights)]).sum(axis=-1, keepdims=True) < 0, -1.0, 1.0)
    p = np.concatenate([np.zeros((*q.shape[:-1], 1)), poses[..., :3, 3]], axis=-1)
    real, moved = np.tensordot(weights, q, 1), np.tensordot(weights, _product(p, q), 1)
    result = np.zeros(poses.shape[1:])
    rotations = Rotation.from_quat(real.reshape(-1, 4), scalar_first=True).as_matrix()
    result[..., :3, :3] = rotations.reshape(*result.shape[:-2], 3, 3)
    result[..., :3, 3] = _product(moved, real * [1, -1, -1, -1] / (real**2).sum(axis=-1, keepdims=True))[..., 1:]
    result[..., 3, 3] = 1
    return result


def _quaternions(rotations: np.ndarray) -> np.ndarray:
    return spatial.quat_wxyz_from_matrix(rotations)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    (w, x, y, z), (W, X, Y, Z) = np.moveaxis(a, -1, 0), np.moveaxis(b, -1, 0)
    rows = [w*W - x*X - y*Y - z*Z, w*X + x*W + y*Z - z*Y, w*Y - x*Z + y*W + z*X, w*Z + x*Y - y*X + z*W]  # fmt: skip
    return np.stack(rows, axis=-1)


class Twin:
    """Weights, blended matrices, link poses, equilibrium and time steps of many models. Twists are scaled by `lengths`
    (lengths over the radius) unless stated otherwise."""

    def __init__(
        self, models: list[supple.ReducedModel], dt: float, power: float = 4, neighbours: int = NEIGHBOURS
    ) -> None:
        self.models, self.h, self.power, self.neighbours = models, dt, power, neighbours
        self.radius, self.n = models[0].mechanism.radius, 6 * len(models[0].end_effectors)
        self.lengths = np.tile([self.radius] * 3 + [1.0] * 3, self.n // 6)
        self.homes = np.array([model.end_effector_poses for model in models])
        self.home_quaternions = _quaternions(self.homes[..., :3, :3])
        self.widest = self.distances(self.homes[0]).max()
        self.presence = np.ones(len(models))
        self.damped = any(model.damping.any() for model in models)
        self.pose, self.velocity = self.homes[0].copy(), np.zeros((self.n // 6, 6))
        self.loads: dict[int, tuple[np.ndarray, str]] = {}
        many = supple.blend(models)
        self.energies, self.paths = np.array([sample.energy for sample in many._samples]), many._paths
        self.energy_budget: float | None = None
        self.handles: dict[int, tuple[np.ndarray, np.ndarray, float, float]] = {}
        self.loads_count = True  # weights depend on the applied loads; not in BlendedModel.at
        self.ground = max(0.0, *(self.smallest(models[0]) - 2 * self.smallest(model) for model in models), 0.0)
        self.frames: list[list[Eigenframe]] = []
        for i, model in enumerate(models):  # eigenvectors are matched with those of earlier models
            near = [self.frames[j] for j in np.argsort(self.distances(self.homes[i])[:i])]
            inverses = enumerate(self.inverses(model))
            self.frames.append([eigenframe(matrix, [frames[k] for frames in near]) for k, matrix in inverses])

    def held_stiffness(self, model: supple.ReducedModel) -> tuple[np.ndarray, np.ndarray]:
        """Basis (n, r) of admissible twists and the stiffness (r, r) in it for forces of fixed direction in the world:
        the symmetric part of the engine's."""
        world = model.tangent_stiffness("dead")
        basis = np.linalg.qr(model.basis[: self.n, : model.rank] / self.lengths[:, None])[0]
        return basis, basis.T @ ((world + world.T) / 2 * np.outer(self.lengths, self.lengths)) @ basis

    def smallest(self, model: supple.ReducedModel) -> float:
        return float(np.linalg.eigvalsh(self.held_stiffness(model)[1])[0])

    def inverses(self, model: supple.ReducedModel) -> list[np.ndarray]:
        """Compliance, inverse mass and inverse damping, zero in inadmissible directions."""
        basis, stiffness = self.held_stiffness(model)
        stiffness = stiffness + self.ground * np.eye(len(stiffness))
        mass, damping = (basis.T @ (m[: self.n, : self.n] * np.outer(self.lengths, self.lengths)) @ basis
                         for m in (model.mass, model.damping))  # fmt: skip
        return [basis @ np.linalg.inv(m) @ basis.T for m in (stiffness, mass, damping + UNDAMPED * stiffness)]

    def distances(self, pose: np.ndarray) -> np.ndarray:
        """Eq. 25: lengths over the radius, chords of angles (2 sin of the half) over pi."""
        away = np.linalg.norm(self.homes[..., :3, 3] - pose[:, :3, 3], axis=-1) / self.radius
        cosine = np.abs((self.home_quaternions * _quaternions(pose[:, :3, :3])).sum(axis=-1))
        return np.hypot(away, 2 * np.sqrt(np.clip(1 - cosine**2, 0, None)) / np.pi).sum(axis=-1)

    def nearness(self) -> np.ndarray:
        """(k,) 1/d - 1/R, R 1.2 times the distance of the fourth neighbour; zero beyond R."""
        d = self.distances(self.pose) + (1 - self.presence) ** 2
        more = self.presence.sum() - self.neighbours
        reach = REACH * np.sort(d)[self.neighbours - 1] / min(more, 1) if self.neighbours and more > 0 else np.inf
        return np.clip(self.presence * (1 / d - 1 / reach), 0, None)

    def weights(self) -> np.ndarray:
        """Shepard's with local support: (1/d - 1/R)^p, R 1.2 times the distance of the fourth neighbour."""
        d = self.distances(self.pose) + (1 - self.presence) ** 2
        if d.min() < 1e-12:
            return np.eye(len(d))[np.argmin(d)]
        near = self.nearness() * self.trust()
        shares = (near / near.max()) ** self.power
        return shares / shares.sum()

    trusted: tuple = (), np.zeros(0)
    """The loads and poses of the last `trust`, and its result: it takes most of the time."""

    def trust(self) -> np.ndarray:
        """(k,) factors of the weights: they fall with the displacement that each model alone predicts under the loads,
        times the change of the load."""
        if not self.loads_count or len(self.models) < 2:
            return np.ones(len(self.models))
        key = self.homes.tobytes(), *((i, wrench.tobytes(), frame) for i, (wrench, frame) in self.loads.items())
        if key != self.trusted[0]:
            self.trusted = key, self.compute_trust()
        return self.trusted[1]

    predicted: tuple = (), None
    """The loads and poses of the last `rest`, and its result."""

    def rest(self) -> tuple[float, np.ndarray, np.ndarray] | None:
        """Presence and poses (e, 4, 4) of the predicted rest pose, and the applied loads (n,) less the load at which it
        was computed. None if there is none."""
        key = self.homes.tobytes(), self.presence.tobytes()
        key += tuple((i, wrench.tobytes(), frame) for i, (wrench, frame) in self.loads.items())
        if key != self.predicted[0]:
            self.predicted = key, self.compute_rest()
        return self.predicted[1]

    def compute_rest(self) -> tuple[float, np.ndarray, np.ndarray] | None:
        if not self.loads_count or not self.paths:
            return None
        fixed = self.fixed_loads()
        widest = np.linalg.norm(fixed - fixed[0], axis=1).max()
        b = np.array([self.with_applied_axes(k, model.wrenches * self.lengths) for k, model in enumerate(self.models)])
        gaps = [self.with_applied_axes(k, self.load_change(k) * self.lengths) for k in range(len(self.models))]
        weights, present, beside, poses = [], [], [], []
        for i, j, path in self.paths:
            load = b[j] - b[i]
            along = 0.5 + 0.5 * (gaps[i] + gaps[j]) @ load / (load @ load)
            t = float(np.clip(along, path.shares[0], path.shares[-1]))
            beside.append(0.5 * (gaps[i] + gaps[j] + (1 - 2 * t) * load))
            off = np.linalg.norm(beside[-1])
            weights.append(self.presence[i] * self.presence[j] / (off / widest + ON_PATH) ** 4)
            present.append(1 / (1 + (off / (WIDEST_OFFSET * np.linalg.norm(load))) ** 8))
            poses.append(self.homes[i] @ spatial.exp((path.at(t) * self.lengths).reshape(-1, 6)))
        if not sum(weights) > 0:
            return None
        shares = np.array(weights) / sum(weights)
        twists = [
            share * spatial.log(spatial.inverse(poses[0]) @ pose) for share, pose in zip(shares, poses, strict=True)
        ]
        rest = poses[0] @ spatial.exp(sum(twists))
        near = (
            np.linalg.norm(gaps, axis=1) / (OWN_LOAD_RANGE * widest),
            self.distances(rest) / (OWN_LOAD_RANGE * self.widest),
        )
        nearest = (near[0] ** 8 + near[1] ** 8).min()
        return float(shares @ present * nearest / (1 + nearest)), rest, shares @ beside

    def between(self, one: np.ndarray, other: np.ndarray) -> np.ndarray:
        """(n,) displacement from poses (e, 4, 4) to others."""
        return spatial.log(spatial.inverse(one) @ other).ravel() / self.lengths

    def compliance(self, k: int) -> np.ndarray:
        frame = self.frames[k][0]
        return frame.frame @ frame.core @ frame.frame.T

    def load_change(self, k: int) -> np.ndarray:
        """(n,) applied loads less that of a model, in the axes of the end effectors at its pose; not scaled."""
        change = -self.models[k].wrenches.copy()
        for i, (wrench, frame) in self.loads.items():
            own = rotated_wrench(self.homes[k, i, :3, :3].T, wrench) if frame == "world" else wrench
            change[6 * i : 6 * i + 6] += own
        return change

    def with_applied_axes(self, k: int, load: np.ndarray) -> np.ndarray:
        """(n,) a load in the axes of the end effectors at the pose of a model, in those of the applied wrenches."""
        parts = load.reshape(-1, 6).copy()
        for i in range(len(parts)):
            if self.loads.get(i, (None, "world"))[1] == "world":
                parts[i] = rotated_wrench(self.homes[k, i, :3, :3], parts[i])
        return parts.ravel()

    def rest_share(self) -> float:
        """Share phi of the predicted rest pose in the strain: 1 at this pose, 0 at the poses of the models."""
        rest = self.rest()
        if rest is None or self.distances(self.pose).min() < 1e-12:
            return 0.0
        distance = self.distance_from(rest[1])
        return float(rest[0] / (1 + ((REST_REGION * distance * self.nearness()) ** self.power).sum()))

    def way_to_rest(self, middle: np.ndarray) -> np.ndarray:
        """(n,) displacement from the mean poses (e, 4, 4) to the predicted rest pose; zero if there is none."""
        rest = self.rest()
        return np.zeros(self.n) if rest is None else self.between(middle, rest[1])

    def compute_trust(self) -> np.ndarray:
        scores = np.zeros(len(self.models))
        widest = np.linalg.norm(self.fixed_loads() - self.fixed_loads()[0], axis=1).max()
        for k in range(len(self.models)):
            gap = self.load_change(k)
            size = np.linalg.norm(gap * self.lengths)
            twists = self.predicted_displacement(k, gap).reshape(-1, 6) / ([1.0] * 3 + [np.pi] * 3)
            scores[k] = np.linalg.norm(twists, axis=1).sum() * (size / widest if size < widest else 1.0)
        over: np.ndarray = scores / (RANGE * self.widest)
        return (1 + over**8) ** -0.25

    def fixed_loads(self) -> np.ndarray:
        """(k, n) loads of the models, scaled; forces in world axes, torques in those of the end effectors."""
        b = np.array([model.wrenches for model in self.models]).reshape(len(self.models), -1, 6)
        b[..., :3] = (self.homes[..., :3, :3] @ b[..., :3, None])[..., 0]
        return b.reshape(len(b), -1) * self.lengths

    def predicted_displacement(self, k: int, change: np.ndarray) -> np.ndarray:
        """(n,) displacement from the pose of a model under a change (n,) of its load, by this model alone. Forces keep
        their direction in the world; Newton's steps with limited geometric stiffness."""
        compliance = self.compliance(k)
        x, units = np.zeros(self.n), np.outer(self.lengths, self.lengths)
        for _ in range(PREDICTION_STEPS):
            twists = (x * self.lengths).reshape(-1, 6)
            wrenches = change.reshape(-1, 6).copy()
            turned = np.swapaxes(spatial.so3_exp(twists[:, 3:]), -1, -2)
            wrenches[:, :3] = (turned @ wrenches[:, :3, None])[..., 0]
            force = (np.swapaxes(spatial.right_jacobian(twists), -1, -2) @ wrenches[..., None]).ravel() * self.lengths
            A = block_diag(*(0.5 * np.kron([[0, 1], [-1, 0]], spatial.skew(f)) for f in wrenches[:, :3]))
            product = compliance @ (A * units)
            norm = np.sqrt(max(np.trace(product @ product), 0.0))
            product *= MOST_CANCELLED / norm if norm > MOST_CANCELLED else 1.0
            x = x + np.linalg.solve(np.eye(self.n) - product, compliance @ force - x)
        return x

    def frame_and_core(self, kind: int, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Frame and core of the blend (algorithm 3). Each column is the mean of the models that have it, made unit
        again unless they cancel; its eigenvalue is the mean of all, with zeros."""
        parts = [frames[kind] for frames in self.frames]
        frame, core = (np.tensordot(weights, each, 1) for each in ([p.frame for p in parts], [p.core for p in parts]))
        share = np.tensordot(weights, [(np.diag(part.core) > 0).astype(float) for part in parts], 1)
        return frame / np.where(share > 0, np.maximum(np.linalg.norm(frame, axis=0), AGREEMENT * share), 1.0), core

    def blend(self):
        """Mean poses (e, 4, 4), basis P (n, r) and, in this basis, compliance, inverse mass, inverse damping and the
        displacement by the equilibrium wrenches (half-way rule)."""
        weights = self.weights()
        frame, core = self.frame_and_core(0, weights)
        at_rest = self.rest_share() * self.rest_compliance(weights)
        own = np.diag(core)
        admissible = (own > 0) & (own + at_rest > 1e-12 * own.max())
        basis = np.eye(self.n) if admissible.all() else np.linalg.qr(frame[:, admissible])[0]
        matrices = [f @ c @ f.T for f, c in (self.frame_and_core(kind, weights) for kind in range(3))]
        of_rest = [at_rest * np.trace(each) / np.trace(matrices[0]) * np.eye(self.n) for each in matrices]
        small = [basis.T @ (each + more) @ basis for each, more in zip(matrices, of_rest, strict=True)]
        return mean(self.homes, weights), basis, *small, basis.T @ self.load_displacement(weights)

    def mixed_compliance(self, weights: np.ndarray) -> np.ndarray:
        """(n, n) of algorithm 3, with a least value in the share of the predicted rest pose."""
        frame, core = self.frame_and_core(0, weights)
        return frame @ core @ frame.T + self.rest_share() * self.rest_compliance(weights) * np.eye(self.n)

    def rest_compliance(self, weights: np.ndarray) -> float:
        """Compliance added to the spring at the predicted rest pose; it grows with the distance from there."""
        rest = self.rest()
        if rest is None:
            return 0.0
        frame, core = self.frame_and_core(0, weights)
        far = 4 * self.distance_from(rest[1]) / self.widest
        least = LEAST_REST_COMPLIANCE + FAR_REST_COMPLIANCE * far**2 / (1 + far**2)
        return float(least * np.diag(frame @ core @ frame.T).max())

    def distance_from(self, poses: np.ndarray) -> float:
        """Eq. 25 between the present poses and others (e, 4, 4)."""
        away = np.linalg.norm(poses[:, :3, 3] - self.pose[:, :3, 3], axis=-1) / self.radius
        cosine = np.abs((_quaternions(poses[:, :3, :3]) * _quaternions(self.pose[:, :3, :3])).sum(axis=-1))
        return float(np.hypot(away, 2 * np.sqrt(np.clip(1 - cosine**2, 0, None)) / np.pi).sum())

    def loads_of_models(self, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(k, n) generalised forces of the models' loads on xi; (k, n) displacements of each model by its load less the
        mean load; and (n, n) derivative of the displacement of the blend by the mean load. Forces keep their direction
        in the world, torques turn with the end effectors."""
        b = np.array([model.wrenches for model in self.models]).reshape(len(self.models), -1, 6)
        forces = (self.homes[..., :3, :3] @ b[..., :3, None])[..., 0]
        force, torque = np.tensordot(weights, forces, 1), np.tensordot(weights, b[..., 3:], 1)
        middle = mean(self.homes, weights)
        xi = spatial.log(spatial.inverse(middle) @ self.pose)
        common = np.zeros((self.n // 6, 6))
        loads, moved = np.zeros((2, len(self.models), self.n))
        slope = self.mixed_compliance(weights)
        on = np.swapaxes(spatial.right_jacobian(xi)[:, :3], -1, -2) @ np.swapaxes(self.pose[:, :3, :3], -1, -2)
        first = np.zeros_like(on)  # at xi = 0
        first[:, :3] = np.swapaxes(middle[:, :3, :3], -1, -2)
        applied = self.applied_forces()
        less = (1 - self.geometric_share(weights, middle, force - applied)) * (first - on)
        of_applied = (-less @ applied[..., None])[..., 0]
        on = on + less
        common = (on @ force[..., None])[..., 0] + of_applied
        common[:, 3:] += torque
        for i in range(len(self.models)):
            if self.ground:
                eta = spatial.log(spatial.inverse(middle) @ self.homes[i]).ravel() / self.lengths
            else:
                eta = (xi - spatial.log(spatial.inverse(self.homes[i]) @ self.pose)).ravel() / self.lengths
            own = (on @ forces[i][..., None])[..., 0] + of_applied
            own[:, 3:] += b[i, :, 3:]
            loads[i] = own.ravel() * self.lengths + self.ground * eta
            back = np.swapaxes(self.homes[i, :, :3, :3], -1, -2) @ (forces[i] - force)[..., None]
            load_difference = np.concatenate([back[..., 0], b[i, :, 3:] - torque], axis=1).ravel() * self.lengths
            load_difference += self.ground * eta
            compliance = self.compliance(i)
            moved[i] = compliance @ load_difference
            size, most = np.linalg.norm(moved[i]), STEEPEST * np.linalg.norm(eta)
            kept = most / size if size > most else 1.0
            moved[i] *= kept
            slope -= 0.5 * weights[i] * kept * compliance
            (v, w), (V, W) = (np.moveaxis(x.reshape(-1, 2, 3), 1, 0) for x in (eta, moved[i]))
            bracket = np.concatenate([np.cross(w, V) + np.cross(v, W), np.cross(w, W)], axis=1)  # of twists
            moved[i] += 0.5 * bracket.ravel()
        return loads, moved, slope

    def applied_forces(self) -> np.ndarray:
        """(e, 3) N in world axes."""
        forces = np.zeros((self.n // 6, 3))
        for i, (wrench, frame) in self.loads.items():
            forces[i] = wrench[:3] if frame == "world" else self.pose[i, :3, :3] @ wrench[:3]
        return forces

    def geometric_share(self, weights: np.ndarray, middle: np.ndarray, away: np.ndarray) -> float:
        """The share of the geometric stiffness of the forces `away` (e, 3) that counts: its norm relative to the
        blend's stiffness is at most MOST_CANCELLED."""
        if not self.loads_count:
            return 1.0
        local = np.swapaxes(middle[:, :3, :3], -1, -2) @ away[..., None]
        A = block_diag(*(0.5 * np.kron([[0, 1], [-1, 0]], spatial.skew(f)) for f in local[..., 0]))
        product = self.mixed_compliance(weights) @ (A * np.outer(self.lengths, self.lengths))
        norm = np.sqrt(max(np.trace(product @ product), 0.0))
        return float(MOST_CANCELLED / norm) if norm > MOST_CANCELLED else 1.0

    def load_displacement(self, weights: np.ndarray) -> np.ndarray:
        """(n,) displacement by the equilibrium wrenches (half-way rule). The predicted rest pose has a share in it: a
        spring that is at rest at this pose under the applied loads."""
        compliance, share = self.mixed_compliance(weights), self.rest_share()
        loads, moved, _ = self.loads_of_models(weights)
        middle = mean(self.homes, weights)
        push = self.push_on_path(spatial.log(spatial.inverse(middle) @ self.pose))
        of_models = compliance @ (weights @ loads) + 0.5 * (weights @ moved)
        return (1 - share) * of_models + share * (compliance @ push - self.way_to_rest(middle))

    def inadmissible(self, middle: np.ndarray, basis: np.ndarray) -> np.ndarray:
        """(n,) share of the way to the predicted rest pose that is outside of the basis."""
        way = self.way_to_rest(middle)
        return self.rest_share() * (way - basis @ (basis.T @ way))

    def generalised_force(self, xi: np.ndarray) -> np.ndarray:
        """(n,) generalised force of the applied wrenches on the twists xi (e, 6, not scaled) from the mean poses."""
        on = np.zeros_like(xi)
        for i, (wrench, frame) in self.loads.items():
            body = rotated_wrench(self.pose[i, :3, :3].T, wrench) if frame == "world" else wrench
            on[i] = spatial.right_jacobian(xi[i]).T @ body
        return on.ravel() * self.lengths

    def push_on_path(self, xi: np.ndarray) -> np.ndarray:
        """(n,) as `generalised_force`, of the load at which the rest pose was computed."""
        rest, loads = self.rest(), self.loads
        if rest is None:
            return self.generalised_force(xi)
        none = np.zeros(6), "world"
        beside = (rest[2] / self.lengths).reshape(-1, 6)
        on_path = [(wrench - less, frame) for (wrench, frame), less in
                   zip((loads.get(i, none) for i in range(len(beside))), beside, strict=True)]  # fmt: skip
        self.loads = dict(enumerate(on_path))
        force = self.generalised_force(xi)
        self.loads = loads
        return force

    def ground_used(self) -> float:
        """The common spring, as far as the models have a share in the strain."""
        return (1 - self.rest_share()) * self.ground

    def relax(self) -> None:
        """Moves the end effectors to the equilibrium under the applied wrenches, by a fifth of the error at a time."""
        move = np.ones(1)
        while np.abs(move).max() > 1e-11:
            middle, basis, compliance, _, _, load_displacement = self.blend()
            xi = spatial.log(spatial.inverse(middle) @ self.pose)
            z = basis.T @ (xi.ravel() / self.lengths)
            goal = basis @ (
                compliance @ (basis.T @ self.generalised_force(xi) + self.ground_used() * z) - load_displacement
            )
            goal += self.inadmissible(middle, basis)
            goal_pose = middle @ spatial.exp((self.lengths * goal).reshape(-1, 6))
            move = spatial.log(spatial.inverse(self.pose) @ goal_pose)
            self.pose = self.pose @ spatial.exp(0.2 * move)

    def strain_derivative(self, basis: np.ndarray, spring_force: np.ndarray, common: np.ndarray) -> np.ndarray:
        """(r, r) derivative of the strain xi + load_displacement - C `spring_force` by xi, changing weights included;
        by central differences. `common` (e, 6) is xi, not scaled."""
        at, columns = self.pose, []
        before = self.weights()
        loads, moved, slope = self.loads_of_models(before)  # the core differentiates the weights and the share only
        middle = mean(self.homes, before)
        push, way, least = self.push_on_path(common), self.way_to_rest(middle), self.rest_compliance(before)

        def strain(twist: np.ndarray) -> np.ndarray:
            self.pose = at @ spatial.exp((self.lengths * twist).reshape(-1, 6))
            weights = self.weights()
            frame, core = self.frame_and_core(0, weights)
            share = self.rest_share()
            compliance = frame @ core @ frame.T + share * least * np.eye(self.n)
            load_displacement = compliance @ (before @ loads) + slope @ ((weights - before) @ loads)
            load_displacement += 0.5 * (weights @ moved)
            xi = self.between(mean(self.homes, weights), self.pose)
            changed = xi - self.between(middle, self.pose)  # by the weights
            load_displacement = (1 - share) * load_displacement + share * (compliance @ push - way - changed)
            return xi + load_displacement - compliance @ spring_force

        for axis in np.eye(self.n):
            near, far = (strain(size * axis) - strain(-size * axis) for size in (2e-5, 4e-5))
            columns.append((8 * near - far) / 24e-5)  # of fourth order: weights change quickly next to a sample
        self.pose = at
        from_xi = block_diag(*spatial.right_jacobian(common)) * self.lengths / self.lengths[:, None]
        return basis.T @ np.array(columns).T @ from_xi @ basis

    def stored_energy(self, basis: np.ndarray, compliance: np.ndarray, strain: np.ndarray) -> float:
        """Stored energy by the trapezoidal rule from every model in use. Its compliance is at least ENERGY_FLOOR of the
        largest one."""
        least = ENERGY_FLOOR * np.diag(compliance).max() * np.eye(len(compliance))
        spring_force = basis @ np.linalg.solve(compliance + least, strain)
        spring_force -= self.ground_used() * self.common()
        own = spatial.log(spatial.inverse(self.homes) @ self.pose).reshape(-1, self.n) / self.lengths
        wrenches = np.array([model.wrenches * self.lengths for model in self.models])
        return float(self.weights() @ (self.energies + 0.5 * ((wrenches + spring_force) * own).sum(axis=1)))

    def geometric(self) -> np.ndarray:
        """(n, n) difference of the stiffness for loads that turn with the end effectors and that for fixed forces."""
        weights, result = self.weights(), np.zeros((self.n, self.n))
        for e, pose in enumerate(mean(self.homes, weights)):
            own = np.array([model.wrenches[6 * e : 6 * e + 3] for model in self.models])
            forces = (self.homes[:, e, :3, :3] @ own[..., None])[..., 0]
            half = spatial.skew(pose[:3, :3].T @ (weights @ forces)) / 2
            result[6 * e : 6 * e + 3, 6 * e + 3 : 6 * e + 6] = half
            result[6 * e + 3 : 6 * e + 6, 6 * e : 6 * e + 3] = half.T
        return result

    def common(self) -> np.ndarray:
        """(n,) xi, scaled."""
        middle = mean(self.homes, self.weights())
        return spatial.log(spatial.inverse(middle) @ self.pose).ravel() / self.lengths

    def limited_velocity(self, v: np.ndarray, kinetic: float, stored: float) -> np.ndarray:
        """Rates v, scaled down if the kinetic energy exceeds the energy budget less the stored energy and a margin."""
        if self.energy_budget is None:
            return v
        least = min(stored, self.energies[self.weights() > 0].min())
        most = max(self.energy_budget - stored + ENERGY_MARGIN * (stored - least), 0.0)
        return v if kinetic <= most else v * np.sqrt(most / kinetic)

    def damping_over_stiffness(
        self, v: np.ndarray, mass: np.ndarray, stiffness: np.ndarray, slope: np.ndarray
    ) -> float:
        """Ratio of damping to stiffness, s, that compensates the unsymmetric stiffness of changing weights."""
        if np.count_nonzero(self.weights()) < 2 or not v.any():
            return 0.0
        skew = (stiffness @ slope - slope.T @ stiffness) @ v / 2
        elastic, kinetic = v @ stiffness @ v, v @ mass @ v
        return float(np.sqrt(min(skew @ np.linalg.solve(stiffness, skew) / elastic, 1.0) * kinetic / elastic))

    def step(self) -> None:
        """One time step. It is divided if the end effectors would move by more than STRIDE."""
        before, whole = (self.pose, self.velocity), self.h
        parts = int(np.clip(np.ceil(self.advance() / STRIDE), 1, MOST_PARTS))
        if parts > 1:
            (self.pose, self.velocity), self.h = before, whole / parts
            for _ in range(parts):
                self.advance()
            self.h = whole

    def advance(self) -> float:
        """Eq. 24 and algorithm 5: backward Euler from the mean of the models in use. Returns the norm of the
        displacement."""
        h = self.h
        middle, basis, compliance, inverse_mass, inverse_damping, load_displacement = self.blend()
        xi = spatial.log(spatial.inverse(middle) @ self.pose)
        rates = np.linalg.solve(spatial.right_jacobian(xi), self.velocity[..., None]).ravel() / self.lengths
        z, v = basis.T @ (xi.ravel() / self.lengths), basis.T @ rates
        mass, stiffness = np.linalg.inv(inverse_mass), np.linalg.inv(compliance)
        slope = self.strain_derivative(basis, basis @ (stiffness @ (z + load_displacement)), xi)
        damping = max(h, LEAST_DAMPING, self.damping_over_stiffness(v, mass, stiffness, slope))
        v = self.limited_velocity(v, 0.5 * v @ mass @ v, self.stored_energy(basis, compliance, z + load_displacement))
        rigid = self.inadmissible(middle, basis)
        system = mass + h * damping * slope.T @ stiffness @ slope
        system += h * np.linalg.inv(inverse_damping) if self.damped else 0
        force = basis.T @ self.generalised_force(xi) - stiffness @ (z + load_displacement) + self.ground_used() * z
        right = mass @ v + h * force
        for i, (attachment, point, k, d) in self.handles.items():
            rotation, rows = self.pose[i, :3, :3], slice(6 * i, 6 * i + 6)
            by = np.hstack([rotation, -rotation @ spatial.skew(attachment)]) @ spatial.right_jacobian(xi[i])
            jacobian = by * self.lengths[rows] @ basis[rows]
            right = right + h * k * jacobian.T @ (point - rotation @ attachment - self.pose[i, :3, 3])
            system = system + h * (h * k + d) * jacobian.T @ jacobian
        v = np.linalg.solve(system, right)
        twist, speed = ((self.lengths * x).reshape(-1, 6) for x in (basis @ (z + h * v) + rigid, basis @ v))
        self.pose = middle @ spatial.exp(twist)
        self.velocity = (spatial.right_jacobian(twist) @ speed[..., None])[..., 0]
        return float(h * np.linalg.norm(v))

    def links(self) -> np.ndarray:
        """(bodies, 4, 4): the mean of the link poses of all models. Each model is evaluated half-way between its own
        displacement and the common one (algorithm 4, with a mean that does not depend on a base pose)."""
        weights = self.weights()
        common = spatial.log(spatial.inverse(mean(self.homes, weights)) @ self.pose).ravel()
        shown = []
        for model, home in zip(self.models, self.homes, strict=True):
            own = spatial.log(spatial.inverse(home) @ self.pose).ravel()
            z = model.cobasis[: model.rank, : self.n] @ (own + common) / 2
            twists = model.motion_map[..., : self.n] @ (model.basis[: self.n, : model.rank] @ z)
            angle = np.linalg.norm(twists[:, 3:], axis=1, keepdims=True)
            bounded = FREE_TURN + (MOST_TURN - FREE_TURN) * np.tanh((angle - FREE_TURN) / (MOST_TURN - FREE_TURN))
            twists = np.where(angle > FREE_TURN, bounded / np.maximum(angle, FREE_TURN), 1.0) * twists
            shown.append(model.rest_poses.array @ spatial.exp(twists))
        return mean(np.array(shown), weights)


def reachable(model: supple.ReducedModel, rng: np.random.Generator, size: float) -> np.ndarray:
    """(e, 4, 4) end-effector poses: those of a model, displaced by its compliance times a random wrench."""
    n = 6 * len(model.end_effectors)
    lengths = np.tile([model.mechanism.radius] * 3 + [1.0] * 3, n // 6)
    xi = model.compliance[:n, :n] @ (rng.normal(size=n) / lengths)
    return model.end_effector_poses @ spatial.exp(size * (xi / np.linalg.norm(xi / lengths)).reshape(-1, 6))


@pytest.mark.parametrize("name", list(COLLECTIONS))
@pytest.mark.parametrize("options", [{}, {"power": 2.5}, {"support": "global"}], ids=["local", "power", "global"])
def test_weights_means_matrices_and_links(name, options):
    models = COLLECTIONS[name]()
    many = supple.blend(models, **options)
    twin = Twin(models, 1.0, options.get("power", 4), 0 if "support" in options else 4)
    twin.loads_count = False
    rng, share = np.random.default_rng(3), 1e-6 if name == "two tips" else 1e-9
    for i in range(12):
        twin.pose = reachable(models[i % len(models)], rng, rng.uniform(0.0, 0.3))
        actual = many.at(twin.pose)
        middle, basis, compliance, inverse_mass, inverse_damping, load_displacement = twin.blend()
        np.testing.assert_allclose(many.distances(twin.pose), twin.distances(twin.pose), atol=1e-12)
        np.testing.assert_allclose(actual.weights, twin.weights(), atol=1e-12)
        np.testing.assert_allclose(actual.reference_poses, middle, atol=1e-12)
        units = np.outer(twin.lengths, twin.lengths)
        turning = basis.T @ (twin.geometric() * units) @ basis
        body = np.linalg.inv(compliance) - twin.ground * np.eye(len(compliance)) + turning
        close(actual.compliance, basis @ np.linalg.inv(body) @ basis.T * units, 1e-6)
        close(np.linalg.inv(basis.T @ (actual.mass * units) @ basis), inverse_mass, share)
        damping = basis.T @ (actual.damping * units) @ basis + UNDAMPED * np.linalg.inv(compliance)
        close(np.linalg.inv(damping), inverse_damping, share)
        xi = spatial.log(spatial.inverse(middle) @ twin.pose)
        z = basis.T @ (xi.ravel() / twin.lengths)
        on = basis @ (np.linalg.solve(compliance, z + load_displacement) - twin.ground * z) / twin.lengths
        holding_wrench = np.linalg.solve(np.swapaxes(spatial.right_jacobian(xi), -1, -2), on.reshape(-1, 6, 1)).ravel()
        close(actual.wrenches, holding_wrench, 1e-6)
        np.testing.assert_allclose(actual.poses.array, twin.links(), atol=1e-9)


def close(actual: np.ndarray, expected: np.ndarray, share: float = 1e-9) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=share * np.abs(expected).max())


@pytest.mark.parametrize("name", COLLECTIONS)
@pytest.mark.parametrize("loaded", [False, True])
def test_derivative_of_the_strain(name, loaded):
    models = COLLECTIONS[name]()
    motion, twin, rng = BlendedMotion(supple.blend(models), 1e-9, 1), Twin(models, 1e-9), np.random.default_rng(3)
    if loaded and len(models) > 1:
        wrench = (0.4 * models[0].wrenches + 0.6 * models[1].wrenches)[:6]
        twin.loads[0] = (wrench, "body")
        motion.core.set_wrench(0, wrench, False)
        assert twin.rest()[0] > (
            0 if name == "two tips" else 0.9
        )  # the other tip has no load: off the line between loads
    for i in range(10):
        twin.pose = reachable(models[i % len(models)], rng, rng.uniform(0.0, 0.3))
        middle, basis, compliance, _, _, load_displacement = twin.blend()
        xi = spatial.log(spatial.inverse(middle) @ twin.pose)
        spring_force = basis @ np.linalg.solve(compliance, basis.T @ (xi.ravel() / twin.lengths) + load_displacement)
        motion.place(twin.pose)
        motion.core.step(1, False)
        ours = motion.core.basis
        turn = ours.T @ basis
        close(turn.T @ motion.core.strain @ turn, twin.strain_derivative(basis, spring_force, xi), 1e-6)


@pytest.mark.parametrize("name", COLLECTIONS)
@pytest.mark.parametrize("dt", [1e-4, 2e-3, 0.05])
def test_steps(name, dt):
    models = COLLECTIONS[name]()
    fast, twin = supple.ReducedSimulation(supple.blend(models), dt), Twin(models, dt)
    rng, tips = np.random.default_rng(1), models[0].end_effectors
    size = 0.05 / np.abs(models[0].compliance).max()
    for k in range(60):
        if k % 15 == 0:
            i, frame = k // 15 % len(tips), ("world", "body")[k // 30 % 2]
            wrench = size * rng.normal(size=6)
            fast.apply(tips[i], wrench, frame=frame)
            twin.loads[i] = (wrench, frame)
        if k == 20:
            attachment, stiffness, damping = rng.normal(size=3) * 0.1, 300.0, 4.0
            point = models[0].end_effector_poses[0, :3, 3] + 0.05 * rng.normal(size=3)
            fast.pull(tips[0], point, stiffness, damping, at=attachment)
            twin.handles[0] = (attachment, point, stiffness, damping)
        if k == 50:
            fast.pull(tips[0], None)
            twin.handles.clear()
        energy_budget = fast._motion.core.energy_budget
        twin.energy_budget = float(energy_budget[0]) if len(energy_budget) else None
        fast.step()
        if k % 6 == 0:  # every sixth step of the twin is enough: it starts from the same state
            twin.step()
            poses = np.array([fast.end_effector_pose(tip) for tip in tips])
            # the twin takes differences; some directions of Y and ladder are nearly locked
            largest = {"two tips": 1e-5, "ranks": 1e-6}.get(name, 1e-7)
            np.testing.assert_allclose(poses, twin.pose, rtol=0, atol=largest)
        # both start the next step from the same state: differences would grow
        twin.pose, twin.velocity = (part.copy() for part in fast._motion.tips)
    if name != "two tips":
        np.testing.assert_allclose(fast.poses.array, twin.links(), rtol=0, atol=1e-9)
    assert np.abs(fast.displacement).max() > 1e-5
    assert fast.time == pytest.approx(60 * dt)


@pytest.mark.parametrize("name", ["helix", "ranks", "few"])
def test_equilibrium_under_load(name):
    models = COLLECTIONS[name]()
    twin, motion = Twin(models, 1.0), BlendedMotion(supple.blend(models), 1.0, 1)
    for share in (0.4, 0.8):
        wrench = share * models[1].wrenches[:6] + (1 - share) * models[2].wrenches[:6]
        twin.loads[0] = (wrench, "body")
        motion.core.set_wrench(0, wrench, False)
        twin.relax()
        assert motion.relax() < 1e-9
        np.testing.assert_allclose(motion.tips[0], twin.pose, rtol=0, atol=1e-8)


def test_steps_under_less_load_than_the_models():
    """The geometric stiffness of the missing load is limited."""
    pull = blend_sweep.library_pull("loop", (0, 0, 1), None, count=2)
    fast, twin = supple.ReducedSimulation(supple.blend(pull.models), 2e-3), Twin(list(pull.models), 2e-3)
    force = 0.3 * pull.force
    fast.apply("tip", [*force, 0, 0, 0])
    twin.loads[0] = (np.array([*force, 0, 0, 0]), "world")
    limited = 0
    for _ in range(100):
        energy_budget = fast._motion.core.energy_budget
        twin.energy_budget = float(energy_budget[0]) if len(energy_budget) else None
        fast.step()
        twin.step()
        np.testing.assert_allclose(fast.end_effector_pose("tip"), twin.pose[0], rtol=0, atol=1e-7)
        weights = twin.weights()
        away = weights[1] * pull.force - force
        limited += twin.geometric_share(weights, mean(twin.homes, weights), away[None]) < 1
    assert limited > 20
    assert twin.rest_share() > 0.9


def test_steps_to_a_predicted_rest_pose_with_a_common_spring():
    pull = blend_sweep.random_pull(113, count=2)
    fast, twin = supple.ReducedSimulation(supple.blend(pull.models), 5e-3), Twin(list(pull.models), 5e-3)
    assert twin.ground > 0
    wrench = np.array([*(1.1 * pull.force), 0, 0, 0])
    fast.apply("tip", wrench)
    twin.loads[0] = (wrench, "world")
    shares = []
    for _ in range(5):
        energy_budget = fast._motion.core.energy_budget
        twin.energy_budget = float(energy_budget[0]) if len(energy_budget) else None
        fast.step()
        twin.step()
        np.testing.assert_allclose(fast.end_effector_pose("tip"), twin.pose[0], rtol=0, atol=1e-7)
        twin.pose, twin.velocity = (part.copy() for part in fast._motion.tips)
        shares.append(twin.rest_share())
    assert min(shares) < 0.2
    assert max(shares) > 0.9


def test_a_new_model_fades_in():
    """A new model's presence rises from 0 to 1 in `fade` seconds; meanwhile it counts as further away, and less."""
    models = COLLECTIONS["helix"]()
    many = supple.blend(models[:-1])
    fast = supple.ReducedSimulation(many, 0.01)
    fast.apply("tip", models[-1].wrenches, frame="body")
    fast.step(40)
    many.add(models[-1], fade=0.1)
    twin = Twin(models, 0.01)
    twin.loads[0] = (models[-1].wrenches, "body")
    twin.pose, twin.velocity = (part.copy() for part in fast._motion.tips)
    twin.presence[-1] = 0
    for _ in range(15):
        np.testing.assert_allclose(fast.poses.array, twin.links(), rtol=0, atol=1e-9)
        fast.step()
        twin.step()
        twin.presence[-1] = min(1.0, twin.presence[-1] + 0.1)
    assert twin.presence[-1] == 1
    assert twin.weights()[-1] > 0.05
