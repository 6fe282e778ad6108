"""The exercises: what the right answer is, what is tried, and which mistakes are known by name.

A learner's function is called with seeded random arrays whose sizes all differ, and with the inputs
that break things. Each result is compared with loops that share no line with the library. Where it is
wrong, the same inputs go through the mistakes of the catalogue: the one that gives the learner's
numbers is the one the learner made. Nothing here ever tells what the right numbers are.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import math
import reprlib
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from .. import mistakes
from ..attention import STEPS, MultiHead, Setting, Steps
from ..checks import by_loops
from ..dims import Dims
from ..mistakes import CATALOGUE, Mistake
from . import judge
from .forms import BLANK, unfilled

_MOST_PRINTED = 10_000


@dataclass(frozen=True)
class Wrong:
    """A wrong answer that is known by name: a function with the exercise's arguments."""

    name: str
    misconception: str
    looks: str
    function: Callable


@dataclass(frozen=True)
class Case:
    """One call of the learner's function.

    Attributes
    ----------
    tries : str
        What it tries, in a few words: "one head".
    arguments : tuple
        Arrays and numbers. The learner gets copies.
    broke : str
        What a wrong result means, one sentence.
    tolerance : float
        Largest error that passes, relative and absolute.
    """

    tries: str
    arguments: tuple
    broke: str
    tolerance: float = 1e-5


@dataclass(frozen=True)
class Exercise:
    """A function to write.

    Attributes
    ----------
    name : str
        Name of the function, which is the name of the exercise.
    arguments : tuple of str
        Their names, in order.
    right : function
        The right answer, in loops.
    cases : tuple of Case
    wrongs : tuple of Wrong
        The mistakes that the checker knows; a test holds it to every one of them.
    compare : function of (given, wanted, tolerance, case) that returns str or None
        One sentence about what is wrong with a result; None if it is right.
    """

    name: str
    arguments: tuple[str, ...]
    right: Callable
    cases: tuple[Case, ...]
    wrongs: tuple[Wrong, ...]
    compare: Callable


@dataclass(frozen=True)
class Verdict:
    """What a check found, as plain data.

    Attributes
    ----------
    state : str
        "right", "wrong", or "open": not filled in yet.
    said : str
        The verdict in one sentence.
    cases : tuple of (str, bool)
        What was tried, and whether it went well.
    mistake : tuple of (name, misconception, looks)
        The likeliest mistake, empty if none fits.
    notes : tuple of str
        Observations that are no faults.
    """

    state: str
    said: str
    cases: tuple[tuple[str, bool], ...] = ()
    mistake: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        return self.state == "right"


# ---------------------------------------------------------------------------------------------
# Judging


def judged(function: Callable, exercise: Exercise, *, source: str = "", limit: float = judge.LIMIT) -> Verdict:
    """Judge a function in a process of its own.

    Parameters
    ----------
    function : function
        What the learner wrote.
    exercise : Exercise
    source : str, optional
        Its text, so that a line that raises can be shown.
    limit : float, seconds

    Returns
    -------
    Verdict
        Also for a function that raises, loops for ever or takes its process down with it.
    """
    if not callable(function):
        return Verdict("wrong", f"`{exercise.name}` is {_kind(function)}, not a function. Start with `def`.")
    if unfilled(function):
        return Verdict("open", f"Not filled in yet: replace every {BLANK} and run this cell again.")
    try:
        return judge.run(verdict, function, exercise.name, source, limit=limit)
    except judge.Trouble as trouble:
        return Verdict("wrong", str(trouble))


def verdict(function: Callable, name: str, source: str = "") -> Verdict:
    """Judge a function right here: what the other process does.

    Parameters
    ----------
    function, source
        As for `judged`.
    name : str
        Of the exercise.
    """
    exercise = named(name)
    outcomes = [_tried(function, exercise, case, source) for case in exercise.cases]
    if all(outcome.unfilled for outcome in outcomes):
        return Verdict(
            "open", "Not filled in yet: the function returns `...`. Write your lines and run the cells again."
        )
    tried = tuple((case.tries, outcome.fault is None) for case, outcome in zip(exercise.cases, outcomes, strict=True))
    notes = tuple(dict.fromkeys(note for outcome in outcomes for note in outcome.notes))
    wrong = [i for i, outcome in enumerate(outcomes) if outcome.fault]
    if not wrong:
        return Verdict("right", f"Right: all {len(tried)} checks pass.", tried, notes=notes)
    first = outcomes[wrong[0]]
    said = _capital(first.fault) if first.full_stop else f"With {exercise.cases[wrong[0]].tries}: {first.fault}"
    return Verdict("wrong", said, tried, _likeliest(exercise, outcomes), notes)


