"""Write the test: it must let right functions through and stop the wrong ones, and is scored on both.

The right ones are written in different styles, so that a test which compares the last bit stops some of
them. The wrong ones are the mistakes that the exercise's own checker knows.
"""

from __future__ import annotations

import contextlib
import functools
import html
import inspect
import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import cloudpickle
import ipywidgets as widgets
import numpy as np

from ..attention import MultiHead, attention, merge_heads, softmax, split_heads
from . import exercises, judge, progress
from .bench import HEADINGS
from .exercises import Exercise
from .forms import unfilled
from .questions import alert, marked, no_such, stylesheet

#: How often a test is run on each right function: one that draws new numbers every time must still agree with itself.
_TIMES = 3


#: How many of the wrong functions that get through are on the page at once.
_SHOWN = 5


@dataclass(frozen=True)
class Score:
    """What a test is worth, as plain data.

    Attributes
    ----------
    state : str
        "right": lets all right ones through and stops all wrong ones; "wrong"; or "open": not filled in yet.
    said : str
        In one sentence.
    accepted, rights : int
        Right functions let through, of so many.
    stopped : tuple of (name, looks, bool)
        The wrong ones, and whether the test stops them.
    """

    state: str
    said: str
    accepted: int = 0
    rights: int = 0
    stopped: tuple[tuple[str, str, bool], ...] = ()

    @property
    def passed(self) -> bool:
        return self.state == "right"

    @property
    def killed(self) -> int:
        return sum(stopped for *_, stopped in self.stopped)


# ---------------------------------------------------------------------------------------------
# Right functions of several styles


def attend_with_einsum(q, k, v):
    weights = softmax(np.einsum("bhid,bhjd->bhij", q, k) / np.sqrt(q.shape[-1]), axis=-1)
    return np.einsum("bhij,bhjd->bhid", weights, v)


def attend_head_by_head(q, k, v):
    heads = []
    for head in range(q.shape[1]):
        scores = (q[:, head] * q.shape[-1] ** -0.5) @ np.swapaxes(k[:, head], 1, 2)
        heads.append(softmax(scores, axis=-1) @ v[:, head])
    return np.stack(heads, axis=1)


def layer_of_the_library(x, W_Q, W_K, W_V, W_O, n_heads):
    return MultiHead(W_Q, W_K, W_V, W_O, n_heads)(x)


def layer_as_a_sum_over_heads(x, W_Q, W_K, W_V, W_O, n_heads):
    d_k, out = x.shape[-1] // n_heads, 0.0
    for head in range(n_heads):
        own = slice(head * d_k, (head + 1) * d_k)
        scores = (x @ W_Q[:, own]) @ np.swapaxes(x @ W_K[:, own], 1, 2) / np.sqrt(d_k)
        out = out + softmax(scores, axis=-1) @ (x @ W_V[:, own]) @ W_O[own]
    return out


def layer_with_einsum(x, W_Q, W_K, W_V, W_O, n_heads):
    q, k, v = (np.einsum("btd,dhe->bhte", x, W.reshape(len(W), n_heads, -1)) for W in (W_Q, W_K, W_V))
    return np.einsum("bhte,hed->btd", attend_with_einsum(q, k, v), W_O.reshape(n_heads, -1, W_O.shape[1]))


_STYLES: dict[str, tuple[Callable, ...]] = {
    "attend": (attention, attend_with_einsum, attend_head_by_head),
    "masked_attend": (lambda q, k, v, mask: attention(q, k, v, mask=mask),),
    "split_heads": (split_heads,),
    "merge_heads": (merge_heads,),
    "multi_head": (layer_of_the_library, layer_as_a_sum_over_heads, layer_with_einsum),
    "step_shapes": (),
}


def rights(exercise: Exercise) -> tuple[Callable, ...]:
    """Right functions for an exercise: its own loops, and others written independently."""
    return (exercise.right, *_STYLES[exercise.name])


# ---------------------------------------------------------------------------------------------
# Scoring


