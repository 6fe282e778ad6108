"""A reader without a mouse: goes to a cell with the arrows, into its widgets with Tab, and presses keys."""

from __future__ import annotations

import time
from pathlib import Path

from .driver import OpenNotebook

#: Seconds that anything may take to appear; machines that run tests are busy.
PATIENCE = 20

MOST_TABS = 150

CELLS = "jupyterapp.shell.currentWidget.content"
ACTIVE = f"() => {CELLS}.activeCellIndex"
ON_A_CELL = "() => document.activeElement.classList.contains('jp-Cell')"
MATCHING = f"[...{CELLS}.widgets[cell].node.querySelectorAll(selector)]"
# The place of the focused element among the elements of a cell that match, or -1.
PLACE = f"([cell, selector]) => {MATCHING}.indexOf(document.activeElement)"
COUNT = f"([cell, selector]) => {MATCHING}.length"
LABELS = f"([cell, selector]) => {MATCHING}.map(element => element.innerText.trim())"
OUTPUT = f"{CELLS}.widgets[cell].node.querySelector('.jp-Cell-outputArea')"
TEXT = f"cell => {OUTPUT}?.innerText.replace(/\\s+/g, ' ') ?? ''"
# Beside the question that was answered, not in the middle of a sheet of five.
SHOW = f"""cell => {{ const on = document.activeElement.closest('.mha-predict') ?? {OUTPUT};
    on?.scrollIntoView({{block: 'center'}}); }}"""


class Stuck(AssertionError):
    """Something could not be reached or never came; the message says what."""


class Reader:
    """The keyboard, in one open notebook.

    Nothing but `keyboard` ever acts on the page: what cannot be reached by keys is not reached.
    """

    def __init__(self, nb: OpenNotebook, album: Path | None):
        self.nb, self.keyboard, self.album, self.shots = nb, nb.page.keyboard, album, 0
        self.cell = -1
        if album:
            album.mkdir(parents=True, exist_ok=True)
            for old in album.glob("*.png"):
                old.unlink()

    def go_to(self, cell: int) -> None:
        """Leave the widgets, then walk from cell to cell."""
        for _ in range(MOST_TABS):
            if self.nb.page.evaluate(ON_A_CELL):
                break
            self.keyboard.press("Shift+Tab")
        else:
            raise Stuck("Shift+Tab does not lead back to a cell")
        for _ in range(200):
            here = self.nb.page.evaluate(ACTIVE)
            if here == cell:
                self.cell = cell
                return
            self.keyboard.press("ArrowDown" if here < cell else "ArrowUp")
        raise Stuck(f"the arrows do not lead to cell {cell}")

    def tab_to(self, selector: str, place: int) -> None:
        """Tab, forwards or backwards, to one of the elements of this cell that match."""
        count = self.nb.page.evaluate(COUNT, [self.cell, selector])
        if place >= count:
            raise Stuck(f"cell {self.cell} has {count} of {selector}, not {place + 1}")
        for key in ("Tab", "Shift+Tab"):
            for _ in range(MOST_TABS):
                if self.nb.page.evaluate(PLACE, [self.cell, selector]) == place:
                    return
                if self.nb.page.evaluate(ACTIVE) != self.cell and key == "Tab":
                    break
                self.keyboard.press(key)
        raise Stuck(f"Tab does not reach {selector} number {place} of cell {self.cell}")

    def button(self, words: str, place: int = 0) -> None:
        """Press the button with these words, the ``place``-th of its kind in the cell."""
        labels = self.nb.page.evaluate(LABELS, [self.cell, "button"])
        at = [i for i, label in enumerate(labels) if label == words]
        if place >= len(at):
            raise Stuck(f"cell {self.cell} has no button {words!r} number {place}; it has {labels}")
        self.tab_to("button", at[place])
        self.keyboard.press("Enter")
        self.rest()

    def rest(self) -> None:
        self.nb.page.evaluate("() => mha.rested()")
        self.nb.page.evaluate("() => mha.settled()")

    def text(self) -> str:
        return self.nb.page.evaluate(TEXT, self.cell)

    def reads(self, *words: str) -> None:
        """Wait until all these words stand in the output of the cell."""
        wanted = [" ".join(word.split()) for word in words]
        end = time.monotonic() + PATIENCE
        while missing := [word for word in wanted if word not in self.text()]:
            if time.monotonic() > end:
                raise Stuck(f"cell {self.cell} never says {missing[0]!r}; it says: {self.text()[:1500]}")
            self.rest()

    def writes(self, code: str) -> None:
        """Replace the code of the cell and run it, staying on it."""
        self.keyboard.press("Enter")
        self.keyboard.press("ControlOrMeta+a")
        # As from a clipboard: typed, each bracket would bring its partner.
        self.keyboard.insert_text(code)
        self.keyboard.press("Control+Enter")
        self.rest()

    def shows(self, name: str) -> None:
        """A screenshot of what the reader sees."""
        if self.album:
            self.shots += 1
            self.nb.page.evaluate(SHOW, self.cell)
            self.nb.page.evaluate("() => mha.settled()")
            self.nb.page.screenshot(path=self.album / f"{self.shots:02}-{name}.png")
