"""`supple fit`: what it prints."""

from __future__ import annotations

from typing import Any

from supple.retargeting import FittedMaterial

UNITS = {"young": "Pa", "alpha": "1/s", "beta": "s"}


def describe_fit(fitted: FittedMaterial) -> dict[str, Any]:
    """The result of a fit for JSON."""
    return {
        "young": fitted.young,
        "alpha": fitted.alpha,
        "beta": fitted.beta,
        "standard_errors": fitted.standard_errors,
        "kept": list(fitted.kept),
        "frequency": fitted.frequency,
        "damping_ratio": fitted.damping_ratio,
        "residual_rms": fitted.residual_rms,
    }


def fit_lines(fitted: FittedMaterial) -> list[str]:
    """The result of a fit as lines of text."""
    lines = []
    for name, unit in UNITS.items():
        error = fitted.standard_errors.get(name)
        note = "kept" if error is None else f"standard error {error:.2g} {unit}"
        lines.append(f"{name:<6} {getattr(fitted, name):.4g} {unit} ({note})")
    ratio, rms = 100 * fitted.damping_ratio, 1e3 * fitted.residual_rms
    lines.append(f"The slowest vibration has {fitted.frequency:.4g} Hz and the damping ratio {ratio:.3g} %.")
    lines.append(f"Simulated and measured positions differ by {rms:.3g} mm (root mean square).")
    return lines