@dataclass
class _Outcome:
    """What one call gave."""

    result: object = None
    fault: str | None = None
    #: The fault has nothing to do with the case: it needs no "With one head:" in front.
    full_stop: bool = False
    returned: bool = False
    unfilled: bool = False
    notes: list[str] = field(default_factory=list)


class _Bounded(io.StringIO):
    """Keeps the first characters of what is printed: a loop may print for ever."""

    def write(self, text: str) -> int:
        if self.tell() < _MOST_PRINTED:
            super().write(text[:_MOST_PRINTED])
        return len(text)


@contextlib.contextmanager
def quiet():
    """Run a learner's code in here: what it prints is kept, input() finds nothing to read, and NumPy does not warn.

    What a wrong answer divides by 0 shows in its result.
    """
    printed, before = _Bounded(), sys.stdin
    sys.stdin = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                yield printed
    finally:
        sys.stdin = before


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _tried(function: Callable, exercise: Exercise, case: Case, source: str) -> _Outcome:
    # As they lie in memory: what is only right for contiguous numbers must show.
    given = tuple(np.copy(a, order="K") if isinstance(a, np.ndarray) else a for a in case.arguments)
    outcome, printed = _Outcome(), _Bounded()
    try:
        with quiet() as printed:
            outcome.result = function(*given)
    except judge.Stopped:
        raise
    except BaseException as problem:  # exit() and whatever else a learner may raise is a sentence, too
        outcome.fault = raised(problem, function, source)
        # An error that every case would raise is not the case's doing.
        outcome.full_stop = isinstance(problem, (NameError, ImportError, SystemExit, EOFError))
        return outcome
    outcome.returned = True
    if outcome.result is ...:
        outcome.unfilled = True
        outcome.fault = "it returns `...`. Replace the dots."
        return outcome
    if printed.getvalue():
        outcome.notes.append("It prints. That is fine while you try; the result is what it returns.")
    for name, before, after in zip(exercise.arguments, case.arguments, given, strict=True):
        if isinstance(before, np.ndarray) and not np.array_equal(before, after, equal_nan=True):
            outcome.fault, outcome.full_stop = (
                f"it changes its input `{name}`. Whoever calls it still needs that: work on a copy.",
                True,
            )
            return outcome
    if outcome.result is None:
        also = " It prints instead." if printed.getvalue() else ""
        outcome.fault, outcome.full_stop = f"it returns nothing.{also} End with `return` and the result.", True
        return outcome
    if isinstance(outcome.result, np.ndarray) and any(
        isinstance(argument, np.ndarray) and np.shares_memory(outcome.result, argument) for argument in given
    ):
        outcome.notes.append(
            "The result is a view of an input: writing into one changes the other. No fault, good to know."
        )
    if isinstance(outcome.result, np.ndarray):
        outcome.result = np.asarray(outcome.result)  # also what somebody derived from it
    try:
        outcome.fault = exercise.compare(outcome.result, _wanted(exercise.name, exercise.cases.index(case)), case)
    except Exception:  # an object may refuse to be compared in many ways
        outcome.fault = "it returns something that cannot be compared with numbers."
    return outcome


def raised(problem: BaseException, function: Callable, source: str) -> str:
    """What a learner's function raised in one sentence, ``"it raises …"``, with its own line and no traceback."""
    if isinstance(problem, SystemExit):
        return "it calls exit(). Return the result instead."
    if isinstance(problem, EOFError):
        return "it asks with input(), and a check cannot answer. Use the arguments."
    if isinstance(problem, NameError) and getattr(problem, "name", None) == BLANK:
        return f"there is still a {BLANK} to fill in."
    try:
        text = plain_text(str(problem)).strip().splitlines()
    except Exception:  # an error may fail to say what it is
        text = []
    message = f": {text[0].rstrip('.')}" if text else ""
    return f"it raises {type(problem).__name__}{message}.{_where(problem, function, source)}"


