"""Characters of the retargeting paper, one function for each, and motions for them (`motions`).

The paper gives the numbers of motors and bodies, heights and a few lengths; docs/characters.md says what is ours.
All have servos of 82 g with brackets of 20 g, which follow their curves exactly.
"""

from supple.mechanism.library.characters import motions
from supple.mechanism.library.characters.bartender import bartender
from supple.mechanism.library.characters.boxer import boxer
from supple.mechanism.library.characters.dancer import dancer
from supple.mechanism.library.characters.drummer import drummer
from supple.mechanism.library.characters.rapper import rapper

__all__ = ["bartender", "boxer", "dancer", "drummer", "motions", "rapper"]
