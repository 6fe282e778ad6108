"""What a picture is: its bytes, the words for those who cannot see it, and the numbers behind it.

A `Picture` shows itself in a notebook as an HTML image with alt text, which JupyterLab, GitHub,
nbviewer, print and an exported page all display without a kernel. A panel uses `Picture.live`
instead, where text inside a drawing stays text.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, eq=False)
class Picture:
    """A finished picture.

    Parameters
    ----------
    data : str or bytes
        SVG markup, or the bytes of a PNG.
    alt : str
        The picture in words: its type, its axes, its range and its point.
    width, height : int
        Size in CSS pixels.
    numbers : function that returns str, optional
        Makes an HTML table of what is drawn; called only when someone asks for it.
    """

    data: str | bytes
    alt: str
    width: int
    height: int
    numbers: Callable[[], str] | None = None

    def __post_init__(self):
        if not self.alt.strip():
            raise ValueError("a picture needs alt text: its type, axes, range and point in words")

    @property
    def is_drawing(self) -> bool:
        """Whether this is SVG, not pixels."""
        return isinstance(self.data, str)

    def _source(self) -> str:
        raw = self.data.encode() if self.is_drawing else self.data
        kind = "svg+xml" if self.is_drawing else "png"
        return f"data:image/{kind};base64,{base64.b64encode(raw).decode()}"

    def _image(self, attributes: str = "") -> str:
        return (
            f'<img {attributes}alt="{html.escape(self.alt)}" width="{self.width}" height="{self.height}" '
            f'style="max-width:100%;height:auto;background:#fff" decoding="sync" src="{self._source()}">'
        )

    def live(self, of: str = "", lit: str = "") -> str:
        """Markup for a panel: inline SVG, or an image.

        Parameters
        ----------
        of : str
            The sizes it was drawn for, kept in ``data-of`` so that a test can tell old from new.
        lit : str
            Names of the axes that are moving, separated by spaces.
        """
        marks = f'data-of="{html.escape(of)}" data-lit="{html.escape(lit)}" '
        if not self.is_drawing:
            return self._image(marks)
        return self.data.replace("<svg ", f'<svg role="img" aria-label="{html.escape(self.alt)}" {marks}', 1)

    def still(self) -> str:
        """Markup for a page without a kernel: an image with alt text, and its numbers folded away."""
        table = ""
        if self.numbers is not None:
            table = f"<details><summary>The numbers behind this picture</summary>{self.numbers()}</details>"
        return self._image() + table

    def _ipython_display_(self):
        from IPython.display import display

        # Displayed raw: an inline backend would otherwise add a second copy without alt text.
        display({"text/html": self.still(), "text/plain": self.alt}, raw=True)


def table(header: list[str], rows: list[list], caption: str) -> str:
    """An HTML table with a caption and a header row; every cell is escaped."""
    cells = lambda tag, row: "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in row)  # noqa: E731
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return (
        f"<table><caption>{html.escape(caption)}</caption><thead><tr>{cells('th', header)}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )
