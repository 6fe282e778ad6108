"""Masks: True = keep, and which key a query stands at."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_lib.attention import attention
from mha_lib.masks import causal, padding, window

law = settings(max_examples=60, deadline=None, derandomize=True)
size = st.integers(0, 7)
shift = st.integers(-9, 9)
reach = st.none() | st.integers(0, 8)


def rows(mask):
    """A (T_q, T_k) mask as text, one word a query."""
    return ["".join(map(str, row)) for row in np.asarray(mask).astype(int)]


# ---- causal -----------------------------------------------------------------------------------


# rasbt/LLMs-from-scratch#1061: an upper triangle of "blocked" went to a function where True = keep.
def test_true_means_keep_so_the_first_query_sees_itself_alone():
    assert rows(causal(4)) == ["1000", "1100", "1110", "1111"]
    assert np.array_equal(causal(4), ~np.triu(np.ones((4, 4), bool), k=1))


# pytorch/pytorch#108108, Dao-AILab/flash-attention#517: which corner a mask that is not square starts from.
def test_causal_alignment_when_queries_and_keys_differ_in_number():
    assert rows(causal(2, 5)) == ["11110", "11111"]
    assert rows(causal(2, 5, offset=0)) == ["10000", "11000"]
    assert rows(causal(5, 2)) == ["00", "00", "00", "10", "11"]
    assert rows(causal(5, 2, offset=0)) == ["10", "11", "11", "11", "11"]


@law
@given(size, size)
def test_the_last_query_stands_at_the_last_key_by_default(t_q, t_k):
    assert np.array_equal(causal(t_q, t_k), causal(t_q, t_k, offset=t_k - t_q))
    assert causal(t_q, t_k)[-1:].all()
    assert np.array_equal(causal(t_k), causal(t_k, t_k))


@law
@given(size, size, shift)
def test_an_offset_of_one_more_is_the_next_query_or_one_key_less(t_q, t_k, offset):
    mask = causal(t_q, t_k, offset=offset)
    assert mask.dtype == bool and mask.shape == (t_q, t_k)
    assert np.array_equal(causal(t_q + 1, t_k, offset=offset)[1:], causal(t_q, t_k, offset=offset + 1))
    assert np.array_equal(causal(t_q, t_k + 1, offset=offset + 1)[:, 1:], mask)
    assert np.array_equal(causal(t_q, t_k, offset=np.int32(offset)), mask)


@law
@given(size, size, st.lists(shift, max_size=4), reach, reach)
def test_one_offset_a_sample_stacks_the_masks_of_the_samples(t_q, t_k, offsets, left, right):
    offsets = np.array(offsets, dtype=int)
    for make, sides in ((causal, {}), (window, {"left": left, "right": right})):
        stacked = make(t_q, t_k, **sides, offset=offsets)
        assert stacked.dtype == bool and stacked.shape == (len(offsets), 1, t_q, t_k)
        for sample, offset in zip(stacked, offsets, strict=True):
            assert np.array_equal(sample[0], make(t_q, t_k, **sides, offset=offset))


# ---- window -----------------------------------------------------------------------------------


def test_a_window_reaches_left_and_right_of_the_query():
    assert rows(window(5, left=1, right=2)) == ["11100", "11110", "01111", "00111", "00011"]
    assert rows(window(2, 5, left=1, right=0)) == ["00110", "00011"]
    assert rows(window(2, 5, left=1, right=0, offset=0)) == ["10000", "11000"]
    assert rows(window(3, left=0, right=0)) == ["100", "010", "001"]


@law
@given(size, size, shift, reach, reach)
def test_windows_obey_their_laws(t_q, t_k, offset, left, right):
    mask = window(t_q, t_k, left, right, offset=offset)
    assert mask.dtype == bool and mask.shape == (t_q, t_k)
    assert np.array_equal(window(t_q, t_k, offset=offset), np.ones((t_q, t_k), bool))
    assert np.array_equal(window(t_q, t_k, None, 0, offset=offset), causal(t_q, t_k, offset=offset))
    # Two sides are two masks combined, and what i may see of j seen from j is the mirror image.
    sides = window(t_q, t_k, left, offset=offset) & window(t_q, t_k, right=right, offset=offset)
    assert np.array_equal(mask, sides)
    assert np.array_equal(window(t_k, t_q, right, left, offset=-offset), mask.T)
    assert np.array_equal(window(t_q, t_k, left, right), window(t_q, t_k, left, right, offset=t_k - t_q))


# ---- padding ----------------------------------------------------------------------------------


@law
@given(st.lists(st.integers(0, 6), max_size=4), st.integers(6, 8))
def test_padding_keeps_the_first_keys_of_every_sample(lengths, t_k):
    mask = padding(lengths, t_k)
    assert mask.dtype == bool and mask.shape == (len(lengths), 1, 1, t_k)
    assert mask.sum(axis=-1).ravel().tolist() == lengths
    assert (np.diff(mask.astype(int), axis=-1) <= 0).all(), "real tokens come first"


def test_padding_takes_arrays_and_combines_with_a_causal_mask():
    both = causal(3) & padding(np.array([3, 1], dtype=np.uint8), 3)
    assert both.shape == (2, 1, 3, 3)
    assert rows(both[0, 0]) == ["100", "110", "111"]
    assert rows(both[1, 0]) == ["100", "100", "100"]


# pytorch/pytorch#27968: a sample without a single real token gave NaN for the whole batch.
def test_a_sample_without_tokens_gives_zeros_and_a_sample_of_one_token_looks_at_it():
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 4, 2, 5, 3))
    output, weights = attention(q, k, v, mask=padding([5, 3, 1, 0], 5), return_weights=True)
    assert np.array_equal(weights[2], np.broadcast_to([1.0, 0, 0, 0, 0], (2, 5, 5)))
    assert not weights[3].any() and not output[3].any()
    np.testing.assert_allclose(weights[:3].sum(axis=-1), 1)
    assert not weights[1, ..., 3:].any()


# ---- what is no mask --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make, kind, message",
    [
        (lambda: causal(3.0), TypeError, "t_q must be a whole number, not 3.0 (float); write 3"),
        (lambda: causal(True), TypeError, "t_q must be a whole number, not True (bool)"),
        (lambda: causal(-1), ValueError, "t_q must be at least 0, not -1"),
        (lambda: causal(2, -5), ValueError, "t_k must be at least 0, not -5"),
        (lambda: causal(2, "5"), TypeError, "t_k must be a whole number, not '5' (str)"),
        (lambda: causal(2, offset=1.0), TypeError, "offset must be a whole number, or one a sample in an array (B,)"),
        (lambda: causal(2, offset=True), TypeError, "got bool of shape ()"),
        (lambda: causal(2, offset=[[1], [2]]), TypeError, "of shape (2, 1)"),
        (lambda: window(2, left=-1), ValueError, "left must be at least 0, not -1"),
        (lambda: window(2, right=-1), ValueError, "right must be at least 0, not -1"),
        (lambda: window(2, right=0.5), TypeError, "right must be a whole number, not 0.5 (float)"),
        (lambda: window(2, offset="1"), TypeError, "offset must be a whole number"),
        (lambda: padding([3, 6], 5), ValueError, "length 6 is outside 0 to 5, the number of keys"),
        (lambda: padding([3, -1], 5), ValueError, "length -1 is outside 0 to 5"),
        (lambda: padding(3, 5), TypeError, "of shape ()"),
        (lambda: padding([3.0, 2.0], 5), TypeError, "one a sample; got float64 of shape (2,)"),
        (lambda: padding([True, False], 2), TypeError, "one a sample; got bool of shape (2,)"),
        (lambda: padding([[True, False]], 2), TypeError, "one a sample; got bool of shape (1, 2)"),
        (lambda: padding([1], None), TypeError, "t_k must be a whole number, not None (NoneType)"),
    ],
)
def test_what_is_no_mask_is_refused_in_words(make, kind, message):
    with pytest.raises(kind) as caught:
        make()
    assert message in str(caught.value)
