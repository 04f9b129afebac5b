"""Tables on the terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

PARTS = ((1e3, slice(0, 3)), (1.0, slice(3, 6)))
"""Factor and slice of the translational (mm/N) and rotational (rad/(N m)) part of a compliance."""


def show(facts: dict[str, Any], rows: int | None = None) -> None:
    """Prints a mechanism (`facts.describe_mechanism`); `rows` limits the length of tables, 0 omits them."""
    console = _console()
    console.print(Text(printable(facts["name"]), style="bold"))
    _print(console, "", ("", ""), _mechanism_summary(facts), header=False)
    heads: tuple[str, ...] = ("name", "mass kg", "position m", "rotation °", "joints")
    _print(console, "Bodies", heads, _body_rows(facts), rows)
    heads = ("name", "kind", "parent → child", "stiffness", "damping", "rest", "limits", "")
    _print(console, "Joints (N m/rad, N m s/rad, rad; N/m, N s/m, m)", heads, _joint_rows(facts), rows)
    _print(console, "Couplings", ("name", "of", "acts as", "limits"), _coupling_rows(facts), rows)
    heads = ("name", "interfaces", "nodes", "modes", "made by", "first frequencies, Hz")
    _print(console, "Flexible bodies", heads, _flexible_rows(facts), rows)
    motors = [(m["name"], m["coordinate"], _number(m["position"])) for m in facts["motors"]]
    _print(console, "Motors", ("name", "moves", "position"), motors, rows)
    heads = ("name", "drives", "control", "range of the control", "range of the force", "")
    _print(console, "Actuators", heads, _actuator_rows(facts), rows)
    sites = [(s["name"], s["body"], _numbers(s["position"])) for s in facts["sites"]]
    _print(console, "Sites", ("name", "on", "position in it, m"), sites, rows)
    notes = [(note["item"], note["reason"]) for note in facts["not_imported"]]
    _print(console, "Not imported", ("what", "why"), notes, rows)


def show_outcome(facts: dict[str, Any], rows: int | None = None) -> None:
    """Prints the result of `solve.find_equilibrium` or `solve.simulate`; `rows` limits the length of tables."""
    console = _console()
    console.print(Text(printable(facts["name"]), style="bold"))
    _print(console, "", ("", ""), _outcome_summary(facts), header=False)
    loaded = {load["on"] for load in facts["loads"]}
    bodies = sorted(facts["bodies"], key=lambda b: (b["name"] not in loaded, -math.hypot(*b["displacement"])))
    heads: tuple[str, ...] = ("name", "moved m", "x y z", "turned °")
    if "time" in facts:
        heads = (*heads, "speed m/s")
    title = "Bodies, from the reference pose"
    _print(console, title, heads, (_body_row(body) for body in bodies), rows)
    joints = facts["joints"]
    if rows:
        joints = sorted(joints, key=lambda j: -math.hypot(*j["reaction"]))
    title = "Joints" + (", most loaded first" if rows else "")
    heads = ("name", "kind", "at rad, m", "force N", "torque N m", "on the child, in its joint frame")
    _print(console, title, heads, (_joint_row(joint) for joint in joints), rows)
    torques = [(name, _number(value)) for name, value in facts.get("held", {}).items()]
    heads = ("name", "torque N m or force N")
    _print(console, "Motors, rigid couplings and limits that act", heads, torques, rows)


def show_comparison(facts: dict[str, Any]) -> None:
    """Prints the result of `comparison.compare`, one row for each method."""
    console = _console()
    console.print(Text(printable(facts["name"]), style="bold"))
    loads = [(f"on {load['on']}", f"{_vector([round(v, 6) for v in load['wrench'][:3]])} N") for load in facts["loads"]]
    if facts["load_note"]:
        loads.append(("load", facts["load_note"]))
    moved = ("moves by", f"{1e3 * facts['moved']:.1f} mm at most; radius {1e3 * facts['radius']:.0f} mm")
    _print(console, "", ("", ""), [*loads, moved], header=False)
    heads = ("method", "links off by mm", "tip off by mm", "joints apart, of radius", "loops apart mm", "step µs", "")
    _print(console, "", heads, _method_rows(facts))
    for name, reason in facts["failed"].items():
        console.print(Text(printable(f"  no {name}: {reason}")))


def _flexible_rows(facts: dict[str, Any]) -> Iterable[Sequence[str]]:
    for body in facts["flexible"]:
        frequencies = ", ".join(f"{value:.4g}" for value in body["frequencies"])
        counts = str(body["nodes"]), str(body["modes"])
        yield body["name"], ", ".join(body["interfaces"]), *counts, body["method"], frequencies


def _method_rows(facts: dict[str, Any]) -> Iterable[Sequence[str]]:
    steps = {row["method"]: row["step"] for row in facts["methods"]}
    for row in facts["methods"]:
        speed = ""
        if row["method"] == "engine":
            speed = "exact" if facts["engine_stays"] else "its simulation leaves the equilibrium"
        elif "engine" in steps:
            speed = f"{steps['engine'] / row['step']:.3g} times the engine's speed"
        off, tip, drift = (f"{1e3 * row[key]:.3g}" for key in ("error", "tip_error", "loop_drift"))
        yield row["method"], off, tip, f"{row['separation']:.2g}", drift, f"{1e6 * row['step']:.3g}", speed


def show_model(facts: dict[str, Any]) -> None:
    """Prints a linear model."""
    console = _console()
    console.print(Text(printable(facts["name"]), style="bold"))
    tips = facts["end_effectors"]
    reduced = f"{facts['bodies']} bodies and {facts['loops']} loops to {6 * len(tips)} numbers of rank {facts['rank']}"
    _print(console, "", ("", ""), [("reduced", reduced)], header=False)
    heads = ("end effector", "compliance along x y z, mm/N", "about x y z, rad/(N m)")
    rows = []
    for tip in tips:
        along, about = ([f"{k * v:.3g}" for v in tip["compliance"][part]] for k, part in PARTS)
        rows.append((tip["name"], " ".join(along), " ".join(about)))
    _print(console, "In each one's own axes", heads, rows)


def show_exploration(facts: dict[str, Any]) -> None:
    """Prints a blended model that `supple explore` made."""
    console = _console()
    console.print(Text(printable(facts["name"]), style="bold"))
    rows = [
        ("models", f"{facts['models']}, from {facts['equilibria']} equilibria in {facts['seconds']:.1f} s"),
        ("range", f"end effectors moved by up to {facts['reach']:g} of the radius"),
        ("within", f"{facts['within']:.0%} of {facts['points']} new points are within {facts['max_error']:g}"),
        ("error", f"95th percentile {facts['error_after']:.3g}; {facts['error_before']:.3g} with one model"),
    ]
    _print(console, "", ("", ""), rows, header=False)


def printable(text: str) -> str:
    """Text without control characters, which a terminal would execute."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _console() -> Console:
    # a pipe has no width: take one in which few lines are wrapped
    return Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False, emoji=False)


