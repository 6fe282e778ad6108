"""The answer stays closed until the reader commits or skips; then both stand side by side, and the text asks why."""

import html
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mha_lib.dims import Dims
from mha_lib.practice import content, predictions, progress
from mha_lib.practice.content import Option, PredictionText

WEIGHTS = np.array([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4], [0.05, 0.9, 0.05]])


class Kept:
    """A stand-in for the reader's progress."""

    def __init__(self):
        self.said = []

    def predicted(self, name, answer, right):
        self.said.append((name, answer, right))

    def explained(self, name, text):
        self.said.append((name, text))


@pytest.fixture
def kept(monkeypatch):
    kept = Kept()
    monkeypatch.setattr(progress, "mine", lambda: kept)
    return kept


def shape(**more):
    axes = ["batch", "heads", "tokens", "d_k"]
    return predictions.shape("What shape?", (2, 8, 10, 64), "Because.", axes=axes, **more)


def number(truth=1600, **more):
    return predictions.number("How many?", truth, "Because.", **more)


def choice(**more):
    return predictions.choice("Which?", {"yes": "So not.", "no": "So it is."}, "no", "Because.", **more)


def brightest(weights=WEIGHTS, **more):
    return predictions.brightest("Which cell?", weights, "Because.", **more)


def commit(question, answer):
    if isinstance(question._field, predictions._Cells):
        question._field.pick(*answer)
    elif isinstance(question._field, predictions.Ticks):
        question._field.pick(answer)
    else:
        question._field.value = answer
    question._commit.click()
    return question._answer.value


def everything_shown(widget):
    children = " ".join(everything_shown(child) for child in getattr(widget, "children", ()))
    return f"{getattr(widget, 'value', '')} {children}"


KINDS = {
    "shape": (shape, "2, 8, 10, 64", "2, 8, 10, 10", "(2, 8, 10, 64)"),
    "number": (number, "1600", "200", "1,600"),
    "choice": (choice, "no", "yes", "<b>no</b>"),
    "brightest": (brightest, (2, 1), (0, 0), "query 2, key 1"),
}
every_kind = pytest.mark.parametrize("kind", KINDS)


# ---- predict, commit, compare, explain


@every_kind
def test_everything_is_closed_until_something_is_done(kind):
    make, _, _, truth = KINDS[kind]
    question = make(ask_why="Why so?")
    assert not question.is_open and question.committed is None and question.right is None
    for closed in (truth, "Because.", "Why so?"):
        assert closed not in everything_shown(question)


@every_kind
def test_a_commit_shows_the_truth_and_asks_why(kind, kept):
    make, right, wrong, truth = KINDS[kind]
    for answer, is_right in ((right, True), (wrong, False)):
        question = make(ask_why="Why so?", name="00-x")
        said = commit(question, answer)
        assert 'role="alert"' in said and truth in said and "Why so?" in said
        assert ("Right" in said) is is_right and question.right is is_right and question.is_open
        assert "Because." not in everything_shown(question) and not question.is_explained
        assert question._field.disabled and question._commit.disabled and question._skip.disabled
        assert [record[2] for record in kept.said] == [is_right]
        kept.said.clear()


@every_kind
def test_own_words_and_ours_stand_side_by_side(kind, kept):
    make, right, _, _ = KINDS[kind]
    question = make(name="00-x")
    commit(question, right)
    question._words.value = " it costs $5 & <b>more "
    question._to_ours.click()
    assert question.is_explained and question._words.disabled and question._to_ours.disabled
    assert question._yours.value == "<p><b>Yours.</b> it costs $5 &amp; &lt;b&gt;more</p>"
    assert "Because." in question._ours.value and 'role="alert"' in question._ours.value
    assert kept.said[-1] == ("00-x", "it costs $5 & <b>more")


@every_kind
def test_no_words_are_fine(kind, kept):
    make, right, _, _ = KINDS[kind]
    question = make(name="00-x")
    commit(question, right)
    question._to_ours.click()
    assert "Because." in question._ours.value and question._yours.value == "" and len(kept.said) == 1


@every_kind
def test_a_skip_opens_everything_at_once(kind, kept):
    make, _, _, truth = KINDS[kind]
    question = make(ask_why="Why so?", name="00-x")
    question._skip.click()
    said = question._answer.value
    assert "You skipped" in said and truth in said and "Because." in said and "Why so?" in said
    assert question.is_open and question.is_explained and question.committed is None and question.right is None
    assert kept.said == [("00-x", None, None)] and question._commit.disabled


