"""A question takes a commitment, answers a wrong one with its own feedback, and keeps the first try."""

import itertools
import os
import subprocess
import sys

import ipywidgets as widgets
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_lib.practice import content, progress, questions
from mha_lib.practice.content import Option, Question

ONE = Question(
    "00-one",
    "00_start_here",
    "Which <b>one</b>?",
    (
        Option("red", False, "Red is a colour.", "M1"),
        Option("two", True, "Two is even.", None),
        Option("three", False, "Three is odd.", "M2"),
        Option("<code>x</code> &lt; $y$", False, "That is a formula.", "M3"),
    ),
    False,
    "Because of two.",
)
SEVERAL = Question(
    "00-several",
    "00_start_here",
    "Which ones?",
    (
        Option("two", True, "Two is even.", None),
        Option("three", False, "Three is odd.", "M2"),
        Option("four", True, "Four is even.", None),
    ),
    True,
    "Because of two.",
)


class Kept:
    """A stand-in for the reader's progress."""

    def __init__(self):
        self.answers = []

    def answered(self, name, answer, right):
        self.answers.append((name, answer, right))


@pytest.fixture
def kept(monkeypatch):
    kept = Kept()
    monkeypatch.setattr(progress, "mine", lambda: kept)
    return kept


def commit(asked, *texts):
    asked._ticks.pick(*texts)
    asked._commit.click()
    return asked._answer.value


def page(asked):
    """All the text that is on the page at the moment."""
    return " ".join(str(getattr(child, "value", "")) for child in asked.children)


# ---- one right answer


def test_the_answer_is_closed_until_something_is_done(kept):
    asked = questions.Ask(ONE)
    assert not asked.answered and asked.right is None and not asked.is_open
    for words in ("Because of two.", "Two is even.", "Three is odd."):
        assert words not in page(asked)


def test_a_right_answer_opens_everything(kept):
    asked = questions.Ask(ONE)
    said = commit(asked, "two")
    assert 'role="alert"' in said and "Right." in said and "Two is even." in said and "Because of two." in said
    assert "Three is odd." not in said and "The right answer" not in said
    assert asked.answered and asked.right is True and asked.is_open
    assert asked._commit.disabled and asked._skip.disabled and asked._ticks.disabled
    assert kept.answers == [("00-one", ["two"], True)]


def test_a_wrong_answer_gets_its_feedback_alone_and_another_try(kept):
    asked = questions.Ask(ONE)
    said = commit(asked, "three")
    assert "Not quite." in said and "Three is odd." in said
    assert not any(words in said for words in ("Two is even.", "Because of two.", "Red is a colour."))
    assert asked.answered and asked.right is False and not asked.is_open
    assert asked._commit.description == "Try again" and asked._skip.description == "Show the answer"
    boxes = {box.description: box for box in asked._ticks.children}
    assert boxes["three"].disabled and not boxes["three"].value and not boxes["two"].disabled


def test_the_second_try_is_said_and_the_first_is_kept(kept):
    asked = questions.Ask(ONE)
    commit(asked, "three")
    assert "Right, at the second try." in commit(asked, "two")
    assert asked.right is False and asked.is_open and kept.answers == [("00-one", ["three"], False)]


def test_a_second_wrong_answer_opens_the_right_one(kept):
    asked = questions.Ask(ONE)
    commit(asked, "three")
    said = commit(asked, "red")
    assert "Red is a colour." in said and "The right answer: <b>two</b>" in said and "Because of two." in said
    assert asked.is_open and len(kept.answers) == 1


def test_showing_the_answer_after_a_wrong_one(kept):
    asked = questions.Ask(ONE)
    commit(asked, "three")
    asked._skip.click()
    assert "The right answer: <b>two</b>" in asked._answer.value and asked.right is False and asked.answered


def test_a_skip_is_no_answer(kept):
    asked = questions.Ask(ONE)
    asked._skip.click()
    assert "You skipped." in asked._answer.value and "The right answer: <b>two</b>" in asked._answer.value
    assert not asked.answered and asked.right is None and asked.is_open and kept.answers == []


def test_a_commit_without_a_pick_is_one_sentence(kept):
    asked = questions.Ask(ONE)
    assert "Tick an answer first" in commit(asked)
    assert not asked.answered and not asked.is_open and kept.answers == []
    commit(asked, "three")
    assert "Tick an answer first" in commit(asked) and not asked.is_open


def test_ticking_one_unticks_the_others(kept):
    ticks = questions.Ask(ONE)._ticks
    for box in (*ticks.children, *reversed(ticks.children)):
        box.value = True
        assert [other.value for other in ticks.children] == [other is box for other in ticks.children]


def test_the_same_news_is_announced_again(kept):
    """A value that does not change is not sent, and would not be announced."""
    asked, seen = questions.Ask(ONE), []
    asked._answer.observe(lambda change: seen.append(change["new"]), "value")
    commit(asked), commit(asked)
    assert sum("Tick an answer first" in value for value in seen) == 2


def test_the_file_keeps_letters_and_not_markup(kept):
    commit(questions.Ask(ONE), "<code>x</code> &lt; $y$")
    assert kept.answers == [("00-one", ["x < $y$"], False)]


# ---- several right answers


