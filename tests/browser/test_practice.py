"""Each notebook worked through by keyboard alone, wrong answers first, as a reader would who has no mouse.

What is answered is kept in one progress file, which is read at the end.
"""

from __future__ import annotations

import json
import re

import pytest

from mha_lib.practice import content, forms, parsons, questions

from . import checks
from .conftest import NOTEBOOKS, SCREENSHOTS
from .driver import OpenNotebook
from .reader import Reader

MY_WORDS = "because it <b>must</b> & $d_k$"

#: The wrong code to begin with, form by form, and what the checker says to it.
WRONG_CODE = {
    "attend": {
        "one blank": ([("___", "k.reshape(*k.shape[:2], d_k, -1)")], "keys reshaped instead of transposed"),
        "three blanks": (
            [("@ ___", "@ k.swapaxes(-1, -2)"), ("/ ___", "/ np.sqrt(d_k)"), ("axis=___", "axis=-2")],
            "divided by the sum over the queries",
        ),
        "empty": ([("return ...", "while True: pass")], "was stopped after 5 seconds. Is there a loop"),
    },
    "step_shapes": {
        "one blank": ([("___", "d_model / n_heads")], "Sizes are whole numbers; // divides without a remainder."),
        "three blanks": (
            [("d_k = ___", "d_k = d_model // n_heads"), ("heads = (___)", "heads = (batch, tokens, n_heads, d_k)"),
             ("pairs = (___)", "pairs = (batch, n_heads, tokens, tokens)")],
            "heads after tokens",
        ),
        "empty": ([("return ...", "return 1 / 0")], "ZeroDivisionError: division by zero. In line 2, return 1 / 0"),
    },
}  # fmt: skip

GOOD_TEST = """\
def my_test(layer):
    rng = np.random.default_rng(0)
    for by in (1, 60):
        x = by * rng.standard_normal((2, 5, 12))
        W = rng.standard_normal((4, 12, 12)) / np.sqrt(12)
        wanted = 0
        for h in range(3):
            own = slice(4 * h, 4 * h + 4)
            scores = x @ W[0][:, own] @ (x @ W[1][:, own]).swapaxes(1, 2) / 2
            grown = np.exp(scores - scores.max(-1, keepdims=True))
            wanted = wanted + grown / grown.sum(-1, keepdims=True) @ (x @ W[2][:, own]) @ W[3][own]
        if not np.allclose(layer(x, *W, n_heads=3), wanted):
            return False
    return True


practice.kill(my_test, "multi_head")"""


@pytest.fixture(params=sorted(path.name for path in NOTEBOOKS.glob("*.ipynb")))
def reader(request, lab_and_context):
    lab, context = lab_and_context
    nb = OpenNotebook(lab, context, request.param)
    folder = SCREENSHOTS / f"{request.param.removesuffix('.ipynb')}-by-keyboard"
    yield Reader(nb, folder)
    nb.close()


def test_it_is_worked_through_by_keyboard_alone(reader):
    nb = reader.nb
    assert nb.run_all()
    nb.page.evaluate("() => jupyterapp.commands.execute('notebook:enter-command-mode')")
    kept = {"questions": set(), "predictions": set(), "exercises": set()}
    done = []
    for cell in nb.page.evaluate("() => mha.cellStates()"):
        for what, arguments in re.findall(r"practice\.(\w+)\((.*)", cell["source"]):
            reader.go_to(cell["index"])
            names = re.findall(r'"([^"]+)"', arguments)
            DO[what](reader, cell, names, kept)
            done.append(what)
    assert {"predict", "ask", "check"} <= set(done)
    report = [*checks.check_callbacks(nb), *checks.check_heard(nb)]
    assert not report, "\n".join(report)

    state = json.loads((nb.lab.folder / "progress.json").read_text(encoding="utf-8"))
    for section, names in kept.items():
        assert names <= set(state[section]), f"{names - set(state[section])} was not kept"
    for name in kept["questions"]:
        assert any(answer["right"] is False for answer in state["questions"][name]["answers"])
        assert state["questions"][name]["card"]["due"]
    for name in kept["predictions"]:
        assert state["predictions"][name]["answers"][-1]["right"] is False
        assert state["predictions"][name]["words"][-1]["text"] == MY_WORDS
    for name in kept["exercises"]:
        passed = [attempt["passed"] for attempt in state["exercises"][name]["attempts"]]
        assert passed[0] is False and passed[-1] is True