def _where(problem: BaseException, function: Callable, source: str) -> str:
    """The line of the learner's own function in which it came to an end; nothing where there is none."""
    with contextlib.suppress(Exception):  # an object that is called may pretend to be anything
        code = inspect.unwrap(function).__code__
        own = _codes(code)
        numbers = [line for frame, line in traceback.walk_tb(problem.__traceback__) if frame.f_code in own]
        line = numbers[-1] - code.co_firstlineno
        lines = source.splitlines()
        shown = f", `{plain_text(lines[line].strip())}`" if 0 <= line < len(lines) else ""
        return f" In line {line + 1}{shown}."
    return ""


def _codes(code) -> set:
    """The code of a function and of all that is defined inside it."""
    return {code}.union(*(_codes(inner) for inner in code.co_consts if hasattr(inner, "co_consts")))


def plain_text(text: str, longest: int = 200) -> str:
    """A learner's text as a page can show it: cut off, and without half characters."""
    text = text if len(text) <= longest else f"{text[:longest]}…"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _likeliest(exercise: Exercise, outcomes: Sequence[_Outcome]) -> tuple[str, ...]:
    """The mistake that gives the learner's result: wherever that is wrong, and wherever else but once.

    A function that is right nearly everywhere shares one NaN with many mistakes; that names none of them.
    """
    returned = [i for i, outcome in enumerate(outcomes) if outcome.returned]
    wrong = [i for i in returned if outcomes[i].fault]
    if not wrong:
        return ()
    best, most = None, -1
    for candidate in exercise.wrongs:
        same = {i: _same(_answer(candidate, exercise.cases[i]), outcomes[i].result) for i in returned}
        agrees = sum(same.values())
        if all(same[i] for i in wrong) and agrees >= len(returned) - 1 and agrees > most:
            best, most = candidate, agrees
    return () if best is None else (best.name, best.misconception, best.looks)


def _answer(wrong: Wrong, case: Case):
    with np.errstate(all="ignore"):
        try:
            return wrong.function(*case.arguments)
        except Exception:  # a mistake that cannot run on these sizes has no answer to share
            return None


def _same(one, other) -> bool:
    if isinstance(one, dict):
        return _shapes(one) == _shapes(other)
    if one is None or not isinstance(other, (np.ndarray, np.generic)) or other.dtype.kind not in "fiu":
        return False
    if np.shape(one) != other.shape:
        return False
    # Half precision rounds where the learner's own types decide, so it must not spoil the comparison.
    loose = 5e-3 if np.float16 in (np.asarray(one).dtype, other.dtype) else 1e-6
    return bool(np.allclose(one, other, rtol=loose, atol=loose, equal_nan=True))


def _shapes(given) -> dict | None:
    """A dict of shapes as one can be compared with another; None for what is none."""
    try:
        return {step: tuple(int(size) for size in given[step]) for step in _SHAPES}
    except Exception:  # whatever else a learner may return
        return None


# ---------------------------------------------------------------------------------------------
# Comparing


def _kind(thing) -> str:
    name = plain_text(type(thing).__name__ or "thing", 40)
    return f"{'an' if name[0].lower() in 'aeiou' or name == 'ndarray' else 'a'} {name}"


def _same_numbers(given, wanted: np.ndarray, case: Case) -> str | None:
    if isinstance(given, (tuple, list)) and any(isinstance(one, np.ndarray) for one in given):
        return f"it returns {len(given)} things. Return the result alone."
    if not isinstance(given, (np.ndarray, np.generic)):
        return f"it returns {_kind(given)}. Return a NumPy array."
    if given.dtype.kind not in "fiu":
        return f"it returns an array of {given.dtype}. Return real numbers."
    if given.ndim != wanted.ndim:
        return f"the result has shape {given.shape}, which is {_axes(given.ndim)}; it should have {_axes(wanted.ndim)}."
    off = [str(axis) for axis in range(wanted.ndim) if given.shape[axis] != wanted.shape[axis]]
    if off:
        return f"the result has shape {given.shape}; {_wrong_axes(off)}."
    if np.isnan(given).any() and not np.isnan(wanted).any():
        return f"there is NaN in the result. {case.broke}"
    if not np.allclose(given, wanted, rtol=case.tolerance, atol=case.tolerance, equal_nan=True):
        share = np.mean(~np.isclose(given, wanted, rtol=case.tolerance, atol=case.tolerance, equal_nan=True))
        many = "the numbers are wrong" if share == 1 else f"{max(share, 0.01):.0%} of the numbers are wrong"
        return f"the shape is right, and {many}. {case.broke}"
    return None


def _wrong_axes(off: list[str]) -> str:
    return f"axis {off[0]} is wrong" if len(off) == 1 else f"axes {', '.join(off[:-1])} and {off[-1]} are wrong"


