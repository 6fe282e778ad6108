"""The four sliders, and `explore`: from a plain function to a live panel in one line.

Every panel of a notebook stands on one shared state, so all pictures show the same sizes. The panel
that is being moved is drawn first; the others follow when the kernel has a moment. Nothing snaps: a
size that cannot be is kept, shown and explained where the picture was.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import inspect
import io
import linecache
import sys
import weakref
from collections.abc import Callable, Mapping
from numbers import Integral, Real

import ipywidgets as widgets
import numpy as np
from threadpoolctl import ThreadpoolController

from . import look, plots
from .attention import Trace
from .dims import Dims, HeadsDoNotDivide, in_words
from .picture import Picture, table
from .shape_flow import shape_flow

#: What the sliders reach: label, least, most, step. A number field goes beyond, and its slider stretches with it.
SLIDERS = {
    "batch": ("batch", 1, 4, 1),
    "tokens": ("tokens", 1, 32, 1),
    "d_model": ("width", 8, 768, 8),
    "n_heads": ("heads", 1, 16, 1),
}

#: Sizes worth a visit: batch, tokens, d_model, n_heads.
PRESETS = {
    "the article: 2 × 10, width 512, 8 heads": (2, 10, 512, 8),
    "small enough to print: 2 × 5, width 12, 3 heads": (2, 5, 12, 3),
    "one head": (2, 10, 512, 1),
    "as many heads as features": (2, 10, 16, 16),
    "GPT-2 small, 64 tokens": (1, 64, 768, 12),
    "GPT-2 small, all 1,024 tokens": (1, 1024, 768, 12),
    "Llama-3-8B, all 8,192 tokens": (1, 8192, 4096, 32),
    "does not divide: width 512, 6 heads": (2, 10, 512, 6),
}
_OWN = "your own"

#: Bytes a panel may take for one picture; a Binder machine guarantees 450 MB in all.
BUDGET = 256 * 2**20

#: One thread for the small products of a panel: two would wait for each other longer than they compute,
#: and a busy machine makes that wait a hundred times longer.
_threads = ThreadpoolController()

#: The axes that a size is seen on: moving heads moves d_k as well.
_LIT = {"batch": "batch", "tokens": "tokens", "d_model": "width d_k", "n_heads": "heads d_k"}


class Sizes:
    """The four numbers that every panel of a notebook shares.

    They may be impossible together: `dims` says so, and keeps them.

    Parameters
    ----------
    dims : Dims, optional
        Where to start; the course's worked example if left out.
    """

    def __init__(self, dims: Dims | None = None):
        dims = dims or Dims()
        self.values = {name: getattr(dims, name) for name in SLIDERS}
        self.moved: tuple[str, ...] = ()
        self._panels: weakref.WeakSet[Panel] = weakref.WeakSet()

    def dims(self) -> Dims:
        """The sizes as `Dims`, or its error where they cannot be."""
        return Dims(**self.values)

    def of(self) -> str:
        """The sizes in short, ``"2,10,512,8"``."""
        return ",".join(map(str, self.values.values()))

    def attach(self, panel: Panel) -> None:
        """Let a panel follow from now on."""
        self._panels.add(panel)

    def detach(self, panel: Panel) -> None:
        """Stop telling a panel."""
        self._panels.discard(panel)

    def set(self, source: Panel | None = None, **values: int) -> None:
        """Take new sizes; ``source`` is redrawn at once, the other panels as soon as nothing else waits."""
        values = {name: value for name, value in values.items() if self.values[name] != value}
        if not values:
            return
        self.values |= values
        self.moved = tuple(values)
        others = [panel for panel in self._panels if panel is not source]
        if source is not None:
            source.follow()
        for panel in others:
            panel.follow_later()


#: The state of this notebook.
shared = Sizes()


class _Knob:
    """One slider with its number field; both show one number, whichever of them is used."""

    def __init__(self, value, label: str, least, most, step, changed: Callable):
        whole = all(isinstance(number, Integral) for number in (value, least, most, step))
        slider, field = (widgets.IntSlider, widgets.IntText) if whole else (widgets.FloatSlider, widgets.FloatText)
        self._range, self._changed, self._quiet = (least, most, step), changed, False
        self.slider = slider(value, min=least, max=most, step=step, description=label, readout=False)
        self.slider.layout = widgets.Layout(flex="1 1 auto", width="auto", min_width="0")
        # The label of the field is for screen readers; beside the slider's it would say the same twice.
        self.field = field(value, description=f"{label}, exact", layout=widgets.Layout(width="92px"))
        self.field.add_class("mha-field")
        self.slider.observe(self._moved, "value")
        self.field.observe(self._moved, "value")
        self.box = widgets.HBox([self.slider, self.field])
        self.box.add_class("mha-knob")
        if label in look.AXES:
            self.box.add_class(f"mha-knob-{label}")
        self.show(value)

    def _moved(self, change) -> None:
        if not self._quiet:
            self.show(change["new"])
            self._changed(change["new"])

    @property
    def value(self):
        return self.field.value

    def show(self, value) -> None:
        """Show a number without telling anyone; the slider stretches where the number lies beyond its end.

        The slider stands at the nearest of its own steps: a browser would move a handle between two steps to
        one of them, and report that as a move.
        """
        least, most, step = self._range
        self._quiet = True
        try:
            if self.field.value != value:
                self.field.value = value
            near = least + round((max(value, least) - least) / step) * step
            reach = max(most, near)
            if self.slider.max != reach:
                # A slider that shrinks must come back inside before its end does.
                if reach < self.slider.value:
                    self.slider.value = near
                self.slider.max = reach
            if self.slider.value != near:
                self.slider.value = near
        finally:
            self._quiet = False


class Panel(widgets.VBox):
    """A picture with its controls; `explore` makes one.

    Where a viewer has no kernel, the same output shows a still picture instead.
    """

    def __init__(
        self, draw: Callable, sizes: Sizes, shown: tuple[str, ...], extras: Mapping, needs: Callable, budget: int
    ):
        self._draw, self._sizes, self._needs, self._budget = draw, sizes, needs, budget
        self._waiting, self._result, self._frame = None, None, (1560, 760)
        self._buttons: dict[int, widgets.Button] = {}
        self._knobs = {
            name: _Knob(sizes.values[name], *SLIDERS[name], lambda value, name=name: sizes.set(self, **{name: value}))
            for name in shown
        }
        self._extras = {name: _control(name, spec, self._extra_moved) for name, spec in extras.items()}
        self.picture = widgets.HTML().add_class("mha-picture")
        self._ways_out = widgets.HBox().add_class("mha-ways-out")
        self._numbers = widgets.HTML().add_class("mha-numbers")
        self._numbers_button = widgets.ToggleButton(
            False, description="show the numbers", layout=widgets.Layout(width="auto")
        )
        self._numbers_button.observe(lambda change: self._show_numbers(), "value")
        self._presets = widgets.Dropdown(
            options=[_OWN, *PRESETS],
            description="sizes",
            layout=widgets.Layout(width="auto", flex="1 1 300px", max_width="430px"),
        )
        self._presets.observe(self._preset_chosen, "value")
        row = [self._presets] if len(shown) == len(SLIDERS) else []
        row += [getattr(control, "box", control) for control in self._extras.values()] + [
            self._numbers_button,
            self._ways_out,
        ]
        sliders = widgets.Box([knob.box for knob in self._knobs.values()]).add_class("mha-knobs")
        children = [
            widgets.HTML(look.stylesheet()).add_class("mha-css"),
            sliders,
            widgets.HBox(row).add_class("mha-row"),
        ]
        super().__init__([*children, self.picture, self._numbers])
        self.add_class("mha-panel")
        sizes.attach(self)
        self.follow()

    # -- following the state ------------------------------------------------------------------

    def follow(self) -> None:
        """Show the sizes on the sliders, then draw: in this order, so that no picture shows half of a change."""
        self._waiting = None
        for name, knob in self._knobs.items():
            knob.show(self._sizes.values[name])
        self._redraw()
        # The name of the sizes can wait until the picture is on its way.
        sizes = tuple(self._sizes.values.values())
        named = next((name for name, preset in PRESETS.items() if preset == sizes), _OWN)
        if self._presets.value != named:
            self._presets.value = named

    def follow_later(self) -> None:
        """Follow once the kernel has nothing else to do; a newer change replaces one that still waits."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.follow()
            return
        if self._waiting is not None:
            self._waiting.cancel()
        self._waiting = loop.call_later(0.12, self.follow)

    def _preset_chosen(self, change) -> None:
        if change["new"] in PRESETS:
            self._sizes.set(self, **dict(zip(SLIDERS, PRESETS[change["new"]], strict=True)))

    def _extra_moved(self, value=None) -> None:
        self._redraw()

    def close(self) -> None:
        """Take the panel off the page and let go of the state."""
        self._sizes.detach(self)
        if self._waiting is not None:
            self._waiting.cancel()
        super().close()

    # -- drawing ------------------------------------------------------------------------------

    def _redraw(self) -> None:
        ways_out, self._result = [], None
        try:
            dims = self._sizes.dims() if self._knobs else None
        except HeadsDoNotDivide as error:
            shown, ways_out = self._notice(_leftover(error)), self._valid_heads(error)
        except (ValueError, TypeError) as error:
            shown = self._notice(f"<p>{html.escape(str(error))}.</p>")
        else:
            shown = self._guarded(dims)
        self.picture.value = shown
        if tuple(ways_out) != self._ways_out.children:
            self._ways_out.children = ways_out
        self._numbers_button.disabled = getattr(self._result, "numbers", None) is None
        self._show_numbers()

    def _guarded(self, dims: Dims | None) -> str:
        """Draw, unless the arrays would not fit; a fault in the function is told in words."""
        printed = io.StringIO()
        try:
            if dims is not None and (needed := self._needs(dims)) > self._budget:
                return self._notice(_too_large(dims, needed, self._budget))
            given = {**(vars(dims) if dims else {}), "dims": dims}
            given |= {name: control.value for name, control in self._extras.items()}
            with contextlib.redirect_stdout(printed), _threads.limit(limits=1):
                result = self._draw(
                    **{name: given[name] for name in inspect.signature(self._draw).parameters if name in given}
                )
            self._result, markup = _shown(result, self._draw, dims, printed.getvalue())
        except Exception as error:  # whatever a reader's function raises is told, not thrown
            told = _in_plain_words(error, self._draw)
            return f'<div class="mha-error" role="alert" data-of="{self._sizes.of()}">{told}</div>'
        if self._result is not None:
            self._frame = self._result.width, self._result.height
            # One thing moved: light it. A preset moves everything, and light everywhere shows nothing.
            lit = _LIT[self._sizes.moved[0]] if len(self._sizes.moved) == 1 else ""
            markup = self._result.live(self._sizes.of(), lit) + markup
        return markup

    def _notice(self, body: str) -> str:
        """Words where the picture was, in a frame of its size, so that the page does not jump."""
        width, height = self._frame
        return (
            f'<div class="mha-notice" role="status" data-of="{self._sizes.of()}" '
            f'style="max-width:{width}px;aspect-ratio:{width}/{height}"><div>{body}</div></div>'
        )

    def _valid_heads(self, error: HeadsDoNotDivide) -> list[widgets.Button]:
        """Buttons for the nearest head counts that do divide."""
        near = sorted(sorted(error.valid, key=lambda count: abs(count - error.n_heads))[:4])
        return [self._way_out(count) for count in near]

    def _way_out(self, count: int) -> widgets.Button:
        """The button for a head count, made once: a button is slower to make than a picture."""
        if count not in self._buttons:
            words = "1 head" if count == 1 else f"{count} heads"
            self._buttons[count] = button = widgets.Button(description=words, layout=widgets.Layout(width="auto"))
            button.on_click(lambda _: self._sizes.set(self, n_heads=count))
        return self._buttons[count]

    def _show_numbers(self) -> None:
        numbers = getattr(self._result, "numbers", None) if self._numbers_button.value else None
        value = numbers() if numbers else ""
        if self._numbers.value != value:
            self._numbers.value = value

    def _repr_mimebundle_(self, **kwargs):
        bundle = super()._repr_mimebundle_(**kwargs)
        still = self._result.still() if self._result is not None else self.picture.value
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        words = "A still picture. Run this cell in Jupyter to move the sliders."
        alt = self._result.alt if self._result is not None else "A live panel."
        return {**data, "text/html": f"{still}<p><em>{words}</em></p>", "text/plain": alt}, metadata


