"""Sizes, shapes and the words in which an impossible size is refused."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_lib.attention import MultiHead
from mha_lib.dims import (
    LARGEST_SIZE,
    STEP_NAMES,
    Dims,
    HeadsDoNotDivide,
    in_words,
    valid_head_counts,
    whole_number,
)

law = settings(max_examples=60, deadline=None, derandomize=True)
SIZES = ("batch", "tokens", "d_model", "n_heads")


@st.composite
def any_dims(draw):
    n_heads, d_k = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    return Dims(draw(st.integers(1, 4)), draw(st.integers(1, 6)), n_heads * d_k, n_heads)


def test_the_worked_example_has_the_shapes_of_the_article():
    dims = Dims(batch=2, tokens=10, d_model=512, n_heads=8)
    assert dims == Dims()
    assert dims.d_k == 64
    assert dims.shape("score") == (2, 8, 10, 10)
    assert dims.score_elements == 1600
    assert dims.score_bytes() == 6400
    assert dims.score_bytes(itemsize=2) == 3200
    assert dims.shape("output") == (2, 10, 512)


def test_the_nine_steps_in_order_follow_the_input():
    assert STEP_NAMES == ("project", "split", "score", "scale", "mask", "normalise", "mix", "merge", "output")
    steps = [array.step for array in Dims().arrays]
    assert tuple(dict.fromkeys(steps)) == ("input", *STEP_NAMES)


@law
@given(any_dims())
def test_every_array_is_the_one_a_real_layer_makes(dims):
    layer = MultiHead.random(dims.d_model, dims.n_heads, np.random.default_rng(0))
    trace = layer.trace(np.ones((dims.batch, dims.tokens, dims.d_model)))
    made = [(entry.step, entry.name, entry.array.shape, entry.axes) for entry in trace]
    assert made == [tuple(array) for array in dims.arrays]
    assert [array.elements for array in dims.arrays] == [entry.array.size for entry in trace]
    assert dims.trace_bytes(itemsize=8) == trace.nbytes + 8 * layer.parameters


@law
@given(any_dims())
def test_shapes_fit_their_axis_names_and_each_other(dims):
    assert dims.d_k * dims.n_heads == dims.d_model
    assert dims.score_elements == dims.batch * dims.n_heads * dims.tokens**2
    assert all(len(array.shape) == len(array.axes) for array in dims.arrays)
    assert all(array.nbytes(2) == 2 * array.elements for array in dims.arrays)
    assert all(dims.shape(array.step) == array.shape for array in dims.arrays)
    assert dims.n_heads in dims.valid_head_counts


def test_a_step_that_does_not_exist_is_answered_with_those_that_do():
    with pytest.raises(KeyError, match=r"no step 'softmax'; the steps are input, project, .*, output"):
        Dims().shape("softmax")


def test_dims_cannot_be_changed_by_accident_and_check_again_when_replaced():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Dims().tokens = 11
    assert dataclasses.replace(Dims(), tokens=11).shape("score") == (2, 8, 11, 11)
    with pytest.raises(HeadsDoNotDivide):
        dataclasses.replace(Dims(), n_heads=7)


# ---- widths that do not divide ----------------------------------------------------------------


# pytorch/pytorch#28719 and rasbt/LLMs-from-scratch#444: a message without numbers helped nobody, and the
# second user had swapped layers and heads.
@pytest.mark.parametrize(
    "d_model, n_heads, message",
    [
        (48, 5, "d_model 48 does not divide evenly across 5 heads; 1, 2, 3, 4, 6, 8, 12, … do"),
        (1600, 48, "d_model 1600 does not divide evenly across 48 heads; …, 20, 25, 32, 40, 50, 64, 80, … do"),
        (48, 100, "d_model 48 does not divide evenly across 100 heads; …, 4, 6, 8, 12, 16, 24, 48 do"),
        (7, 3, "d_model 7 does not divide evenly across 3 heads; 1, 7 do"),
        (1, 2, "d_model 1 does not divide evenly across 2 heads; only 1 does"),
    ],
)
def test_heads_that_do_not_divide_are_answered_with_both_numbers_and_the_counts_that_work(d_model, n_heads, message):
    with pytest.raises(ValueError) as caught:
        Dims(d_model=d_model, n_heads=n_heads)
    assert str(caught.value) == message
    assert (caught.value.d_model, caught.value.n_heads) == (d_model, n_heads)
    assert caught.value.valid == valid_head_counts(d_model)


@law
@given(st.integers(1, 500), st.integers(1, 600))
def test_suggested_head_counts_all_work_and_surround_the_one_asked_for(d_model, n_heads):
    if d_model % n_heads == 0:
        assert Dims(d_model=d_model, n_heads=n_heads).d_k * n_heads == d_model
        return
    with pytest.raises(HeadsDoNotDivide) as caught:
        Dims(d_model=d_model, n_heads=n_heads)
    suggested = [int(word) for word in caught.value.suggestion().split(", ") if word != "…"]
    assert all(d_model % count == 0 for count in suggested)
    assert len(suggested) == min(7, len(caught.value.valid))
    assert max(count for count in caught.value.valid if count < n_heads) in suggested
    above = [count for count in caught.value.valid if count > n_heads]
    assert not above or above[0] in suggested


@law
@given(st.integers(1, 3000))
def test_valid_head_counts_are_all_the_divisors_in_order(d_model):
    assert valid_head_counts(d_model) == tuple(n for n in range(1, d_model + 1) if d_model % n == 0)


# ---- sizes that are no sizes ------------------------------------------------------------------


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize(
    "value, kind, message",
    [
        (True, TypeError, "{} must be a whole number, not True (bool)"),
        (np.True_, TypeError, "{} must be a whole number, not True (bool)"),
        (8.0, TypeError, "{} must be a whole number, not 8.0 (float); write 8"),
        (np.float64(8), TypeError, "{} must be a whole number, not 8.0 (float64); write 8"),
        (np.float32(8), TypeError, "{} must be a whole number, not 8.0 (float32); write 8"),
        (8.5, TypeError, "{} must be a whole number, not 8.5 (float)"),
        (float("nan"), TypeError, "{} must be a whole number, not nan (float)"),
        (float("inf"), TypeError, "{} must be a whole number, not inf (float)"),
        ("8", TypeError, "{} must be a whole number, not '8' (str); write 8, without quotes"),
        ("eight", TypeError, "{} must be a whole number, not 'eight' (str)"),
        (None, TypeError, "{} must be a whole number, not None (NoneType)"),
        ([8], TypeError, "{} must be a whole number, not [8] (list)"),
        (8 + 0j, TypeError, "{} must be a whole number, not (8+0j) (complex)"),
        (0, ValueError, "{} must be at least 1, not 0"),
        (-3, ValueError, "{} must be at least 1, not -3"),
        (np.int64(-3), ValueError, "{} must be at least 1, not -3"),
        (10**12, ValueError, "{} 1,000,000,000,000 is beyond 10,000,000, the largest size this course computes with"),
        (10**5000, ValueError, "{} 10^5000 is beyond 10,000,000, the largest size this course computes with"),
        (-(10**5000), ValueError, "{} must be at least 1, not -10^5000"),
    ],
    ids=lambda value: str(value)[:20] if not isinstance(value, int) or abs(value) < 10**13 else "huge",
)
def test_a_size_that_is_no_size_is_refused_in_words(name, value, kind, message):
    with pytest.raises(kind) as caught:
        Dims(**{name: value})
    assert str(caught.value) == message.format(name)


@pytest.mark.parametrize("kind", [np.int8, np.uint8, np.int32, np.int64, np.uint64])
def test_numpy_integers_are_sizes_and_become_plain_ints(kind):
    dims = Dims(kind(2), kind(10), kind(64), kind(8))
    assert dims == Dims(2, 10, 64, 8)
    assert {type(getattr(dims, name)) for name in SIZES} == {int}


def test_bounds_of_a_whole_number():
    assert whole_number("t_k", 0, least=0) == 0
    assert whole_number("t_k", LARGEST_SIZE) == LARGEST_SIZE
    with pytest.raises(ValueError, match="t_k must be at least 0, not -1"):
        whole_number("t_k", -1, least=0)
    with pytest.raises(ValueError, match="t_k 10,000,001 is beyond"):
        whole_number("t_k", LARGEST_SIZE + 1)


# ---- bytes in words ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "nbytes, words",
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (1023, "1,023 bytes"),
        (1024, "1 KiB"),
        (6400, "6.25 KiB"),
        (12_345, "12.1 KiB"),
        (2**20 - 1, "1 MiB"),
        (32 * 2**20, "32 MiB"),
        (576 * 2**20, "576 MiB"),
        (64 * 16 * 1024 * 1024 * 8, "8 GiB"),
        (2**80, "1,073,741,824 PiB"),
    ],
)
def test_bytes_in_words(nbytes, words):
    assert in_words(nbytes) == words
