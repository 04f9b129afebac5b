"""What `supple demo` does: the ladder folded into its top rung, pulled, beside the full engine."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

import numpy as np

import supple
from supple.mechanism import Mechanism, Poses
from supple.mechanism.record import Array

FORCE = 20.0
"""N, sideways."""
DT, MOTION, REST = 2e-3, 2000, 500_000
"""Step, s; how many to compare in motion, and how many until the reduced model has come to rest."""


@dataclass(frozen=True)
class Comparison:
    """The reduced model beside the engine."""

    mechanism: Mechanism
    model: supple.ReducedModel
    full: Poses
    """At rest under the pull, by the engine."""
    reduced: Poses
    """The same by the reduced model."""
    built: float
    """s, to reduce the mechanism."""
    full_step: float
    """s a step."""
    reduced_step: float
    """s a step."""
    swing: float
    """m, by which the tip is off at most while it swings."""
    separation: float
    """How far the joints come apart at rest, summed, over the radius."""

    @property
    def moved(self) -> float:
        """m, of the link that moves most."""
        return _apart(self.full.array, self.mechanism.poses.array)

    @property
    def error(self) -> float:
        """m, between reduced and full, of the link that is off most."""
        return _apart(self.full.array, self.reduced.array)

    @property
    def rows(self) -> list[tuple[str, str, str, str]]:
        """For `tables.show_comparison`."""
        faster = f"{self.full_step / self.reduced_step:.0f} times faster"
        seconds, moved = f"{DT * MOTION:g} s", f"{1e3 * self.moved:.0f} mm moved"
        return [
            ("a step of the tip", f"{1e6 * self.reduced_step:.2f} µs", f"{1e6 * self.full_step:.0f} µs", faster),
            (f"tip, within {seconds}", "", "", f"{1e3 * self.swing:.1f} mm apart at most"),
            ("links, at rest", "", moved, f"{1e3 * self.error:.1f} mm apart at most"),
            ("joints, at rest", f"{self.separation:.3f} of the radius apart", "closed", ""),
        ]


def compare() -> Comparison:
    """Reduces the ladder, pulls its tip in both ways, in motion and until it rests."""
    mech, wrench = supple.library.ladder(), [0.0, FORCE, 0.0, 0.0, 0.0, 0.0]
    supple.reduce(supple.library.y(), ["left_tip"])  # imported now, so that the time is that of the reduction
    start = perf_counter()
    model = supple.reduce(mech, ["tip"])
    built = perf_counter() - start
    fast, slow = supple.ReducedSimulation(model, DT), supple.Simulation(mech, DT)
    fast.apply("tip", wrench)
    slow.apply("tip", wrench)
    swing, took = 0.0, np.zeros(2)
    for _ in range(MOTION // 100):
        start = perf_counter()
        fast.step(100)
        between = perf_counter()
        slow.step(100)
        took += between - start, perf_counter() - between
        off = fast.end_effector_pose("tip")[:3, 3] - slow.poses["tip"][:3, 3]
        swing = max(swing, float(np.linalg.norm(off)))
    fast.step(REST)
    full = supple.equilibrium(mech, {"tip": wrench})
    steps = took / MOTION
    return Comparison(
        mech, model, full.poses, fast.poses, built, float(steps[1]), float(steps[0]), swing, fast.separation.total
    )


def _apart(a: Array, b: Array) -> float:
    return float(np.linalg.norm(a[:, :3, 3] - b[:, :3, 3], axis=1).max())