def scored(
    test: Callable,
    exercise: Exercise,
    *,
    source: str = "",
    only: Sequence[str] | None = None,
    limit: float = judge.LIMIT,
) -> Score:
    """Score a test in a process of its own.

    Parameters
    ----------
    test : function of one function
        Returns True or False, or asserts; returning nothing without a failed assertion lets through.
    exercise : Exercise
        Its functions are what is tested.
    source : str, optional
        The text of the test, so that a line that raises can be shown.
    only : sequence of str, optional
        Names of the wrong functions to try; all of them if left out.
    limit : float, seconds

    Returns
    -------
    Score
        Also for a test that raises, loops for ever or takes its process down with it.
    """
    if not callable(test):
        return Score("wrong", f"This is no function: {reprlib.repr(test):.40}. Start with `def`.")
    if unfilled(test):
        return Score("open", "Not filled in yet.")
    try:
        return judge.run(score, test, exercise.name, source, only, limit=limit)
    except judge.Trouble as trouble:
        return Score("wrong", str(trouble))


def score(test: Callable, name: str, source: str = "", only: Sequence[str] | None = None) -> Score:
    """Score a test right here: what the other process does."""
    exercise = exercises.named(name)
    right_ones = rights(exercise)
    wrongs = [wrong for wrong in exercise.wrongs if only is None or wrong.name in only]
    # A test that writes into an array of the notebook would meet the second function with other numbers than the first.
    sent = cloudpickle.dumps(test)

    def answer(function: Callable):
        return _answer(cloudpickle.loads(sent), function, exercise, source)

    # In no order that a test could count along with.
    runs = [(function, place) for place, function in enumerate(right_ones) for _ in range(_TIMES)]
    runs += [(wrong.function, len(right_ones) + place) for place, wrong in enumerate(wrongs)]
    answers: dict[int, list] = {}
    for at in np.random.default_rng().permutation(len(runs)):
        function, place = runs[at]
        answers.setdefault(place, []).append(answer(function))
    of_right = [answers[place] for place in range(len(right_ones))]
    every = [given for some in of_right for given in some]
    if ... in every:
        return Score("open", "Not filled in yet: the test returns `...`.")
    if faults := [given for given in every if isinstance(given, str)]:
        return Score("wrong", faults[0], 0, len(right_ones))
    if any(len(set(some)) > 1 for some in of_right):
        said = "It lets one and the same function through at one time and not at another. Fix the seed."
        return Score("wrong", said, 0, len(right_ones))
    accepted = sum(some[0] for some in of_right)
    # A wrong function that makes the test raise is stopped as well.
    stopped = tuple(
        (wrong.name, wrong.looks, answers[len(right_ones) + place] != [True]) for place, wrong in enumerate(wrongs)
    )
    return _told(accepted, len(right_ones), stopped)


def _told(accepted: int, count: int, stopped: Sequence[tuple[str, str, bool]]) -> Score:
    killed = sum(dead for *_, dead in stopped)
    if not accepted:
        said = (
            f"It stops all {count} right ones. Too strict: it asks for what the function does not give, or compares to "
            "the last bit (use np.allclose). So what it stops counts for nothing."
        )
        return Score("wrong", said, accepted, count, tuple(stopped))
    if accepted < count:
        said = (
            f"It stops {count - accepted} of {count} right ones. Too strict: two right functions differ in the last "
            "bits, so compare with np.allclose, and ask for nothing that is not promised."
        )
        return Score("wrong", said, accepted, count, tuple(stopped))
    if killed < len(stopped):
        said = f"It lets all {count} right ones through, and stops {killed} of {len(stopped)} wrong ones."
        return Score("wrong", said, accepted, count, tuple(stopped))
    said = f"It lets all {count} right ones through, and stops all {killed} wrong ones."
    return Score("right", said, accepted, count, tuple(stopped))


def _answer(test: Callable, function: Callable, exercise: Exercise, source: str):
    """True lets through, False stops; dots are dots; a str is what is wrong with the test itself."""

    # Under one name, and without what could be read off it.
    def layer(*arguments, **named):
        if len(arguments) + len(named) != len(exercise.arguments):
            raise TypeError(
                f"{exercise.name} takes {len(exercise.arguments)} arguments: {', '.join(exercise.arguments)}"
            )
        return function(*arguments, **named)

    layer.__name__ = exercise.name

    try:
        with exercises.quiet():
            given = test(layer)
    except AssertionError:
        return False
    except judge.Stopped:
        raise
    except BaseException as problem:  # exit() and whatever else a learner may raise is a sentence, too
        return f"The test {exercises.raised(problem, test, source).removeprefix('it ')}"
    if given is ...:
        return ...
    if given is None:
        return True
    if isinstance(given, (bool, np.bool_)):
        return bool(given)
    if isinstance(given, np.ndarray):
        return "The test returns an array. One answer is wanted: put .all() behind it, or use np.allclose."
    if inspect.isgenerator(given) or inspect.iscoroutine(given):
        given.close()
        return "The test holds `yield` or `async`, so calling it runs nothing. Write a plain function."
    return f"The test returns {reprlib.repr(given):.40}. Return True or False, or use assert."