def _outcome_summary(facts: dict[str, Any]) -> Iterable[tuple[str, str]]:
    for load in facts["loads"]:
        axes = {"world": "world axes", "body": "its own axes"}[load["frame"]]
        parts = ((load["wrench"][:3], "N"), (load["wrench"][3:], "N m"))
        acting = " and ".join(f"{_vector(part)} {unit}" for part, unit in parts if any(part))
        yield f"on {load['on']}", f"{acting or 'nothing'}, {axes}"
    for name, value in facts["targets"].items():
        yield "target", f"{name} at {_number(value)}"
    if "time" in facts:
        energy = ", ".join(f"{kind} {value:.4g}" for kind, value in facts["energy"].items())
        yield "time", f"{facts['time']:.6g} s in time steps of {facts['dt']:g} s ({facts['method']})"
        yield "energy J", energy
        yield "largest gap", f"{facts['gap']:.1e} m or rad, of the joints that close loops"
    else:
        yield "load reached", f"{facts['load_fraction']:.1%}"
        yield "stable", "yes" if facts["stable"] else "no: the smallest disturbance makes it leave this equilibrium"
        yield "residual", f"{facts['residual']:.1e} after {facts['iterations']} Newton iterations"
    yield "took", f"{1e3 * facts['seconds']:.1f} ms"


def _body_row(body: dict[str, Any]) -> Sequence[str]:
    shift, turn = body["displacement"], math.degrees(math.hypot(*body["rotation"]))
    speed = [f"{math.hypot(*body['velocity'][:3]):.4f}"] if "velocity" in body else []
    return body["name"], f"{math.hypot(*shift):.4f}", _numbers(shift), f"{turn:.2f}", *speed


def _joint_row(joint: dict[str, Any]) -> Sequence[str]:
    reaction = joint["reaction"]
    sizes = (_number(round(math.hypot(*part), 6)) for part in (reaction[:3], reaction[3:]))
    return joint["name"], joint["kind"], _numbers(joint["coordinates"]), *sizes, _numbers(reaction, 3)


