"""What every stored notebook is made of, and that its outputs are fit for a page without a kernel."""

import re
import shutil
from pathlib import Path

import nbformat
import pytest
import store_notebooks

ROOT = Path(__file__).resolve().parent.parent
PATHS = sorted((ROOT / "notebooks").glob("*.ipynb"))
LONGEST_CELL = 20
LARGEST_FILE = 1_500_000

every_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def read(path):
    return nbformat.read(path, as_version=4)


def prose(notebook):
    return [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def test_there_are_notebooks_and_nothing_else_but_their_data():
    assert PATHS, "notebooks/ is empty"
    strangers = {path.suffix for path in (ROOT / "notebooks").rglob("*") if path.is_file()} - {
        ".ipynb",
        ".npz",
        ".json",
    }
    assert not {suffix for suffix in strangers if suffix == ".py"}, "helpers belong into mha_lib"


@every_notebook
def test_the_outputs_are_fit_to_be_read_without_a_kernel(path):
    assert store_notebooks.faults(read(path)) == []


@every_notebook
def test_every_cell_has_been_run(path):
    notebook = read(path)
    unrun = [cell.id for cell in code(notebook) if cell.source.strip() and cell.execution_count is None]
    assert not unrun
    assert any(cell.outputs for cell in code(notebook)), "a notebook without outputs shows nothing to a reader"


@every_notebook
def test_the_file_is_in_the_form_that_the_tool_stores(path):
    text = path.read_text(encoding="utf-8")
    assert store_notebooks.store(store_notebooks.clean(read(path))) == text, "run tools/store_notebooks.py"
    assert path.stat().st_size <= LARGEST_FILE


@every_notebook
def test_no_path_of_one_machine_is_written_down(path):
    for cell in read(path).cells:
        source = store_notebooks.DATA_URI.sub("", cell.source)
        assert not store_notebooks.PATHS.search(source), f"{cell.id}: {store_notebooks.PATHS.search(source).group()}"


@every_notebook
def test_code_cells_are_short(path):
    for cell in code(read(path)):
        lines = [line for line in cell.source.splitlines() if line.strip()]
        assert len(lines) <= LONGEST_CELL, f"{cell.id} has {len(lines)} lines"


@every_notebook
def test_it_begins_with_a_title_a_question_and_objectives(path):
    first = prose(read(path))[0]
    assert re.match(r"# \S", first)
    assert "**The question.**" in first
    assert "**Afterwards you can**" in first
    assert "**You need**" in first
    assert re.search(r"\*\*Time:\*\* \d+ minutes", first)


@every_notebook
def test_it_ends_with_folded_notes_for_the_instructor_and_the_way_on(path):
    notebook = read(path)
    notes = [text for text in prose(notebook) if "<details><summary><b>For the instructor</b></summary>" in text]
    assert len(notes) == 1
    assert "</details>" in notes[0]
    assert "minutes" in notes[0]
    assert "**Next:**" in prose(notebook)[-1]
    position = PATHS.index(path)
    if position + 1 < len(PATHS):
        assert f"**Next:** [{PATHS[position + 1].stem[:2]}" in prose(notebook)[-1]
        assert f"]({PATHS[position + 1].name})" in prose(notebook)[-1]


@every_notebook
def test_it_has_a_recap_and_an_interview_card(path):
    text = "\n".join(prose(read(path)))
    for heading in ("## Recap", "## Interview card"):
        assert text.count(heading) == 1


@every_notebook
def test_its_links_lead_somewhere_and_its_pictures_have_alt_text(path):
    for text in prose(read(path)):
        for target in re.findall(r"\]\(([^)\s#]+)[^)]*\)", text):
            assert "://" in target or (path.parent / target).exists(), target
        assert "![](" not in text
        assert all(store_notebooks.PicturesInHTML(text).alts)


@every_notebook
def test_the_minutes_are_those_of_the_readme(path):
    first = prose(read(path))[0]
    minutes = sum(map(int, re.findall(r"\d+", re.search(r"\*\*Time:\*\* (.+)", first).group(1))))
    row = re.search(rf"\(notebooks/{path.name}\) \| (\d+) \|", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert row, f"{path.name} is not in the README's table"
    assert int(row.group(1)) == minutes


@pytest.mark.slow
@every_notebook
def test_a_fresh_run_prints_what_is_stored(path, tmp_path):
    copy = Path(shutil.copytree(path.parent, tmp_path / "notebooks")) / path.name
    assert store_notebooks.treat(copy, check=True) == []


# ---- the tool itself


def cell_with(*outputs, source="1 + 1"):
    return nbformat.v4.new_code_cell(source, outputs=list(outputs), execution_count=1)


def shown(**data):
    return nbformat.v4.new_output("display_data", {name.replace("_", "/", 1): value for name, value in data.items()})


def notebook_of(*cells):
    return nbformat.v4.new_notebook(cells=list(cells))


def printed(text, name="stdout"):
    return nbformat.v4.new_output("stream", name=name, text=text)


WIDGET = {store_notebooks.WIDGET: {"model_id": "1", "version_major": 2, "version_minor": 0}}


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (printed("a warning", "stderr"), "stderr"),
        (nbformat.v4.new_output("error", ename="ValueError", evalue="48 and 5"), "raised ValueError: 48 and 5"),
        (shown(text_plain="<Figure size 640x480 with 1 Axes>"), "stray '<Figure size'"),
        (shown(text_plain="Text(0.5, 1.0, 'title')"), "stray 'Text('"),
        (shown(text_plain="np.float64(0.125)"), "stray 'np.float64('"),
        (shown(text_html="<td>np.int64(3)</td>"), "stray 'np.int64('"),
        (printed("<__main__.A object at 0x7f00>"), "stray 'object at 0x'"),
        (printed("saved to /home/ada/out.png"), "path of one machine"),
        (printed("C:\\Users\\ada"), "path of one machine"),
        (shown(image_png="iVBORw0KGgo=", text_plain="<Figure size 640x480 with 1 Axes>"), "picture without alt text"),
        (shown(text_html='<img src="data:image/png;base64,iVBORw0KGgo=">'), "picture without alt text"),
        (shown(text_html="<svg><path/></svg>"), "picture without alt text"),
        (nbformat.v4.new_output("display_data", {**WIDGET, "text/plain": "VBox()"}), "without a still picture"),
    ],
)
def test_what_a_reader_should_not_see_is_found(output, words):
    found = store_notebooks.faults(notebook_of(cell_with(output)))
    assert any(fault.startswith("cell 0: ") and words in fault for fault in found), found


