"""Builds a four-bar linkage with a spring; prints its kinematics, moves it, saves and draws it."""

import numpy as np

import supple
from supple.viewer import draw

b = supple.Builder("four-bar")
b.link("crank", start=(0, 0, 0), end=(0.1, 0, 0.3), mass=0.4, radius=0.012)
b.link("coupler", start=(0.1, 0, 0.3), end=(0.7, 0, 0.5), mass=0.8, radius=0.012)
b.link("rocker", start=(0.6, 0, 0), end=(0.7, 0, 0.5), mass=0.6, radius=0.012)
b.hinge("foot", "world", "crank", at=(0, 0, 0), axis="y", stiffness=5.0, damping=0.05)
b.hinge("knee", "crank", "coupler", at=(0.1, 0, 0.3), axis="y")
b.hinge("pivot", "world", "rocker", at=(0.6, 0, 0), axis="y")
b.hinge("closure", "rocker", "coupler", at=(0.7, 0, 0.5), axis="y")
b.site("pen", "coupler", at=(0.4, 0, 0.6))
mech = b.build()

print(mech)
print("closed by", [mech.joints[j].name for j in mech.topology.loops], "- mobility", mech.mobility)
print("q is", mech.coordinates)
print("the pen's twist per unit rate of q:")
print(np.round(supple.jacobian(mech, "pen"), 3))
print("mass matrix of the spanning tree, kg m^2:")
print(np.round(supple.mass_matrix(mech), 4))

# Forward kinematics moves the spanning tree only; `gaps` has the remaining gap of each loop.
opened = supple.kinematics(mech, [0.1, 0.0, 0.0])
gap = np.linalg.norm(opened.gaps["closure"][:3])
print(f"with only the crank turned, the loop has a gap of {gap:.3f} m at the closure")

mech.save("four_bar.json")
assert supple.load("four_bar.json") == mech
draw(mech, path="four_bar.png", labels=["pen"])
