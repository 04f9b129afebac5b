"""Contact on elastic zones: accuracy against Hertz, speed of pressing, MuJoCo's flex on the same pad, and the probe.

Parts, selected with `--only`:

- `hertz`: a ball on a graded block, bonded below and ten contact radii thick, against Hertz times the factor of a
  bonded layer (Dimitriadis et al. 2002); pressure, slipping twist, overlap.
- `speed`: 20 touched nodes of the finger with friction: from nothing, from the last result, and with one node more.
- `mujoco`: a ball pressed into the same pad, as MuJoCo's flex with the integrator "discrete" and by `Pad.press`; both
  stiffnesses beside that of a refined pad.
- `grasp`: the scene `soft_hand`: time against real time, and random forces (1e6 steps with `--long 1000000`).
- `probe`: the statistics of the 1 kHz thread while the finger bends; 60 s, or 5 s with `--quick`.
"""

from __future__ import annotations

import os
import sys
import tempfile
from functools import partial
from time import process_time
from typing import Any

import numpy as np

import supple
from _report import Report, parse_args
from _report import best as best_of
from supple import _core, elastic, spatial, zones
from supple.contact.colliders import collider
from supple.mechanism import Shape
from supple.zones.probe_run import ProbeRun

A, RADIUS, FRICTION = 1e-3, 10e-3, 0.5
"""Contact radius and radius of the ball, m."""
SKIN = elastic.Material(young=1e5, poisson=0.45, density=1100.0)
PARTS = ("hertz", "speed", "mujoco", "grasp", "probe")
best = partial(best_of, clock=process_time)
"""CPU time: these runs use one core, and other programs on it do not count."""


def main() -> None:
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # read when NumPy is imported: start again
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"OPENBLAS_NUM_THREADS": "1"})
    args = parse_args(__doc__, PARTS, steps=1_000_000)
    report = Report("contact on elastic zones", args)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SUPPLE_CACHE"] = folder
        if "hertz" in args.only:
            hertz(report, args.quick)
        if "speed" in args.only:
            speed(report)
        if "mujoco" in args.only:
            mujoco_flex(report, args.quick)
        if "grasp" in args.only:
            grasp(report, args.long or 2000)
        if "probe" in args.only:
            probe(report, 5 if args.quick else 60)
    report.finish()


def bench(solid: elastic.Solid, material: elastic.Material, touch: Any, bone: str = "bottom") -> zones.Skin:
    """A skin of one solid on a fixed body."""
    builder = supple.Builder("bench")
    builder.body("bench", mass=1.0, inertia=(1e-3,) * 3)
    builder.fixed("bolt", "world", "bench")
    zone = zones.Zone.from_solid(solid, material, bone=bone, touch=touch)
    return zones.Skin(builder.build(), {"zone": zones.Attached(zone, "bench")})


def bonded_layer_factor(ratio: float, poisson: float) -> float:
    """Force on a bonded layer over that on a half-space, for the ratio of contact radius to thickness (Dimitriadis et
    al. 2002, eq. 6)."""
    nu = poisson
    alpha = -(1.2876 - 1.4678 * nu + 1.3442 * nu**2) / (1 - nu)
    beta = (0.6387 - 1.0277 * nu + 1.5164 * nu**2) / (1 - nu)
    cubic, quartic = alpha**3 + 4 * np.pi**2 / 15 * beta, alpha**3 + 3 * np.pi**2 / 5 * beta
    factors = (-2 * alpha / np.pi, 4 * alpha**2 / np.pi**2, -8 / np.pi**3 * cubic, 16 * alpha / np.pi**4 * quartic)
    return float(1 + sum(factor * ratio ** (k + 1) for k, factor in enumerate(factors)))


