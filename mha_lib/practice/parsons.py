"""The lines of a function, shuffled, to be put in order with buttons.

The order is judged by running it: where two orders compute the same, both are right. There are lines too
many, each a mistake that people make. Every place says which step of the whole belongs there (labelled
subgoals help most: Morrison et al. 2015).
"""

from __future__ import annotations

import ast
import html
import random
import re
import zlib
from collections.abc import Sequence

import ipywidgets as widgets

from . import bench, content, exercises, judge, progress
from .content import Line, Puzzle
from .exercises import Verdict
from .questions import Sentence, entry_named, say, stylesheet

_LEFT_OVER = "left over"


class Parsons(widgets.VBox):
    """One puzzle; `order` makes one.

    Attributes
    ----------
    lines : list of Line
        In the order in which they stand; the last ones are left over.
    verdict : Verdict or None
        Of the last check.
    """

    def __init__(self, puzzle: Puzzle):
        self._puzzle, self.verdict = puzzle, None
        self.lines = shuffled(puzzle)
        self._goals = [line.goal for line in puzzle.lines] + [_LEFT_OVER] * len(puzzle.extras)
        self._rows = [_Row(goal, place, self._move) for place, goal in enumerate(self._goals)]
        self._check = widgets.Button(description="Check", button_style="primary")
        self._again = widgets.Button(description="Start over")
        self._show = widgets.Button(description="I give up: show the order")
        self._check.on_click(lambda _: self._on_check())
        self._again.on_click(lambda _: self._on_again())
        self._show.on_click(lambda _: self._on_show())
        # What was asked to be shown has a place of its own: a move must not take it away.
        self._news, self._said, self._shown = widgets.HTML(), widgets.HTML(), widgets.HTMLMath()
        buttons = widgets.HBox([self._check, self._again, self._show]).add_class("mha-row")
        head = widgets.HTML(_code(puzzle.head)).add_class("mha-given")
        rows = widgets.VBox([row.box for row in self._rows]).add_class("mha-lines")
        super().__init__([stylesheet(), head, rows, buttons, self._news, self._said, self._shown])
        self.add_class("mha-predict").add_class("mha-parsons")
        self._draw()

    def _draw(self) -> None:
        for row, line in zip(self._rows, self.lines, strict=True):
            row.show(line)
        self._rows[0].up.disabled = self._rows[-1].down.disabled = True

    def _move(self, place: int, by: int) -> None:
        """Exchange a line with its neighbour; the keyboard goes with the line, so it can be moved on."""
        there = place + by
        if not 0 <= there < len(self.lines):
            return
        self.lines[place], self.lines[there] = self.lines[there], self.lines[place]
        self._draw()
        self._said.value = ""
        row = self._rows[there]
        wanted, other = (row.up, row.down) if by < 0 else (row.down, row.up)
        (other if wanted.disabled else wanted).focus()
        say(self._news, f"<p>Now in place {there + 1}, {html.escape(self._goals[there])}.</p>")

    def _on_check(self) -> None:
        self.verdict = judged(self._puzzle, self.lines[: len(self._puzzle.lines)])
        progress.mine().tried(self._puzzle.name, self.verdict.passed, self.verdict.said)
        self._show.description = "Show the order"
        self._news.value = ""
        say(self._said, bench.announced(self.verdict))

    def _on_again(self) -> None:
        self.lines = shuffled(self._puzzle)
        self._draw()
        self._said.value = self._shown.value = ""
        say(self._news, "<p>The lines stand as at the beginning.</p>")

    def _on_show(self) -> None:
        if self.verdict is None or not self.verdict.passed:
            progress.mine().gave_up(self._puzzle.name)
        say(self._shown, _solved(self._puzzle))

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        lines = "".join(f"<li>{_code(line.code)}</li>" for line in shuffled(self._puzzle))
        still = (
            f"{_code(self._puzzle.head)}<ul>{lines}</ul>"
            f"<details><summary>Put them in order on paper, then open this</summary>{_solved(self._puzzle)}</details>"
        )
        return {**data, "text/html": still, "text/plain": f"Lines to put in order: {self._puzzle.exercise}"}, metadata


