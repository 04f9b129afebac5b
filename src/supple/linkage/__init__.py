"""Quasi-statics of large linkages: computes only the joints with the largest accelerations, within an allowed error."""

from supple.linkage.adaptive import AdaptiveLinkage, LinkageStep

__all__ = ["AdaptiveLinkage", "LinkageStep"]