@pytest.mark.parametrize("picked", [("two", "four"), ("four", "two")])
def test_all_the_right_ones_are_right(picked, kept):
    asked = questions.Ask(SEVERAL)
    said = commit(asked, *picked)
    assert "Right." in said and "Two is even." in said and "Four is even." in said and asked.right
    assert sorted(kept.answers[0][1]) == ["four", "two"]


def test_one_that_is_missing_is_said_without_naming_it(kept):
    asked = questions.Ask(SEVERAL)
    said = commit(asked, "two")
    assert "there is more that is" in said and "four" not in said.casefold() and asked.right is False
    assert "That is what you had" in commit(asked, "two") and not asked.is_open


def test_one_too_many_gets_its_feedback(kept):
    asked = questions.Ask(SEVERAL)
    said = commit(asked, "two", "three", "four")
    assert "Three is odd." in said and "Two is even." not in said and "there is more" not in said


def test_what_was_missed_is_explained_at_the_end(kept):
    asked = questions.Ask(SEVERAL)
    commit(asked, "two")
    said = commit(asked, "two", "three")
    for words in ("Two is even.", "Three is odd.", "Four is even.", "The right answers", "<li><b>four</b></li>"):
        assert words in said


PICKS = st.lists(st.sets(st.sampled_from(["two", "three", "four"])), max_size=4)


@given(picks=PICKS, skips=st.booleans())
def test_whatever_is_pressed_nothing_is_raised_and_one_answer_is_kept(picks, skips):
    kept, real = Kept(), progress.mine
    progress.mine = lambda: kept
    try:
        asked = questions.Ask(SEVERAL)
        for pick in picks:
            commit(asked, *pick)
        if skips:
            asked._skip.click()
    finally:
        progress.mine = real
    first = next((pick for pick in picks if pick), None)
    assert len(kept.answers) == asked.answered == (first is not None)
    assert asked.right == (None if first is None else first == {"two", "four"})
    assert asked.is_open >= (skips or asked.right is True)


# ---- the order


def orders(question, turns=range(40)):
    return [tuple(option.text for option in questions.in_turn(question, turn)) for turn in turns]


def test_the_order_depends_on_name_and_turn_alone():
    again = subprocess.run(
        [sys.executable, "-c", "from mha_lib.practice import content, questions\n"
         "for question in content.questions().values():\n"
         "    print([option.text for turn in range(3) for option in questions.in_turn(question, turn)])"],
        capture_output=True, text=True, check=True, encoding="utf-8",
        env=os.environ | {"PYTHONHASHSEED": "7", "PYTHONUTF8": "1"},
    ).stdout.splitlines()  # fmt: skip
    here = [
        str([option.text for turn in range(3) for option in questions.in_turn(question, turn)])
        for question in content.questions().values()
    ]
    assert again == here


def test_one_order_stays_as_it_is_written_down():
    """The same in every Python and on every machine: a class sees one order, and a teacher can say "the second"."""
    assert orders(ONE, range(1)) == [("<code>x</code> &lt; $y$", "two", "three", "red")]


def test_turns_differ_and_reach_every_order():
    assert set(orders(SEVERAL)) == set(itertools.permutations(["two", "three", "four"]))


def test_what_stands_in_order_stays():
    [asked] = [one for one in content.questions().values() if one.name == "01-parameters-and-width"]
    stays, twice, four = (
        "They stay: the number of heads is the same",
        "Twice as many: every head gets twice as wide",
        "Four",
    )
    assert set(orders(asked)) == {(stays, twice, f"{four} times as many")}


# ---- by name


@pytest.mark.parametrize("name", content.questions())
def test_every_question_can_be_asked_and_answered_right(name, kept):
    asked = questions.ask(name, turn=2)
    commit(asked, *(option.text for option in content.questions()[name].options if option.right))
    assert asked.right is True and "Right." in asked._answer.value


def test_an_unknown_name_is_a_sentence_with_names_near_it():
    said = questions.ask("00-wich-divisor")
    assert "Did you mean <code>00-which-divisor</code>?" in said.said
    assert "No question is called <code>00-wich-divisor</code>" in said.children[1].value
    data, _ = said._repr_mimebundle_()
    assert "00-which-divisor" in data["text/html"] and "<" not in data["text/plain"]


@pytest.mark.parametrize("name", ["<img>", "", None, 7, ["a", "list"]])
def test_any_name_is_answered(name):
    said = questions.ask(name).said
    assert "There are <code>00-" in said and "<img>" not in said


def test_content_that_cannot_be_read_is_a_sentence(monkeypatch):
    def broken():
        raise ValueError("03.toml cannot be read")

    monkeypatch.setattr(content, "questions", broken)
    assert "03.toml cannot be read" in questions.ask("00-which-divisor").said


# ---- the page


@pytest.mark.parametrize("question", [ONE, SEVERAL])
def test_without_a_kernel_the_answer_is_folded_away(question):
    data, _ = questions.Ask(question)._repr_mimebundle_()
    asked, answer = data["text/html"].split("<details>")
    for option in question.options:
        assert f"<li>{option.text}</li>" in asked and option.feedback not in asked and option.feedback in answer
    assert question.why in answer and question.why not in asked
    assert "<" not in data["text/plain"]


def test_it_is_paper_with_checkboxes_that_hold_formulas():
    asked = questions.Ask(ONE)
    assert "mha-predict" in asked._dom_classes and "mha-css" in asked.children[0]._dom_classes
    assert all(isinstance(box, widgets.Checkbox) and box.description_allow_html for box in asked._ticks.children)
