"""Example mechanisms, one function for each: `from supple.library import ladder`. See `supple.mechanism.library`."""

from supple.mechanism.library import *  # noqa: F403
from supple.mechanism.library import __all__ as __all__
from supple.mechanism.library import characters as characters
