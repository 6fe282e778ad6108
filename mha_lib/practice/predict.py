"""Predict, commit, compare: the answer stays closed until the reader has committed to one, or skips.

Then both answers stand side by side, and the text asks why. Predicting first is what makes the
experiment that follows teach; watching it does not. Where a viewer has no kernel, the question stands
there with its answer folded away.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Mapping, Sequence

import ipywidgets as widgets

from .. import look


class Prediction(widgets.VBox):
    """One question with its closed answer; `shape`, `number` and `choice` make one.

    Attributes
    ----------
    committed : object or None
        What the reader committed to; None before, and after a skip.
    is_open : bool
        Whether the answer is on the page.
    """

    def __init__(self, question: str, field: widgets.Widget, read: Callable, compare: Callable, truth: str, why: str):
        self.committed, self.is_open = None, False
        self._field, self._parse, self._judge, self._truth, self._why = field, read, compare, truth, why
        self._question = question
        self._commit = widgets.Button(description="Commit", button_style="primary")
        self._skip = widgets.Button(description="Skip and show")
        self._commit.on_click(lambda _: self._on_commit())
        self._skip.on_click(lambda _: self._open(None))
        self._answer = widgets.HTML()
        asked = widgets.HTMLMath(f'<p class="mha-question"><b>Predict.</b> {question}</p>')
        buttons = widgets.HBox([self._commit, self._skip]).add_class("mha-row")
        super().__init__([widgets.HTML(look.stylesheet()).add_class("mha-css"), asked, field, buttons, self._answer])
        self.add_class("mha-predict")

    def _on_commit(self) -> None:
        try:
            prediction = self._parse(self._field.value)
        except ValueError as error:
            self._answer.value = f'<p role="status">{html.escape(str(error))}</p>'
            return
        self._open(prediction)

    def _open(self, prediction) -> None:
        self.committed, self.is_open = prediction, True
        self._field.disabled = self._commit.disabled = self._skip.disabled = True
        verdict, details = ("You skipped.", "") if prediction is None else self._judge(prediction)
        self._answer.value = (
            f'<div class="mha-answer" role="status"><p><b>{html.escape(verdict)}</b></p>{details}'
            f"<p>It is <b>{html.escape(self._truth)}</b>. {self._why}</p></div>"
        )

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        still = (
            f"<p><b>Predict.</b> {self._question}</p>"
            "<details><summary>Commit to an answer on paper, then open this</summary>"
            f"<p>It is <b>{html.escape(self._truth)}</b>. {self._why}</p></details>"
        )
        return {**data, "text/html": still, "text/plain": f"Predict. {re.sub('<[^>]+>', '', self._question)}"}, metadata


def _side_by_side(rows: Sequence[tuple[str, str, str]]) -> str:
    cells = "".join(
        f"<tr><th scope='row'>{html.escape(name)}</th><td>{html.escape(yours)}</td><td>{html.escape(truth)}</td></tr>"
        for name, yours, truth in rows
    )
    return f"<table><thead><tr><th></th><th>you</th><th>truth</th></tr></thead><tbody>{cells}</tbody></table>"


def shape(question: str, truth: Sequence[int], why: str, axes: Sequence[str] = ()) -> Prediction:
    """Ask for a shape; the answer is compared axis by axis.

    Parameters
    ----------
    question : str
        HTML and ``$formulas$`` are rendered.
    truth : sequence of int
        The shape, computed by the cell that asks.
    why : str
        Said after the answer opens: what to think about, in HTML.
    axes : sequence of str, optional
        Names of the axes, for the comparison.

    Examples
    --------
    >>> shape("What shape do the scores have?", (2, 8, 10, 10), "One number a pair.").is_open
    False
    """
    truth = tuple(int(size) for size in truth)
    axes = list(axes) or [f"axis {i}" for i in range(len(truth))]

    def read(text: str) -> tuple[int, ...]:
        if re.search(r"[^\d\s,;×x()\[\]]", text) or not re.search(r"\d", text):
            raise ValueError("Write the sizes with commas between them, for example 2, 10, 512. Or skip.")
        return tuple(int(number) for number in re.findall(r"\d+", text))

    def compare(yours: tuple[int, ...]) -> tuple[str, str]:
        if yours == truth:
            return "Right, every axis.", ""
        count = max(len(yours), len(truth))
        at = lambda sizes, i: str(sizes[i]) if i < len(sizes) else "–"  # noqa: E731
        names = [*axes, *("one axis too many" for _ in range(count))]
        right = sum(at(yours, i) == at(truth, i) for i in range(count))
        verdict = (
            f"{right} of {len(truth)} axes right."
            if len(yours) == len(truth)
            else f"You gave {len(yours)} axes, there are {len(truth)}."
        )
        return verdict, _side_by_side([(names[i], at(yours, i), at(truth, i)) for i in range(count)])

    field = widgets.Text(placeholder="sizes, with commas", description="shape")
    return Prediction(question, field, read, compare, str(truth), why)


def number(question: str, truth: float, why: str, *, unit: str = "", tolerance: float = 0.0) -> Prediction:
    """Ask for a number, right within a relative ``tolerance``.

    Parameters
    ----------
    question, why : str
        As for `shape`.
    truth : float
        The number, computed by the cell that asks.
    unit : str
        Said behind the number.
    tolerance : float
        Largest relative error that still counts as right; 0 for an exact count.

    Examples
    --------
    >>> number("How many scores?", 1600, "2 · 8 · 10 · 10.").is_open
    False
    """

    def said(value: float) -> str:
        digits = f"{int(value):,}" if value == int(value) else f"{value:,.6g}"
        return f"{digits} {unit}".strip()

    def read(text: str) -> float:
        try:
            value = float(re.sub(r"[,_\s]", "", text))
        except ValueError:
            raise ValueError("Write one number, for example 1600. Or skip.") from None
        if not math.isfinite(value):
            raise ValueError("Write a finite number, for example 1600. Or skip.")
        return value

    def compare(yours: float) -> tuple[str, str]:
        if math.isclose(yours, truth, rel_tol=max(tolerance, 1e-9)):
            return "Right.", ""
        times = f" You are off by a factor of {max(yours / truth, truth / yours):.3g}." if yours * truth > 0 else ""
        return f"Not quite.{times}", _side_by_side([("value", said(yours), said(truth))])

    return Prediction(
        question, widgets.Text(placeholder="a number", description="number"), read, compare, said(truth), why
    )


def choice(question: str, options: Mapping[str, str] | Sequence[str], truth: str, why: str) -> Prediction:
    """Ask for one of several answers.

    Parameters
    ----------
    question, why : str
        As for `shape`.
    options : sequence of str, or dict of str to str
        The answers in the order in which they stand; a dict gives every wrong answer its own feedback.
    truth : str
        The right one of them.

    Raises
    ------
    ValueError
        ``truth`` is not among the options.

    Examples
    --------
    >>> choice("Do more heads need more weights?", ["yes", "no"], "no", "4 · D² whatever the heads.").is_open
    False
    """
    if truth not in options:
        raise ValueError(f"the right answer {truth!r} is not among {list(options)}")
    feedback = options if isinstance(options, dict) else {}

    def read(picked: str | None) -> str:
        if picked is None:
            raise ValueError("Pick one first. Or skip.")
        return picked

    def compare(yours: str) -> tuple[str, str]:
        if yours == truth:
            return "Right.", ""
        note = feedback.get(yours, "")
        return f"You picked: {yours}.", f"<p>{note}</p>" if note else ""

    field = widgets.RadioButtons(options=list(options), value=None, layout=widgets.Layout(width="auto"))
    return Prediction(question, field, read, compare, truth, why)
