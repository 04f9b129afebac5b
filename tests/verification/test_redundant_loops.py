"""Redundant loops whose numbers are rounded move like those with exact numbers; the difference is of the order of the
rounding."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import supple
from rounded_linkages import bennett, chain, delta, four_bar, four_bar_parts, parallel_cranks, sarrus, watt
from small_mechanisms import strut

MECHANISMS = [four_bar, watt, parallel_cranks, chain, sarrus, bennett, delta]


def tip_in_rest(mech) -> np.ndarray:
    eq = supple.equilibrium(mech, {"tip": np.append(0.2 * mech.gravity, np.zeros(3))})
    assert eq.residual < 1e-9
    assert eq.stable
    return eq.poses["tip"][:3, 3]


def tip_in_motion(method: str) -> Callable[[supple.Mechanism], np.ndarray]:
    def run(mech) -> np.ndarray:
        sim = supple.Simulation(mech, dt=2e-3, method=method)
        sim.step(60)
        assert sim.gap < 1e-10
        return sim.poses["tip"][:3, 3]

    return run


def tip_in_a_world(mech) -> np.ndarray:
    world, sim = supple.World(), supple.Simulation(mech, dt=2e-3)
    world.add(sim)
    world.step(60)
    return sim.poses["tip"][:3, 3]


MEASURES = {
    "equilibrium": tip_in_rest,
    "euler": tip_in_motion("euler"),
    "bdf2": tip_in_motion("bdf2"),
    "world": tip_in_a_world,
    "frequency": lambda mech: supple.modes(mech).frequencies[:1],
    "compliance": lambda mech: supple.reduce(mech, ["tip"]).compliance,
}


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_rounded_loops_move_like_exact_ones(mechanism, measure):
    exact = mechanism()
    assert not exact.import_report
    wanted = MEASURES[measure](exact)
    for digits in (3, 6, 10):
        rounded = mechanism(digits)
        assert rounded.mobility == exact.mobility
        assert any("redundant" in note.reason for note in rounded.import_report)
        error = np.abs(MEASURES[measure](rounded) - wanted).max() / max(1.0, np.abs(wanted).max())
        assert error < 20 * 10.0**-digits


@given(seed=st.integers(0, 10**6), digits=st.integers(3, 10))
def test_random_planar_linkages(seed, digits):
    rng = np.random.default_rng(seed)
    A, D = rng.uniform(-0.1, 0.1, 2), rng.uniform(-0.1, 0.1, 2) + [0.8, 0]
    B, C = A + rng.uniform([-0.2, 0.2], [0.2, 0.5]), D + rng.uniform([-0.2, 0.2], [0.2, 0.5])
    exact, rounded = (four_bar_parts(d, seed, (A, B, C, D)).build() for d in (None, digits))
    assert rounded.import_report
    assert np.abs(tip_in_motion("bdf2")(rounded) - tip_in_motion("bdf2")(exact)).max() < 50 * 10.0**-digits


def test_mujoco_moves_a_rounded_four_bar_alike(tmp_path):
    mujoco = pytest.importorskip("mujoco")
    mech = four_bar(6)
    four_bar().save(tmp_path / "four_bar.xml")
    model = mujoco.MjModel.from_xml_path(str(tmp_path / "four_bar.xml"))
    model.opt.timestep = 2e-4
    data = mujoco.MjData(model)
    sim = supple.Simulation(mech, dt=2e-4, method="bdf2")
    sim.step(500)
    for _ in range(500):
        mujoco.mj_step(model, data)
    body = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, "tip")
    assert data.xpos[body] == pytest.approx(sim.poses["tip"][:3, 3], abs=2e-3)


# what stays as described


def tilted_four_bar(angle: float) -> supple.Mechanism:
    """A four-bar with a link whose axes are tilted on purpose, so that it cannot move."""
    b = four_bar_parts()
    b.builder.link("extra", b.rounded((0.6, 0, 0)), b.rounded((0.7, 0, 0.5)), mass=0.3)
    b.hinge("E", "world", "extra", (0.6, 0, 0), (0, np.cos(angle), np.sin(angle)))
    b.hinge("F", "extra", "tip", (0.7, 0, 0.5), (0, np.cos(angle), np.sin(angle)))
    return b.build()


def straight_arm() -> supple.Mechanism:
    """Seven hinges with their hand welded to the world in a singular pose, as in the files of robots that a mocap body
    leads; and an exact four-bar."""
    b = four_bar_parts().builder
    base = "world"
    for i in range(7):
        b.link(f"l{i}", (2, 0, 0.2 * i), (2, 0, 0.2 * i + 0.2), mass=1.0)
        b.hinge(f"h{i}", base, f"l{i}", at=(2, 0, 0.2 * i), axis="zyzyzyz"[i], stiffness=1.0)
        base = f"l{i}"
    b.fixed("weld", "world", base)
    return b.build()


@pytest.mark.parametrize(
    "mech",
    [supple.library.ladder(), supple.library.loop(), strut(), tilted_four_bar(0.1), delta(), straight_arm()],
    ids=["ladder", "loop", "strut", "tilted", "delta", "arm"],
)
def test_exact_and_locked_loops_are_not_changed(mech):
    assert not mech.import_report
    assert all(len(mech.joints[j].axes) <= 3 for j in mech.topology.loops)


def test_a_loop_that_is_exactly_redundant_beside_a_rounded_one_is_not_changed():
    exact, rounded = four_bar_parts().build(), four_bar_parts(6).build()
    both = supple.attach(exact, "world", rounded, prefix="b/")
    assert [len(both.joint(name).axes) for name in ("C", "b/C")] == [1, 4]


# what the user is told


def test_the_warning_names_the_loop_and_the_contradiction():
    with pytest.warns(supple.ImportWarning, match="loop 'C': closes only within the rounding") as caught:
        mech = four_bar_parts(6).builder.build()
    assert len(caught) == 1
    size = float(mech.import_report[0].reason.split("about ")[1].split()[0])
    assert 1e-9 < size < 1e-5


def test_files_of_rounded_loops(tmp_path):
    """A file with the loop as described is changed when it is read; one that was saved afterwards is not."""
    mech = four_bar(6)
    mech.save(tmp_path / "changed.json")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert supple.load(tmp_path / "changed.json") == mech
    text = """<mujoco><default><geom type="capsule" size=".01"/></default><worldbody>
      <body name="crank"><joint name="A" axis="0 1 0"/><geom fromto="0 0 0 .1 0 .3"/>
        <body name="tip" pos=".1 0 .3"><joint name="B" axis="1e-6 1 0"/><geom fromto="0 0 0 .6 0 .2"/></body></body>
      <body name="rocker" pos=".6 0 0"><joint name="D" axis="0 1 0"/><geom fromto="0 0 0 .1 0 .5"/></body></worldbody>
      <equality><connect name="C" body1="rocker" body2="tip" anchor=".1 0 .5"/></equality></mujoco>"""
    (tmp_path / "four_bar.xml").write_text(text)
    with pytest.warns(supple.ImportWarning, match="loop 'C'"):
        read = supple.load(tmp_path / "four_bar.xml")
    sim = supple.Simulation(read, dt=2e-3)
    sim.step(200)
    assert abs(sim.q["A"]) > 0.1
