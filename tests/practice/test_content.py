"""The content has no faults, every right answer is computed, and a broken file is named with what is wrong in it."""

import re
import textwrap
from dataclasses import replace

import numpy as np
import pytest

from mha_lib import mistakes, samples
from mha_lib.dims import Dims
from mha_lib.practice import content, questions


def test_the_content_has_no_faults():
    assert content.faults() == []
    assert content.questions() and content.predictions() and content.exercise_texts()


def test_there_are_enough_questions_to_recall_something():
    for notebook, least in (("00_start_here", 5), ("01_shapes", 6)):
        assert sum(question.notebook == notebook for question in content.questions().values()) >= least


def test_they_come_in_reading_order():
    places = [content.READING_ORDER.index(question.notebook) for question in content.questions().values()]
    assert places == sorted(places)


# ---- every right answer, computed

DIMS = Dims()
LAYER, X = samples.layer(DIMS), samples.inputs(DIMS)
#: What "01-scores-shape" asks about.
SMALL = Dims(batch=3, tokens=7, d_model=96, n_heads=4)
TRACE = LAYER.trace(X)


def growth(bigger, of):
    """How many times as large ``of(sizes)`` gets."""
    return of(bigger) / of(DIMS)


def what_a_head_sees():
    """Change a number outside the slice of head 0, in every token by itself: its queries change, so it saw it."""
    changed = X.copy()
    changed[..., 500] += 1
    seen = np.any(LAYER.trace(changed)["q_heads"][:, 0] != TRACE["q_heads"][:, 0], axis=-1)
    return "All 512 numbers of all 10 tokens" if seen.all() else "a slice"


def parameters_with_more_heads():
    times = samples.layer(replace(DIMS, n_heads=16)).parameters / LAYER.parameters
    return {1: "As many as before", 2: "Twice as many"}.get(times, "A few more")


def what_a_right_shape_shows():
    wrong = mistakes.named("split by reshape")
    for x in (X, X[:1]):  # a batch of one is no better
        assert wrong.run(LAYER, x).shape == LAYER(x).shape and not np.allclose(wrong.run(LAYER, x), LAYER(x), atol=0.1)
    # And no matrix behind it can mend that: the merged halves do not span what the right ones do, token by token.
    given = wrong.trace(LAYER, X)["merged"].reshape(-1, 512)[:, :8]
    wanted = LAYER.trace(X)["merged"].reshape(-1, 512)[:, :1]
    assert np.linalg.lstsq(given, wanted, rcond=None)[1] > 0.01
    return "Nothing: a right and a wrong split both do this"


def what_the_output_matrix_is_for():
    """Silence one head: every number of the output changes. Without the matrix, only its own columns do."""
    silent = TRACE["mixed"].copy()
    silent[:, 3] = 0
    merged = silent.transpose(0, 2, 1, 3).reshape(X.shape)
    assert set(np.nonzero((merged != TRACE["merged"]).any(axis=(0, 1)))[0]) == set(range(192, 256))
    everywhere = ~np.isclose(merged @ LAYER.w_o, TRACE["output"], atol=1e-7).all(axis=(0, 1))
    return "It lets every output number draw on every head" if everywhere.all() else "nothing"


def which_divisor():
    d_k = Dims(tokens=10, d_model=256, n_heads=8).d_k
    return rf"$\sqrt{{{d_k}}}$"


def one_column():
    """Change one column of W_Q, and see whose queries follow; then count the numbers of a token that it reads."""
    w_q = LAYER.w_q.copy()
    w_q[:, 100] += 1
    moved = (replace(LAYER, w_q=w_q).trace(X)["q_heads"] != TRACE["q_heads"]).any(axis=(0, 2, 3))
    reads = sum((np.eye(512)[number] @ LAYER.w_q[:, 100]) != 0 for number in range(512))
    return f"{reads} numbers, for {'one head' if moved.sum() == 1 else 'all 8 heads'}"


def what_twice_the_heads_leaves():
    more = replace(DIMS, n_heads=16)
    there, here = samples.layer(more), LAYER
    same = {
        "the shape of the output": more.shape("output") == DIMS.shape("output"),
        "the four matrices": there.w_q.shape == here.w_q.shape and there.parameters == here.parameters,
        "the number of scores": more.score_elements == DIMS.score_elements,
        "the divisor of the scores": more.d_k == DIMS.d_k,
    }
    return {text for text, stays in same.items() if stays}