def _axes(count: int) -> str:
    return "1 axis" if count == 1 else f"{count} axes"


def _same_shapes(given, wanted: dict, case: Case) -> str | None:
    if not isinstance(given, dict):
        return f"it returns {_kind(given)}. Return a dict with a shape for each step."
    if missing := [step for step in wanted if step not in given]:
        return f"there is no shape for {', '.join(missing)}."
    for step, shape in wanted.items():
        mine = given[step]
        if mine is ...:
            return f"the shape of “{step}” is still `...`."
        if not isinstance(mine, (tuple, list)):
            return f"the shape of “{step}” is {_kind(mine)}. Write a tuple, one number for each axis."
        if odd := [size for size in mine if isinstance(size, bool) or not isinstance(size, (int, np.integer))]:
            said = "Sizes are whole numbers; `//` divides without a remainder."
            return f"the shape of “{step}” holds {reprlib.repr(odd[0])}. {said}"
        if len(mine) != len(shape):
            return f"the shape of “{step}” has {_axes(len(mine))}; it should have {_axes(len(shape))}."
        off = [str(axis) for axis, size in enumerate(mine) if size != shape[axis]]
        if off:
            return f"in the shape of “{step}”, {_wrong_axes(off)}. {case.broke}"
    return None


# ---------------------------------------------------------------------------------------------
# The right answers, in loops


def _attend_by_loops(q, k, v, mask=None):
    B, H, t_q, d_k = q.shape
    t_k, out = k.shape[2], np.zeros((*q.shape[:3], v.shape[3]))
    q, k, v = (a.astype(np.float64) for a in (q, k, v))
    keep = np.ones((B, H, t_q, t_k), bool) if mask is None else np.broadcast_to(mask, (B, H, t_q, t_k))
    for b, h, i in np.ndindex(B, H, t_q):
        seen = [j for j in range(t_k) if keep[b, h, i, j]]
        scores = [sum(q[b, h, i, d] * k[b, h, j, d] for d in range(d_k)) / math.sqrt(d_k) for j in seen]
        grown = [math.exp(score - max(scores)) for score in scores]
        for j, share in zip(seen, grown, strict=True):
            out[b, h, i] += share / sum(grown) * v[b, h, j]
    return out


def _split_by_loops(x, n_heads):
    B, T, D = x.shape
    d_k = D // n_heads
    out = np.zeros((B, n_heads, T, d_k), x.dtype)
    for b, h, t, i in np.ndindex(out.shape):
        out[b, h, t, i] = x[b, t, h * d_k + i]
    return out


def _merge_by_loops(x):
    B, H, T, d_k = x.shape
    out = np.zeros((B, T, H * d_k), x.dtype)
    for b, h, t, i in np.ndindex(x.shape):
        out[b, t, h * d_k + i] = x[b, h, t, i]
    return out


def _layer_by_loops(x, W_Q, W_K, W_V, W_O, n_heads):
    wide = (a.astype(np.float64) for a in (W_Q, W_K, W_V, W_O))
    return by_loops(MultiHead(*wide, n_heads=n_heads), x.astype(np.float64))


_SHAPES = ("project", "split", "score", "mix", "merge", "output")


def _shapes_of(batch, tokens, d_model, n_heads):
    dims = Dims(batch, tokens, d_model, n_heads)
    return {step: dims.shape(step) for step in _SHAPES}


# ---------------------------------------------------------------------------------------------
# The wrong ones


def _swapped(mistake: Mistake) -> set[str]:
    return {step for step in Steps.__dataclass_fields__ if getattr(mistake.steps, step) is not getattr(STEPS, step)}


def _from_catalogue(
    make: Callable[[Mistake], Callable], *within: str, also: Sequence[str] = (), but: Sequence[str] = ()
) -> tuple[Wrong, ...]:
    """The mistakes that are made in these steps alone, and some by name, as functions of the exercise."""
    return tuple(
        Wrong(mistake.name, mistake.misconception, mistake.looks, make(mistake))
        for mistake in (*CATALOGUE, *_WRITTEN_OUT)
        if ((_swapped(mistake) and _swapped(mistake) <= set(within)) or mistake.name in also)
        and mistake.name not in but
    )