@every_kind
def test_without_a_name_nothing_is_kept(kind, kept):
    make, right, _, _ = KINDS[kind]
    question = make()
    commit(question, right)
    question._words.value = "words"
    question._to_ours.click()
    make()._skip.click()
    assert kept.said == []


@every_kind
def test_without_a_kernel_the_answer_is_folded_away(kind):
    make, _, _, truth = KINDS[kind]
    data, _ = make(ask_why="Why so?")._repr_mimebundle_()
    question, answer = data["text/html"].split("<details>")
    assert "Predict." in question and truth not in question and "Because." not in question
    assert truth in answer and "Because." in answer and "Why so?" in answer
    assert data["text/plain"].startswith("Predict. W") or data["text/plain"] == "Predict. How many?"


# ---- shapes


@pytest.mark.parametrize("text", ["2, 8, 10, 64", "(2, 8, 10, 64)", "2 8 10 64", "2×8×10×64", "[2;8;10;64]"])
def test_a_shape_may_be_written_in_many_ways(text):
    assert "Right, every axis." in commit(shape(), text)


def test_a_wrong_shape_is_compared_axis_by_axis():
    said = commit(shape(), "2, 10, 8, 64")
    assert "2 of 4 axes right." in said and "(2, 8, 10, 64)" in said
    assert "<th scope='row'>heads</th><td>10</td><td>8</td>" in said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2, 10, 512", "You gave 3 axes, there are 4."),
        ("2,8,10,64,1", "You gave 5 axes, there are 4."),
        ("2", "You gave 1 axis, there are 4."),
    ],
)
def test_a_wrong_number_of_axes(text, words):
    assert words in commit(shape(), text)


@pytest.mark.parametrize("text", ["", "about ten", "2, eight", "-2, 8", "2.5, 8", "²"])
def test_what_is_no_shape_is_not_taken(text):
    question = shape()
    assert "Write the sizes" in commit(question, text)
    assert not question.is_open and not question._field.disabled


# ---- numbers


@pytest.mark.parametrize("text", ["1600", "1,600", "1_600", " 1600.0 ", "1.6e3", "1 600", "1600 scores", "1600 Score"])
def test_a_number_may_be_written_in_many_ways(text):
    assert "Right." in commit(number(unit="scores"), text)


@pytest.mark.parametrize(
    "text", ["6400", "6400 bytes", "6,400 B", "6.25 KiB", "6.25kib", "6.4 KB", "6400 byte", "6.25e0 KiB", "0.0064 MB"]
)
def test_bytes_may_come_in_any_unit(text):
    assert "Right." in commit(number(6400, unit="bytes"), text)


def test_a_truth_in_larger_units_is_understood_in_bytes():
    assert "Right." in commit(number(2, unit="GiB"), "2147483648 bytes")
    assert "Right." not in commit(number(2, unit="GiB"), "2 GB")


def test_bytes_are_also_said_as_a_reader_says_them():
    said = commit(number(6400, unit="bytes"), "2 KiB")
    assert "6,400 bytes (6.25 KiB)" in said and "2,048 bytes (2 KiB)" in said and "factor of 3.12" in said


def test_a_wrong_number_says_by_what_factor():
    said = commit(number(unit="scores"), "200")
    assert "off by a factor of 8" in said and "200 scores" in said and "1,600 scores" in said


def test_a_tolerance_is_said_beforehand():
    question = predictions.number("About?", 2.303, "Because.", tolerance=0.05)
    assert "Right within 5 %." in everything_shown(question)
    assert "Right. Close enough." in commit(question, "2.3")
    assert "within" not in everything_shown(number())
    assert "Not quite" in commit(predictions.number("About?", 2.303, "Because.", tolerance=0.001), "2.2")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Write one number, for example 12500 bytes"),
        ("many", "Write one number"),
        ("inf", "Write one number"),
        ("nan", "Write one number"),
        ("1e400", "Write a finite number"),
        ("2 * 800", "Write one number"),
        ("10^3", "Write one number"),
        ("1.2.3", "Write one number"),
        (".", "Write one number"),
        ("6,25", "Is 6,25 a decimal?"),
        ("1,6000", "Is 1,6000 a decimal?"),
        ("6 apples", "“apples” is no unit of this answer. Write bytes, KB, KiB"),
        ("6 <b>", "“&lt;b&gt;” is no unit"),
        ("6 b", "bit or a byte"),
    ],
)
def test_what_is_no_number_is_not_taken(text, words):
    question = number(unit="bytes")
    assert words in commit(question, text) and not question.is_open and not question._field.disabled