@pytest.mark.parametrize(
    "output",
    [
        printed("(2, 8, 10, 10): 1,600 scores, and/or more at https://example.org/home/page"),
        shown(text_html='<img alt="Weights" src="data:image/png;base64,iVBORw0KGgo=">', text_plain="<Figure size 1x1>"),
        shown(text_html="<svg role='img'><title>Weights</title><path/></svg>"),
        shown(text_html='<svg aria-label="Weights"></svg><svg aria-hidden="true"></svg>'),
        nbformat.v4.new_output("display_data", {"image/png": "iVBO"}, metadata={"image/png": {"alt": "Weights"}}),
    ],
)
def test_what_a_reader_should_see_is_let_through(output):
    assert store_notebooks.faults(notebook_of(cell_with(output))) == []


def test_a_live_panel_leaves_its_still_picture_and_nothing_else():
    panel = nbformat.v4.new_output("display_data", {**WIDGET, "text/html": "<p>still</p>", "text/plain": "VBox()"})
    notebook = notebook_of(cell_with(panel))
    notebook.metadata = nbformat.from_dict(
        {"widgets": {"state": {}}, "vscode": {}, "language_info": {"version": "3.9.1"}}
    )
    notebook.cells[0].metadata = nbformat.from_dict({"tags": ["x"], "execution": {"shell.execute_reply": "10:00"}})
    cleaned = store_notebooks.clean(notebook)
    assert cleaned.cells[0].outputs[0].data == {"text/html": "<p>still</p>"}
    assert set(cleaned.metadata) == {"kernelspec", "language_info"}
    assert "version" not in cleaned.metadata.language_info
    assert cleaned.cells[0].metadata == {"tags": ["x"]}


