"""Multi-head attention as nine named steps over arrays with named axes.

``project → split → score → scale → mask → normalise → mix → merge → output``

`Steps` holds one plain function a step; its defaults are the correct ones. `MultiHead` holds the
weights of a layer and runs the steps; `Trace` keeps what each step made. `attention` is the middle of
the chain, score to mix, for arrays that are split into heads already.

Letters in shape comments: ``B`` batch, ``T`` tokens (``T_q`` queries, ``T_k`` keys), ``D`` d_model,
``H`` heads (``H_kv`` key/value heads), ``d_k`` width of a query or key head, ``d_v`` of a value head.

The formulas are those of Vaswani et al., "Attention Is All You Need" (2017), section 3.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from numbers import Real
from typing import NamedTuple

import numpy as np

from .dims import HeadsDoNotDivide, in_words, valid_head_counts, whole_number

# ---------------------------------------------------------------------------------------------
# Numbers: which type to compute in, and the softmax


def _numeric(name: str, array, axes: str) -> np.ndarray:
    """``array`` as a NumPy array of real numbers with one axis for every name in ``axes``."""
    array = np.asarray(array)
    if array.dtype.kind not in "fiu":
        raise TypeError(f"{name} must hold real numbers, not {array.dtype}")
    if array.ndim != axes.count(",") + 1:
        raise ValueError(f"{name} has shape {array.shape}; it must be {axes}")
    return array


def _working_type(*arrays: np.ndarray) -> tuple[np.dtype, np.dtype]:
    """The type a result has, and the type to compute it in: float16 is summed in float32."""
    result = np.result_type(*arrays)
    if result.kind != "f":
        result = np.dtype(np.float64)
    return result, np.dtype(np.float32) if result == np.float16 else result


def softmax(x, axis) -> np.ndarray:
    """exp(x) / Σ exp(x) along ``axis``, which has no default: naming it is half of the lesson.

    The largest value is subtracted first, which changes nothing and keeps exp from overflowing. Where
    every value is −inf there is nothing to share out, and the result is 0, not NaN.

    Parameters
    ----------
    x : array of real numbers, any shape
        Scores. float16 is computed in float32.
    axis : int or tuple of int
        The axis or axes over which the result sums to 1.

    Returns
    -------
    array, shape of x
        float16 for float16, float64 for whole numbers, else the type of ``x``.

    Raises
    ------
    TypeError
        ``x`` does not hold real numbers, or ``axis`` is left out or None.
    numpy.exceptions.AxisError
        ``x`` has no such axis.

    Examples
    --------
    >>> softmax([1, 2, 3], axis=-1).round(3)
    array([0.09 , 0.245, 0.665])
    """
    if axis is None:
        raise TypeError("softmax needs an axis; over keys that is axis=-1")
    x = np.asarray(x)
    if x.dtype.kind not in "fiu":
        raise TypeError(f"softmax needs real numbers, not {x.dtype}")
    result, working = _working_type(x)
    x = x.astype(working, copy=False)
    # `initial` lets an empty axis through; -inf minus -inf would be NaN, so an empty row shifts by 0.
    peak = x.max(axis=axis, keepdims=True, initial=-np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        grown = np.exp(x - np.where(np.isneginf(peak), 0, peak))
    total = grown.sum(axis=axis, keepdims=True)
    return (grown / np.where(total == 0, 1, total)).astype(result, copy=False)


# ---------------------------------------------------------------------------------------------
# Heads: split, merge, share


def split_heads(x, n_heads: int) -> np.ndarray:
    """Cut the width into heads and put the head axis before the tokens.

    ``(B, T, H·d) -> reshape (B, T, H, d) -> transpose (B, H, T, d)``. The reshape alone has a shape that
    fits as well, but mixes tokens.

    Parameters
    ----------
    x : array, shape (B, T, H·d)
    n_heads : int
        H; must divide the last axis.

    Returns
    -------
    array, shape (B, H, T, d)
        A view of ``x`` where NumPy can make one.

    Raises
    ------
    ValueError
        ``x`` has no three axes, or (as HeadsDoNotDivide) its width is no multiple of ``n_heads``.

    Examples
    --------
    >>> split_heads(np.arange(24).reshape(1, 4, 6), 3)[0, 0].tolist()
    [[0, 1], [6, 7], [12, 13], [18, 19]]
    """
    x = np.asarray(x)
    if x.ndim != 3:
        raise ValueError(f"x has shape {x.shape}; split_heads takes (batch, tokens, width)")
    n_heads = whole_number("n_heads", n_heads)
    batch, tokens, width = x.shape
    if width % n_heads:
        raise HeadsDoNotDivide(width, n_heads)
    return x.reshape(batch, tokens, n_heads, width // n_heads).transpose(0, 2, 1, 3)


def merge_heads(x) -> np.ndarray:
    """Put the heads side by side again: the inverse of `split_heads`.

    ``(B, H, T, d) -> transpose (B, T, H, d) -> reshape (B, T, H·d)``. The reshape has to copy.

    Parameters
    ----------
    x : array, shape (B, H, T, d)

    Returns
    -------
    array, shape (B, T, H·d)

    Raises
    ------
    ValueError
        ``x`` has no four axes.

    Examples
    --------
    >>> x = np.arange(24).reshape(1, 4, 6)
    >>> bool((merge_heads(split_heads(x, 3)) == x).all())
    True
    """
    x = np.asarray(x)
    if x.ndim != 4:
        raise ValueError(f"x has shape {x.shape}; merge_heads takes (batch, heads, tokens, width of a head)")
    batch, n_heads, tokens, width = x.shape
    return x.transpose(0, 2, 1, 3).reshape(batch, tokens, n_heads * width)


def share_heads(x, n_heads: int) -> np.ndarray:
    """Give each of ``n_heads`` query heads its key or value head, repeated in order.

    ``(B, H_kv, T, d) -> (B, H, T, d)``: 2 key heads serve 4 query heads as 0, 0, 1, 1 (grouped-query
    attention, Ainslie et al. 2023), never as 0, 1, 0, 1.
    """
    return x if x.shape[1] == n_heads else np.repeat(x, n_heads // x.shape[1], axis=1)


# ---------------------------------------------------------------------------------------------
# The nine steps


@dataclass(frozen=True)
class Setting:
    """What a step may need to know besides its arrays.

    Attributes
    ----------
    n_heads, d_k, t_q, t_k : int
        Query heads, width of a query head, numbers of queries and of keys.
    scale : float
        What scores are multiplied by; 1/√d_k unless the caller chose another.
    keep : array of bool that broadcasts to (B, H, T_q, T_k), or None
        True = the query may look at this key. None keeps all.
    bias : array that broadcasts to (B, H, T_q, T_k), or None
        Added to the scaled scores.
    softcap : float or None
        Squeezes scaled scores into ±softcap by a tanh (Gemma 2, 2024).
    d_model : int or None
        Width of the layer; None where attention runs on heads that came from elsewhere.
    """

    n_heads: int
    d_k: int
    t_q: int
    t_k: int
    scale: float
    keep: np.ndarray | None = None
    bias: np.ndarray | None = None
    softcap: float | None = None
    d_model: int | None = None


def project(x, weight, bias=None) -> np.ndarray:
    """``(B, T, D) @ (D, N) -> (B, T, N)``, plus a bias ``(N,)`` where the layer has one."""
    return x @ weight if bias is None else x @ weight + bias


def score(q, k) -> np.ndarray:
    """Every query against every key: ``(B, H, T_q, d_k) · (B, H_kv, T_k, d_k) -> (B, H, T_q, T_k)``."""
    return q @ share_heads(k, q.shape[1]).swapaxes(-1, -2)


def scale(scores, setting: Setting) -> np.ndarray:
    """Multiply by 1/√d_k, the width of a HEAD; then squeeze by the softcap, where there is one."""
    scaled = scores * np.asarray(setting.scale, scores.dtype)
    if setting.softcap is None:
        return scaled
    cap = np.asarray(setting.softcap, scores.dtype)
    return cap * np.tanh(scaled / cap)


def mask(scores, setting: Setting) -> np.ndarray:
    """Add the bias, where there is one; then −inf wherever the query may not look."""
    if setting.bias is not None:
        scores = scores + setting.bias
    return scores if setting.keep is None else np.where(setting.keep, scores, -np.inf).astype(scores.dtype, copy=False)


def normalise(scores, setting: Setting) -> np.ndarray:
    """Softmax over the KEYS, the last axis. A query that may look at nothing gets weights 0."""
    weights = softmax(scores, axis=-1)
    # Scores that are all -inf by themselves, with no mask to blame, are 0/0 and stay NaN as in any framework.
    blank = np.isneginf(scores).all(axis=-1, keepdims=True) if setting.t_k else np.zeros(1, bool)
    if blank.any():
        sees = True if setting.keep is None else setting.keep.any(axis=-1, keepdims=True)
        weights = np.where(blank & sees, np.nan, weights).astype(weights.dtype, copy=False)
    return weights


def mix(weights, v, setting: Setting) -> np.ndarray:
    """Average the values: ``(B, H, T_q, T_k) @ (B, H_kv, T_k, d_v) -> (B, H, T_q, d_v)``.

    0 · NaN is NaN, so a bad number in a masked value would leak through its weight of 0. Where values
    are not finite, each is added only for the queries that may look at it.
    """
    v = share_heads(v, weights.shape[1])
    finite = np.isfinite(v)
    if setting.keep is None or finite.all():
        return weights @ v
    mixed = weights @ np.where(finite, v, 0).astype(v.dtype, copy=False)
    keep = np.broadcast_to(setting.keep, weights.shape)
    for key in np.flatnonzero(~finite.all(axis=(0, 1, 3))):
        part = weights[..., key, None] * np.where(finite[:, :, key], 0, v[:, :, key])[:, :, None, :]
        mixed = mixed + np.where(keep[..., key, None], part, 0).astype(v.dtype, copy=False)
    return mixed


@dataclass(frozen=True)
class Steps:
    """One plain function a step; the defaults are the correct ones.

    A mistake is one step swapped, everything else untouched:
    ``dataclasses.replace(STEPS, scale=lambda scores, setting: scores)`` is attention without its scale.

    ========== ============================== =======================================
    step       is called as                   gives
    ========== ============================== =======================================
    project    (x, weight, bias)              q, k, v, each (B, T, H·d)
    split      (x, n_heads)                   (B, H, T, d)
    score      (q, k)                         (B, H, T_q, T_k)
    scale      (scores, setting)              the same shape
    mask       (scores, setting)              the same shape, −inf where not kept
    normalise  (scores, setting)              weights, the same shape
    mix        (weights, v, setting)          (B, H, T_q, d_v)
    merge      (x)                            (B, T_q, H·d_v)
    output     (x, weight, bias)              (B, T_q, D)
    ========== ============================== =======================================
    """

    project: Callable = project
    split: Callable = split_heads
    score: Callable = score
    scale: Callable = scale
    mask: Callable = mask
    normalise: Callable = normalise
    mix: Callable = mix
    merge: Callable = merge_heads
    output: Callable = project


STEPS = Steps()

# ---------------------------------------------------------------------------------------------
# The trace: what each step made


class Entry(NamedTuple):
    """One array of a forward pass: the step that made it, its name, the array, the name of every axis."""

    step: str
    name: str
    array: np.ndarray
    axes: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Trace:
    """Every array of one forward pass, in the order in which the steps made them.

    ``trace["weights"]`` is an array by its name. Iterating gives `Entry` tuples; printing gives a table.
    The names are x, q, k, v, q_heads, k_heads, v_heads, scores, scaled, masked, weights, mixed, merged
    and output (and ``context`` where keys and values come from another sequence).

    Attributes
    ----------
    entries : tuple of Entry
    setting : Setting
        Scale, mask, bias and sizes that the steps were given.
    """

    entries: tuple[Entry, ...]
    setting: Setting

    def entry(self, name: str) -> Entry:
        """The step, array and axes behind a name; KeyError lists the names there are."""
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise KeyError(f"no array {name!r} in this trace; there are {', '.join(e.name for e in self.entries)}")

    def __getitem__(self, name: str) -> np.ndarray:
        return self.entry(name).array

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    @property
    def nbytes(self) -> int:
        """Bytes that the arrays span; an array that is a view of another counts in full."""
        return sum(entry.array.nbytes for entry in self.entries)

    def __str__(self) -> str:
        rows = [("step", "array", "shape", "axes")]
        rows += [(e.step, e.name, str(e.array.shape), ", ".join(e.axes)) for e in self.entries]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)

    def __repr__(self) -> str:
        return f"<Trace of {len(self)} arrays, {in_words(self.nbytes)}>"


# ---------------------------------------------------------------------------------------------
# attention(): score to mix


def _checked_mask(mask, shape: tuple[int, ...]) -> np.ndarray | None:
    """The mask with four axes, or a message that says which axis is missing."""
    if mask is None:
        return None
    mask = np.asarray(mask)
    if mask.dtype != bool:
        raise TypeError(
            f"mask must be boolean with True = keep, not {mask.dtype}; numbers to add to the scores go to bias="
        )
    return _over_scores("mask", mask, shape)


def _checked_bias(bias, shape: tuple[int, ...]) -> np.ndarray | None:
    if bias is None:
        return None
    bias = np.asarray(bias)
    if bias.dtype.kind not in "fiu":
        hint = "; a boolean mask, True = keep, goes to mask=" if bias.dtype == bool else ""
        raise TypeError(f"bias must hold real numbers, not {bias.dtype}{hint}")
    return _over_scores("bias", bias, shape)


def _over_scores(name: str, array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """``array`` with four axes, each 1 or that of the scores.

    Two axes mean (T_q, T_k). Three are refused: (B, T_q, T_k) would be read as (H, T_q, T_k), and where
    B = H it would silently mask heads instead of samples.
    """
    if array.ndim == 3:
        raise ValueError(
            f"{name} has shape {array.shape}; is its first axis the batch or the heads? "
            f"Say so with {name}[:, None] (one a sample) or {name}[None] (one a head)"
        )
    if array.ndim not in (2, 4):
        raise ValueError(f"{name} has shape {array.shape}; it must be (T_q, T_k) or (B, H, T_q, T_k)")
    array = array[None, None] if array.ndim == 2 else array
    if any(have not in (1, want) for have, want in zip(array.shape, shape, strict=True)):
        raise ValueError(f"{name} of shape {array.shape} does not fit scores (B, H, T_q, T_k) = {shape}")
    return array


def _finite(name: str, value, way_out: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, not {value!r} ({type(value).__name__}){way_out}")
    if not math.isfinite(value):
        raise ValueError(f"{name} must be finite, not {value}{way_out}")
    return float(value)


def _checked_setting(q, k, v, *, mask, bias, scale, softcap, d_model=None) -> Setting:
    """Check heads against each other, by name and shape, and gather what the steps need to know."""
    B, H, t_q, d_k = q.shape
    if k.shape[0] != B or v.shape[0] != B:
        raise ValueError(f"q, k and v must share one batch; they are {q.shape}, {k.shape}, {v.shape}")
    if k.shape[3] != d_k:
        raise ValueError(f"q {q.shape} and k {k.shape} must share d_k, their last axis; it is {d_k} and {k.shape[3]}")
    if k.shape[1:3] != v.shape[1:3]:
        raise ValueError(f"k {k.shape} and v {v.shape} must share heads and tokens, their second and third axis")
    if not d_k:
        raise ValueError(f"q has shape {q.shape}; a head needs a d_k of at least 1")
    if k.shape[1] == 0 or H % k.shape[1]:
        raise ValueError(
            f"{H} query heads cannot share {k.shape[1]} key/value heads evenly; H must be a multiple of H_kv"
        )
    if scale is None:
        scale = 1 / math.sqrt(d_k)
    scale = _finite("scale", scale, "; None means 1/√d_k")
    if softcap is not None:
        softcap = _finite("softcap", softcap, "; None switches it off")
        if softcap <= 0:
            raise ValueError(f"softcap must be above 0, not {softcap}; None switches it off")
    shape = (B, H, t_q, k.shape[2])
    keep, bias = _checked_mask(mask, shape), _checked_bias(bias, shape)
    if bias is not None:
        with np.errstate(over="ignore"):
            bias = bias.astype(q.dtype, copy=False)
        # A bias of -inf is a mask by another name: the same rules hold for it.
        blocked = np.isneginf(bias)
        if blocked.any():
            keep = ~blocked if keep is None else keep & ~blocked
    return Setting(H, d_k, t_q, k.shape[2], scale, keep, bias, softcap, d_model)


def _heads(name: str, array) -> np.ndarray:
    array = np.asarray(array)
    if array.ndim == 3:
        raise ValueError(
            f"{name} has shape {array.shape}; split the width into heads first: split_heads({name}, n_heads)"
        )
    return _numeric(name, array, "(batch, heads, tokens, width of a head)")


def _value_axes(d_v: int, d_k: int) -> tuple[str, ...]:
    """Axes of split values: their width is called d_v only where it is not d_k, as `Dims` calls it."""
    return ("batch", "heads", "tokens", "d_k" if d_v == d_k else "d_v")


def _score_to_mix(q, k, v, setting: Setting, steps: Steps, record: Callable):
    """The five middle steps; ``record(step, name, array, axes)`` sees what each makes."""
    pairs = ("batch", "heads", "queries", "keys")
    # Non-finite input is allowed to propagate, so NumPy need not warn about it.
    with np.errstate(invalid="ignore", over="ignore"):
        scores = record("score", "scores", steps.score(q, k), pairs)
        scaled = record("scale", "scaled", steps.scale(scores, setting), pairs)
        masked = record("mask", "masked", steps.mask(scaled, setting), pairs)
        weights = record("normalise", "weights", steps.normalise(masked, setting), pairs)
        mixed = record("mix", "mixed", steps.mix(weights, v, setting), _value_axes(v.shape[-1], setting.d_k))
    return weights, mixed


def attention(q, k, v, *, mask=None, bias=None, scale=None, softcap=None, return_weights=False):
    """softmax(q · kᵀ / √d_k) · v, in every head at once.

    Parameters
    ----------
    q : array, shape (B, H, T_q, d_k)
    k : array, shape (B, H_kv, T_k, d_k)
    v : array, shape (B, H_kv, T_k, d_v)
        ``H`` must be a multiple of ``H_kv``; key/value heads are repeated in order: 0, 0, 1, 1.
    mask : array of bool, shape (T_q, T_k) or (B, H, T_q, T_k), axes of length 1 allowed
        True = keep. A query that may look at no key gets weights 0 and output 0.
    bias : array of numbers, shapes as for ``mask``
        Added to the scaled scores. −inf blocks, exactly as the mask does. A merely huge negative number
        (−1e9, the smallest float) only weighs down: where it falls on every key of a row, the row is not empty.
    scale : float, optional
        What the scores are multiplied by; 1/√d_k if left out.
    softcap : float, optional
        Scaled scores s become softcap · tanh(s / softcap), before bias and mask.
    return_weights : bool
        Return ``(output, weights)``.

    Returns
    -------
    output : array, shape (B, H, T_q, d_v)
    weights : array, shape (B, H, T_q, T_k)
        Only if asked for. float16 is computed in float32 and returned as float16; whole numbers give
        float64.

    Raises
    ------
    TypeError
        Complex or other non-real input, a mask that is not boolean, a bias that is, a scale or softcap
        that is no number.
    ValueError
        A rank or a size that does not fit, named together with the shape that came in; a scale that is
        not finite, a softcap that is not finite or not above 0.

    Notes
    -----
    NaN or inf in a masked key or value never reaches the output; unmasked, it propagates.

    Examples
    --------
    >>> q = k = v = np.eye(2).reshape(1, 1, 2, 2)
    >>> attention(q, k, v).round(3)[0, 0].tolist()
    [[0.67, 0.33], [0.33, 0.67]]
    """
    q, k, v = _heads("q", q), _heads("k", k), _heads("v", v)
    result, working = _working_type(q, k, v)
    q, k, v = (array.astype(working, copy=False) for array in (q, k, v))
    setting = _checked_setting(q, k, v, mask=mask, bias=bias, scale=scale, softcap=softcap)
    weights, output = _score_to_mix(q, k, v, setting, STEPS, lambda step, name, array, axes: array)
    output = output.astype(result, copy=False)
    return (output, weights.astype(result, copy=False)) if return_weights else output


# ---------------------------------------------------------------------------------------------
# The layer


@dataclass(frozen=True, eq=False)
class MultiHead:
    """The weights of one multi-head attention layer, and the way to run it.

    Parameters
    ----------
    w_q : array, shape (D, H·d_k)
    w_k : array, shape (D_context, H_kv·d_k)
    w_v : array, shape (D_context, H_kv·d_v)
    w_o : array, shape (H·d_v, D_out)
        Rows multiply: ``q = x @ w_q``. Head i owns columns ``i·d_k`` to ``(i+1)·d_k`` of ``w_q`` and the
        same rows of ``w_o``. ``D_context`` differs from ``D`` only in cross-attention.
    n_heads : int
    n_kv_heads : int, optional
        Key/value heads, fewer than ``n_heads`` in grouped-query attention; equal if left out.
    b_q, b_k, b_v, b_o : array, shape of the last axis of its weight, optional
        Biases.

    Raises
    ------
    ValueError
        A size that does not fit, named with the shapes that came in (HeadsDoNotDivide where a width
        cannot be cut into the heads asked for).

    Examples
    --------
    >>> layer = MultiHead.random(12, 3, np.random.default_rng(0))
    >>> layer(np.ones((2, 5, 12))).shape
    (2, 5, 12)
    """

    w_q: np.ndarray
    w_k: np.ndarray
    w_v: np.ndarray
    w_o: np.ndarray
    n_heads: int
    n_kv_heads: int | None = None
    b_q: np.ndarray | None = field(default=None, kw_only=True)
    b_k: np.ndarray | None = field(default=None, kw_only=True)
    b_v: np.ndarray | None = field(default=None, kw_only=True)
    b_o: np.ndarray | None = field(default=None, kw_only=True)

    def __post_init__(self):
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731 - a frozen dataclass is set this way
        for name in ("q", "k", "v", "o"):
            put(f"w_{name}", _numeric(f"w_{name}", getattr(self, f"w_{name}"), "(width in, width out)"))
        put("n_heads", whole_number("n_heads", self.n_heads))
        put("n_kv_heads", self.n_heads if self.n_kv_heads is None else whole_number("n_kv_heads", self.n_kv_heads))
        if self.n_heads % self.n_kv_heads:
            fit = ", ".join(map(str, valid_head_counts(self.n_heads)))
            raise ValueError(
                f"{self.n_heads} heads cannot share {self.n_kv_heads} key/value heads evenly; {fit} would do"
            )
        if self.w_q.shape[1] % self.n_heads:
            raise HeadsDoNotDivide(self.w_q.shape[1], self.n_heads)
        if self.w_v.shape[1] % self.n_kv_heads:
            raise ValueError(
                f"w_v makes {self.w_v.shape[1]} columns; {self.n_kv_heads} value heads cannot share them evenly"
            )
        if self.w_k.shape[1] != self.d_k * self.n_kv_heads:
            raise ValueError(
                f"w_k makes {self.w_k.shape[1]} columns; {self.n_kv_heads} key heads as wide as the query heads "
                f"(d_k {self.d_k}) need {self.d_k * self.n_kv_heads}"
            )
        if self.w_k.shape[0] != self.w_v.shape[0]:
            raise ValueError(
                f"w_k {self.w_k.shape} and w_v {self.w_v.shape} read one sequence: their first axis must agree"
            )
        if self.w_o.shape[0] != self.d_v * self.n_heads:
            need = self.d_v * self.n_heads
            raise ValueError(f"w_o has {self.w_o.shape[0]} rows; {self.n_heads} heads of width {self.d_v} need {need}")
        for name in ("q", "k", "v", "o"):
            bias, weight = getattr(self, f"b_{name}"), getattr(self, f"w_{name}")
            if bias is not None:
                put(f"b_{name}", _numeric(f"b_{name}", bias, "(width out)"))
                if np.shape(bias) != weight.shape[1:]:
                    raise ValueError(
                        f"b_{name} has shape {np.shape(bias)}; w_{name} {weight.shape} needs {weight.shape[1:]}"
                    )

    @classmethod
    def random(
        cls,
        d_model: int,
        n_heads: int,
        rng: np.random.Generator,
        *,
        n_kv_heads: int | None = None,
        d_k: int | None = None,
        d_v: int | None = None,
        d_context: int | None = None,
        bias: bool = False,
        dtype=np.float64,
    ) -> MultiHead:
        """A layer with normal weights of standard deviation 1/√(width in), so that unit input stays unit.

        Parameters
        ----------
        d_model, n_heads : int
        rng : numpy.random.Generator
            Where the weights come from: ``np.random.default_rng(seed)``.
        n_kv_heads, d_k, d_v, d_context : int, optional
            ``n_heads``, ``d_model / n_heads``, ``d_k`` and ``d_model`` if left out.
        bias : bool
            Draw biases as well.
        dtype : floating type
            Of weights and biases.
        """
        d_model, n_heads = whole_number("d_model", d_model), whole_number("n_heads", n_heads)
        if d_k is None:
            if d_model % n_heads:
                raise HeadsDoNotDivide(d_model, n_heads)
            d_k = d_model // n_heads
        d_k = whole_number("d_k", d_k)
        d_v = d_k if d_v is None else whole_number("d_v", d_v)
        d_context = d_model if d_context is None else whole_number("d_context", d_context)
        n_kv_heads = n_heads if n_kv_heads is None else whole_number("n_kv_heads", n_kv_heads)
        shapes = {
            "q": (d_model, n_heads * d_k),
            "k": (d_context, n_kv_heads * d_k),
            "v": (d_context, n_kv_heads * d_v),
            "o": (n_heads * d_v, d_model),
        }
        draw = lambda *shape: rng.standard_normal(shape).astype(dtype, copy=False)  # noqa: E731 - one word for one line
        weights = {f"w_{n}": draw(*s) / np.sqrt(s[0]).astype(dtype) for n, s in shapes.items()}
        biases = {f"b_{n}": draw(s[1]) for n, s in shapes.items()} if bias else {}
        return cls(**weights, n_heads=n_heads, n_kv_heads=n_kv_heads, **biases)

    @property
    def d_k(self) -> int:
        """Width of a query or key head."""
        return self.w_q.shape[1] // self.n_heads

    @property
    def d_v(self) -> int:
        """Width of a value head."""
        return self.w_v.shape[1] // self.n_kv_heads

    @property
    def parameters(self) -> int:
        """How many numbers the layer learns: 4 · D² for the usual layer without biases, whatever the heads."""
        arrays = (self.w_q, self.w_k, self.w_v, self.w_o, self.b_q, self.b_k, self.b_v, self.b_o)
        return sum(array.size for array in arrays if array is not None)

    def __call__(self, x, context=None, *, mask=None, bias=None, scale=None, softcap=None, steps: Steps = STEPS):
        """Run the layer.

        Parameters
        ----------
        x : array, shape (B, T_q, D)
        context : array, shape (B, T_k, D_context), optional
            Where keys and values come from; ``x`` itself if left out (self-attention).
        mask, bias, scale, softcap
            As for `attention`.
        steps : Steps
            The functions to run; swap one to see what a mistake does.

        Returns
        -------
        array, shape (B, T_q, D_out)
            float16 where input and weights are float16 (computed in float32).
        """
        ignore = lambda step, name, array, axes: array  # noqa: E731 - the trace that keeps nothing
        return self._run(x, context, ignore, steps, mask=mask, bias=bias, scale=scale, softcap=softcap)[0]

    def trace(self, x, context=None, *, mask=None, bias=None, scale=None, softcap=None, steps: Steps = STEPS) -> Trace:
        """Run the layer and keep what every step made. Parameters as for a call of the layer."""
        entries = []

        def keep(step, name, array, axes):
            entries.append(Entry(step, name, array, axes))
            return array

        _, setting = self._run(x, context, keep, steps, mask=mask, bias=bias, scale=scale, softcap=softcap)
        return Trace(tuple(entries), setting)

    def _run(self, x, context, record: Callable, steps: Steps, **options):
        x = self._sequence("x", x, self.w_q)
        source = x if context is None else self._sequence("context", context, self.w_k)
        if context is None and x.shape[2] != self.w_k.shape[0]:
            raise ValueError(f"w_k reads width {self.w_k.shape[0]}, x is {x.shape}: this layer needs a context")
        result, working = _working_type(x, source, self.w_q, self.w_k, self.w_v, self.w_o)
        cast = lambda array: None if array is None else array.astype(working, copy=False)  # noqa: E731

        wide, heads = ("batch", "tokens", "width"), ("batch", "heads", "tokens", "d_k")
        with np.errstate(invalid="ignore", over="ignore"):
            x = record("input", "x", cast(x), wide)
            source = x if context is None else record("input", "context", cast(source), wide)
            q = record("project", "q", steps.project(x, cast(self.w_q), cast(self.b_q)), wide)
            k = record("project", "k", steps.project(source, cast(self.w_k), cast(self.b_k)), wide)
            v = record("project", "v", steps.project(source, cast(self.w_v), cast(self.b_v)), wide)
            q = record("split", "q_heads", steps.split(q, self.n_heads), heads)
            k = record("split", "k_heads", steps.split(k, self.n_kv_heads), heads)
            v = record("split", "v_heads", steps.split(v, self.n_kv_heads), _value_axes(self.d_v, self.d_k))
        setting = _checked_setting(q, k, v, **options, d_model=self.w_q.shape[0])
        _, mixed = _score_to_mix(q, k, v, setting, steps, record)
        with np.errstate(invalid="ignore", over="ignore"):
            merged = record("merge", "merged", steps.merge(mixed), wide)
            output = record("output", "output", steps.output(merged, cast(self.w_o), cast(self.b_o)), wide)
        return output.astype(result, copy=False), setting

    @staticmethod
    def _sequence(name: str, array, weight: np.ndarray) -> np.ndarray:
        array = _numeric(name, array, "(batch, tokens, width)")
        if array.shape[2] != weight.shape[0]:
            raise ValueError(f"{name} has shape {array.shape}; this layer reads a width of {weight.shape[0]}")
        return array
