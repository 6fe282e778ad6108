"""Predict, commit, compare: the answer stays closed until the reader has committed to one, or skips.

Then both answers stand side by side, and the text asks why; the reader says it in their own words before
ours opens. Predicting first is what makes the experiment that follows teach; watching it does not. Where a
viewer has no kernel, the question stands there with its answer folded away.

In a notebook `predict` is one line: the words come from the course's content, the truth from the layer at
hand. `shape`, `number`, `choice` and `brightest` ask anything else.
"""

from __future__ import annotations

import html
import math
import re
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real

import ipywidgets as widgets
import numpy as np

from .. import drawing, look
from ..dims import Dims, in_words
from . import content, progress
from .content import Option, PredictionText, filled, plain
from .questions import Sentence, Ticks, entry_named, in_turn, say, stylesheet

_OWN_WORDS = "Say it in one sentence, then compare."

#: A picture for drawing into has at most this many queries and keys.
_MOST_TOKENS = 8


@dataclass(frozen=True)
class _Verdict:
    right: bool
    words: str  # text
    details: str = ""  # HTML


@dataclass(frozen=True)
class _Asked:
    """One kind of prediction: where the answer goes in, and what it is compared with."""

    field: widgets.Widget  # has ``disabled``
    read: Callable[[], object]  # raises ValueError with a sentence for the reader
    compare: Callable[[object], _Verdict]
    truth: str  # HTML
    said: Callable[[object], str]  # an answer as the progress file keeps it
    rule: str = ""  # HTML, said before the reader answers
    listed: str = ""  # HTML, what can be picked, where there is no kernel
    shown: str = ""  # HTML, opens with the truth where no verdict has it yet


class Prediction(widgets.VBox):
    """One question with its closed answer; `predict`, `shape`, `number`, `choice` and `brightest` make one.

    Attributes
    ----------
    committed : object or None
        What the reader committed to; None before, and after a skip.
    right : bool or None
        Whether that was right; None before, and after a skip.
    is_open : bool
        Whether the truth is on the page.
    is_explained : bool
        Whether the explanation is on the page.
    """

    def __init__(self, question: str, asked: _Asked, why: str, ask_why: str, name: str | None):
        self.committed, self.right, self.is_open, self.is_explained = None, None, False, False
        self._question, self._asked, self._why, self._name = question, asked, why, name
        self._ask_why, self._field = ask_why or _OWN_WORDS, asked.field
        self._commit = widgets.Button(description="Commit", button_style="primary")
        self._skip = widgets.Button(description="Skip and show")
        self._commit.on_click(lambda _: self._on_commit())
        self._skip.on_click(lambda _: self._on_skip())
        self._answer = widgets.HTMLMath()
        self._words = widgets.Text(description="in your words", continuous_update=True).add_class("mha-words")
        self._to_ours = widgets.Button(description="Compare with ours")
        self._to_ours.on_click(lambda _: self._explain())
        self._yours, self._ours = widgets.HTML().add_class("mha-yours"), widgets.HTMLMath()
        self._after = widgets.VBox()
        rule = f"<p>{asked.rule}</p>" if asked.rule else ""
        first = widgets.HTMLMath(f'<p class="mha-question"><b>Predict.</b> {question}</p>{rule}')
        buttons = widgets.HBox([self._commit, self._skip]).add_class("mha-row")
        super().__init__([stylesheet(), first, asked.field, buttons, self._answer, self._after])
        self.add_class("mha-predict")

    def _on_commit(self) -> None:
        try:
            prediction = self._asked.read()
        except ValueError as error:
            say(self._answer, f"<p>{html.escape(str(error))}</p>")
            return
        verdict = self._asked.compare(prediction)
        self.committed, self.right = prediction, verdict.right
        self._close_field()
        if self._name:
            progress.mine().predicted(self._name, self._asked.said(prediction), verdict.right)
        said = f"<p><b>{html.escape(verdict.words)}</b> It is <b>{self._asked.truth}</b>.</p>{verdict.details}"
        say(self._answer, f"{said}<p><b>Explain.</b> {self._ask_why}</p>")
        row = widgets.HBox([self._words, self._to_ours]).add_class("mha-row")
        self._after.children = [row, self._yours, self._ours]

    def _on_skip(self) -> None:
        self._close_field()
        self.is_explained = True
        if self._name:
            progress.mine().predicted(self._name, None, None)
        said = f"<p><b>You skipped.</b> It is <b>{self._asked.truth}</b>.</p>{self._asked.shown}"
        say(self._answer, f"{said}{self._explanation()}")

    def _explanation(self) -> str:
        asked = f"<i>{self._ask_why}</i> " if self._ask_why != _OWN_WORDS else ""
        return f"<p>{asked}{self._why}</p>"

    def _close_field(self) -> None:
        self.is_open = True
        self._field.disabled = self._commit.disabled = self._skip.disabled = True

    def _explain(self) -> None:
        self.is_explained = True
        self._words.disabled = self._to_ours.disabled = True
        words = self._words.value.strip()
        if words:
            self._yours.value = f"<p><b>Yours.</b> {html.escape(words)}</p>"
            if self._name:
                progress.mine().explained(self._name, words)
        say(self._ours, f"<p><b>Ours.</b> {self._why}</p>")

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        still = (
            f"<p><b>Predict.</b> {self._question}</p>{self._asked.listed}"
            "<details><summary>Commit to an answer on paper, then open this</summary>"
            f"<p>It is <b>{self._asked.truth}</b>.</p>{self._asked.shown}{self._explanation()}</details>"
        )
        return {**data, "text/html": still, "text/plain": f"Predict. {plain(self._question)}"}, metadata