def explore(
    draw: Callable, *, at: Dims | None = None, needs: Callable | None = None, budget: int = BUDGET, **extras
) -> Panel:
    """Put a function on the sliders: ``explore(draw)`` as the last line of a cell.

    Parameters
    ----------
    draw : function
        Takes any of ``batch``, ``tokens``, ``d_model``, ``n_heads`` or, all in one, ``dims``; and the names
        in ``extras``. Returns what to show: a `Picture` (from `shape_flow`, `head_grid`, `plots.picture`), a
        `Trace` (drawn as a shape flow), a matplotlib figure, an array (its shape and range) or text.
        What it prints is shown below.
    at : Dims, optional
        Give this panel sliders of its own, starting here. Without it, all panels of a notebook move together.
    needs : function of Dims that returns int, optional
        Bytes that drawing will take; a forward pass in float64 with every array kept, if left out.
    budget : int
        Above so many bytes the panel says how much it would take and shows the shapes without drawing.
    **extras
        One more control for each: ``(least, most)`` or ``(least, most, step)`` a slider, a bool a checkbox,
        a list or a dict a choice, a text a text field. The default of the parameter is where it starts.

    Returns
    -------
    Panel

    Raises
    ------
    TypeError
        ``draw`` is no function, or has a parameter that no slider and no extra provides, or an extra that
        it does not take.

    Examples
    --------
    >>> panel = explore(lambda tokens: f"{tokens} tokens")
    """
    if not callable(draw):
        raise TypeError(
            f"explore takes a function, not {type(draw).__name__}; write explore(draw), without the brackets of a call"
        )
    parameters = inspect.signature(draw).parameters
    offered = [*SLIDERS, "dims", *extras]
    for name, parameter in parameters.items():
        if (
            name not in offered
            and parameter.default is parameter.empty
            and parameter.kind.name not in ("VAR_POSITIONAL", "VAR_KEYWORD")
        ):
            raise TypeError(
                f"no slider for {name!r}: explore knows {', '.join([*SLIDERS, 'dims'])}; "
                f"for another one give its range, explore({_name(draw)}, {name}=(1, 10))"
            )
    for name in extras:
        if name not in parameters:
            raise TypeError(f"{_name(draw)} takes no {name!r}; its parameters are {', '.join(parameters) or 'none'}")
    if "dims" in parameters or not (set(parameters) & set(SLIDERS) or extras):
        shown = tuple(SLIDERS)
    else:
        shown = tuple(name for name in SLIDERS if name in parameters)
        if {"d_model", "n_heads"} & set(shown):  # they bound each other, so one is never shown without the other
            shown = tuple(name for name in SLIDERS if name in {*shown, "d_model", "n_heads"})
    starts = {name: _start(spec, parameters[name].default) for name, spec in extras.items()}
    _replace_earlier()
    panel = Panel(draw, Sizes(at) if at else shared, shown, starts, needs or (lambda dims: dims.trace_bytes(8)), budget)
    _remember(panel)
    return panel


