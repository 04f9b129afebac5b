"""Pictures of mechanisms."""

from supple.viewer.picture import draw

__all__ = ["draw"]