# ---------------------------------------------------------------------------------------------
# By name


def predict(
    name: str, about=None, *, tokens: Sequence[str] | None = None, keys: Sequence[str] | None = None
) -> widgets.VBox:
    """Ask for one of the course's predictions.

    Parameters
    ----------
    name : str
        As ``"00-output-shape"``; see `mha_lib.practice.content.predictions`.
    about : Dims, array or number
        What the truth is computed from: the sizes of a layer; for a picture the weights, ``(T_q, T_k)``; else
        the array whose shape is asked, or the number itself.
    tokens, keys : sequence of str, optional
        For a picture, as for `brightest`.

    Returns
    -------
    VBox
        A `Prediction`; a sentence where there is no prediction of this name.

    Raises
    ------
    TypeError
        ``about`` is nothing that this prediction can be computed from.

    Examples
    --------
    >>> predict("00-output-shape", Dims()).is_open
    False
    """
    text = entry_named("prediction", name, content.predictions)
    if isinstance(text, Sentence):
        return text
    return _MAKE[text.kind](text, about, tokens, keys)


def _words(text: PredictionText, about) -> tuple[str, str, dict]:
    dims = about if isinstance(about, Dims) else None
    return filled(text.ask, dims), filled(text.why, dims), {"ask_why": filled(text.ask_why, dims), "name": text.name}


def _a_shape(text: PredictionText, about, *_) -> Prediction:
    ask, why, more = _words(text, about)
    if text.step is None:
        sizes = getattr(about, "shape", about)
        if not isinstance(sizes, tuple | list):
            raise TypeError(f"{text.name} asks for a shape: pass the array, or its shape, not {_said(about)}")
        return shape(ask, sizes, why, **more)
    dims = _must_be_dims(text, about)
    axes = next(array.axes for array in dims.arrays if array.step == text.step)
    return shape(ask, dims.shape(text.step), why, axes=axes, **more)


