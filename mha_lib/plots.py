"""Pictures of arrays: arrays in, a `Picture` with alt text out.

Heat maps of heads are drawings (see `mha_lib.drawing`): a new set of weights costs about a millisecond,
and every word in them stays text. For everything with a curve or a bar there is matplotlib: `blank`
makes a figure in the course's look, `picture` gives it the words for those who cannot see it. Figures
are made without pyplot, so none is ever left open.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from . import drawing, look
from .drawing import text
from .picture import Picture, table

_MOST_HEADS = 32


def blank(width: float, height: float) -> Figure:
    """An empty matplotlib figure in the course's look; sizes in inches, at 100 dots an inch."""
    return Figure(figsize=(width, height), dpi=100, facecolor=look.PAPER)


def picture(figure: Figure, alt: str, numbers: Callable[[], str] | None = None) -> Picture:
    """A matplotlib figure as a `Picture`, at its own size.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        From `blank`, or any other.
    alt : str
        Type of picture, axes, range and point, in words.
    numbers : function that returns str, optional
        Makes an HTML table of what is drawn; see `mha_lib.picture.table`.
    """
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    drawn = np.ascontiguousarray(np.asarray(canvas.buffer_rgba())[..., :3])
    return Picture(drawing.png(drawn), alt, drawn.shape[1], drawn.shape[0], numbers)


def head_grid(weights, tokens: Sequence[str] | None = None, *, title: str | None = None, sample: int = 0) -> Picture:
    """One heat map a head, all on the same scale from 0 to 1: queries down, keys across.

    Parameters
    ----------
    weights : array, shape (H, T_q, T_k) or (B, H, T_q, T_k)
        Attention weights, from 0 to 1.
    tokens : sequence of str, optional
        What stands at each position, shown literally; numbers if left out. Needs T_q = T_k.
    title : str, optional
    sample : int
        Which sequence of a batch is drawn, counted from 0.

    Returns
    -------
    Picture
        Its alt text states the shape and names the largest weight.

    Raises
    ------
    ValueError
        A shape that is no stack of heads, an empty one, more than 32 heads, values outside 0 to 1, or
        another number of tokens than of queries and keys.

    Examples
    --------
    >>> head_grid(np.full((2, 3, 3), 1 / 3)).alt[:62]
    'Heat maps of 2 heads, queries down (3) and keys across (3), we'
    """
    weights = _one_sample(weights, sample)
    n_heads, t_q, t_k = weights.shape
    if n_heads > _MOST_HEADS:
        raise ValueError(f"{n_heads} heads are too many to read side by side; draw up to {_MOST_HEADS} of them")
    seen = weights[~np.isnan(weights)]
    if seen.size and (seen.min() < 0 or seen.max() > 1 + 1e-6):
        raise ValueError(f"weights lie between 0 and 1; these go from {seen.min():.3g} to {seen.max():.3g}")
    labels = None if tokens is None else [str(token) for token in tokens]
    if labels is not None and not len(labels) == t_q == t_k:
        raise ValueError(f"{len(labels)} tokens do not fit {t_q} queries and {t_k} keys")
    heads = "one head" if n_heads == 1 else f"{n_heads} heads"
    grid = _HeadGrid(n_heads, t_q, t_k, labels)
    body, defs = grid.draw(weights, title or f"The attention weights of {heads}")
    return Picture(
        drawing.svg(grid.width, grid.height, body, defs, "mha-heads"),
        _head_grid_alt(weights, labels),
        grid.width,
        grid.height,
        lambda: _head_grid_numbers(weights),
    )


def _one_sample(weights, sample: int) -> np.ndarray:
    weights = np.asarray(weights)
    if weights.ndim == 4:
        if not 0 <= sample < len(weights):
            raise ValueError(f"sample {sample} is outside this batch of {len(weights)}; samples are numbered from 0")
        weights = weights[sample]
    if weights.ndim != 3:
        raise ValueError(
            f"weights have shape {weights.shape}; a head grid takes (heads, queries, keys), or with a batch in front"
        )
    if 0 in weights.shape:
        raise ValueError(f"nothing to draw: the weights have shape {weights.shape}")
    return weights


