"""MJCF, so that any mechanism of ours opens in MuJoCo."""

from supple.mechanism.io.mjcf_writer.document import save, write

__all__ = ["save", "write"]
