"""The questions at the start of a notebook come from earlier ones only, the due ones first."""

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_lib.practice import content, progress, questions, reviews
from mha_lib.practice.content import READING_ORDER, Option, Question
from mha_lib.practice.progress import Progress

START = datetime(2026, 12, 1, 9, 30, tzinfo=timezone.utc)


def made_up(notebook, which):
    options = (Option("yes", True, "Yes.", None), Option("no", False, "No.", "M1"), Option("maybe", False, "No.", "M2"))
    return Question(f"{notebook[:2]}-{which}", notebook, f"Is {which} so?", options, False, "Because.")


def course(*numbers, each="abc"):
    """Made-up questions of these notebooks, as content.questions() gives the real ones."""
    made = [made_up(READING_ORDER[number], which) for number in numbers for which in each]
    return {question.name: question for question in made}


ALL = course(*range(13))


@pytest.fixture
def mine():
    return progress.mine()


@pytest.fixture
def answered(mine, monkeypatch):
    def answer(name, at, right=True):
        monkeypatch.setattr(progress, "_now", lambda: at)
        mine.answered(name, "yes", right)

    return answer


@pytest.mark.parametrize(
    ("notebook", "names"),
    [
        ("12", ["11-a", "10-a", "08-a"]),
        ("05_masks", ["04-a", "03-a", "01-a"]),
        ("04", ["03-a", "02-a", "00-a"]),
        ("03", ["02-a", "01-a", "00-a"]),  # there is no fourth before it
        ("02", ["01-a", "00-a", "01-b"]),
        ("01", ["00-a", "00-b", "00-c"]),
        ("00", []),
    ],
)
def test_one_from_each_of_one_two_and_four_before(mine, notebook, names):
    assert reviews.drawn(notebook, ALL, mine) == names


@pytest.mark.parametrize(
    ("there", "names"),
    [
        ([0, 1, 2, 3], ["03-a", "02-a", "01-a"]),  # 04 has none: from another one, the nearest that is left
        ([0, 5, 6], ["00-a", "00-b", "00-c"]),
        ([0, 2], ["02-a", "00-a", "02-b"]),
        ([5, 6, 12], []),
    ],
)
def test_what_is_missing_comes_from_other_earlier_notebooks(mine, there, names):
    assert sorted(reviews.drawn("05", course(*there), mine)) == sorted(names)


def test_due_ones_come_first_within_a_notebook_then_those_never_asked(mine, answered):
    answered("04-c", START)
    answered("04-b", START + timedelta(hours=1))
    for minutes in (0, 20, 40):
        answered("03-a", START + timedelta(minutes=minutes))
    now = START + timedelta(hours=2)
    assert reviews.drawn("05", ALL, mine, now=now) == ["04-c", "03-b", "01-a"]
    answered("04-c", now)
    assert reviews.drawn("05", ALL, mine, now=now)[0] == "04-b"
    assert reviews.drawn("05", ALL, mine, now=START)[0] == "04-a", "nothing was due then"


def test_a_due_one_fills_a_gap_before_the_nearest(mine, answered):
    answered("00-b", START)
    assert reviews.drawn("03", course(0, 1), mine, now=START + timedelta(days=1)) == ["01-a", "00-b", "01-b"]
    assert reviews.drawn("06", course(0, 1, 2), mine, count=1, now=START + timedelta(days=1)) == ["00-b"]


@given(
    st.sampled_from(READING_ORDER),
    st.sets(st.integers(0, 12)),
    st.integers(1, 6),
    st.dictionaries(st.sampled_from(sorted(ALL)), st.integers(-9, 9)),
)
def test_never_from_this_notebook_or_later_and_as_many_as_there_are(notebook, there, count, due_in):
    class Due(Progress):
        def state(self):
            cards = {name: (START + timedelta(days=days)).isoformat() for name, days in due_in.items()}
            return {"questions": {name: {"card": {"due": due}} for name, due in cards.items()}}

    here, known = READING_ORDER.index(notebook), course(*sorted(there))
    names = reviews.drawn(notebook, known, Due("unused"), count, START)
    places = [READING_ORDER.index(known[name].notebook) for name in names]
    assert all(place < here for place in places) and len(set(names)) == len(names)
    assert len(names) == min(count, 3 * len([number for number in there if number < here]))
    wanted = {here - back for back in reviews.BACK[:count]} & there - {-1, -2, -4}
    assert {place for place in wanted if place >= 0} <= set(places)


