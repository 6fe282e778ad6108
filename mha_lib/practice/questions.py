"""Concept questions: pick an answer, commit, and hear what is behind it.

Behind every wrong answer stands a misconception, and it has its own feedback. After a wrong one the reader
tries once more before the right answer opens; what is kept is the first try.
"""

from __future__ import annotations

import difflib
import html
import random
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence

import ipywidgets as widgets

from .. import look
from . import content, progress
from .content import Option, Question, plain


def ask(*names: str, turn: int = 0) -> widgets.VBox:
    """Ask the course's questions, one below the other.

    Parameters
    ----------
    *names : str
        As ``"00-what-a-head-sees"``; see `mha_lib.practice.content.questions`.
    turn : int
        How often they have been asked before: the answers stand in another order each time, in the same one
        for everybody.

    Returns
    -------
    VBox
        An `Ask` for one name, a `Sheet` of them for several; a sentence where there is no such question. Nothing
        is ever raised.
    """
    asked = [_asked(name, turn) for name in names or ("",)]
    return asked[0] if len(asked) == 1 else Sheet(asked)


def _asked(name: str, turn: int) -> widgets.VBox:
    question = entry_named("question", name, content.questions)
    return question if isinstance(question, Sentence) else Ask(question, turn)


class Ask(widgets.VBox):
    """One question; `ask` makes one.

    Attributes
    ----------
    answered : bool
        Whether the reader has committed to an answer.
    right : bool or None
        Whether the first answer was right; None before it, and after a skip.
    is_open : bool
        Whether the right answer is on the page.
    """

    def __init__(self, question: Question, turn: int = 0):
        self.answered, self.right, self.is_open = False, None, False
        self._question = question
        self._ticks = Ticks(in_turn(question, turn), several=question.several)
        self._commit = widgets.Button(description="Commit", button_style="primary")
        self._skip = widgets.Button(description="Skip and show")
        self._commit.on_click(lambda _: self._on_commit())
        self._skip.on_click(lambda _: self._open("You skipped.", []))
        self._answer, self._first = widgets.HTMLMath(), None
        asked = widgets.HTMLMath(f'<p class="mha-question">{question.ask}</p><p>{self._ticks.how}</p>')
        buttons = widgets.HBox([self._commit, self._skip]).add_class("mha-row")
        super().__init__([stylesheet(), asked, self._ticks, buttons, self._answer])
        self.add_class("mha-predict").add_class("mha-ask")

    def _on_commit(self) -> None:
        picked = self._ticks.picked
        if not picked:
            say(self._answer, "<p>Tick an answer first. Or skip.</p>")
        elif picked == self._first:
            say(self._answer, "<p>That is what you had. Change something, or let the answer be shown.</p>")
        elif self._first is None:
            self._first_answer(picked)
        elif self._is_right(picked):
            self._open("Right, at the second try.", picked)
        else:
            self._open("Not quite.", picked)

    def _is_right(self, picked: list[Option]) -> bool:
        return picked == [option for option in self._ticks.options if option.right]

    def _first_answer(self, picked: list[Option]) -> None:
        self.answered, self.right, self._first = True, self._is_right(picked), picked
        progress.mine().answered(self._question.name, [plain(option.text) for option in picked], self.right)
        if self.right:
            self._open("Right.", picked)
            return
        wrong = [option for option in picked if not option.right]
        missing = "" if wrong else "<p>What you ticked is right, and there is more that is.</p>"
        again = "<p>Try once more, or let the answer be shown.</p>"
        say(self._answer, f"<p><b>Not quite.</b></p>{_feedback(wrong)}{missing}{again}")
        self._commit.description, self._skip.description = "Try again", "Show the answer"
        if not self._question.several:
            self._ticks.rule_out(wrong)

    def _open(self, verdict: str, picked: list[Option]) -> None:
        self.is_open = True
        self._ticks.disabled = self._commit.disabled = self._skip.disabled = True
        right = [option for option in self._ticks.options if option.right]
        missed = [option for option in right if option not in picked] if self._question.several else []
        parts = [f"<p><b>{verdict}</b></p>", _feedback(picked)]
        if picked != right:
            parts.append(_right_answers(right))
            parts.append(_feedback(missed) if self._question.several else _feedback(right, quoted=False))
        say(self._answer, f"{''.join(parts)}<p>{self._question.why}</p>")

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        right = [option for option in self._ticks.options if option.right]
        answers = f"{_right_answers(right)}{_feedback(self._ticks.options)}<p>{self._question.why}</p>"
        still = (
            f"<p>{self._question.ask}</p>{self._ticks.still()}"
            f"<details><summary>Commit to an answer on paper, then open this</summary>{answers}</details>"
        )
        return {**data, "text/html": still, "text/plain": plain(self._question.ask)}, metadata


class Sheet(widgets.VBox):
    """Several questions below each other.

    Attributes
    ----------
    asked : list of VBox
    """

    def __init__(self, asked: Sequence[widgets.VBox], heading: str = ""):
        self.asked, self._heading = list(asked), heading
        above = [widgets.HTML(f"<p>{heading}</p>").add_class("mha-sheet-heading")] if heading else []
        super().__init__([stylesheet(), *above, *self.asked])
        self.add_class("mha-sheet")

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        stills = [_data(question._repr_mimebundle_()) for question in self.asked]
        above = f"<p>{self._heading}</p>" if self._heading else ""
        page = above + "".join(still["text/html"] for still in stills)
        text = "\n".join([*filter(None, [self._heading]), *(still["text/plain"] for still in stills)])
        return {**data, "text/html": page, "text/plain": text}, metadata


