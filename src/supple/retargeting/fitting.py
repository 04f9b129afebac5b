"""Young's modulus and Rayleigh damping of a flexible body from a measured motion.

The simulated positions x(t; E, alpha, beta) of one body are compared with measured ones x_k at times t_k:

    minimise  1/2 sum_k |x(t_k; E, alpha, beta) - x_k|^2

by Gauss-Newton with a trust region (`scipy.optimize.least_squares`). The unknowns are log E, alpha and beta, the last
two not negative: decay rates are nearly linear in them. The phase of a vibration makes the objective multimodal in E,
so a scan over E precedes the fit. With J the Jacobian of the positions and s^2 the variance of the residuals, the
covariance of the unknowns is s^2 (J^T J)^-1.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike

import numpy as np

from supple.elastic import Material, Part
from supple.engine import Equilibrium, Simulation, adjoint, equilibrium
from supple.engine.modes import modes
from supple.engine.tape import Tape
from supple.errors import ConvergenceError, MechanismError, RangeWarning, listed
from supple.mechanism import Mechanism
from supple.mechanism.axes import by_joint
from supple.mechanism.flexible import FlexibleBody
from supple.mechanism.poses import find
from supple.mechanism.record import Array, array
from supple.progress import progress_callback
from supple.retargeting.altered import stiffened
from supple.retargeting.measured import MeasuredMotion
from supple.retargeting.motion import Motion

NAMES = ("young", "alpha", "beta")
SCAN_RANGE = 2.0
"""The scan covers moduli from 1 / SCAN_RANGE to SCAN_RANGE times that of the start."""
FIT_ITERATIONS = 40
FIT_TOLERANCE = 1e-6
"""Relative change of the cost or of the unknowns at which the iteration ends."""
START_DIFFERENCE = 1e-3
"""Central difference of log E for the derivative of the equilibrium at the start."""
DAMPING_UNIT = 0.01
"""alpha and beta are scaled such that one unit gives about this damping ratio at the slowest vibration."""
LARGEST_ERROR = 0.3
"""Standard error above which a number counts as undetermined: of the modulus over itself; of the damping ratio that
alpha or beta contributes, over the total damping ratio."""
SMALLEST_RATIO = 5e-4
"""Standard error of a damping ratio that is allowed whatever the total."""
LARGEST_OFFSET = 0.5
"""Largest distance of measured and simulated positions at the start, over the radius of the mechanism."""
LARGEST_RESIDUAL = 0.5
"""Largest residual of a fit, over the root mean square of the measured motion."""
FEWEST_PER_PERIOD = 4
SCAN_PERIODS = 5
"""Periods of the slowest vibration over which the modulus is scanned, at least (if measured)."""
LARGEST_BIAS = 0.01
"""Error of the fitted modulus by the time step, from which on a warning is given."""
SHARE_OF_ENERGY = 0.01
"""Share of a body's strain energy in a vibration from which on the vibration counts as one of that body."""


@dataclass(frozen=True, eq=False)
class FittedMaterial:
    """The result of `fit_material`."""

    young: float
    """Young's modulus, Pa."""
    alpha: float
    """Mass-proportional damping, 1/s."""
    beta: float
    """Stiffness-proportional damping, s."""
    damping_ratio: float
    """Of the slowest vibration in which the body bends, at the start of the motion."""
    frequency: float
    """Of that vibration, Hz."""
    standard_errors: dict[str, float]
    """By name ("young", "alpha", "beta"), in the same units; without the numbers that were kept."""
    kept: tuple[str, ...]
    """Numbers that kept their values: not asked for, or not determined by the measurement."""
    material: Material
    part: Part
    """The part of the flexible body with the fitted material."""
    mechanism: Mechanism
    """With that part."""
    body: str
    """The measured body."""
    residual_rms: float
    """Root mean square distance of simulated and measured positions, m."""
    history: tuple[float, ...]
    """That distance at the start, after the scan over Young's modulus, and after each iteration, m."""
    measured: MeasuredMotion
    simulated: Array
    """(n, 3) simulated positions at the measured times, m."""

    def __repr__(self) -> str:
        def with_error(name: str) -> str:
            error = self.standard_errors.get(name)
            return f"{name}={getattr(self, name):.4g}" + (" (kept)" if error is None else f" ± {error:.2g}")

        rms = 1e3 * self.residual_rms
        return f"FittedMaterial({', '.join(map(with_error, NAMES))}, residual {rms:.3g} mm)"

    def plot(self, path: str | PathLike[str]) -> None:
        """Draws measured and simulated positions over time, and their difference, to a picture (.png, .pdf, .svg)."""
        try:
            from matplotlib.backends.backend_agg import FigureCanvasAgg
            from matplotlib.figure import Figure
        except ImportError:
            raise ImportError("pictures need matplotlib; install it with: pip install 'supple[all]'") from None
        times, measured = self.measured.times, self.measured.positions
        figure = Figure(figsize=(8, 5), layout="constrained")
        FigureCanvasAgg(figure)
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        for i, (axis, colour) in enumerate(zip("xyz", ("#d1495b", "#3a9e4f", "#2e86ab"), strict=True)):
            upper.plot(times, 1e3 * (measured[:, i] - self.simulated[0, i]), ".", color=colour, ms=2.5, alpha=0.4)
            upper.plot(times, 1e3 * (self.simulated[:, i] - self.simulated[0, i]), color=colour, lw=1.0, label=axis)
            lower.plot(times, 1e3 * (measured - self.simulated)[:, i], color=colour, lw=0.6)
        upper.set_ylabel("displacement, mm")
        upper.legend(title="dots: measured", fontsize=8, title_fontsize=8)
        lower.set_ylabel("residual, mm")
        lower.set_xlabel("time, s")
        upper.set_title(
            f"{self.body}: Young's modulus {self.young / 1e9:.4g} GPa, damping ratio {100 * self.damping_ratio:.3g} % "
            f"at {self.frequency:.3g} Hz",
            fontsize=10,
        )
        figure.savefig(path, dpi=130)