@pytest.mark.parametrize(("unit", "words"), [("scores", "Write scores, or the number"), ("", "Write the number alone")])
def test_another_unit_is_not_taken(unit, words):
    assert words in commit(number(unit=unit), "1600 KiB")


@given(st.floats(1e-3, 1e12), st.sampled_from(["", " bytes", " KB", " KiB", " MB", " MiB", " GB", " GiB"]))
def test_a_number_survives_its_unit(value, unit):
    factor = {"": 1, "bytes": 1, "KB": 1e3, "KiB": 2**10, "MB": 1e6, "MiB": 2**20, "GB": 1e9, "GiB": 2**30}
    question = predictions.number("?", value * factor[unit.strip()], "Because.", unit="bytes")
    question._field.value = f"{value!r}{unit}"
    assert question._asked.compare(question._asked.read()).right


@given(st.text(max_size=20))
def test_no_text_ever_raises_out_of_a_question(text):
    for question in (number(unit="bytes"), shape()):
        question._field.value = text
        question._commit.click()
        assert question._answer.value


# ---- choices


def test_a_wrong_choice_gets_its_own_feedback():
    question = predictions.choice(
        "Which?", {"√64": "", "√512": "Over one head only.", "√8": "Not the heads."}, "√64", "Because."
    )
    assert "Over one head only." in commit(question, "√512") and "Not the heads." not in question._answer.value


def test_a_choice_must_be_made():
    question = predictions.choice("Which?", ["yes", "no"], "no", "Because.")
    assert "Pick one first" in commit(question, None) and not question.is_open


def test_the_right_answer_must_be_offered():
    with pytest.raises(ValueError, match="'maybe' is not among"):
        predictions.choice("Which?", ["yes", "no"], "maybe", "Because.")


def test_without_a_kernel_there_is_something_to_choose_from():
    data, _ = choice()._repr_mimebundle_()
    assert "<li>yes</li><li>no</li>" in data["text/html"].split("<details>")[0]


# ---- draw it


def test_the_picture_marks_both_cells_in_words():
    said = commit(brightest(), (0, 0))
    assert "your cell is number 2 of 9" in said
    assert "0.70<br><b>you</b>" in said and "0.90<br><b>truth</b>" in said
    assert said.count("<b>you</b>") == said.count("<b>truth</b>") == 1
    assert "<td><code>query 2, key 1</code></td><td>0.900</td>" in said


def test_the_right_cell_is_marked_as_both():
    assert "0.90<br><b>you = truth</b>" in commit(brightest(), (2, 1))


@pytest.mark.parametrize("cell", [(0, 0), (1, 1)])
def test_any_of_the_equally_bright_cells_is_right(cell):
    weights = np.array([[0.7, 0.3], [0.3, np.float32(0.7)]])  # float32 leaves equals a little apart
    question = brightest(weights)
    assert "Right." in commit(question, cell) and "any of 2 cells that are equally bright" in question._answer.value


@given(st.lists(st.sampled_from([0.0, 0.1, 0.25, 0.5, 1.0]), min_size=4, max_size=4), st.integers(0, 3))
def test_the_rank_counts_the_brighter_cells(values, place):
    weights = np.reshape(values, (2, 2))
    cell = divmod(place, 2)
    verdict = brightest(weights)._asked.compare(cell)
    brighter = sum(value > weights[cell] for value in values)
    assert verdict.right == (brighter == 0)
    assert verdict.right or f"number {brighter + 1} of 4" in verdict.words


def test_lists_and_grid_say_the_same():
    cells = brightest()._field
    cells._buttons[1, 2].click()
    assert [one.value for one in cells._lists] == [1, 2] and cells.read() == (1, 2)
    cells._lists[0].value = 0
    assert [cell for cell, button in cells._buttons.items() if button.icon] == [(0, 2)]


def test_the_keyboard_needs_two_stops_and_every_cell_has_a_name():
    cells = brightest(tokens=["the", "cat", "sat"])._field
    assert not any(button.tabbable for button in cells._buttons.values())
    assert cells._buttons[2, 1].tooltip == "query 2 sat, key 1 cat"
    assert cells._lists[0].options == (("0 the", 0), ("1 cat", 1), ("2 sat", 2))


