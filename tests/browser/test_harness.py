"""The harness is tested too: it finds a fault that was planted, says so in words, and passes what is sound."""

from __future__ import annotations

import re
from textwrap import indent

import pytest

from . import checks, panels, stand_in
from .driver import Lab, OpenNotebook
from .stand_in import PANEL, STILL


def html(text: str) -> str:
    return f"from IPython.display import HTML, display\ndisplay(HTML({text!r}))"


def planted(old: str, new: str) -> str:
    """The stand-in panel with one fault."""
    assert old in PANEL
    return PANEL.replace(old, new)


@pytest.fixture
def opened(lab_and_context):
    """A function that makes a notebook of the cells it is given and opens and runs it."""
    lab, context = lab_and_context
    books = []

    def open_and_run(*cells: str, run: bool = True, **stored) -> OpenNotebook:
        path = lab.copy / "notebooks" / f"made_up_{len(books)}.ipynb"
        stand_in.notebook(path, *cells, **stored)
        books.append(OpenNotebook(lab, context, path.name))
        if run:
            assert books[-1].run_all(60)
        return books[-1]

    yield open_and_run
    for book in books:
        book.close()


def all_findings(nb: OpenNotebook) -> list[str]:
    album = checks.Album(nb, None)
    return [*checks.check_ran(nb), *checks.check_alt_texts(nb), *checks.check_names(nb), *checks.check_axe(nb),
            *panels.check_panels(nb, album), *checks.check_heard(nb)]


def assert_says(findings: list[str], pattern: str) -> None:
    assert any(re.search(pattern, finding) for finding in findings), f"{pattern!r} not among {findings}"


def test_a_sound_notebook_has_nothing_to_mend(opened, tmp_path):
    nb = opened(STILL, PANEL, run=False)
    before = checks.pictures_by_cell(nb)
    assert checks.check_before_run(nb) == []
    assert nb.run_all(60)
    assert checks.check_saved_pictures(nb, before) == []
    assert all_findings(nb) == []
    assert panels.check_leaks(nb, lambda: None) == []
    album = checks.Album(nb, tmp_path / "album")
    album.whole("whole")
    album.panel(0, "default")
    assert {path.name for path in album.folder.iterdir()} == {"whole.png", "panel-0-default.png"}


def test_one_fault_in_a_cell_is_one_finding(opened):
    """Several faults in one notebook, each in a cell of its own: cheaper than a notebook each."""
    svg = '<svg width="9" height="9"><rect width="9" height="9"/></svg>'
    nb = opened(
        html(f'<img src="{stand_in.PNG}">'),
        html(f'<img alt="heat_map.png" src="{stand_in.PNG}">'),
        html(svg),
        html('<img alt="A tree" src="https://pictures.example.org/tree.png">'),
        html("<script>console.error('the sky falls')</script>"),
        html("<script>setTimeout(() => { throw new Error('out of order') })</script>"),
        html('<p style="color: #999; background: #fff">hardly to be read</p>'),
        "import sys\nprint('mind the step', file=sys.stderr)",
        "import ipywidgets\nipywidgets.IntText()",
        "import ipywidgets\nipywidgets.IntSlider(description='alone')",
        "from IPython.display import Image, display\nimport base64\n"
        f"display(Image(data=base64.b64decode({stand_in.PNG.partition(',')[2]!r})))",
        "import socket\ntry:\n    socket.create_connection(('models.example.org', 80))\nexcept OSError:\n    pass",
        html('<p class="mha-error">ValueError: no such head</p>'),
        "{}['no such key']",
        "'never run'",
    )
    findings = checks.check_ran(nb)
    assert_says(findings, r"cell 8 .* writes to stderr: mind the step")
    assert_says(findings, r"a panel shows an error: ValueError: no such head")
    assert_says(findings, r"cell 14 .* raises KeyError: 'no such key'")
    assert_says(findings, r"cell 15 .* was not run")
    assert len(findings) == 4
    findings = checks.check_alt_texts(nb)
    assert_says(findings, r"<img>\) of cell 1 .* has no alt text")
    assert_says(findings, r"<img>\) of cell 11 .* has no alt text")
    assert_says(findings, r"cell 2 .* has a file name, heat_map\.png, for alt text")
    assert_says(findings, r"<svg>\) of cell 3 .* is not marked as a picture")
    assert_says(findings, r"<svg>\) of cell 3 .* has no alt text")
    assert_says(findings, r"cell 4 .* does not show")
    findings = checks.check_names(nb)
    assert_says(findings, r"a number field in cell 9 has no accessible name")
    assert_says(findings, r"the slider “alone” in cell 10 has neither")
    assert len(findings) == 2
    findings = checks.check_axe(nb)
    assert_says(findings, r"axe, cell 7 in Light, .*: color-contrast")
    assert_says(findings, r"axe, cell 9 in Light, .*: label")
    findings = checks.check_heard(nb)
    assert_says(findings, r"the page asks for https://pictures\.example\.org/tree\.png")
    assert_says(findings, r"the kernel asks for models\.example\.org")
    assert_says(findings, r"console has an error: the sky falls")
    assert_says(findings, r"a script on the page raises .*out of order")