def _a_number(text: PredictionText, about, *_) -> Prediction:
    ask, why, more = _words(text, about)
    truth = about if text.count is None else content.counted(_must_be_dims(text, about), text.count)
    if not isinstance(truth, Real):
        raise TypeError(f"{text.name} asks for a number: pass that number, not {_said(about)}")
    return number(ask, truth, why, unit=text.unit, tolerance=text.tolerance, **more)


def _a_choice(text: PredictionText, about, *_) -> Prediction:
    ask, why, more = _words(text, about)
    dims = about if isinstance(about, Dims) else None
    options = [
        Option(filled(option.text, dims), option.right, filled(option.feedback, dims), option.misconception)
        for option in in_turn(text)
    ]
    return Prediction(ask, _choosing(options), why, more["ask_why"], text.name)


def _a_picture(text: PredictionText, about, tokens, keys) -> Prediction:
    ask, why, more = _words(text, about)
    if np.ndim(about) != 2:
        raise TypeError(
            f"{text.name} asks for a cell: pass the weights of one head, (queries, keys), not {_said(about)}"
        )
    return brightest(ask, about, why, tokens=tokens, keys=keys, **more)


def _said(about) -> str:
    """What was passed, in a few words: an array says its shape, not its numbers."""
    return f"an array of shape {about.shape}" if isinstance(about, np.ndarray) else reprlib.repr(about)


def _must_be_dims(text: PredictionText, about) -> Dims:
    if not isinstance(about, Dims):
        raise TypeError(f"{text.name} is computed from the sizes of a layer: pass a Dims, not {_said(about)}")
    return about


_MAKE = {"shape": _a_shape, "number": _a_number, "choice": _a_choice, "brightest": _a_picture}


# ---------------------------------------------------------------------------------------------
# The kinds


def shape(
    question: str,
    truth: Sequence[int],
    why: str,
    axes: Sequence[str] = (),
    *,
    ask_why: str = "",
    name: str | None = None,
) -> Prediction:
    """Ask for a shape; the answer is compared axis by axis.

    Parameters
    ----------
    question : str
        HTML and ``$formulas$`` are rendered.
    truth : sequence of int
        The shape, computed by the cell that asks.
    why : str
        The explanation, in HTML: opens when the reader has said it in their own words.
    axes : sequence of str, optional
        Names of the axes, for the comparison.
    ask_why : str, optional
        What the reader is asked when the truth is open.
    name : str, optional
        Under which the answer is kept in the reader's progress; not kept if left out.

    Examples
    --------
    >>> shape("What shape do the scores have?", (2, 8, 10, 10), "One number a pair.").is_open
    False
    """
    truth = tuple(int(size) for size in truth)
    axes = list(axes) or [f"axis {i}" for i in range(len(truth))]
    field = widgets.Text(placeholder="sizes, with commas", description="shape")

    def read() -> tuple[int, ...]:
        text = field.value
        if re.search(r"[^\d\s,;×x()\[\]]", text) or not re.search(r"\d", text):
            raise ValueError("Write the sizes with commas between them, for example 2, 10, 512. Or skip.")
        return tuple(int(size[:20]) for size in re.findall(r"\d+", text))

    def compare(yours: tuple[int, ...]) -> _Verdict:
        if yours == truth:
            return _Verdict(True, "Right, every axis.")
        count = max(len(yours), len(truth))
        at = lambda sizes, i: str(sizes[i]) if i < len(sizes) else "–"  # noqa: E731
        names = [*axes, *("one axis too many" for _ in range(count))]
        right = sum(at(yours, i) == at(truth, i) for i in range(count))
        words = (
            f"{right} of {len(truth)} axes right."
            if len(yours) == len(truth)
            else f"You gave {len(yours)} {'axis' if len(yours) == 1 else 'axes'}, there are {len(truth)}."
        )
        return _Verdict(False, words, _side_by_side([(names[i], at(yours, i), at(truth, i)) for i in range(count)]))

    return Prediction(question, _Asked(field, read, compare, html.escape(str(truth)), str), why, ask_why, name)