class _HeadGrid:
    """Where the tiles of a head grid stand, and the words around them; lengths in pixels."""

    _GAP, _ABOVE, _BELOW = 46, 108, 62

    def __init__(self, n_heads: int, t_q: int, t_k: int, labels: list[str] | None):
        self.labels, self.t_q, self.t_k = labels, t_q, t_k
        self.columns = n_heads if n_heads < 4 else 4 if n_heads <= 12 else 8
        longest = max(map(len, labels)) if labels else 0
        self.side = 66 + min(9 * longest, 130)
        self.w = min(250.0, (1060 - self.side) / self.columns - self._GAP)
        self.h = self.w * min(3.0, max(0.2, t_q / t_k))
        rows = math.ceil(n_heads / self.columns)
        self.turned = labels is not None
        below = self._BELOW + (min(8 * longest, 110) if labels else 0)
        self.width = round(max(700, self.side + self.columns * (self.w + self._GAP)))
        self.height = round(self._ABOVE + rows * (self.h + self._GAP) + below - 20)
        self.places = [
            (
                self.side + head % self.columns * (self.w + self._GAP),
                self._ABOVE + head // self.columns * (self.h + self._GAP),
            )
            for head in range(n_heads)
        ]

    def draw(self, weights: np.ndarray, title: str) -> tuple[str, str]:
        """The drawing and its definitions, for ``weights`` of shape (H, T_q, T_k)."""
        name, out = drawing.unique("heads"), []
        stacked = drawing.colour(weights, 0, 1, look.WEIGHTS_MAP).reshape(-1, self.t_k)
        out.append(text(24, 44, drawing.literal(title), 24, weight=700, anchor="start"))
        for head, (x, y) in enumerate(self.places):
            out.append(drawing.window(name, (0, head * self.t_q, self.t_k, self.t_q), x, y, self.w, self.h))
            out.append(
                f'<rect x="{x - 1:.1f}" y="{y - 1:.1f}" width="{self.w + 2:.1f}" height="{self.h + 2:.1f}" fill="none" '
                f'stroke="{look.head_colour(head)}" stroke-width="2.5"/>'
            )
            out.append(text(x, y - 9, f"head {head}", 17, weight=600, anchor="start"))
            if head % self.columns == 0:
                out += self._query_ticks(x, y)
            if head + self.columns >= len(self.places):
                out += self._key_ticks(x, y)
        words = "down: queries (who looks)  ·  across: keys (what is looked at)"
        out.append(text(24, self.height - 16, words, 16, colour=look.QUIET, anchor="start"))
        x = self.width - 24 - 190
        out.append(text(x - 8, 44, "weight 0", 16, colour=look.QUIET, anchor="end"))
        out.append(f'<rect x="{x}" y="30" width="160" height="17" fill="url(#{name}scale)" stroke="{look.LINE}"/>')
        out.append(text(x + 168, 44, "1", 16, colour=look.QUIET, anchor="start"))
        return "".join(out), drawing.sheet(name, stacked) + drawing.gradient(f"{name}scale", look.WEIGHTS_MAP)

    def _shown(self, count: int, room: float) -> list[int]:
        """The first, the middle and the last position; with tokens, as many as there is room for."""
        if self.labels is None:
            return sorted({0, (count - 1) // 2, count - 1})
        return list(range(0, count, max(1, math.ceil(count * 15 / room))))

    def _word(self, position: int) -> str:
        if self.labels is None:
            return str(position)
        word = self.labels[position]
        return drawing.literal(word if len(word) <= 14 else word[:13] + "…")

    def _query_ticks(self, x: float, y: float) -> list[str]:
        step = self.h / self.t_q
        return [
            text(x - 9, y + (i + 0.5) * step + 5, self._word(i), 15, colour=look.QUIET, anchor="end")
            for i in self._shown(self.t_q, self.h)
        ]

    def _key_ticks(self, x: float, y: float) -> list[str]:
        step, below, out = self.w / self.t_k, y + self.h + 20, []
        for i in self._shown(self.t_k, self.w):
            at = x + (i + 0.5) * step
            if self.turned:
                turn = f' transform="rotate(-60 {at + 5:.1f} {below - 6:.1f})"'
                out.append(text(at + 5, below - 6, self._word(i), 15, colour=look.QUIET, anchor="end", extra=turn))
            else:
                out.append(text(at, below, self._word(i), 15, colour=look.QUIET))
        return out


def _head_grid_alt(weights: np.ndarray, labels: list[str] | None) -> str:
    n_heads, t_q, t_k = weights.shape
    heads = "one head" if n_heads == 1 else f"{n_heads} heads"
    what = f"Heat maps of {heads}, queries down ({t_q}) and keys across ({t_k}), weights from 0 to 1."
    if np.isnan(weights).all():
        return f"{what} Every weight is NaN."
    head, query, key = np.unravel_index(np.nanargmax(weights), weights.shape)
    name = lambda token: f"{token}" if labels is None else f"{token} “{labels[token]}”"  # noqa: E731
    return (
        f"{what} The largest, {weights[head, query, key]:.2f}, is in head {head}: query {name(query)} looks at key "
        f"{name(key)}. Weights that were spread evenly would all be {1 / t_k:.2f}."
    )


def _head_grid_numbers(weights: np.ndarray) -> str:
    rows = []
    for head, one in enumerate(weights):
        if np.isnan(one).all():
            rows.append([head, "NaN", "–", "–", "–"])
            continue
        entropy = -np.nansum(one * np.log(np.where(one > 0, one, 1)), axis=-1).mean()
        query, key = np.unravel_index(np.nanargmax(one), one.shape)
        rows.append([head, f"{one[query, key]:.3f}", query, key, f"{entropy:.3f}"])
    header = ["head", "largest weight", "its query", "its key", "mean entropy of a row, nats"]
    return table(
        header, rows, f"The heads in numbers; an even row has an entropy of {math.log(weights.shape[2]):.3f} nats"
    )
