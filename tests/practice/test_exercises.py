"""Every checker catches every mistake it knows, by name; every right answer passes; no verdict gives it away."""

import re
import time

import numpy as np
import pytest

from mha_lib import attention as library
from mha_lib.attention import softmax
from mha_lib.mistakes import CATALOGUE
from mha_lib.practice import exercises, judge
from mha_lib.practice.exercises import EXERCISES, judged, named, verdict
from mha_lib.practice.mutants import attend_with_einsum, layer_as_a_sum_over_heads, rights

ALL = [(exercise, wrong) for exercise in EXERCISES for wrong in exercise.wrongs]
each_exercise = pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
each_mistake = pytest.mark.parametrize(
    ("exercise", "wrong"), ALL, ids=[f"{exercise.name}: {wrong.name}" for exercise, wrong in ALL]
)


# ---- right answers, written independently of each other; more of them are in mutants.rights


def attend_scaling_first(q, k, v):
    """As frameworks do for half precision: the queries are scaled, and the scores never grow large."""
    scores = (q * q.shape[-1] ** -0.5) @ np.moveaxis(k, -1, -2)
    grown = np.exp((scores - scores.max(-1, keepdims=True)).astype(np.float64))
    return (grown @ v) / grown.sum(-1, keepdims=True)


def masked_of_the_library(q, k, v, mask):
    return library.attention(q, k, v, mask=mask)


def masked_one_query_at_a_time(q, k, v, mask):
    keep = np.broadcast_to(mask, (*q.shape[:3], k.shape[2]))
    out = np.zeros((*q.shape[:3], v.shape[-1]))
    for place in np.ndindex(q.shape[:3]):
        seen = keep[place]
        if seen.any():
            scores = k[place[:2]][seen].astype(float) @ q[place] / q.shape[-1] ** 0.5
            out[place] = softmax(scores, axis=0) @ v[place[:2]][seen]
    return out


def split_by_slices(x, n_heads):
    return np.stack(np.split(x, n_heads, axis=-1), axis=1)


def split_with_einsum(x, n_heads):
    return np.einsum("bthd->bhtd", x.reshape(*x.shape[:2], n_heads, -1))


def merge_by_joining(x):
    return np.concatenate(list(np.moveaxis(x, 1, 0)), axis=-1)


def merge_with_swapped_axes(x):
    return np.swapaxes(x, 1, 2).reshape(x.shape[0], x.shape[2], -1)


