"""The workbench of an exercise: the verdict, the hints, and the solution for those who tried or gave up.

A notebook's cell says ``check(attend)`` below the cell in which the reader writes ``attend``.
"""

from __future__ import annotations

import contextlib
import html
import inspect
from collections.abc import Callable

import ipywidgets as widgets

from .. import look
from . import content, exercises, forms, judge, progress
from .exercises import Verdict
from .questions import marked

#: How a verdict begins, by its state.
HEADINGS = {"right": "✓", "wrong": "Not yet.", "open": "To do."}

#: How many hints of an exercise are open in this kernel: running the cell again must not close them.
_opened: dict[str, int] = {}


class Bench(widgets.VBox):
    """One verdict with its hints; `check` makes one.

    Attributes
    ----------
    verdict : Verdict or None
        None where there is no such exercise.
    """

    def __init__(self, text: content.ExerciseText, verdict: Verdict):
        self.verdict, self._text = verdict, text
        self._said = widgets.HTML(_told(text, verdict))
        self._hint = widgets.Button().add_class("mha-wide")
        self._solution = widgets.Button().add_class("mha-wide")
        self._hints, self._shown = widgets.HTMLMath(), widgets.HTML()
        self._hint.on_click(lambda _: self._next_hint())
        self._solution.on_click(lambda _: self._show_solution())
        self._label()
        if opened := _opened.get(text.name, 0):
            self._hints.value = _hints(text, opened)
        buttons = widgets.HBox([self._hint, self._solution]).add_class("mha-row")
        css = widgets.HTML(look.stylesheet()).add_class("mha-css")
        super().__init__([css, self._said, buttons, self._hints, self._shown])
        self.add_class("mha-predict").add_class("mha-bench")

    def _label(self) -> None:
        opened, count = _opened.get(self._text.name, 0), len(self._text.hints)
        self._hint.disabled = opened >= count
        self._hint.description = f"Hint {opened + 1} of {count}" if opened < count else "No more hints"
        tried = self.verdict.state != "open"
        self._solution.description = "Show the solution" if tried else "I give up: show the solution"

    def _next_hint(self) -> None:
        opened = min(_opened.get(self._text.name, 0) + 1, len(self._text.hints))
        _opened[self._text.name] = opened
        progress.mine().hinted(self._text.name, opened)
        self._hints.value = _hints(self._text, opened)
        self._label()

    def _show_solution(self) -> None:
        if not self.verdict.passed:
            progress.mine().gave_up(self._text.name)
        self._solution.disabled = True
        self._shown.value = f'<div class="mha-answer" role="alert">{_solution(self._text)}</div>'

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        folded = "".join(
            f"<details><summary>Hint {i} of {len(self._text.hints)}</summary><p>{hint}</p></details>"
            for i, hint in enumerate(self._text.hints, 1)
        )
        still = (
            f"{_told(self._text, self.verdict, live=False)}{folded}"
            f"<details><summary>I give up: show the solution</summary>{_solution(self._text)}</details>"
        )
        return {**data, "text/html": still, "text/plain": self.verdict.said}, metadata


def check(function: Callable, name: str | None = None) -> widgets.VBox:
    """Judge what the reader wrote, and offer hints.

    Parameters
    ----------
    function : function
        Written in the cell above, under the name of its exercise.
    name : str, optional
        The exercise, where the function has another name.

    Returns
    -------
    VBox
        A `Bench`; a sentence where there is no such exercise. Nothing is ever raised.
    """
    if name is None:
        with contextlib.suppress(Exception):  # an object may refuse to say how it is called
            name = function.__name__
    texts = content.exercise_texts()
    if not isinstance(name, str) or name not in texts:
        return _no_such(exercises.plain_text(str(name) if isinstance(name, str) else type(name).__name__), list(texts))
    verdict = exercises.judged(function, exercises.named(name), source=_source(function))
    if verdict.state == "open":
        judge.warm_up()
    else:
        progress.mine().tried(name, verdict.passed, verdict.said)
    return Bench(texts[name], verdict)


def _source(function) -> str:
    """The text of the function, so that a line that raises can be shown; empty where there is none."""
    with contextlib.suppress(Exception):  # no text, or an object that pretends to be anything
        return inspect.getsource(function)
    return ""


def _no_such(name: str, names: list[str]) -> widgets.VBox:
    said = (
        f"<p role='alert'>No exercise is called <code>{html.escape(name)}</code>. There are "
        f"{', '.join(f'<code>{html.escape(known)}</code>' for known in names)}. Give the function that name, "
        f"or say which one it is for: <code>check(your_function, '{html.escape(names[0])}')</code>.</p>"
    )
    css = widgets.HTML(look.stylesheet()).add_class("mha-css")
    return widgets.VBox([css, widgets.HTML(said)]).add_class("mha-predict")


def announced(verdict: Verdict) -> str:
    """A verdict in words: what it is, the mistake behind it where one is known, and what else was seen."""
    parts = [f"<p><b>{HEADINGS[verdict.state]}</b> {marked(verdict.said)}</p>"]
    if verdict.mistake:
        name, _, looks = verdict.mistake
        parts.append(
            f"<p>Your result is that of a known mistake: <b>{html.escape(name)}</b>. "
            f"How it looks from outside: {html.escape(looks)}.</p>"
        )
    parts += [f"<p>{marked(note)}</p>" for note in verdict.notes]
    return "".join(parts)


def _told(text: content.ExerciseText, verdict: Verdict, *, live: bool = True) -> str:
    role = ' role="alert"' if live and verdict.state != "open" else ""
    table = _table(verdict, exercises.named(text.name)) if verdict.cases else ""
    return f'<div class="mha-answer"><div{role}>{announced(verdict)}</div>{table}</div>'


def _table(verdict: Verdict, exercise: exercises.Exercise) -> str:
    rows = "".join(
        f"<tr><th scope='row'>{html.escape(tries)}</th><td>{'passes' if fine else '<b>fails</b>'}</td>"
        f"<td>{case.tolerance:g}</td></tr>"
        for (tries, fine), case in zip(verdict.cases, exercise.cases, strict=True)
    )
    return (
        "<table><thead><tr><th>tried with</th><th>result</th><th>largest error allowed</th></tr></thead>"
        f"<tbody>{rows}</tbody></table>"
    )


def _hints(text: content.ExerciseText, opened: int) -> str:
    """The newest hint is announced; the ones before it stay."""
    roles = [""] * (opened - 1) + [' role="alert"']
    return "".join(
        f"<p{role}><b>Hint {i}.</b> {hint}</p>"
        for i, (hint, role) in enumerate(zip(text.hints[:opened], roles, strict=True), 1)
    )


def _solution(text: content.ExerciseText) -> str:
    code = html.escape(forms.faded(text.solution, "worked"))
    return f"<p>One way to write it. Close it again and type it yourself.</p><pre><code>{code}</code></pre>"