def hertz(report: Report, quick: bool) -> None:
    """A ball on a graded block."""
    depth = A**2 / RADIUS
    for poisson in (0.3,) if quick else (0.3, 0.45):
        material = elastic.Material(young=1e5, poisson=poisson, density=1e3)
        solid = zones.block((20 * A, 20 * A, 10 * A), (19, 19, 9), growth=1.4)
        skin = bench(solid, material, lambda x: (x[:, 2] > -1e-9) & (np.hypot(x[:, 0], x[:, 1]) < 1.6 * A))
        touch = skin.press(ball(0.0), at(depth), friction=0.0)
        modulus = material.young / (1 - poisson**2)
        force = -float(touch.force[2])
        expected = 4 / 3 * modulus * np.sqrt(RADIUS) * depth**1.5 * bonded_layer_factor(0.1, poisson)
        radius = (3 * force * RADIUS / (4 * modulus)) ** (1 / 3)
        peak = 1.5 * force / (np.pi * radius**2)
        across = len(np.unique(np.round(touch.pad.points[touch.normal_forces > 0, 0], 9)))
        rough = skin.press(ball(FRICTION), at(depth), friction=0.0)
        for turn in np.linspace(0.1, 0.6, 6):
            rough = skin.press(ball(FRICTION), at(depth, float(turn)), start=rough, friction=0.0)
        twist = float(rough.wrench[5]) / (3 * np.pi / 16 * FRICTION * radius * -float(rough.force[2]))
        away = touch.pad.points - [0, 0, RADIUS - depth]
        distance = np.linalg.norm(away, axis=1)
        gaps = distance - RADIUS + np.einsum("ni,ni->n", away / distance[:, None], touch.displacements)
        report.row(
            poisson=poisson,
            nodes_across=across,
            force_over_expected=force / expected,
            peak_over_hertz=float(touch.pressures.max()) / peak,
            twist_over_expected=twist,
            least_gap=float(gaps.min()),
            least_force=float(touch.normal_forces.min()),
        )
        name = f"ratio {poisson}: "
        report.target(name + "force against Hertz on a bonded layer", abs(force / expected - 1), at_most=0.03)
        report.target(name + "peak pressure", abs(float(touch.pressures.max()) / peak - 1), at_most=0.06)
        report.target(name + "slipping twist", abs(twist - 1), at_most=0.05)
        report.target(name + "least gap, m", float(gaps.min()), at_least=-1e-9)
        report.target(name + "least normal force, N", float(touch.normal_forces.min()), at_least=0.0)


def ball(friction: float) -> Shape:
    return Shape("sphere", [RADIUS], np.eye(4), friction=(friction, 0, 0))


def at(depth: float, turn: float = 0.0) -> np.ndarray:
    return spatial.translation(np.array([0, 0, RADIUS - depth])) @ spatial.exp(np.array([0, 0, 0, 0, 0, turn]))


# --- speed ------------------------------------------------------------------------------------------------------------


def speed(report: Report) -> None:
    """20 nodes of the bent finger's middle pad."""
    finger = zones.finger(halfway=False)
    for name, skin in {"all seam nodes": finger.skin, "seam basis": finger.skin.with_seam_basis(24)}.items():
        time_press(report, name, skin)


