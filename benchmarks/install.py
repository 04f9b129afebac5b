"""Time to install supple: from a fresh clone and environment to the end of `supple demo`, then the same from a wheel.

It is not part of CI. The targets hold for two free cores with nothing else running.

`--quick` installs without the extra `all` and runs one step in place of the demo. `--memory` also compiles the core
with one process at a time and prints the largest memory of a compiler process (Linux and macOS).
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from _report import Report, parse_args

ROOT = Path(__file__).parents[1]
STEP = "import supple; sim = supple.Simulation(supple.library.helix(10), 2e-3); sim.step(10); print(sim.time)"


def main() -> None:
    memory = "--memory" in sys.argv
    if memory:
        sys.argv.remove("--memory")
    args = parse_args(__doc__)
    report = Report("install", args)
    with TemporaryDirectory() as folder:
        install_from_source(report, args, Path(folder))
        install_from_wheel(report, args, Path(folder))
        if memory:
            compiler_memory(report, Path(folder))
    report.finish()


def run(*command: str | Path, cwd: Path, **environment: str) -> float:
    """Seconds that a command takes; its output is shown if it fails."""
    names = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SUPPLE_CORE")}
    env = {**names, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_QUIET": "1", **environment}
    start = perf_counter()
    done = subprocess.run([str(word) for word in command], cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command[0]} failed:\n{done.stdout}\n{done.stderr}")
    return perf_counter() - start


def environment(folder: Path) -> tuple[Path, float]:
    """Makes a virtual environment; returns the folder of its programs and the seconds it took."""
    took = run(sys.executable, "-m", "venv", folder, cwd=folder.parent)
    return folder / ("Scripts" if os.name == "nt" else "bin"), took


def run_demo(programs: Path, folder: Path, quick: bool) -> float:
    if quick:
        return run(programs / "python", "-c", STEP, cwd=folder)
    return run(programs / "supple", "demo", "--picture", "demo.png", cwd=folder)


def install_from_source(report: Report, args: argparse.Namespace, folder: Path) -> None:
    clone, extra = folder / "clone", "" if args.quick else "[all]"
    took = {"clone": run("git", "clone", "--quiet", ROOT, clone, cwd=folder)}
    programs, took["environment"] = environment(folder / "from_source")
    took["install"] = run(programs / "python", "-m", "pip", "install", f".{extra}", cwd=clone)
    took["demo"] = run_demo(programs, folder, args.quick)
    total = sum(took.values())
    report.row(install_s="from source", **took, total=total)
    report.target("fresh clone to the end of the demo, s", total, at_most=150)


def install_from_wheel(report: Report, args: argparse.Namespace, folder: Path) -> None:
    extra = "" if args.quick else "[all]"
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "-w", folder, folder / "clone", cwd=folder)
    built = next(folder.glob("supple-*.whl"))
    programs, made = environment(folder / "from_wheel")
    took = {"environment": made}
    took["install"] = run(programs / "python", "-m", "pip", "install", f"{built}{extra}", cwd=folder)
    took["demo"] = run_demo(programs, folder, args.quick)
    total = sum(took.values())
    report.row(install_s="from the wheel", wheel_MB=built.stat().st_size / 1e6, **took, total=total)
    report.target("wheel to the end of the demo, s", total, at_most=40)


def compiler_memory(report: Report, folder: Path) -> None:
    """Compiles the core in a new clone, one file at a time."""
    clone = folder / "clone_again"
    run("git", "clone", "--quiet", ROOT, clone, cwd=folder)
    programs, _ = environment(folder / "one_process")
    install = [programs / "python", "-m", "pip", "install", "--no-deps", "."]
    run(*install, cwd=clone, CMAKE_BUILD_PARALLEL_LEVEL="1")
    unit = 1 if sys.platform == "darwin" else 1024  # bytes of ru_maxrss, the largest of all processes waited for
    most = unit * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e9
    report.row(compiler="one process at a time", memory_GB=most)
    report.target("memory of the largest compiler process, GB", most, at_most=1.2)


if __name__ == "__main__":
    main()