def _summed_over(axis: int, what: str) -> Mistake:
    """The softmax of somebody who changed one of its two axes and not the other."""

    def normalise(scores, setting):
        top = scores.max(axis=-1, keepdims=True)
        grown = np.exp(scores - np.where(np.isfinite(top), top, 0))
        return grown / grown.sum(axis=axis, keepdims=True)

    return Mistake(
        f"divided by the sum over {what}",
        "M4",
        "the maximum is taken over the keys, the sum is not: no row sums to 1, and no column either",
        "row sums",
        steps=replace(STEPS, normalise=normalise),
    )


def _and_multiplied(name: str) -> Mistake:
    """A mistake with the product that most people write, in which a masked NaN spreads."""
    mistake, spread = mistakes.named(name), mistakes.named("a masked NaN times a weight of 0")
    steps = replace(mistake.steps, mix=spread.steps.mix)
    return replace(mistake, name=f"{name}; {spread.name}", looks=f"{mistake.looks}; {spread.looks}", steps=steps)


def _keys_reshaped(q, k):
    return q @ k.reshape(*k.shape[:2], k.shape[3], k.shape[2])


#: Mistakes that make sense in a function that is written out, beside those of the catalogue.
_WRITTEN_OUT = (
    Mistake(
        "keys reshaped instead of transposed",
        "M5",
        "right shape; a query meets pieces of several keys",
        "distinct sizes",
        steps=replace(STEPS, score=_keys_reshaped),
    ),
    _summed_over(-2, "the queries"),
    _summed_over(1, "the heads"),
    _summed_over(0, "the batch"),
    *map(_and_multiplied, ("finite −1e9 for −∞", "masked logit set to −1e9", "−∞ on every key of a row")),
)


def _attending(mistake: Mistake) -> Callable:
    if mistake.name == "queries and keys swapped":
        return lambda q, k, v, mask=None: _attend(STEPS, k, q, v, mask)
    if mistake.name == "key used as value":
        return lambda q, k, v, mask=None: _attend(STEPS, q, k, k, mask)
    return functools.partial(_attend, mistake.steps)


def _attend(steps: Steps, q, k, v, mask=None):
    q, k, v = (a.astype(np.float64) if a.dtype.kind in "iu" else a for a in (q, k, v))
    B, H, t_q, d_k = q.shape
    keep = None if mask is None else np.broadcast_to(mask, (B, H, t_q, k.shape[2]))
    setting = Setting(H, d_k, t_q, k.shape[2], d_k**-0.5, keep=keep, d_model=H * d_k)
    scores = steps.mask(steps.scale(steps.score(q, k), setting), setting)
    return steps.mix(steps.normalise(scores, setting), v, setting)


def _layered(mistake: Mistake) -> Callable:
    return lambda x, W_Q, W_K, W_V, W_O, n_heads: mistake.run(MultiHead(W_Q, W_K, W_V, W_O, n_heads), x)


def _shaped(name: str, misconception: str, looks: str, change: Callable[[Dims], dict]) -> Wrong:
    def wrong(batch, tokens, d_model, n_heads):
        dims = Dims(batch, tokens, d_model, n_heads)
        return {**_shapes_of(batch, tokens, d_model, n_heads), **change(dims)}

    return Wrong(name, misconception, looks, wrong)


_WRONG_SHAPES = (
    _shaped(
        "heads after tokens",
        "M5",
        "cut, but not moved: @ would compare heads, and never two tokens",
        lambda d: {step: (d.batch, d.tokens, d.n_heads, d.d_k) for step in ("split", "mix")},
    ),
    _shaped(
        "heads after tokens in the split alone",
        "M5",
        "a reshape without its transpose",
        lambda d: {"split": (d.batch, d.tokens, d.n_heads, d.d_k)},
    ),
    _shaped(
        "scores without heads",
        "M9",
        "one square for all heads, as if they were averaged",
        lambda d: {"score": (d.batch, d.tokens, d.tokens)},
    ),
    _shaped(
        "features compared with features",
        "M5",
        "qᵀ·k in place of q·kᵀ: the tokens are summed away",
        lambda d: {"score": (d.batch, d.n_heads, d.d_k, d.d_k)},
    ),
    _shaped(
        "scores that keep d_k",
        "M5",
        "a dot product sums d_k away",
        lambda d: {"score": (d.batch, d.n_heads, d.tokens, d.d_k)},
    ),
    _shaped(
        "the whole width in every head",
        "M8",
        "d_k = d_model: as many parameters more as there are heads",
        lambda d: {step: (d.batch, d.n_heads, d.tokens, d.d_model) for step in ("split", "mix")},
    ),
    _shaped(
        "d_k and n_heads exchanged",
        "M2",
        "right by accident where both are the same",
        lambda d: (
            {step: (d.batch, d.d_k, d.tokens, d.n_heads) for step in ("split", "mix")}
            | {"score": (d.batch, d.d_k, d.tokens, d.tokens)}
        ),
    ),
    _shaped(
        "the input sliced",
        "M1",
        "every projection as narrow as one head",
        lambda d: {"project": (d.batch, d.tokens, d.d_k)},
    ),
    _shaped(
        "heads averaged",
        "M9",
        "the width of one head where all should stand side by side",
        lambda d: {step: (d.batch, d.tokens, d.d_k) for step in ("merge", "output")},
    ),
    _shaped(
        "heads averaged, then projected back",
        "M9",
        "the width of one head where all should stand side by side",
        lambda d: {"merge": (d.batch, d.tokens, d.d_k)},
    ),
)


