"""Static equilibrium under a load: the ladder and the helix, each with 100 N on its tip.

Writes a picture of each, with the reference pose in pale colour, into the folder given (by default the current one):
python 03_statics.py docs/pictures
"""

import sys
from pathlib import Path

import numpy as np

import supple
from supple.viewer import draw

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
for name, force in (("ladder", (0, 100, 0)), ("helix", (100, 0, 0))):
    mech = getattr(supple.library, name)()
    eq = supple.equilibrium(mech, {"tip": [*force, 0, 0, 0]})
    moved = np.linalg.norm(eq.poses["tip"][:3, 3] - mech.poses["tip"][:3, 3])
    print(f"{mech}: the tip moves {moved:.3f} m under {force} N")
    print(f"  {eq.iterations} Newton steps, residual {eq.residual:.0e}, stable: {eq.stable}")

    # the reactions at the base balance the load
    base = [j for j in mech.joints if j.parent == "world"]
    frames = {j.name: eq.poses[j.child] @ j.pose_child for j in base}
    reaction = sum(frames[j.name][:3, :3] @ eq.reactions[j.name][:3] for j in base)
    print(f"  the reactions at the base are {np.round(reaction, 9) + 0.0} N")
    assert np.allclose(reaction, np.negative(force), atol=1e-8)

    title = f"{name} under {np.linalg.norm(force):g} N"
    path, view = folder / f"{name}_loaded.png", (12.0, -60.0)
    draw(mech, eq.poses.array, path=path, ghost=mech.poses.array, title=title, view=view)
