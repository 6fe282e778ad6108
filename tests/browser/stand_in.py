"""Small notebooks made on the spot: a sound one, and ones with one fault each."""

from __future__ import annotations

from pathlib import Path

import nbformat

# A panel of plain ipywidgets in the shape the library's panels have: four sliders, each with a number field,
# presets, and one HTML widget for the picture. The faults are planted by replacing a line of it.
PANEL = '''
import ipywidgets as w
from IPython.display import display

SIZES = {"batch": (1, 4, 2), "tokens": (2, 32, 10), "width": (8, 64, 64), "heads": (1, 16, 8)}
sliders = {n: w.IntSlider(description=n, min=lo, max=hi, value=v, step=8 if n == "width" else 1, readout=False)
           for n, (lo, hi, v) in SIZES.items()}
fields = {n: w.BoundedIntText(description=n, min=lo, max=hi, value=v, layout=w.Layout(width="160px"))
          for n, (lo, hi, v) in SIZES.items()}
presets = w.Dropdown(description="presets", options=[("small", (1, 4, 16, 2)), ("the article", (2, 10, 64, 8)),
                                                     ("does not divide", (2, 10, 64, 5))], value=(2, 10, 64, 8))
picture = w.HTML()
picture.add_class("mha-picture")

def draw(change=None):
    b, t, d, h = (s.value for s in sliders.values())
    of = f"{b},{t},{d},{h}"
    if d % h:
        picture.value = f'<p class="mha-notice" role="status" data-of="{of}">{d} does not divide by {h}.</p>'
        return
    bars = "".join(f'<rect x="{12 * i}" y="{20 * (i % b)}" width="10" height="{d}" fill="#225588"/>' for i in range(t))
    picture.value = (f'<svg role="img" aria-label="{t} bars for batch {b}, width {d}, {h} heads" data-of="{of}" '
                     f'width="520" height="160">{bars}<text x="4" y="150">{h} heads</text></svg>')

def choose(change):
    for s, v in zip(sliders.values(), change["new"]):
        s.value = v

for n in SIZES:
    w.link((sliders[n], "value"), (fields[n], "value"))
    sliders[n].observe(draw, "value")
presets.observe(choose, "value")
draw()
panel = w.VBox([presets, *(w.HBox([sliders[n], fields[n]]) for n in SIZES), picture])
panel.add_class("mha-panel")
display(panel)
'''

PNG = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAYAAAAGCAAAAADFp7CUAAAALElEQVR42h3BgRAAQBACwMAiiSSSSCI5"
    "khB+5nfBD5TTA90pYOYTWJ0HXrQ+UV8SZ0MG0aYAAAAASUVORK5CYII="
)
STILL_HTML = f'<img alt="A heat map, queries as rows, keys as columns" width="64" src="{PNG}">'
STILL = f"from IPython.display import HTML, display\ndisplay(HTML('{STILL_HTML}'))"


def notebook(path: Path, *cells: str, stored: bool = True, still: str = STILL_HTML, view: bool = False) -> Path:
    """Write a notebook of a title and code `cells`.

    `stored` says whether cells with a picture or a panel keep the picture `still` as their output, as in a notebook
    that was run and saved; `view` leaves a widget's view without a picture behind every cell.
    """
    book = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3",
                                                             "language": "python"}})
    book.cells.append(nbformat.v4.new_markdown_cell("# A small notebook"))
    book.cells += [nbformat.v4.new_code_cell(cell.strip()) for cell in cells]
    for cell in book.cells[1:]:
        data = None
        if view:
            model = {"model_id": "0" * 32, "version_major": 2, "version_minor": 0}
            data = {"application/vnd.jupyter.widget-view+json": model, "text/plain": "IntSlider(value=0)"}
        elif stored and (STILL_HTML in cell.source or "mha-panel" in cell.source):
            data = {"text/html": still, "text/plain": "<IPython.core.display.HTML object>"}
        if data:
            cell.outputs = [nbformat.v4.new_output("display_data", data=data)]
            cell.execution_count = 1
    nbformat.write(book, path)
    return path