# ---------------------------------------------------------------------------------------------
# A cell that runs again replaces its panels

_panels_of_cell: dict[str, tuple[str, list[Panel]]] = {}


def _cell() -> tuple[str, str] | None:
    """The cell that is running, and this run of it; None outside a notebook."""
    shell = sys.modules.get("IPython") and sys.modules["IPython"].get_ipython()
    if shell is None or not hasattr(shell, "get_parent"):
        return None
    parent = shell.get_parent()
    cell = parent.get("metadata", {}).get("cellId")
    return (cell, parent["header"]["msg_id"]) if cell else None


def _replace_earlier() -> None:
    """Close the panels that an earlier run of this cell made: nobody sees them, yet every move would draw them."""
    here = _cell()
    if here and here[0] in _panels_of_cell and _panels_of_cell[here[0]][0] != here[1]:
        for panel in _panels_of_cell.pop(here[0])[1]:
            panel.close()


def _remember(panel: Panel) -> None:
    if here := _cell():
        _panels_of_cell.setdefault(here[0], (here[1], []))[1].append(panel)


# ---------------------------------------------------------------------------------------------
# Controls for the extras


def _start(spec, default):
    """A range or choice together with where it starts: the parameter's default, where it has one."""
    return spec, None if default is inspect.Parameter.empty else default