@functools.cache
def shape_check(name: str, only: tuple[str, ...] | None = None) -> Score:
    """What the most usual test is worth: it looks at the shape alone."""
    exercise = exercises.named(name)
    arguments = exercise.cases[0].arguments
    wanted = np.shape(exercise.right(*arguments))

    def test(layer):
        return np.shape(layer(*arguments)) == wanted

    return score(test, name, "", only)


# ---------------------------------------------------------------------------------------------
# On the page


class Kill(widgets.VBox):
    """What one test is worth; `kill` makes one.

    Attributes
    ----------
    score : Score
    """

    def __init__(self, score: Score, exercise: Exercise):
        self.score, self._exercise = score, exercise
        said = _page(score, exercise)
        super().__init__([stylesheet(), widgets.HTML(alert(said) if score.state != "open" else said)])
        self.add_class("mha-predict").add_class("mha-bench")

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**data, "text/html": _page(self.score, self._exercise), "text/plain": self.score.said}, metadata


def kill(test: Callable, name: str = "multi_head", *, only: Sequence[str] | None = None) -> widgets.VBox:
    """Run the reader's test against right and wrong functions, and say what it is worth.

    Parameters
    ----------
    test : function
        Gets a function with the arguments of the exercise. Returns True if that is right, False if not; or asserts.
    name : str
        The exercise whose functions are tested.
    only : sequence of str, optional
        Names of the wrong functions to try; all of them if left out.

    Returns
    -------
    VBox
        A `Kill`; a sentence where there is no such exercise. Nothing is ever raised.
    """
    known = [exercise.name for exercise in exercises.EXERCISES]
    if not isinstance(name, str) or name not in known:
        return no_such("exercise", reprlib.repr(name) if not isinstance(name, str) else name, known)
    exercise = exercises.named(name)
    only = None if only is None else (only,) if not isinstance(only, (list, tuple, set)) else tuple(only)
    mistakes = [wrong.name for wrong in exercise.wrongs]
    for one in only or ():
        if one not in mistakes:
            return no_such("wrong function", one, mistakes)
    source = ""
    with contextlib.suppress(Exception):  # a test without a text is run all the same
        source = inspect.getsource(test)
    found = scored(test, exercise, source=source, only=only)
    if found.killed:  # a test that stops nothing is where everybody begins, and no attempt
        progress.mine().tried(f"test of {name}", found.passed, found.said)
    return Kill(found, exercise)


def _page(score: Score, exercise: Exercise) -> str:
    parts = [f"<p><b>{HEADINGS[score.state]}</b> {marked(score.said)}</p>"]
    if score.stopped:
        usual = shape_check(exercise.name, tuple(name for name, *_ in score.stopped))
        parts.append(f"<p>A test of the shape alone stops {usual.killed} of {len(usual.stopped)}.</p>")
        through = [wrong for wrong in score.stopped if not wrong[2]]
        if through:
            parts.append(_table("gets through", through[:_SHOWN]))
        if rest := through[_SHOWN:]:
            parts.append(
                f"<details><summary>{len(rest)} more get through</summary>{_table('gets through', rest)}</details>"
            )
        if stopped := [wrong for wrong in score.stopped if wrong[2]]:
            summary = f"{len(stopped)} {'is' if len(stopped) == 1 else 'are'} stopped"
            parts.append(f"<details><summary>{summary}</summary>{_table('stopped', stopped)}</details>")
    return "".join(parts)


def _table(head: str, wrongs: Sequence[tuple[str, str, bool]]) -> str:
    rows = "".join(
        f"<tr><th scope='row'>{html.escape(name)}</th><td>{html.escape(looks)}</td></tr>" for name, looks, _ in wrongs
    )
    return (
        f"<table><thead><tr><th>{head}</th><th>how it looks from outside</th></tr></thead><tbody>{rows}</tbody></table>"
    )
