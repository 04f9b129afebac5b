"""Prints size and mobility of every mechanism of the library, and draws it.

Writes a PNG file for each into the given folder (by default the current one):  python 01_library.py docs/pictures
"""

import sys
from pathlib import Path

import supple
from supple.viewer import draw

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
coarse = {"modes": 8, "sections": 12}  # meshes of flexible bodies; by default more than three times as many sections
options = dict.fromkeys(("flexible_four_bar", "rod_on_motor", "two_rods"), coarse)
for name in supple.library.__all__:
    mech = getattr(supple.library, name)(**options.get(name, {}))
    if not isinstance(mech, supple.Mechanism):
        continue  # millipede and molecule are trees of plain arrays, with thousands of joints: examples 31 and 32
    print(f"{mech}: mobility {mech.mobility}, {mech.mass:g} kg, radius {mech.radius:.3f} m")
    draw(mech, path=folder / f"{name}.png")
