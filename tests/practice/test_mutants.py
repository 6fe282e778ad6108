"""A reader's test is worth what it stops, less what it stops wrongly."""

import html
import time

import numpy as np
import pytest

from mha_lib.practice import exercises, judge, mutants, progress
from mha_lib.practice.exercises import EXERCISES, named, verdict

LAYER = named("multi_head")


def _numbers(by=1.0, seed=0):
    rng = np.random.default_rng(seed)
    x, weights = rng.standard_normal((2, 5, 12)) * by, rng.standard_normal((4, 12, 12)) / np.sqrt(12)
    return x, *weights, 3


def accepts_everything(layer):
    return True


def stops_everything(layer):
    return False


def looks_at_the_shape(layer):
    return layer(*_numbers()).shape == (2, 5, 12)


def compares_numbers(layer):
    for by in (1, 60):
        if not np.allclose(layer(*_numbers(by)), LAYER.right(*_numbers(by))):
            return False
    return True


def asserts(layer):
    for by in (1, 60):
        np.testing.assert_allclose(layer(*_numbers(by)), LAYER.right(*_numbers(by)), atol=1e-8)


def wants_the_last_bit(layer):
    return bool((layer(*_numbers()) == LAYER.right(*_numbers())).all())


def permutes(layer):
    x, *rest = _numbers()
    order = [3, 0, 4, 1, 2]
    return np.allclose(layer(x[:, order], *rest), layer(x, *rest)[:, order])


def by_keyword(layer):
    x, W_Q, W_K, W_V, W_O, n_heads = _numbers()
    return np.allclose(layer(x=x, W_Q=W_Q, W_K=W_K, W_V=W_V, W_O=W_O, n_heads=n_heads), LAYER.right(*_numbers()))


def test_a_good_test_stops_all_and_lets_all_right_ones_through():
    for test in (compares_numbers, asserts):
        found = mutants.scored(test, LAYER)
        assert found.passed, found.said
        assert found.accepted == found.rights == 4
        assert found.killed == len(LAYER.wrongs)


def test_numbers_of_ordinary_size_miss_the_one_that_overflows():
    found = mutants.score(by_keyword, "multi_head")
    assert [name for name, _, dead in found.stopped if not dead] == ["softmax without subtracting the maximum"]


def test_a_shape_test_is_worth_nothing():
    found = mutants.scored(looks_at_the_shape, LAYER)
    assert not found.passed and found.killed == 0 and found.accepted == 4
    assert f"stops 0 of {len(LAYER.wrongs)} wrong ones" in found.said


def test_reordering_tokens_stops_the_wrong_split_with_the_wrong_merge():
    dead = {name for name, _, dead in mutants.score(permutes, "multi_head").stopped if dead}
    assert {"split and merge by reshape", "split by reshape", "merge by reshape"} <= dead
    assert "no scale" not in dead


@pytest.mark.parametrize(
    ("test", "accepted", "said"),
    [
        (stops_everything, 0, "It stops all 4 right ones. Too strict"),
        (wants_the_last_bit, 1, "It stops 3 of 4 right ones. Too strict"),
    ],
)
def test_too_strict_is_not_right(test, accepted, said):
    found = mutants.scored(test, LAYER)
    assert found.state == "wrong" and found.accepted == accepted and said in found.said


def test_accepting_everything_is_not_right_either():
    assert mutants.scored(accepts_everything, LAYER).killed == 0


def written_in_a_notebook(code, **names):
    """A test whose names are copied with it, as those of a notebook are."""
    names |= {"np": np, "numbers": _numbers, "right": LAYER.right}
    exec(code, names)
    return names["my_test"]


def test_a_test_that_writes_into_its_arrays_meets_every_function_with_the_same_ones():
    code = """def my_test(layer):
    fine = all(np.allclose(layer(*a), right(*a)) for a in (ONE, OTHER))
    ONE[0][:], OTHER[0][:] = 0, 0
    return fine"""
    found = mutants.scored(written_in_a_notebook(code, ONE=_numbers(), OTHER=_numbers(60)), LAYER)
    assert found.passed, found.said


def test_some_of_the_wrong_ones_alone():
    done = mutants.kill(permutes, only=["no scale", "split by reshape"])
    assert [(name, dead) for name, _, dead in done.score.stopped] == [("no scale", False), ("split by reshape", True)]
    assert "A test of the shape alone stops 0 of 2." in page(done)
    assert [name for name, *_ in mutants.kill(permutes, only="no scale").score.stopped] == ["no scale"]
    assert "no wrong function is called" in page(mutants.kill(permutes, only=["no scales"])).lower()


class NoRepr:
    def __repr__(self):
        raise ValueError("no repr")


def raises(layer):
    return layer(1, 2)


COUNT = [0]


def counts_along(layer):
    """Lets the first twelve through, whatever they are."""
    COUNT[0] += 1
    return COUNT[0] <= 12


def draws_lots(layer, luck=iter([True, False] * 100)):  # noqa: B008
    return next(luck)


