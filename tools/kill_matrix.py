"""Compute which check catches which mistake, and write it down for people: docs/kill-matrix.md.

    python tools/kill_matrix.py

A test computes it again and compares, so the page cannot claim what is not so.
"""

from __future__ import annotations

from pathlib import Path

from mha_lib.checks import CHECKS, matrix
from mha_lib.mistakes import CATALOGUE
from mha_lib.practice.exercises import EXERCISES, Exercise, Wrong, verdict
from mha_lib.practice.mutants import rights

PAGE = Path(__file__).resolve().parent.parent / "docs" / "kill-matrix.md"

INTRODUCTION = """\
# What catches what

Ways to get multi-head attention wrong, and the checks that people use to find out. Every cell is computed: each mistake
is one step of a right layer swapped (`mha_lib/mistakes.py`), each check is run on it (`mha_lib/checks.py`).
**✗** the check catches the mistake; a blank means that it lets it through.
This page is written by `tools/kill_matrix.py`.
"""


def page() -> str:
    """The page as Markdown."""
    caught = ~matrix([mistake.run for mistake in CATALOGUE])
    weak = [i for i, check in enumerate(CHECKS) if check.weak]
    ours = [i for i, check in enumerate(CHECKS) if not check.weak]
    parts = [INTRODUCTION]
    for title, columns in (("The usual checks", weak), ("Ours", ours)):
        parts.append(f"\n## {title}\n")
        parts += [f"- **{CHECKS[i].name}**: {CHECKS[i].why}." for i in columns]
        parts.append("\n" + _row(["mistake", *(CHECKS[i].name for i in columns)]))
        parts.append(_row([":--", *(":-:" for _ in columns)]))
        parts += [
            _row([mistake.name, *("✗" if row[i] else " " for i in columns)])
            for mistake, row in zip(CATALOGUE, caught, strict=True)
        ]
        parts.append(_row(["**caught**", *(f"**{caught[:, i].sum()} of {len(CATALOGUE)}**" for i in columns)]))
    parts += _exercises()
    parts.append("\n## Who made them\n")
    parts += [
        f"- **{mistake.name}** ({mistake.misconception}): {mistake.looks}."
        + (f" Reported in {', '.join(mistake.seen_in)}." if mistake.seen_in else "")
        for mistake in CATALOGUE
    ]
    return "\n".join(parts) + "\n"


EXERCISES_INTRODUCTION = """\

## The checkers of the exercises

The reader writes a function, and a checker judges it (`mha_lib/practice/exercises.py`). Each mistake that can be made
there is written as such a function, and judged. **named** the checker rejects it and calls it by its name; **✗** it
rejects it; **MISSED** it lets it through; a blank means that the mistake cannot be made there. The last line counts
right functions in different styles: plain loops, the library, einsum, one head at a time.
"""


def _exercises() -> list[str]:
    """Every exercise against every mistake that it lists."""
    rows: dict[str, dict[str, str]] = {mistake.name: {} for mistake in CATALOGUE}
    for exercise in EXERCISES:
        for wrong in exercise.wrongs:
            rows.setdefault(wrong.name, {})[exercise.name] = _found(exercise, wrong)
    names = [exercise.name for exercise in EXERCISES]
    parts = [EXERCISES_INTRODUCTION, _row(["mistake", *names]), _row([":--", *(":-:" for _ in names)])]
    parts += [_row([name, *(cells.get(column, " ") for column in names)]) for name, cells in rows.items() if cells]
    caught = [sum(rows[name].get(column) in ("named", "✗") for name in rows) for column in names]
    listed = [sum(column in rows[name] for name in rows) for column in names]
    parts.append(_row(["**caught**", *(f"**{few} of {all_}**" for few, all_ in zip(caught, listed, strict=True))]))
    passing = [[verdict(right, exercise.name).passed for right in rights(exercise)] for exercise in EXERCISES]
    parts.append(_row(["**right ones let through**", *(f"**{sum(one)} of {len(one)}**" for one in passing)]))
    return parts


def _found(exercise: Exercise, wrong: Wrong) -> str:
    found = verdict(wrong.function, exercise.name)
    if found.passed:
        return "MISSED"
    return "named" if found.mistake and found.mistake[0] == wrong.name else "✗"


def _row(cells) -> str:
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"written: {PAGE.name}")
