"""Retargeting: gradients against differences, and curves that do not shake."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from supple.recording import Recording
from supple.retargeting import Motion, optimiser
from supple.retargeting.problem import NEAR_LIMIT, Model, Problem
from supple.retargeting.weights import Weights


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
        scale = np.linalg.norm(found) * np.linalg.norm(direction)
        costs = [problem.simulate(control + k * h * direction).cost for k in (-2, -1, 1, 2)]
        slope = (costs[0] - 8 * costs[1] + 8 * costs[2] - costs[3]) / (12 * h)
        assert np.sum(found * direction) == pytest.approx(slope, abs=1e-6 * scale)


def test_gradient_of_a_rod(rod):
    weights = Weights(
        {"tip": lambda t: 1 + t, "rod": ([0.2, 0.6], [0.0, 1.0])},
        {"rod.end": lambda t: 0.5 * t},
        closeness=lambda t: 1e-4 * t,
        acceleration={"motor": ([0, 1], [1e-3, 1e-4])},
        speed_limit=0.5,
        acceleration_limit=20.0,
        torque_limit=0.4,
    )
    problem = Problem(rod, ramp(), weights, 4e-3)
    run = problem.simulate(ramp().control)
    assert np.abs(run.torques).max() > 0.6  # the limits matter
    assert np.abs(problem.design_rate @ ramp().control).max() > 0.6
    check_gradient(problem, ramp().control)


def test_the_model_predicts_torques_and_the_gradient(rod):
    motion = ramp()
    problem = Problem(rod, motion, Weights({"tip": 1.0}, torque_limit=0.5, speed_limit=0.6), 4e-3)
    start = problem.simulate(motion.control)
    model = problem.model(start)

    def all_shares(run):
        return np.concatenate([run.torques[:, 0] / 0.5, problem.design_rate @ run.control[:, 0] / 0.6])

    direction = np.random.default_rng(0).normal(size=motion.control.shape)
    direction[:3] = 0
    h = 1e-4
    moved = [problem.simulate(motion.control + s * h * direction) for s in (-1, 1)]
    slope = (all_shares(moved[1]) - all_shares(moved[0])) / (2 * h)
    near = np.abs(all_shares(start)) > NEAR_LIMIT
    np.testing.assert_allclose(model.shares, all_shares(start)[near], atol=1e-12)
    np.testing.assert_allclose(model.slopes @ direction[3:, 0], slope[near], atol=1e-4 * np.abs(slope).max())
    # the whole gradient is that of the quadratic and of the penalties
    excess = np.sign(model.shares) * np.maximum(np.abs(model.shares) - 1, 0)
    found = model.gradient + 2 * model.slopes.T @ (model.penalties * excess)
    expected = problem.gradient(problem.simulate(motion.control))[3:, 0]
    np.testing.assert_allclose(found, expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("damping", [0.0, 0.1])
def test_the_step_of_a_model_is_its_minimum(damping):
    rng = np.random.default_rng(0)
    root, slopes = rng.normal(size=(8, 8)), rng.normal(size=(20, 8))
    model = Model(root @ root.T, rng.normal(size=8), 0.5 * rng.normal(size=20), slopes, np.full(20, 30.0))
    x = model.step(damping)
    shares = model.shares + slopes @ x
    excess = np.sign(shares) * np.maximum(np.abs(shares) - 1, 0)
    assert (excess != 0).sum() > 1
    matrix = model.matrix + damping * np.diag(np.diag(model.matrix))
    gradient = model.gradient + matrix @ x + 2 * slopes.T @ (model.penalties * excess)
    assert np.abs(gradient).max() < 1e-6


def test_a_flexible_body_is_tracked_at_its_centre_of_mass(rod):
    problem = Problem(rod, ramp(), Weights({"rod": 1.0, "rod.end": 1.0, "rod.start": 1.0}), 4e-3)
    run = problem.simulate(ramp().control)
    basis, k = rod.flexible[0].basis, 150
    eta = run.coordinates[k, problem.points["rod"].columns]
    assert np.abs(eta).max() > 1e-3
    centre = basis.inertia(eta)[0] / basis.mass
    pose = run.poses[k, rod.body_index("rod.start")]
    found = problem.points["rod"].positions(run.poses, run.coordinates)[k]
    np.testing.assert_allclose(found, pose[:3, :3] @ centre + pose[:3, 3], atol=1e-12)
    for name in ("rod.start", "rod.end"):
        found = problem.points[name].positions(run.poses, run.coordinates)[k]
        np.testing.assert_array_equal(found, run.poses[k, rod.body_index(name), :3, 3])


def test_gradient_with_two_motors():
    motion = Motion.from_samples([0, 0.1, 0.4, 0.6], {"elbow": [0, 0, 0.4, 0.4], "shoulder": [0, 0, -0.3, -0.3]})
    limits = {"torque_limit": {"elbow": 0.05}, "speed_limit": {"shoulder": 0.8}}
    weights = Weights({"hand": 1.0, "middle": 0.2}, closeness={"elbow": 0.1}, **limits)
    problem = Problem(springy_arm(), motion, weights, 4e-3)
    check_gradient(problem, motion.control)
    run = problem.simulate(motion.control)
    model = problem.model(run)
    assert np.linalg.eigvalsh(model.matrix)[0] > 0
    excess = np.sign(model.shares) * np.maximum(np.abs(model.shares) - 1, 0)
    gradient = model.gradient + 2 * model.slopes.T @ (model.penalties * excess)
    np.testing.assert_allclose(gradient, problem.gradient(run)[3:].T.ravel(), atol=1e-9 * np.abs(gradient).max())


def test_the_quasi_static_motion_is_that_of_equilibria(rod):
    motion = ramp()
    problem = Problem(rod, motion, Weights({"tip": 1.0}), 0.02)
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


def test_limits_of_torques_are_kept(rod):
    free = supple.retarget(rod, ramp(), {"tip": 1.0}, dt=5e-3)
    largest = np.abs(free.torques["motor"][1]).max()
    held = supple.retarget(rod, ramp(), {"tip": 1.0}, dt=5e-3, torque_limit=0.8 * largest)
    assert np.abs(held.torques["motor"][1]).max() < 0.81 * largest
    assert held.deviation_after["tip"] < held.deviation_before["tip"] / 8


def test_weights_over_time_choose_when_it_matters(rod):
    """Only the end of the motion counts: the deviation there is smaller than with equal weights."""
    late = supple.retarget(rod, ramp(), {"tip": lambda t: float(t > 0.8)}, dt=5e-3)
    always = supple.retarget(rod, ramp(), {"tip": 1.0}, dt=5e-3)
    at_end = [np.linalg.norm(r.deviations["tip"][1], axis=1)[r.times > 0.8].max() for r in (late, always)]
    assert at_end[0] < at_end[1]
    assert late.deviation_after["tip"] > always.deviation_after["tip"]


def test_nothing_to_improve(rod):
    still = Motion.from_samples([0, 0.3], {"motor": [0.1, 0.1]})
    for method in ("gauss-newton", "bfgs"):
        result = supple.retarget(rod, still, {"tip": 1.0}, dt=5e-3, method=method)
        assert result.status == "no improvement"
        np.testing.assert_array_equal(result.motion.control, still.control)


def test_robust_curves_serve_a_softer_rod(rod):
    from supple.retargeting.altered import with_stiffness

    nominal, robust = (
        supple.retarget(rod, ramp(), {"tip": 1.0}, dt=5e-3, robust=given) for given in (None, {"stiffness": 0.1})
    )
    softer = Problem(with_stiffness(rod, 0.9), ramp(), Weights({"tip": 1.0}), 5e-3)
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
    assert again.history[:2] == pytest.approx(costs)
    at_once, repeated = (supple.retarget(rod, motion, {"tip": 1.0}, dt=5e-3) for _ in range(2))
    np.testing.assert_array_equal(at_once.motion.control, repeated.motion.control)
    assert again.history[-1] == pytest.approx(at_once.history[-1], rel=1e-3)
    warm = supple.retarget(rod, motion, {"tip": 1.0}, dt=5e-3, start=at_once.motion, max_iterations=1)
    assert warm.history[:2] == pytest.approx([at_once.history[0], at_once.history[-1]])
    with pytest.raises(supple.MechanismError, match=r"`start` begins 0\.2 rad"):
        supple.retarget(rod, motion, {"tip": 1.0}, start=at_once.motion.with_control(at_once.motion.control + 0.2))
    before, after = again.torques["motor"]
    assert len(before) == len(again.times)
    assert np.abs(after).max() < 2
    with pytest.raises(supple.MechanismError, match="another motion"):
        supple.retarget(rod, ramp(0.1), {"tip": 1.0}, checkpoint=file)
    file.write_bytes(b"damaged")
    with pytest.raises(supple.MechanismError, match="not a checkpoint"):
        supple.retarget(rod, motion, {"tip": 1.0}, checkpoint=file)


def test_command_line(run, tmp_path, monkeypatch):
    rod = supple.library.rod_on_motor(modes=8, sections=12)
    rod.save(tmp_path / "rod.json")
    ramp().save(tmp_path / "turn.csv")
    options = ["--track", "tip=2", "--dt", "0.005", "--report", "r.html", "--recording", "r.npz", "-o", "out.csv"]
    done = run("retarget", "rod.json", "turn.csv", *options)
    assert done.exit_code == 0, done.output
    assert "tip" in done.stdout
    page = (tmp_path / "r.html").read_text()
    assert page.count("data:image/png;base64,") == 4
    assert "motor: torque" in page
    assert "http" not in page  # nothing is fetched
    recording = Recording.load(tmp_path / "r.npz")
    names = [body.name for body in recording.mechanism.bodies]
    assert [n for n in names if n.endswith("tip")] == ["target tip", "input tip", "optimised tip"]
    assert [each.name for each in recording.mechanism.flexible] == ["target rod", "input rod", "optimised rod"]
    tips = recording.positions[:, [names.index(f"{each} tip") for each in ("target", "input", "optimised")]]
    beside = np.ptp(tips[:, :, 1], axis=1)
    assert beside.min() > 0.1
    np.testing.assert_allclose(np.diff(tips[0, :, [0, 2]], axis=1), 0, atol=1e-6)  # all start at the same place
    far = np.abs(tips[:, 1:, 0] - tips[:, :1, 0]).max(axis=0)
    assert far[1] < far[0] / 5
    assert np.abs(recording.amplitudes_of("input rod")).max() > 1e-3
    again = Motion.load(tmp_path / "out.csv")
    assert again.duration == pytest.approx(1.2)
    assert not list(tmp_path.glob("*.checkpoint.npz"))

    def interrupt(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(optimiser, "_unit_scale", interrupt)
    stopped = run("retarget", "rod.json", "turn.csv", *options, "--method", "bfgs")
    assert stopped.exit_code == 130
    assert "the same command continues" in stopped.output
    assert (tmp_path / "out.csv.checkpoint.npz").exists()
    wrong = run("retarget", "rod.json", "turn.csv", "--track", "tip=x")
    assert wrong.exit_code == 1
    assert "'x' is no number" in wrong.output
