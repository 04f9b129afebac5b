"""Colliders as geometries of coal, with which tests compare contact points."""

from typing import Any

import numpy as np

from supple.contact.colliders import Collider


def coal_geometry(collider: Collider) -> Any:
    """A collider as a geometry of coal, in its own frame."""
    import coal

    match collider.kind:
        case "plane":
            return coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0)
        case "sphere":
            return coal.Sphere(float(collider.size[0]))
        case "capsule":
            return coal.Capsule(float(collider.size[0]), 2 * float(collider.size[1]))
        case "cylinder":
            return coal.Cylinder(float(collider.size[0]), 2 * float(collider.size[1]))
        case "box":
            return coal.Box(*(2 * collider.size))
        case "ellipsoid":
            return coal.Ellipsoid(*collider.size)
        case "mesh":
            points = coal.StdVec_Vec3s()
            for point in collider.points:
                points.append(point)
            return coal.Convex.convexHull(points, False, "Qt")
    raise ValueError(collider.kind)
