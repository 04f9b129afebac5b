"""Every mechanism of the library: its size, how it can move, and its picture.

Writes a PNG for each into the folder given (by default the current one):  python 01_library.py docs/pictures
"""

import sys
from pathlib import Path

import supple
from supple.viewer import draw

folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
for name in supple.library.__all__:
    mech = getattr(supple.library, name)()
    if not isinstance(mech, supple.Mechanism):
        continue  # millipede and molecule are bare trees of thousands of joints: examples 31 and 32
    print(f"{mech}: mobility {mech.mobility}, {mech.mass:g} kg, radius {mech.radius:.3f} m")
    draw(mech, path=folder / f"{name}.png")