# ---------------------------------------------------------------------------------------------
# The exercises


def _normal(seed: int, *shape: int, by: float = 1.0, dtype=np.float64) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * by).astype(dtype)


def _qkv(B, H, t_q, t_k, d_k, d_v, seed=0, **options):
    """q, k and v of these sizes; ``by`` makes their scores large."""
    q, k = _normal(seed, B, H, t_q, d_k, **options), _normal(seed + 1, B, H, t_k, d_k, **options)
    return q, k, _normal(seed + 2, B, H, t_k, d_v, dtype=options.get("dtype", np.float64))


#: With scores in the thousands, float32 leaves this much room in the exponent, and float32 is no mistake.
_ROUGH = 1e-2


def _whole():
    rng = np.random.default_rng(8)
    return tuple(rng.integers(-3, 4, shape) for shape in ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6)))


_ATTEND = (
    Case("sizes that all differ", _qkv(2, 3, 5, 7, 4, 6), "Every size here is different, so no accident helps."),
    Case(
        "as many queries as keys",
        _qkv(2, 3, 5, 5, 4, 4, seed=3),
        "This is self-attention: every token asks and is asked.",
    ),
    Case(
        "one head, d_k 6", _qkv(3, 1, 5, 7, 6, 5, seed=6), "With one head, and with another d_k, the rule is the same."
    ),
    Case("a single key", _qkv(2, 4, 5, 1, 10, 3, seed=7), "One key gets all the weight, whatever its score."),
    Case("whole numbers", _whole(), "What q and k hold need not be fractions; the result does."),
    Case("one query and two keys", _qkv(1, 1, 1, 2, 4, 6, seed=9), "Two weights that sum to 1 are asked for."),
    Case(
        "numbers in float16",
        _qkv(2, 3, 5, 7, 4, 6, seed=12, dtype=np.float16),
        "Half precision rounds, and no more than that.",
        2e-2,
    ),
    Case(
        "scores in the thousands",
        _qkv(2, 3, 5, 7, 4, 6, seed=15, by=60.0),
        "exp overflows above 709, and above 88 in float32; subtract the largest score of the row first.",
        _ROUGH,
    ),
)


def _masked(tries, broke, mask, seed=0, **options):
    return Case(tries, (*_qkv(2, 3, 5, 7, 4, 6, seed=seed), mask), broke, **options)


def _holes() -> np.ndarray:
    """A mask of all four axes with no pattern in it, in which some query of each sample sees nothing."""
    keep = np.random.default_rng(37).random((2, 3, 5, 7)) < 0.6
    keep[0, 1, 2] = keep[1, 2, 0] = False
    return keep


def _infinite() -> tuple:
    q, k, v = _qkv(2, 3, 5, 7, 4, 6, seed=49)
    k[:, :, 5:], v[:, :, 5:] = np.inf, -np.inf
    return q, k, v, (np.arange(7) < 5).reshape(1, 1, 1, 7)


def _poisoned() -> tuple:
    q, k, v = _qkv(2, 3, 5, 7, 4, 6, seed=40)
    k[:, :, 5:], v[:, :, 5:] = np.nan, np.nan
    return q, k, v, np.arange(7) < np.full((2, 1, 1, 1), 5)


_CACHED = np.tri(5, 7, k=2, dtype=bool)
_LENGTHS = np.arange(7) < np.array([7, 4]).reshape(2, 1, 1, 1)
_ONE_HEAD = (np.arange(3).reshape(1, 3, 1, 1) != 1) | (np.arange(7) > 2)
_EMPTY = np.arange(7) < np.array([7, 0]).reshape(2, 1, 1, 1)