def time_press(report: Report, name: str, skin: zones.Skin) -> None:
    """Times of one skin."""
    where = (0.2, 0.5, 0.3)
    moving, posed = skin.moving(), skin.at(where)
    moving.move(where)
    full = posed.pad("middle", friction=FRICTION)
    lowest = int(np.argmin(np.linalg.norm(full.points - full.points.mean(axis=0) - [0, 0, -1], axis=1)))
    large = 2.5 * RADIUS
    shape, normal = Shape("sphere", [large], np.eye(4), friction=(FRICTION, 0, 0)), full.normals[lowest]
    poses = {}
    for depth in np.geomspace(1e-5, 3e-3, 4000):
        aside = np.array([2e-4, 4e-4, 0])  # from the plane of symmetry, so that nodes come one by one
        pose = spatial.translation(full.points[lowest] + aside + (large - depth) * normal)
        count = int((full.press(shape, pose).normal_forces > 0).sum())
        poses.setdefault(count, pose)
        if count > 20:
            break
    first = min(poses, key=lambda count: abs(count - 20))
    touch = full.press(shape, poses[first])
    more = poses[max(poses)]
    chosen = np.flatnonzero(touch.normal_forces > 0)
    other = collider(shape, {}, np.eye(4)).core
    vertices, points, normals = full.vertices[chosen, 0], full.points[chosen], full.normals[chosen]
    nothing, still = np.zeros(0), np.eye(4)

    def from_nothing() -> Any:
        pad = _core.pad_collider(points, normals, nothing, still, FRICTION)
        statics = _core.PadStatics(pad, moving.compliance(vertices))
        return statics.press(other, poses[first], 1e-4, nothing, still, nothing)

    statics = _core.PadStatics(full.core(still), full.compliance)
    near = poses[first] @ spatial.translation(1e-6 * normal)
    before, forces = np.ascontiguousarray(touch.displacements), np.ascontiguousarray(touch.forces)
    to_near, to_more = (np.ascontiguousarray(p @ spatial.inverse(poses[first])) for p in (near, more))
    times = {
        "from_nothing_ms": 1e3 * best(from_nothing, 7, 20),
        "warm_ms": 1e3 * best(lambda: statics.press(other, near, 1e-4, before, to_near, forces), 7, 20),
        "more_nodes_ms": 1e3 * best(lambda: statics.press(other, more, 1e-4, before, to_more, forces), 7, 20),
    }
    report.row(seams=name, nodes=len(chosen), nodes_after=max(poses), **times)
    count = f"{len(chosen)} nodes with friction"
    report.target(f"{name}: {count} from nothing, ms", times["from_nothing_ms"], at_most=0.5)
    report.target(f"{name}: warm, ms", times["warm_ms"], at_most=0.05)
    report.target(f"{name}: {max(poses) - first} node more, ms", times["more_nodes_ms"], at_most=0.05)


# --- MuJoCo -----------------------------------------------------------------------------------------------------------


def mujoco_flex(report: Report, quick: bool) -> None:
    """The default pad, held at its bone; balls pressed into its lowest place. Few nodes touch under the smaller ball
    and at the smaller depth, so that the pad differs more from the refined one there."""
    import mujoco

    solid, place = zones.pad(), np.array([0.011, 0, -9.5e-3])
    pad = bench(solid, SKIN, "outer", "bone").pad(friction=0.0)
    # the refined pad may be touched in the middle only, so that there are few Green's functions
    fine = zones.pad(cells=(30, 28, 6) if quick else (40, 42, 8))
    middle = np.intersect1d(fine.groups["outer"], np.flatnonzero(np.linalg.norm(fine.nodes - place, axis=1) < 7e-3))
    refined = bench(fine, SKIN, middle, "bone").pad(friction=0.0)
    least = np.inf
    for radius in (20e-3,) if quick else (10e-3, 20e-3):
        for depth in (0.5e-3, 1.5e-3) if quick else (0.5e-3, 1e-3, 1.5e-3):
            smooth = Shape("sphere", [radius], np.eye(4), friction=(0, 0, 0))
            pose = spatial.translation(place - [0, 0, radius - depth])
            touch = pad.press(smooth, pose)
            nudged = pose @ spatial.translation(np.array([0, 0, 1e-6]))
            ours = best(lambda: pad.press(smooth, nudged, start=touch), 5, 5)  # noqa: B023
            model, data = flex_model(solid, radius, pose[:3, 3])
            for _ in range(30 if quick else 150):
                mujoco.mj_step(model, data)
            theirs = best(lambda: mujoco.mj_step(model, data), 10)  # noqa: B023
            truth = float(refined.press(smooth, pose).force[2])
            case = {"ball, mm": 1e3 * radius, "depth, mm": 1e3 * depth, "refined, N": truth}
            report.row(**case, method="Pad.press", ms=1e3 * ours, over_refined=float(touch.force[2]) / truth)
            force = flex_force(model, data)
            report.row(**case, method="MuJoCo flex, a step", ms=1e3 * theirs, over_refined=force / truth)
            least = min(least, theirs / ours)
    report.target("MuJoCo's step over ours, least", least, at_least=100)


