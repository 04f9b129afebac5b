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
    statement_times = dict.fromkeys(STATEMENTS, float("inf"))
    process_times = dict(statement_times)
    for _ in range(2 if args.quick else 20):
        for name, statement in STATEMENTS.items():
            statement_times[name] = min(statement_times[name], statement_seconds(statement))
            process_times[name] = min(process_times[name], process_seconds(statement))
    for name in STATEMENTS:
        ratio = statement_times[name] / statement_times["numpy"]
        report.row(what=name, statement_ms=1e3 * statement_times[name], process_ms=1e3 * process_times[name], to_numpy=ratio)
    report.target("import supple / import numpy", statement_times["supple"] / statement_times["numpy"], at_most=2.0)
    first = statement_times["supple, first use"] / statement_times["numpy"]
    report.target("import supple and its first use / import numpy", first, at_most=2.0)
    report.finish()


if __name__ == "__main__":
    main()