def _data(bundle) -> dict:
    return bundle[0] if isinstance(bundle, tuple) else bundle


def _feedback(options: Iterable[Option], *, quoted: bool = True) -> str:
    """What is to be said about some answers, each after its own words."""
    return "".join(
        f"<p>{f'<i>{option.text}</i>: ' if quoted else ''}{option.feedback}</p>"
        for option in options
        if option.feedback
    )


def _right_answers(right: Sequence[Option]) -> str:
    if len(right) == 1:
        return f"<p>The right answer: <b>{right[0].text}</b></p>"
    return f"<p>The right answers:</p><ul>{''.join(f'<li><b>{option.text}</b></li>' for option in right)}</ul>"


def in_turn(asked: Question | content.PredictionText, turn: int = 0) -> tuple[Option, ...]:
    """The answers in the order in which they stand in this turn: the same on every machine, so in a whole class."""
    if asked.in_order:
        return asked.options
    # Of all of `random`, only seed() and random() promise the same numbers in every Python.
    chance = random.Random(zlib.crc32(f"{asked.name}:{turn}".encode()))
    return tuple(sorted(asked.options, key=lambda _: chance.random()))


def spoken(text: str) -> str:
    r"""A text without its tags and its TeX, for a hint that can show neither.

    Examples
    --------
    >>> spoken(r"<b>By</b> $\sqrt{d_k} = \sqrt{64}$, or 8")
    'By √d_k = √64, or 8'
    """
    return re.sub(r"\\sqrt\{([^{}]*)\}", r"√\1", plain(text)).replace("$", "")


# ---------------------------------------------------------------------------------------------
# Pieces that predictions are made of as well


class Ticks(widgets.VBox):
    """Answers to tick, one of them or several.

    Checkboxes for both: their labels hold code and formulas, which those of radio buttons do not.
    """

    def __init__(self, options: Sequence[Option], *, several: bool = False):
        self.options = tuple(options)
        self.how = "Tick every right one." if several else "Pick one."
        self._boxes = [
            widgets.Checkbox(
                description=option.text,
                description_allow_html=True,
                indent=False,
                value=False,
                # Or hovering shows the source of the formula.
                tooltip=spoken(option.text),
            )
            for option in self.options
        ]
        if not several:
            for box in self._boxes:
                box.observe(self._only_one, "value")
        super().__init__(self._boxes)
        self.add_class("mha-ticks")

    def _only_one(self, change) -> None:
        if change["new"]:
            for box in self._boxes:
                if box is not change["owner"]:
                    box.value = False

    @property
    def picked(self) -> list[Option]:
        """What is ticked, in the order of the page."""
        return [option for option, box in zip(self.options, self._boxes, strict=True) if box.value]

    def pick(self, *texts: str) -> None:
        """Tick the answers with these texts and no others."""
        for option, box in zip(self.options, self._boxes, strict=True):
            box.value = option.text in texts

    def rule_out(self, options: Iterable[Option]) -> None:
        """Take these answers out of the game."""
        for option, box in zip(self.options, self._boxes, strict=True):
            if option in options:
                box.value, box.disabled = False, True

    @property
    def disabled(self) -> bool:
        return all(box.disabled for box in self._boxes)

    @disabled.setter
    def disabled(self, value: bool) -> None:
        for box in self._boxes:
            box.disabled = value

    def still(self) -> str:
        """The answers for a page without a kernel."""
        return f"<p>{self.how}</p><ul>{''.join(f'<li>{option.text}</li>' for option in self.options)}</ul>"


class Sentence(widgets.VBox):
    """One sentence where something else was expected; ``said`` is HTML."""

    def __init__(self, said: str):
        self.said = said
        super().__init__([stylesheet(), widgets.HTML(alert(f"<p>{said}</p>"))])
        self.add_class("mha-predict")

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**data, "text/html": f"<p>{self.said}</p>", "text/plain": plain(self.said)}, metadata


def entry_named(kind: str, name: object, entries: Callable[[], Mapping]):
    """One entry of the content by its name; a `Sentence` where there is none, or where the content cannot be read."""
    try:
        known = entries()
    except ValueError as problem:
        return Sentence(f"The {kind}s cannot be read. {html.escape(str(problem))}")
    return known[name] if isinstance(name, str) and name in known else no_such(kind, name, known)


def no_such(kind: str, name: object, known: Iterable[str]) -> Sentence:
    """Say that there is no question or prediction of this name, and which there are."""
    names = [str(one) for one in known]
    code = lambda words: ", ".join(f"<code>{html.escape(word)}</code>" for word in words)  # noqa: E731
    near = difflib.get_close_matches(str(name), names, n=3, cutoff=0.7)
    meant = f" Did you mean {code(near)}?" if near else ""
    return Sentence(f"No {kind} is called {code([str(name)])}.{meant} There are {code(names) or 'none'}.")


def marked(sentence: str) -> str:
    """A sentence about somebody's code as HTML: all of it literal, and what stands in backticks as code.

    Examples
    --------
    >>> marked("`a < b` raises")
    '<code>a &lt; b</code> raises'
    """
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(sentence))


def stylesheet() -> widgets.HTML:
    """The first child of every widget on paper."""
    return widgets.HTML(look.stylesheet()).add_class("mha-css")


def alert(said: str) -> str:
    """News, in an element that screen readers announce as it appears."""
    return f'<div class="mha-answer" role="alert">{said}</div>'


def say(place: widgets.HTMLMath, said: str) -> None:
    """Put news into a place, as an alert; emptied first, so that the same news is announced again."""
    place.value = ""
    place.value = alert(said)