PANEL_FAULTS = {
    "the picture does not follow": (
        'sliders[n].observe(draw, "value")', 'n == "tokens" or sliders[n].observe(draw, "value")',
        r"Home on “tokens”, the tokens slider says 2, the picture was drawn for 2,10,64,8"),
    "only its data-of follows": (
        'of = f"{b},{t},{d},{h}"', 'of = f"{b},{t},{d},{h}"\n    b = 1',
        r"“batch” at either end shows the same picture but for its data-of"),
    "an exception in a callback": (
        "    of = f", "    assert t != 32, 'too many tokens'\n    of = f",
        r"callback raises AssertionError: too many tokens"),
    "a warning in a callback": (
        "    of = f", "    if t == 32: __import__('warnings').warn('so many tokens')\n    of = f",
        r"callback writes to stderr: .*so many tokens"),
    "an error in place of the picture": (
        "    if d % h:",
        "    if h == 1:\n        picture.value = f'<p class=\"mha-error\" data-of=\"{of}\">ValueError: one head</p>'\n"
        "        return\n    if d % h:", r"shows an error: ValueError: one head"),
    "a field without a name": (
        'w.BoundedIntText(description=n,', 'w.BoundedIntText(', r"number field in cell \d+ has no accessible name"),
    "a field that is not listened to": (
        'w.link((sliders[n], "value"), (fields[n], "value"))',
        'w.dlink((sliders[n], "value"), (fields[n], "value"))', r"the batch slider says 4, its number field 2"),
    "a slider that moves another": (
        "draw()\npanel", 'w.dlink((sliders["tokens"], "value"), (sliders["batch"], "value"), lambda t: min(4, t))\n'
        "draw()\npanel", r"on “tokens” also moved “batch”"),
    "a notice that is not announced": (' role="status"', "", r'notice has no role="status"'),
    "a notice without the numbers": (
        "{d} does not divide by {h}.", "It does not divide.", r"notice does not name 64"),
    "a slider that Tab passes by": (
        "display(panel)", "from IPython.display import HTML\ndisplay(panel, HTML('<script>setInterval(() => "
        "mha.handles(mha.panels().at(-1))[1].tabIndex = -1, 10)</script>'))",
        r"Tab does not reach the slider “tokens”"),
}


@pytest.fixture(scope="module")
def faulty_panels(lab_and_context):
    """What is found in each faulty panel; all are in one notebook, because opening one takes longer than the rest."""
    lab, context = lab_and_context
    # A function each, or they would share their variables.
    cells = [f"def panel():\n{indent(planted(old, new), '    ')}\npanel()" for old, new, _ in PANEL_FAULTS.values()]
    path = stand_in.notebook(lab.copy / "notebooks" / "made_up_panels.ipynb", *cells)
    nb = OpenNotebook(lab, context, path.name)
    assert nb.run_all(60)
    assert checks.check_ran(nb) == []
    unnamed, heard, found = checks.check_names(nb), [], {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(panels, "PATIENCE_MS", 1_000)
        for index, fault in enumerate(PANEL_FAULTS):
            found[fault] = panels.Panel(nb, index, checks.Album(nb, None)).visit()
            found[fault] += [finding for finding in unnamed if f"cell {index + 1} " in finding]
            found[fault] += [finding for finding in checks.check_callbacks(nb) if finding not in heard]
            heard = checks.check_callbacks(nb)
    yield found
    nb.close()


@pytest.mark.parametrize("fault", PANEL_FAULTS)
def test_a_fault_in_a_panel_is_found(faulty_panels, fault):
    assert_says(faulty_panels[fault], PANEL_FAULTS[fault][2])


def test_figures_and_memory_left_behind_are_found(opened):
    keep = ("    import matplotlib.pyplot as plt, numpy as np\n    plt.figure()\n"
            "    globals().setdefault('kept', []).append(np.ones(2**18))\n")
    # Left as it is, the inline backend closes every figure after every message.
    nb = opened("%config InlineBackend.close_figures = False", planted("    of = f", f"{keep}    of = f"))
    findings = panels.check_leaks(nb, lambda: None)
    assert_says(findings, r"sliding leaves figures open: \d+ before, \d+ after")
    assert_says(findings, r"sliding to and fro grows the kernel by \d+ MiB")


def test_a_picture_that_is_not_saved_is_missed(opened):
    nb = opened(STILL, stored=False, run=False)
    before = checks.pictures_by_cell(nb)
    assert nb.run_all(60)
    assert_says(checks.check_saved_pictures(nb, before), r"cell 1 .* nothing of it is saved")


def test_a_saved_widget_without_a_picture_is_found(opened):
    nb = opened("import ipywidgets\nipywidgets.IntSlider(description='alone')", view=True, run=False)
    assert_says(checks.check_before_run(nb), r"cell 1 .* saved widget and neither picture .* sees “IntSlider")


def test_a_picture_saved_as_svg_does_not_show_before_the_notebook_is_trusted(opened):
    nb = opened('"mha-panel"', still='<svg role="img" aria-label="A box"><rect width="9" height="9"/></svg>', run=False)
    assert_says(checks.check_before_run(nb), r"cell 1 .* saved picture that does not show before")


def test_a_notebook_that_does_not_come_to_its_end_is_given_up(opened):
    nb = opened("import time\ntime.sleep(60)", run=False)
    assert nb.run_all(timeout=1) is False


def test_the_checkout_is_left_alone(lab_and_context):
    lab, _ = lab_and_context
    assert isinstance(lab, Lab)
    assert lab.copy.is_dir() and not lab.copy.is_relative_to(checks.__file__.split("tests")[0])
