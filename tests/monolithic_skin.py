"""The finite-element solve of a whole skin in a pose, which its seam equations are compared with."""

import numpy as np
from scipy.sparse import coo_array, kron
from scipy.sparse.linalg import spsolve

from supple.elastic.linear import coordinates_of, stiffness
from supple.zones.layout import placed


def monolithic(skin, where, forces):
    """Positions of all vertices, and positions and nodal forces of every zone, by one sparse solve."""
    frames, carried = skin.frames(where)
    zones_ = list(skin.zones.values())
    number, count = [], skin.vertex_count
    for vertices in skin.vertex_of:
        own = vertices.copy()
        inner = np.flatnonzero(own < 0)
        own[inner] = count + np.arange(len(inner))
        count += len(inner)
        number.append(own)
    K, rhs, given = coo_array((3 * count, 3 * count)).tocsc(), np.zeros(3 * count), {}
    rhs[: 3 * skin.vertex_count] = forces.ravel()
    own_K = []
    for zone, own, frame, bones in zip(zones_, number, frames, carried, strict=True):
        R = kron(np.eye(len(zone.nodes)), frame[:3, :3]).tocsc()
        turned = (R @ stiffness(zone.nodes, zone.solid.cells, zone.material) @ R.T).tocoo()
        at = coordinates_of(own)
        K = K + coo_array((turned.data, (at[turned.row], at[turned.col])), shape=K.shape).tocsc()
        np.add.at(rhs, at, turned @ placed(zone.nodes, frame).ravel())
        own_K.append(turned)
        for nodes, bone in zip(zone.bones.values(), bones, strict=False):
            given |= dict(zip(own[nodes].tolist(), placed(zone.nodes[nodes], bone), strict=True))
    held = coordinates_of(np.array(sorted(given)))
    y = np.zeros(3 * count)
    y[held] = np.concatenate([given[node] for node in sorted(given)])
    loose = np.setdiff1d(np.arange(3 * count), held)
    y[loose] = spsolve(K[loose][:, loose], rhs[loose] - K[loose][:, held] @ y[held])
    per_zone = []
    for zone, own, frame, turned in zip(zones_, number, frames, own_K, strict=True):
        x = y.reshape(-1, 3)[own]
        per_zone.append((x, (turned @ (x - placed(zone.nodes, frame)).ravel()).reshape(-1, 3)))
    return y[: 3 * skin.vertex_count].reshape(-1, 3), per_zone
