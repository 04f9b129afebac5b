"""Retargeting: gradients against differences, and curves that do not shake."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from supple.retargeting import Motion
from supple.retargeting.problem import Problem, Weights


@pytest.fixture(scope="module")
def rod() -> supple.Mechanism:
    return supple.library.rod_on_motor(modes=8, sections=12)


def ramp(angle: float = 0.3) -> Motion:
    """Hold for 0.3 s, turn in 0.4 s, hold for 0.5 s."""
    return Motion.from_samples([0, 0.3, 0.7, 1.2], {"motor": [0, 0, angle, angle]})


def springy_arm() -> supple.Mechanism:
    """Two motors and two sprung joints, in space."""
    build = supple.Builder("springy arm")
    names = ["world", "upper", "middle", "lower", "hand"]
    for i, name in enumerate(names[1:]):
        build.link(name, (0.2 * i, 0, 0), (0.2 * (i + 1), 0, 0), mass=0.2)
    for i, axis in enumerate("yyzz"):
        spring = {"stiffness": 20.0, "damping": 0.02} if i % 2 else {}
        build.hinge(f"joint{i}", names[i], names[i + 1], at=(0.2 * i, 0, 0), axis=axis, **spring)
    build.motor("shoulder", "joint0")
    build.motor("elbow", "joint2")
    return build.build()


def check_gradient(problem: Problem, control: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    found = problem.gradient(problem.simulate(control))
    assert not found[:3].any()
    for _ in range(3):
        direction = rng.normal(size=control.shape)
        direction[:3] = 0
        h = 1e-5
        costs = [problem.simulate(control + k * h * direction).cost for k in (-2, -1, 1, 2)]
        slope = (costs[0] - 8 * costs[1] + 8 * costs[2] - costs[3]) / (12 * h)
        assert np.sum(found * direction) == pytest.approx(slope, rel=1e-6)


def test_gradient_of_a_rod(rod):
    problem = Problem(rod, ramp(), Weights({"tip": 1.0}, {"tip": 0.5}, 1e-4, 1e-3, 0.5, 20.0), 4e-3)
    check_gradient(problem, ramp().control)


def test_gradient_with_two_motors():
    motion = Motion.from_samples([0, 0.1, 0.4, 0.6], {"elbow": [0, 0, 0.4, 0.4], "shoulder": [0, 0, -0.3, -0.3]})
    weights = Weights({"hand": 1.0, "middle": 0.2}, {}, 1e-4, 1e-3, np.inf, np.inf)
    problem = Problem(springy_arm(), motion, weights, 4e-3)
    check_gradient(problem, motion.control)
    run = problem.simulate(motion.control)
    matrix, gradient = problem.normal_equations(run)
    assert np.linalg.eigvalsh(matrix)[0] > 0
    np.testing.assert_array_equal(gradient, problem.gradient(run)[3:].T.ravel())


def test_the_quasi_static_motion_is_that_of_equilibria(rod):
    motion = ramp()
    problem = Problem(rod, motion, Weights({"tip": 1.0}, {}, 1e-4, 1e-3, np.inf, np.inf), 0.02)
    for k in (0, 20, problem.steps):
        eq = supple.equilibrium(rod, targets={"motor": float(motion(problem.times[k])[0])})
        np.testing.assert_allclose(problem.targets[k], eq.poses.array, atol=1e-9)


def test_an_optimised_rod_does_not_shake(rod):
    motion = ramp()
    result = supple.retarget(rod, motion, {"tip": 1.0}, dt=4e-3)
    assert result.status == "converged"
    assert result.deviation_after["tip"] < result.deviation_before["tip"] / 15
    before, after = (np.linalg.norm(part, axis=1)[result.times > 0.8] for part in result.deviations["tip"])
    assert after.max() < before.max() / 30
    assert list(result.history) == sorted(result.history, reverse=True)
    # it anticipates: the motor moves before the input does
    early = result.motion(0.25)[0]
    assert abs(early) > 1e-3
    np.testing.assert_allclose(result.motion(0.0), 0, atol=1e-12)


def test_both_methods_agree(rod):
    motion = ramp(0.15)
    found = [supple.retarget(rod, motion, {"tip": 1.0}, dt=5e-3, method=each) for each in ("gauss-newton", "bfgs")]
    assert found[1].history[-1] == pytest.approx(found[0].history[-1], rel=0.02)


def test_limits_are_kept(rod):
    free = supple.retarget(rod, ramp(), {"tip": 1.0}, dt=5e-3)
    held = supple.retarget(rod, ramp(), {"tip": 1.0}, dt=5e-3, acceleration_limit=12.0)
    times = np.linspace(0, 1.2, 400)
    most = [np.abs(r.motion.design(times, 2) @ r.motion.control).max() for r in (free, held)]
    assert most[0] > 14
    assert most[1] < 12.6


def test_robust_curves_serve_a_softer_rod(rod):
    from supple.retargeting.altered import with_stiffness

    nominal, robust = (
        supple.retarget(rod, ramp(), {"tip": 1.0}, dt=5e-3, robust=given) for given in (None, {"stiffness": 0.1})
    )
    softer = Problem(with_stiffness(rod, 0.9), ramp(), Weights({"tip": 1.0}, {}, 1e-4, 1e-3, np.inf, np.inf), 5e-3)
    costs = [softer.simulate(result.motion.control).cost for result in (nominal, robust)]
    assert costs[1] < 0.8 * costs[0]


def test_torques_and_a_run_that_is_continued(rod, tmp_path):
    motion, file = ramp(), tmp_path / "best.npz"

    class Interrupted(Exception):
        pass

    def stop(cost: float) -> None:
        costs.append(cost)
        if len(costs) == 2:
            raise Interrupted

    costs: list[float] = []
    with pytest.raises(Interrupted):
        supple.retarget(rod, motion, {"tip": 1.0}, dt=5e-3, checkpoint=file, progress=stop)
    again = supple.retarget(rod, motion, {"tip": 1.0}, dt=5e-3, checkpoint=file)
    assert again.history[0] == pytest.approx(costs[1])
    at_once = supple.retarget(rod, motion, {"tip": 1.0}, dt=5e-3)
    assert again.history[-1] == pytest.approx(at_once.history[-1], rel=1e-3)
    before, after = again.torques["motor"]
    assert len(before) == len(again.times)
    assert np.abs(after).max() < 2
    with pytest.raises(supple.MechanismError, match="another motion"):
        supple.retarget(rod, ramp(0.1), {"tip": 1.0}, checkpoint=file)
    file.write_bytes(b"damaged")
    with pytest.raises(supple.MechanismError, match="not a checkpoint"):
        supple.retarget(rod, motion, {"tip": 1.0}, checkpoint=file)


def test_command_line(run, tmp_path):
    rod = supple.library.rod_on_motor(modes=8, sections=12)
    rod.save(tmp_path / "rod.json")
    ramp().save(tmp_path / "turn.csv")
    options = ["--track", "tip=2", "--dt", "0.005", "--picture", "p.png", "-o", "out.csv"]
    done = run("retarget", "rod.json", "turn.csv", *options)
    assert done.exit_code == 0, done.output
    assert "tip" in done.stdout
    assert (tmp_path / "p.png").stat().st_size > 10_000
    again = Motion.load(tmp_path / "out.csv")
    assert again.duration == pytest.approx(1.2)
    wrong = run("retarget", "rod.json", "turn.csv", "--track", "tip=x")
    assert wrong.exit_code == 1
    assert "'x' is no number" in wrong.output
