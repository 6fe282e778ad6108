"""Checks of an attention layer, and what each of them catches.

A `Check` gives a layer's function some input and says whether the answer is right. The weak ones are
those that exercises, tutorials and libraries really use; the others are ours. `matrix` runs every
mistake of the catalogue against every check, so that "this check catches it" is a result and no
promise.

A layer's function is called as ``run(layer, x, context=None, *, mask=None, softcap=None)`` with a
`MultiHead` that holds the weights, and returns ``(B, T_q, D)``. A `MultiHead` called directly is one,
`Mistake.run` is one, and so is what a learner writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np

from . import masks
from .attention import MultiHead
from .mistakes import CATALOGUE, Mistake


@dataclass(frozen=True)
class Check:
    """One way to test a layer.

    Attributes
    ----------
    name : str
    passes : function of (run) that returns bool
        Whether the layer's function gives what it should. An exception counts as a failure in `matrix`.
    weak : bool
        Whether it is one of the usual checks that let wrong layers through.
    why : str
        What it looks at, or what it cannot see.
    """

    name: str
    passes: Callable[[Callable], bool]
    weak: bool
    why: str


def by_loops(layer: MultiHead, x, context=None, *, mask=None, softcap=None) -> np.ndarray:
    """The layer in plain loops over samples, heads and queries, with no function of the library.

    Slow, and written to be read: the reference that every check compares with.
    """
    source, biases = (x if context is None else context), (layer.b_q, layer.b_k, layer.b_v, layer.b_o)
    b_q, b_k, b_v, b_o = (0 if bias is None else bias for bias in biases)
    B, t_q, t_k, H = len(x), x.shape[1], source.shape[1], layer.n_heads
    group, d_k, d_v = H // layer.n_kv_heads, layer.d_k, layer.d_v
    keep = np.ones((B, H, t_q, t_k), bool) if mask is None else np.broadcast_to(mask, (B, H, t_q, t_k))
    merged = np.zeros((B, t_q, H * d_v))
    for b in range(B):
        q, k, v = x[b] @ layer.w_q + b_q, source[b] @ layer.w_k + b_k, source[b] @ layer.w_v + b_v
        for h in range(H):
            shared = h // group
            for i in range(t_q):
                seen = [j for j in range(t_k) if keep[b, h, i, j]]
                if not seen:
                    continue
                query = q[i, h * d_k : (h + 1) * d_k]
                scores = [query @ k[j, shared * d_k : (shared + 1) * d_k] / math.sqrt(d_k) for j in seen]
                if softcap is not None:
                    scores = [softcap * math.tanh(score / softcap) for score in scores]
                grown = [math.exp(score - max(scores)) for score in scores]
                for share, j in zip(grown, seen, strict=True):
                    weight = share / sum(grown)
                    merged[b, i, h * d_v : (h + 1) * d_v] += weight * v[j, shared * d_v : (shared + 1) * d_v]
    return merged @ layer.w_o + b_o


# ---------------------------------------------------------------------------------------------
# What the checks are made of


def _layer(d_model=12, n_heads=3, **options) -> MultiHead:
    return MultiHead.random(d_model, n_heads, np.random.default_rng(0), **options)


def _tokens(*shape) -> np.ndarray:
    return np.random.default_rng(1).standard_normal(shape)


def _agrees(run, layer, x, context=None, tolerance=1e-6, **options) -> bool:
    """The same numbers as the loops, in the same shape."""
    given, wanted = np.asarray(run(layer, x, context, **options)), by_loops(layer, x, context, **options)
    return given.shape == wanted.shape and bool(np.allclose(given, wanted, rtol=tolerance, atol=tolerance))


def _shape_only(run) -> bool:
    return np.shape(run(_layer(), _tokens(2, 5, 12))) == (2, 5, 12)


def _row_sums(run) -> bool:
    """Values of 1 and an output projection that changes nothing: what comes out is the sum of the weights."""
    layer = _layer()
    ones = replace(layer, w_v=np.zeros_like(layer.w_v), b_v=np.ones(12), w_o=np.eye(12))
    return bool(np.allclose(run(ones, _tokens(2, 5, 12)), 1))


def _permutation(run) -> bool:
    """Without a mask, reordering the tokens reorders the output and changes nothing else."""
    layer, x, order = _layer(), _tokens(2, 5, 12), [3, 0, 4, 1, 2]
    return bool(np.allclose(run(layer, x[:, order]), np.asarray(run(layer, x))[:, order]))


def _padding(run) -> bool:
    return _agrees(run, _layer(), _tokens(2, 5, 12), mask=masks.padding([5, 3], 5) & masks.causal(5))


def _poisoned(run) -> bool:
    """NaN in a padded token: what the real tokens give must not notice."""
    layer, clean = _layer(), _tokens(2, 5, 12)
    poisoned = clean.copy()
    poisoned[1, 3:] = np.nan
    keep = masks.padding([5, 3], 5)
    given, wanted = np.asarray(run(layer, poisoned, mask=keep)), by_loops(layer, clean, mask=keep)
    return bool(np.allclose(given[0], wanted[0]) and np.allclose(given[1, :3], wanted[1, :3]))


CHECKS: tuple[Check, ...] = (
    Check("shape", _shape_only, True, "sees the shape and no number"),
    Check("row sums", _row_sums, True, "sees that each query shares out a weight of 1, not to whom"),
    Check(
        "one head",
        lambda run: _agrees(run, _layer(n_heads=1), _tokens(2, 5, 12)),
        True,
        "with one head, d_k is d_model and there is nothing to split or merge",
    ),
    Check(
        "d_k equals heads",
        lambda run: _agrees(run, _layer(9, 3), _tokens(2, 5, 9)),
        True,
        "with 3 heads of width 3, √d_k and √n_heads are one number",
    ),
    Check(
        "saturated inputs",
        lambda run: _agrees(run, _layer(), 300 * _tokens(2, 5, 12), tolerance=1e-2),
        True,
        "with huge scores softmax is one-hot whatever they are divided by",
    ),
    Check(
        "batch of one",
        lambda run: _agrees(run, _layer(), _tokens(1, 5, 12)),
        True,
        "with one sample, samples cannot be mixed up",
    ),
    Check(
        "distinct sizes",
        lambda run: _agrees(run, _layer(), _tokens(2, 5, 12)),
        False,
        "random numbers, all sizes different and above 1: batch 2, tokens 5, width 12, 3 heads of width 4",
    ),
    Check("permutation", _permutation, False, "tokens are a set: reordering them reorders the output"),
    Check(
        "causal",
        lambda run: _agrees(run, _layer(), _tokens(2, 5, 12), mask=masks.causal(5)),
        False,
        "the same with a causal mask",
    ),
    Check("padding", _padding, False, "samples of different length, and a causal mask on top"),
    Check(
        "cache",
        lambda run: _agrees(run, _layer(d_context=7), _tokens(2, 3, 12), _tokens(2, 5, 7), mask=masks.causal(3, 5)),
        False,
        "3 new queries over 5 keys that come from elsewhere: the last query stands at the last key",
    ),
    Check(
        "grouped heads",
        lambda run: _agrees(run, _layer(24, 6, n_kv_heads=2, d_v=5), _tokens(2, 5, 24)),
        False,
        "6 query heads share 2 key/value heads, values of another width",
    ),
    Check(
        "empty row",
        lambda run: _agrees(run, _layer(), _tokens(2, 5, 12), mask=masks.padding([5, 0], 5)),
        False,
        "a sample with nothing in it gives 0, neither NaN nor an average of the padding",
    ),
    Check("poisoned padding", _poisoned, False, "NaN behind a mask stays there"),
    Check(
        "large scores",
        lambda run: _agrees(run, _layer(), 60 * _tokens(2, 5, 12)),
        False,
        "scores in the thousands, where exp overflows",
    ),
    Check(
        "softcap with a mask",
        lambda run: _agrees(run, _layer(), 3 * _tokens(2, 5, 12), mask=masks.causal(5), softcap=2.0),
        False,
        "the cap comes before the mask",
    ),
)


def named(name: str) -> Check:
    """The check of that name; KeyError lists the names there are."""
    for check in CHECKS:
        if check.name == name:
            return check
    raise KeyError(f"no check {name!r}; there are {', '.join(check.name for check in CHECKS)}")


def matrix(runs: Iterable[Callable], checks: Iterable[Check] = CHECKS) -> np.ndarray:
    """Every layer's function against every check.

    Returns
    -------
    array of bool, shape (runs, checks)
        True = the check lets it through. What raises does not get through.
    """
    checks = list(checks)
    return np.array([[_lets_through(check, run) for check in checks] for run in runs], bool)


def likeliest(run: Callable) -> tuple[Mistake, ...]:
    """Which mistakes of the catalogue a wrong layer's answers are those of.

    Our checks are run, and every answer is kept. A mistake fits if it gives the same answer to every
    question; where none does, those are named that share the most of the WRONG answers, and at least one.

    Returns
    -------
    tuple of Mistake
        Empty for a right layer, and for one that is wrong in a way of its own.
    """
    asked: list[tuple] = []

    def listening(layer, x, context=None, **options):
        given = run(layer, x, context, **options)
        asked.append((layer, x, context, options, np.array(given)))
        return given

    for check in CHECKS:
        if not check.weak:
            _lets_through(check, listening)
    wrong = [not _same(by_loops(layer, x, context, **options), given) for layer, x, context, options, given in asked]
    if not any(wrong):
        return ()
    shared = np.array(
        [[_same(_answer(mistake, *question), given) for *question, given in asked] for mistake in CATALOGUE]
    )
    if shared.all(axis=1).any():
        return tuple(mistake for mistake, fits in zip(CATALOGUE, shared.all(axis=1), strict=True) if fits)
    score = shared[:, wrong].sum(axis=1)
    return tuple(mistake for mistake, points in zip(CATALOGUE, score, strict=True) if points == score.max() > 0)


def _answer(mistake: Mistake, layer, x, context, options):
    with np.errstate(all="ignore"):
        try:
            return mistake.run(layer, x, context, **options)
        except Exception:  # a mistake that cannot even run on these sizes gives no answer to share
            return None


def _same(one, other) -> bool:
    """The same numbers; NaN in the same places counts as the same."""
    if one is None or np.shape(one) != np.shape(other) or np.asarray(other).dtype.kind not in "fiu":
        return False
    return bool(np.allclose(one, other, rtol=1e-6, atol=1e-6, equal_nan=True))


def _lets_through(check: Check, run: Callable) -> bool:
    try:
        with np.errstate(all="ignore"):
            return check.passes(run)
    except Exception:  # whatever a wrong layer does to itself, it did not pass
        return False