def test_counts_and_ids_are_watched():
    notebook = notebook_of(cell_with(), cell_with())
    notebook.cells[1].id = notebook.cells[0].id
    found = store_notebooks.faults(notebook)
    assert any("id of its own" in fault for fault in found)
    assert any("execution count is 1, not 2" in fault for fault in found)


def test_a_changed_output_is_shown_as_a_difference_unless_it_may_vary():
    stored, fresh = notebook_of(cell_with(printed("1\n2\n"))), notebook_of(cell_with(printed("1\n3\n")))
    (difference,) = store_notebooks.differences(stored, fresh)
    assert "-2" in difference
    assert "+3" in difference
    assert store_notebooks.differences(stored, stored) == []
    stored.cells[0].metadata["tags"] = ["varies"]
    assert store_notebooks.differences(stored, fresh) == []


def test_pixels_may_differ_and_words_may_not():
    one, other = (shown(text_html=f'<img alt="A" src="data:image/png;base64,{x}">') for x in ("AAAA", "BBBB"))
    assert store_notebooks.text_of(one) == store_notebooks.text_of(other)
    assert store_notebooks.text_of(one) != store_notebooks.text_of(shown(text_html='<img alt="B" src="data:">'))


@pytest.mark.slow
def test_the_tool_stores_what_is_fit_and_refuses_what_is_not(tmp_path, capsys):
    fit = notebook_of(
        nbformat.v4.new_markdown_cell("# Title"),
        nbformat.v4.new_code_cell("import os\nprint(os.path.basename(os.getcwd()), hash('a') == hash('a'))"),
        nbformat.v4.new_code_cell(""),
        nbformat.v4.new_code_cell("6 * 7"),
    )
    unfit = notebook_of(nbformat.v4.new_code_cell("import warnings\nwarnings.warn('look out')"))
    broken = notebook_of(nbformat.v4.new_code_cell("1 / 0"))
    folder = tmp_path / "notebooks"
    folder.mkdir()
    for name, notebook in {"fit": fit, "unfit": unfit, "broken": broken}.items():
        nbformat.write(notebook, folder / f"{name}.ipynb")
    before = (folder / "unfit.ipynb").read_bytes()

    assert store_notebooks.main([str(path) for path in sorted(folder.glob("*.ipynb"))]) == 1
    said = capsys.readouterr().out
    assert "fit.ipynb: stored" in said
    assert "unfit.ipynb: not stored\n  cell 0: it wrote to stderr" in said
    assert "broken.ipynb: not stored\n  it did not run to the end:" in said
    assert "ZeroDivisionError" in said
    assert (folder / "unfit.ipynb").read_bytes() == before

    stored = read(folder / "fit.ipynb")
    assert [cell.get("execution_count") for cell in stored.cells] == [None, 1, None, 2]
    assert stored.cells[1].outputs[0].text == "notebooks True\n"
    assert [cell.id for cell in stored.cells] == [cell.id for cell in fit.cells]
    assert (folder / "fit.ipynb").read_bytes().endswith(b"}\n")

    assert store_notebooks.main(["--check", str(folder / "fit.ipynb")]) == 0
    stored.cells[3].outputs[0].data["text/plain"] = "41"
    nbformat.write(stored, folder / "fit.ipynb")
    assert store_notebooks.main(["--check", str(folder / "fit.ipynb")]) == 1
    assert "-41" in capsys.readouterr().out
