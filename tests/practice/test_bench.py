"""The workbench: a verdict in words, hints one at a time, the solution for those who tried or gave up."""

import html
import re

import pytest

from mha_lib.attention import attention
from mha_lib.practice import bench, content, exercises, forms, progress


@pytest.fixture(autouse=True)
def nothing_opened(monkeypatch):
    monkeypatch.setattr(bench, "_opened", {})


def attend(q, k, v):
    return attention(q, k, v)


def without_scale(q, k, v):
    return attention(q, k, v, scale=1.0)


def unfilled(q, k, v):
    return ___


def shown(thing):
    """All the text that is on the page."""
    parts, todo = [], [thing]
    while todo:
        widget = todo.pop(0)
        todo += list(getattr(widget, "children", ()))
        if "mha-css" not in widget._dom_classes:
            parts.append(str(getattr(widget, "description", "")) + str(getattr(widget, "value", "")))
    return html.unescape(" ".join(parts))


def test_a_right_answer_is_told_and_kept():
    done = bench.check(attend)
    assert done.verdict.passed and "Right: all 8 checks pass." in shown(done)
    assert shown(done).count("passes") == 8
    assert progress.mine().state()["exercises"]["attend"]["passed_at"]


def test_a_wrong_answer_is_called_by_its_name_and_counted():
    done = bench.check(without_scale, "attend")
    assert "Your result is that of a known mistake: <b>no scale</b>" in shown(done)
    assert "sizes that all differ" in shown(done) and "<b>fails</b>" in shown(done)
    entry = progress.mine().state()["exercises"]["attend"]
    assert not entry.get("passed_at")


def test_an_unfilled_form_is_no_attempt():
    done = bench.check(unfilled, "attend")
    assert "To do." in shown(done) and "Not filled in yet" in shown(done)
    assert "attend" not in progress.mine().state()["exercises"]


def test_hints_come_one_at_a_time_and_stay_open():
    hints = content.exercise_texts()["attend"].hints
    done = bench.check(without_scale, "attend")
    assert not any(hint in shown(done) for hint in map(html.unescape, hints))
    for opened in range(1, 4):
        assert done._hint.description == f"Hint {opened} of 3"
        done._hint.click()
        assert [html.unescape(hint) in shown(done) for hint in hints] == [place < opened for place in range(3)]
        assert done._hints.value.count('role="alert"') == 1
    assert done._hint.disabled and done._hint.description == "No more hints"
    again = bench.check(without_scale, "attend")  # the reader runs the cell again
    assert all(html.unescape(hint) in shown(again) for hint in hints)
    assert len(progress.mine().state()["exercises"]["attend"]["hints"]) == 3


def test_the_solution_waits_for_an_attempt_or_for_giving_up():
    worked = forms.faded(content.exercise_texts()["attend"].solution, "worked")
    before = bench.check(unfilled, "attend")
    assert before._solution.description == "I give up: show the solution" and worked not in shown(before)
    tried = bench.check(without_scale, "attend")
    assert tried._solution.description == "Show the solution" and worked not in shown(tried)
    before._solution.click()
    assert worked in shown(before) and before._solution.disabled
    assert progress.mine().state()["exercises"]["attend"]["gave_up"]


def test_looking_at_the_solution_after_a_right_answer_is_no_giving_up():
    done = bench.check(attend)
    done._solution.click()
    assert not progress.mine().state()["exercises"]["attend"].get("gave_up")


def test_without_a_kernel_hints_and_solution_are_folded():
    data, _ = bench.check(unfilled, "attend")._repr_mimebundle_()
    assert data["text/html"].count("<details>") == 4 == data["text/html"].count("</details>")
    assert data["text/plain"].startswith("Not filled in yet")
    assert "role=" not in data["text/html"]


@pytest.mark.parametrize("thing", [lambda x: x, None, 3], ids=["a function", "None", "a number"])
def test_what_belongs_to_no_exercise_is_said_and_not_raised(thing):
    said = shown(bench.check(thing))
    assert "No exercise is called" in said and "<code>attend</code>" in said


def test_no_function_under_a_known_name_is_said():
    assert "is an int, not a function. Start with <code>def</code>" in shown(bench.check(3, "attend"))


def test_what_the_learner_wrote_is_shown_as_text():
    def attend(q, k, v):
        raise ValueError("<b>bold</b> & <script>")

    done = bench.check(attend)
    assert "<script>" not in done._said.value and "&lt;script&gt;" in done._said.value


def test_an_error_shows_the_learners_line():
    def attend(q, k, v):
        return q @ k + undefined  # noqa: F821

    assert re.search(r"In line 2, <code>return q @ k \+ undefined", shown(bench.check(attend)))


def test_a_verdict_is_announced_and_a_to_do_is_not():
    assert 'role="alert"' in bench.check(without_scale, "attend")._said.value
    assert 'role="alert"' not in bench.check(unfilled, "attend")._said.value


@pytest.mark.parametrize("exercise", exercises.EXERCISES, ids=lambda exercise: exercise.name)
def test_every_exercise_has_a_bench(exercise):
    done = bench.check(exercise.right, exercise.name)
    assert done.verdict.passed and done._hint.description == "Hint 1 of 3"