def what_shows_a_missing_transpose():
    wrong = mistakes.named("split by reshape")
    given, right = wrong.trace(LAYER, X), TRACE
    shows = {
        "The output has the shape of the input": given["output"].shape != X.shape,
        "The weights of every query sum to 1": not np.allclose(given["weights"].sum(axis=-1), 1, atol=1e-5),
        "On random input, its numbers are those of a right layer": not np.allclose(given["output"], right["output"]),
    }
    return {text for text, tells in shows.items() if tells}


def which_axis_sums_to_1():
    words = {(3,): "the keys, axis 3", (2,): "the queries, axis 2", (1,): "the heads, axis 1"}
    words[1, 3] = "keys and heads together, axes 3 and 1"
    [right] = [text for axes, text in words.items() if np.allclose(TRACE["weights"].sum(axis=axes), 1, atol=1e-5)]
    return right


def reshape_alone():
    q = TRACE["q"]
    alone, right = q.reshape(2, 8, 10, 64), q.reshape(2, 10, 8, 64).transpose(0, 2, 1, 3)
    assert alone.shape == right.shape and not np.allclose(alone, right)
    assert (alone[0, 0].ravel() == q[0].ravel()[:640]).all()
    return "The right shape, with pieces of several tokens in each head"


def what_makes_the_scores_grow():
    bigger = {
        "more sequences in the batch": replace(DIMS, batch=4),
        "a wider model, <code>d_model</code> up": replace(DIMS, d_model=1024),
        "longer sequences": replace(DIMS, tokens=20),
        "more heads": replace(DIMS, n_heads=16),
    }
    return {text for text, sizes in bigger.items() if growth(sizes, lambda sizes: sizes.score_elements) > 1}


def narrower_heads():
    d_k = Dims(d_model=768, n_heads=24).d_k
    return rf"$d_k$ goes to {d_k}, the divisor to $\sqrt{{{d_k}}}$"


def heads_before_the_transpose(dims):
    q, k = (TRACE[name].reshape(2, 10, 8, 64) for name in "qk")
    scores = q @ k.swapaxes(-1, -2)
    assert scores.shape == (2, 10, 8, 8)
    changed = k.copy()
    changed[:, 4] += 1
    moved = np.any(q @ changed.swapaxes(-1, -2) != scores, axis=(0, 2, 3))
    assert moved.tolist() == [token == 4 for token in range(10)]
    return "Heads with heads, inside each token"


def parameters_with_more_width():
    times = growth(replace(DIMS, d_model=1024), lambda sizes: samples.layer(sizes).parameters)
    return {1: "They stay", 2: "Twice as many", 4: "Four times as many"}[times]


COMPUTED = {
    "00-what-a-head-sees": what_a_head_sees,
    "00-parameters-and-heads": parameters_with_more_heads,
    "00-right-shape": what_a_right_shape_shows,
    "00-output-matrix": what_the_output_matrix_is_for,
    "00-which-divisor": which_divisor,
    "00-one-column": one_column,
    "00-twice-the-heads": what_twice_the_heads_leaves,
    "00-sure-of-a-layer": what_shows_a_missing_transpose,
    "01-scores-shape": lambda: str(SMALL.shape("score")),
    "01-softmax-axis": which_axis_sums_to_1,
    "01-reshape-or-transpose": reshape_alone,
    "01-score-memory": what_makes_the_scores_grow,
    "01-narrower-heads": narrower_heads,
    "01-parameters-and-width": parameters_with_more_width,
}


def test_every_question_has_its_answer_computed():
    assert set(COMPUTED) == set(content.questions())


@pytest.mark.parametrize("name", COMPUTED)
def test_the_right_answer_is_the_computed_one(name):
    right = {option.text for option in content.questions()[name].options if option.right}
    computed = COMPUTED[name]()
    assert right == (computed if isinstance(computed, set) else {computed})


def the_divisor(dims):
    """The one that brings the spread of the scores closest to 1."""
    whose = {"d_model": "a token", "d_k": "a head", "n_heads": None}
    scores = samples.layer(dims).trace(samples.inputs(dims))["scores"]
    off = {size: abs(scores.std() / np.sqrt(getattr(dims, size)) - 1) for size in whose}
    best = min(off, key=off.get)
    assert off[best] < 0.1
    return rf"$\sqrt{{{{{best}}}}}$, from the width of {whose[best]}"


