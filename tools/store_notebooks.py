"""Run the course's notebooks in a clean kernel and store what they print.

    python tools/store_notebooks.py                             every notebook
    python tools/store_notebooks.py notebooks/01_shapes.ipynb   one of them
    python tools/store_notebooks.py --check                     compare with what is stored, write nothing

A notebook is stored only if its page is fit for a reader without a kernel: nothing raised, nothing on stderr, no
stray ``<Figure ...>``, alt text on every picture, and a still picture wherever there is a live panel. What differs
from run to run or from machine to machine is removed, so that a change in the stored file is a change in the course.
A cell whose output cannot repeat itself, a timing for instance, carries the tag ``varies``: ``--check`` passes it by.
"""

from __future__ import annotations

import argparse
import copy
import difflib
import os
import re
import sys
import tempfile
from html.parser import HTMLParser
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"

WIDGET = "application/vnd.jupyter.widget-view+json"
STILLS = {"text/html", "text/markdown", "image/png", "image/svg+xml", "image/jpeg"}

KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
LANGUAGE_INFO = {
    "codemirror_mode": {"name": "ipython", "version": 3},
    "file_extension": ".py",
    "mimetype": "text/x-python",
    "name": "python",
    "nbconvert_exporter": "python",
    "pygments_lexer": "ipython3",
}
CELL_METADATA = {"tags", "jupyter", "slideshow", "editable", "deletable"}

# What a cell leaves when its last line should have ended in a semicolon or gone through print.
STRAY = re.compile(
    r"<Figure size|<Axes|<matplotlib\.|<IPython\.|<function |<module |<class |<bound method|\bText\(|"
    r"\bnp\.(?:float|int|uint|bool|str)\w*\(|\bobject at 0x|\b0x[0-9a-f]{6,}|^(?:VBox|HBox|Output|interactive)\(",
    re.MULTILINE,
)
PATHS = re.compile(r"(?<![\w.:/-])/(?:home|Users|root|tmp|work|opt|usr|var|private|mnt)/\w|\b[A-Z]:\\\w")
DATA_URI = re.compile(r"data:image/[a-z+]+;base64,[A-Za-z0-9+/=\s]+")


# Running and cleaning


def execute(notebook, folder=NOTEBOOKS, timeout=600):
    """A copy of the notebook, run from the first cell to the last in a new kernel that starts in ``folder``."""
    fresh = copy.deepcopy(notebook)
    with tempfile.TemporaryDirectory() as ipython:
        # The page is that of a reader who has answered nothing yet.
        progress = str(Path(ipython) / "progress.json")
        variables = {**os.environ, "PYTHONHASHSEED": "0", "IPYTHONDIR": ipython, "JUPYTER_PREFER_ENV_PATH": "1"}
        variables["MHA_PROGRESS"] = progress
        variables.pop("MPLBACKEND", None)
        client = NotebookClient(
            fresh,
            timeout=timeout,
            kernel_name="python3",
            resources={"metadata": {"path": str(folder)}},
            record_timing=False,
            store_widget_state=False,
            coalesce_streams=True,
            extra_arguments=["--log-level=ERROR"],
        )
        client.execute(env=variables)
    return fresh


def clean(notebook):
    """Remove, in place, what belongs to one run or one machine; return the notebook."""
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNELSPEC, "language_info": LANGUAGE_INFO})
    count = 0
    for cell in notebook.cells:
        for name in set(cell.metadata) - CELL_METADATA:
            del cell.metadata[name]
        if cell.cell_type != "code":
            continue
        if cell.source.strip():
            count += 1
        cell.execution_count = count if cell.source.strip() else None
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = cell.execution_count
            if "data" in output:
                still_instead_of_widget(output.data)
    return notebook


def still_instead_of_widget(data):
    """Where a still picture stands beside a live panel, keep the still: without a kernel a viewer shows only that."""
    if WIDGET in data and STILLS & set(data):
        del data[WIDGET]
        data.pop("text/plain", None)


def store(notebook):
    """The notebook as text, in the form Jupyter writes."""
    return nbformat.writes(notebook).rstrip("\n") + "\n"


# Looking at outputs


def text_of(output):
    """What a reader sees of one output as text; pictures inside HTML become ``data:``."""
    if output.output_type == "stream":
        return output.text
    if output.output_type == "error":
        return f"{output.ename}: {output.evalue}"
    for kind in ("text/html", "text/markdown", "text/latex"):
        if kind in output.data:
            return DATA_URI.sub("data:", output.data[kind])
    if any(kind.startswith("image/") for kind in output.data):
        return "\n".join(f"[picture: {alt}]" for alt in pictures(output))
    return output.data.get("text/plain", "")


