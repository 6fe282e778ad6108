"""The one look of the course: colours, sizes and fonts, for every picture and panel.

A picture colours either by head or by role, never by both, and never by colour alone: a number, a
name or a position always says the same. Every set below keeps its members apart under simulated
protanopia, deuteranopia and tritanopia (a test measures it).
"""

from __future__ import annotations

from functools import cache
from importlib import resources

#: One colour per head, on white at least 3 : 1. Head 8 starts again at the first; its number tells it apart.
HEADS = ("#2222bb", "#bb8800", "#227766", "#ff0088", "#6699bb", "#992200", "#8855ff", "#662255")

#: One colour per role of an array.
ROLES = {
    "q": "#2222bb",
    "k": "#bb8800",
    "v": "#227766",
    "scores": "#992200",
    "weights": "#8855ff",
    "output": "#662255",
}

#: One colour per axis, dark enough for text on white (4.5 : 1).
AXES = {
    "batch": "#555b66",
    "tokens": "#00695a",
    "width": "#5b2bd9",
    "heads": "#b23a00",
    "d_k": "#b0006a",
}

INK = "#16181d"  # text
QUIET = "#525965"  # secondary text, still 4.5 : 1 on white
LINE = "#c9ced6"  # frames and connectors
PAPER = "#ffffff"  # opaque, so that a dark theme does not show through
LIT = "#e4570c"  # the axis a slider is moving
MASKED = "#9aa3b0"  # a cell the query may not look at

#: Names of matplotlib colour maps: weights lie on one shared scale from 0 to 1, values and scores around 0.
WEIGHTS_MAP = "cividis"
VALUES_MAP = "RdBu_r"
SCORES_MAP = "PuOr"

FONT = "'Source Sans 3', 'Segoe UI', 'Helvetica Neue', Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"
MONO = "'Source Code Pro', Menlo, Consolas, 'Liberation Mono', 'DejaVu Sans Mono', monospace"

#: Points, in matplotlib pictures: readable from the back of a lecture hall at 100 dots an inch.
TITLE_POINTS, LABEL_POINTS, TICK_POINTS = 15, 12, 11


def head_colour(head: int) -> str:
    """Colour of head number ``head``, counted from 0."""
    return HEADS[head % len(HEADS)]


@cache
def stylesheet() -> str:
    """The style of panels and questions: look.css, with the colours above as its variables; a ``<style>`` element.

    It stands once in a panel and not in its drawings, because a page restyles everything on it whenever a
    style comes or goes.
    """
    colours = {"ink": INK, "quiet": QUIET, "line": LINE, "paper": PAPER, "lit": LIT, **AXES}
    variables = ";".join(f"--mha-{name.replace('_', '-')}:{colour}" for name, colour in colours.items())
    rules = resources.files(__package__).joinpath("look.css").read_text(encoding="utf-8")
    return f"<style>.mha-panel,.mha-predict{{{variables}}}\n{rules}{_lighting()}</style>"


def _lighting() -> str:
    """Lighting is a rule, not a redraw: a panel names the axes that move, and every edge of them lights up."""
    rules = []
    for axis, colour in AXES.items():
        here = f'.mha-flow[data-lit~="{axis}"]'
        rules += [
            f"{here} .e.a-{axis}{{stroke:{LIT};stroke-width:4.5}}",
            f"{here} tspan.a-{axis}{{text-decoration:underline;text-decoration-thickness:3px}}",
            f"{here} .s.a-{axis}{{stroke:{LIT};stroke-width:2.4}}",
            f"{here} .c.a-{axis}{{fill:{colour}}}",
            f"{here} .ct.a-{axis}{{fill:{PAPER}}}",
        ]
    return "\n".join(rules)