def fit_material(
    mech: Mechanism,
    motion: Motion,
    measured: MeasuredMotion | str | PathLike[str],
    body: str,
    *,
    part: str | None = None,
    fit: Sequence[str] | None = None,
    dt: float = 1e-3,
    progress: Callable[[float], None] | None = None,
) -> FittedMaterial:
    """Fits Young's modulus and both coefficients of Rayleigh damping of a flexible body to a measured motion.

    The simulation starts in the equilibrium at the start of `motion`. Derivatives come from a sweep over the recorded
    simulation (`supple.engine.adjoint.tangent`).

    Args:
        mech: the mechanism, with a first guess of the material. The modulus may be wrong by a factor of two.
        motion: positions of the motors over time. They keep their last positions afterwards.
        measured: positions of a body over time, or a CSV file with the columns time,x,y,z (s, m; world axes). Time zero
            is the start of `motion`.
        body: the measured body (its centre of mass) or site.
        part: the flexible body whose material is fitted; by default the only one.
        fit: the numbers to fit, of "young", "alpha" and "beta". By default all, except that `alpha` keeps its value if
            the measurement does not determine it apart from `beta`: both damp a single vibration in the same way.
        dt: time step, s. The scheme ("bdf2") makes the fitted modulus too large by the fraction 2/3 (omega dt)^2, with
            the angular frequency omega: 0.3 % at a hundred steps a period.
        progress: called with the fraction done; default: a progress bar.

    Raises:
        MechanismError: a missing body, flexible body or motor; a measurement that is too short, too coarse or not of
            this body; numbers that the measurement does not determine.
        ConvergenceError: the motion cannot be simulated with the material at the start.
    """
    names = _checked_names(fit)
    flexible = mech.flexible[_flexible_index(mech, part)]
    if not isinstance(motion, Motion):
        raise MechanismError(f"a Motion is needed, got {type(motion).__name__}; Motion.load reads one from a file")
    if not isinstance(measured, MeasuredMotion | str | PathLike):
        raise MechanismError(f"a MeasuredMotion or the name of its file is needed, got {type(measured).__name__}")
    dt = float(array(dt, (), "dt"))
    if not dt > 0:
        raise MechanismError(f"the time step must be positive, got {dt:g}")
    data = measured if isinstance(measured, MeasuredMotion) else MeasuredMotion.load(measured)
    problem = _Problem(mech, flexible, motion, data, body, dt)
    with progress_callback("fitting", progress) as report:
        unknowns, history = problem.start, [problem.rms(problem.start)]
        if "young" in names:
            unknowns = problem.scan(lambda fraction: report(fraction / 2))
            history.append(problem.rms(unknowns))
        first = [name for name in names if name != "alpha"] if fit is None else names
        for count in problem.horizons:
            unknowns = problem.fit(unknowns, first, count, history)
        report(0.8)
        if fit is None and not problem.undetermined(unknowns, names):
            unknowns, first = problem.fit(unknowns, names, len(data.times), history), names
    problem.check_result(unknowns, first)
    young, alpha, beta = problem.numbers(unknowns)
    vibration = problem.vibration(unknowns)
    if (bias := 2 / 3 * (2 * np.pi * vibration.frequency * dt) ** 2) > LARGEST_BIAS:
        warnings.warn(
            f"the time step of {1e3 * dt:.3g} ms is long for a vibration of {vibration.frequency:.3g} Hz: the fitted "
            f"modulus is wrong by {100 * bias:.2g} % or more, and the damping by far more; take at most "
            f"{1e3 * dt * np.sqrt(LARGEST_BIAS / bias):.2g} ms",
            RangeWarning,
            stacklevel=2,
        )
    altered = problem.altered(unknowns)
    fitted_part = altered.flexible[_flexible_index(altered, flexible.name)].part
    return FittedMaterial(
        young=young,
        alpha=alpha,
        beta=beta,
        damping_ratio=vibration.ratio(alpha, beta),
        frequency=vibration.frequency,
        standard_errors=problem.standard_errors(unknowns, first),
        kept=tuple(name for name in NAMES if name not in first),
        material=fitted_part.material,
        part=fitted_part,
        mechanism=altered,
        body=body,
        residual_rms=problem.rms(unknowns),
        history=tuple(history),
        measured=data,
        simulated=problem.simulated(unknowns, quiet=False),
    )