@pytest.mark.parametrize(
    ("test", "said"),
    [
        (lambda layer: np.ones(3) > 0, "The test returns an array. One answer is wanted: put .all() behind it"),
        (lambda layer: "yes", "The test returns 'yes'. Return True or False, or use assert."),
        (lambda layer: 1 / 0, "The test raises ZeroDivisionError: division by zero."),
        (lambda layer: exit(1), "The test calls exit()."),
        (lambda layer: input("?"), "The test asks with input()"),
        (lambda: True, "The test raises TypeError"),
        (raises, "The test raises TypeError: multi_head takes 6 arguments: x, W_Q, W_K, W_V, W_O, n_heads."),
        (lambda layer: NoRepr(), "The test returns <NoRepr instance"),
        ((lambda layer: (yield True)), "The test holds `yield` or `async`"),
        (NoRepr(), "This is no function: <NoRepr instance"),
        (5, "This is no function: 5. Start with `def`."),
    ],
)
def test_a_bad_test_gets_a_plain_sentence(test, said):
    found = mutants.score(test, "multi_head") if callable(test) else mutants.scored(test, LAYER)
    assert found.state == "wrong" and said in found.said and "Traceback" not in found.said


def test_a_test_that_contradicts_itself_is_told_so():
    assert "Fix the seed" in mutants.score(draws_lots, "multi_head").said


def test_a_wrong_one_that_makes_the_test_raise_is_stopped():
    """Key used as value: another width, which cannot even be subtracted."""
    exercise = named("attend")
    arguments = exercise.cases[0].arguments
    wanted = exercise.right(*arguments)
    found = mutants.score(lambda attend: np.abs(attend(*arguments) - wanted).max() < 1e-6, "attend")
    assert found.accepted == found.rights
    assert {name: dead for name, _, dead in found.stopped}["key used as value"]


def test_counting_along_is_of_no_use():
    assert not mutants.score(counts_along, "multi_head").passed


@pytest.mark.slow
def test_a_test_without_end_is_ended():
    def for_ever(layer):
        while True:
            pass

    began = time.monotonic()
    assert "was stopped after 1 seconds" in mutants.scored(for_ever, LAYER, limit=1).said
    assert time.monotonic() - began < 3


def test_a_test_without_end_is_ended_where_there_are_no_processes(monkeypatch):
    def for_ever(layer):
        while True:
            pass

    monkeypatch.setattr(judge, "_HAS_PROCESSES", False)
    assert "was stopped after 0.2 seconds" in mutants.scored(for_ever, LAYER, limit=0.2).said


@pytest.mark.parametrize("test", [lambda layer: ___, lambda layer: ...])
def test_what_is_not_filled_in_is_open(test):
    assert mutants.scored(test, LAYER).state == "open"


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
def test_the_right_ones_are_right_and_the_usual_test_is_weak(exercise):
    for function in mutants.rights(exercise):
        assert verdict(function, exercise.name).passed
    usual = mutants.shape_check(exercise.name)
    assert usual.accepted == usual.rights
    if exercise.name == "multi_head":
        assert usual.killed == 0


def test_it_is_quick():
    judge.run(judge.call, len, [])
    mutants.scored(compares_numbers, LAYER)
    began = time.perf_counter()
    mutants.scored(compares_numbers, LAYER)
    assert time.perf_counter() - began < 1


def page(thing):
    return html.unescape(" ".join(str(getattr(child, "value", "")) for child in thing.children[1:]))


def test_the_page_names_what_gets_through_and_what_the_usual_test_is_worth():
    done = mutants.kill(permutes)
    assert "gets through" in page(done) and "stopped" in page(done)
    assert f"A test of the shape alone stops 0 of {len(LAYER.wrongs)}." in page(done)
    through, stopped = [wrong for wrong in done.score.stopped if not wrong[2]], done.score.killed
    assert f"<summary>{len(through) - 5} more get through</summary>" in page(done)
    assert f"<summary>{stopped} are stopped</summary>" in page(done)
    assert all(name in page(done) and looks in page(done) for name, looks, _ in done.score.stopped)
    assert "no scale</th><td>sharper weights than meant" in page(done)
    assert 'role="alert"' in page(done)
    entry = progress.mine().state()["exercises"]["test of multi_head"]
    assert entry["attempts"][-1]["passed"] is False
    data, _ = done._repr_mimebundle_()
    assert "gets through" in data["text/html"] and data["text/plain"] == done.score.said


def test_a_test_that_stops_nothing_is_no_attempt():
    assert "stops 0 of" in page(mutants.kill(looks_at_the_shape))
    assert not progress.mine().state()["exercises"]


def test_an_open_one_is_no_attempt_and_is_not_announced():
    done = mutants.kill(lambda layer: ...)
    assert "To do." in page(done) and 'role="alert"' not in page(done)
    assert not progress.mine().state()["exercises"]


@pytest.mark.parametrize("name", ["nonsense", None, 5, np.ones(3)], ids=str)
def test_an_unknown_exercise_is_a_sentence(name):
    assert "No exercise is called" in page(mutants.kill(accepts_everything, name))


def test_the_two_kinds_of_right_ones_are_written_independently():
    """At least three styles for the functions that a reader tests, and none is the library's mistake in disguise."""
    for name in ("attend", "multi_head"):
        ones = mutants.rights(named(name))
        assert len(ones) >= 4 and len({one.__code__.co_code for one in ones if hasattr(one, "__code__")}) == len(ones)
        assert exercises.named(name).right is ones[0]
