"""Retargeting of the library's characters with the choices of the paper, and the optimised motions that are stored.

result = characters.retargeted("dancer")         # minutes; `seconds=2` takes the first two seconds only
result = characters.stored("dancer", dt=2e-3)    # plays the curves that benchmarks/characters.py --write made
result = characters.stored("dancer", "clavicle 100", dt=2e-3)    # those of another of the three dances
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from supple.errors import MechanismError
from supple.files import read_arrays
from supple.mechanism import Mechanism
from supple.mechanism.library import characters
from supple.mechanism.library.characters import motions
from supple.mechanism.library.characters._parts import SPEED_LIMIT, TORQUE_LIMIT
from supple.mechanism.library.characters.motions import WAVE, Keyframes
from supple.mechanism.poses import find
from supple.retargeting.motion import Motion
from supple.retargeting.optimiser import Retargeted, compared, retarget
from supple.retargeting.problem import Problem
from supple.retargeting.weights import Weight, Weights, check_inputs

FOLDER = Path(__file__).parent / "curves"
"""Of the stored motions."""
MARGIN = 0.98
"""Share of the servos' limits at which the penalty of the optimisation begins: curves may exceed that slightly."""
RAMP = 0.1
"""Time in which a weight that changes rises and falls, s."""


@dataclass(frozen=True, eq=False)
class Character:
    """A character, its motion, and what is tracked."""

    robot: Callable[[], Mechanism]
    keyframes: Callable[[], Keyframes]
    track: Mapping[str, Weight]
    orientation: Mapping[str, Weight] = field(default_factory=dict)
    dt: tuple[float, ...] = (8e-3, 2e-3, 5e-4)
    """Time steps, coarse to fine, s."""
    method: str = "mixed"
    iterations: int = 20
    """At each time step, at most."""

    @property
    def motion(self) -> Motion:
        """The motion as it is given."""
        keys = self.keyframes()
        return Motion.from_samples(keys.times, keys.positions, keys.rate)

    def weights(self, track: Mapping[str, Weight] | None = None) -> Weights:
        return Weights(
            track or self.track, self.orientation, speed_limit=MARGIN * SPEED_LIMIT, torque_limit=MARGIN * TORQUE_LIMIT
        )


FIGURE = {"head": 1.0, "pelvis": 1.0, "left_hand": 1.0, "right_hand": 1.0}
"""Tracked bodies of the drummer and of the boxer."""
CHARACTERS = {
    "dancer": Character(
        characters.dancer, motions.dance, {"clavicle": 1.0, "left_hand": 1.0, "right_hand": 1.0}, iterations=40
    ),
    "bartender": Character(characters.bartender, motions.serving, {"elbow": 1.0, "glass": 1.0}, {"glass": 1.0}),
    "rapper": Character(characters.rapper, motions.rap, {"elbow": 1.0, "hand": 1.0}),
    "drummer": Character(characters.drummer, motions.drumming, FIGURE, method="l-bfgs", iterations=100),
    "boxer": Character(characters.boxer, motions.boxing, FIGURE, method="l-bfgs", iterations=100),
}
"""By name."""

FIRST_DANCE = "all one"
DANCES: dict[str, dict[str, Weight]] = {
    FIRST_DANCE: {"clavicle": 1.0, "left_hand": 1.0, "right_hand": 1.0},
    "clavicle 100": {"clavicle": 100.0, "left_hand": 1.0, "right_hand": 1.0},
    "left hand 100": {
        "clavicle": 1.0,
        "left_hand": ([WAVE[0] - RAMP, WAVE[0], WAVE[1], WAVE[1] + RAMP], [1.0, 100.0, 100.0, 1.0]),
        "right_hand": 1.0,
    },
}
"""Weights of the three dances of the paper's figure 10; the last one while the left hand waves."""


def character(name: str) -> Character:
    """The character of a name."""
    return list(CHARACTERS.values())[find(list(CHARACTERS), name, "character")]