def _control(name: str, spec_and_start, changed: Callable):
    spec, start = spec_and_start
    label = name.replace("_", " ") if name != "d_k" else name
    if isinstance(spec, bool):
        control = widgets.Checkbox(spec if start is None else bool(start), description=label, indent=False)
        control.layout.width = "auto"
    elif isinstance(spec, str):
        control = widgets.Text(spec if start is None else start, description=label, continuous_update=False)
    elif isinstance(spec, tuple) and len(spec) in (2, 3) and all(isinstance(number, Real) for number in spec):
        least, most, *step = spec
        whole = all(isinstance(number, Integral) for number in spec)
        step = step[0] if step else 1 if whole else (most - least) / 100
        return _Knob(least if start is None else start, label, least, most, step, changed)
    elif isinstance(spec, (list, dict)) and spec:
        options = list(spec.items()) if isinstance(spec, dict) else list(spec)
        values = list(spec.values()) if isinstance(spec, dict) else options
        control = widgets.Dropdown(options=options, value=values[0] if start is None else start, description=label)
        control.layout.width = "auto"
    else:
        raise TypeError(
            f"{name}={spec!r} makes no control; give (least, most), (least, most, step), a bool, a list, a dict "
            "or a text"
        )
    control.observe(lambda change: changed(), "value")
    return control


