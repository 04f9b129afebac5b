"""Writes mechanisms as MJCF files for MuJoCo."""

from supple.mechanism.io.mjcf_writer.document import save, write

__all__ = ["save", "write"]