_MASKED = (
    _masked("a mask that keeps all", "Nothing is masked here, so nothing may change.", np.ones((5, 7), bool), seed=20),
    _masked(
        "a causal mask, 5 queries and 7 keys", "A key that is not kept gets a weight of exactly 0.", _CACHED, seed=23
    ),
    Case(
        "a causal mask on a square",
        (*_qkv(2, 3, 5, 5, 4, 4, seed=26), np.tri(5, dtype=bool)),
        "Change what a query may not see, and its output must not move.",
    ),
    _masked("two samples of different length", "Padding belongs to the keys of one sample.", _LENGTHS, seed=29),
    _masked("one head alone masked", "Masks may differ from head to head.", _ONE_HEAD, seed=32),
    _masked("a sample with nothing to see", "A query with no key at all gives 0.", _EMPTY, seed=35),
    Case(
        "a mask without a pattern, d_k 6",
        (*_qkv(2, 3, 5, 7, 6, 5, seed=52), _holes()),
        "Each head of each sample has a mask of its own, and a single query may see nothing.",
    ),
    Case(
        "a first query that sees nothing",
        (*_qkv(2, 3, 5, 5, 4, 4, seed=55), np.tri(5, k=-1, dtype=bool)),
        "A query with no key at all gives 0; the others are not touched by it.",
    ),
    Case("infinity behind the mask", _infinite(), "What is masked must not be multiplied at all, whatever it holds."),
    Case("NaN behind the mask", _poisoned(), "0 · NaN is NaN: what is masked must not be multiplied at all."),
    Case(
        "numbers in float16",
        (*_qkv(2, 3, 5, 7, 4, 6, seed=43, dtype=np.float16), _CACHED),
        "−1e9 does not fit into float16; −∞ does.",
        2e-2,
    ),
    Case(
        "scores in the thousands",
        (*_qkv(2, 3, 5, 7, 4, 6, seed=46, by=60.0), _CACHED),
        "Subtract the largest KEPT score of the row before exp.",
        _ROUGH,
    ),
)  # fmt: skip


def _weights(x, n_heads, seed=50):
    D = x.shape[-1]
    return (x, *(_normal(seed + i, D, D, by=D**-0.5, dtype=x.dtype) for i in range(4)), n_heads)


_LAYER = (
    Case("sizes that all differ", _weights(_normal(60, 2, 5, 12), 3), "Every size is different, so no accident helps."),
    Case("other sizes", _weights(_normal(61, 3, 4, 10), 5), "Right for one set of sizes only."),
    Case("one head", _weights(_normal(62, 2, 5, 12), 1), "With one head, d_k is the whole width."),
    Case("a single token", _weights(_normal(63, 2, 1, 12), 3), "One token can only look at itself."),
    Case(
        "numbers in float16",
        _weights(_normal(64, 2, 5, 12, dtype=np.float16), 3),
        "Half precision rounds, and no more than that.",
        2e-2,
    ),
    Case(
        "scores in the thousands",
        _weights(_normal(65, 2, 5, 12, by=60.0), 3),
        "exp overflows; subtract the largest score of the row first.",
        _ROUGH,
    ),
)

_SPLIT = (
    Case("0, 1, 2, … in order", (np.arange(24).reshape(1, 4, 6), 3), "Follow number 6: which token, which head?", 0.0),
    Case("sizes that all differ", (_normal(70, 2, 5, 12), 3), "A right shape can hold the wrong numbers.", 0.0),
    Case("one head", (_normal(71, 2, 5, 12), 1), "One head is the whole width.", 0.0),
    Case("as many heads as features", (_normal(72, 2, 5, 6), 6), "d_k may be 1.", 0.0),
    Case("a single token, batch 4", (_normal(74, 4, 1, 15), 5), "One token has all heads, too.", 0.0),
    Case("numbers not in order", (_normal(75, 5, 2, 12).swapaxes(0, 1), 3), "Use reshape and transpose.", 0.0),
    Case("numbers in float16", (_normal(73, 2, 5, 12, dtype=np.float16), 3), "Splitting computes nothing.", 0.0),
)  # fmt: skip