def layer_torch_style(x, W_Q, W_K, W_V, W_O, n_heads):
    """One fused product, then heads folded into the batch, as nn.MultiheadAttention does it."""
    B, T, D = x.shape
    fused = x @ np.concatenate([W_Q, W_K, W_V], axis=1)
    folded = fused.reshape(B, T, 3, n_heads, -1).transpose(2, 0, 3, 1, 4).reshape(3, B * n_heads, T, -1)
    q, k, v = folded
    weights = softmax(q @ k.transpose(0, 2, 1) / (D // n_heads) ** 0.5, axis=-1)
    return (weights @ v).reshape(B, n_heads, T, -1).transpose(0, 2, 1, 3).reshape(B, T, D) @ W_O


def layer_one_sample_at_a_time(x, W_Q, W_K, W_V, W_O, n_heads):
    return np.concatenate([layer_as_a_sum_over_heads(sample[None], W_Q, W_K, W_V, W_O, n_heads) for sample in x])


def shapes_written_out(batch, tokens, d_model, n_heads):
    return {
        "project": (batch, tokens, d_model),
        "split": (batch, n_heads, tokens, d_model // n_heads),
        "score": [batch, n_heads, tokens, tokens],
        "mix": (batch, n_heads, tokens, d_model // n_heads),
        "merge": (batch, tokens, n_heads * (d_model // n_heads)),
        "output": np.zeros((batch, tokens, d_model)).shape,
        "more": "than asked for",
    }


def attend_in_single_precision(q, k, v):
    return attend_with_einsum(*(a.astype(np.float32) for a in (q, k, v)))


RIGHT = {
    "attend": [
        attend_in_single_precision,
        attend_scaling_first,
    ],
    "masked_attend": [masked_of_the_library, masked_one_query_at_a_time],
    "split_heads": [split_by_slices, split_with_einsum, library.split_heads],
    "merge_heads": [merge_by_joining, merge_with_swapped_axes, library.merge_heads],
    "multi_head": [layer_torch_style, layer_one_sample_at_a_time],
    "step_shapes": [shapes_written_out],
}
ALL_RIGHT = [(name, function) for name, functions in RIGHT.items() for function in (*rights(named(name)), *functions)]


@pytest.mark.parametrize(
    ("name", "function"), ALL_RIGHT, ids=[f"{name}: {function.__name__}" for name, function in ALL_RIGHT]
)
def test_right_answers_of_every_style_pass(name, function):
    found = verdict(function, name)
    assert found.passed, found.said
    assert all(fine for _, fine in found.cases)
    assert not found.mistake


def test_every_exercise_has_right_answers_to_try():
    assert set(RIGHT) == {exercise.name for exercise in EXERCISES}


# ---- the mistakes


@each_mistake
def test_every_listed_mistake_is_caught_and_called_by_its_name(exercise, wrong):
    found = verdict(wrong.function, exercise.name)
    assert found.state == "wrong"
    assert found.mistake == (wrong.name, wrong.misconception, wrong.looks)


@each_exercise
def test_what_an_exercise_lists(exercise):
    names = [wrong.name for wrong in exercise.wrongs]
    assert len(set(names)) == len(names) >= 2
    assert all(re.fullmatch(r"M(1[0-7]|[1-9])", wrong.misconception) and wrong.looks for wrong in exercise.wrongs)
    assert len(exercise.arguments) == len(exercise.cases[0].arguments)
    assert len({case.tries for case in exercise.cases}) == len(exercise.cases)
    assert all(case.broke.endswith((".", "?")) for case in exercise.cases)


def test_the_layer_knows_every_mistake_of_the_catalogue_that_needs_no_mask():
    unmasked = {
        mistake.name for mistake in CATALOGUE if mistake.caught_by in ("distinct sizes", "row sums", "permutation")
    }
    assert unmasked <= {wrong.name for wrong in named("multi_head").wrongs}
    assert len(unmasked) >= 19


@each_exercise
def test_ordinary_sizes_differ_and_are_above_one(exercise):
    sizes = [
        size for argument in exercise.cases[0].arguments if isinstance(argument, np.ndarray) for size in argument.shape
    ]
    if exercise.name in ("attend", "masked_attend"):
        B, H, t_q, d_k = exercise.cases[0].arguments[0].shape
        sizes = [B, H, t_q, d_k, *exercise.cases[0].arguments[2].shape[2:]]
    elif exercise.name == "multi_head":
        sizes = [*exercise.cases[0].arguments[0].shape, exercise.cases[0].arguments[-1]]
    elif exercise.name in ("split_heads", "merge_heads"):
        sizes = [*exercise.cases[1].arguments[0].shape]
    else:
        sizes = [*exercise.cases[0].arguments]
    assert len(set(sizes)) == len(sizes) and min(sizes) > 1


@pytest.mark.parametrize(
    ("name", "tried"),
    [
        ("masked_attend", "a sample with nothing to see"),
        ("masked_attend", "NaN behind the mask"),
        ("masked_attend", "a causal mask, 5 queries and 7 keys"),
        ("masked_attend", "numbers in float16"),
        ("attend", "one head, d_k 6"),
        ("attend", "one query and two keys"),
    ],
)
def test_the_edges_are_tried(name, tried):
    assert tried in [case.tries for case in named(name).cases]


def test_each_edge_catches_what_only_it_can():
    """A function that is wrong at one edge alone fails that case alone, and the verdict says which."""

    def nan_on_an_empty_row(q, k, v, mask):
        right = library.attention(q, k, v, mask=mask)
        empty = ~np.broadcast_to(mask, (*q.shape[:3], k.shape[2])).any(axis=-1)
        return np.where(empty[..., None], np.nan, right)

    def only_square(q, k, v):
        return library.attention(q, k, v)[..., : q.shape[2], :] if q.shape[2] == k.shape[2] else 0 * q

    found = verdict(nan_on_an_empty_row, "masked_attend")
    assert [tries for tries, fine in found.cases if not fine] == [
        "a sample with nothing to see",
        "a mask without a pattern, d_k 6",
        "a first query that sees nothing",
    ]
    assert found.said.startswith("With a sample with nothing to see: there is NaN in the result.")
    assert dict(verdict(only_square, "attend").cases)["as many queries as keys"]
    assert not verdict(only_square, "attend").passed


def constant(q, k, v):
    """Right for d_k = 4 alone."""
    return library.attention(q, k, v, scale=0.5)


def whole_root(q, k, v):
    return library.attention(q, k, v, scale=1 / int(np.sqrt(q.shape[-1])))


def truncating(q, k, v):
    out = np.zeros_like(q, shape=(*q.shape[:3], v.shape[-1]))
    out[...] = library.attention(q, k, v)
    return out


def one_key_is_none(q, k, v):
    return library.attention(q, k, v) * (k.shape[2] > 1)


def two_samples(q, k, v):
    out = library.attention(q, k, v)
    out[2:] = 0
    return out


@pytest.mark.parametrize("function", [constant, whole_root, truncating, one_key_is_none, two_samples])
def test_right_by_accident_is_not_right(function):
    assert verdict(function, "attend").state == "wrong"


def masked(change):
    return lambda q, k, v, mask: library.attention(
        q, k, v, mask=change(np.broadcast_to(mask, (*q.shape[:3], k.shape[2])))
    )


def nan_on_single_empty_rows(q, k, v, mask):
    right = library.attention(q, k, v, mask=mask)
    keep = np.broadcast_to(mask, (*q.shape[:3], k.shape[2]))
    empty = ~keep.any(axis=-1) & keep.any(axis=(1, 2, 3), keepdims=True)[..., 0]
    return np.where(empty[..., None], np.nan, right)


def clean_of_nan_alone(q, k, v, mask):
    """A weight of 0 times an infinite value."""
    weights = library.attention(q, np.nan_to_num(k), np.eye(k.shape[2])[None, None] + 0 * k[..., :1], mask=mask)
    return weights @ np.where(np.isnan(v), 0, v)


@pytest.mark.parametrize(
    "function",
    [
        masked(lambda keep: keep[:, :1]),
        masked(lambda keep: keep[:, :, :1]),
        masked(lambda keep: keep[:1]),
        nan_on_single_empty_rows,
        clean_of_nan_alone,
    ],
)
def test_a_mask_that_is_only_partly_used_is_found(function):
    assert verdict(function, "masked_attend").state == "wrong"


def split_by_assumed_strides(x, n_heads):
    """As if every array lay in memory without gaps and in order."""
    (B, T, D), step = x.shape, x.itemsize
    strides = (T * D * step, D // n_heads * step, D * step, step)
    return np.lib.stride_tricks.as_strided(x, (B, n_heads, T, D // n_heads), strides).copy()


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("merge_heads", lambda x: np.squeeze(x.transpose(0, 2, 1, 3).reshape(len(x), x.shape[2], -1))),
        ("split_heads", split_by_assumed_strides),
    ],
)  # fmt: skip
def test_sizes_of_one_and_numbers_out_of_order_are_tried(name, function):
    assert verdict(function, name).state == "wrong"


@pytest.mark.parametrize("shift", [lambda s: s.mean(axis=-1, keepdims=True), lambda s: s.min(axis=-1, keepdims=True)])
def test_what_is_wrong_in_one_case_alone_borrows_no_name(shift):
    """Its one NaN is that of many mistakes."""

    def attend(q, k, v):
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        grown = np.exp(scores - shift(scores))
        return grown / grown.sum(axis=-1, keepdims=True) @ v

    found = verdict(attend, "attend")
    assert [tries for tries, fine in found.cases if not fine] == ["scores in the thousands"]
    assert found.mistake == () or found.mistake[0] == "softmax without subtracting the maximum"


def test_the_commonest_mask_is_named():
    def masked_attend(q, k, v, mask):
        scores = np.where(mask, q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]), -1e9)
        return softmax(scores, axis=-1) @ v

    assert verdict(masked_attend, "masked_attend").mistake[0].startswith("masked logit set to −1e9")


def test_shapes_as_lists_are_named_too():
    def step_shapes(batch, tokens, d_model, n_heads):
        return {**shapes_written_out(batch, tokens, d_model, n_heads), "score": [batch, tokens, tokens]}

    assert verdict(step_shapes, "step_shapes").mistake[0] == "scores without heads"


def test_what_a_learner_does_to_numpy_ends_with_the_check():
    def attend(q, k, v):
        np.exp = None
        return q

    exp = np.exp
    assert judged(attend, named("attend")).state == "wrong"
    assert np.exp is exp
    for _ in range(3):  # whichever process comes next
        assert judged(attend_with_einsum, named("attend")).passed


def test_a_helper_that_raises_is_told_at_the_line_that_called_it():
    source = "def helper(q):\n    return q + undefined\n\n\ndef attend(q, k, v):\n    return helper(q)\n"
    names = {}
    exec(compile(source, "<cell>", "exec"), names)
    found = verdict(names["attend"], "attend", "def attend(q, k, v):\n    return helper(q)\n")
    assert "In line 2, `return helper(q)`." in found.said


def test_a_mistake_of_ones_own_gets_no_name():
    found = verdict(lambda q, k, v: np.full((*q.shape[:3], v.shape[-1]), 0.25), "attend")
    assert found.state == "wrong" and found.mistake == ()
    assert "the shape is right, and the numbers are wrong" in found.said


# ---- what people reported


def test_a_loop_that_overwrites_its_own_projections_is_named():
    """The loop computes key from key and value from key, head after head (fchollet/…-notebooks#261)."""

    def multi_head(x, W_Q, W_K, W_V, W_O, n_heads):
        heads = []
        for W_q, W_k in zip(np.split(W_Q, n_heads, axis=1), np.split(W_K, n_heads, axis=1), strict=True):
            query, key = x @ W_q, x @ W_k
            weights = softmax(query @ np.swapaxes(key, 1, 2) / np.sqrt(key.shape[-1]), axis=-1)
            heads.append(weights @ key)
        return np.concatenate(heads, axis=-1) @ W_O

    assert verdict(multi_head, "multi_head").mistake[0] == "key used as value"


def test_a_verdict_hangs_on_a_stated_tolerance_and_not_on_the_last_bit():
    """Softmax of 5, 6, 7 is .0900306, .2447285, .6652410 to seven digits, and that passes (udacity/…#1261)."""
    q, k = np.array([[[[1.0]]]]), np.array([[[[5.0], [6.0], [7.0]]]])
    v = np.eye(3)[None, None]
    right = named("attend").right(q, k, v)
    assert np.abs(right - [0.0900306, 0.2447285, 0.6652410]).max() < 1e-7
    for off, passes in ((1e-7, True), (1e-3, False)):
        assert verdict(lambda q, k, v, off=off: library.attention(q, k, v) + off, "attend").passed is passes


def test_weights_are_supplied_so_no_order_of_drawing_them_counts():
    assert named("multi_head").arguments[1:5] == ("W_Q", "W_K", "W_V", "W_O")
    first, second = (exercises._wanted("multi_head", 0) for _ in range(2))
    assert (first == second).all()


# ---- what else learners write


def attend_that(action):
    def attend(q, k, v):
        action(q, k, v)
        return library.attention(q, k, v)

    return attend


def written_out(q, k, v, *, by=None, axis=-1):
    """As learners write it, from the lines of the notebook."""
    d_k = q.shape[-1]
    scores = q @ k.swapaxes(-1, -2) / (np.sqrt(d_k) if by is None else by(q, k))
    grown = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return grown / grown.sum(axis=axis, keepdims=True) @ v


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"by": lambda q, k: 1}, "no scale"),
        ({"by": lambda q, k: np.sqrt(q.shape[1])}, "divide by √n_heads"),
        ({"by": lambda q, k: np.sqrt(q.shape[1] * q.shape[3])}, "divide by √d_model"),
        ({"by": lambda q, k: q.shape[3]}, "divide by d_k, or by √d_k twice"),
        ({"by": lambda q, k: np.sqrt(k.shape[2])}, "divide by √T"),
        ({"by": lambda q, k: 1 / np.sqrt(q.shape[3])}, "multiply by √d_k"),
        ({"axis": -2}, "softmax over queries"),
        ({"axis": 1}, "softmax over heads"),
        ({"axis": 0}, "softmax over the batch"),
        ({"axis": (1, 3)}, "softmax over heads and keys together"),
    ],
)
def test_mistakes_in_a_learners_own_lines_are_named(options, name):
    assert verdict(written_out, "attend").passed
    assert verdict(lambda q, k, v: written_out(q, k, v, **options), "attend").mistake[0] == name


def fail_with(problem):
    raise problem


class Mute(Exception):
    def __str__(self):
        raise ValueError("no words")


def returning(result):
    return lambda q, k, v: result


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (returning(None), "It returns nothing. End with `return` and the result."),
        (attend_that(lambda q, k, v: exit(3)), "It calls exit(). Return the result instead."),
        (lambda q, k, v: (q, v), "With sizes that all differ: it returns 2 things. Return the result alone."),
        (returning([1, [2, 3]]), "With sizes that all differ: it returns a list. Return a NumPy array."),
        (returning({"out": 1}), "With sizes that all differ: it returns a dict. Return a NumPy array."),
        (attend_that(lambda q, k, v: fail_with(Mute())), "it raises Mute."),
        (attend_that(lambda q, k, v: fail_with(ValueError("\ud800 half"))), "it raises ValueError: \\ud800 half."),
        (attend_that(lambda q, k, v: fail_with(ValueError("x" * 10**6))), "it raises ValueError: " + "x" * 200 + "…."),
        (returning([1, 2]), "With sizes that all differ: it returns a list. Return a NumPy array."),
        (returning(np.array(["a"])), "With sizes that all differ: it returns an array of <U1. Return real numbers."),
        (returning(np.zeros(3)), "has shape (3,), which is 1 axis; it should have 4 axes."),
        (lambda q, k, v: np.zeros((2, 3, 7, 4)), "has shape (2, 3, 7, 4); axes 2 and 3 are wrong."),
        (lambda q, k, v: library.attention(q, k, v)[..., :5], "has shape (2, 3, 5, 5); axis 3 is wrong."),
        (attend_that(lambda q, k, v: q.__imul__(2)), "It changes its input `q`. Whoever calls it still needs that"),
        (attend_that(lambda q, k, v: v.sort()), "It changes its input `v`."),
        (lambda q, k: q, "it raises TypeError"),
        (lambda q, k, v: 1 / 0, "With sizes that all differ: it raises ZeroDivisionError: division by zero."),
        (lambda q, k, v: undefined_name, "It raises NameError: name 'undefined_name' is not defined."),  # noqa: F821
        (lambda q, k, v: (x for x in q), "it returns a generator. Return a NumPy array."),
        (lambda q, k, v: np.ones((10**6, 10**6)), "it raises MemoryError"),
        (lambda q, k, v: input("?"), "It asks with input(), and a check cannot answer."),
    ],
)  # fmt: skip
def test_bad_code_gets_a_plain_sentence(function, said):
    found = verdict(function, "attend")
    assert found.state == "wrong" and said in found.said
    assert "Traceback" not in found.said and "\n" not in found.said


