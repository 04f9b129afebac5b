"""Documents: their Python runs, their links lead to files, and docs/README.md lists every page of docs.

The blocks of a page run in order, in one namespace and an empty folder.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("**/*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"""(?:\]\(|src=")([^)"#\s]+)""")


def blocks(page):
    """Code of a page's blocks, each at its own line so that a traceback points into the page."""
    text = page.read_text()
    for match in BLOCK.finditer(text):
        yield "\n" * text.count("\n", 0, match.start(1)) + match[1]


def local_links(page):
    """Files that a page links to or shows."""
    targets = LINK.findall(page.read_text())
    return [(page.parent / target).resolve() for target in targets if not target.startswith(("http://", "https://"))]


def page_id(page):
    return str(page.relative_to(ROOT).with_suffix(""))


@pytest.mark.parametrize("page", [page for page in PAGES if any(blocks(page))], ids=page_id)
def test_code_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": page.stem}
    for code in blocks(page):
        exec(compile(code, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_links_lead_to_files(page):
    missing = [str(target) for target in local_links(page) if not target.exists()]
    assert not missing


def test_the_index_lists_every_page():
    index = DOCS / "README.md"
    unlisted = set(DOCS.glob("**/*.md")) - {index, *local_links(index)}
    assert not unlisted, f"add to docs/README.md: {sorted(page_id(page) for page in unlisted)}"
