"""Is everything here that the course needs? An answer in words, not in version numbers alone."""

from __future__ import annotations

import sys
from importlib import metadata

#: What the notebooks import, and what draws the sliders.
NEEDED = ("numpy", "matplotlib", "ipywidgets", "ipykernel")

#: What stands behind the questions and exercises: told only where it is missing.
BEHIND = ("cloudpickle", "filelock", "fsrs", "pebble", "platformdirs")

#: Oldest and newest Python the course is tested on.
PYTHON = ((3, 10), (3, 14))


def check() -> str:
    """Say what is here and, for whatever is missing or too old, what to do.

    Returns
    -------
    str
        One line a finding; the last line is the verdict.
    """
    lines, faults = [], []
    here, (oldest, newest) = sys.version_info[:2], PYTHON
    said = ".".join(map(str, here))
    if oldest <= here <= newest:
        lines.append(f"Python {said}: fine.")
    else:
        faults.append(f"Python {said}: this course is tested on {oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}.")
    wanted = _wanted()
    for name in (*NEEDED, *BEHIND):
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            faults.append(f"{name}: missing. Install it with: python -m pip install {name}")
            continue
        if name in wanted and not wanted[name].contains(version, prereleases=True):
            faults.append(
                f"{name} {version}: the course is tested with {wanted[name]}. Run: python -m pip install -U {name}"
            )
        elif name in NEEDED:
            lines.append(f"{name} {version}: fine.")
    verdict = (
        "Everything is here. Turn the page." if not faults else f"{len(faults)} to mend before the panels will work."
    )
    return "\n".join([*lines, *faults, verdict])


def _wanted() -> dict:
    """The versions this library declares, by package name; empty where it runs without being installed."""
    from packaging.requirements import Requirement

    try:
        declared = metadata.requires("mha-lib") or []
    except metadata.PackageNotFoundError:
        return {}
    return {(needed := Requirement(line)).name: needed.specifier for line in declared if ";" not in line}