def what_grows_by_four(dims):
    doubled = {"tokens": 2 * dims.tokens, "n_heads": 2 * dims.n_heads, "d_model": 2 * dims.d_model}
    times = {name: growth(replace(dims, **{name: size}), lambda sizes: sizes.score_elements)
             for name, size in doubled.items()}  # fmt: skip
    assert sorted(times.values()) == [1, 2, 4]
    return max(times, key=times.get)


@pytest.mark.parametrize(
    ("name", "computed", "dims"),
    [
        ("01-divisor", the_divisor, Dims(d_model=384, n_heads=4)),
        ("01-what-grows", what_grows_by_four, DIMS),
        ("01-layout", heads_before_the_transpose, DIMS),
    ],
)
def test_the_right_choice_is_the_computed_one(name, computed, dims):
    assert [option.text for option in content.predictions()[name].options if option.right] == [computed(dims)]


def test_wrong_shapes_come_out_as_their_feedback_says():
    """Forgetting the transpose altogether, and transposing q alone, give the shapes that a wrong option shows."""
    trace = samples.layer(SMALL).trace(samples.inputs(SMALL))
    q, k = trace["q_heads"], trace["k_heads"]
    options = {option.text for option in content.questions()["01-scores-shape"].options}
    assert str((q.swapaxes(-1, -2) @ k).shape) in options
    q, k = q.swapaxes(1, 2), k.swapaxes(1, 2)
    assert str((q @ k.swapaxes(-1, -2)).shape) in options


# ---- the order of the answers


def asked_in_chance_order():
    return [question for question in content.questions().values() if not question.in_order and not question.several]


def test_right_answers_do_not_prefer_a_position():
    places = [[option.right for option in questions.in_turn(question)].index(True)
              for question in asked_in_chance_order()]  # fmt: skip
    assert len(set(places)) >= 4 and max(map(places.count, places)) <= len(places) / 2, places


# ---- broken files

WHOLE = """
[[question]]
name = "03-a-question"
ask = '''What is $d_k$ <b>here</b>?'''
why = '''Because.'''
[[question.option]]
text = '''$\\sqrt{64}$'''
right = true
feedback = '''Yes, <code>a &lt; b</code>.'''
[[question.option]]
text = '''eight'''
misconception = "M2"
feedback = '''No.'''
[[question.option]]
text = '''nine'''
misconception = "M3"
feedback = '''Not that either.'''

[[prediction]]
name = "03-a-number"
kind = "number"
count = "score_bytes"
unit = "bytes"
tolerance = 0.05
ask = '''How many for {n_heads} heads and $\\sqrt{d_k}$?'''
ask_why = '''Why?'''
why = '''Because {batch}.'''

[[prediction]]
name = "03-a-shape"
kind = "shape"
step = "mix"
ask = '''Which?'''
ask_why = '''Why?'''
why = '''Because.'''

[[exercise]]
name = "halve"
task = '''Return half of x.'''
hints = ['''Divide.''', '''By two.''', '''x / 2.''']
solution = '''
def halve(x):
    y = ⟦x⟧
    return ⟦1: y⟧ / ⟦2⟧
'''

[[puzzle]]
name = "03-a-puzzle"
exercise = "halve"
head = 'def halve(x):'
line = [{ goal = "name", code = 'y = x' }, { goal = "halve", code = 'y = y / 2' }, { goal = "give", code = 'return y' }]
extra = [{ goal = "halve", code = 'y = y / 3', why = '''That is a third.''' }]
"""


def folder_with(tmp_path, text, name="03_scaling.toml"):
    folder = tmp_path / "content"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(textwrap.dedent(text), encoding="utf-8")
    return folder


def test_the_whole_file_is_whole(tmp_path):
    folder = folder_with(tmp_path, WHOLE)
    assert content.faults(folder) == []
    made = content.load(folder)
    assert made["question"]["03-a-question"].options[0].text == r"$\sqrt{64}$"
    assert made["prediction"]["03-a-number"].tolerance == 0.05
    assert made["exercise"]["halve"].hints == ("Divide.", "By two.", "x / 2.")
    assert made["exercise"]["halve"].notebook == "03_scaling"
    assert made["exercise"]["halve"].solution.startswith("def halve")


