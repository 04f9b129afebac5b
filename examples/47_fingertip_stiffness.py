"""Chooses the springs of a finger so that its tip has a desired stiffness.

The tip of a bent finger should be twice as stiff in x as in z, without coupling of the two. `supple.gradient` gives the
derivatives of the error with respect to all springs by one adjoint, and a quasi-Newton method of scipy uses them.

    python 47_fingertip_stiffness.py docs/pictures
"""

import sys
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

import supple

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")

b = supple.Builder("finger", gravity=(0, 0, 0))
corners = np.array([[0, 0, 0], [0.05, 0, 0.04], [0.1, 0, 0.03], [0.11, 0, -0.01], [0.07, 0, -0.03]])
for i in range(4):
    b.link(f"bone{i}", corners[i], corners[i + 1], mass=0.02)
    parent = f"bone{i - 1}" if i else "world"
    b.hinge(f"joint{i}", parent, f"bone{i}", corners[i], "y", stiffness=1.0, damping=0.01)
b.site("tip", "bone3", corners[-1])
finger = b.build()

springs = [f"joint{i}.stiffness" for i in range(4)]
plane = np.ix_([0, 2], [0, 2])  # the tip moves in the x-z plane
wished = np.array([[400.0, 0.0], [0.0, 200.0]])  # N/m
target = np.linalg.inv(wished)  # m/N


def error(logarithms: np.ndarray) -> tuple[float, np.ndarray]:
    """Relative error of the tip's compliance, and its gradient. Logarithms keep the springs positive."""
    values = dict(zip(springs, np.exp(logarithms), strict=True))
    mech = finger.with_parameters(values)
    off = supple.reduce(mech, "tip").compliance_at("tip")[plane] - target
    size = np.sum(target**2)
    weights = np.zeros((6, 6))
    weights[plane] = 2 * off / size
    by = supple.gradient(mech, compliance={"tip": weights}, parameters=springs)
    return float(np.sum(off**2) / size), np.array([by[name] * values[name] for name in springs])


found = minimize(error, np.zeros(4), jac=True, method="BFGS", options={"gtol": 1e-9})
chosen = dict(zip(springs, np.exp(found.x), strict=True))
model = supple.reduce(finger.with_parameters(chosen), "tip")
stiffness = np.linalg.inv(model.compliance_at("tip")[plane])
print(f"{found.nfev} evaluations, error {found.fun:.1e}")
for name, value in chosen.items():
    print(f"  {name}: {value:.4g} N m/rad")
print("stiffness of the tip in x and z, N/m:", np.array2string(stiffness, precision=1, suppress_small=True))

path = folder / "fingertip_stiffness.png"
shown = [model.ellipsoid_at("tip")]
supple.viewer.draw(finger, path=path, view=(4.0, -88.0), title="compliance of the fingertip", ellipsoids=shown)
print(path)
