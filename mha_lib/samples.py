"""Seeded inputs for lessons and panels: a layer and a batch of tokens for any sizes.

Numbers come from one fixed block, of which a smaller layer uses a corner: moving a slider changes
the sizes, not the random numbers, so what changes on the screen is what the slider did.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .attention import MultiHead
from .dims import Dims

#: Weights up to this width share one block of numbers; wider layers draw their own.
_WIDEST = 1024

#: Samples up to this many tokens lie in one block, one sample below the other.
_LONGEST, _SAMPLES = 128, 8


@lru_cache(maxsize=5)
def _block(seed: int, slot: int) -> np.ndarray:
    rng = np.random.default_rng([seed, slot])
    return rng.standard_normal((_WIDEST, _WIDEST), dtype=np.float32)


def _square(d_model: int, seed: int, slot: int) -> np.ndarray:
    if d_model <= _WIDEST:
        return _block(seed, slot)[:d_model, :d_model]
    return np.random.default_rng([seed, slot]).standard_normal((d_model, d_model), dtype=np.float32)


@lru_cache(maxsize=2)
def _weights(d_model: int, seed: int) -> tuple[np.ndarray, ...]:
    weights = tuple(_square(d_model, seed, slot) / np.float32(np.sqrt(d_model)) for slot in range(4))
    for weight in weights:
        weight.setflags(write=False)
    return weights


def layer(dims: Dims, seed: int = 0) -> MultiHead:
    """A layer with normal weights of standard deviation 1/√d_model, in float32.

    The four matrices depend on ``d_model`` and ``seed`` alone: changing the heads changes nothing in them.
    """
    return MultiHead(*_weights(dims.d_model, seed), n_heads=dims.n_heads)


def inputs(dims: Dims, seed: int = 0) -> np.ndarray:
    """Unit normal tokens, ``(batch, tokens, d_model)``, in float32.

    On the sliders, a smaller size cuts the numbers of a larger one; nothing is drawn anew.
    """
    batch, tokens, d_model = dims.batch, dims.tokens, dims.d_model
    if batch <= _SAMPLES and tokens <= _LONGEST and d_model <= _WIDEST:
        return _block(seed, 4).reshape(_SAMPLES, _LONGEST, _WIDEST)[:batch, :tokens, :d_model]
    return np.random.default_rng([seed, 4]).standard_normal((batch, tokens, d_model), dtype=np.float32)
