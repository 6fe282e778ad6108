"""What every notebook of the course must do in a browser.

Each check takes an open notebook and returns its findings, one sentence each; an empty list is good news.
"""

from __future__ import annotations

import importlib.util
import re
import time
from ast import literal_eval
from pathlib import Path

from . import jupyters_own
from .driver import OpenNotebook

# How long a picture may take to follow; far above what is wanted (the benchmark measures that), because machines
# that run tests are busy, and a picture that comes late is not a picture that does not come.
PATIENCE_MS = 8_000

# What sliding every control of every panel from end to end may leave in the kernel: what numerical libraries keep
# for themselves after their first large arrays. And what sliding on may add to it, which is next to nothing.
FIRST_ROUND_MIB = 256
LATER_MIB = 24
LATER_PRESSES = 26

MAIN_SLIDERS = ("batch", "tokens", "width", "heads")
THEMES = ("JupyterLab Light", "JupyterLab Dark")

# Both in one question: every question to the kernel ends as a cell does, and closes the figures (see driver.WATCH).
FIGURES_AND_MIB = ("(__import__('sys')._open_figures, "
                   "(__import__('gc').collect(), __import__('psutil').Process().memory_info().rss / 2**20)[1])")



class Album:
    """Screenshots of one notebook, for looking at; without a folder it takes none."""

    def __init__(self, nb: OpenNotebook, folder: Path | None):
        self.nb, self.folder = nb, folder
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            for old in folder.glob("*.png"):
                old.unlink()

    def _size(self, width: int, height: int) -> None:
        self.nb.page.set_viewport_size({"width": width, "height": height})
        self.nb.page.evaluate("() => mha.nextFrame().then(mha.nextFrame)")

    def screen(self, name: str, width: int = 1280, height: int = 1000) -> None:
        """A window of this size, scrolled to the first panel if there is one, else to the top."""
        if self.folder:
            self._size(width, height)
            self.nb.page.evaluate("() => mha.scrollToFirst()")
            self.nb.page.screenshot(path=self.folder / f"{name}.png")
            self._size(1280, 1000)

    def whole(self, name: str) -> None:
        """The notebook from first to last cell, in a window as tall as that takes."""
        if self.folder:
            unroll(self.nb)
            self.nb.page.screenshot(path=self.folder / f"{name}.png")
            self._size(1280, 1000)

    def panel(self, index: int, name: str) -> None:
        if self.folder:
            box = self.nb.page.evaluate("index => mha.stage(index)", index)
            if box["height"] + 200 > self.nb.page.viewport_size["height"]:
                self._size(1280, int(box["height"]) + 250)
                box = self.nb.page.evaluate("index => mha.stage(index)", index)
            self.nb.page.screenshot(path=self.folder / f"panel-{index}-{name}.png", clip=box)


def unroll(nb: OpenNotebook, width: int = 1280) -> None:
    """Make the window tall enough for all cells: what is off screen is neither drawn nor looked at by axe."""
    height = 0
    for _ in range(3):  # cells off screen have a guessed height until they were on screen once
        size = nb.page.evaluate("() => mha.notebookHeight()")
        needed = min(size["content"] + size["frame"], 12_000)  # what Chromium can still draw in one piece
        if needed <= height:
            break
        height = needed
        nb.page.set_viewport_size({"width": width, "height": height})
        nb.page.evaluate("() => mha.nextFrame().then(mha.nextFrame)")


# ---------------------------------------------------------------------------------------------
# Before it is run


def pictures_by_cell(nb: OpenNotebook) -> dict[int, int]:
    counts: dict[int, int] = {}
    for picture in nb.page.evaluate("() => mha.pictures()"):
        if picture["drawn"]:
            counts[picture["cell"]] = counts.get(picture["cell"], 0) + 1
    return counts


A_REPR = re.compile(r"\w+\(.*\)$", re.DOTALL)  # of a widget, as in IntSlider(value=0)


