"""Rules of the code base: which part may import which, few public names, plain words, quick imports."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import supple

HOUSE = Path(supple.__file__).parent
PARTS = [
    "spatial",
    "elastic",
    "mechanism",
    "recording",
    "library",
    "contact",
    "engine",
    "reduced",
    "world",
    "learning",
    "linkage",
    "zones",
    "retargeting",
    "viewer",
    "cli",
]
"""In order: a part imports only parts before it."""
SHORTCUTS = {"engine/statics.py": {"reduce"}}
"""Public functions of parts below that a method calls on its own object: `eq.linear(...)` is `reduce(..., at=eq)`."""
EVERYONE = {"errors", "files", "progress", "threads", "_core"}
"""Modules that any part may import; they import `errors` at most."""
HEAVY = {"scipy", "mujoco", "matplotlib", "typer", "rich", "viser", "gymnasium"}
MOST_NAMES = 45
"""Public names in `supple`, at most."""
ROOT = Path(__file__).parents[2]
METAPHORS = {
    r"in vain": "redundant constraints have non-unique multipliers",
    r"books (of|are|is)|the books": "an energy budget",
    r"lean(s|ing)? on": "rests on a joint limit; depends on",
    r"let(s|ting)? go of": "removes",
    r"look(s|ed|ing)?_after": "a verb that says what is done",
}
"""Metaphors that readers stumbled over, as patterns of whole words, with the terms that replace them."""
EMPTY_NAMES = {
    "again",
    "do",
    "drawn",
    "each",
    "fall",
    "found",
    "half",
    "here",
    "meet",
    "more",
    "quick",
    "share",
    "shown",
    "stands",
    "taken",
    "there",
}
"""Names that do not say what a function returns or does, or what a class is."""


def imports(file):
    """Modules of supple that a file imports anywhere, as paths such as ("mechanism", "body")."""
    package = ("supple", *file.relative_to(HOUSE).parent.parts)
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            base = (*start, *(node.module or "").split("."))
            names = [(*base, alias.name) for alias in node.names]
        else:
            continue
        yield from (name[1:] for name in names if name[0] == "supple")


def part(path):
    """The part that an imported name belongs to: that of a public name's module, otherwise its first word."""
    if path and path[0] in supple._HOME and path[0] not in PARTS:
        return part(tuple(supple._HOME[path[0]].split(".")[1:]))
    return path[0] if path else ""


@pytest.mark.parametrize("file", sorted(HOUSE.rglob("*.py")), ids=lambda f: str(f.relative_to(HOUSE)))
def test_a_part_imports_only_parts_above_it(file):
    own = file.relative_to(HOUSE).parts[0].replace("library.py", "library")
    if own == "__init__.py":
        return  # imports the public names of every part
    allowed = {"errors"} if own.removesuffix(".py") in EVERYONE else EVERYONE | {own}
    if own in PARTS:
        allowed |= set(PARTS[: PARTS.index(own)])
    if own == "cli":
        allowed |= {"", "__version__"}  # a layer on the public names
    assert own in PARTS or own.removesuffix(".py") in EVERYONE, f"{own} is not in the list of parts"
    forbidden = {".".join(path) for path in imports(file) if part(path) not in allowed}
    forbidden -= SHORTCUTS.get(str(file.relative_to(HOUSE)), set())
    if own == "_core.py":
        forbidden = {name for name in forbidden if not name.startswith("_")}  # the compiled modules
    assert not forbidden, f"{file.relative_to(HOUSE)} imports {', '.join(sorted(forbidden))}"


def test_the_checker_sees_all_forms_of_import(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "HOUSE", tmp_path)
    (tmp_path / "engine").mkdir()
    file = tmp_path / "engine" / "statics.py"
    file.write_text(
        "import supple.cli.app\nfrom supple import library\nfrom supple.world import scene\n"
        "from ..reduced import model\nfrom . import bdf\n"
        "def f():\n    from supple.viewer.picture import draw\nimport numpy\n"
    )
    found = [part(path) for path in imports(file)]
    assert sorted(found) == ["cli", "engine", "library", "reduced", "viewer", "world"]


def texts():
    """Documents and source files whose words readers see."""
    return [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *HOUSE.rglob("*.py")]


def test_terms_of_the_field_instead_of_metaphors():
    patterns = {re.compile(rf"\b({metaphor})\b", re.IGNORECASE): term for metaphor, term in METAPHORS.items()}
    lines = [(file, n, line) for file in texts() for n, line in enumerate(file.read_text().splitlines(), 1)]
    found = [
        f"{file.relative_to(ROOT)}:{n}: {line.strip()} (write for example: {term})"
        for file, n, line in lines
        for pattern, term in patterns.items()
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)


def test_names_say_what_they_are():
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    nodes = ((file, node) for file in HOUSE.rglob("*.py") for node in ast.walk(ast.parse(file.read_text())))
    named = ((file, node) for file, node in nodes if isinstance(node, kinds))
    empty = [f"{file}:{node.lineno}" for file, node in named if node.name.strip("_").lower() in EMPTY_NAMES]
    assert not empty


@pytest.mark.parametrize("folder", sorted(d.name for d in (ROOT / "core").iterdir() if d.is_dir()))
def test_the_core_includes_python_only_in_its_bindings(folder):
    banned = re.compile(r'#include [<"](nanobind/|Python\.h|python/)')
    files = [file for file in (ROOT / "core" / folder).rglob("*") if file.suffix in (".hpp", ".cpp")]
    assert files
    found = [str(file.relative_to(ROOT)) for file in files if banned.search(file.read_text())]
    assert bool(found) == (folder == "python"), found


def test_public_names_are_few_and_importable():
    assert len(supple.__all__) <= MOST_NAMES
    for name in supple.__all__:
        assert getattr(supple, name) is not None
    assert set(supple.__all__) <= set(dir(supple))
    with pytest.raises(AttributeError, match="nothing_like_it"):
        supple.nothing_like_it  # noqa: B018


def test_each_name_has_one_module():
    for name in supple.__all__:
        home = supple._HOME[name]
        value = getattr(supple, name)
        assert value is sys.modules[home] or value is getattr(sys.modules[home], name)


@pytest.mark.parametrize("code", ["import supple", "import supple; supple.library.ladder().topology"])
def test_import_does_not_import_heavy_packages(code):
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        timeout=600,
        check=True,
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded & HEAVY


def test_a_benchmark_prints_and_writes_its_targets(tmp_path):
    script = Path(__file__).parents[2] / "benchmarks" / "import_time.py"
    command = [sys.executable, script, "--quick", "--json", tmp_path / "b.json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True)
    written = json.loads((tmp_path / "b.json").read_text())
    assert {row["what"] for row in written["rows"]} >= {"numpy", "supple"}
    for target in written["targets"]:
        assert target["met"] == (target["value"] <= target["target"])
        assert f"{target['name']}: measured" in done.stdout