@pytest.mark.parametrize("picked", [(None, None), (1, None), (None, 1)])
def test_a_cell_must_be_picked(picked):
    question = brightest()
    for one, value in zip(question._field._lists, picked, strict=True):
        one.value = value
    question._commit.click()
    assert "Pick a query and a key" in question._answer.value and not question.is_open


def test_tokens_are_shown_literally():
    tokens = ["<s>", "$a", "b$", "", "🙂", "the", "the", "x" * 40]
    question = brightest(np.eye(8), tokens=tokens)
    shown = everything_shown(question) + commit(question, (0, 1))
    assert "<s>" not in shown and "&lt;s&gt;" in shown and "3 ∅" in shown
    # Formulas are looked for in text and never in code, so a $ of a token stays a $.
    outside = re.sub(r"<code>.*?</code>", "", question._answer.value)
    assert "$" not in outside and "$a" in question._answer.value


def test_queries_and_keys_may_differ():
    question = brightest([[0.1, 0.2, 0.7]], tokens=["q"], keys=["a", "b", "c"])
    assert "query 0 q, key 2 c" in commit(question, (0, 2))


@pytest.mark.parametrize(
    ("weights", "more", "words"),
    [
        (np.ones((2, 3, 3)) / 3, {}, "weights have shape (2, 3, 3)"),
        (np.ones((9, 2)) / 2, {}, "each from 1 to 8"),
        (np.ones((0, 3)), {}, "weights have shape (0, 3)"),
        ([[np.nan, 1]], {}, "weights lie between 0 and 1"),
        ([[-0.5, 1.5]], {}, "these go from -0.5 to 1.5"),
        ([[0.5, 0.5]], {"tokens": ["a", "b"]}, "2 tokens do not fit 1 queries"),
        ([[0.5, 0.5]], {"tokens": ["a"], "keys": ["b"]}, "1 tokens do not fit 2 keys"),
    ],
)
def test_what_is_no_picture_is_refused(weights, more, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        brightest(weights, **more)


def test_numbers_are_readable_on_every_colour():
    def luminance(colour):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in np.array(colour) / 255]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    for paper in predictions.drawing.palette(predictions.look.WEIGHTS_MAP, 101):
        ink = {"#000": 0, "#fff": 255}[predictions._readable_on(paper)]
        low, high = sorted([luminance(paper), luminance([ink] * 3)])
        assert (high + 0.05) / (low + 0.05) >= 4.5


# ---- by name