def retargeted(
    name: str,
    motion: Motion | None = None,
    *,
    track: Mapping[str, Weight] | None = None,
    seconds: float | None = None,
    **options: Any,
) -> Retargeted:
    """Retargets a motion for a character.

    Args:
        name: of the character.
        motion: default: its own.
        track: weights of tracked bodies; default: those of the paper.
        seconds: takes the beginning of the motion only.
        options: of `supple.retarget`; by default method, time steps and number of iterations are those of the
            character, and the limits 98 % of those of the servos.

    Raises:
        MechanismError: there is no such character, a motor or body is missing, or the motion is faster than the motors.
    """
    own = character(name)
    given = own.motion if motion is None else motion
    if seconds is not None:
        given = beginning(given, seconds)
    robot, weights = own.robot(), own.weights(track)
    check_inputs(robot, given, weights)
    check_speed(name, given)
    settings: dict[str, Any] = {"method": own.method, "dt": own.dt, "max_iterations": own.iterations}
    settings |= {"speed_limit": weights.speed_limit, "torque_limit": weights.torque_limit}
    settings |= {"orientation": own.orientation} | options
    return retarget(robot, given, weights.track, **settings)


def another_dance(dance: str, start: Motion, **options: Any) -> Retargeted:
    """Retargets the dancer's motion with the weights of one of `DANCES`, beginning with the curves of another. Heavy
    weights make small deviations matter: short time steps only, since 8 ms shift the frequencies by 1 %."""
    track = DANCES[list(DANCES)[find(list(DANCES), dance, "dance")]]
    settings = {"dt": (2e-3, 5e-4)} | options
    return retargeted("dancer", track=track, start=start, **settings)


def stored(name: str, dance: str = FIRST_DANCE, *, seconds: float | None = None, dt: float = 5e-4) -> Retargeted:
    """Simulates the motion of a character as it is given and with the stored curves. The status is "stored".

    Args:
        name: of the character.
        dance: one of `DANCES`, for the dancer.
        seconds: takes the beginning of the motion only.
        dt: time step, s.
    """
    own = character(name)
    given, made = own.motion, load_curves(name, dance)
    if seconds is not None:
        given, made = beginning(given, seconds), beginning(made, seconds)
    problem = Problem(own.robot(), given, own.weights(DANCES[dance] if name == "dancer" else None), dt)
    before, after = problem.simulate(given.control), problem.simulate(made.control)
    return compared(problem, before, after, (before.cost, after.cost), "stored")


def beginning(motion: Motion, seconds: float) -> Motion:
    """The first seconds of a motion, to a whole number of intervals."""
    if not (np.isfinite(seconds) and seconds > 0):
        raise MechanismError(f"a part of a motion lasts a positive time, got {seconds} s")
    spans = min(max(1, round(seconds / motion.interval)), len(motion.control) - 3)
    return motion.with_control(motion.control[: spans + 3])


def check_speed(name: str, motion: Motion) -> None:
    """Raises if a motor of the motion is faster than the servos of a character."""
    times = np.linspace(0, motion.duration, 8 * len(motion.control))
    speeds = np.abs(motion.design(times, 1) @ motion.control)
    k, m = np.unravel_index(int(speeds.argmax()), speeds.shape)
    if speeds[k, m] > SPEED_LIMIT:
        raise MechanismError(
            f"motor '{motion.motors[m]}' of the {name} would turn at {speeds[k, m]:.3g} rad/s at {times[k]:.3g} s; its "
            f"servo reaches {SPEED_LIMIT:g} rad/s: give the motion more time"
        )


# stored curves


def save_curves(name: str, motion: Motion, dance: str = FIRST_DANCE) -> Path:
    """Writes the optimised motion of a character to its file in the package."""
    file = _file(name, dance)
    np.savez_compressed(file, control=motion.control, interval=motion.interval, motors=np.array(motion.motors))
    return file


def load_curves(name: str, dance: str = FIRST_DANCE) -> Motion:
    """The stored optimised motion of a character; of the dancer, that of one of `DANCES`."""
    file = _file(name, dance)
    try:
        data = read_arrays(file, "an NPZ file")
        return Motion(tuple(map(str, data["motors"])), data["control"], float(data["interval"]))
    except (ValueError, KeyError, TypeError) as error:
        raise MechanismError(
            f"{file}: cannot read the stored curves of '{name}' ({error}); make them with benchmarks/characters.py "
            f"--character {name} --write"
        ) from None


def _file(name: str, dance: str) -> Path:
    character(name)
    dances = list(DANCES) if name == "dancer" else [FIRST_DANCE]
    find(dances, dance, f"dance of the {name}")
    return FOLDER / (f"{name}.npz" if dance == FIRST_DANCE else f"{name}_{dance.replace(' ', '_')}.npz")