def number(
    question: str,
    truth: float,
    why: str,
    *,
    unit: str = "",
    tolerance: float = 0.0,
    ask_why: str = "",
    name: str | None = None,
) -> Prediction:
    """Ask for a number, right within a relative ``tolerance``.

    Parameters
    ----------
    question, why, ask_why, name : str
        As for `shape`.
    truth : float
        The number, computed by the cell that asks.
    unit : str
        Said behind the number. Where it is bytes, an answer may come in KB, KiB, MB and so on.
    tolerance : float
        Largest relative error that still counts as right; 0 for an exact count. Said beforehand.

    Examples
    --------
    >>> number("How many scores?", 1600, "2 · 8 · 10 · 10.").is_open
    False
    """
    in_bytes = unit.casefold() in _BYTES
    field = widgets.Text(placeholder="a number and its unit" if in_bytes else "a number", description="number")

    def said(value: float) -> str:
        whole = abs(value) < 1e15 and value == int(value)
        digits = f"{int(value):,}" if whole else f"{value:,.6g}"
        return f"{digits} {unit}".strip()

    def explained(value: float) -> str:
        return f"{said(value)} ({in_words(value)})" if in_bytes and value >= 1024 else said(value)

    def compare(yours: float) -> _Verdict:
        if math.isclose(yours, truth, rel_tol=max(tolerance, 1e-9)):
            close = "" if math.isclose(yours, truth, rel_tol=1e-9) else " Close enough."
            return _Verdict(True, f"Right.{close}", _side_by_side([("value", explained(yours), explained(truth))]))
        times = f" You are off by a factor of {max(yours / truth, truth / yours):.3g}." if yours * truth > 0 else ""
        details = _side_by_side([("value", explained(yours), explained(truth))])
        return _Verdict(False, f"Not quite.{times}", details)

    rule = f"Right within {100 * tolerance:.3g} %." if tolerance else ""
    asked = _Asked(
        field, lambda: _number(field.value, unit), compare, html.escape(explained(truth)), said, rule, listed=rule
    )
    return Prediction(question, asked, why, ask_why, name)


_BYTES = {
    "byte": 1, "bytes": 1,
    "kb": 1000, "mb": 1000**2, "gb": 1000**3, "tb": 1000**4,
    "kib": 1024, "mib": 1024**2, "gib": 1024**3, "tib": 1024**4,
}  # fmt: skip

_NUMBER = re.compile(r"(?P<digits>[-+−]?[\d.][\d.,_\s]*)(?P<power>e[-+−]?\d+)?(?P<unit>.*)", re.IGNORECASE | re.DOTALL)


def _number(text: str, unit: str) -> float:
    """What the reader typed, in the unit of the truth."""
    found = _NUMBER.fullmatch(text.strip())
    example = f"12500 {unit}".strip()
    if not found or re.search(r"[\d*×·/+^]", found["unit"]):
        raise ValueError(f"Write one number, for example {example}. Or skip.")
    digits = re.sub(r"[_\s]", "", found["digits"]).replace("−", "-")
    # 6,25 is six and a quarter in many countries: better asked than read as 625.
    if "," in digits and not re.fullmatch(r"[-+]?\d{1,3}(,\d{3})+(\.\d*)?", digits):
        raise ValueError(f"Is {digits} a decimal? Write a point then; commas group three digits, as in 12,500.")
    try:
        value = float(digits.replace(",", "") + (found["power"] or "").replace("−", "-"))
    except ValueError:
        raise ValueError(f"Write one number, for example {example}. Or skip.") from None
    value *= _factor(found["unit"].strip().rstrip("."), unit)
    if not math.isfinite(value):
        raise ValueError(f"Write a finite number, for example {example}. Or skip.")
    return value


