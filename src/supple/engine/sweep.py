"""`supple.sweep`: equilibria of many variants of a mechanism under several loads."""

from __future__ import annotations

import csv
import functools
import hashlib
import importlib
import itertools
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from pickle import PicklingError, dumps
from time import monotonic
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from supple.engine.assembly import Load, equations, loads
from supple.engine.linearisation import Linearisation, check_held
from supple.engine.newton import BRANCH_LIMIT, Newton, newton_limits
from supple.engine.stability import has_potential
from supple.engine.statics import Equilibrium, equilibrium, solved_equilibrium
from supple.errors import ConvergenceError, MechanismError
from supple.files import read_arrays, writing
from supple.mechanism import Mechanism
from supple.mechanism.axes import per_axis
from supple.mechanism.idle import idle_spins
from supple.mechanism.io import json
from supple.mechanism.mechanism import check_mechanism
from supple.mechanism.parameters import NOT_NEGATIVE, Parameter, Parameters
from supple.mechanism.record import Array, array, lock
from supple.mechanism.springs import coupling_stiffness, joint_stiffness, stiffness_scale
from supple.progress import progress_callback

Measure: TypeAlias = Callable[[Equilibrium], ArrayLike]
CHUNKS_PER_WORKER = 8
SECONDS_BETWEEN_SAVES = 1.0
MOST_VARIANTS = 10_000_000