def texts_of(cell):
    """What a reader sees of a cell's outputs as text, one string for all."""
    return "\n".join(text_of(output).rstrip("\n") for output in cell.outputs) if cell.cell_type == "code" else ""


class PicturesInHTML(HTMLParser):
    """Collects the alt text of every ``<img>`` and the label of every ``<svg>``; an empty one means there is none."""

    def __init__(self, text):
        super().__init__()
        self.alts = []
        self.title_wanted = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if attrs.get("aria-hidden") == "true" or attrs.get("role") == "presentation":
            return
        if tag == "img":
            self.alts.append((attrs.get("alt") or "").strip())
        elif tag == "svg":
            self.alts.append((attrs.get("aria-label") or attrs.get("aria-labelledby") or "").strip())
            self.title_wanted = not self.alts[-1]
        elif tag == "title" and self.title_wanted:
            self.alts[-1], self.title_wanted = "title", False


def pictures(output):
    """The alt text of every picture that an output shows; an empty string for a picture without one."""
    data = output.get("data", {})
    if "text/html" in data:
        return PicturesInHTML(data["text/html"]).alts
    images = [kind for kind in data if kind.startswith("image/")]
    if not images:
        return []
    metadata = output.get("metadata", {})
    alts = [metadata.get(kind, {}).get("alt", "") for kind in images] + [metadata.get("alt", "")]
    if "image/svg+xml" in data:
        alts += PicturesInHTML(data["image/svg+xml"]).alts
    return [next((alt.strip() for alt in alts if alt.strip()), "")]


def faults_in(output):
    """What is wrong with one output, each in a few words."""
    if output.output_type == "error":
        return [f"it raised {output.ename}: {output.evalue}"]
    if output.output_type == "stream" and output.name == "stderr":
        return [f"it wrote to stderr: {output.text.strip()[:200]}"]
    found = []
    text = text_of(output)
    stray = STRAY.search(text)
    if stray:
        found.append(f"a stray {stray.group()!r} in its output; end the line with ';' or print what is meant")
    path = PATHS.search(text)
    if path:
        found.append(f"a path of one machine in its output: {path.group()}...")
    if WIDGET in output.get("data", {}):
        found.append("a live panel without a still picture beside it; a page without a kernel shows nothing there")
    found += ["a picture without alt text" for alt in pictures(output) if not alt]
    return found


def faults(notebook):
    """Everything that keeps a notebook from being stored, each as "cell 3: ..."; empty if it is fit."""
    found = []
    if "widgets" in notebook.metadata:
        found.append("the notebook carries widget state")
    ids = [cell.get("id") for cell in notebook.cells]
    if None in ids or len(set(ids)) < len(ids):
        found.append("a cell has no id of its own")
    count = 0
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type != "code":
            continue
        if cell.source.strip():
            count += 1
            if cell.execution_count != count:
                found.append(f"cell {number}: its execution count is {cell.execution_count}, not {count}")
        found += [f"cell {number}: {fault}" for output in cell.outputs for fault in faults_in(output)]
    return found


def differences(stored, fresh):
    """Where the text of a fresh run differs from what is stored, as readable diffs."""
    found = []
    for number, (old, new) in enumerate(zip(stored.cells, fresh.cells, strict=True)):
        before, after = texts_of(old), texts_of(new)
        if before != after and "varies" not in old.metadata.get("tags", []):
            lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "stored", "fresh", lineterm="", n=1)
            found.append(f"cell {number} prints something else now:\n" + "\n".join("    " + line for line in lines))
    return found


# The command


def treat(path, check):
    """Run one notebook; store it or, with ``check``, compare it. Returns what is wrong, in words."""
    stored = nbformat.read(path, as_version=4)
    try:
        fresh = clean(execute(stored, path.parent))
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        lines = [line for line in re.sub(r"\x1b\[[0-9;]*m", "", str(error)).splitlines() if line.strip()]
        return ["it did not run to the end:"] + ["    " + line for line in lines[-12:]]
    found = faults(fresh)
    if check:
        return found + differences(stored, fresh)
    if not found:
        unfinished = path.with_suffix(".ipynb.new")
        unfinished.write_text(store(fresh), encoding="utf-8", newline="\n")
        unfinished.replace(path)
    return found


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("notebooks", nargs="*", type=Path, help="notebooks to run; all of the course if none is named")
    parser.add_argument("--check", action="store_true", help="compare with what is stored; write nothing")
    options = parser.parse_args(arguments)
    wrong = 0
    for path in options.notebooks or sorted(NOTEBOOKS.glob("*.ipynb")):
        found = treat(path.resolve(), options.check)
        wrong += bool(found)
        good, bad = ("as stored", "differs") if options.check else ("stored", "not stored")
        print(f"{path.name}: {bad if found else good}", flush=True)
        for line in found:
            print(f"  {line}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