def _factor(typed: str, unit: str) -> float:
    """How many of ``unit`` are in one of the typed unit."""
    same = lambda word: word.casefold().removesuffix("s")  # noqa: E731
    if not typed or same(typed) == same(unit):
        return 1.0
    if unit.casefold() not in _BYTES:
        instead = f"Write {unit}, or the number alone." if unit else "Write the number alone."
        raise ValueError(f"“{typed}” is no unit of this answer. {instead}")
    if typed == "b":
        raise ValueError("Is b a bit or a byte? Write B or bytes for a byte.")
    if typed != "B" and typed.casefold() not in _BYTES:
        raise ValueError(f"“{typed}” is no unit of this answer. Write bytes, KB, KiB, MB, MiB, GB or GiB.")
    return _BYTES.get(typed.casefold(), 1) / _BYTES[unit.casefold()]


def choice(
    question: str,
    options: Mapping[str, str] | Sequence[str],
    truth: str,
    why: str,
    *,
    ask_why: str = "",
    name: str | None = None,
) -> Prediction:
    """Ask for one of several answers.

    Parameters
    ----------
    question, why, ask_why, name : str
        As for `shape`.
    options : sequence of str, or dict of str to str
        The answers, as HTML, in the order in which they stand; a dict gives every answer its own feedback.
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
    feedback = options if isinstance(options, Mapping) else {}
    made = [Option(text, text == truth, feedback.get(text, ""), None) for text in options]
    return Prediction(question, _choosing(made), why, ask_why, name)


def _choosing(options: Sequence[Option]) -> _Asked:
    ticks = Ticks(options)
    truth = next(option for option in options if option.right)

    def read() -> Option:
        if not ticks.picked:
            raise ValueError("Pick one first. Or skip.")
        return ticks.picked[0]

    def compare(yours: Option) -> _Verdict:
        details = f"<p>You picked: <i>{yours.text}</i>.</p>" if yours is not truth else ""
        details += f"<p>{yours.feedback}</p>" if yours.feedback else ""
        return _Verdict(yours is truth, "Right." if yours is truth else "Not quite.", details)

    shown = f"<p>{truth.feedback}</p>" if truth.feedback else ""
    return _Asked(ticks, read, compare, truth.text, lambda yours: plain(yours.text), ticks.how, ticks.still(), shown)


def _side_by_side(rows: Sequence[tuple[str, str, str]]) -> str:
    cells = "".join(
        f"<tr><th scope='row'>{html.escape(name)}</th><td>{html.escape(yours)}</td><td>{html.escape(truth)}</td></tr>"
        for name, yours, truth in rows
    )
    head = "<tr><th></th><th scope='col'>you</th><th scope='col'>truth</th></tr>"
    return f"<table><thead>{head}</thead><tbody>{cells}</tbody></table>"


# ---------------------------------------------------------------------------------------------
# Draw it


def brightest(
    question: str,
    weights,
    why: str,
    *,
    tokens: Sequence[str] | None = None,
    keys: Sequence[str] | None = None,
    ask_why: str = "",
    name: str | None = None,
) -> Prediction:
    """Ask which cell of a picture of attention is brightest, before the picture is shown.

    Parameters
    ----------
    question, why, ask_why, name : str
        As for `shape`.
    weights : array, shape (T_q, T_k)
        The attention weights of one head, from 0 to 1; up to 8 queries and 8 keys. Where several cells are
        equally bright, any of them is right.
    tokens : sequence of str, optional
        What stands at each query, shown literally; numbers if left out.
    keys : sequence of str, optional
        What stands at each key; the same as ``tokens`` if left out and there are as many.

    Raises
    ------
    ValueError
        A shape that is no picture or one too large, weights that are NaN or outside 0 to 1, or another number
        of tokens than of queries and keys.

    Examples
    --------
    >>> brightest("Where does it look?", [[0.9, 0.1], [0.5, 0.5]], "At itself.", tokens=["a", "cat"]).is_open
    False
    """
    weights = np.asarray(weights, dtype=float)
    if weights.ndim != 2 or not all(1 <= size <= _MOST_TOKENS for size in weights.shape):
        raise ValueError(
            f"weights have shape {weights.shape}; to pick a cell there must be one head, (queries, keys), "
            f"each from 1 to {_MOST_TOKENS}"
        )
    if not (weights.min() >= 0 and weights.max() <= 1 + 1e-6):  # also when one is NaN
        raise ValueError(f"weights lie between 0 and 1; these go from {weights.min():.3g} to {weights.max():.3g}")
    if keys is None and weights.shape[0] == weights.shape[1]:
        keys = tokens
    cells = _Cells(_labels("queries", tokens, weights.shape[0]), _labels("keys", keys, weights.shape[1]))
    ranks = _Ranks(weights)

    def compare(yours: tuple[int, int]) -> _Verdict:
        rank, count = ranks.of(yours), weights.size
        words = "Right." if rank == 1 else f"Not quite: your cell is number {rank} of {count}."
        rows = [(where, f"{cells.said(cell)}", f"{weights[cell]:.3f}") for where, cell in
                [("you", yours), *(("truth", cell) for cell in ranks.brightest[:3])]]  # fmt: skip
        body = "".join(
            f"<tr><th scope='row'>{where}</th><td><code>{html.escape(cell)}</code></td><td>{weight}</td></tr>"
            for where, cell, weight in rows
        )
        head = "<tr><th></th><th scope='col'>cell</th><th scope='col'>weight</th></tr>"
        table = f"<table><thead>{head}</thead><tbody>{body}</tbody></table>"
        return _Verdict(rank == 1, words, f"{table}{_drawn(weights, cells, ranks.brightest, yours)}")

    first = f"<code>{html.escape(cells.said(ranks.brightest[0]))}</code>, weight {weights[ranks.brightest[0]]:.3f}"
    equals = len(ranks.brightest)
    truth = first if equals == 1 else f"any of {equals} cells that are equally bright; the first is {first}"
    # JupyterLab keeps the arrow keys for itself until the list is open.
    rule = "Queries (who looks) are rows, keys (what is looked at) are columns. By keyboard, Space opens a list."
    listed = (
        f"<p>{rule} The tokens: {', '.join(f'<code>{html.escape(label)}</code>' for label in cells.query_labels)}.</p>"
    )
    asked = _Asked(
        cells, cells.read, compare, truth, cells.said, rule, listed, _drawn(weights, cells, ranks.brightest, None)
    )
    return Prediction(question, asked, why, ask_why, name)


class _Ranks:
    """Which cells are brightest, and how many are brighter than one. float32 leaves equals a little apart."""

    def __init__(self, weights: np.ndarray):
        self._weights = weights
        equal = np.isclose(weights, weights.max(), rtol=1e-5, atol=0)
        self.brightest = [(int(query), int(key)) for query, key in np.argwhere(equal)]

    def of(self, cell: tuple[int, int]) -> int:
        if cell in self.brightest:
            return 1
        return 1 + int((self._weights > self._weights[cell] * (1 + 1e-5)).sum())


def _labels(what: str, given: Sequence[str] | None, count: int) -> list[str]:
    """Words for the positions, the number in front: two tokens may be the same."""
    if given is None:
        return [str(i) for i in range(count)]
    if len(given) != count:
        raise ValueError(f"{len(given)} tokens do not fit {count} {what}")
    return [f"{i} {str(token) or '∅'}" for i, token in enumerate(given)]


class _Cells(widgets.VBox):
    """A grid of cells to click, and two lists that say the same: two stops of the Tab key instead of 64."""

    def __init__(self, queries: list[str], keys: list[str]):
        self.query_labels, self.key_labels = queries, keys
        self._disabled = False
        self._lists = [
            widgets.Dropdown(options=[(label, i) for i, label in enumerate(labels)], value=None, description=word)
            for word, labels in (("query", queries), ("key", keys))
        ]
        for one in self._lists:
            one.observe(lambda _: self._mark(), "value")
        self._buttons = {
            (query, key): self._button(query, key) for query in range(len(queries)) for key in range(len(keys))
        }
        corner = widgets.HTML("query ↓ key →").add_class("mha-tick")
        rows = [corner, *map(self._tick, keys)]
        for query, label in enumerate(queries):
            rows += [
                self._tick(label).add_class("mha-tick-row"),
                *(self._buttons[query, key] for key in range(len(keys))),
            ]
        grid = widgets.GridBox(
            rows, layout=widgets.Layout(grid_template_columns=f"auto repeat({len(keys)}, minmax(40px, 64px))")
        )
        super().__init__([widgets.HBox(self._lists).add_class("mha-row"), grid.add_class("mha-cells")])

    @staticmethod
    def _tick(label: str) -> widgets.HTML:
        return widgets.HTML(html.escape(label if len(label) <= 12 else label[:11] + "…")).add_class("mha-tick")

    def _button(self, query: int, key: int) -> widgets.Button:
        button = widgets.Button(tooltip=self.said((query, key)), tabbable=False)
        button.on_click(lambda _: self.pick(query, key))
        return button

    def said(self, cell: tuple[int, int]) -> str:
        """A cell in words."""
        return f"query {self.query_labels[cell[0]]}, key {self.key_labels[cell[1]]}"

    def pick(self, query: int, key: int) -> None:
        """Set both lists; the grid follows."""
        for one, value in zip(self._lists, (query, key), strict=True):
            one.value = value

    def _mark(self) -> None:
        picked = tuple(one.value for one in self._lists)
        for cell, button in self._buttons.items():
            button.icon = "check" if cell == picked else ""

    def read(self) -> tuple[int, int]:
        picked = tuple(one.value for one in self._lists)
        if None in picked:
            raise ValueError("Pick a query and a key, or click a cell. Or skip.")
        return picked

    @property
    def disabled(self) -> bool:
        return self._disabled

    @disabled.setter
    def disabled(self, value: bool) -> None:
        self._disabled = value
        for one in (*self._lists, *self._buttons.values()):
            one.disabled = value


def _drawn(weights: np.ndarray, cells: _Cells, truth: list[tuple[int, int]], yours: tuple[int, int] | None) -> str:
    """The weights as a table, each cell in its colour and with its number, the marked cells with words."""
    colours = drawing.palette(look.WEIGHTS_MAP, 101)
    head = "".join(f"<th scope='col'><code>{html.escape(label)}</code></th>" for label in cells.key_labels)
    rows = []
    for query, label in enumerate(cells.query_labels):
        row = [f"<th scope='row'><code>{html.escape(label)}</code></th>"]
        for key, weight in enumerate(weights[query]):
            marks = [word for word, here in (("you", yours == (query, key)), ("truth", (query, key) in truth)) if here]
            said = f"<br><b>{' = '.join(marks)}</b>" if marks else ""
            paper = colours[min(100, round(100 * float(weight)))]
            ink = _readable_on(paper)
            edge = f";outline:3px solid {ink};outline-offset:-5px" if marks else ""
            colour = f"background:rgb({','.join(map(str, paper))});color:{ink}{edge}"
            row.append(f"<td style='{colour}'>{weight:.2f}{said}</td>")
        rows.append(f"<tr>{''.join(row)}</tr>")
    caption = "The weights, from 0 (dark) to 1 (bright): queries down, keys across"
    return (
        f"<table class='mha-weights'><caption>{caption}</caption>"
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _readable_on(paper) -> str:
    """Black or white, whichever has the higher contrast (at least 4.5 : 1 with one of them, on any colour)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (int(part) / 255 for part in paper)]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000" if (luminance + 0.05) ** 2 > 0.05 * 1.05 else "#fff"
