"""The answer stays closed until the reader commits or skips; then both stand side by side."""

import pytest

from mha_lib.practice import predict


def shape():
    return predict.shape("What shape?", (2, 8, 10, 64), "Because.", axes=["batch", "heads", "tokens", "d_k"])


def commit(question, answer):
    question._field.value = answer
    question._commit.click()
    return question._answer.value


def everything_shown(question):
    return " ".join(str(getattr(child, "value", "")) for child in question.children)


@pytest.mark.parametrize(
    "question",
    [shape(), predict.number("How many?", 1600, "Because."), predict.choice("Which?", ["yes", "no"], "no", "Because.")],
    ids=["shape", "number", "choice"],
)
def test_the_answer_is_closed_until_a_skip(question):
    assert not question.is_open and "Because." not in everything_shown(question)
    question._skip.click()
    assert question.is_open and question.committed is None and "Because." in question._answer.value
    assert "You skipped" in question._answer.value and question._field.disabled and question._commit.disabled


@pytest.mark.parametrize("text", ["2, 8, 10, 64", "(2, 8, 10, 64)", "2 8 10 64", "2×8×10×64", "[2;8;10;64]"])
def test_a_shape_may_be_written_in_many_ways(text):
    assert "Right, every axis." in commit(shape(), text)


def test_a_wrong_shape_is_compared_axis_by_axis():
    said = commit(shape(), "2, 10, 8, 64")
    assert "2 of 4 axes right." in said and "(2, 8, 10, 64)" in said
    assert "<th scope='row'>heads</th><td>10</td><td>8</td>" in said


@pytest.mark.parametrize(
    ("text", "words"),
    [("2, 10, 512", "You gave 3 axes, there are 4."), ("2,8,10,64,1", "You gave 5 axes, there are 4.")],
)
def test_a_wrong_number_of_axes(text, words):
    assert words in commit(shape(), text)


@pytest.mark.parametrize("text", ["", "about ten", "2, eight", "-2, 8", "2.5, 8"])
def test_what_is_no_shape_is_not_taken(text):
    question = shape()
    assert "Write the sizes" in commit(question, text)
    assert not question.is_open and not question._field.disabled


@pytest.mark.parametrize("text", ["1600", "1,600", "1_600", " 1600.0 "])
def test_a_number_may_be_written_in_many_ways(text):
    assert "Right." in commit(predict.number("How many?", 1600, "Because.", unit="scores"), text)


def test_a_wrong_number_says_by_what_factor():
    said = commit(predict.number("How many?", 1600, "Because.", unit="scores"), "200")
    assert "off by a factor of 8" in said and "200 scores" in said and "1,600 scores" in said


def test_a_number_has_a_tolerance():
    assert "Right." in commit(predict.number("About?", 2.303, "Because.", tolerance=0.05), "2.3")
    assert "Not quite" in commit(predict.number("About?", 2.303, "Because.", tolerance=0.001), "2.2")


@pytest.mark.parametrize("text", ["", "many", "inf", "nan", "1e400"])
def test_what_is_no_number_is_not_taken(text):
    question = predict.number("How many?", 1600, "Because.")
    assert "Write" in commit(question, text) and not question.is_open


def test_a_wrong_choice_gets_its_own_feedback():
    question = predict.choice(
        "Which?", {"√64": "", "√512": "Over one head only.", "√8": "Not the heads."}, "√64", "Because."
    )
    assert "Over one head only." in commit(question, "√512") and "Not the heads." not in question._answer.value


def test_a_choice_must_be_made():
    question = predict.choice("Which?", ["yes", "no"], "no", "Because.")
    assert "Pick one first" in commit(question, None) and not question.is_open


def test_the_right_answer_must_be_offered():
    with pytest.raises(ValueError, match="'maybe' is not among"):
        predict.choice("Which?", ["yes", "no"], "maybe", "Because.")


def test_without_a_kernel_the_answer_is_folded_away():
    data, _ = shape()._repr_mimebundle_()
    question, answer = data["text/html"].split("<details>")
    assert "What shape?" in question and "Because." not in question and "(2, 8, 10, 64)" in answer
    assert data["text/plain"] == "Predict. What shape?"