def _mechanism_summary(facts: dict[str, Any]) -> Iterable[tuple[str, str]]:
    joints, loops = facts["joints"], facts["loops"]
    kinds = {kind: sum(j["kind"] == kind for j in joints) for kind in sorted({j["kind"] for j in joints})}
    yield "bodies", str(len(facts["bodies"]))
    yield "joints", f"{len(joints)}: {', '.join(f'{n} {kind}' for kind, n in kinds.items())}"
    yield "loops", f"{len(loops)}: closed by {_shortened_list(loops)}" if loops else "0"
    yield "mobility", f"{facts['mobility']} (the spanning tree has {len(facts['coordinates'])} coordinates)"
    yield "not held", _shortened_list(facts["unheld"]) or "nothing: every coordinate has a spring, motor or constraint"
    if facts["idle_spins"]:
        yield "idle spins", f"{_shortened_list(facts['idle_spins'])} (turning about themselves moves nothing else)"
    yield "mass", f"{_number(facts['mass'])} kg"
    if facts["centre"]:
        yield "centre", f"{_numbers(facts['centre'])} m"
    yield "radius", f"{_number(facts['radius'])} m"
    yield "gravity", f"{_numbers(facts['gravity'])} m/s²"
    if facts["keyframes"]:
        yield "keyframes", ", ".join(facts["keyframes"])
    if facts["not_imported"]:
        count = len(facts["not_imported"])
        yield "not imported", f"{count} kind{'s' if count > 1 else ''} of elements, listed at the end"


def _body_rows(facts: dict[str, Any]) -> Iterable[Sequence[str]]:
    import numpy as np

    from supple import spatial

    for body in facts["bodies"]:
        turn = np.degrees(spatial.so3_log(spatial.matrix_from_quat_wxyz(body["quat_wxyz"])))
        joints = ", ".join(body["held_by"])
        yield body["name"], _number(body["mass"]), _numbers(body["position"]), _numbers(turn, 1), joints


def _joint_rows(facts: dict[str, Any]) -> Iterable[Sequence[str]]:
    for j in facts["joints"]:
        springs = _per_axis(j["stiffness"]) + (" + curve" if any(j["curves"]) else "")
        limits = [] if all(b == [None, None] for b in j["limits"]) else [_bounds(b) for b in j["limits"]]
        between = f"{j['parent']} → {j['child']}"
        loop = "closes a loop" if j["closes_loop"] else ""
        values = (springs, _per_axis(j["damping"]), _per_axis(j["rest"]), "; ".join(dict.fromkeys(limits)))
        yield j["name"], j["kind"], between, *values, loop


def _coupling_rows(facts: dict[str, Any]) -> Iterable[Sequence[str]]:
    for c in facts["couplings"]:
        of = " + ".join(f"{_number(k)} {name}" for name, k in c["coefficients"].items())
        stiffness, damping, rest = (_number(c[key]) for key in ("stiffness", "damping", "rest"))
        curve = " + curve" if c["curve"] else ""
        spring = f"spring {stiffness}{curve} about {rest}, damper {damping}"
        acts = f"constraint, equal to {rest}" if c["rigid"] else spring
        yield c["name"], of, acts, "" if c["limits"] == [None, None] else _bounds(c["limits"])


def _actuator_rows(facts: dict[str, Any]) -> Iterable[Sequence[str]]:
    for a in facts["actuators"]:
        ranges = ("" if a[key] == [None, None] else _bounds(a[key]) for key in ("control_range", "force_range"))
        law = ["acts like a spring"] * a["in_spring"] + [a["dynamics"]] * (a["dynamics"] != "none")
        yield a["name"], a["drives"], _number(a["control"]), *ranges, ", ".join(law)


def _print(
    console: Console,
    title: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    most: int | None = None,
    header: bool = True,
) -> None:
    rows = list(rows)
    if not rows or most == 0:
        return
    table = Table(box=box.SIMPLE_HEAD if header else None, show_header=header, title=title or None)
    table.title_justify, table.title_style = "left", "bold"
    for head in heads:
        table.add_column(head, overflow="fold")
    for row in rows[:most]:
        table.add_row(*(printable(cell) for cell in row))
    console.print(table)
    if most is not None and len(rows) > most:
        console.print(f"  … and {len(rows) - most} more")


def _shortened_list(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (f" … ({len(names)})" if len(names) > most else "")


def _number(value: float) -> str:
    return f"{value + 0.0:.6g}"


def _numbers(values: Iterable[float], digits: int = 4) -> str:
    return " ".join(f"{round(float(v), digits) + 0.0:.{digits}f}" for v in values)


def _vector(values: Sequence[float]) -> str:
    return f"({', '.join(_number(v) for v in values)})"


def _per_axis(values: Sequence[float]) -> str:
    """One number if all axes have the same, otherwise one for each."""
    return " ".join(_number(v) for v in (values[:1] if len(set(values)) == 1 else values))


def _bounds(pair: Sequence[float | None]) -> str:
    low, high = ("∞" if value is None else _number(value) for value in pair)
    return f"{'-' if pair[0] is None else ''}{low} … {high}"