# ---------------------------------------------------------------------------------------------
# What a panel says


def _name(function: Callable) -> str:
    return getattr(function, "__name__", type(function).__name__)


def _shown(result, draw: Callable, dims: Dims | None, printed: str) -> tuple[Picture | None, str]:
    """What a function returned as a picture, or as markup; and what it printed."""
    below = f"<pre>{html.escape(printed)}</pre>" if printed else ""
    if isinstance(result, Trace):
        result = shape_flow(result)
    figure = getattr(result, "figure", None) if not isinstance(result, Picture) else None
    if figure is not None and hasattr(figure, "savefig"):
        sizes = (
            f" at batch {dims.batch}, tokens {dims.tokens}, width {dims.d_model}, heads {dims.n_heads}" if dims else ""
        )
        result = plots.picture(figure, f"Figure drawn by {_name(draw)}{sizes}.")
        if pyplot := sys.modules.get("matplotlib.pyplot"):
            pyplot.close(figure)  # pyplot would keep every figure of every move
    if isinstance(result, Picture):
        return result, below
    if result is None:
        nothing = (
            f"<p>{html.escape(_name(draw))} returned nothing to show. Let it return a picture, an array or text.</p>"
        )
        return None, below or nothing
    if isinstance(result, np.ndarray) and result.ndim:
        finite = result[np.isfinite(result)] if result.dtype.kind in "fiu" else result[:0]
        span = f", from {finite.min():.4g} to {finite.max():.4g}" if finite.size else ""
        return None, f'<p class="mha-array">shape <b>{result.shape}</b>, {result.dtype}{span}</p>{below}'
    if hasattr(result, "_repr_html_"):
        return None, result._repr_html_() + below
    return None, f"<pre>{html.escape(str(result))}</pre>{below}"


def _in_plain_words(error: Exception, draw: Callable) -> str:
    """The error, and the line of the reader's function that it came from: no traceback."""
    where, frame = "", error.__traceback__
    file = getattr(getattr(draw, "__code__", None), "co_filename", None)
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == file:
            line = linecache.getline(file, frame.tb_lineno).strip()
            where = f"<p>in line {frame.tb_lineno} of the cell: <code>{html.escape(line)}</code></p>" if line else ""
        frame = frame.tb_next
    what = f"<b>{html.escape(_name(draw))}</b> stopped with a {type(error).__name__}: {html.escape(str(error))}"
    return f"<p>{what}</p>{where}<p>Mend the function, run its cell and this one again. The sliders still work.</p>"


def _leftover(error: HeadsDoNotDivide) -> str:
    """Why the width cannot be cut: as many equal heads as fit, and the features left over."""
    d_model, n_heads = error.d_model, error.n_heads
    each, left = divmod(d_model, n_heads)
    unit, parts, x = 900 / d_model, [], 0.0
    for head in range(min(n_heads, 64) if each else 0):
        parts.append(
            f'<rect x="{x:.2f}" width="{max(0.4, each * unit - 1.5):.2f}" height="34" fill="{look.head_colour(head)}"/>'
        )
        x += each * unit
    parts.append(
        f'<rect x="{x:.2f}" width="{left * unit:.2f}" height="34" fill="none" stroke="{look.LIT}" stroke-width="3" '
        'stroke-dasharray="5 4"/>'
    )
    size = 'viewBox="-2 -2 904 38" width="100%" style="max-width:904px"'
    bar = f'<svg {size} aria-hidden="true">{"".join(parts)}</svg>'
    over = "feature is" if left == 1 else "features are"
    fit = f"{n_heads} heads of {each} take {n_heads * each} of {d_model}; {left} {over} left over."
    return f"<p><b>{html.escape(str(error))}.</b></p>{bar}<p>{fit}</p>"


def _too_large(dims: Dims, needed: int, budget: int) -> str:
    """How much it would take, and the shapes all the same."""
    scores = f"the scores alone are {dims.score_elements:,} numbers, {in_words(dims.score_bytes())} in float32"
    words = (
        f"<p><b>A forward pass of this size would take about {in_words(needed)}; {scores}.</b> This panel stops at "
        f"{in_words(budget)}, so here are the numbers without the picture.</p>"
    )
    seen, rows = set(), []
    for array in dims.arrays:
        if array.step not in seen:
            seen.add(array.step)
            rows.append([array.step, array.shape, ", ".join(array.axes), in_words(array.nbytes())])
    return words + table(
        ["step", "shape", "axes", "bytes in float32"], rows, f"d_k = {dims.d_model} / {dims.n_heads} = {dims.d_k}"
    )
