"""The viewer's page in a cell of a notebook."""

from __future__ import annotations

import html
import sys
from contextlib import ExitStack
from typing import Any

from supple.viewer.live import LivePage
from supple.viewer.server import address
from supple.viewer.session import Session

HEIGHT = 620
"""Pixels."""


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this code."""
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


class NotebookView:
    """A running viewer that a notebook shows as an `<iframe>` in the cell. `close` ends it."""

    def __init__(self, page: LivePage, resources: ExitStack) -> None:
        self._page, self._resources = page, resources

    @property
    def session(self) -> Session:
        """Controls what moves: `view.session.paused = True`, `view.session.pull("tip", [...])`."""
        return self._page.session

    @property
    def url(self) -> str:
        """Address of the page."""
        return address(self._page.server)

    def close(self) -> None:
        """Ends the simulation and the page."""
        self._resources.close()

    def _repr_html_(self) -> str:
        url = html.escape(self.url, quote=True)
        return f'<iframe src="{url}" width="100%" height="{HEIGHT}" style="border: 0"></iframe>'

    def __repr__(self) -> str:
        return f"NotebookView of '{self.session.mechanism.name}' at {self.url}"