class _Row:
    """One place: what belongs there, the line that stands there, and the buttons that move it."""

    def __init__(self, goal: str, place: int, move):
        self._goal = widgets.HTML(f"<p>{place + 1}. {html.escape(goal)}</p>").add_class("mha-goal")
        self._line = widgets.HTML().add_class("mha-line")
        # The arrows are drawn by the style sheet: a description would be the button's name, the same in every row.
        self.up, self.down = widgets.Button().add_class("mha-up"), widgets.Button().add_class("mha-down")
        self.up.on_click(lambda _: move(place, -1))
        self.down.on_click(lambda _: move(place, 1))
        self.box = widgets.HBox([self._goal, self.up, self.down, self._line])
        if goal == _LEFT_OVER:
            self.box.add_class("mha-left-over")

    def show(self, line: Line) -> None:
        self._line.value = _code(line.code)
        self.up.tooltip, self.down.tooltip = f"Move up: {line.code}", f"Move down: {line.code}"
        self.up.disabled = self.down.disabled = False


def order(name: str) -> widgets.VBox:
    """Let the reader put the lines of a function in order.

    Parameters
    ----------
    name : str
        As ``"00-layer-in-order"``; see `mha_lib.practice.content.puzzles`.

    Returns
    -------
    VBox
        A `Parsons`; a sentence where there is no such puzzle. Nothing is ever raised.
    """
    puzzle = entry_named("puzzle", name, content.puzzles)
    if isinstance(puzzle, Sentence):
        return puzzle
    judge.warm_up()
    return Parsons(puzzle)


def shuffled(puzzle: Puzzle) -> list[Line]:
    """All lines, in an order that is the same for everybody and is not the right one."""
    lines = [*puzzle.lines, *puzzle.extras]
    # Of all of `random`, only seed() and random() promise the same numbers in every Python.
    chance = random.Random(zlib.crc32(puzzle.name.encode()))
    mixed = sorted(lines, key=lambda _: chance.random())
    return mixed if mixed != lines else mixed[::-1]


def judged(puzzle: Puzzle, lines: Sequence[Line]) -> Verdict:
    """Run a function made of these lines, in this order, and judge it as an exercise.

    Names that are used before they are made are told in words; a verdict of their own, as no other would help.
    """
    fault = _order_fault(puzzle, lines)
    if fault:
        return Verdict("wrong", fault)
    code = puzzle.code(lines)
    names: dict = {}
    exec(compile(f"import numpy as np\n\n{code}\n", "<lines>", "exec"), names)
    verdict = exercises.judged(names[puzzle.exercise], exercises.named(puzzle.exercise), source=code)
    if verdict.passed:
        return verdict
    why = [line.why for line in lines if line.why]
    given = puzzle.head.count("\n") + 1
    said = re.sub(r"In line (\d+)", lambda found: f"In line {int(found[1]) - given}", verdict.said)
    return Verdict(verdict.state, said, verdict.cases, verdict.mistake, (*verdict.notes, *why))


def _order_fault(puzzle: Puzzle, lines: Sequence[Line]) -> str | None:
    """The first name that is used before it is made, or the lines behind a return."""
    makes = [_names(line.code, ast.Store) for line in lines]
    known = {"np", *(argument.arg for argument in ast.parse(f"{puzzle.head}\n    pass").body[0].args.args)}
    known |= _names(puzzle.head + "\n    pass", ast.Store)
    for place, line in enumerate(lines):
        inside = _inside(line.code)
        for name in sorted(_names(line.code, ast.Load) - known - inside):
            later = next((at for at in range(place, len(lines)) if name in makes[at] and at != place), None)
            if later is None:
                return f"Line {place + 1} uses `{name}`, and no line makes it. Is one left over that does?"
            return f"Line {place + 1} uses `{name}`, which is made only in line {later + 1}."
        known |= makes[place]
        if line.code.startswith("return") and place < len(lines) - 1:
            return f"Line {place + 1} returns; the lines below it never run."
    if not any(line.code.startswith("return") for line in lines):
        return "Nothing is returned. Is the line with `return` left over?"
    return None


def _names(code: str, use: type) -> set[str]:
    tree = ast.parse(code if code.startswith("def ") else f"def f():\n    {code}")
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, use)}


def _inside(code: str) -> set[str]:
    """Names that a line makes for itself alone, in a comprehension."""
    tree = ast.parse(f"def f():\n    {code}")
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.comprehension)]
    return {name.id for loop in loops for name in ast.walk(loop.target) if isinstance(name, ast.Name)}


def _code(code: str) -> str:
    return f"<pre><code>{html.escape(code)}</code></pre>"


def _solved(puzzle: Puzzle) -> str:
    extras = "".join(f"<li><code>{html.escape(extra.code)}</code> {extra.why}</li>" for extra in puzzle.extras)
    return f"<p>One right order:</p>{_code(puzzle.code(puzzle.lines))}<p>Left over:</p><ul>{extras}</ul>"
