"""Time of `import supple`, compared with `import numpy`, in new interpreters."""

from __future__ import annotations

import subprocess
import sys
from time import perf_counter

from _report import Report, parse_args

STATEMENTS = {
    "nothing": "pass",
    "numpy": "import numpy",
    "supple": "import supple",
    "supple, first use": "import supple; supple.Mechanism",
    "supple, first ladder": "import supple; supple.library.ladder()",
}


def statement_seconds(statement: str) -> float:
    """Seconds of a statement alone, measured inside a new interpreter."""
    code = f"from time import perf_counter as now; t = now(); {statement}; print(now() - t)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def process_seconds(statement: str) -> float:
    """Seconds from the start of the interpreter to its end."""
    start = perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return perf_counter() - start


def main() -> None:
    args = parse_args(__doc__)
    report = Report("import time, best of alternating runs in new interpreters", args)
    alone = dict.fromkeys(STATEMENTS, float("inf"))
    whole = dict(alone)
    for _ in range(2 if args.quick else 20):
        for name, statement in STATEMENTS.items():
            alone[name] = min(alone[name], statement_seconds(statement))
            whole[name] = min(whole[name], process_seconds(statement))
    for name in STATEMENTS:
        ratio = alone[name] / alone["numpy"]
        report.row(what=name, statement_ms=1e3 * alone[name], process_ms=1e3 * whole[name], to_numpy=ratio)
    report.target("import supple / import numpy", alone["supple"] / alone["numpy"], at_most=2.0)
    first = alone["supple, first use"] / alone["numpy"]
    report.target("import supple and its first use / import numpy", first, at_most=2.0)
    report.finish()


if __name__ == "__main__":
    main()
