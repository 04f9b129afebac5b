"""Quasi-statics of huge linkages: only the joints that matter, within a stated error."""

from supple.linkage.adaptive import AdaptiveLinkage, LinkageStep

__all__ = ["AdaptiveLinkage", "LinkageStep"]