Q, N, E, P = "question 03-a-question", "prediction 03-a-number", "exercise halve", "puzzle 03-a-puzzle"
BROKEN = {
    "two right": ('misconception = "M2"', "right = true", Q, "2 are right"),
    "none right": ("right = true", 'misconception = "M1"', Q, "0 are right"),
    "several with one right": ("[[question]]", "[[question]]\nseveral = true", Q, "1 of 3 are right"),
    "unknown misconception": ('"M3"', '"M33"', Q, "option 3 is wrong and names 'M33'"),
    "no misconception": ('misconception = "M3"\n', "", Q, "option 3 is wrong and names no misconception"),
    "misconception on a right one": ("right = true", 'right = true\nmisconception = "M1"', Q, "cannot have a misconc"),
    "empty feedback": ("'''Yes, <code>a &lt; b</code>.'''", "''' '''", Q, "option 1, feedback is empty"),
    "two options alike": ("'''nine'''", "'''eight'''", Q, "two options have the same text"),
    "two options only": (
        "[[question.option]]\ntext = '''nine'''\nmisconception = \"M3\"\nfeedback = '''Not that either.'''",
        "", Q, "3 to 5 options, and there are 2",
    ),
    "formula does not compile": (r"$\sqrt{64}$", r"$\sqrrt{64}$", Q, r"formula $\sqrrt{64}$ does not compile"),
    "empty formula": ("is $d_k$ ", "is $$ ", Q, "there is nothing in it"),
    "dollar alone": ("'''nine'''", "'''$9'''", Q, "a $ without its partner"),
    "tag not closed": ("<b>here</b>", "<b>here", Q, "<b> is never closed"),
    "tags crossed": ("<b>here</b>", "<b><i>here</b></i>", Q, "</b> closes nothing"),
    "tag not in use": ("<b>here</b>", "<blink>here</blink>", Q, "<blink> is not among the tags"),
    "tag with attributes": ("<b>here</b>", "<b onclick='x'>here</b>", Q, "<b> has attributes"),
    "typo in a key": ("why = '''Because.'''", "wyh = '''Because.'''", Q, "'wyh' is no key of [[question]]"),
    "key missing": ("why = '''Because.'''\n[[", "[[", Q, "'why' is missing"),
    "wrong type": ("right = true", 'right = "yes"', Q, "'right' must be true or false, not 'yes'"),
    "name of another notebook": ("03-a-question", "04-a-question", "question 04-a-question", "must look like 03-"),
    "name twice": ("03-a-shape", "03-a-number", "prediction 03-a-number", "taken by 03_scaling.toml, prediction 03-a"),
    "unknown kind": ('kind = "shape"', 'kind = "from"', "prediction 03-a-shape", "no kind 'from'"),
    "unknown step": ('"mix"', '"mixx"', "prediction 03-a-shape", "no step 'mixx'"),
    "unknown count": ("score_bytes", "score_bites", N, "Dims computes no number 'score_bites'"),
    "count of a shape": ("score_bytes", "shape", N, "Dims computes no number 'shape'"),
    "key of another kind": ('step = "mix"', 'step = "mix"\nunit = "bytes"', "prediction 03-a-shape", "kind = 'number'"),
    "unknown size": ("{batch}", "{batches}", N, "{batches} is no size"),
    "tolerance in percent": ("0.05", "5.0", N, "between 0 and 1"),
    "two hints": (", '''x / 2.'''", "", E, "three hints, and this one has 2"),
    "hint empty": ("'''By two.'''", "''''''", E, "hint 2 is empty"),
    "hint of another type": ("'''By two.'''", "2", E, "'hints' must be a list of texts"),
    "two blanks": ("⟦2⟧", "2", E, "three blanks in ⟦brackets⟧, and this one has 2"),
    "no first blank": ("⟦1: y⟧", "⟦y⟧", E, "exactly one blank begins with ⟦1: and here 0 do"),
    "two first blanks": ("⟦2⟧", "⟦1: 2⟧", E, "here 2 do"),
    "solution does not parse": ("⟦2⟧", "⟦2⟧ )", E, "no Python function"),
    "solution is two functions": ("'''\n\n[[puzzle", "def b(): pass\n'''\n\n[[puzzle", E, "a solution is one function"),
    "exercise is no name": ('"halve"', '"halve it"', "exercise halve it", "has the name of its function"),
    "a line's goal is missing": ('{ goal = "give", code', "{ code", P, "line 3: 'goal' is missing"),
    "lines too few": (', { goal = "give", code = \'return y\' }', "", P, "three lines or more, and this one has 2"),
    "an extra of no goal": ('"halve", code = \'y = y / 3', '"third", code = \'y = y / 3', P, "'third'"),
    "two lines alike": ("y = y / 3", "y = y / 2", P, "two lines are the same"),
    "lines that are no Python": ("return y'", "return y)'", P, "the lines in their order are no Python"),
    "an extra without why": ("'''That is a third.'''", "''''''", P, "extra 1, why is empty"),
    "unknown table": ("[[exercise]]", "[[excercise]]", "03_scaling.toml", "there is no [[excercise]]"),
    "single brackets": ("[[exercise]]", "[exercise]", "03_scaling.toml", "with double brackets"),
    "no TOML": ("name = ", "name ", "03_scaling.toml", "cannot be read as TOML"),
}  # fmt: skip


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_file_is_named_with_its_fault(fault, tmp_path):
    old, new, entry, words = BROKEN[fault]
    assert old in WHOLE
    found = content.faults(folder_with(tmp_path, WHOLE.replace(old, new, 1)))
    assert any(words in one for one in found), found
    assert all(one.startswith("03_scaling.toml") and entry in one for one in found), found