def plain(text: str) -> str:
    """As it is read on the page, as far as there is no formula in it."""
    return " ".join(content.plain(text).split())


def some_words(text: str) -> str:
    """The longest piece without a formula or a size to fill in; enough to know a sentence by."""
    return max((plain(piece) for piece in re.split(r"\$[^$]*\$|\{\w+\}", text)), key=len)


# ---- predictions


def predict(reader, cell, names, kept):
    text = content.predictions()[names[0]]
    COMMIT[text.kind](reader, text)
    reader.button("Commit")
    reader.reads("you", "truth" if text.kind != "choice" else "You picked", "Explain.")
    assert some_words(text.why) not in reader.text()
    reader.shows(f"{text.name}-committed")
    reader.tab_to(".mha-words input", 0)
    reader.keyboard.insert_text(MY_WORDS)
    reader.button("Compare with ours")
    reader.reads(f"Yours. {MY_WORDS}", "Ours.", some_words(text.why))
    reader.shows(f"{text.name}-explained")
    kept["predictions"].add(text.name)


def commit_nothing_then(reader, words):
    reader.button("Commit")
    reader.reads(words)


def commit_shape(reader, text):
    commit_nothing_then(reader, "Write the sizes with commas between them")
    reader.tab_to("input[type=text]", 0)
    reader.keyboard.insert_text("1, 1, 1")


def commit_number(reader, text):
    reader.tab_to("input[type=text]", 0)
    reader.keyboard.insert_text("a lot")
    commit_nothing_then(reader, "Write one number")
    reader.tab_to("input[type=text]", 0)
    reader.keyboard.press("ControlOrMeta+a")
    reader.keyboard.insert_text("5")


def commit_choice(reader, text):
    commit_nothing_then(reader, "first")
    wrong = next(i for i, option in enumerate(questions.in_turn(text)) if not option.right)
    reader.tab_to("input[type=checkbox]", wrong)
    reader.keyboard.press("Space")


def commit_cell(reader, text):
    """Query 0 and key 1, which is never the brightest here. Space opens a list; JupyterLab keeps the arrows before."""
    for place, downs in ((0, 1), (1, 2)):
        reader.tab_to("select", place)
        reader.keyboard.press("Space")
        for _ in range(downs):
            reader.keyboard.press("ArrowDown")
        reader.keyboard.press("Enter")
        reader.rest()


COMMIT = {"shape": commit_shape, "number": commit_number, "choice": commit_choice, "brightest": commit_cell}


# ---- questions


def ask(reader, cell, names, kept):
    for place, name in enumerate(names):
        answer_question(reader, names, place)
        kept["questions"].add(name)


def answer_question(reader, names, place, turn=0):
    """Commit to nothing, to a wrong answer, and to the right one."""
    known = content.questions()
    question = known[names[place]]
    options = questions.in_turn(question, turn)
    before = sum(len(known[name].options) for name in names[:place])
    boxes = range(before, before + len(options))
    commit = 0  # of the questions above none is left to commit
    reader.button("Commit", commit)
    reader.reads("Tick an answer first. Or skip.")
    wrong = next(i for i, option in enumerate(options) if not option.right)
    reader.tab_to("input[type=checkbox]", boxes[wrong])
    reader.keyboard.press("Space")
    reader.button("Commit", commit)
    reader.reads("Not quite.", some_words(options[wrong].feedback), "Try once more")
    if place == 0:
        reader.shows(f"{question.name}-wrong")
    for i, option in enumerate(options):
        if option.right or (question.several and i == wrong):
            reader.tab_to("input[type=checkbox]", boxes[i])
            reader.keyboard.press("Space")
    reader.button("Try again", place)
    reader.reads("Right, at the second try.", some_words(question.why))
    reader.shows(f"{question.name}-right")


