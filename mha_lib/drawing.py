"""The pieces of an SVG drawing: words, and numbers as coloured pixels.

One small image, the sheet, holds every value of a drawing, one pixel a number, and each block of the
drawing shows a window of it, enlarged. That costs the browser one image to decode instead of dozens,
and costs Python neither a figure nor resampling: a heat map is ready in about a millisecond.
"""

from __future__ import annotations

import base64
import html
import io
import itertools
from functools import lru_cache

import matplotlib
import numpy as np
from PIL import Image

from . import look

_serial = itertools.count()


def unique(word: str) -> str:
    """A name no other drawing of this session has: ids are shared by all drawings on a page."""
    return f"{word}{next(_serial)}"


@lru_cache(maxsize=8)
def palette(name: str, levels: int) -> np.ndarray:
    """``levels`` colours of a matplotlib colour map, ``(levels, 3)`` of uint8."""
    return (matplotlib.colormaps[name](np.linspace(0, 1, levels))[:, :3] * 255).round().astype(np.uint8)


@lru_cache(maxsize=8)
def _palette_and_masked(name: str) -> np.ndarray:
    masked = [[int(look.MASKED[i : i + 2], 16) for i in (1, 3, 5)]]
    return np.concatenate([palette(name, 255), np.array(masked, np.uint8)])


def colour(values: np.ndarray, low: float, high: float, name: str) -> np.ndarray:
    """Values as colours, clipped to ``low … high``: any shape gets a last axis of 3, uint8.

    −inf (masked), NaN and inf get the colour of a masked cell, which no map contains.
    """
    level = np.clip((values - low) * (254 / ((high - low) or 1.0)), 0, 254)
    return _palette_and_masked(name)[np.where(np.isfinite(values), level, 255).astype(np.uint8)]


def png(pixels: np.ndarray) -> bytes:
    """Colours ``(rows, columns, 3)`` of uint8 as the bytes of a PNG, packed for speed rather than size."""
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG", compress_level=1)
    return out.getvalue()


def data_uri(raw: bytes, kind: str = "image/png") -> str:
    """Bytes as an address that carries them itself, so that nothing is fetched."""
    return f"data:{kind};base64,{base64.b64encode(raw).decode()}"


def sheet(name: str, pixels: np.ndarray) -> str:
    """The image that windows look into, for the ``<defs>`` of an SVG; ``name`` must be its own on the page."""
    rows, columns = pixels.shape[:2]
    return (
        f'<image id="{name}" width="{columns}" height="{rows}" decoding="sync" style="image-rendering:pixelated" '
        f'href="{data_uri(png(pixels))}"/>'
    )


def window(name: str, part: tuple[int, int, int, int], x: float, y: float, w: float, h: float) -> str:
    """A block at ``x, y`` of size ``w, h`` that shows ``part`` (left, top, columns, rows) of a sheet."""
    left, top, columns, rows = part
    return (
        f'<svg x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" viewBox="{left} {top} {columns} {rows}" '
        f'preserveAspectRatio="none"><use href="#{name}"/></svg>'
    )


def text(x, y, words, size=16, *, colour=look.INK, weight=400, anchor="middle", extra="") -> str:
    """Words at ``x, y``. ``words`` may hold tspans; text from outside goes through `literal` first."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" font-weight="{weight}" '
        f'text-anchor="{anchor}"{extra}>{words}</text>'
    )


def literal(words: object) -> str:
    """Anything as text that is shown as it is: ``<s>`` stays three letters, an empty token stays visible."""
    return html.escape(str(words)) or "∅"


def svg(width: int, height: int, body: str, defs: str = "", kind: str = "") -> str:
    """A whole drawing on opaque paper, as wide as its place allows and never wider than ``width``."""
    return (
        f'<svg class="mha-drawing {kind}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="100%" style="max-width:{width}px;background:{look.PAPER};display:block" font-family="{look.FONT}">'
        f'<defs>{defs}</defs><rect width="{width}" height="{height}" fill="{look.PAPER}"/>{body}</svg>'
    )


def gradient(name: str, colours: str) -> str:
    """A colour map as a gradient, for a legend; goes into the ``<defs>``."""
    steps = palette(colours, 9)
    stops = "".join(
        f'<stop offset="{i / 8:.3f}" stop-color="rgb{tuple(map(int, rgb))}"/>' for i, rgb in enumerate(steps)
    )
    return f'<linearGradient id="{name}">{stops}</linearGradient>'