EXPECTED = {
    "00-output-shape": (Dims(), "(2, 10, 512)"),
    "00-score-count": (Dims(3, 6, 512, 4), "432 scores"),
    "01-split": (Dims(), "(2, 8, 10, 64)"),
    "01-score": (Dims(), "(2, 8, 10, 10)"),
    "01-divisor": (Dims(d_model=384, n_heads=4), r"$\sqrt{96}$, from the width of a head"),
    "01-mix": (Dims(), "(2, 8, 10, 64)"),
    "01-what-grows": (None, "tokens"),
    "01-layout": (Dims(), "Heads with heads, inside each token"),
    "01-exercise-bytes": (Dims(4, 6, 60, 5), "2,880 bytes (2.81 KiB)"),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_truth_is_computed_from_the_sizes(name, kept):
    about, truth = EXPECTED[name]
    question = predictions.predict(name, about)
    question._skip.click()
    assert f"It is <b>{truth}</b>" in question._answer.value and kept.said == [(name, None, None)]


@pytest.mark.parametrize("name", content.predictions())
def test_every_prediction_can_be_made_and_leaves_no_brace_open(name, kept):
    kinds = {"shape": Dims(3, 7, 96, 4), "number": Dims(3, 7, 96, 4), "choice": Dims(), "brightest": WEIGHTS}
    text = content.predictions()[name]
    about = 5.0 if text.kind == "number" and text.count is None else kinds[text.kind]
    if text.kind == "shape" and text.step is None:
        about = (2, 3)
    question = predictions.predict(name, about)
    shown = everything_shown(question)
    question._skip.click()
    words = (shown + question._answer.value).split("$")[::2]
    assert not re.search(r"\{\w+\}", re.sub(r"<style>.*?</style>", "", "".join(words), flags=re.DOTALL))


def test_the_axes_have_their_names():
    assert "<th scope='row'>queries</th><td>64</td><td>10</td>" in commit(
        predictions.predict("01-score", Dims()), "2, 8, 64, 10"
    )


def test_sizes_in_a_text_are_those_of_the_layer():
    question = predictions.predict("01-exercise-bytes", Dims(4, 6, 60, 5))
    assert "Batch 4, tokens 6, width 60, 5 heads" in everything_shown(question)


def test_an_unknown_name_is_a_sentence_with_names_near_it():
    for name in ("01-splitt", 7, ["a", "list"]):
        said = predictions.predict(name, Dims()).said
        assert "No prediction is called" in said and "<code>01-split</code>" in said


def test_content_that_cannot_be_read_is_a_sentence(monkeypatch):
    def broken():
        raise ValueError("03.toml cannot be read")

    monkeypatch.setattr(content, "predictions", broken)
    assert "03.toml cannot be read" in predictions.predict("01-split", Dims()).said


def text(kind, **more):
    return PredictionText("03-x", "03_scaling", kind, "Ask {d_k}?", "Why?", "Because.", **more)


MADE = [
    (text("shape"), np.zeros((3, 4)), {}, "(3, 4)"),
    (text("shape"), (3, 4), {}, "(3, 4)"),
    (text("number", unit="nats"), np.float64(2.5), {}, "2.5 nats"),
    (text("brightest"), WEIGHTS, {"tokens": ["a", "b", "c"]}, "<code>query 2 c, key 1 b</code>, weight 0.900"),
    (text("choice", options=(Option("a", True, "", None), Option("b", False, "", "M1"))), None, {}, "a"),
]


@pytest.mark.parametrize(("words", "about", "more", "truth"), MADE, ids=[made[0].kind for made in MADE])
def test_a_truth_may_be_handed_over(words, about, more, truth, monkeypatch):
    monkeypatch.setattr(content, "predictions", lambda: {"03-x": words})
    question = predictions.predict("03-x", about, **more)
    assert "Ask {d_k}?" in everything_shown(question)
    question._skip.click()
    assert f"It is <b>{truth}</b>" in question._answer.value


@pytest.mark.parametrize(
    ("words", "about", "said"),
    [
        (text("shape", step="mix"), 5, "pass a Dims, not 5"),
        (text("number", count="score_bytes"), None, "pass a Dims, not None"),
        (text("shape"), 5, "pass the array, or its shape, not 5"),
        (text("number"), "five", "pass that number, not 'five'"),
        (text("brightest"), Dims(), "pass the weights of one head"),
        (text("brightest"), np.zeros((2, 3, 40, 40)), "not an array of shape (2, 3, 40, 40)"),
    ],
)
def test_what_no_truth_can_be_computed_from_is_refused(words, about, said, monkeypatch):
    monkeypatch.setattr(content, "predictions", lambda: {"03-x": words})
    with pytest.raises(TypeError, match=re.escape(said)):
        predictions.predict("03-x", about)


def test_a_choice_by_name_stands_in_the_order_of_its_name():
    ticks = predictions.predict("01-divisor", Dims())._field
    options = [html.unescape(box.description) for box in ticks.children]
    assert options == [box.description for box in predictions.predict("01-divisor", Dims())._field.children]
    assert sorted(options) == sorted(
        content.filled(option.text, Dims()) for option in content.predictions()["01-divisor"].options
    )


def small_example():
    """The weights of notebook 01's two tokens, which are queries and keys at once."""
    x = np.array([[1.0, 0.0], [0.0, 2.0]])
    grown = np.exp(x @ x.T / np.sqrt(2))
    return grown / grown.sum(axis=1, keepdims=True)


def causal_examples():
    rng = np.random.default_rng(0)
    for _ in range(20):
        grown = np.exp(rng.standard_normal((5, 5))) * np.tri(5)
        yield grown / grown.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("name", "examples", "cell"),
    [("01-small-brightest", [small_example()], (1, 1)), ("00-causal-brightest", causal_examples(), (0, 0))],
)
def test_the_brightest_cell_is_where_the_explanation_says(name, examples, cell):
    for weights in examples:
        question = predictions.predict(name, weights)
        assert "Right." in commit(question, cell) and "any of" not in question._answer.value


def test_every_cell_has_the_colour_of_its_weight():
    said = commit(brightest(), (0, 0))
    colours = predictions.drawing.palette(predictions.look.WEIGHTS_MAP, 101)
    cells = re.findall(r"background:rgb\((\d+),(\d+),(\d+)\)[^>]*>(\d\.\d\d)", said)
    assert [float(cell[3]) for cell in cells] == WEIGHTS.ravel().round(2).tolist()
    for *colour, weight in cells:
        assert list(map(int, colour)) == colours[round(100 * float(weight))].tolist()