def _checked_names(fit: Sequence[str] | None) -> list[str]:
    names = list(NAMES if fit is None else [fit] if isinstance(fit, str) else fit)
    if not names or not set(names) <= set(NAMES) or len(set(names)) < len(names):
        raise MechanismError(f"`fit` names some of {listed(NAMES)}, got {fit!r}")
    return names


def _flexible_index(mech: Mechanism, name: str | None) -> int:
    names = [each.name for each in mech.flexible]
    if not names:
        raise MechanismError(f"'{mech.name}' has no flexible body whose material could be fitted")
    if name is None and len(names) > 1:
        raise MechanismError(f"'{mech.name}' has the flexible bodies {listed(names)}; choose one with part=NAME")
    return 0 if name is None else find(names, name, f"flexible body of '{mech.name}'")


def _interpolated(values: list[float], dt: float, time: float) -> float:
    """Linear interpolation of values at multiples of dt; several times faster than `np.interp` for one time."""
    k = min(int(time / dt), len(values) - 2)
    return values[k] + (time / dt - k) * (values[k + 1] - values[k])


@dataclass(frozen=True)
class _Vibration:
    """The slowest vibration in which the flexible body bends. With phi its amplitudes at unit modal mass, M and K the
    body's modal mass and stiffness, and omega its angular frequency, the body damps it with the ratio
    phi . (alpha M + beta K) phi / (2 omega)."""

    frequency: float
    """Hz."""
    per_alpha: float
    """Damping ratio per unit of alpha, s."""
    per_beta: float
    """Damping ratio per unit of beta, 1/s."""

    def ratio(self, alpha: float, beta: float) -> float:
        return alpha * self.per_alpha + beta * self.per_beta


