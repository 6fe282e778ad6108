"""The nine steps, attention on heads, and the layer: against sums written out, laws, and bad input."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_lib.attention import (
    STEPS,
    MultiHead,
    Setting,
    Steps,
    attention,
    merge_heads,
    share_heads,
    softmax,
    split_heads,
)
from mha_lib.dims import STEP_NAMES, Dims, HeadsDoNotDivide
from mha_lib.masks import causal, padding, window

# A warning on the screen of a learner is a fault, so every test here fails on one.
pytestmark = pytest.mark.filterwarnings("error")
law = settings(max_examples=50, deadline=None, derandomize=True)
close = np.testing.assert_allclose


def normal(*shape, seed=0, dtype=np.float64):
    """Unit normals that cannot be written to: a function that changes its input raises."""
    array = np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype)
    array.setflags(write=False)
    return array


# ---- the article's transparent shape check ----------------------------------------------------


def test_the_transparent_shape_check_of_the_article():
    dims = Dims(batch=2, tokens=10, d_model=512, n_heads=8)
    trace = MultiHead.random(512, 8, np.random.default_rng(0)).trace(normal(2, 10, 512))
    assert dims.d_k == trace["q_heads"].shape[-1] == 64
    assert trace["scores"].shape == (2, 8, 10, 10)
    assert trace["scores"].size == dims.score_elements == 1600
    assert trace["output"].shape == (2, 10, 512)
    with pytest.raises(ValueError, match="d_model 512 does not divide evenly across 7 heads"):
        MultiHead.random(512, 7, np.random.default_rng(0))


# ---- the layer against sums over single numbers -----------------------------------------------


def by_loops(layer, x, context=None, *, mask=None, bias=None, scale=None, softcap=None):
    """The layer one head and one number at a time: no matrix product, no broadcasting, nothing shared."""
    source = x if context is None else context
    (B, t_q, _), t_k = x.shape, source.shape[1]
    d_k, d_v, group = layer.d_k, layer.d_v, layer.n_heads // layer.n_kv_heads

    def entry(rows, weight, shift, column):
        total = sum(rows[n] * weight[n, column] for n in range(weight.shape[0]))
        return total if shift is None else total + shift[column]

    output = np.zeros((B, t_q, layer.w_o.shape[1]))
    for b in range(B):
        for i in range(t_q):
            heads = []
            for h in range(layer.n_heads):
                shared = h // group
                q = [entry(x[b, i], layer.w_q, layer.b_q, h * d_k + n) for n in range(d_k)]
                scores = []
                for j in range(t_k):
                    k = [entry(source[b, j], layer.w_k, layer.b_k, shared * d_k + n) for n in range(d_k)]
                    s = sum(q[n] * k[n] for n in range(d_k)) * (d_k**-0.5 if scale is None else scale)
                    s = s if softcap is None else softcap * math.tanh(s / softcap)
                    s = s if bias is None else s + bias[b, h, i, j]
                    scores.append(s if mask is None or mask[b, h, i, j] else -math.inf)
                grown = [math.exp(s) for s in scores]
                weights = [g / sum(grown) if sum(grown) else 0.0 for g in grown]
                for n in range(d_v):
                    v = [entry(source[b, j], layer.w_v, layer.b_v, shared * d_v + n) for j in range(t_k)]
                    heads.append(sum(w * value for w, value in zip(weights, v, strict=True)))
            for n in range(layer.w_o.shape[1]):
                output[b, i, n] = entry(heads, layer.w_o, layer.b_o, n)
    return output


KEEP = np.random.default_rng(1).random((2, 6, 5, 7)) < 0.6
KEEP[1, 4, 3] = False  # an empty row


@pytest.mark.parametrize(
    "make, run",
    [
        ({"d_model": 12, "n_heads": 3}, {}),
        ({"d_model": 12, "n_heads": 1}, {}),
        ({"d_model": 12, "n_heads": 12}, {}),
        ({"d_model": 12, "n_heads": 3, "bias": True}, {"mask": causal(5)}),
        ({"d_model": 12, "n_heads": 3, "d_k": 2, "d_v": 5, "bias": True}, {}),
        ({"d_model": 12, "n_heads": 3, "d_context": 10, "bias": True}, {"context": normal(2, 7, 10)}),
        ({"d_model": 12, "n_heads": 6, "n_kv_heads": 2, "d_v": 3}, {"context": normal(2, 7, 12), "mask": KEEP}),
        ({"d_model": 12, "n_heads": 6, "n_kv_heads": 1}, {"mask": padding([5, 3], 5) & window(5, left=2)}),
        ({"d_model": 12, "n_heads": 6, "d_v": 4}, {"context": normal(2, 7, 12), "bias": normal(2, 6, 5, 7)}),
        ({"d_model": 12, "n_heads": 3}, {"scale": 0.7, "softcap": 0.9, "mask": causal(5)}),
        (
            {"d_model": 12, "n_heads": 6, "n_kv_heads": 3, "d_k": 4, "d_v": 5, "d_context": 10, "bias": True},
            {"context": normal(2, 7, 10), "mask": KEEP, "bias": normal(2, 6, 5, 7), "softcap": 1.5},
        ),
    ],
    ids=[
        "three heads", "one head", "heads of width 1", "causal", "d_v is not d_k", "cross", "grouped and masked",
        "one key head", "bias", "scale and softcap", "everything at once",
    ],
)  # fmt: skip
def test_the_layer_equals_sums_over_single_numbers(make, run):
    layer, x = MultiHead.random(rng=np.random.default_rng(3), **make), normal(2, 5, 12)
    t_k = run["context"].shape[1] if "context" in run else 5
    spelled_out = dict(run)
    if "mask" in run:
        spelled_out["mask"] = np.broadcast_to(run["mask"], (2, layer.n_heads, 5, t_k))
    close(layer(x, **run), by_loops(layer, x, **spelled_out), rtol=1e-12, atol=1e-13)


# fchollet/deep-learning-with-python-notebooks#261: the loop overwrote query and key from head to head, and
# used the key as the value; only weights that all differ show it.
def test_one_head_after_another_equals_all_heads_at_once_and_changes_no_input():
    layer, x = MultiHead.random(12, 3, np.random.default_rng(0)), normal(2, 5, 12)
    before = [array.copy() for array in (x, layer.w_q, layer.w_k, layer.w_v, layer.w_o)]
    total = 0
    for h in range(3):
        own = slice(4 * h, 4 * h + 4)
        q, k, v = (x @ weight[:, own] for weight in (layer.w_q, layer.w_k, layer.w_v))
        total = total + softmax(q @ k.swapaxes(1, 2) / 2, axis=-1) @ v @ layer.w_o[own]
    close(layer(x), total, rtol=1e-12, atol=1e-12)
    for was, now in zip(before, (x, layer.w_q, layer.w_k, layer.w_v, layer.w_o), strict=True):
        assert np.array_equal(was, now)


# ---- softmax ----------------------------------------------------------------------------------


# neetcode-gh/leetcode#5169, udacity/sdc-issue-reports#1261: the same numbers, under a stated tolerance.
def test_softmax_of_three_numbers():
    close(softmax([5, 6, 7], axis=-1), [0.0900306, 0.2447285, 0.6652410], atol=5e-8)
    close(softmax([1, 2, 3], axis=0), softmax([5, 6, 7], axis=0), rtol=1e-15)


@law
@given(st.integers(0, 999), st.sampled_from([0, 1, -1, (0, 1), (1, 2)]), st.floats(-1e6, 1e6))
def test_softmax_sums_to_one_over_its_axis_and_ignores_a_constant(seed, axis, constant):
    x = normal(2, 3, 4, seed=seed)
    close(softmax(x, axis).sum(axis=axis), 1, rtol=1e-12)
    assert (softmax(x, axis) >= 0).all()
    close(softmax(x + constant, axis), softmax(x, axis), rtol=1e-7)


def test_softmax_of_extreme_numbers():
    assert softmax([1e308, -1e308, 0], axis=-1).tolist() == [1, 0, 0]
    assert softmax([1000, 1000], axis=-1).tolist() == [0.5, 0.5]
    assert softmax([-np.inf, 0, -np.inf], axis=-1).tolist() == [0, 1, 0]
    assert softmax([-np.inf, -np.inf], axis=-1).tolist() == [0, 0]
    assert np.isnan(softmax([np.nan, 1.0], axis=-1)).all()
    assert np.isnan(softmax([np.inf, 1.0], axis=-1)).all()
    assert softmax(np.zeros((2, 0)), axis=-1).shape == softmax(np.zeros((2, 0)), axis=0).shape == (2, 0)


@pytest.mark.parametrize(
    "given_type, result", [("f2", "f2"), ("f4", "f4"), ("f8", "f8"), ("i8", "f8"), ("u1", "f8"), ("i1", "f8")]
)
def test_softmax_keeps_the_type_of_floats_and_makes_floats_of_whole_numbers(given_type, result):
    assert softmax(np.array([3, 100], given_type), axis=0).dtype == np.dtype(result)


def test_softmax_of_float16_is_summed_in_float32():
    # Summed in float16, 4,096 equal weights add up to 2,048 at most, because 2,048 + 1 is 2,048 there.
    weights = softmax(np.zeros(4096, np.float16), axis=0)
    assert weights.dtype == np.float16 and (weights == np.float16(1 / 4096)).all()


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (lambda: softmax([1.0, 2.0]), TypeError, "axis"),
        (lambda: softmax([1.0, 2.0], None), TypeError, "softmax needs an axis; over keys that is axis=-1"),
        (lambda: softmax(["a"], 0), TypeError, "softmax needs real numbers, not <U1"),
        (lambda: softmax([True], 0), TypeError, "softmax needs real numbers, not bool"),
        (lambda: softmax([1j], 0), TypeError, "softmax needs real numbers, not complex128"),
        (lambda: softmax([1.0], 1), IndexError, "axis 1 is out of bounds"),
    ],
)
def test_what_softmax_cannot_do_is_refused_in_words(call, kind, message):
    with pytest.raises(kind, match=message):
        call()


# ---- split, merge, share ----------------------------------------------------------------------


# reczoo/FuxiCTR#30, hyunwoongko/transformer#15: split by a reshape alone, so that a head mixed tokens.
def test_a_head_takes_its_columns_of_every_token():
    heads = split_heads(np.arange(24).reshape(1, 4, 6), 3)
    assert heads.shape == (1, 3, 4, 2)
    assert heads[0, 0].tolist() == [[0, 1], [6, 7], [12, 13], [18, 19]]


# jsbaan/transformer-from-scratch PR 6: merged without a transpose, and the toy model trained all the same.
def test_merging_puts_the_heads_of_one_token_side_by_side():
    heads = np.array(list("abcdefgh")).reshape(1, 2, 2, 2)
    assert ["".join(row) for row in merge_heads(heads)[0]] == ["abef", "cdgh"]


@law
@given(st.integers(0, 3), st.integers(0, 4), st.integers(1, 4), st.integers(0, 3))
def test_merge_undoes_split_and_split_undoes_merge(batch, tokens, n_heads, width):
    x = np.arange(batch * tokens * n_heads * width).reshape(batch, tokens, n_heads * width)
    heads = split_heads(x, n_heads)
    assert heads.shape == (batch, n_heads, tokens, width)
    assert np.array_equal(merge_heads(heads), x)
    assert np.array_equal(split_heads(merge_heads(heads), n_heads), heads)
    for h in range(n_heads):
        assert np.array_equal(heads[:, h], x[:, :, h * width : (h + 1) * width])


def test_splitting_copies_nothing():
    x = normal(2, 5, 6)
    assert np.shares_memory(split_heads(x, 3), x)


# onnx/onnx PR 7274: the key heads were tiled, 0, 1, 0, 1, where the reference repeats them.
def test_shared_key_heads_are_repeated_in_order_and_not_tiled():
    kv = np.array([10.0, 20.0]).reshape(1, 2, 1, 1)
    assert share_heads(kv, 4).ravel().tolist() == [10, 10, 20, 20]
    assert attention(np.ones((1, 4, 1, 1)), kv, kv).ravel().tolist() == [10, 10, 20, 20]


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (lambda: split_heads(np.ones((4, 6)), 3), ValueError, "x has shape (4, 6); split_heads takes (batch, tokens,"),
        (lambda: split_heads(np.ones((1, 4, 6)), 4), HeadsDoNotDivide, "d_model 6 does not divide evenly across 4 hea"),
        (lambda: split_heads(np.ones((1, 4, 6)), 0), ValueError, "n_heads must be at least 1, not 0"),
        (lambda: split_heads(np.ones((1, 4, 6)), 2.0), TypeError, "n_heads must be a whole number, not 2.0 (float); w"),
        (lambda: merge_heads(np.ones((1, 4, 6))), ValueError, "x has shape (1, 4, 6); merge_heads takes (batch, heads"),
    ],
)
def test_what_cannot_be_split_or_merged_is_refused_in_words(call, kind, message):
    with pytest.raises(kind) as caught:
        call()
    assert message in str(caught.value)


# ---- attention on heads: laws -----------------------------------------------------------------


@st.composite
def heads(draw, square=False):
    """q, k, v of any small size, drawn from a seed, and a mask with some empty rows."""
    few = st.integers(1, 4)
    B, h_kv, group, t_q, d_k, d_v = (draw(few) for _ in range(6))
    t_k, seed = t_q if square else draw(few), draw(st.integers(0, 999))
    keep = np.random.default_rng(seed).random((B, h_kv * group, t_q, t_k)) < draw(st.sampled_from([0.3, 0.8]))
    return (
        normal(B, h_kv * group, t_q, d_k, seed=seed),
        normal(B, h_kv, t_k, d_k, seed=seed + 1),
        normal(B, h_kv, t_k, d_v, seed=seed + 2),
        keep,
    )


@law
@given(heads())
def test_weights_of_a_query_sum_to_one_or_where_it_sees_nothing_to_zero(case):
    q, k, v, keep = case
    output, weights = attention(q, k, v, mask=keep, return_weights=True)
    assert output.shape == (*q.shape[:3], v.shape[3]) and weights.shape == keep.shape
    close(weights.sum(axis=-1), keep.any(axis=-1), rtol=1e-12)
    assert (weights[keep] > 0).all() and not weights[~keep].any()
    assert not output[~keep.any(axis=-1)].any()
    close(attention(q, k, np.ones_like(v), mask=keep), np.broadcast_to(keep.any(axis=-1)[..., None], output.shape))
    assert np.array_equal(attention(q, k, v, mask=keep), output)


@law
@given(heads())
def test_the_order_of_keys_means_nothing_and_queries_go_their_own_way(case):
    q, k, v, keep = case
    output, (t_q, t_k) = attention(q, k, v, mask=keep), keep.shape[2:]
    keys, queries = np.random.default_rng(0).permutation(t_k), np.random.default_rng(1).permutation(t_q)
    close(attention(q, k[:, :, keys], v[:, :, keys], mask=keep[..., keys]), output, rtol=1e-11, atol=1e-12)
    close(attention(q[:, :, queries], k, v, mask=keep[:, :, queries]), output[:, :, queries], rtol=1e-11, atol=1e-12)


@law
@given(heads())
def test_samples_and_heads_do_not_see_each_other(case):
    q, k, v, keep = case
    output, group = attention(q, k, v, mask=keep), q.shape[1] // k.shape[1]
    for b in range(q.shape[0]):
        for h in range(q.shape[1]):
            at, shared = np.s_[b : b + 1, h : h + 1], np.s_[b : b + 1, h // group : h // group + 1]
            close(attention(q[at], k[shared], v[shared], mask=keep[at]), output[at], rtol=1e-11, atol=1e-12)


@law
@given(heads())
def test_fewer_key_heads_equal_their_explicit_repeat(case):
    q, k, v, keep = case
    group = q.shape[1] // k.shape[1]
    repeated = [np.stack([x[:, h // group] for h in range(q.shape[1])], axis=1) for x in (k, v)]
    close(attention(q, k, v, mask=keep), attention(q, *repeated, mask=keep), rtol=1e-12, atol=1e-13)


@law
@given(heads(), st.sampled_from([np.nan, np.inf, -np.inf, 1e300, -1e300]), st.integers(0, 99))
def test_a_key_and_value_change_nothing_for_queries_that_may_not_look_at_them(case, poison, seed):
    q, k, v, keep = case
    rng, group = np.random.default_rng(seed), q.shape[1] // k.shape[1]
    bad = rng.random(k.shape[:3]) < 0.4
    bad_k, bad_v = (np.where(bad[..., None] & (rng.random(x.shape) < 0.7), poison, x) for x in (k, v))
    safe = ~(keep & np.repeat(bad, group, axis=1)[:, :, None, :]).any(axis=-1)
    for options in ({"mask": keep}, {"bias": np.where(keep, 0.0, -np.inf)}, {"mask": keep, "softcap": 3.0}):
        clean = attention(q, k, v, **options, return_weights=True)
        dirty = attention(q, bad_k, bad_v, **options, return_weights=True)
        for now, before in zip(dirty, clean, strict=True):
            close(now[safe], before[safe], rtol=1e-12, atol=1e-13)


@law
@given(heads(), st.floats(-50, 50))
def test_adding_a_constant_to_all_scores_of_a_query_changes_nothing(case, constant):
    q, k, v, keep = case
    shift = np.full((1, 1, q.shape[2], 1), constant) * np.arange(q.shape[2])[:, None]
    close(attention(q, k, v, mask=keep, bias=shift), attention(q, k, v, mask=keep), rtol=1e-9, atol=1e-11)


@law
@given(heads(square=True))
def test_an_earlier_query_does_not_feel_what_comes_later(case):
    q, k, v, _ = case
    tokens = q.shape[2]
    output = attention(q, k, v, mask=causal(tokens))
    for i in range(tokens):
        later = np.arange(tokens)[:, None] > i
        changed = [np.where(later, other, x) for x, other in zip((q, k, v), (np.nan, np.inf, -7.0), strict=True)]
        now = attention(*changed, mask=causal(tokens))[:, :, : i + 1]
        close(now, output[:, :, : i + 1], rtol=1e-12, atol=1e-13)
        prefix = [x[:, :, : i + 1] for x in (q, k, v)]
        close(attention(*prefix, mask=causal(i + 1)), output[:, :, : i + 1], rtol=1e-11, atol=1e-12)


@law
@given(heads())
def test_one_query_at_a_time_with_a_cache_equals_all_at_once(case):
    q, k, v, _ = case
    t_q, t_k = q.shape[2], k.shape[2]
    output = attention(q, k, v, mask=causal(t_q, t_k))
    for i in range(t_q):
        seen = max(0, t_k - t_q + i + 1)
        alone = attention(q[:, :, i : i + 1], k[:, :, :seen], v[:, :, :seen])
        close(alone, output[:, :, i : i + 1], rtol=1e-11, atol=1e-12)


@law
@given(heads(), st.floats(0.1, 3), st.floats(0.2, 5))
def test_scale_and_softcap_are_what_the_docstring_says(case, scale, softcap):
    q, k, v, keep = case
    scores = np.einsum("bhqd,bhkd->bhqk", q, np.repeat(k, q.shape[1] // k.shape[1], axis=1))
    capped = softcap * np.tanh(scores * scale / softcap)
    expected = softmax(np.where(keep, capped, -np.inf), axis=-1)
    _, weights = attention(q, k, v, mask=keep, scale=scale, softcap=softcap, return_weights=True)
    close(weights, expected, rtol=1e-10, atol=1e-13)
    _, plain = attention(q, k, v, return_weights=True)
    close(plain, softmax(scores / np.sqrt(q.shape[3]), axis=-1), rtol=1e-11)


# ---- the layer: laws --------------------------------------------------------------------------


@st.composite
def layers(draw):
    n_kv, group, d_k, d_v = (draw(st.integers(1, 3)) for _ in range(4))
    d_model, seed = draw(st.integers(1, 6)), draw(st.integers(0, 999))
    layer = MultiHead.random(
        d_model, n_kv * group, np.random.default_rng(seed),
        n_kv_heads=n_kv, d_k=d_k, d_v=d_v, bias=draw(st.booleans()),
    )  # fmt: skip
    return layer, normal(draw(st.integers(1, 3)), draw(st.integers(1, 5)), d_model, seed=seed)


@law
@given(layers())
def test_without_a_mask_the_order_of_tokens_only_reorders_the_output(case):
    layer, x = case
    order = np.random.default_rng(0).permutation(x.shape[1])
    close(layer(x[:, order]), layer(x)[:, order], rtol=1e-10, atol=1e-12)


@law
@given(layers())
def test_samples_of_a_batch_do_not_see_each_other(case):
    layer, x = case
    close(np.concatenate([layer(sample[None]) for sample in x]), layer(x), rtol=1e-10, atol=1e-12)


# Kyubyong/transformer#117: the output projection was left out.
@law
@given(layers())
def test_heads_that_move_together_with_their_rows_of_w_o_change_nothing(case):
    layer, x = case
    order = np.random.default_rng(2).permutation(layer.n_kv_heads)
    group = layer.n_heads // layer.n_kv_heads

    def moved(array, width):
        """Reorder the blocks of ``width`` along the last axis."""
        blocks = array.reshape(*array.shape[:-1], layer.n_kv_heads, width)
        return blocks[..., order, :].reshape(array.shape)

    widths = {"q": group * layer.d_k, "k": layer.d_k, "v": layer.d_v}
    changes = {f"w_{name}": moved(getattr(layer, f"w_{name}"), width) for name, width in widths.items()}
    changes["w_o"] = moved(layer.w_o.T, group * layer.d_v).T
    if layer.b_q is not None:
        changes |= {f"b_{name}": moved(getattr(layer, f"b_{name}"), width) for name, width in widths.items()}
    close(dataclasses.replace(layer, **changes)(x), layer(x), rtol=1e-10, atol=1e-12)


def test_the_output_projection_is_there_and_adds_the_heads_up():
    layer, x = MultiHead.random(12, 3, np.random.default_rng(0)), normal(2, 5, 12)
    trace = layer.trace(x)
    assert not np.allclose(trace["merged"], trace["output"])
    close(sum(trace["mixed"][:, h] @ layer.w_o[4 * h : 4 * h + 4] for h in range(3)), layer(x), rtol=1e-11, atol=1e-12)


def test_later_tokens_never_reach_earlier_outputs_of_a_causal_layer():
    layer, x = MultiHead.random(12, 3, np.random.default_rng(0), bias=True), normal(2, 5, 12)
    poisoned = np.where(np.arange(5)[:, None] >= 3, np.nan, x)
    output = layer(poisoned, mask=causal(5))
    close(output[:, :3], layer(x, mask=causal(5))[:, :3], rtol=1e-12)
    assert np.isnan(output[:, 3:]).all()


def test_padding_of_a_context_never_reaches_the_output():
    layer = MultiHead.random(12, 3, np.random.default_rng(0), d_context=10)
    x, context, lengths = normal(2, 5, 12), normal(2, 7, 10), [7, 4]
    poisoned = np.where(padding(lengths, 7)[:, 0, 0, :, None], context, np.inf)
    close(layer(x, poisoned, mask=padding(lengths, 7)), layer(x, context, mask=padding(lengths, 7)), rtol=1e-12)
    close(layer(x, poisoned, mask=padding(lengths, 7))[1], layer(x[1:], context[1:, :4])[0], rtol=1e-11)


def test_x_as_its_own_context_is_self_attention():
    layer, x = MultiHead.random(12, 3, np.random.default_rng(0)), normal(2, 5, 12)
    assert np.array_equal(layer(x, x), layer(x))


# ---- reports from the field, masks and empty rows ---------------------------------------------


# NVIDIA/apex#1390: with -1e9 added everywhere a float32 row forgets its scores and averages the padding,
# and a float64 row forgets the mask.
def test_an_empty_row_gives_zeros_in_every_precision_and_a_big_negative_bias_is_no_mask():
    v = np.eye(3).reshape(1, 1, 3, 3)
    q, k = np.ones((1, 1, 1, 1)), np.array([1.0, 2, 3]).reshape(1, 1, 3, 1)
    for dtype in (np.float16, np.float32, np.float64):
        case = [x.astype(dtype) for x in (q, k, v)]
        for blocked in ({"mask": np.zeros((1, 3), bool)}, {"bias": np.full((1, 3), -np.inf)}):
            assert attention(*case, **blocked).ravel().tolist() == [0, 0, 0]
    weighed_down = [
        attention(q.astype(dtype), k.astype(dtype), v.astype(dtype), bias=np.full((1, 3), -1e9)).ravel()
        for dtype in (np.float32, np.float64)
    ]
    close(weighed_down[0], [1 / 3] * 3, rtol=1e-6)
    close(weighed_down[1], [0.0900306, 0.2447285, 0.6652410], atol=1e-6)


# pytorch/pytorch#103749: one pattern as booleans, as -inf and as the smallest float.
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_one_pattern_as_booleans_and_as_minus_infinity_gives_one_output(dtype):
    q, k, v = (normal(2, 3, 5, 4, seed=seed, dtype=dtype) for seed in range(3))
    keep = np.random.default_rng(0).random((2, 3, 5, 5)) < 0.5
    keep[0, 1, 2], keep[0, 0, 0, 0] = False, True
    masked = attention(q, k, v, mask=keep)
    assert np.array_equal(attention(q, k, v, bias=np.where(keep, 0, -np.inf)), masked)
    # The smallest float blocks as well, but where every key has it, the row is not empty.
    smallest = attention(q, k, v, bias=np.where(keep, 0, np.finfo(np.float32).min))
    seen = keep.any(axis=-1)
    assert np.array_equal(smallest[seen], masked[seen])
    assert smallest[~seen].any() and not masked[~seen].any()


def test_a_key_is_seen_where_both_mask_and_bias_allow_it():
    q, k, v = (normal(2, 3, 5, 4, seed=seed) for seed in range(3))
    by_mask, by_bias = np.random.default_rng(1).random((2, 2, 3, 5, 5)) < 0.6
    both = attention(q, k, v, mask=by_mask, bias=np.where(by_bias, 0.0, -np.inf), return_weights=True)
    for result, expected in zip(both, attention(q, k, v, mask=by_mask & by_bias, return_weights=True), strict=True):
        assert np.array_equal(result, expected)


def test_a_bias_too_large_for_the_type_of_the_scores_blocks_without_a_warning():
    q, k, v = (normal(1, 1, 2, 3, seed=seed, dtype=np.float32) for seed in range(3))
    keep = np.array([[True, False], [False, False]])
    bias = np.where(keep, 0.0, np.finfo(np.float64).min)
    assert np.array_equal(attention(q, k, v, bias=bias), attention(q, k, v, mask=keep))


# bentrevett/pytorch-seq2seq#191, facebookresearch/fairseq#3575: -1e10 does not fit into float16.
def test_masked_float16_scores_give_zeros_and_finite_numbers_without_a_warning():
    q, k, v = (normal(2, 3, 5, 4, seed=seed, dtype=np.float16) for seed in range(3))
    for blocked in ({"mask": causal(5)}, {"bias": np.where(causal(5), 0, -1e10)}):
        output, weights = attention(q, k, v, **blocked, return_weights=True)
        assert output.dtype == weights.dtype == np.float16
        assert np.isfinite(output).all() and np.isfinite(weights).all()
        assert not weights[..., ~causal(5)].any()


# ultralytics PR 24990, philipturner/metal-flash-attention#8: q · k overflows float16 before it is scaled.
def test_float16_scores_do_not_overflow_before_they_are_scaled():
    q = np.full((1, 1, 2, 64), 64, np.float16)
    k, v = np.concatenate([q[:, :, :1], -q[:, :, :1]], axis=2), normal(1, 1, 2, 3, dtype=np.float16)
    output, weights = attention(q, k, v, return_weights=True)
    assert weights[0, 0].tolist() == [[1, 0], [1, 0]]
    assert np.array_equal(output[0, 0], [v[0, 0, 0]] * 2)
    # float32 scores, as they are computed: 64 · 64 · 64 / 8.
    setting = Setting(n_heads=1, d_k=64, t_q=2, t_k=2, scale=1 / 8)
    scaled = STEPS.scale(STEPS.score(q.astype(np.float32), k.astype(np.float32)), setting)
    assert scaled[0, 0].tolist() == [[32768, -32768]] * 2


# tensorflow/text PR 894: a mask of the other polarity went unnoticed, at an accuracy of almost 100 %.
def test_the_wrong_polarity_shows_in_the_weights_above_the_diagonal():
    q, k, v = (normal(1, 2, 4, 3, seed=seed) for seed in range(3))
    above = np.triu(np.ones((4, 4), bool), k=1)
    _, right = attention(q, k, v, mask=~above, return_weights=True)
    _, wrong = attention(q, k, v, mask=above, return_weights=True)
    assert not right[..., above].any() and np.array_equal(right[0, :, 0], [[1, 0, 0, 0]] * 2)
    assert (wrong[..., above] > 0).all() and not wrong[..., 3, :].any()


# pytorch/pytorch#64706: a (B, T, T) mask where B = H was read as one mask a head.
def test_a_mask_of_three_axes_is_refused_and_one_with_a_head_axis_masks_the_sample():
    q, k, v = (normal(2, 2, 3, 4, seed=seed) for seed in range(3))
    keep = np.ones((2, 3, 3), bool)
    keep[1, :, 2] = False
    with pytest.raises(ValueError) as caught:
        attention(q, k, v, mask=keep)
    assert "mask has shape (2, 3, 3); is its first axis the batch or the heads?" in str(caught.value)
    assert "mask[:, None] (one a sample) or mask[None] (one a head)" in str(caught.value)
    _, weights = attention(q, k, v, mask=keep[:, None], return_weights=True)
    assert (weights[0] > 0).all() and not weights[1, :, :, 2].any()
    _, weights = attention(q, k, v, mask=keep[None], return_weights=True)
    assert (weights[:, 0] > 0).all() and not weights[:, 1, :, 2].any()


# ---- reports from the field, scale and softmax ------------------------------------------------


# tenstorrent/tt-metal PR 56789, lucidrains/vit-pytorch#65: divided by √heads or √d_model, and it looked right.
def test_scores_are_divided_by_the_root_of_the_width_of_a_head():
    layer, x = MultiHead.random(64, 4, np.random.default_rng(0)), normal(2, 5, 64)
    trace = layer.trace(x)
    close(trace["scores"] / trace["scaled"], 4, rtol=1e-12)
    assert trace.setting.scale == 1 / 4


# YutaroOgawa/pytorch_advanced#174: why the root of d and not d.
def test_dividing_by_the_root_keeps_the_variance_of_scores_at_one():
    q, k = normal(1, 1, 200, 300, seed=1), normal(1, 1, 200, 300, seed=2)
    scores = STEPS.score(q, k)
    scaled = STEPS.scale(scores, Setting(n_heads=1, d_k=300, t_q=200, t_k=200, scale=300**-0.5))
    close([scores.var(), scaled.var(), (scores / 300).var()], [300, 1, 1 / 300], rtol=0.05)


# labmlai/annotated_deep_learning_paper_implementations#146: softmax over queries trains as well.
def test_weights_sum_to_one_over_keys_and_not_over_queries():
    _, weights = attention(normal(2, 3, 5, 4), normal(2, 3, 5, 4, seed=1), normal(2, 3, 5, 6), return_weights=True)
    close(weights.sum(axis=-1), 1, rtol=1e-12)
    for axis in (0, 1, 2):
        assert not np.allclose(weights.sum(axis=axis), 1, atol=0.05)


# PetrochukM/PyTorch-NLP#2: softmax over an axis of length 1 made every weight 1.
def test_one_query_shares_its_weight_among_two_keys_and_gives_it_whole_to_one():
    q = normal(1, 1, 1, 3)
    _, two = attention(q, normal(1, 1, 2, 3, seed=1), normal(1, 1, 2, 3), return_weights=True)
    assert 0 < two[0, 0, 0, 0] < 1 and two.sum() == pytest.approx(1)
    _, one = attention(q, normal(1, 1, 1, 3, seed=1), normal(1, 1, 1, 3), return_weights=True)
    assert one.tolist() == [[[[1.0]]]]


# pytorch/pytorch#42929, #90842: with dropout rows do not sum to 1. This library has none; where a step is
# swapped for one that drops, a weight of 1 becomes 1.25 or 0, and 1 on average.
def test_rows_sum_to_one_until_a_step_that_drops_weights_is_put_in():
    layer, x, rng = MultiHead.random(4, 2, np.random.default_rng(0)), normal(500, 1, 4), np.random.default_rng(7)

    def drop(scores, setting):
        return STEPS.normalise(scores, setting) * (rng.random(scores.shape) >= 0.2) / 0.8

    assert (layer.trace(x)["weights"] == 1).all()
    dropped = layer.trace(x, steps=dataclasses.replace(STEPS, normalise=drop))["weights"]
    assert set(dropped.ravel()) == {0, 1.25}
    assert dropped.mean() == pytest.approx(1, abs=0.05)


# ---- reports from the field, heads and sizes --------------------------------------------------


# pytorch/pytorch#34537: only the average over heads came back.
def test_every_head_has_its_own_weights():
    q = np.array([[100.0, 0], [0, 100.0]]).reshape(1, 2, 1, 2)
    k = np.broadcast_to(np.eye(2), (1, 2, 2, 2))
    _, weights = attention(q, k, k, return_weights=True)
    close(weights, [[[[1, 0]], [[0, 1]]]], atol=1e-12)


# pytorch/pytorch#27623: a value width of its own was rejected.
def test_values_may_have_a_width_of_their_own_and_the_scale_stays_that_of_the_keys():
    layer = MultiHead.random(8, 2, np.random.default_rng(0), d_k=4, d_v=6)
    trace = layer.trace(normal(3, 5, 8))
    assert layer.w_o.shape == (12, 8)
    assert trace["merged"].shape == (3, 5, 12) and trace["output"].shape == (3, 5, 8)
    assert trace.setting.scale == 1 / 2
    assert trace.entry("v_heads").axes[-1] == trace.entry("mixed").axes[-1] == "d_v"
    assert trace.entry("k_heads").axes[-1] == "d_k"


# pytorch/pytorch#188765, PR 192651: an empty batch or an empty sequence crashed.
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("B, t_q, t_k", [(0, 5, 7), (2, 0, 7), (2, 5, 0), (2, 0, 0), (0, 0, 0), (1, 1, 1)])
def test_empty_and_single_batches_and_sequences(B, t_q, t_k, dtype):
    q, k, v = normal(B, 6, t_q, 4, dtype=dtype), normal(B, 2, t_k, 4, dtype=dtype), normal(B, 2, t_k, 3, dtype=dtype)
    for options in ({}, {"mask": causal(t_q, t_k)}, {"mask": padding([0] * B, t_k), "bias": np.zeros((t_q, t_k))}):
        output, weights = attention(q, k, v, **options, return_weights=True)
        assert output.shape == (B, 6, t_q, 3) and weights.shape == (B, 6, t_q, t_k)
        assert output.dtype == dtype and np.isfinite(output).all()
        assert t_k or not output.any(), "with no key to look at there is nothing to mix"
    layer = MultiHead.random(4, 2, np.random.default_rng(0), d_context=3, dtype=dtype)
    assert layer(normal(B, t_q, 4, dtype=dtype), normal(B, t_k, 3, dtype=dtype)).shape == (B, t_q, 4)


def test_one_head_of_width_one_works():
    layer = MultiHead.random(1, 1, np.random.default_rng(0))
    assert layer(normal(1, 1, 1)).shape == (1, 1, 1)
    assert attention(normal(1, 1, 1, 1), normal(1, 1, 1, 1), normal(1, 1, 1, 0)).shape == (1, 1, 1, 0)


# vllm-project/vllm PR 53114, Lightning-AI/litgpt PR 1013: one fused weight, in blocks or interleaved by head.
@pytest.mark.parametrize("order", ["blocks", "interleaved"])
def test_a_fused_weight_has_to_be_taken_apart_in_the_order_in_which_it_was_put_together(order):
    layer, x = MultiHead.random(4, 2, np.random.default_rng(0)), normal(2, 5, 4)
    columns = {"blocks": [0, 1, 2, 3], "interleaved": [0, 1, 6, 7]}  # of q: head 0, then head 1
    step = {"blocks": 4, "interleaved": 2}
    fused = np.empty((4, 12))
    for n, weight in enumerate((layer.w_q, layer.w_k, layer.w_v)):
        fused[:, np.add(columns[order], n * step[order])] = weight

    def unpacked(how):
        parts = [fused[:, np.add(columns[how], n * step[how])] for n in range(3)]
        return MultiHead(*parts, layer.w_o, 2)(x)

    other = "interleaved" if order == "blocks" else "blocks"
    assert np.array_equal(unpacked(order), layer(x))
    assert not np.allclose(unpacked(other), layer(x), atol=0.1)


# pytorch/pytorch#60853, phlippe/uvadlc_notebooks#64: parameters were expected to grow with the heads.
def test_heads_cost_no_parameters():
    for n_heads in (1, 8, 64):
        layer = MultiHead.random(512, n_heads, np.random.default_rng(0), bias=True, dtype=np.float32)
        assert layer.parameters == 1_050_624
    assert MultiHead.random(512, 8, np.random.default_rng(0), dtype=np.float32).parameters == 1_048_576


# datawhalechina/diy-llm#30: one head was given the shape of all of them.
def test_shapes_of_one_head_of_the_stack_and_of_the_concatenation():
    trace = MultiHead.random(12, 3, np.random.default_rng(0)).trace(normal(2, 5, 12))
    assert trace["mixed"][:, 1].shape == (2, 5, 4)
    assert trace["mixed"].shape == (2, 3, 5, 4)
    assert trace["merged"].shape == (2, 5, 12)


# ---- number types -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "types, result",
    [("f2 f2 f2", "f2"), ("f4 f4 f4", "f4"), ("f8 f8 f8", "f8"), ("f2 f4 f2", "f4"), ("f4 f4 f8", "f8"),
     ("i8 i8 i8", "f8"), ("i1 u1 i2", "f8"), ("f2 i1 f2", "f2")],
)  # fmt: skip
def test_the_result_has_the_type_of_the_widest_input(types, result):
    q, k, v = (np.round(normal(1, 2, 3, 4, seed=n) * 2).clip(0).astype(kind) for n, kind in enumerate(types.split()))
    output, weights = attention(q, k, v, mask=causal(3), return_weights=True)
    assert output.dtype == weights.dtype == np.dtype(result)
    close(output, attention(*(x.astype(float) for x in (q, k, v)), mask=causal(3)), rtol=2e-3, atol=1e-3)


def test_lists_are_arrays_too():
    assert attention([[[[1, 0]]]], [[[[1, 0]]]], [[[[3, 4]]]]).tolist() == [[[[3.0, 4.0]]]]


@pytest.mark.parametrize("dtype, error", [(np.float16, 4e-3), (np.float32, 2e-6)])
def test_a_layer_keeps_its_type_and_stays_near_the_float64_result(dtype, error):
    layer = MultiHead.random(12, 3, np.random.default_rng(0), bias=True, dtype=dtype)
    x = normal(2, 5, 12, dtype=dtype)
    wide = dataclasses.replace(
        layer, **{f"{kind}_{n}": getattr(layer, f"{kind}_{n}").astype(float) for kind in "wb" for n in "qkvo"}
    )
    output = layer(x, mask=causal(5))
    assert output.dtype == dtype
    close(output, wide(x.astype(float), mask=causal(5)), atol=error, rtol=error)
    trace = layer.trace(x)
    assert {entry.array.dtype for entry in trace if entry.name != "output"} == {np.dtype(np.float32)}
    assert layer(x.astype(float)).dtype == np.float64


def test_non_finite_input_that_is_not_masked_propagates_as_in_any_framework():
    q, k, v = (normal(1, 1, 3, 2, seed=seed).copy() for seed in range(3))
    v[0, 0, 1, 0] = np.nan
    assert np.isnan(attention(q, k, v)[..., 0]).all() and np.isfinite(attention(q, k, v)[..., 1]).all()
    v[0, 0, 1, 0] = np.inf
    assert np.isposinf(attention(q, k, v)[..., 0]).all()
    assert np.isposinf(attention(q, k, v, mask=causal(3))[0, 0, :, 0]).tolist() == [False, True, True]
    k[0, 0, 1] = np.nan
    assert np.isnan(attention(q, k, v)).all()
    # Only the query that may look at it is hit.
    assert np.isnan(attention(q, k, v, mask=causal(3))).any(axis=-1).ravel().tolist() == [False, True, True]


def test_scores_of_minus_infinity_are_nan_where_no_mask_is_to_blame():
    q, k, v = np.ones((1, 1, 1, 1)), np.full((1, 1, 2, 1), -np.inf), np.ones((1, 1, 2, 1))
    assert np.isnan(attention(q, k, v)).all()
    assert np.isnan(attention(q, k, v, mask=np.array([[True, False]]))).all()
    assert attention(q, k, v, mask=np.array([[False, False]])).item() == 0
    k = np.array([-np.inf, 0.0]).reshape(1, 1, 2, 1)
    assert attention(q, k, v, return_weights=True)[1].ravel().tolist() == [0, 1]


# ---- steps and trace --------------------------------------------------------------------------


def test_steps_are_the_nine_names_in_order():
    assert tuple(field.name for field in dataclasses.fields(Steps)) == STEP_NAMES
    assert STEPS == Steps()
    trace = MultiHead.random(12, 3, np.random.default_rng(0)).trace(normal(2, 5, 12))
    assert tuple(dict.fromkeys(entry.step for entry in trace)) == ("input", *STEP_NAMES)


@pytest.mark.parametrize("name", STEP_NAMES)
def test_a_swapped_step_is_the_one_that_runs(name):
    layer, x, calls = MultiHead.random(12, 3, np.random.default_rng(0)), normal(2, 5, 12), []

    def doubled(*given):
        calls.append(given)
        return 2 * getattr(STEPS, name)(*given)

    swapped = dataclasses.replace(STEPS, **{name: doubled})
    right, wrong = layer.trace(x), layer.trace(x, steps=swapped)
    assert len(calls) == (3 if name in ("project", "split") else 1)
    first = next(n for n, entry in enumerate(right) if entry.step == name)
    for before, after in zip(right.entries[:first], wrong.entries[:first], strict=True):
        assert np.array_equal(before.array, after.array), f"{before.name} comes before {name}"
    assert np.array_equal(wrong.entries[first].array, 2 * right.entries[first].array)
    assert not np.allclose(wrong["output"], right["output"])
    assert np.array_equal(layer(x, steps=swapped), wrong["output"])
    assert np.array_equal(layer(x), right["output"])


def test_a_trace_names_every_array_and_every_axis():
    layer = MultiHead.random(12, 6, np.random.default_rng(0), n_kv_heads=2, d_v=3, d_context=10)
    x, context, keep, bias = normal(2, 5, 12), normal(2, 7, 10), KEEP, normal(5, 7)
    trace = layer.trace(x, context, mask=keep, bias=bias)
    assert [(e.name, e.array.shape, e.axes) for e in trace] == [
        ("x", (2, 5, 12), ("batch", "tokens", "width")),
        ("context", (2, 7, 10), ("batch", "tokens", "width")),
        ("q", (2, 5, 12), ("batch", "tokens", "width")),
        ("k", (2, 7, 4), ("batch", "tokens", "width")),
        ("v", (2, 7, 6), ("batch", "tokens", "width")),
        ("q_heads", (2, 6, 5, 2), ("batch", "heads", "tokens", "d_k")),
        ("k_heads", (2, 2, 7, 2), ("batch", "heads", "tokens", "d_k")),
        ("v_heads", (2, 2, 7, 3), ("batch", "heads", "tokens", "d_v")),
        ("scores", (2, 6, 5, 7), ("batch", "heads", "queries", "keys")),
        ("scaled", (2, 6, 5, 7), ("batch", "heads", "queries", "keys")),
        ("masked", (2, 6, 5, 7), ("batch", "heads", "queries", "keys")),
        ("weights", (2, 6, 5, 7), ("batch", "heads", "queries", "keys")),
        ("mixed", (2, 6, 5, 3), ("batch", "heads", "tokens", "d_v")),
        ("merged", (2, 5, 18), ("batch", "tokens", "width")),
        ("output", (2, 5, 12), ("batch", "tokens", "width")),
    ]
    assert np.array_equal(trace["output"], layer(x, context, mask=keep, bias=bias))
    assert np.array_equal(trace.setting.keep, keep) and trace.setting.d_model == 12
    assert np.array_equal(trace["masked"], np.where(keep, trace["scaled"] + bias, -np.inf))
    heads = trace["q_heads"], trace["k_heads"], trace["v_heads"]
    output, weights = attention(*heads, mask=keep, bias=bias, return_weights=True)
    assert np.array_equal(trace["mixed"], output) and np.array_equal(trace["weights"], weights)


def test_a_trace_prints_as_a_table_and_knows_its_size():
    trace = MultiHead.random(12, 3, np.random.default_rng(0)).trace(normal(2, 5, 12))
    lines = str(trace).splitlines()
    assert lines[0].split() == ["step", "array", "shape", "axes"]
    assert lines[8].split("  ")[0] == "score" and "(2, 3, 5, 5)" in lines[8] and "heads, queries, keys" in lines[8]
    assert len(lines) == 1 + len(trace) == 15
    assert trace.nbytes == sum(entry.array.nbytes for entry in trace)
    assert repr(trace) == "<Trace of 14 arrays, 14.1 KiB>"
    with pytest.raises(KeyError, match=r"no array 'softmax' in this trace; there are x, q, k, v, .*, output"):
        trace["softmax"]


def test_a_layer_with_the_same_seed_is_the_same_layer():
    one, two = (MultiHead.random(12, 3, np.random.default_rng(5), bias=True) for _ in range(2))
    for name in ("w_q", "w_k", "w_v", "w_o", "b_q", "b_k", "b_v", "b_o"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    wide = MultiHead.random(400, 4, np.random.default_rng(5))
    assert wide.w_q.std() == pytest.approx(400**-0.5, rel=0.02)


# ---- bad input --------------------------------------------------------------------------------

Q, K, V = np.ones((2, 6, 5, 4)), np.ones((2, 2, 7, 4)), np.ones((2, 2, 7, 3))


@pytest.mark.parametrize(
    "change, kind, message",
    [
        # ranks and types
        ({"q": np.ones((2, 5, 24))}, ValueError, "q has shape (2, 5, 24); split the width into heads first: split_hea"),
        ({"k": np.ones((7, 4))}, ValueError, "k has shape (7, 4); it must be (batch, heads, tokens, width of a head)"),
        ({"v": np.ones((1, 2, 2, 7, 3))}, ValueError, "v has shape (1, 2, 2, 7, 3); it must be (batch, heads"),
        ({"q": Q * 1j}, TypeError, "q must hold real numbers, not complex128"),
        ({"k": K > 0}, TypeError, "k must hold real numbers, not bool"),
        ({"v": V.astype(str)}, TypeError, "v must hold real numbers, not <U32"),
        ({"q": None}, TypeError, "q must hold real numbers, not object"),
        # sizes that do not fit each other
        ({"k": K[:1]}, ValueError, "q, k and v must share one batch; they are (2, 6, 5, 4), (1, 2, 7, 4), (2, 2, 7, 3"),
        ({"v": V[:1]}, ValueError, "q, k and v must share one batch"),
        ({"k": K[..., :3]}, ValueError, "q (2, 6, 5, 4) and k (2, 2, 7, 3) must share d_k, their last axis; it is 4 a"),
        ({"v": V[:, :, :6]}, ValueError, "k (2, 2, 7, 4) and v (2, 2, 6, 3) must share heads and tokens"),
        ({"v": V[:, :1]}, ValueError, "k (2, 2, 7, 4) and v (2, 1, 7, 3) must share heads and tokens"),
        ({"q": Q[..., :0], "k": K[..., :0]}, ValueError, "q has shape (2, 6, 5, 0); a head needs a d_k of at least 1"),
        ({"q": Q[:, :5]}, ValueError, "5 query heads cannot share 2 key/value heads evenly; H must be a multiple of H"),
        ({"k": K[:, :0], "v": V[:, :0]}, ValueError, "6 query heads cannot share 0 key/value heads evenly"),
        # masks and biases
        ({"mask": np.ones((5, 7))}, TypeError, "mask must be boolean with True = keep, not float64; numbers to add to"),
        ({"mask": np.ones((5, 7), int)}, TypeError, "numbers to add to the scores go to bias="),
        ({"mask": "causal"}, TypeError, "mask must be boolean with True = keep, not <U6"),
        ({"mask": np.ones((6, 5, 7), bool)}, ValueError, "mask has shape (6, 5, 7); is its first axis the batch or th"),
        ({"mask": np.ones(7, bool)}, ValueError, "mask has shape (7,); it must be (T_q, T_k) or (B, H, T_q, T_k)"),
        ({"mask": True}, ValueError, "mask has shape (); it must be (T_q, T_k) or (B, H, T_q, T_k)"),
        ({"mask": causal(7, 5)}, ValueError, "mask of shape (1, 1, 7, 5) does not fit scores (B, H, T_q, T_k) = (2, 6"),
        ({"mask": padding([7] * 3, 7)}, ValueError, "mask of shape (3, 1, 1, 7) does not fit scores"),
        ({"mask": np.ones((2, 2, 5, 7), bool)}, ValueError, "mask of shape (2, 2, 5, 7) does not fit scores"),
        ({"bias": np.ones((5, 7), bool)}, TypeError, "bias must hold real numbers, not bool; a boolean mask, True = k"),
        ({"bias": np.ones((5, 7)) * 1j}, TypeError, "bias must hold real numbers, not complex128"),
        ({"bias": np.ones((2, 5, 7))}, ValueError, "bias has shape (2, 5, 7); is its first axis the batch or the head"),
        ({"bias": np.ones((5, 6))}, ValueError, "bias of shape (1, 1, 5, 6) does not fit scores (B, H, T_q, T_k) = (2"),
        ({"bias": 1.0}, ValueError, "bias has shape (); it must be (T_q, T_k) or (B, H, T_q, T_k)"),
        # scale and softcap
        ({"scale": np.nan}, ValueError, "scale must be finite, not nan; None means 1/√d_k"),
        ({"scale": np.inf}, ValueError, "scale must be finite, not inf"),
        ({"scale": True}, TypeError, "scale must be a number, not True (bool)"),
        ({"scale": "0.5"}, TypeError, "scale must be a number, not '0.5' (str)"),
        ({"scale": 1j}, TypeError, "scale must be a number, not 1j (complex)"),
        ({"softcap": 0}, ValueError, "softcap must be above 0, not 0.0; None switches it off"),
        ({"softcap": -2.0}, ValueError, "softcap must be above 0, not -2.0"),
        ({"softcap": np.inf}, ValueError, "softcap must be finite, not inf; None switches it off"),
        ({"softcap": np.nan}, ValueError, "softcap must be finite, not nan"),
        ({"softcap": False}, TypeError, "softcap must be a number, not False (bool); None switches it off"),
        ({"softcap": "2"}, TypeError, "softcap must be a number, not '2' (str)"),
    ],
)  # fmt: skip
def test_attention_refuses_what_does_not_fit_and_says_why(change, kind, message):
    given = {"q": Q, "k": K, "v": V, **change}
    with pytest.raises(kind) as caught:
        attention(given.pop("q"), given.pop("k"), given.pop("v"), **given)
    assert message in str(caught.value)


def test_numbers_of_numpy_are_numbers():
    assert attention(Q, K, V, scale=np.float32(0.5), softcap=np.int64(2)).shape == (2, 6, 5, 3)


W_Q, W_K, W_V, W_O = np.ones((12, 12)), np.ones((10, 4)), np.ones((10, 6)), np.ones((18, 12))


@pytest.mark.parametrize(
    "change, kind, message",
    [
        ({"w_q": np.ones(12)}, ValueError, "w_q has shape (12,); it must be (width in, width out)"),
        ({"w_v": W_V > 0}, TypeError, "w_v must hold real numbers, not bool"),
        ({"n_heads": 5, "n_kv_heads": None}, HeadsDoNotDivide, "d_model 12 does not divide evenly across 5 heads; 1,"),
        ({"n_heads": 6.0}, TypeError, "n_heads must be a whole number, not 6.0 (float); write 6"),
        ({"n_heads": 0}, ValueError, "n_heads must be at least 1, not 0"),
        ({"n_kv_heads": True}, TypeError, "n_kv_heads must be a whole number, not True (bool)"),
        ({"n_kv_heads": 4}, ValueError, "6 heads cannot share 4 key/value heads evenly; 1, 2, 3, 6 would do"),
        ({"n_kv_heads": 12}, ValueError, "6 heads cannot share 12 key/value heads evenly; 1, 2, 3, 6 would do"),
        ({"w_k": np.ones((10, 5))}, ValueError, "w_k makes 5 columns; 2 key heads as wide as the query heads (d_k 2)"),
        ({"w_v": np.ones((10, 5))}, ValueError, "w_v makes 5 columns; 2 value heads cannot share them evenly"),
        ({"w_v": np.ones((9, 6))}, ValueError, "w_k (10, 4) and w_v (9, 6) read one sequence: their first axis must a"),
        ({"w_o": np.ones((12, 12))}, ValueError, "w_o has 12 rows; 6 heads of width 3 need 18"),
        ({"b_q": np.ones(11)}, ValueError, "b_q has shape (11,); w_q (12, 12) needs (12,)"),
        ({"b_o": np.ones((1, 12))}, ValueError, "b_o has shape (1, 12); it must be (width out)"),
        ({"b_v": np.ones(6) * 1j}, TypeError, "b_v must hold real numbers, not complex128"),
    ],
)  # fmt: skip
def test_a_layer_refuses_weights_that_do_not_fit_and_says_why(change, kind, message):
    fits = {"w_q": W_Q, "w_k": W_K, "w_v": W_V, "w_o": W_O, "n_heads": 6, "n_kv_heads": 2}
    MultiHead(**fits)
    with pytest.raises(kind) as caught:
        MultiHead(**{**fits, **change})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "x, context, options, message",
    [
        (np.ones((2, 5, 11)), np.ones((2, 7, 10)), {}, "x has shape (2, 5, 11); this layer reads a width of 12"),
        (np.ones((5, 12)), np.ones((2, 7, 10)), {}, "x has shape (5, 12); it must be (batch, tokens, width)"),
        (np.ones((2, 5, 12)), np.ones((2, 7, 12)), {}, "context has shape (2, 7, 12); this layer reads a width of 10"),
        (np.ones((2, 5, 12)), np.ones((3, 7, 10)), {}, "q, k and v must share one batch; they are (2, 6, 5, 2), (3, 2"),
        (np.ones((2, 5, 12)), None, {}, "w_k reads width 10, x is (2, 5, 12): this layer needs a context"),
        (np.ones((2, 5, 12)), np.ones((2, 7, 10)), {"mask": causal(5)}, "mask of shape (1, 1, 5, 5) does not fit scor"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("run", ["__call__", "trace"])
def test_a_layer_refuses_input_that_does_not_fit_and_says_why(run, x, context, options, message):
    layer = MultiHead(W_Q, W_K, W_V, W_O, 6, 2)
    with pytest.raises(ValueError) as caught:
        getattr(layer, run)(x, context, **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "sizes, kind, message",
    [
        ({"n_heads": 5}, HeadsDoNotDivide, "d_model 12 does not divide evenly across 5 heads"),
        ({"d_model": 0}, ValueError, "d_model must be at least 1, not 0"),
        ({"d_k": 0}, ValueError, "d_k must be at least 1, not 0"),
        ({"d_v": 2.5}, TypeError, "d_v must be a whole number, not 2.5 (float)"),
        ({"d_context": "10"}, TypeError, "d_context must be a whole number, not '10' (str)"),
        ({"n_kv_heads": 2}, ValueError, "3 heads cannot share 2 key/value heads evenly; 1, 3 would do"),
    ],
)
def test_a_random_layer_refuses_sizes_that_do_not_fit(sizes, kind, message):
    with pytest.raises(kind) as caught:
        MultiHead.random(**{"d_model": 12, "n_heads": 3, "rng": np.random.default_rng(0), **sizes})
    assert message in str(caught.value)