_MERGE = (
    Case("0, 1, 2, … in order", (np.arange(8).reshape(1, 2, 2, 2),), "Follow number 4: where should it stand?", 0.0),
    Case("sizes that all differ", (_normal(80, 2, 3, 5, 4),), "A right shape can hold the wrong numbers.", 0.0),
    Case("one head", (_normal(81, 2, 1, 5, 4),), "One head is the whole width.", 0.0),
    Case("a single token, d_k 1, batch 4", (_normal(83, 4, 5, 1, 1),), "No axis may go by accident.", 0.0),
    Case("numbers not in order", (_normal(84, 5, 3, 2, 4).swapaxes(0, 2),), "Use reshape and transpose.", 0.0),
    Case("numbers in float16", (_normal(82, 2, 3, 5, 4, dtype=np.float16),), "Merging computes nothing.", 0.0),
)  # fmt: skip

_SIZES = tuple(
    Case(
        f"batch {batch}, tokens {tokens}, width {d_model}, {n_heads} {'head' if n_heads == 1 else 'heads'}",
        (batch, tokens, d_model, n_heads),
        "Which of the four sizes stands there?",
        0.0,
    )
    for batch, tokens, d_model, n_heads in ((3, 7, 96, 4), (2, 5, 12, 3), (4, 6, 60, 5), (1, 9, 8, 1), (5, 1, 14, 7))
)

_STEPS = ("score", "scale", "normalise")
_VARIED = ("queries and keys swapped", "key used as value")
_WITH_A_MASK = ("−∞ on every key of a row",)
# Made where a mask is built, or where key heads are shared, or with a softcap: none of it is in this exercise.
_NOT_HERE = (
    "causal off by one",
    "causal aligned top-left with a cache",
    "mask repeated in the wrong order of heads and samples",
    "key heads tiled instead of repeated",
    "softcap after the mask",
)

EXERCISES: tuple[Exercise, ...] = (
    Exercise(
        "attend",
        ("q", "k", "v"),
        _attend_by_loops,
        _ATTEND,
        _from_catalogue(_attending, *_STEPS, also=_VARIED, but=_WITH_A_MASK),
        _same_numbers,
    ),
    Exercise("step_shapes", ("batch", "tokens", "d_model", "n_heads"), _shapes_of, _SIZES, _WRONG_SHAPES, _same_shapes),
    Exercise(
        "split_heads",
        ("x", "n_heads"),
        _split_by_loops,
        _SPLIT,
        (
            *_from_catalogue(lambda mistake: mistake.steps.split, "split"),
            Wrong(
                "heads left behind the tokens",
                "M5",
                "cut, but not moved: @ would compare heads, and never two tokens",
                lambda x, n_heads: x.reshape(*x.shape[:2], n_heads, -1),
            ),
            Wrong(
                "features dealt to the heads in turn",
                "M5",
                "head 0 holds columns 0, H, 2H, … in place of the first d_k",
                lambda x, n_heads: x.reshape(*x.shape[:2], -1, n_heads).transpose(0, 3, 1, 2),
            ),
        ),
        _same_numbers,
    ),
    Exercise(
        "merge_heads",
        ("x",),
        _merge_by_loops,
        _MERGE,
        (
            *_from_catalogue(lambda mistake: mistake.steps.merge, "merge"),
            Wrong(
                "heads and features exchanged",
                "M5",
                "the heads' first features side by side, then their second ones",
                lambda x: x.transpose(0, 2, 3, 1).reshape(len(x), x.shape[2], -1),
            ),
        ),
        _same_numbers,
    ),
    Exercise(
        "masked_attend",
        ("q", "k", "v", "mask"),
        _attend_by_loops,
        _MASKED,
        _from_catalogue(_attending, *_STEPS, "mask", "mix", also=_VARIED, but=_NOT_HERE),
        _same_numbers,
    ),
    Exercise(
        "multi_head",
        ("x", "W_Q", "W_K", "W_V", "W_O", "n_heads"),
        _layer_by_loops,
        _LAYER,
        _from_catalogue(
            _layered,
            "project", "split", "merge", "output", *_STEPS,
            also=(*_VARIED, "projections shared by all heads"), but=_WITH_A_MASK,
        ),
        _same_numbers,
    ),
)  # fmt: skip


@functools.cache
def _wanted(name: str, case: int):
    """The right answer of one case; loops are slow, so each is computed once a process."""
    exercise = named(name)
    return exercise.right(*exercise.cases[case].arguments)


def named(name: str) -> Exercise:
    """The exercise of that name; KeyError lists the names there are."""
    for exercise in EXERCISES:
        if exercise.name == name:
            return exercise
    raise KeyError(f"no exercise {name!r}; there are {', '.join(exercise.name for exercise in EXERCISES)}")
