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
    """A name that no other drawing of this kernel has: ids are shared by all drawings on a page."""
    return f"{word}{next(_serial)}"


#: Colours of each map in the palette; odd, so that a map around 0 has a middle.
_LEVELS = 83
_MAPS = (look.WEIGHTS_MAP, look.VALUES_MAP, look.SCORES_MAP)
_MASKED = _LEVELS * len(_MAPS)
#: The place in the palette that shows what lies behind.
CLEAR = _MASKED + 1


@lru_cache(maxsize=8)
def palette(name: str, levels: int) -> np.ndarray:
    """``levels`` colours of a matplotlib colour map, ``(levels, 3)`` of uint8."""
    return (matplotlib.colormaps[name](np.linspace(0, 1, levels))[:, :3] * 255).round().astype(np.uint8)


@lru_cache(maxsize=1)
def whole_palette() -> np.ndarray:
    """The colours of every sheet: the three maps one after the other, the colour of a masked cell, and a clear one.

    One byte a pixel instead of three: a third to pack, to send and to unpack.
    """
    masked = [[int(look.MASKED[i : i + 2], 16) for i in (1, 3, 5)]]
    return np.concatenate([*(palette(name, _LEVELS) for name in _MAPS), np.array([*masked, [255] * 3], np.uint8)])


def colour(values: np.ndarray, low: float, high: float, name: str) -> np.ndarray:
    """Values as places in the palette, uint8 of the same shape, clipped to ``low … high``.

    −inf (masked), NaN and inf get the colour of a masked cell, which no map contains. ``name`` is one of
    the three maps of `mha_lib.look`.
    """
    level = (values - low) * ((_LEVELS - 1) / ((high - low) or 1.0)) + 0.5
    place = np.clip(level, 0, _LEVELS - 1) + _MAPS.index(name) * _LEVELS
    finite = np.isfinite(values)
    return place.astype(np.uint8) if finite.all() else np.where(finite, place, _MASKED).astype(np.uint8)


def png(pixels: np.ndarray) -> bytes:
    """Pixels as the bytes of a PNG, packed for speed rather than size.

    ``(rows, columns)`` of uint8 are places in the palette, ``(rows, columns, 3)`` are colours.
    """
    image = Image.fromarray(pixels)
    if pixels.ndim == 2:
        image.putpalette(whole_palette().tobytes())
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=1, **({"transparency": CLEAR} if pixels.ndim == 2 else {}))
    return out.getvalue()


def beside(blocks: dict[str, np.ndarray], rows: int = 0) -> tuple[np.ndarray, dict[str, tuple[int, int, int]]]:
    """Blocks ``(…, rows, columns)`` side by side along the last axis; what they leave free is clear.

    The whole is as tall as the tallest block, or ``rows`` if that is more. Returns the whole and, for every
    name, where its block is: (left, columns, rows).
    """
    tall = max(rows, *(block.shape[-2] for block in blocks.values()))
    across = sum(block.shape[-1] for block in blocks.values())
    first = next(iter(blocks.values()))
    whole, places, left = np.full((*first.shape[:-2], tall, across), CLEAR, np.uint8), {}, 0
    for name, block in blocks.items():
        down, columns = block.shape[-2:]
        whole[..., :down, left : left + columns] = block
        places[name] = (left, columns, down)
        left += columns
    return whole, places


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