@dataclass(frozen=True)
class Sweep:
    """An array of measured values with labelled axes."""

    names: tuple[str, ...]
    """Names of the axes of `values`: the varied parameters, "load", and "component" or "component 0", ... if the
    measure is an array."""
    axes: dict[str, tuple[Any, ...]]
    """Labels along each axis: values of a parameter, names or numbers of the loads, components."""
    values: Array
    """As many axes as `names`. NaN at the entries of `failures`."""
    failures: dict[tuple[int, ...], str] = field(default_factory=dict)
    """Why there is no equilibrium, by the index of variant and load; empty unless `skip_failures=True`."""

    def __post_init__(self) -> None:
        lock(self.values)

    def to_xarray(self) -> Any:
        """An `xarray.DataArray` with the same values; xarray must be installed."""
        try:
            xarray = importlib.import_module("xarray")
        except ImportError:
            raise ImportError("to_xarray needs xarray: pip install xarray") from None
        return xarray.DataArray(self.values.copy(), {name: list(self.axes[name]) for name in self.names}, self.names)

    def rows(self) -> Iterator[list[Any]]:
        """A header, then one row for each variant and load: labels, then the components of the measure."""
        inner = [name for name in self.names if name.startswith("component")]
        outer = self.names[: len(self.names) - len(inner)]
        components = list(itertools.product(*(self.axes[name] for name in inner)))
        yield [*outer, *(".".join(map(str, each)) or "value" for each in components)]
        flat = self.values.reshape(-1, max(1, len(components)))
        for labels, row in zip(itertools.product(*(self.axes[name] for name in outer)), flat, strict=True):
            yield [*labels, *row.tolist()]

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Writes `rows` as a CSV file."""
        with writing(path) as file:
            csv.writer(file).writerows(self.rows())


def sweep(
    mech: Mechanism,
    vary: Mapping[Any, ArrayLike],
    loads: Mapping[str, Any] | Sequence[Mapping[str, ArrayLike]] | None = None,
    measure: Measure | str = "",
    *,
    frame: str = "world",
    executor: Executor | None = None,
    resume: str | PathLike[str] | None = None,
    skip_failures: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Sweep:
    """Measures the equilibria of all combinations of parameter values, under each of several loads.

    Each equilibrium is that of `supple.equilibrium` from the reference pose, so the result does not depend on the
    order. The equations and the pattern of their factorisation are built once for each thread.

    Args:
        mech: the mechanism.
        vary: {name: values (n,)}, with the names of `mech.parameters` or "tip.payload". Several parameters that have
            the same value in each variant are given as a tuple of names.
        loads: wrenches as for `supple.equilibrium`: one dictionary, a sequence of them, or {label: dictionary}. By
            default no load.
        measure: a function of an `Equilibrium` that returns a number or an array, always of the same shape; or the name
            of a body or site, for its position in the world (3,), which is faster.
        frame: axes of the wrenches, "world" or "body".
        executor: any `concurrent.futures.Executor`, for example that of a dask client (`client.get_executor()`).
            Executors of processes need a `measure` that can be pickled. By default a thread for each core.
        resume: a file (.npz) for the results so far. If it exists and is of the same sweep, only the rest is computed.
        skip_failures: True to leave NaN where there is no equilibrium, and list it in `failures`. By default the sweep
            raises.
        progress: called with the share done, 0 to 1; by default a progress bar appears after two seconds.

    Raises:
        MechanismError: a name does not exist, an array has the wrong shape or is not finite, or the file of `resume`
            is of another sweep.
        ConvergenceError: there is no equilibrium; the text names the variant and the load.
    """
    task = _Task.checked(mech, vary, loads, measure, frame)
    results = _Results(task, None if resume is None else Path(resume))
    left = results.missing()
    with progress_callback("sweep", progress) as report:
        report(1 - len(left) / max(1, task.variants))
        if executor is not None:
            _run(task, results, left, executor, 1, skip_failures, report)
        elif left:
            workers = min(os.cpu_count() or 1, len(left))
            with ThreadPoolExecutor(workers) as pool:
                _run(task, results, left, pool, workers, skip_failures, report)
    return results.finished(skip_failures)


@dataclass
class _Task:
    """What is computed for each variant; it can be pickled."""

    mech: Mechanism
    parameters: list[tuple[Parameter, ...]]
    values: list[Array]
    labels: list[str]
    """Of the varied parameters."""
    loads: dict[Any, tuple[Load, ...]]
    wrenches: list[Mapping[str, ArrayLike]]
    measure: Measure | str
    frame: str
    local: Any = field(default_factory=threading.local)
    """The solver of each thread."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "local"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, local=threading.local())

    @staticmethod
    def checked(mech: Mechanism, vary: Any, given: Any, measure: Any, frame: str) -> _Task:
        check_mechanism(mech)
        if not isinstance(vary, Mapping) or not vary:
            raise MechanismError("give the parameters to vary: {'elbow.stiffness': [10.0, 20.0], ...}")
        names = Parameters(mech)
        parameters, values, labels = [], [], []
        for key, numbers in vary.items():
            group = tuple(names.find(name) for name in ((key,) if isinstance(key, str) else tuple(key)))
            label = key if isinstance(key, str) else ", ".join(key)
            checked = array(numbers, (-1,), f"values of '{label}'")
            if not len(checked):
                raise MechanismError(f"there are no values of '{label}'; give one or more")
            if (checked < 0).any() and any(each.field in NOT_NEGATIVE for each in group):
                raise MechanismError(f"values of '{label}' must not be negative, got {checked.min():g}")
            parameters.append(group)
            values.append(checked)
            labels.append(label)
        same = [(p.part, p.index, p.field, p.axis, p.point) for group in parameters for p in group]
        if len(set(same)) < len(same):
            raise MechanismError("one parameter is varied twice ('target' and 'rest' of a spring are the same number)")
        if math.prod(map(len, values)) > MOST_VARIANTS:
            raise MechanismError(f"these are more than {MOST_VARIANTS:,} variants; vary fewer parameters at a time")
        wrenches = _listed_loads(given)
        if isinstance(measure, str):
            if not measure:
                raise MechanismError("give a measure: a function of an Equilibrium, or the name of a body or site")
            mech.frame(measure)
        elif not callable(measure):
            raise MechanismError(f"measure is a function of an Equilibrium or the name of a body, got {measure!r:.60}")
        acting = {label: tuple(loads(mech, each, frame)) for label, each in wrenches.items()}
        return _Task(mech, parameters, values, labels, acting, list(wrenches.values()), measure, frame)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(values) for values in self.values)

    @property
    def variants(self) -> int:
        return math.prod(self.shape)

    def values_of(self, variant: int) -> dict[Parameter, float]:
        """The parameters of a variant."""
        result: dict[Parameter, float] = {}
        for group, values in zip(reversed(self.parameters), reversed(self.values), strict=True):
            variant, i = divmod(variant, len(values))  # quicker than np.unravel_index
            result |= dict.fromkeys(group, float(values[i]))
        return result

    def describe(self, variant: int, load: int) -> str:
        index = np.unravel_index(variant, self.shape)
        numbers = [f"{n} = {v[i]:g}" for n, v, i in zip(self.labels, self.values, index, strict=True)]
        return f"{', '.join(numbers)}, load {list(self.loads)[load]!r}"

    def fingerprint(self) -> str:
        """Differs between sweeps of other mechanisms, values, loads or measures."""
        measure = self.measure if isinstance(self.measure, str) else _contents(self.measure)
        hashed = hashlib.sha256(json.dumps(self.mech).encode())
        for name, values in zip(self.labels, self.values, strict=True):
            hashed.update(f"{name}:".encode() + values.tobytes())
        for label, each in self.loads.items():
            parts = [f"{load.name} {load.world} {load.wrench.tolist()}" for load in each]
            hashed.update(f"{label}: {parts} {measure}".encode())
        return hashed.hexdigest()


