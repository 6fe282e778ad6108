"""The catalogue of mistakes: complete, documented, and each of them really a mistake."""

import re

import numpy as np
import pytest

from mha_lib import mistakes
from mha_lib.attention import STEPS, MultiHead
from mha_lib.masks import causal
from mha_lib.mistakes import CATALOGUE

LAYER = MultiHead.random(12, 3, np.random.default_rng(0))
X = np.random.default_rng(1).standard_normal((2, 5, 12))


def test_names_are_unique_and_known():
    names = [mistake.name for mistake in CATALOGUE]
    assert len(set(names)) == len(names) >= 30
    assert mistakes.named("no scale").misconception == "M2"
    with pytest.raises(KeyError, match="no mistake 'luck'; there are no scale"):
        mistakes.named("luck")


@pytest.mark.parametrize("mistake", CATALOGUE, ids=lambda mistake: mistake.name)
def test_each_says_what_it_is(mistake):
    assert re.fullmatch(r"M(1[0-7]|[1-9])", mistake.misconception)
    assert 10 < len(mistake.looks) < 100 and not mistake.looks.endswith(".")
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", report) for report in mistake.seen_in)


@pytest.mark.parametrize("mistake", CATALOGUE, ids=lambda mistake: mistake.name)
def test_each_is_one_step_or_one_variation(mistake):
    swapped = [name for name in STEPS.__dataclass_fields__ if getattr(mistake.steps, name) is not getattr(STEPS, name)]
    assert bool(swapped) != (mistake.vary is not None)
    assert len(swapped) <= 2


@pytest.mark.parametrize("mistake", CATALOGUE, ids=lambda mistake: mistake.name)
def test_each_runs_and_keeps_the_shape(mistake):
    """That is what makes them dangerous: no error, the right shape."""
    assert mistake.run(LAYER, X, mask=causal(5)).shape == (2, 5, 12)
    trace = mistake.trace(LAYER, X, mask=causal(5))
    assert trace["weights"].shape == (2, 3, 5, 5)


@pytest.mark.parametrize("mistake", CATALOGUE, ids=lambda mistake: mistake.name)
def test_none_changes_its_input(mistake):
    before, weights = X.copy(), LAYER.w_q.copy()
    mistake.run(LAYER, X, mask=causal(5))
    assert (X == before).all() and (LAYER.w_q == weights).all()


def test_a_mask_on_queries_lets_padding_through():
    """Worked by hand: 3 tokens, the last is padding; transposed, the mask blanks the last ROW, not the last column."""
    layer, x = MultiHead.random(4, 2, np.random.default_rng(0)), X[:1, :3, :4]
    keep = np.array([True, True, False])[None, None, None]
    wrong = mistakes.named("padding mask on the queries").trace(layer, x, mask=keep)["weights"]
    assert (wrong[0, :, :2, 2] > 0).all() and (wrong[0, :, 2] == 0).all()


def test_tiled_heads_are_zero_one_zero_one():
    layer = MultiHead.random(8, 4, np.random.default_rng(0), n_kv_heads=2)
    x = X[:, :, :8]
    right, wrong = layer.trace(x), mistakes.named("key heads tiled instead of repeated").trace(layer, x)
    assert np.allclose(right["weights"][:, [0, 3]], wrong["weights"][:, [0, 3]])
    assert not np.allclose(right["weights"][:, 1], wrong["weights"][:, 1])