@pytest.mark.parametrize("notebook", ["13", "2", "split_and_merge", "", "02_masks"])
def test_an_unknown_notebook_is_an_error_that_names_those_there_are(mine, notebook):
    with pytest.raises(ValueError, match=r"00_start_here.*12_interview") as error:
        reviews.review(notebook)
    assert repr(notebook) in str(error.value)


def test_a_count_below_one_is_an_error(mine):
    with pytest.raises(ValueError, match="count is 0"):
        reviews.drawn("05", ALL, mine, count=0)


# ---------------------------------------------------------------------------------------------
# The widget


@pytest.fixture
def made_up_course(monkeypatch):
    monkeypatch.setattr(content, "questions", lambda: ALL)


def heading(review):
    return review.children[1].value


def test_three_questions_below_each_other(made_up_course):
    review = reviews.review("05")
    assert [type(asked) for asked in review.asked] == [questions.Ask] * 3 and review.asked == list(review.children[2:])
    assert "Three questions from earlier notebooks. Answer from memory." in heading(review)
    assert "One question from an earlier notebook." in heading(reviews.review("05", count=1))
    assert "Three questions from an earlier notebook." in heading(reviews.review("01"))


def test_a_question_that_comes_again_has_its_turn(made_up_course, mine, answered, monkeypatch):
    turns = []
    monkeypatch.setattr(questions, "ask", lambda name, turn: turns.append((name, turn)) or questions.Sentence(name))
    for day in range(3):
        answered("04-a", START + timedelta(minutes=day), right=False)
    reviews.review("05", now=START + timedelta(days=1))
    assert turns == [("04-a", 3), ("03-a", 0), ("01-a", 0)]


def test_an_answer_is_kept_and_another_question_comes_next_time(made_up_course):
    first = reviews.review("05").asked[0]
    first._ticks.pick("yes")
    first._commit.click()
    assert progress.mine().times("04-a") == 1 and first.right
    assert reviews.review("05").asked[0]._question.name == "04-b"


def test_looking_at_it_keeps_nothing(made_up_course, mine):
    reviews.review("05")
    assert not mine.path.exists()


def test_a_sentence_where_there_is_nothing_to_ask(monkeypatch):
    assert reviews.review("00_start_here").said == "This is the first notebook: there is nothing to review yet."
    monkeypatch.setattr(content, "questions", lambda: course(5, 6))
    assert "no questions yet" in reviews.review("05").said


def test_questions_that_cannot_be_read_are_a_sentence(monkeypatch):
    def broken():
        raise ValueError("00_start_here.toml cannot be read as TOML: <line 3>")

    monkeypatch.setattr(content, "questions", broken)
    assert "00_start_here.toml" in reviews.review("02").said and "&lt;line 3&gt;" in reviews.review("02").said


def test_the_still_holds_the_questions_and_folds_the_answers(made_up_course):
    bundle, _ = reviews.review("05")._repr_mimebundle_()
    page = bundle["text/html"]
    assert page.startswith("<p>Three questions") and page.count("<details>") == 3
    assert "Is a so?" in page.partition("<details>")[0] and "Because." not in page.partition("<details>")[0]
    assert bundle["text/plain"].splitlines()[0].startswith("Three questions") and "Is a so?" in bundle["text/plain"]


def test_the_course_itself_has_questions_to_review():
    assert len(reviews.review("02").asked) == 3