def check_before_run(nb: OpenNotebook) -> list[str]:
    """What was saved shows as it was, although the notebook is not trusted and nothing runs yet."""
    findings, end = _before_run(nb), time.monotonic() + PATIENCE_MS / 1000
    while findings and time.monotonic() < end:  # cells far below are drawn when the browser finds the time
        unroll(nb)
        nb.page.evaluate("() => mha.settled()")
        findings = _before_run(nb)
    return findings


def _before_run(nb: OpenNotebook) -> list[str]:
    findings = []
    shown = pictures_by_cell(nb)
    for cell in nb.page.evaluate("() => mha.cellStates()"):
        for output in cell["outputs"]:
            data = output.get("data", {})
            html = "".join(data.get("text/html", ""))
            pictured = any(kind.startswith("image/") for kind in data) or re.search(r"<(img|svg)\b", html)
            if pictured and not shown.get(cell["index"]):
                findings.append(f"{where(cell)} has a saved picture that does not show before the notebook is run")
                break
            words = "".join(data.get("text/plain", ""))
            if any("widget-view" in kind for kind in data) and not html and not pictured and A_REPR.match(words):
                findings.append(f"{where(cell)} has a saved widget and neither picture nor words beside it: before it "
                                f"is run, the reader sees “{words[:60]}”")
                break
    for text in nb.page.locator(".jp-OutputArea-output").all_inner_texts():
        if broken := re.search(r"model not found|Error displaying widget|Loading widget", text):
            findings.append(f"before it is run, an output says “{broken[0]}” in place of a picture")
    return findings


def check_saved_pictures(nb: OpenNotebook, before: dict[int, int]) -> list[str]:
    """Every cell that shows a picture when run also shows one to somebody who does not run it."""
    cells = {cell["index"]: cell for cell in nb.page.evaluate("() => mha.cellStates()")}
    return [f"{where(cells[index])} shows a picture when run, but nothing of it is saved: without a kernel the reader "
            "sees none" for index in pictures_by_cell(nb) if index not in before and cells[index]["type"] == "code"]


# ---------------------------------------------------------------------------------------------
# After it is run


def where(cell: dict) -> str:
    lines = [line for line in cell["source"].splitlines() if line.strip()]
    return f"cell {cell['index']} (“{lines[0][:60] if lines else 'empty'}”)"


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text).strip()


def check_ran(nb: OpenNotebook) -> list[str]:
    """Every code cell ran, and none raised or warned, in a cell or in a widget's callback."""
    findings = []
    for cell in nb.page.evaluate("() => mha.cellStates()"):
        if cell["type"] != "code":
            continue
        if cell["source"].strip() and not cell["count"]:
            findings.append(f"{where(cell)} was not run")
        for output in cell["outputs"]:
            if output["output_type"] == "error":
                findings.append(f"{where(cell)} raises {output['ename']}: {plain(output['evalue'])}")
            if output.get("name") == "stderr":
                findings.append(f"{where(cell)} writes to stderr: {plain(''.join(output['text']))[:300]}")
    return findings + check_callbacks(nb)


def check_callbacks(nb: OpenNotebook) -> list[str]:
    """No callback of a widget raised or warned, and no panel shows an error in place of a picture."""
    findings = []
    for message in nb.page.evaluate("() => mha.heard()"):
        if message["from"] == "execute_request":
            continue  # in the cell's own output, reported there
        if message["kind"] == "error":
            findings.append(f"a widget's callback raises {plain(message['text'])}")
        elif not jupyters_own.is_known(message["text"], jupyters_own.KERNEL_STDERR):
            findings.append(f"a widget's callback writes to stderr: {plain(message['text'])[:300]}")
    for text in nb.page.locator(".mha-error").all_inner_texts():
        if text.strip():
            findings.append(f"a panel shows an error: {text.strip()[:300]}")
    return unique(findings)