class _Problem:
    """The least-squares problem. Its unknowns (3,) are log(E / E_start), alpha and beta, scaled by `_units`."""

    def __init__(
        self, mech: Mechanism, flexible: FlexibleBody, motion: Motion, data: MeasuredMotion, body: str, dt: float
    ) -> None:
        self.mechanism, self.flexible, self.motion, self.data, self.dt = mech, flexible, motion, data, dt
        self.body, pose = mech.frame(body)
        if self.body < 0:
            raise MechanismError(f"'{body}' is fixed to the world, so its motion determines no material")
        own = mech.bodies[self.body]
        self.point: Array = own.centre if own.name == body else pose[:3, 3]
        for name in motion.motors:
            find([each.name for each in mech.motors], name, f"motor of '{mech.name}'")
        self._cache: dict[tuple[bytes, int], Array] = {}
        self._last: tuple[tuple[bytes, int], Tape] | None = None
        self._stiffened: dict[float, Part] = {}
        self._units = np.ones(3)
        material, basis = flexible.part.material, flexible.basis
        self._young = material.young
        self._damping = np.array([basis.alpha, basis.beta])
        first = self.vibration(np.zeros(3), own_damping=True)
        self._units = np.array([1.0, DAMPING_UNIT / first.per_alpha, DAMPING_UNIT / first.per_beta])
        self.start: Array = np.concatenate([[0.0], self._damping / self._units[1:]])
        self._check_data(body, first.frequency)

    def _check_data(self, body: str, frequency: float) -> None:
        times = self.data.times
        moved = np.abs(self.motion(times) - self.motion(0.0)).max(axis=1)
        if not moved.max() > 0:
            raise MechanismError("the motors do not move during the measurement, so nothing vibrates; measure a motion")
        begin = times[np.argmax(moved > 0.01 * moved.max())]
        periods = (times[-1] - begin) * frequency
        if periods < 1:
            raise MechanismError(
                f"the measured motion ends {times[-1] - begin:.3g} s after the motors start; the slowest vibration has "
                f"{frequency:.3g} Hz, so measure for {1 / frequency:.2g} s at least"
            )
        if np.median(np.diff(times)) * frequency > 1 / FEWEST_PER_PERIOD:
            raise MechanismError(
                f"the measured motion has a sample every {np.median(np.diff(times)):.3g} s; the slowest vibration has "
                f"{frequency:.3g} Hz and needs {FEWEST_PER_PERIOD} samples a period or more"
            )
        offset = float(np.linalg.norm(self.data.positions[0] - self.simulated(self.start, 1)[0]))
        if offset > LARGEST_OFFSET * self.mechanism.radius:
            raise MechanismError(
                f"'{body}' is measured {offset:.3g} m from its simulated position at the start; positions are in "
                "metres, in the axes of the mechanism's world, of the body's centre of mass"
            )
        horizons = []
        while periods > 2 * SCAN_PERIODS:
            horizons.append(int(np.searchsorted(times, begin + periods / frequency)))
            periods /= 2
        horizons.append(int(np.searchsorted(times, begin + periods / frequency)))
        self.horizons = [min(len(times), count + 1) for count in reversed(horizons)]
        """Numbers of samples: the fit begins with a few periods, since the phase of a long vibration has many
        near-solutions, and ends with all samples."""
        self._scan_step = 0.5 / periods  # E by this factor shifts the phase at the end by a quarter of a period

    # simulation

    def numbers(self, unknowns: Array) -> tuple[float, float, float]:
        """Young's modulus, alpha and beta."""
        alpha, beta = (unknowns * self._units)[1:].tolist()
        return self._young * float(np.exp(unknowns[0])), alpha, beta

    def altered(self, unknowns: Array) -> Mechanism:
        """The mechanism with another material of the flexible body."""
        young, alpha, beta = self.numbers(unknowns)
        if young not in self._stiffened:  # derivatives by alpha and beta use the same modulus
            self._stiffened = {young: stiffened(self.flexible.part, young / self._young)}
        part = self._stiffened[young]
        assert part.basis is not None
        material = replace(part.material, alpha=alpha, beta=beta)
        part = replace(part, material=material, basis=replace(part.basis, alpha=alpha, beta=beta))
        own = FlexibleBody(self.flexible.name, part)
        flexible = [own if each.name == own.name else each for each in self.mechanism.flexible]
        return replace(self.mechanism, flexible=tuple(flexible))

    def _equilibrium(self, mech: Mechanism) -> Equilibrium:
        return equilibrium(mech, targets=dict(zip(self.motion.motors, self.motion(0.0).tolist(), strict=True)))

    def vibration(self, unknowns: Array, *, own_damping: bool = False) -> _Vibration:
        """The slowest vibration in which the flexible body bends, at the start of the motion."""
        mech = self.mechanism if own_damping else self.altered(unknowns)
        flexible = mech.flexible[_flexible_index(mech, self.flexible.name)]
        start = self._equilibrium(mech)
        amplitudes = start.poses.amplitudes[flexible.name]
        stiffness = flexible.basis.force.evaluate(amplitudes).tangent
        found = modes(mech, at=start)
        for frequency, shape in zip(found.frequencies, found.shapes, strict=True):
            omega = 2 * np.pi * frequency
            phi = by_joint(mech, shape)[flexible.frame(flexible.moving[0])]
            bending = float(phi @ stiffness @ phi)
            if omega > 0 and bending > SHARE_OF_ENERGY * omega**2:
                mass = float(phi @ flexible.basis.mass_matrix @ phi)
                return _Vibration(float(frequency), mass / (2 * omega), bending / (2 * omega))
        raise MechanismError(f"no vibration bends flexible body '{flexible.name}'; check its joints")

    def simulated(self, unknowns: Array, count: int | None = None, *, quiet: bool = True) -> Array:
        """(count, 3) positions of the body at the measured times, m."""
        key = (unknowns.tobytes(), len(self.data.times[:count]))
        if not quiet or key not in self._cache:
            tape = self._run(unknowns, count, quiet)
            poses = tape.poses[:, self.body]
            self._cache[key] = self._at_samples(poses[:, :3, :3] @ self.point + poses[:, :3, 3], count)
            self._last = key, tape
        return self._cache[key]

    def _run(self, unknowns: Array, count: int | None, quiet: bool) -> Tape:
        """The simulated motion up to the last of `count` samples."""
        mech, last = self.altered(unknowns), self.data.times[:count][-1]
        steps = max(4, int(np.ceil(last / self.dt - 1e-9)))
        curve = self.motion(self.dt * np.arange(steps + 2))
        motors = {
            name: partial(_interpolated, curve[:, i].tolist(), self.dt) for i, name in enumerate(self.motion.motors)
        }
        with warnings.catch_warnings():
            if quiet:
                warnings.simplefilter("ignore", RangeWarning)
            sim = Simulation(mech, self.dt, "bdf2", at=self._equilibrium(mech), motors=motors)
            with sim.tape() as tape:
                sim.step(steps)
        return tape

    def _at_samples(self, values: Array, count: int | None) -> Array:
        """Values at the measured times, from those at the ends of time steps."""
        from scipy.interpolate import CubicSpline

        result: Array = CubicSpline(self.dt * np.arange(len(values)), values)(self.data.times[:count])
        return result

    def _residuals(self, unknowns: Array, count: int | None = None) -> Array:
        """(3 count,) simulated minus measured positions, m; far off where the simulation fails."""
        try:
            simulated = self.simulated(unknowns, count)
        except ConvergenceError:
            return np.full(3 * len(self.data.times[:count]), 10 * self.mechanism.radius)
        return (simulated - self.data.positions[:count]).ravel()

    def rms(self, unknowns: Array, count: int | None = None) -> float:
        """Root mean square distance of simulated and measured positions, m."""
        residuals = self._residuals(unknowns, count)
        return float(np.sqrt(3 * np.mean(residuals**2)))

    def _jacobian(self, unknowns: Array, columns: list[int], count: int | None = None) -> Array:
        """(3 count, columns) derivatives of the residuals, by a sweep over the recorded simulation."""
        key = (unknowns.tobytes(), len(self.data.times[:count]))
        if self._last is None or self._last[0] != key:
            try:
                self._last = key, self._run(unknowns, count, quiet=True)
            except ConvergenceError:
                return np.zeros((3 * len(self.data.times[:count]), len(columns)))
        tape = self._last[1]
        name = self.flexible.name
        units = self._units * [self.numbers(unknowns)[0], 1.0, 1.0]  # of Young's modulus, alpha and beta
        young, alpha, beta = ({name: units[k] * (np.array(columns) == k)} for k in range(3))
        start = np.zeros((len(columns), self.mechanism.dof))
        if 0 in columns:
            start[columns.index(0)] = self._start_derivative(unknowns)
        found = adjoint.tangent(tape, q=start, young=young, alpha=alpha, beta=beta, want=("poses",))
        turns, twists = tape.poses[:, self.body, :3, :3], found.poses[:, :, self.body]
        moved = twists[..., :3] + np.cross(twists[..., 3:], self.point)
        positions = np.einsum("tij,dtj->tdi", turns, moved)
        return self._at_samples(positions, count).transpose(0, 2, 1).reshape(-1, len(columns))

    def _start_derivative(self, unknowns: Array) -> Array:
        """(dof,) derivative of the equilibrium at the start by the first unknown."""
        change = np.array([START_DIFFERENCE, 0.0, 0.0])
        ends = [self._equilibrium(self.altered(unknowns + sign * change)).q for sign in (1.0, -1.0)]
        return np.asarray((ends[0] - ends[1]) / (2 * START_DIFFERENCE))

    # solution

    def scan(self, progress: Callable[[float], None]) -> Array:
        """The unknowns with the modulus of smallest residual over the first few periods."""
        n = int(np.ceil(np.log(SCAN_RANGE) / self._scan_step))
        trials = [self.start.copy() for _ in range(2 * n + 1)]
        residuals = []
        for k, trial in enumerate(trials):
            trial[0] = (k - n) / n * np.log(SCAN_RANGE)
            if not trial[1:].any():
                trial[2] = 0.5  # undamped vibrations would differ from measured ones at any modulus
            residuals.append(self.rms(trial, self.horizons[0]))
            progress((k + 1) / len(trials))
        return trials[int(np.argmin(residuals))]

    def fit(self, unknowns: Array, names: Sequence[str], count: int, history: list[float]) -> Array:
        """The unknowns of smallest residual over `count` samples. Those not named keep their values."""
        from scipy.optimize import least_squares

        columns = [NAMES.index(name) for name in names]
        self._cache.clear()

        def place(values: Array) -> Array:
            full = unknowns.copy()
            full[columns] = values
            return full

        def jacobian(values: Array) -> Array:
            history.append(self.rms(place(values), count))
            return self._jacobian(place(values), columns, count)

        lower = np.where(np.array(columns) == 0, -np.inf, 0.0)
        begin = np.maximum(unknowns[columns], np.where(np.isinf(lower), -np.inf, 1e-3))
        found = least_squares(
            lambda values: self._residuals(place(values), count),
            begin,
            jacobian,
            (lower, np.inf),
            x_scale="jac",
            ftol=FIT_TOLERANCE if count == len(self.data.times) else 0.01,
            xtol=FIT_TOLERANCE,
            gtol=1e-12,
            max_nfev=FIT_ITERATIONS,
        )
        return place(found.x)

    def _errors(self, unknowns: Array, names: Sequence[str]) -> Array:
        """(names,) standard errors of the unknowns; infinite where the measurement does not determine them."""
        residuals = self._residuals(unknowns)
        matrix = self._jacobian(unknowns, [NAMES.index(name) for name in names])
        lengths = np.linalg.norm(matrix, axis=0)
        if not (lengths > 0).all():
            return np.where(lengths > 0, 0.0, np.inf)
        values, vectors = np.linalg.eigh((matrix / lengths).T @ (matrix / lengths))
        if values[0] < 1e-13:
            return np.full(len(names), np.inf)
        variance = float(residuals @ residuals) / (len(residuals) - len(names))
        errors: Array = np.sqrt(variance * (vectors**2 / values).sum(axis=1)) / lengths
        return errors

    def standard_errors(self, unknowns: Array, names: Sequence[str]) -> dict[str, float]:
        """Standard errors in the units of the material."""
        scale = self._units.copy()
        scale[0] = self.numbers(unknowns)[0]
        errors = self._errors(unknowns, names)
        return {name: float(scale[NAMES.index(name)] * e) for name, e in zip(names, errors, strict=True)}

    def undetermined(self, unknowns: Array, names: Sequence[str]) -> list[str]:
        """Names of the numbers that the measurement does not determine."""
        _, alpha, beta = self.numbers(unknowns)
        vibration = self.vibration(unknowns)
        allowed = max(LARGEST_ERROR * vibration.ratio(alpha, beta), SMALLEST_RATIO)
        limits = {
            "young": LARGEST_ERROR,
            "alpha": allowed / (vibration.per_alpha * self._units[1]),
            "beta": allowed / (vibration.per_beta * self._units[2]),
        }
        errors = self._errors(unknowns, names)
        return [name for name, error in zip(names, errors, strict=True) if not error < limits[name]]

    def check_result(self, unknowns: Array, names: Sequence[str]) -> None:
        """Raises if the simulation does not follow the measurement or a number is not determined by it."""
        positions = self.data.positions
        spread = float(np.sqrt(((positions - positions.mean(axis=0)) ** 2).sum(axis=1).mean()))
        rms = self.rms(unknowns)
        if rms > LARGEST_RESIDUAL * spread:
            raise MechanismError(
                f"no material makes the simulation follow the measurement: the distance is {1e3 * rms:.3g} mm (root "
                f"mean square), the measured motion {1e3 * spread:.3g} mm; compare time zero, axes, units and masses, "
                f"or start from a modulus within a factor of {SCAN_RANGE:g}"
            )
        missing = self.undetermined(unknowns, names)
        if missing:
            rest = [name for name in names if name not in missing]
            if set(missing) == {"alpha", "beta"}:  # both damp a vibration alike: one of them may be determined
                rest.append("beta")
            fewer = f", or fit fewer numbers: fit={tuple(rest)}" if rest else ""
            raise MechanismError(
                f"the measurement does not determine {listed(missing)}: measure longer or a faster motion{fewer}"
            )
        alpha = self.numbers(unknowns)[1]
        if "alpha" not in names and "beta" in names and alpha > 0 and unknowns[2] < 1e-3:
            raise MechanismError(
                f"alpha = {alpha:g} 1/s, which is kept, damps more than was measured; start from a smaller alpha"
            )
