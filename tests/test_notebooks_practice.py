"""What the notebooks ask is what the content holds, and the exercises' cells are forms of one solution."""

import re
from pathlib import Path

import nbformat
import pytest

from mha_lib.dims import Dims, in_words
from mha_lib.practice import content, forms

ROOT = Path(__file__).resolve().parent.parent
PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))
CALL = re.compile(r"practice\.(?P<what>\w+)\((?P<arguments>[^)]*)\)?")
NAME = re.compile(r"\"([^\"]+)\"")

every_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def cells(path):
    return nbformat.read(path, as_version=4).cells


def called(path, what):
    """The arguments of every call of ``practice.<what>`` in a notebook, in order."""
    source = "\n".join(cell.source for cell in cells(path) if cell.cell_type == "code")
    return [call["arguments"] for call in CALL.finditer(source) if call["what"] == what]


def names(path, what):
    return [name for arguments in called(path, what) for name in NAME.findall(arguments)]


def of_notebook(entries, path):
    return [name for name, entry in entries.items() if entry.notebook == path.stem]


@every_notebook
def test_every_prediction_of_the_notebook_is_asked_once(path):
    asked = [NAME.match(arguments)[1] for arguments in called(path, "predict")]
    assert sorted(asked) == sorted(of_notebook(content.predictions(), path))


@every_notebook
def test_questions_are_its_own_and_asked_once(path):
    asked = names(path, "ask")
    assert len(asked) >= 3 and len(set(asked)) == len(asked)
    assert set(asked) <= set(of_notebook(content.questions(), path))


@every_notebook
def test_it_begins_by_recalling_the_ones_before(path):
    assert names(path, "review") == ([] if path == PATHS[0] else [path.stem[:2]])


@every_notebook
def test_exercises_fade_from_one_source(path):
    seen = {}
    text_before = ""
    for cell in cells(path):
        if cell.cell_type == "markdown":
            text_before = cell.source
            continue
        if not (check := re.search(r"\n\n\npractice\.check\((\w+)\)$", cell.source)):
            continue
        name, code = check[1], cell.source[: check.start()]
        text = content.exercise_texts()[name]
        form = next((form for form in forms.FORMS if forms.faded(text.solution, form) == code), None)
        assert form, f"{cell.id} is no form of {name}; the solution in the content has changed, or the cell has"
        if name not in seen:
            assert text.task in text_before, f"{cell.id}: the text before it does not say the task of {name}"
        seen.setdefault(name, []).append(form)
    assert seen, "no exercise"
    assert all(found == list(forms.FORMS[1:]) for found in seen.values()), seen
    assert list(seen) == of_notebook(content.exercise_texts(), path)


@every_notebook
def test_no_answer_stands_in_a_cell(path):
    """A reader who opens the source of a question finds its name there."""
    folded = [cell.id for cell in cells(path) if cell.metadata.get("jupyter", {}).get("source_hidden")]
    assert not folded
    source = "\n".join(cell.source for cell in cells(path) if cell.cell_type == "code")
    for question in content.questions().values():
        for option in question.options:
            assert option.feedback not in source


def test_the_numbers_in_the_text_of_01_are_those_of_its_sizes():
    text = "\n".join(cell.source for cell in cells(PATHS[1]) if cell.cell_type == "markdown")
    small, long = Dims(batch=5, tokens=9, d_model=48, n_heads=3), Dims(tokens=1024)
    assert (
        f"Split: {small.shape('split')}. Scores: {small.shape('score')}, which is {small.score_elements:,} numbers"
        in text
    )
    assert f"or {small.score_bytes():,} bytes in float32. Output: {small.shape('output')}." in text
    assert f"What at 1,024 tokens? {long.score_elements:,} scores, {in_words(long.score_bytes())}." in text