def _contents(value: Any) -> str:
    """A text that differs between functions with other code, or other numbers, texts and arrays in their closures,
    defaults, globals and `functools.partial`. Other objects, also lists and dictionaries, count by their type only: a
    measure may collect something in them."""
    if isinstance(value, functools.partial):
        return f"partial {_contents((value.func, *value.args, *value.keywords, *value.keywords.values()))}"
    if isinstance(value, MethodType):
        return f"method {_contents((value.__func__, value.__self__))}"
    if isinstance(value, FunctionType):
        used = [value.__globals__.get(name) for name in value.__code__.co_names]
        cells = [cell.cell_contents for cell in value.__closure__ or () if _has_contents(cell)]
        numbers = tuple(each for each in used if isinstance(each, int | float | str | tuple | np.ndarray))
        given = *cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *numbers
        return f"{value.__qualname__} {_contents(value.__code__)} {_contents(given)}"
    if isinstance(value, CodeType):
        return f"{value.co_code.hex()} {value.co_names} {_contents(value.co_consts)}"
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, tuple):
        return str([_contents(each) for each in value])
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | np.generic):
        return repr(value)
    return type(value).__qualname__


def _has_contents(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False


def _listed_loads(given: Any) -> dict[Any, Mapping[str, ArrayLike]]:
    """Wrenches by label."""
    if given is None:
        return {0: {}}
    if isinstance(given, Mapping):
        if given and all(isinstance(each, Mapping) for each in given.values()):
            return dict(given)
        return {0: given}
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(e, Mapping) for e in given):
        raise MechanismError("loads are given as [{'tip': [fx, fy, fz, tx, ty, tz]}, ...] or {label: {...}}")
    if not given:
        raise MechanismError("there are no loads; give one or more, or loads=None for none")
    return dict(enumerate(given))