def test_names_are_unique_across_files(tmp_path):
    exercise = WHOLE[WHOLE.index("[[exercise]]") : WHOLE.index("[[puzzle]]")]
    folder_with(tmp_path, exercise)
    found = content.faults(folder_with(tmp_path, exercise, "04_softmax_axis.toml"))
    assert found == ["04_softmax_axis.toml, exercise halve: the name is taken by 03_scaling.toml, exercise halve"]


def test_a_file_of_no_notebook_is_named(tmp_path):
    found = content.faults(folder_with(tmp_path, "", "99_nothing.toml"))
    assert found == ["99_nothing.toml: no notebook is called 99_nothing; see READING_ORDER"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[question]\n", "03_scaling.toml cannot be read as TOML"),
        ("[[question]]\nname = '03-a'\n", "03_scaling.toml, question 03-a: 'ask' is missing"),
        ("[[question]]\n", "03_scaling.toml, question number 1: 'name' is missing"),
        ("[[questions]]\n", "03_scaling.toml: there is no [[questions]]"),
        ("question = 5\n", "03_scaling.toml: write [[question]] with double brackets"),
    ],
)
def test_what_cannot_be_loaded_is_named(text, words, tmp_path):
    with pytest.raises(ValueError, match=re.escape(words)):
        content.load(folder_with(tmp_path, text))


def test_a_file_in_another_encoding_is_named(tmp_path):
    folder = folder_with(tmp_path, "")
    (folder / "03_scaling.toml").write_bytes("title = 'naïve'".encode("latin-1"))
    with pytest.raises(ValueError, match=r"03_scaling\.toml cannot be read as TOML"):
        content.load(folder)


# ---- words


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{batch} · {tokens}", "2 · 10"),
        (r"$\sqrt{d_k}$ is {d_k}", r"$\sqrt{d_k}$ is 64"),
        (r"$\sqrt{{d_k}}$", r"$\sqrt{64}$"),
        (r"{d_model}, $x_{{n_heads}}$, {n_heads}", r"512, $x_{8}$, 8"),
        ("a set {a, b}", "a set {a, b}"),
    ],
)
def test_sizes_are_filled_in(text, said):
    assert content.filled(text, Dims()) == said and content.filled(text, None) == text


def test_a_reader_of_the_dictionary_cannot_change_the_content():
    content.questions().clear()
    assert content.questions()


def test_the_misconceptions_are_those_of_the_catalogue():
    assert {mistake.misconception for mistake in mistakes.CATALOGUE} <= set(content.MISCONCEPTIONS)
    assert list(content.MISCONCEPTIONS) == [f"M{i}" for i in range(1, 18)]
