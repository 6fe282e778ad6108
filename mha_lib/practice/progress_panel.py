"""The reader's view of their progress: what was done, what is due, and the file to take along or begin afresh."""

from __future__ import annotations

import base64
import html
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import ipywidgets as widgets

from . import content
from .progress import Progress, comes_again, mine
from .questions import say, stylesheet

_STILL = (
    "Your progress: what you answered, what was right, and what is due again. "
    "It stands in a file on your machine; run the cell to see it."
)

_TAKES = "What was reset can be brought back in the same way as an exported file."

_IN_THE_BROWSER = (
    "This Python runs in your browser, and its files may be gone when you close the page. "
    "Export before you leave, and bring the file back next time."
)


class ProgressPanel(widgets.VBox):
    """One view of one file; `progress_panel` makes one."""

    def __init__(self, progress: Progress):
        self._progress = progress
        self._shown, self._said = widgets.HTML(), widgets.HTML()
        self._refresh = _button("Refresh", self._safely(self._on_refresh))
        self._export = _button("Export", self._safely(self._on_export))
        # Any name: a file that was kept aside can be brought back as well.
        self._file = widgets.FileUpload(description="Bring back an exported file", tooltip="A file that Export made")
        self._file.observe(self._safely(self._on_file), "value")
        self._reset = _button("Reset", self._safely(self._on_reset))
        self._yes = _button("Yes, start afresh", self._safely(self._on_yes))
        self._no = _button("No, go on as before", self._safely(self._on_no))
        self._really = widgets.HBox([]).add_class("mha-row")
        buttons = widgets.HBox([self._refresh, self._export, self._file, self._reset]).add_class("mha-row")
        super().__init__([stylesheet(), self._shown, buttons, self._said, self._really])
        self.add_class("mha-predict").add_class("mha-progress")
        self._safely(self._show)()

    # ---------------------------------------------------------------------------------------------
    # What the buttons do

    def _safely(self, act: Callable[[], None]) -> Callable:
        """Whatever goes wrong behind a button is said in the panel."""

        def run(*_):
            try:
                act()
            except Exception as problem:
                said = html.escape(str(problem) or type(problem).__name__)
                self._tell(f"That did not work: {said}. Your file was not touched.")

        return run

    def _tell(self, said: str) -> None:
        say(self._said, f"<p>{said}</p>")

    def _on_refresh(self) -> None:
        self._show()
        self._tell(f"This is how it stands at {datetime.now():%H:%M:%S}.")

    def _on_export(self) -> None:
        text = self._progress.export().encode("utf-8")
        name = f"mha-progress-{datetime.now():%Y%m%d-%H%M}.json"
        link = f"data:application/json;base64,{base64.b64encode(text).decode('ascii')}"
        self._show()
        self._tell(
            f'<a download="{name}" href="{link}">Download {name}</a> ({_size(len(text))}). '
            f"The file itself is <code>{_path(self._progress.path)}</code>."
        )

    def _on_file(self) -> None:
        if not self._file.value:
            return
        (uploaded,) = self._file.value
        # Emptied, so that the same file can be brought back once more.
        self._file.value = ()
        try:
            self._progress.bring_in(bytes(uploaded["content"]))
        except ValueError as problem:
            self._tell(f"{html.escape(uploaded['name'])}: {html.escape(str(problem))}")
            return
        self._show()
        self._tell(f"{html.escape(uploaded['name'])} was added to what was here. Nothing that was here went.")

    def _on_reset(self) -> None:
        self._really.children = [self._yes, self._no]
        self._tell("Really? Your file is kept aside.")

    def _on_yes(self) -> None:
        self._really.children = []
        kept = self._progress.reset()
        self._show()
        if kept is not None:
            self._tell(f"You start afresh. What you did so far is kept in <code>{_path(kept)}</code>.")
        elif self._progress.problem:
            self._tell("It could not be reset. See above why.")
        else:
            self._tell("There was nothing to reset.")

    def _on_no(self) -> None:
        self._really.children = []
        self._tell("Everything stays.")

    # ---------------------------------------------------------------------------------------------
    # What is shown

    def _show(self) -> None:
        state = self._progress.state()
        parts = [f"<p><b>Your progress</b> is in <code>{_path(self._progress.path)}</code>, and nowhere else.</p>"]
        if self._progress.problem:
            parts.append(f'<p class="mha-error"><b>Not kept.</b> {html.escape(self._progress.problem)}</p>')
        if self._progress.notice:
            parts.append(f'<p class="mha-error"><b>Note.</b> {html.escape(self._progress.notice)}</p>')
        if sys.platform == "emscripten":
            parts.append(f'<p class="mha-error"><b>Note.</b> {_IN_THE_BROWSER}</p>')
        parts.append(_table(state))
        parts.append(_kept(self._progress))
        self._shown.value = "".join(parts)

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**data, "text/html": f"<p>{_STILL}</p>", "text/plain": _STILL}, metadata


def progress_panel() -> ProgressPanel:
    """Show the reader's own progress, with buttons to export it, to bring it back and to start afresh.

    Returns
    -------
    VBox
        A `ProgressPanel`.
    """
    return ProgressPanel(mine())


def _table(state: dict) -> str:
    """One row for each notebook that has something to do in it."""
    known = {
        "questions": content.questions(),
        "predictions": content.predictions(),
        "exercises": content.exercise_texts(),
    }
    rows = []
    for notebook in content.READING_ORDER:
        there = {
            kind: [name for name, of in entries.items() if of.notebook == notebook] for kind, entries in known.items()
        }
        if there["questions"]:  # the others are still being written
            rows.append(_row(notebook, state, there))
    if not rows:
        return "<p>There is nothing to answer yet.</p>"
    heads = "".join(
        f'<th scope="col">{head}</th>'
        for head in (
            "notebook",
            "predicted",
            "questions answered",
            "right at the first try",
            "due today",
            "exercises passed",
        )
    )
    return (
        "<table><caption>What you did, and what is due for review today</caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _row(notebook: str, state: dict, there: dict[str, list[str]]) -> str:
    entries = {kind: [state[kind].get(name, {}) for name in names] for kind, names in there.items()}
    tomorrow = (datetime.now() + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0).astimezone()
    answered = [entry for entry in entries["questions"] if entry.get("answers")]
    cells = (
        _of(sum(bool(entry.get("answers")) for entry in entries["predictions"]), len(entries["predictions"])),
        _of(len(answered), len(entries["questions"])),
        _of(sum(entry["answers"][-1]["right"] for entry in answered), len(answered)),
        str(sum(comes_again(entry) < tomorrow for entry in answered)) if answered else "–",
        _of(sum("passed_at" in entry for entry in entries["exercises"]), len(entries["exercises"])),
    )
    number, _, title = notebook.partition("_")
    row = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr><th scope="row">{number} {title.replace("_", " ")}</th>{row}</tr>'


def _of(some: int, all_of_them: int) -> str:
    return f"{some} of {all_of_them}" if all_of_them else "–"


def _kept(progress: Progress) -> str:
    kept = progress.kept()
    if not kept:
        return ""
    files = "".join(f"<li><code>{_path(path)}</code></li>" for path in kept)
    return (
        f"<details><summary>Files that were kept aside: {len(kept)}</summary><ul>{files}</ul><p>{_TAKES}</p></details>"
    )


def _path(path: Path) -> str:
    return html.escape(str(path))


def _size(size: int) -> str:
    return f"{size} bytes" if size < 1024 else f"{size / 1024:.1f} KiB"


def _button(description: str, act: Callable) -> widgets.Button:
    button = widgets.Button(description=description)
    button.on_click(act)
    return button
