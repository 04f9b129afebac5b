"""Pictures of mechanisms, and the web viewer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from supple.viewer.picture import draw

if TYPE_CHECKING:
    from supple.viewer.session import Session as Session
    from supple.viewer.showing import replay as replay
    from supple.viewer.showing import view as view
    from supple.viewer.showing import view_script as view_script
    from supple.viewer.showing import view_skin as view_skin
    from supple.viewer.video import write_video as write_video

__all__ = ["Session", "draw", "replay", "view", "view_script", "view_skin", "write_video"]
_HOME = {"Session": "session", "write_video": "video"}
_HOME |= dict.fromkeys(("replay", "view", "view_script", "view_skin"), "showing")


def __getattr__(name: str) -> Any:
    """Imports the web viewer on first use; `draw` does not need it."""
    if name not in _HOME:
        raise AttributeError(f"supple.viewer has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"supple.viewer.{_HOME[name]}"), name)