class _Solver:
    """The equations of a mechanism, for the variants of one thread."""

    def __init__(self, task: _Task) -> None:
        self.task, mech = task, task.mech
        self.names = Parameters(mech)
        varied = [each for group in task.parameters for each in group]
        softest = [v.min() for g, v in zip(task.parameters, task.values, strict=True) if g[0].field == "stiffness"]
        # what these lack needs the checks of `equilibrium` for each variant
        self.simple = not mech.flexible and not idle_spins(mech) and min(softest, default=1.0) > 0
        self.simple = self.simple and all(p.part != "motor" for p in varied)
        if not self.simple:
            return
        self.eqs = equations(mech)
        self.model = self.eqs.core.model  # a copy, for the numbers of variants
        self.newton = Newton(self.eqs)
        self.start = self.eqs.zero_state()
        self.needs_equilibrium = not isinstance(task.measure, str)
        if not self.needs_equilibrium:
            self.body, pose = mech.frame(str(task.measure))
            self.point = np.ascontiguousarray(pose[:3, 3])
        self.checked: set[int] = set()
        """Loads under which every coordinate was found to be held."""
        self.loads = list(task.loads.values())
        self.ends = np.cumsum([len(each) for each in self.loads]).tolist()
        """Number of loads up to each set of them."""
        self.potential = [has_potential(mech, each) for each in self.loads]
        self.varied = {(each.part, each.index) for each in varied}
        self.varies_targets = any(each.field not in ("stiffness", "damping", "mass") for each in varied)
        self.acting = self.eqs.acting([load for each in self.loads for load in each])
        """All loads, with the set-points of the present variant."""
        self.compiled = self.eqs.compiled(self.acting)
        self.scale_by_part = not any(part in ("body", "payload") for part, _ in self.varied)
        zero = {each: 0.0 for each in varied if each.field == "stiffness"}
        self.unvaried_scale = stiffness_scale(self.names.changed(zero))

    def measure(self, variant: int, load: int) -> Array:
        """The measured value of one variant under one load."""
        task = self.task
        if self.simple:
            found = self._solved_in_one_step(load)
            if found is not None:
                return found
        changed = self.names.changed(task.values_of(variant))
        return self._measured(equilibrium(changed, task.wrenches[load], frame=task.frame))

    def set_variant(self, variant: int) -> None:
        """Sets the numbers of a variant in the equations."""
        if not self.simple:
            return
        values, eqs = self.task.values_of(variant), self.eqs
        mech = self.names.changed(values)
        self.model.set_stiffness(per_axis(mech, "stiffness"), self._stiffness_scale(mech))
        for each in values:
            if each.part == "coupling" and each.field == "stiffness":
                coupling = mech.couplings[each.index]
                self.model.set_spring_stiffness(eqs.spring[coupling.name], coupling.stiffness)
            elif each.part in ("body", "payload"):
                body = mech.bodies[each.index]
                self.model.set_inertia(each.index, body.mass, body.centre, body.inertia)
        self.eqs = self.newton.eqs = replace(eqs, mechanism=mech, core=eqs.core.with_numbers(self.model))
        if self.varies_targets:
            targets = {c.name: c.rest for c in mech.couplings} | {m.name: m.position for m in mech.motors}
            self.acting = replace(self.acting, rest=per_axis(mech, "rest"), targets=targets)
            self.compiled = eqs.compiled(self.acting)

    def _stiffness_scale(self, mech: Mechanism) -> float:
        """`stiffness_scale` of a variant; only varied parts are computed again."""
        if not self.scale_by_part:
            return stiffness_scale(mech)
        scales = [joint_stiffness(mech.joints[i], mech.radius) for part, i in self.varied if part == "joint"]
        scales += [coupling_stiffness(mech.couplings[i]) for part, i in self.varied if part == "coupling"]
        return max(self.unvaried_scale, *scales, 0.0)

    def _solved_in_one_step(self, load: int) -> Array | None:
        """Newton's method from the reference pose in one step; None if the load needs more steps."""
        newton, acting = self.newton, replace(self.acting, loads=self.loads[load])
        newton.state, newton.iterations = self.start, 0
        if not newton.correct(self.eqs.compiled(acting), self.potential[load]).converged:
            return None
        if load not in self.checked:
            check_held(Linearisation.at(self.eqs, acting, newton.state))
            self.checked.add(load)
        if self.needs_equilibrium:
            return self._measured(solved_equilibrium(newton, acting))
        pose = self.eqs.evaluated(acting, newton.state).poses[self.body] if self.body >= 0 else np.eye(4)
        at: Array = pose[:3, :3] @ self.point + pose[:3, 3]
        return at

    def positions(self) -> list[Array | None]:
        """Positions (3,) of the measured body for each load, in one call of the core that leaves other threads free.
        None where that does not give the answer: `measure` does then."""
        if self.needs_equilibrium or len(self.checked) < len(self.loads):
            return [None] * len(self.task.loads)
        start, limits = self.start, newton_limits()
        converged, found = self.eqs.core.positions_under(
            self.compiled, *start, limits, BRANCH_LIMIT, self.ends, self.potential, self.body, self.point
        )
        return [at if known else None for at, known in zip(found, converged, strict=True)]

    def _measured(self, found: Equilibrium) -> Array:
        measure = self.task.measure
        value = found.poses[measure][:3, 3] if isinstance(measure, str) else measure(found)
        result = np.array(value, dtype=float)
        if not np.isfinite(result).all():
            raise MechanismError("the measure is not finite")
        return result


def _solve(task: _Task, variants: Sequence[int]) -> list[list[Array | Exception]]:
    """Values of some variants, for each load. An error takes the place of a value."""
    if getattr(task.local, "solver", None) is None:
        task.local.solver = _Solver(task)
    solver: _Solver = task.local.solver
    result: list[list[Array | Exception]] = []
    for variant in variants:
        row: list[Array | Exception] = []
        solver.set_variant(variant)
        for load, known in enumerate(solver.positions() if solver.simple else [None] * len(task.loads)):
            try:
                row.append(solver.measure(variant, load) if known is None else known)
            except (ConvergenceError, MechanismError) as error:
                row.append(type(error)(f"{task.describe(variant, load)}: {error}"))
        result.append(row)
    return result


def _run(
    task: _Task,
    results: _Results,
    left: list[int],
    executor: Executor,
    workers: int,
    skip_failures: bool,
    report: Callable[[float], None],
) -> None:
    """Computes the variants that are left, in chunks that the executor runs at the same time."""
    count = max(1, min(len(left), CHUNKS_PER_WORKER * max(workers, 4)))
    chunks = [chunk.tolist() for chunk in np.array_split(np.array(left, dtype=int), count) if len(chunk)]
    futures: dict[Future[Any], list[int]] = {executor.submit(_solve, task, chunk): chunk for chunk in chunks}
    try:
        for done in futures:  # in order, so that the first failure is always the same one
            for variant, row in zip(futures[done], _rows(done, task), strict=True):
                results.put(variant, row, skip_failures)
            results.save_sometimes()
            report(results.fraction_done)
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    finally:
        results.save()