def test_an_error_is_shown_with_the_learners_own_line():
    source = "def attend(q, k, v):\n    scores = q @ k  # no transpose\n    return scores @ v\n"
    names = {}
    exec(compile(source, "<cell>", "exec"), names)
    found = verdict(names["attend"], "attend", source)
    assert "In line 2, `scores = q @ k  # no transpose`." in found.said


@pytest.mark.slow
def test_a_loop_without_end_is_ended_in_time():
    def attend(q, k, v):
        while True:
            pass

    began = time.monotonic()
    found = judged(attend, named("attend"), limit=1)
    assert time.monotonic() - began < 3
    assert found.state == "wrong" and "stopped after 1 seconds" in found.said


def test_printing_and_views_are_no_faults():
    found = verdict(attend_that(lambda q, k, v: print(q.shape)), "attend")
    assert found.passed and any("It prints" in note for note in found.notes)
    found = verdict(library.split_heads, "split_heads")
    assert found.passed and any("is a view of an input" in note for note in found.notes)


def test_printing_for_ever_fills_no_memory():
    def attend(q, k, v):
        for _ in range(3000):
            print("x" * 1000)
        return library.attention(q, k, v)

    printed = exercises._Bounded()
    for _ in range(1000):
        printed.write("x" * 1000)
    assert len(printed.getvalue()) <= 2 * exercises._MOST_PRINTED
    assert verdict(attend, "attend").passed


