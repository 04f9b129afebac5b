"""Contact: shapes as colliders, their contact points, and soft pads. The friction solver is in the core."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from supple.contact.pads import Pad as Pad
    from supple.contact.pads import Touch as Touch

__all__ = ["Pad", "Touch"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"supple.contact has no attribute {name!r}")
    from supple.contact import pads

    return getattr(pads, name)
