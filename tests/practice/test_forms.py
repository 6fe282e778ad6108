"""Four forms from one source: what is left out in one stands in the other, and every form can be run."""

import pytest

from mha_lib.practice import content, exercises
from mha_lib.practice.forms import BLANK, FORMS, faded, unfilled

SOLUTION = '''
def f(x):
    """Twice as much."""
    y = ⟦x⟧ * ⟦1: 2⟧  # kept
    return ⟦y⟧
'''


def test_the_four_forms():
    head = 'def f(x):\n    """Twice as much."""\n'
    assert faded(SOLUTION, "worked") == head + "    y = x * 2  # kept\n    return y"
    assert faded(SOLUTION, "one blank") == head + f"    y = x * {BLANK}  # kept\n    return y"
    assert faded(SOLUTION, "three blanks") == head + f"    y = {BLANK} * {BLANK}  # kept\n    return {BLANK}"
    assert faded(SOLUTION, "empty") == head + "    return ..."


def test_a_head_of_several_lines_stays_whole():
    code = "def f(\n    x,\n    y,\n):\n    return ⟦1: x⟧"
    assert faded(code, "empty") == "def f(\n    x,\n    y,\n):\n    return ..."


def test_other_forms_and_other_code_are_refused():
    with pytest.raises(ValueError, match="no form 'half'; there are worked, one blank, three blanks, empty"):
        faded(SOLUTION, "half")
    with pytest.raises(ValueError, match="a solution is one function, and this is not: 'x = 1'"):
        faded("x = 1", "empty")


def made(code):
    names = {"np": __import__("numpy")}
    exec(code, names)
    return next(value for name, value in names.items() if callable(value) and not name.startswith("_"))


TEXTS = content.exercise_texts()
each_text = pytest.mark.parametrize("name", TEXTS)


@each_text
def test_the_worked_form_passes_its_own_checker(name):
    found = exercises.verdict(made(faded(TEXTS[name].solution, "worked")), name)
    assert found.passed, found.said


@each_text
@pytest.mark.parametrize("form", FORMS[1:])
def test_the_other_forms_run_and_are_open(name, form):
    """Run All must come through them, and the checker must not call them wrong."""
    code = faded(TEXTS[name].solution, form)
    assert code.count(BLANK) == {"one blank": 1, "three blanks": 3, "empty": 0}[form]
    assert exercises.judged(made(code), exercises.named(name)).state == "open"


@each_text
def test_no_hint_is_the_solution(name):
    lines = [line.strip() for line in faded(TEXTS[name].solution, "worked").splitlines() if "return" in line]
    assert not any(line in hint for line in lines for hint in TEXTS[name].hints)


def test_a_blank_is_found_wherever_it_is():
    assert unfilled(lambda x: ___)
    assert unfilled(lambda x: [y.___ for y in x])
    assert unfilled(lambda x: lambda: max(x, key=___))
    assert not unfilled(lambda x: x)
    assert not unfilled(len)


def test_every_exercise_has_a_text_and_every_text_an_exercise():
    assert set(TEXTS) == {exercise.name for exercise in exercises.EXERCISES}
