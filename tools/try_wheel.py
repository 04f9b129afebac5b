"""Steps a helix with the installed supple and prints which build of the core did it; cibuildwheel runs this."""

import supple
from supple import _core

sim = supple.Simulation(supple.library.helix(20), 2e-3)
sim.step(50)
print(f"supple {supple.__version__}, {_core.VARIANT} of {', '.join(_core.built_variants())}: t = {sim.time:g} s")
