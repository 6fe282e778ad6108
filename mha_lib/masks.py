"""Masks: which key a query may look at. True = keep, everywhere in this course.

Other libraries differ: ``torch.nn.MultiheadAttention`` takes True = block, while torch's
``scaled_dot_product_attention``, Keras and ONNX take True = keep. Every function here returns a
boolean array that broadcasts against scores ``(B, H, T_q, T_k)``, so masks combine with ``&``.

Examples
--------
>>> (causal(3) & padding([3, 2], 3)).shape
(2, 1, 3, 3)
"""

from __future__ import annotations

import numpy as np

from .dims import whole_number


def _positions(t_q, t_k, offset) -> tuple[np.ndarray, np.ndarray]:
    """Key position of every query, ``(T_q, 1)`` or ``(B, 1, T_q, 1)``, and of every key, ``(T_k,)``."""
    t_q = whole_number("t_q", t_q, least=0)
    t_k = t_q if t_k is None else whole_number("t_k", t_k, least=0)
    offset = np.asarray(t_k - t_q if offset is None else offset)
    if offset.dtype.kind not in "iu" or offset.ndim > 1:
        raise TypeError(
            "offset must be a whole number, or one a sample in an array (B,); "
            f"got {offset.dtype} of shape {offset.shape}"
        )
    queries = np.arange(t_q)[:, None]
    if offset.ndim == 1:
        offset = offset.astype(np.int64)[:, None, None, None]
    return queries + offset, np.arange(t_k)


def causal(t_q: int, t_k: int | None = None, *, offset=None) -> np.ndarray:
    """Query i may look at the keys up to its own position, and at none after it.

    Parameters
    ----------
    t_q, t_k : int
        Numbers of queries and of keys; ``t_k`` is ``t_q`` if left out.
    offset : int or array of int, shape (B,), optional
        Where query 0 stands among the keys. The default, ``t_k - t_q``, puts the LAST query at the last
        key (bottom-right alignment), which is what a cache of earlier keys needs. ``offset=0`` puts the
        first query at the first key (top-left). An array gives one offset a sample.

    Returns
    -------
    array of bool, shape (T_q, T_k), or (B, 1, T_q, T_k) with one offset a sample
        True = keep.

    Raises
    ------
    TypeError, ValueError
        A size is not a whole number of at least 0, or ``offset`` is not an integer or a row of them.

    Examples
    --------
    >>> causal(2, 5).astype(int)
    array([[1, 1, 1, 1, 0],
           [1, 1, 1, 1, 1]])
    """
    queries, keys = _positions(t_q, t_k, offset)
    return keys <= queries


def window(t_q: int, t_k: int | None = None, left: int | None = None, right: int | None = None, *, offset=None):
    """Query i may look ``left`` keys back and ``right`` keys ahead of its own position.

    Parameters
    ----------
    t_q, t_k : int
        Numbers of queries and of keys; ``t_k`` is ``t_q`` if left out.
    left, right : int, optional
        How far the window reaches, in tokens; None sets no limit on that side, 0 stops at the query itself.
    offset : int or array of int, shape (B,), optional
        As for `causal`.

    Returns
    -------
    array of bool, shape (T_q, T_k), or (B, 1, T_q, T_k) with one offset a sample
        True = keep.

    Raises
    ------
    TypeError, ValueError
        As for `causal`; also when ``left`` or ``right`` is below 0.

    Examples
    --------
    >>> window(3, left=1, right=0).astype(int)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 1, 1]])
    """
    queries, keys = _positions(t_q, t_k, offset)
    keep = np.ones(np.broadcast_shapes(queries.shape, keys.shape), dtype=bool)
    if left is not None:
        keep &= keys >= queries - whole_number("left", left, least=0)
    if right is not None:
        keep &= keys <= queries + whole_number("right", right, least=0)
    return keep


def padding(lengths, t_k: int) -> np.ndarray:
    """Every query of sample b may look at the first ``lengths[b]`` keys; the rest is padding.

    Parameters
    ----------
    lengths : sequence of int, shape (B,)
        How many real tokens each sample has, from 0 to ``t_k``.
    t_k : int
        Number of keys, padding included.

    Returns
    -------
    array of bool, shape (B, 1, 1, T_k)
        True = keep. The two axes of length 1 stand for heads and queries.

    Raises
    ------
    TypeError
        ``lengths`` is not a row of whole numbers (a ready-made boolean mask, say).
    ValueError
        A length is below 0 or above ``t_k``.

    Examples
    --------
    >>> padding([3, 1], 3)[:, 0, 0].astype(int)
    array([[1, 1, 1],
           [1, 0, 0]])
    """
    t_k = whole_number("t_k", t_k, least=0)
    lengths = np.asarray(lengths)
    if lengths.ndim == 1 and lengths.size == 0:
        lengths = lengths.astype(int)
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu":
        raise TypeError(
            f"lengths must be a row of whole numbers, one a sample; got {lengths.dtype} of shape {lengths.shape}"
        )
    wrong = lengths[(lengths < 0) | (lengths > t_k)]
    if wrong.size:
        raise ValueError(f"length {wrong[0]} is outside 0 to {t_k}, the number of keys")
    return (np.arange(t_k) < lengths[:, None])[:, None, None, :]