def check_heard(nb: OpenNotebook) -> list[str]:
    """Nothing in the browser's console, and no request to anywhere but the server on this machine."""
    findings = [f"the page asks for {url[:200]}, which is not on this machine" for url in nb.heard.left_machine]
    findings += [f"the kernel asks for {host}, which is not on this machine"
                 for host in literal_eval(nb.ask_kernel("__import__('sys')._tried_to_leave"))]
    for text in nb.heard.console_errors:
        if not jupyters_own.is_known(text, jupyters_own.CONSOLE):
            findings.append(f"the browser's console has an error: {text[:300]}")
    findings += [f"a script on the page raises {text[:300]}" for text in nb.heard.page_errors]
    return unique(findings)


def unique(findings: list[str]) -> list[str]:
    return list(dict.fromkeys(findings))


# ---------------------------------------------------------------------------------------------
# For people who do not see it

A_FILE_NAME = re.compile(r"\S+\.(png|jpe?g|svg|gif|webp|pdf)", re.IGNORECASE)
SAYS_NOTHING = {"alt", "chart", "diagram", "figure", "heatmap", "image", "img", "output", "photo", "picture", "plot",
                "svg", "untitled"}


def check_alt_texts(nb: OpenNotebook) -> list[str]:
    """Every picture, in outputs and in the text, says in words what it shows."""
    findings = []
    cells = nb.page.evaluate("() => mha.cellStates()")
    for picture in nb.page.evaluate("() => mha.pictures()"):
        thing = f"a picture (<{picture['tag']}>) of {where(cells[picture['cell']])}" if picture["cell"] >= 0 \
            else f"a picture (<{picture['tag']}>)"
        name = picture["name"]
        if picture["tag"] != "img" and picture["role"] != "img":
            findings.append(f"{thing} is not marked as a picture with role=\"img\"")
        if not name or name == "Image":  # which is what JupyterLab writes where there is none
            findings.append(f"{thing} has no alt text")
        elif A_FILE_NAME.fullmatch(name):
            findings.append(f"{thing} has a file name, {name}, for alt text")
        elif name.lower().strip(" .") in SAYS_NOTHING:
            findings.append(f"{thing} has “{name}” for alt text, which says nothing")
        if not picture["drawn"]:
            findings.append(f"{thing} does not show: {picture['source']}")
    return findings


def check_names(nb: OpenNotebook) -> list[str]:
    """Every slider and number field has a name, or, as ipywidgets' handles have none, a named field beside it."""
    findings = []
    for thing in nb.page.evaluate("() => mha.nameless()"):
        cell = f"in cell {thing['cell']}"
        if thing["kind"] == "slider":
            findings.append(f"the slider “{thing['label']}” {cell} has neither an accessible name nor a number field "
                            "of that name beside it")
        else:
            findings.append(f"a {thing['kind']} {cell} has no accessible name")
    return findings


def axe_script() -> str | None:
    """axe-core as it comes with axe-playwright-python, or None where that is not installed."""
    spec = importlib.util.find_spec("axe_playwright_python")
    return Path(spec.origin).with_name("axe.min.js").read_text(encoding="utf-8") if spec else None


def check_axe(nb: OpenNotebook, themes: tuple[str, ...] = THEMES) -> list[str]:
    """axe-core finds nothing in the notebook, in either theme, that is not known to be Jupyter's own."""
    nb.page.evaluate(axe_script())
    unroll(nb)
    known = [{"rule": entry.rule, "selector": entry.selector} for entry in jupyters_own.AXE]
    places: dict[str, list[str]] = {}
    for theme in themes:
        nb.set_theme(theme)
        for found in nb.page.evaluate("known => mha.axe(known)", known):
            text = f"{found['rule']} ({found['impact']}): {found['help']}; {found['what']}; {found['html']}"
            places.setdefault(text, []).append(f"cell {found['cell']} in {theme.removeprefix('JupyterLab ')}")
    nb.set_theme(THEMES[0])
    nb.page.set_viewport_size({"width": 1280, "height": 1000})
    return [f"axe, {', '.join(unique(at))}: {text}" for text, at in places.items()]
