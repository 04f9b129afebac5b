"""Hooks of mkdocs.yml: navigation, gallery and reference of the site are made of what the repository already says.

- Navigation: the tables of docs/README.md, a section for each.
- Gallery: a page for each file of examples/, with its docstring, the pictures it writes and its code.
- Reference: a page for each package, with what its `__all__` lists.
- Twin: tests/step_twin.py, which a page of the theory explains.
"""

import ast
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
PACKAGES = (
    "mechanism",
    "engine",
    "reduced",
    "linkage",
    "zones",
    "retargeting",
    "elastic",
    "contact",
    "world",
    "recording",
    "learning",
    "viewer",
    "spatial",
)
MODULES = {
    "io": "supple.mechanism.io",
    "library": "supple.mechanism.library",
    "scenes": "supple.world.scenes",
    "errors": "supple.errors",
}
"""Further pages of the reference, each of a whole module."""
SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
ROW = re.compile(r"^\| \[([^]]+)\]\(([^)]+\.md)\) \|", re.MULTILINE)
LINK = re.compile(r"\]\(((?:\.\./)+)([^)#]+)((?:#[^)]*)?)\)")


def public_names(module: Path) -> list[str]:
    """The names in `__all__` of a module, read without importing it."""
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
            return list(ast.literal_eval(node.value))
    raise ValueError(f"{module} has no __all__")


def title(example: Path) -> str:
    """ "54_retarget_four_bar.py" as "54 Retarget four bar"."""
    return example.stem.replace("_", " ", 1).replace("_", " ")


def example_page(example: Path) -> str:
    source = example.read_text()
    said = ast.get_docstring(ast.parse(source)) or ""
    shown = "\n\n".join(f"![{name}](../pictures/{name})" for name in pictures(example))
    return f"# {title(example)}\n\n{said}\n\n{shown}\n\n```python\n{source}```\n"


def pictures(example: Path) -> list[str]:
    """Files of docs/pictures that an example writes: those its code names, `{...}` standing for any letters."""
    patterns = {re.sub(r"\{[^}]*\}", "*", name) for name in re.findall(r"[\w{}]+\.(?:png|gif)", example.read_text())}
    folder = ROOT / "docs" / "pictures"
    return sorted({found.name for pattern in patterns - {"*.png"} for found in folder.glob(pattern)})


def gallery(examples: list[Path]) -> str:
    rows = [
        "# Gallery",
        "",
        "Every example is a script in the folder `examples`; tests run them all.",
        "",
        '<div class="grid cards" markdown>',
        "",
    ]
    for example in examples:
        said = (ast.get_docstring(ast.parse(example.read_text())) or "").split("\n")[0]
        shown = "".join(f"[![{name}](../pictures/{name})]({example.stem}.md)<br>" for name in pictures(example)[:1])
        rows.append(f"- {shown}[{title(example)}]({example.stem}.md)<br>{said}\n")
    return "\n".join([*rows, "</div>", ""])


def reference(package: str) -> str:
    names = public_names(ROOT / "src" / "supple" / package / "__init__.py")
    return "\n".join([f"# supple.{package}", "", *(f"::: supple.{package}.{name}\n" for name in names)])


def top_level() -> str:
    """Index of the names that `supple` itself has, each with a link to the package that defines it."""
    tree = ast.parse((ROOT / "src" / "supple" / "__init__.py").read_text())
    homes = next(n.value for n in tree.body if isinstance(n, ast.Assign) and getattr(n.targets[0], "id", "") == "_HOME")
    rows = ["# supple", "", "Names that `import supple` gives.", "", "| name | defined in |", "|---|---|"]
    for name, home in sorted(ast.literal_eval(homes).items()):
        package = home.split(".")[1]
        if package == name or name in MODULES:
            rows.append(f"| `supple.{name}` | [package]({name}.md) |")
        elif package in PACKAGES and name in public_names(ROOT / "src" / "supple" / package / "__init__.py"):
            rows.append(f"| [`supple.{name}`][supple.{package}.{name}] | `supple.{package}` |")
        else:
            rows.append(f"| [`supple.{name}`][{home}.{name}] | `{home}` |")
    return "\n".join([*rows, ""])


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    text = (ROOT / "docs" / "README.md").read_text()
    parts = SECTION.split(text)[1:]
    nav: list[object] = [{"Home": "README.md"}]
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        if rows := [{name: target} for name, target in ROW.findall(body)]:
            nav.append({heading: rows})
    nav.append({"Gallery": ["gallery/index.md", *({title(e): f"gallery/{e.stem}.md"} for e in all_examples())]})
    nav.append(
        {"Reference": ["reference/index.md", *({name: f"reference/{name}.md"} for name in (*PACKAGES, *MODULES))]}
    )
    nav.append({"Contributing": "CONTRIBUTING.md"})
    config.nav = nav
    return config


def all_examples() -> list[Path]:
    return sorted((ROOT / "examples").glob("[0-9]*.py"))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    made = {f"gallery/{example.stem}.md": example_page(example) for example in all_examples()}
    made["gallery/index.md"] = gallery(all_examples())
    made |= {f"reference/{package}.md": reference(package) for package in PACKAGES}
    made["reference/index.md"] = top_level()
    twin = ROOT / "tests" / "step_twin.py"
    made["theory/step_twin.md"] = f"# One step in NumPy\n\n```python\n{twin.read_text()}```\n"
    made["CONTRIBUTING.md"] = (ROOT / "CONTRIBUTING.md").read_text().replace("](docs/", "](")
    made |= {f"reference/{page}.md": f"# supple.{page}\n\n::: {module}\n" for page, module in MODULES.items()}
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links that leave docs/ lead to the page made of their file, those to examples to the gallery."""
    here = posixpath.dirname(page.file.src_uri)

    def inside(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join("docs", here, match[1] + match[2]))
        if target.startswith("examples/"):
            target = f"docs/gallery/{Path(target).stem}.md"
        elif target == "tests/step_twin.py":
            target = "docs/theory/step_twin.md"
        elif target == "CONTRIBUTING.md":
            target = "docs/CONTRIBUTING.md"
        return f"]({posixpath.relpath(target, posixpath.join('docs', here))}{match[3]})"

    return LINK.sub(inside, markdown)