def test_printing_instead_of_returning_is_told_apart():
    assert "It prints instead." in verdict(lambda q, k, v: print(1), "attend").said


@pytest.mark.parametrize("function", [lambda q, k, v: ___, lambda q, k, v: [___ for _ in q], lambda q, k, v: ...])
def test_what_is_not_filled_in_is_no_mistake(function):
    found = judged(function, named("attend"))
    assert found.state == "open" and found.said.startswith("Not filled in yet")


@pytest.mark.parametrize("thing", [None, 3, np.zeros(3), "attend"])
def test_what_is_no_function_is_said(thing):
    assert "not a function. Start with `def`" in judged(thing, named("attend")).said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda shapes: [*shapes], "it returns a list. Return a dict"),
        (lambda shapes: {"project": shapes["project"]}, "there is no shape for split, score, mix, merge, output."),
        (lambda shapes: shapes | {"score": ...}, "the shape of “score” is still `...`."),
        (lambda shapes: shapes | {"score": 4}, "the shape of “score” is an int. Write a tuple"),
        (
            lambda shapes: shapes | {"split": (3, 4, 7, 24.0)},
            "the shape of “split” holds 24.0. Sizes are whole numbers",
        ),
        (lambda shapes: shapes | {"score": (3, 7, 7)}, "has 3 axes; it should have 4 axes."),
        (lambda shapes: shapes | {"score": (3, 7, 4, 7)}, "in the shape of “score”, axes 1 and 2 are wrong."),
    ],
)
def test_shapes_are_compared_axis_by_axis(change, said):
    found = verdict(lambda *sizes: change(shapes_written_out(*sizes)), "step_shapes")
    assert said in found.said


