"""A record of accepted time steps, from which `supple.engine.adjoint` computes derivatives."""

from __future__ import annotations

from functools import cached_property
from types import TracebackType

from supple import _core
from supple.engine.assembly import Equations
from supple.errors import MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.axes import of_tree
from supple.mechanism.record import Array


class Tape:
    """The time steps that a `Simulation` has made since `Simulation.tape` was called.

    Arrays over time have `steps + 1` rows: the start, then the end of each time step. The recording ends with `stop`,
    at the end of a `with` block, when another tape is started, when the simulation is reset or restored, and when a
    `World` steps the simulation. A time step that fails is not recorded.

    Coordinates and multipliers are stored; poses are computed from them. A step takes 8 (axes + 2 rows + 6 loops) bytes
    and 64 more, for an arm of 20 links 0.23 kB; rows are motors, rigid couplings and limits.
    """

    def __init__(self, eqs: Equations, engine: _core.Engine) -> None:
        self._eqs, self._engine = eqs, engine
        self._core = engine.record()

    @property
    def mechanism(self) -> Mechanism:
        return self._eqs.mechanism

    @property
    def equations(self) -> Equations:
        """The simulation's equations, for the sweeps."""
        return self._eqs

    @property
    def core(self) -> _core.Tape:
        """The compiled records, for the sweeps."""
        return self._core

    @cached_property
    def sweep(self) -> _core.Adjoint:
        """The compiled sweeps over the records."""
        return self.new_sweep()

    def new_sweep(self) -> _core.Adjoint:
        """Further compiled sweeps over the records, for another thread."""
        if self._core.driven:
            raise MechanismError(
                f"an actuator of '{self.mechanism.name}' was controlled or at the limit of its force on this tape, "
                "which derivatives do not take into account; use set-points or set_torque instead of set_control"
            )
        if self._core.softened:
            raise MechanismError(
                f"limits of '{self.mechanism.name}' contradicted each other on this tape and gave way, which "
                "derivatives do not take into account; widen or remove some of them"
            )
        return _core.Adjoint(self._engine, self._core)

    @property
    def recording(self) -> bool:
        """Whether further time steps will be recorded."""
        return bool(self._engine.is_recording(self._core))

    def stop(self) -> None:
        """Ends the recording; what was recorded stays."""
        if self.recording:
            self._engine.stop_recording()

    def __enter__(self) -> Tape:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def steps(self) -> int:
        """Number of recorded time steps."""
        return int(self._core.steps)

    @property
    def times(self) -> Array:
        """(steps + 1,) simulated time, s."""
        times: Array = self._core.times
        return times

    @property
    def coordinates(self) -> Array:
        """(steps + 1, dof) coordinates of the spanning tree, in the order of `mech.coordinates`; rad and m."""
        return of_tree(self.mechanism, self._core.q)

    @property
    def poses(self) -> Array:
        """(steps + 1, bodies, 4, 4) world poses of the bodies, in the order of `mech.bodies`."""
        poses: Array = self.sweep.poses()
        return poses

    @property
    def motors(self) -> dict[str, Array]:
        """(steps + 1,) position of each motor by name, rad or m."""
        targets = self._core.targets
        return {motor.name: targets[:, self._eqs.row[motor.name]] for motor in self.mechanism.motors}

    @property
    def torques(self) -> dict[str, Array]:
        """(steps + 1,) torque or force of each motor on its coordinate by name, N m or N."""
        multipliers = self._core.multipliers
        return {motor.name: -multipliers[:, self._eqs.row[motor.name]] for motor in self.mechanism.motors}

    @property
    def divided(self) -> tuple[int, ...]:
        """Time steps (rows of the arrays over time) that were divided into smaller ones."""
        return tuple(self._core.divided)

    @property
    def impacts(self) -> tuple[int, ...]:
        """Time steps (rows of the arrays over time) in which a limit was met or left. Derivatives keep the set of
        touched limits of each step, so they are one-sided there."""
        return tuple(self._core.impacts)

    @property
    def memory(self) -> int:
        """Bytes that the records take."""
        return int(self._core.bytes)
