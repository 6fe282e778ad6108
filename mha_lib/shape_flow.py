"""The shape flow: the nine steps as blocks drawn to scale, from the arrays of a real forward pass.

One lane a head, one colour a head from split to merge. One unit of width and one token are the same
number of pixels in every block, so a head that is an eighth as wide looks an eighth as wide. Every
edge knows its axis: a panel lights the axis that a slider is moving wherever it occurs.

This is a diagram of boxes and labels with two small images inside, so it is SVG, not matplotlib:
light to send, crisp on a projector, and its text stays text.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from . import drawing, look
from .attention import Trace
from .dims import in_words
from .drawing import text
from .picture import Picture, table

WIDTH, HEIGHT = 1560, 760
_MARGIN, _TOP, _FLOOR = 28, 186, 642  # the lanes lie between _TOP and _FLOOR
_MOST_LANES = 16  # more heads than this are drawn as the first, an ellipsis and the last
_FEATURES = 64  # about so many features are drawn across the full width; the others are skipped, and said so


def _feature_step(d_model: int, d_k: int) -> int:
    """Draw every so-many-th feature; a divisor of d_k where one will do, so that heads stay whole side by side."""
    wanted = math.ceil(d_model / _FEATURES)
    return next((step for step in range(wanted, d_k + 1) if d_k % step == 0), wanted if d_k > 2 * wanted else d_k)


#: Pixels between a column and the next: room for the fan of wires before and after the lanes.
_GAPS = {
    "input": 48,
    "project": 96,
    "split": 26,
    "score": 20,
    "scale": 20,
    "mask": 20,
    "normalise": 24,
    "mix": 68,
    "merge": 46,
}
#: A column is never narrower than its words; 118 pixels where nothing else is said.
_WORDS = {"split": 136, "score": 80, "scale": 80, "mask": 80, "normalise": 112, "mix": 112}


class _Layout:
    """Where everything goes: pixels for one token and one feature, the lanes, and the span of every column.

    Attributes
    ----------
    lanes : list of int or None
        The head in each lane, from top to bottom; None is an ellipsis.
    pitch, unit, feature : float
        Pixels from lane to lane, for one token that is drawn, and for one feature.
    every_token, every_feature : int
        One token in so many is drawn, and one feature.
    rows : int
        Drawn tokens that would fill a lane from top to bottom; some of them are the gap to the next lane.
    spans : dict
        Step name -> (left, right) of what the step draws.
    lanes_at : tuple of float
        Left and right end of the lanes.
    """

    def __init__(self, trace: Trace):
        _, n_heads, t_q, t_k = trace["scores"].shape
        wide = {
            step: trace[name].shape[2] for step, name in (("input", "x"), ("merge", "merged"), ("output", "output"))
        }
        wide["project"] = max(trace[name].shape[2] for name in "qkv")
        d_k, d_v = trace["q_heads"].shape[3], trace["v_heads"].shape[3]
        self.lanes = list(range(n_heads)) if n_heads <= _MOST_LANES else [*range(_MOST_LANES - 2), None, n_heads - 1]
        self.pitch = min(88.0, (_FLOOR - _TOP) / len(self.lanes))
        tallest = max(t_q, t_k)
        self.every_token = math.ceil(tallest / min(32, max(4, self.pitch / 1.75)))
        drawn = math.ceil(tallest / self.every_token)
        # A gap of whole rows, so that one image can hold a column with all its lanes; no token taller than 22.
        self.rows = drawn + max(1, round(0.16 * drawn), math.ceil(self.pitch / 22) - drawn)
        self.unit = self.pitch / self.rows
        self.key_width = self.tall(t_k)

        def widths(feature: float) -> dict[str, float]:
            lane = {"split": (2 * d_k + d_v) * feature + 28, "mix": d_v * feature}
            maps = dict.fromkeys(("score", "scale", "mask", "normalise"), self.key_width)
            drawn = {step: size * feature for step, size in wide.items()}
            return {**drawn, **lane, **maps}

        def total(feature: float) -> float:
            slots = (max(width, _WORDS.get(step, 118)) for step, width in widths(feature).items())
            return sum(slots) + sum(_GAPS.values())

        # The widest feature that still fits the page; the page is wide enough for the words alone.
        least, most = 0.0, 190.0 / max(wide.values())
        for _ in range(24):
            feature = (least + most) / 2
            least, most = (feature, most) if total(feature) <= WIDTH - 2 * _MARGIN - 12 else (least, feature)
        self.feature = least
        self.spans, x, drawn = {}, _MARGIN + (WIDTH - 2 * _MARGIN - 12 - total(self.feature)) / 2, widths(self.feature)
        for step in ("input", "project", "split", "score", "scale", "mask", "normalise", "mix", "merge", "output"):
            slot = max(drawn[step], _WORDS.get(step, 118))
            self.spans[step] = (x + (slot - drawn[step]) / 2, x + (slot + drawn[step]) / 2)
            if step == "split":
                left = x - 36
            if step == "mix":
                right = x + slot + 4
            x += slot + _GAPS.get(step, 0)
        self.lanes_at = (left, right)
        self.every_feature = _feature_step(wide["project"], d_k)

    def tall(self, tokens: int) -> float:
        """Pixels that so many tokens take, down or across."""
        return math.ceil(tokens / self.every_token) * self.unit

    def lane_middle(self, position: int) -> float:
        """Height of the middle of a lane."""
        return (_TOP + _FLOOR) / 2 + (position + 0.5 - len(self.lanes) / 2) * self.pitch


def shape_flow(trace: Trace, title: str = "One layer of multi-head attention", sample: int = 0) -> Picture:
    """Draw a forward pass as nine steps, to scale, with the shape of every array.

    Parameters
    ----------
    trace : Trace
        From ``MultiHead.trace(x)``: self-attention or cross-attention, grouped heads included.
    title : str
    sample : int
        Which sequence of the batch is drawn, counted from 0.

    Returns
    -------
    Picture
        An SVG whose alt text states every shape in words.

    Raises
    ------
    ValueError
        The trace is empty in some axis, or has no such sample.

    Examples
    --------
    >>> from mha_lib import samples
    >>> from mha_lib.dims import Dims
    >>> dims = Dims(2, 5, 12, 3)
    >>> shape_flow(samples.layer(dims).trace(samples.inputs(dims))).alt[:66]
    'Shape flow of one layer: batch 2, tokens 5, width 12, heads 3, d_k'
    """
    batch = trace["scores"].shape[0]
    if 0 in trace["scores"].shape:
        raise ValueError(f"nothing to draw: the scores have shape {trace['scores'].shape}")
    if not 0 <= sample < batch:
        raise ValueError(f"sample {sample} is outside this batch of {batch}; samples are numbered from 0")
    return Picture(_Drawing(trace, sample, title).svg(), _alt(trace), WIDTH, HEIGHT, numbers=lambda: _numbers(trace))


def _alt(trace: Trace) -> str:
    shape = {entry.name: entry.array.shape for entry in trace}
    batch, n_heads, t_q, t_k = shape["scores"]
    tokens = f"tokens {t_q}" if t_q == t_k else f"queries {t_q}, keys {t_k}"
    seen = "no mask" if trace.setting.keep is None else f"{_share_kept(trace):.0%} of the pairs kept by the mask"
    return (
        f"Shape flow of one layer: batch {batch}, {tokens}, width {shape['x'][2]}, heads {n_heads}, "
        f"d_k {trace.setting.d_k}. Input {shape['x']}. Project gives q {shape['q']}, k {shape['k']}, v {shape['v']}. "
        f"Split gives q {shape['q_heads']}, k {shape['k_heads']}, v {shape['v_heads']}. "
        f"Score gives {shape['scores']}, {trace['scores'].size:,} numbers. "
        f"Scale multiplies by {trace.setting.scale:.4g}. "
        f"Mask: {seen}. Normalise is a softmax over keys, weights from 0 to 1. Mix gives {shape['mixed']}, "
        f"merge {shape['merged']}, output {shape['output']}."
    )


def _numbers(trace: Trace) -> str:
    rows = []
    for entry in trace:
        spread = f"{_spread(entry.array):.3g}"
        rows.append([entry.step, entry.name, entry.array.shape, ", ".join(entry.axes), f"{entry.array.size:,}", spread])
    header = ["step", "array", "shape", "axes", "numbers", "standard deviation"]
    return table(header, rows, "Every array of this forward pass")


def _spread(values: np.ndarray) -> float:
    """Standard deviation of the finite values; masked scores do not count."""
    finite = values[np.isfinite(values)]
    return float(finite.std()) if finite.size else 0.0


def _share_kept(trace: Trace) -> float:
    return float(np.broadcast_to(trace.setting.keep, trace["scores"].shape).mean())


def _shape(parts: list[tuple[int, str]]) -> str:
    """A shape as coloured text, ``(2, 8, 10, 64)``: every number in the colour of its axis, and lit with it."""
    spans = [f'<tspan class="a-{axis}" fill="{look.AXES[axis]}">{size}</tspan>' for size, axis in parts]
    return "(" + ", ".join(spans) + ")"


class _Drawing:
    """One shape flow while it is put together."""

    def __init__(self, trace: Trace, sample: int, title: str):
        self.trace, self.sample, self.title = trace, sample, title
        self.layout = _Layout(trace)
        self.uid = drawing.unique("flow")
        self.batch, self.n_heads, self.t_q, self.t_k = trace["scores"].shape
        self.d_in, self.d_k, self.d_v = trace["x"].shape[2], trace["q_heads"].shape[3], trace["v_heads"].shape[3]
        self.middle = (_TOP + _FLOOR) / 2
        self.out: list[str] = []
        # Frames, bands and edges are gathered by colour or axis and drawn as one path each: a page of
        # few elements is parsed and laid out in half the time.
        self.frames: dict[str, list[str]] = defaultdict(list)
        self.bands: dict[str, list[str]] = defaultdict(list)
        self.edges: dict[str, list[str]] = defaultdict(list)

    # -- pixels -------------------------------------------------------------------------------

    def _sheet(self) -> str:
        """One small image holds every value drawn: the lanes below each other, then the full-width blocks."""
        every_t, every_f = self.layout.every_token, self.layout.every_feature
        array = lambda name: self.trace[name][self.sample]  # noqa: E731
        reach = lambda name: 2.5 * (_spread(array(name)) or 1.0)  # noqa: E731

        def values(name):
            high = reach(name)
            return drawing.colour(array(name)[..., ::every_t, ::every_f], -high, high, look.VALUES_MAP)

        def pairs(name, low, high, colours):
            return drawing.colour(array(name)[..., ::every_t, ::every_t], low, high, colours)

        raw, scaled = reach("scores"), reach("scaled")
        lanes, lane_at = drawing.beside(
            {
                "q_heads": values("q_heads"),
                "k_heads": self._shared(values("k_heads")),
                "v_heads": self._shared(values("v_heads")),
                "scores": pairs("scores", -raw, raw, look.SCORES_MAP),
                "scaled": pairs("scaled", -raw, raw, look.SCORES_MAP),  # on the scale of the scores: it gets paler
                "masked": pairs("masked", -scaled, scaled, look.SCORES_MAP),
                "weights": pairs("weights", 0.0, 1.0, look.WEIGHTS_MAP),
                "mixed": values("mixed"),
            },
            rows=self.layout.rows,
        )
        wide, wide_at = drawing.beside({name: values(name) for name in ("x", "q", "k", "v", "merged", "output")})
        shown = [-1 if head is None else head for head in self.layout.lanes]
        lanes = np.concatenate([lanes, np.full_like(lanes[:1], drawing.CLEAR)])[shown]  # -1 is the lane of the ellipsis
        lanes = lanes.reshape(-1, lanes.shape[2])
        # A clear row between the two, and a clear column behind: an enlarged window shows a hint of its neighbours.
        sheet = np.full((len(lanes) + 1 + len(wide), max(lanes.shape[1], wide.shape[1]) + 1), drawing.CLEAR)
        below = len(lanes) + 1
        sheet[: len(lanes), : lanes.shape[1]], sheet[below:, : wide.shape[1]] = lanes, wide
        self.windows = {name: (left, below, columns, rows) for name, (left, columns, rows) in wide_at.items()}
        self.windows |= {name: (left, 0, columns, len(lanes)) for name, (left, columns, _) in lane_at.items()}
        return drawing.sheet(self.uid, sheet.astype(np.uint8))

    def _shared(self, block: np.ndarray) -> np.ndarray:
        """Grouped heads: each lane shows the key or value head it is served by."""
        return block if len(block) == self.n_heads else np.repeat(block, self.n_heads // len(block), axis=0)

    # -- blocks -------------------------------------------------------------------------------

    def _frame(self, x, y, w, h, stroke, across) -> None:
        """The frame of a block; its left edge is the token axis, its top edge the axis ``across``."""
        self.frames[stroke].append(f"M{x:.1f} {y:.1f}h{w:.1f}v{h:.1f}h{-w:.1f}z")
        self.edges["tokens"].append(f"M{x - 4:.1f} {y:.1f}v{h:.1f}")
        self.edges[across].append(f"M{x:.1f} {y - 4:.1f}h{w:.1f}")

    def _gathered(self) -> str:
        """The paths that were gathered while the blocks were placed."""
        out = [f'<path d="{"".join(parts)}" fill="{colour}"/>' for colour, parts in self.bands.items()]
        out += [
            f'<path d="{"".join(parts)}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
            for colour, parts in self.frames.items()
        ]
        out += [
            f'<path class="e a-{axis}" fill="none" stroke="none" d="{"".join(parts)}"/>'
            for axis, parts in self.edges.items()
        ]
        return "".join(out)

    def _column(self, name: str, x: float, w: float, tokens: int, across: str) -> None:
        """One block in every lane, all from one window."""
        layout, h = self.layout, self.layout.tall(tokens)
        top = layout.lane_middle(0) - h / 2
        self.out.append(drawing.window(self.uid, self.windows[name], x, top, w, len(layout.lanes) * layout.pitch))
        for position, head in enumerate(layout.lanes):
            if head is not None:
                self._frame(x, layout.lane_middle(position) - h / 2, w, h, look.head_colour(head), across)

    # -- the whole ----------------------------------------------------------------------------

    def svg(self) -> str:
        sheet = self._sheet()
        self._lanes()
        self._wide_blocks()
        self._lane_blocks()
        self._words()
        self._legend()
        body = "".join(self.out) + self._gathered()
        return drawing.svg(WIDTH, HEIGHT, body, sheet + self._gradients(), "mha-flow")

    def _lanes(self) -> None:
        """The coloured strip of every head, with its number, and a bracket that is the head axis."""
        left, right = self.layout.lanes_at
        for position, head in enumerate(self.layout.lanes):
            h = self.layout.pitch - 3
            y = self.layout.lane_middle(position) - h / 2
            if head is None:
                words = f"⋯ {self.n_heads - len(self.layout.lanes) + 1} more heads ⋯"
                self.out.append(text((left + right) / 2, y + h / 2 + 5, words, 15, colour=look.QUIET))
                continue
            colour = look.head_colour(head)
            self.out.append(
                f'<rect x="{left:.1f}" y="{y:.1f}" width="{right - left:.1f}" height="{h:.1f}" rx="6" '
                f'fill="{colour}" fill-opacity="0.11"/>'
            )
            self.out.append(text(left + 17, y + h / 2 + 5.5, head, 17, weight=700))
        half = len(self.layout.lanes) * self.layout.pitch / 2 - 1.5
        self.edges["heads"].append(f"M{left:.1f} {self.middle - half:.1f}v{2 * half:.1f}")

    def _wide_blocks(self) -> None:
        """Input, q, k and v before the split, merge and output, and the wires between them."""
        spans, layout, trace = self.layout.spans, self.layout, self.trace
        lanes_left, lanes_right = layout.lanes_at
        self._wide("x", spans["input"][0], self.middle, self.t_q)
        gather = spans["project"][1] + 30
        step_down = layout.tall(max(self.t_q, self.t_k)) + 38
        for row, (name, tokens) in enumerate((("q", self.t_q), ("k", self.t_k), ("v", self.t_k))):
            y, x = self.middle + (row - 1) * step_down, spans["project"][0]
            self._wire(spans["input"][1] + 5, self.middle, x - 27, y, look.LINE)
            self._wire(x + trace[name].shape[2] * layout.feature + 5, y, gather, self.middle, look.LINE)
            self._wide(name, x, y, tokens, bands=True)
            self.out.append(text(x - 16, y + 6, name, 18, weight=700))
        for position, head in enumerate(layout.lanes):
            if head is not None:
                y, colour = layout.lane_middle(position), look.head_colour(head)
                self._wire(gather, self.middle, lanes_left - 4, y, colour)
                self._wire(lanes_right + 2, y, spans["merge"][0] - 5, self.middle, colour)
        self._wide("merged", spans["merge"][0], self.middle, self.t_q, bands=True)
        self._wire(spans["merge"][1] + 5, self.middle, spans["output"][0] - 5, self.middle, look.LINE)
        self._wide("output", spans["output"][0], self.middle, self.t_q)

    def _lane_blocks(self) -> None:
        spans, layout = self.layout.spans, self.layout
        x = spans["split"][0]
        for name, size, tokens in (
            ("q_heads", self.d_k, self.t_q),
            ("k_heads", self.d_k, self.t_k),
            ("v_heads", self.d_v, self.t_k),
        ):
            w = size * layout.feature
            self._column(name, x, w, tokens, "d_k")
            above = layout.lane_middle(0) - layout.pitch / 2 - 8
            self.out.append(text(x + w / 2, above, name[0], 16, weight=700))
            x += w + 14
        for step, name in (("score", "scores"), ("scale", "scaled"), ("mask", "masked"), ("normalise", "weights")):
            self._column(name, spans[step][0], layout.key_width, self.t_q, "tokens")
        self._column("mixed", spans["mix"][0], self.d_v * layout.feature, self.t_q, "d_k")

    def _wide(self, name: str, x: float, y: float, tokens: int, bands: bool = False) -> None:
        """A block (tokens, width) around the height ``y``, the other samples of the batch as sheets behind it."""
        w, h = self.trace[name].shape[2] * self.layout.feature, self.layout.tall(tokens)
        for depth in range(min(self.batch - 1, 3), 0, -1):
            self.out.append(
                f'<rect class="s a-batch" x="{x + 5 * depth:.1f}" y="{y - h / 2 + 5 * depth:.1f}" width="{w:.1f}" '
                f'height="{h:.1f}" fill="{look.PAPER}" stroke="{look.QUIET}"/>'
            )
        self.out.append(drawing.window(self.uid, self.windows[name], x, y - h / 2, w, h))
        self._frame(x, y - h / 2, w, h, look.INK, "width")
        if bands:
            self._bands(x, y - h / 2 - 10, w, shared=name in "kv")

    def _bands(self, x: float, y: float, width: float, shared: bool) -> None:
        """Which features belong to which head: a strip of head colours above a full-width block."""
        count = self.trace["k_heads"].shape[1] if shared else self.n_heads
        group = self.n_heads // count
        for head in range(count if count <= 64 else 0):
            left, wide = x + head * width / count, max(0.5, width / count - 0.8)
            self.bands[look.head_colour(head * group)].append(f"M{left:.1f} {y - 3:.1f}h{wide:.1f}v5h{-wide:.1f}z")
        self.edges["heads"].append(f"M{x:.1f} {y - 7:.1f}h{width:.1f}")

    def _wire(self, x0: float, y0: float, x1: float, y1: float, colour: str) -> None:
        bend = (x1 - x0) / 2
        path = f"M{x0:.1f} {y0:.1f}C{x0 + bend:.1f} {y0:.1f} {x1 - bend:.1f} {y1:.1f} {x1:.1f} {y1:.1f}"
        self.out.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')

    # -- words --------------------------------------------------------------------------------

    def _words(self) -> None:
        self._heading()
        self._step_names()
        self._shapes()

    def _heading(self) -> None:
        """The title, and the four sizes as chips."""
        put, setting = self.out.append, self.trace.setting
        put(text(_MARGIN, 42, self.title, 28, weight=700, anchor="start"))
        x = _MARGIN
        tokens = f"{self.t_q:,}" if self.t_q == self.t_k else f"{self.t_q:,} and {self.t_k:,}"
        for name, value in (
            ("batch", self.batch),
            ("tokens", tokens),
            ("width", f"{self.d_in:,}"),
            ("heads", self.n_heads),
        ):
            words, colour = f"{name} {value}", look.AXES[name]
            w = 10 * len(words) + 30
            put(
                f'<rect class="c a-{name}" x="{x}" y="60" width="{w}" height="34" rx="17" fill="{look.PAPER}" '
                f'stroke="{colour}" stroke-width="1.6"/>'
            )
            put(text(x + w / 2, 83, words, 18, weight=600, colour=colour, extra=f' class="ct a-{name}"'))
            x += w + 10
        total = self.n_heads * self.d_k
        share = f"d_k = {total} / {self.n_heads} = {self.d_k}"
        d_k = f'<tspan class="a-d_k" fill="{look.AXES["d_k"]}" font-weight="600">{share}</tspan>'
        root = f" = 1/√{self.d_k}" if self._standard_scale() else ""
        put(text(x + 10, 83, f"{d_k}  ·  scores × {setting.scale:.4g}{root}", 18, colour=look.QUIET, anchor="start"))

    def _standard_scale(self) -> bool:
        return math.isclose(self.trace.setting.scale, 1 / math.sqrt(self.d_k))

    def _step_names(self) -> None:
        setting = self.trace.setting
        notes = {
            "input": "X",
            "project": "X · W_Q, W_K, W_V",
            "split": "one lane a head",
            "score": "q · kᵀ",
            "scale": f"÷ √{self.d_k}" if self._standard_scale() else f"× {setting.scale:.3g}",
            "mask": "none" if setting.keep is None else f"keep {_share_kept(self.trace):.0%}",
            "normalise": "over keys",
            "mix": "weights · v",
            "merge": "side by side",
            "output": "· W_O",
        }
        for number, (step, span) in enumerate(self.layout.spans.items()):
            before = f'<tspan fill="{look.QUIET}" font-weight="400">{number} </tspan>' if number else ""
            self.out.append(text(sum(span) / 2, 132, before + step, 19, weight=700))
            self.out.append(text(sum(span) / 2, 154, notes[step], 17, colour=look.QUIET))

    def _shapes(self) -> None:
        """Below every column the shape of what it holds; one for the four maps, which share it."""
        trace, spans, y = self.trace, self.layout.spans, _FLOOR + 36
        wide = [(self.batch, "batch"), (self.t_q, "tokens")]
        heads = [(self.batch, "batch"), (self.n_heads, "heads"), (self.t_q, "tokens")]

        def put(step: str, parts, before: str = "", after: str = "") -> None:
            quiet = f'<tspan font-weight="400" fill="{look.QUIET}">'
            words = (f"{quiet}{before}</tspan>" if before else "") + _shape(parts)
            self.out.append(text(sum(spans[step]) / 2, y, words, 19, weight=600))

        same = trace["q"].shape == trace["k"].shape == trace["v"].shape
        put("input", [*wide, (self.d_in, "width")])
        put("project", [*wide, (trace["q"].shape[2], "width")], "each " if same else "q ")
        put("split", [*heads, (self.d_k, "d_k")], "" if same else "q ")
        put("mix", [*heads, (self.d_v, "d_k")])
        put("merge", [*wide, (trace["merged"].shape[2], "width")])
        put("output", [*wide, (trace["output"].shape[2], "width")])
        left, right = spans["score"][0], spans["normalise"][1]
        self.out.append(
            f'<path d="M{left:.1f} {y - 25}v6H{right:.1f}v-6" fill="none" stroke="{look.LINE}" stroke-width="1.6"/>'
        )
        pairs = _shape([*heads, (self.t_k, "tokens")])
        self.out.append(text((left + right) / 2, y, pairs, 19, weight=600))
        self.out.append(text((left + right) / 2, y + 23, self._spread(), 17, colour=look.QUIET))

    def _spread(self) -> str:
        """What the scale and the softmax did to the numbers, measured."""
        score, scaled = (_spread(self.trace[name][self.sample]) for name in ("scores", "scaled"))
        largest = self.trace["weights"][self.sample].max()
        in_short = lambda value: f"{value:.2f}" if value < 10 else f"{value:.1f}"  # noqa: E731
        return f"spread {in_short(score)} → {in_short(scaled)} · largest weight {largest:.2f}"

    def _legend(self) -> None:
        """What is drawn and what is skipped, and what the colours say."""
        scores, y = self.trace["scores"], HEIGHT - 16
        facts = f"scores: {scores.size:,} numbers, {in_words(scores.size * 4)} in float32"
        drawn = f"drawn: sample {self.sample} of {self.batch}"
        for step, what in ((self.layout.every_token, "token"), (self.layout.every_feature, "feature")):
            drawn += f", 1 {what} in {step}" if step > 1 else ""
        self.out.append(text(_MARGIN, y, f"{facts}  ·  {drawn}", 16, colour=look.QUIET, anchor="start"))
        x = WIDTH - _MARGIN - 480
        for name, low, high in (("values", "−", "+"), ("scores", "−", "+"), ("weights", "0", "1")):
            self.out.append(text(x, y, f"{name} {low}", 15, colour=look.QUIET, anchor="end"))
            self.out.append(
                f'<rect x="{x + 5}" y="{y - 12}" width="44" height="13" fill="url(#{self.uid}{name})" '
                f'stroke="{look.LINE}"/>'
            )
            self.out.append(text(x + 54, y, high, 15, colour=look.QUIET, anchor="start"))
            x += 146
        self.out.append(f'<rect x="{x - 40}" y="{y - 12}" width="13" height="13" fill="{look.MASKED}"/>')
        self.out.append(text(x - 22, y, "masked", 15, colour=look.QUIET, anchor="start"))

    def _gradients(self) -> str:
        maps = {"values": look.VALUES_MAP, "scores": look.SCORES_MAP, "weights": look.WEIGHTS_MAP}
        return "".join(drawing.gradient(self.uid + name, colours) for name, colours in maps.items())