def review(reader, cell, names, kept):
    """Which ones come hangs on what was answered before; they are told by their words."""
    reader.reads("Answer from memory.")
    text = reader.text()
    by_place = sorted(
        (text.index(some_words(question.ask)), name)
        for name, question in content.questions().items()
        if some_words(question.ask) in text
    )
    assert len(by_place) == 3
    earlier = [name for _, name in by_place]
    assert all(name[:2] < names[0] for name in earlier)
    for place, name in enumerate(earlier):
        times = int(reader.nb.ask_kernel(
            f"__import__('mha_lib.practice.progress', fromlist=['x']).mine().times({name!r})"))
        answer_question(reader, earlier, place, times)


# ---- exercises


def check(reader, cell, names, kept):
    exercise = re.search(r"practice\.check\((\w+)\)", cell["source"])[1]
    text = content.exercise_texts()[exercise]
    code = cell["source"].split("\n\n\npractice.check")[0]
    form = next(form for form in forms.FORMS if forms.faded(text.solution, form) == code)
    changes, said = WRONG_CODE[exercise][form]
    wrong = cell["source"]
    for old, new in changes:
        assert wrong.count(old) == 1, old
        wrong = wrong.replace(old, new)
    reader.reads("To do. Not filled in yet")
    reader.writes(wrong)
    reader.reads("Not yet.", said)
    reader.shows(f"{exercise}-{form}-wrong")
    if form == "one blank":
        reader.button("Hint 1 of 3")
        reader.reads("Hint 1.", some_words(text.hints[0]))
        reader.button("Hint 2 of 3")
        reader.reads("Hint 2.", some_words(text.hints[1]))
        reader.shows(f"{exercise}-hints")
    if form == "empty":
        reader.button("Show the solution")
        reader.reads("One way to write it.", "def " + exercise)
        reader.shows(f"{exercise}-solution")
    reader.go_to(cell["index"])
    right = forms.faded(text.solution, "worked")
    reader.writes(f"{right}\n\n\npractice.check({exercise})")
    reader.reads("Right: all")
    reader.shows(f"{exercise}-{form}-right")
    kept["exercises"].add(exercise)


def order(reader, cell, names, kept):
    puzzle = content.puzzles()[names[0]]
    reader.button("Check")
    reader.reads("Not yet.", "Line 1 uses merged")
    reader.shows(f"{names[0]}-wrong")
    lines = parsons.shuffled(puzzle)
    for place, line in enumerate(puzzle.lines):
        at = lines.index(line)
        assert at >= place, "the lines above are in their places already"
        if at == place:
            continue
        reader.tab_to(".mha-lines button", 2 * at)
        for _ in range(at - place):
            # The focus has gone along, so the same key moves the same line on.
            reader.keyboard.press("Enter")
            reader.rest()
        lines.insert(place, lines.pop(at))
        reader.reads(f"Now in place {place + 1}, {line.goal}.")
    assert reader.nb.page.evaluate("() => Boolean(document.activeElement.closest('.mha-lines'))")
    reader.button("Check")
    reader.reads("Right: all")
    reader.shows(f"{names[0]}-right")
    kept["exercises"].add(names[0])


def kill(reader, cell, names, kept):
    reader.reads("A test of the shape alone stops 0 of")
    reader.shows("test-of-the-shape")
    reader.writes("def my_test(layer):\n    return False\n\n\npractice.kill(my_test, \"multi_head\")")
    reader.reads("Too strict")
    reader.writes(GOOD_TEST)
    reader.reads("and stops all")
    reader.shows("test-of-the-numbers")
    kept["exercises"].add(f"test of {names[0]}")


def my_progress(reader, cell, names, kept):
    reader.button("Refresh")
    there = [name for name, question in content.questions().items() if question.notebook == "00_start_here"]
    answered = [name for name in there if name in kept["questions"]]
    reader.reads("This is how it stands at", f"{len(answered)} of {len(there)}")
    reader.shows("progress")


DO = {"predict": predict, "ask": ask, "review": review, "check": check, "order": order, "kill": kill,
      "my_progress": my_progress}  # fmt: skip
