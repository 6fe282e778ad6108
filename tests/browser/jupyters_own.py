"""What Jupyter itself does wrong or noisily, so that the rest is ours.

Each entry is as narrow as it can be and says why it is here. One that no longer matches anything costs nothing,
but belongs thrown out when a newer Jupyter has mended it.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class AxeFinding(NamedTuple):
    rule: str
    selector: str  # matches the element axe complains about
    reason: str


AXE = [
    AxeFinding("aria-input-field-name", ".jp-InputArea-editor .cm-content",
               "JupyterLab gives its code editors no name"),
    AxeFinding("scrollable-region-focusable", ".jp-InputArea-editor .cm-scroller",
               "JupyterLab's code editors cannot be focused until Enter is pressed on their cell"),
    AxeFinding("aria-required-children", ".jp-WindowedPanel-viewport",
               "JupyterLab calls the list of cells a feed, but its cells no articles"),
    AxeFinding("color-contrast", ".jp-InputPrompt",
               "JupyterLab prints the number of a cell in a pale colour, paler still while another cell is chosen"),
    AxeFinding("color-contrast", ".jp-OutputPrompt", "the same of an output's number"),
    AxeFinding("color-contrast", ".jp-InputArea-editor .cm-line, .jp-InputArea-editor .cm-line *",
               "the colours of code are those of JupyterLab's theme"),
    AxeFinding("link-in-text-block", ".jp-RenderedMarkdown a:not([style])",
               "JupyterLab's themes do not underline the links of a text"),
    AxeFinding("aria-input-field-name", ".widget-slider .noUi-handle",
               "ipywidgets gives slider handles no name; `checks.check_names` wants a named number field beside each"),
]


class Message(NamedTuple):
    pattern: re.Pattern
    reason: str


CONSOLE: list[Message] = []

# Printed to stderr by the kernel for a message that is not from a cell.
KERNEL_STDERR = [
    Message(re.compile(r"No such comm target registered: jupyter\.widget\.control\s*"),
            "the widget manager asks every new kernel for its widgets, before ipywidgets is imported"),
    Message(re.compile(r"No such comm: [0-9a-f-]+\s*"), "the rest of that same question"),
]


def is_known(text: str, messages: list[Message]) -> bool:
    return any(message.pattern.fullmatch(text) for message in messages)