def _rows(done: Future[Any], task: _Task) -> list[list[Array | Exception]]:
    """What `_solve` returned in a thread or process."""
    try:
        rows: list[list[Array | Exception]] = done.result()
    except (PicklingError, AttributeError, TypeError) as error:
        if not _is_picklable(task):
            raise MechanismError(
                f"the measure cannot be sent to other processes ({error}); define it with `def` at the top level of a "
                "module, name a body instead, or use an executor of threads"
            ) from None
        raise
    return rows


def _is_picklable(task: _Task) -> bool:
    try:
        dumps(task)
    except (PicklingError, AttributeError, TypeError):
        return False
    return True


class _Results:
    """Values so far, and the file that keeps them."""

    def __init__(self, task: _Task, path: Path | None) -> None:
        self.task, self.path, self.saved = task, path, monotonic()
        self.values: Array | None = None
        """(variants, loads, *shape of the measure)"""
        self.done = np.zeros(task.variants, dtype=bool)
        self.failures: dict[tuple[int, int], str] = {}
        if path is not None and path.exists():
            self._read(path)

    @property
    def fraction_done(self) -> float:
        return float(self.done.mean())

    def missing(self) -> list[int]:
        found: list[int] = np.flatnonzero(~self.done).tolist()
        return found

    def put(self, variant: int, row: list[Array | Exception], skip_failures: bool) -> None:
        for load, value in enumerate(row):
            if isinstance(value, Exception):
                if not skip_failures:
                    raise value
                self.failures[variant, load] = str(value)
                continue
            if self.values is None:
                self.values = np.full((self.task.variants, len(self.task.loads), *value.shape), np.nan)
            if value.shape != self.values.shape[2:]:
                raise MechanismError(
                    f"the measure has shape {value.shape} at {self.task.describe(variant, load)}, "
                    f"and {self.values.shape[2:]} before; it must always be the same"
                )
            self.values[variant, load] = value
        self.done[variant] = True

    def save_sometimes(self) -> None:
        if monotonic() - self.saved > SECONDS_BETWEEN_SAVES:
            self.save()

    def save(self) -> None:
        """Writes the file, so that it is always complete."""
        if self.path is None or self.values is None:
            return
        failed = np.array(list(self.failures), dtype=int).reshape(-1, 2)
        with writing(self.path, binary=True, replace=True) as file:
            np.savez(
                file,
                fingerprint=np.array(self.task.fingerprint()),
                values=self.values,
                done=self.done,
                failed=failed,
                texts=np.array(list(self.failures.values()), dtype=str),
            )
        self.saved = monotonic()

    def _read(self, path: Path) -> None:
        try:
            file = read_arrays(path, "an NPZ file")
            content = {name: file[name] for name in ("fingerprint", "values", "done", "failed", "texts")}
        except (MechanismError, KeyError) as error:
            raise MechanismError(f"'{path}' is no file of a sweep ({error}); remove it to start again") from None
        values, done = content["values"], content["done"]
        same = str(content["fingerprint"]) == self.task.fingerprint()
        if not same or done.shape != self.done.shape or values.shape[:2] != (len(done), len(self.task.loads)):
            raise MechanismError(f"'{path}' is of another sweep; remove it, or give another file to resume")
        self.values, self.done = np.array(values, dtype=float), np.array(done, dtype=bool)
        pairs = zip(content["failed"].tolist(), content["texts"].tolist(), strict=True)
        self.failures = {(int(variant), int(load)): str(text) for (variant, load), text in pairs}

    def finished(self, skip_failures: bool) -> Sweep:
        task = self.task
        if self.failures and not skip_failures:
            raise ConvergenceError(next(iter(self.failures.values())))
        if self.values is None:
            raise ConvergenceError(f"no variant has a value: {next(iter(self.failures.values()))}")
        inner = self.values.shape[2:]
        names = ["component"] if len(inner) == 1 else [f"component {i}" for i in range(len(inner))]
        is_position = isinstance(task.measure, str)
        axes: dict[str, tuple[Any, ...]] = {n: tuple(v.tolist()) for n, v in zip(task.labels, task.values, strict=True)}
        axes["load"] = tuple(task.loads)
        axes |= {n: ("x", "y", "z") if is_position else tuple(range(k)) for n, k in zip(names, inner, strict=True)}
        failures = {
            (*(int(i) for i in np.unravel_index(variant, task.shape)), load): text
            for (variant, load), text in sorted(self.failures.items())
        }
        return Sweep(tuple(axes), axes, self.values.reshape(*task.shape, len(task.loads), *inner), failures)
