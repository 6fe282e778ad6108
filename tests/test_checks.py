"""The kill matrix: every mistake is caught by its check, every right layer passes all, and the weak checks are weak."""

import time
from dataclasses import replace

import numpy as np
import pytest

from mha_lib import checks
from mha_lib.attention import MultiHead, softmax
from mha_lib.mistakes import CATALOGUE, named

NAMES = [check.name for check in checks.CHECKS]
OURS = [check.name for check in checks.CHECKS if not check.weak]


@pytest.fixture(scope="module")
def matrix():
    """(mistakes, checks): True where the check lets the mistake through."""
    return checks.matrix([mistake.run for mistake in CATALOGUE])


# Four right layers, written independently of each other.


def library(layer, x, context=None, **options):
    return layer(x, context, **options)


def _parts(layer, x, context):
    source = x if context is None else context
    return x @ layer.w_q, source @ layer.w_k, source @ layer.w_v + (0 if layer.b_v is None else layer.b_v)


def _blank(scores, mask):
    return scores if mask is None else np.where(mask, scores, -np.inf)


def with_einsum(layer, x, context=None, *, mask=None, softcap=None):
    q, k, v = _parts(layer, x, context)
    H, G = layer.n_heads, layer.n_kv_heads
    q = q.reshape(*q.shape[:2], G, H // G, layer.d_k)  # (B, T, G, heads of the group, d_k)
    k, v = k.reshape(*k.shape[:2], G, -1), v.reshape(*v.shape[:2], G, -1)
    scores = np.einsum("bigrd,bjgd->bgrij", q, k) / np.sqrt(layer.d_k)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    B, T = x.shape[:2]
    scores = scores.reshape(B, H, T, -1)
    weights = softmax(_blank(scores, mask), axis=-1).reshape(B, G, H // G, T, -1)
    clean = np.nan_to_num(v)
    return np.einsum("bgrij,bjgd->bigrd", weights, clean).reshape(B, T, -1) @ layer.w_o


def sum_over_heads(layer, x, context=None, *, mask=None, softcap=None):
    """Σ head_i · W_O[i], one head at a time, never merging."""
    q, k, v = _parts(layer, x, context)
    out, (d_k, d_v) = 0.0, (layer.d_k, layer.d_v)
    for h in range(layer.n_heads):
        g = h * layer.n_kv_heads // layer.n_heads
        scores = q[..., h * d_k : (h + 1) * d_k] @ np.swapaxes(k[..., g * d_k : (g + 1) * d_k], 1, 2) * d_k**-0.5
        if softcap:
            scores = softcap * np.tanh(scores / softcap)
        keep = None if mask is None else np.broadcast_to(mask, (len(x), layer.n_heads, *scores.shape[1:]))[:, h]
        mixed = softmax(_blank(scores, keep), axis=-1) @ np.nan_to_num(v[..., g * d_v : (g + 1) * d_v])
        out = out + mixed @ layer.w_o[h * d_v : (h + 1) * d_v]
    return out


@pytest.mark.parametrize("run", [library, checks.by_loops, with_einsum, sum_over_heads])
def test_right_layers_pass_every_check(run):
    passed = checks.matrix([run])[0]
    assert passed.all(), [name for name, ok in zip(NAMES, passed, strict=True) if not ok]


@pytest.mark.parametrize("mistake", CATALOGUE, ids=lambda mistake: mistake.name)
def test_each_mistake_is_caught_by_its_check(mistake):
    assert not checks.matrix([mistake.run], [checks.named(mistake.caught_by)])[0, 0]


def test_together_our_checks_catch_everything(matrix):
    survived = matrix[:, [NAMES.index(name) for name in OURS]].all(axis=1)
    assert not survived.any(), [m.name for m, s in zip(CATALOGUE, survived, strict=True) if s]


def test_a_shape_check_catches_nothing(matrix):
    assert matrix[:, NAMES.index("shape")].all()


@pytest.mark.parametrize(
    ("weak", "missed"),
    [
        ("row sums", {"no scale", "divide by √d_model", "split by reshape", "merge by reshape", "heads averaged"}),
        ("one head", {"divide by √d_model", "split by reshape", "merge by reshape", "heads averaged"}),
        ("d_k equals heads", {"divide by √n_heads"}),
        ("saturated inputs", {"no scale", "divide by √d_model", "divide by √n_heads", "multiply by √d_k"}),
        ("batch of one", {"mask repeated in the wrong order of heads and samples"}),
    ],
)
def test_what_the_weak_checks_let_through(matrix, weak, missed):
    let_through = {m.name for m, passed in zip(CATALOGUE, matrix[:, NAMES.index(weak)], strict=True) if passed}
    assert missed <= let_through


def test_wrong_split_with_wrong_merge_needs_more_than_shape_and_sums(matrix):
    row = matrix[[m.name for m in CATALOGUE].index("split and merge by reshape")]
    assert row[NAMES.index("shape")] and row[NAMES.index("row sums")] and not row[NAMES.index("permutation")]


def test_random_numbers_at_distinct_sizes_catch_all_that_needs_no_mask(matrix):
    caught = {
        m.name for m, passed in zip(CATALOGUE, matrix[:, NAMES.index("distinct sizes")], strict=True) if not passed
    }
    assert len(caught) == 19


def test_the_reference_uses_nothing_of_the_library():
    """The loops agree with the library, and stay right when the library's steps are broken."""
    layer = MultiHead.random(12, 3, np.random.default_rng(3), bias=True)
    x = np.random.default_rng(4).standard_normal((2, 5, 12))
    assert np.allclose(checks.by_loops(layer, x), layer(x))
    assert not {"softmax", "split_heads", "merge_heads", "STEPS"} & set(checks.by_loops.__code__.co_names)


@pytest.mark.parametrize("mistake", CATALOGUE, ids=lambda mistake: mistake.name)
def test_a_mistake_is_called_by_its_name(mistake):
    assert checks.likeliest(mistake.run) == (mistake,)


@pytest.mark.parametrize("run", [library, checks.by_loops, with_einsum, sum_over_heads])
def test_a_right_layer_is_called_no_names(run):
    assert checks.likeliest(run) == ()


def test_two_mistakes_at_once_are_both_suspected():
    """Scaled by √d_model, and the mask after softmax: without a mask the first shows alone."""
    steps = replace(named("mask after softmax").steps, scale=named("divide by √d_model").steps.scale)
    found = checks.likeliest(lambda layer, x, context=None, **options: layer(x, context, steps=steps, **options))
    assert named("divide by √d_model") in found


@pytest.mark.parametrize("wrong", [None, "text", np.zeros((5, 2, 12))])
def test_answers_of_the_wrong_kind_have_no_name(wrong):
    assert checks.likeliest(lambda layer, x, context=None, **options: wrong) == ()


def test_a_mistake_of_its_own_kind_has_no_name():
    assert checks.likeliest(lambda layer, x, context=None, **options: layer(x, context, **options) + 1) == ()


def test_what_raises_does_not_get_through():
    def broken(layer, x, context=None, **options):
        raise RuntimeError("no")

    assert not checks.matrix([broken]).any()


@pytest.mark.parametrize("wrong", [None, "text", 7, np.zeros((5, 2, 12))])
def test_answers_of_the_wrong_kind_do_not_get_through(wrong):
    assert not checks.matrix([lambda layer, x, context=None, **options: wrong]).any()


def test_a_check_feels_immediate():
    """Under 300 ms for all of them together, so that an exercise can run them at every attempt."""
    times = []
    for _ in range(5):
        began = time.perf_counter()
        checks.matrix([library])
        times.append(time.perf_counter() - began)
    assert min(times) < 0.3


def test_names_are_unique_and_known():
    assert len(set(NAMES)) == len(NAMES)
    with pytest.raises(KeyError, match="no check 'luck'; there are shape, row sums"):
        checks.named("luck")