def flex_model(solid: elastic.Solid, radius: float, centre: np.ndarray) -> tuple[Any, Any]:
    """The solid as MuJoCo's flex of tetrahedra, six in each hexahedron, with a fixed ball pressed into it."""
    import mujoco

    kuhn = np.array([[0, 1, 2, 6], [0, 2, 3, 6], [0, 3, 7, 6], [0, 7, 4, 6], [0, 4, 5, 6], [0, 5, 1, 6]])
    tets = solid.cells[:, kuhn].reshape(-1, 4)
    points = " ".join(f"{value:.9g}" for value in solid.nodes.ravel())
    elements = " ".join(map(str, tets.ravel().tolist()))
    pins = " ".join(map(str, solid.groups["bone"].tolist()))
    stiff = 'solref="0.004 1" solimp="0.9999 0.9999 0.001"'  # the default contact gives way by the whole depth
    text = f"""<mujoco>
  <option timestep="0.002" gravity="0 0 0" integrator="discrete" solver="CG" tolerance="1e-8"/>
  <worldbody>
    <geom type="sphere" size="{radius}" pos="{' '.join(map(str, centre))}" condim="1" friction="0 0 0" {stiff}/>
    <flexcomp name="pad" type="direct" dim="3" mass="{SKIN.density * solid.volume:.6g}" radius="1e-5"
              point="{points}" element="{elements}">
      <pin id="{pins}"/>
      <contact selfcollide="none" condim="1" {stiff}/>
      <elasticity young="{SKIN.young}" poisson="{SKIN.poisson}" damping="0.01"/>
    </flexcomp>
  </worldbody>
</mujoco>"""
    model = mujoco.MjModel.from_xml_string(text)
    return model, mujoco.MjData(model)


def flex_force(model: Any, data: Any) -> float:
    """Upward force of the ball on the flex, N."""
    import mujoco

    total, force = 0.0, np.zeros(6)
    for i in range(data.ncon):
        mujoco.mj_contactForce(model, data, i, force)
        normal = data.contact[i].frame[:3]
        total += abs(float(force[0] * normal[2]))
    return total


# --- grasp ------------------------------------------------------------------------------------------------------------


def grasp(report: Report, steps: int) -> None:
    """Soft fingertips lift and twist a block; then random forces act on block and hand."""
    scene = zones.soft_hand()
    start = process_time()
    scene.run(2.7)
    factor = (process_time() - start) / 2.7
    block = scene.world.pose("block")
    turn = float(np.arctan2(block[1, 0], block[0, 0]))
    pushed = zones.soft_hand()
    result = pushed.push_around(steps, 1.0)
    finite = bool(np.isfinite(pushed.world.pose("block")).all() and np.isfinite(pushed.robot.poses.array).all())
    report.row(
        time_over_real_time=factor,
        lifted_mm=1e3 * (float(block[2, 3]) - 0.045),
        turned_rad=turn,
        pushed_steps=result.steps,
        residual=result.residual,
        finite=finite,
    )
    report.target("soft_hand at 2 ms, time over real time", factor, at_most=1.0)
    report.target(f"{result.steps} steps under random forces are finite", float(finite), at_least=1.0)


# --- probe ------------------------------------------------------------------------------------------------------------


def probe(report: Report, seconds: float) -> None:
    """The probe's thread on a finger that bends."""
    run = ProbeRun()
    result = run.measure(seconds)
    report.row(
        seconds=seconds,
        ticks=result.ticks,
        poses=run.poses,
        mean_work_ms=1e3 * result.mean_work,
        work_999_ms=1e3 * result.work_of(0.999),
        most_work_ms=1e3 * result.most_work,
        most_lateness_ms=1e3 * result.most_lateness,
        missed=result.missed,
    )
    report.target("share of ticks below 0.5 ms of thread time", result.share_below(0.5e-3), at_least=0.999)


if __name__ == "__main__":
    main()