# ---- the answer stays closed, and comes fast


@each_mistake
def test_a_verdict_never_tells_the_answer(exercise, wrong):
    found = verdict(wrong.function, exercise.name)
    for case, (_, fine) in zip(exercise.cases, found.cases, strict=True):
        right = exercise.right(*case.arguments)
        shapes = right.values() if isinstance(right, dict) else [right.shape]
        given = exercises._answer(wrong, case)
        mine = set(given.values()) if isinstance(given, dict) else {np.shape(given)}
        for shape in shapes:
            assert fine or shape in mine or str(tuple(shape)) not in found.said


@pytest.mark.slow
@each_exercise
def test_a_check_takes_less_than_300_ms(exercise):
    times = []
    for _ in range(5):  # two processes wait; a third check in a row waits for one to come up, and no reader is so fast
        began = time.perf_counter()
        judged(exercise.wrongs[0].function, exercise)
        times.append(time.perf_counter() - began)
        time.sleep(0.2)
    assert min(times) < 0.3


def test_an_unknown_exercise_names_those_there_are():
    with pytest.raises(KeyError, match="no exercise 'atend'; there are attend, step_shapes"):
        named("atend")


def test_a_loop_without_end_is_ended_where_there_are_no_processes(monkeypatch):
    def attend(q, k, v):
        while True:
            pass

    monkeypatch.setattr(judge, "_HAS_PROCESSES", False)
    assert "was stopped after 0.2 seconds" in judged(attend, named("attend"), limit=0.2).said
