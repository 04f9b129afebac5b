"""Descriptions of mechanisms and models as JSON data."""

from __future__ import annotations

from typing import Any

import numpy as np

from supple import spatial
from supple.mechanism import Joint, Mechanism
from supple.mechanism.flexible import FlexibleBody
from supple.reduced import BlendedModel, ReducedModel


def describe_mechanism(mech: Mechanism) -> dict[str, Any]:
    """Everything that `supple info` prints; None where there is no limit."""
    topology = mech.topology
    return {
        "name": mech.name,
        "mass": mech.mass,
        "centre": mech.centre.tolist() if mech.mass else None,
        "radius": mech.radius,
        "gravity": mech.gravity.tolist(),
        "mobility": mech.mobility,
        "coordinates": list(mech.coordinates),
        "unheld": list(mech.unheld),
        "idle_spins": list(mech.idle_spins),
        "loops": [mech.joints[j].name for j in topology.loops],
        "bodies": _bodies(mech),
        "joints": [_joint(joint, i in topology.loops) for i, joint in enumerate(mech.joints)],
        "sites": [{"name": s.name, "body": s.body, **_pose(s.pose)} for s in mech.sites],
        "couplings": [
            {
                "name": c.name,
                "coefficients": dict(zip(c.coordinates, c.coefficients.tolist(), strict=True)),
                "rigid": c.rigid,
                "stiffness": c.stiffness,
                "damping": c.damping,
                "rest": c.rest,
                "limits": _bounds(c.limits),
                "curve": c.curve is not None,
            }
            for c in mech.couplings
        ],
        "motors": [{"name": m.name, "coordinate": m.coordinate, "position": m.position} for m in mech.motors],
        "actuators": [
            {
                "name": a.name,
                "drives": a.drives,
                "control": a.control,
                "control_range": _bounds(a.control_range),
                "force_range": _bounds(a.force_range),
                "dynamics": a.dynamics,
                "in_spring": a.in_spring,
            }
            for a in mech.actuators
        ],
        "flexible": [_flexible(each) for each in mech.flexible],
        "keyframes": [key.name for key in mech.keyframes],
        "not_imported": [{"item": note.item, "reason": note.reason} for note in mech.import_report],
    }


def describe_model(model: ReducedModel) -> dict[str, Any]:
    """What `supple reduce` prints. Compliances are along and about the end effector's own axes, m/N and rad/(N m)."""
    diagonal = np.diag(model.compliance)
    return {
        "name": model.mechanism.name,
        "bodies": len(model.mechanism.bodies),
        "loops": len(model.mechanism.topology.loops),
        "rank": model.rank,
        "end_effectors": [
            {"name": name, "compliance": diagonal[6 * i : 6 * i + 6].tolist()}
            for i, name in enumerate(model.end_effectors)
        ],
    }


def describe_exploration(many: BlendedModel) -> dict[str, Any]:
    """What `supple explore` prints."""
    found = many.exploration
    assert found is not None
    low, high = (float(np.percentile(errors, 95)) for errors in (found.after, found.before))
    return {
        "name": many.mechanism.name,
        "end_effectors": list(many.end_effectors),
        "models": found.models,
        "max_error": found.max_error,
        "reach": found.reach,
        "points": len(found.after),
        "within": found.within,
        "met": found.met,
        "error_before": high,
        "error_after": low,
        "equilibria": found.pulled,
        "seconds": found.seconds,
    }


def _bodies(mech: Mechanism) -> list[dict[str, Any]]:
    joints: dict[str, list[str]] = {body.name: [] for body in mech.bodies}
    for joint in mech.joints:
        for end in (joint.parent, joint.child):
            joints.get(end, []).append(joint.name)
    return [
        {
            "name": body.name,
            "mass": body.mass,
            "centre": body.centre.tolist(),
            "inertia": body.inertia.tolist(),
            **_pose(body.pose),
            "held_by": joints[body.name],
        }
        for body in mech.bodies
    ]


def _joint(joint: Joint, closes_loop: bool) -> dict[str, Any]:
    return {
        "name": joint.name,
        "kind": joint.kind,
        "parent": joint.parent,
        "child": joint.child,
        "closes_loop": closes_loop,
        "axes": list(joint.axes),
        "stiffness": joint.stiffness.tolist(),
        "damping": joint.damping.tolist(),
        "rest": joint.rest.tolist(),
        "reference": joint.reference.tolist(),
        "limits": [_bounds(pair) for pair in joint.limits],
        "armature": joint.armature.tolist(),
        "curves": [curve is not None for curve in joint.curves],
    }


def _flexible(body: FlexibleBody) -> dict[str, Any]:
    """Frequencies are those of the reduced part with its reference interface held, Hz."""
    return {
        "name": body.name,
        "material": body.part.material.law,
        "young": body.part.material.young,
        "nodes": len(body.part.nodes),
        "interfaces": [body.reference, *(body.frame(name) for name in body.moving)],
        "modes": body.basis.size,
        "method": body.basis.method,
        "frequencies": body.basis.frequencies()[:3].tolist(),
    }


def _pose(pose: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, list[float]]:
    quat: list[float] = spatial.quat_wxyz_from_matrix(pose[:3, :3]).tolist()
    return {"position": pose[:3, 3].tolist(), "quat_wxyz": quat}


def _bounds(pair: np.ndarray[Any, np.dtype[np.float64]]) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in pair]
