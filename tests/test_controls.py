"""Panels follow their sliders, explain what cannot be, and never show a traceback."""

import gc
import re
import sys
import weakref

import ipywidgets as widgets
import numpy as np
import pytest

from mha_lib import controls, plots, samples
from mha_lib.controls import PRESETS, SLIDERS, Panel, Sizes, explore
from mha_lib.dims import Dims
from mha_lib.plots import head_grid


@pytest.fixture(autouse=True)
def fresh_state(monkeypatch):
    monkeypatch.setattr(controls, "shared", Sizes())


def flow(dims):
    return samples.layer(dims).trace(samples.inputs(dims))


def of(panel):
    """The sizes that the panel's picture or notice was made for."""
    return re.search(r'data-of="([^"]*)"', panel.picture.value).group(1)


def knob(panel, name):
    return panel._knobs[name]


def test_one_line_makes_a_live_panel():
    panel = explore(flow)
    assert isinstance(panel, widgets.VBox) and 'role="img"' in panel.picture.value and of(panel) == "2,10,512,8"


@pytest.mark.parametrize(("name", "value"), [("batch", 3), ("tokens", 7), ("d_model", 96), ("n_heads", 4)])
@pytest.mark.parametrize("part", ["slider", "field"])
def test_slider_and_field_move_the_picture_and_each_other(name, value, part):
    panel = explore(flow)
    getattr(knob(panel, name), part).value = value
    assert knob(panel, name).slider.value == knob(panel, name).field.value == value
    assert of(panel) == ",".join(str(value if n == name else v) for n, v in zip(SLIDERS, (2, 10, 512, 8), strict=True))


@pytest.mark.parametrize("name", SLIDERS)
@pytest.mark.parametrize("end", ["min", "max"])
def test_both_ends_of_every_slider(name, end):
    panel = explore(flow)
    slider = knob(panel, name).slider
    slider.value = getattr(slider, end)
    assert "mha-error" not in panel.picture.value
    assert of(panel).split(",")[list(SLIDERS).index(name)] == str(slider.value)


def test_the_moving_axis_is_lit():
    panel = explore(flow)
    knob(panel, "tokens").slider.value = 11
    assert 'data-lit="tokens"' in panel.picture.value
    knob(panel, "n_heads").slider.value = 4
    assert 'data-lit="heads d_k"' in panel.picture.value
    panel._presets.value = "small enough to print: 2 × 5, width 12, 3 heads"
    assert 'data-lit=""' in panel.picture.value, "a preset moves everything, so nothing stands out"


def test_all_panels_share_one_state():
    one, two = explore(flow), explore(lambda tokens: f"{tokens} tokens")
    knob(one, "tokens").slider.value = 23
    assert knob(two, "tokens").field.value == 23 and "23 tokens" in two.picture.value


def test_a_panel_can_stand_alone():
    alone, other = explore(flow, at=Dims(2, 5, 12, 3)), explore(flow)
    knob(alone, "tokens").slider.value = 6
    assert of(alone) == "2,6,12,3" and of(other) == "2,10,512,8"


def test_no_picture_shows_half_of_a_change():
    """Width and heads are both on the sliders before anything is drawn."""
    seen = []

    def spy(dims):
        seen.append(
            (
                dims.d_model,
                dims.n_heads,
                [(k.slider.value, k.field.value) for k in panel._knobs.values()] if panel else None,
            )
        )
        return "drawn"

    panel = None
    panel = explore(spy)
    panel._presets.value = "small enough to print: 2 × 5, width 12, 3 heads"
    assert seen[-1] == (12, 3, [(2, 2), (5, 5), (8, 12), (3, 3)]) and len(seen) == 2


class TestWhatCannotBe:
    def test_width_and_heads_that_do_not_divide(self):
        panel = explore(flow)
        knob(panel, "n_heads").slider.value = 6
        said = panel.picture.value
        assert (
            "mha-notice" in said
            and "d_model 512 does not divide evenly across 6 heads; 1, 2, 4, 8, 16, 32, 64, … do" in said
        )
        assert "6 heads of 85 take 510 of 512; 2 features are left over." in said
        assert of(panel) == "2,10,512,6" and knob(panel, "n_heads").slider.value == 6, "nothing snaps"

    def test_the_way_out_is_a_button(self):
        panel = explore(flow)
        knob(panel, "n_heads").slider.value = 6
        assert [b.description for b in panel._ways_out.children] == ["1 head", "2 heads", "4 heads", "8 heads"]
        panel._ways_out.children[2].click()
        assert of(panel) == "2,10,512,4" and not panel._ways_out.children and "mha-notice" not in panel.picture.value

    def test_the_page_does_not_jump(self):
        panel = explore(flow)
        knob(panel, "n_heads").slider.value = 6
        assert "aspect-ratio:1560/760" in panel.picture.value

    @pytest.mark.parametrize(
        ("value", "words"), [(0, "tokens must be at least 1, not 0"), (-3, "not -3"), (10**9, "beyond")]
    )
    def test_impossible_numbers_are_kept_and_explained(self, value, words):
        panel = explore(flow)
        knob(panel, "tokens").field.value = value
        assert words in panel.picture.value and knob(panel, "tokens").field.value == value
        knob(panel, "tokens").field.value = 7
        assert of(panel) == "2,7,512,8" and "mha-notice" not in panel.picture.value

    def test_heads_beyond_the_width(self):
        panel = explore(flow)
        panel._sizes.set(panel, d_model=8, n_heads=16)
        assert "16 heads of 0 take 0 of 8; 8 features are left over." in panel.picture.value

    def test_every_preset_shows_something(self):
        panel = explore(flow)
        for name, sizes in PRESETS.items():
            if np.prod(sizes[:2]) * sizes[2] > 1e6 and "GPT" in name:
                continue  # a real forward pass of a second; the guard is tested below
            panel._presets.value = name
            assert of(panel) == ",".join(map(str, sizes)) and "mha-error" not in panel.picture.value
            assert panel._presets.value == name

    def test_own_sizes_are_called_that(self):
        panel = explore(flow)
        assert panel._presets.value.startswith("the article")
        knob(panel, "tokens").slider.value = 11
        assert panel._presets.value == "your own"


class TestMemoryGuard:
    def test_says_how_much_and_shows_the_numbers(self):
        called = []
        panel = explore(lambda dims: called.append(dims) or "drawn")
        panel._presets.value = "Llama-3-8B, all 8,192 tokens"
        said = panel.picture.value
        assert (
            "would take about 67 GiB" in said
            and "2,147,483,648 numbers, 8 GiB in float32" in said
            and "256 MiB" in said
        )
        assert "(1, 32, 8192, 8192)" in said and "d_k = 4096 / 32 = 128" in said
        assert all(dims.d_model == 512 for dims in called), "it must not even start"

    def test_the_largest_sliders_are_within_the_budget(self):
        largest = Dims(*(slider[2] for slider in SLIDERS.values()))
        assert largest.trace_bytes(8) < controls.BUDGET

    def test_needs_and_budget_can_be_told(self):
        panel = explore(lambda tokens: "drawn", needs=lambda dims: dims.tokens * 1000, budget=9_999)
        assert "10,000" not in panel.picture.value and "9.77 KiB" in panel.picture.value
        knob(panel, "tokens").slider.value = 9
        assert "drawn" in panel.picture.value


class TestFaultsInTheFunction:
    def test_an_error_is_told_in_the_cell_in_plain_words(self):
        def broken(tokens):
            if tokens == 11:
                raise ValueError("eleven <b>is</b> too many")
            return "fine"

        panel = explore(broken)
        knob(panel, "tokens").slider.value = 11
        said = panel.picture.value
        assert 'class="mha-error" role="alert"' in said and "broken</b> stopped with a ValueError" in said
        assert (
            "eleven &lt;b&gt;is&lt;/b&gt; too many" in said and "raise ValueError" in said and "Traceback" not in said
        )
        knob(panel, "tokens").slider.value = 12
        assert "fine" in panel.picture.value

    def test_printing_is_shown_below(self):
        def talks(tokens):
            print("<hello>", tokens)
            return f"{tokens} tokens"

        panel = explore(talks)
        assert "10 tokens" in panel.picture.value and "&lt;hello&gt; 10" in panel.picture.value

    def test_nothing_returned(self):
        assert "returned nothing to show" in explore(lambda tokens: None).picture.value

    def test_no_function(self):
        with pytest.raises(TypeError, match="takes a function, not str"):
            explore("flow")

    def test_a_parameter_without_a_slider(self):
        with pytest.raises(TypeError, match=r"no slider for 'heads'.*heads=\(1, 10\)"):
            explore(lambda tokens, heads: None)

    def test_an_extra_the_function_does_not_take(self):
        with pytest.raises(TypeError, match="takes no 'causal'; its parameters are tokens"):
            explore(lambda tokens: None, causal=True)

    @pytest.mark.parametrize("spec", [(1,), (1, 2, 3, 4), [], None, 7])
    def test_an_extra_that_makes_no_control(self, spec):
        with pytest.raises(TypeError, match="makes no control"):
            explore(lambda tokens, x: "x", x=spec)


class TestWhatAFunctionMayReturn:
    def test_a_picture(self):
        panel = explore(lambda dims: head_grid(flow(dims)["weights"]))
        assert "Heat maps of 8 heads" in panel.picture.value

    def test_an_array(self):
        said = explore(lambda tokens: np.ones((2, tokens, 3))).picture.value
        assert "shape <b>(2, 10, 3)</b>, float64, from 1 to 1" in said

    def test_a_matplotlib_figure_with_alt_text(self):
        def figure(tokens):
            drawn = plots.blank(3, 2)
            drawn.add_subplot().plot(range(tokens))
            return drawn

        assert 'alt="Figure drawn by figure at batch 2, tokens 10' in explore(figure).picture.value

    def test_pyplot_figures_do_not_pile_up(self):
        plt = pytest.importorskip("matplotlib.pyplot")
        plt.switch_backend("agg")

        def figure(tokens):
            _, axes = plt.subplots()
            axes.plot(range(tokens))
            return axes

        panel = explore(figure)
        for tokens in range(1, 26):
            knob(panel, "tokens").slider.value = tokens
        assert not plt.get_fignums() and "<img" in panel.picture.value

    def test_html(self):
        class Table:
            def _repr_html_(self):
                return "<table>made</table>"

        assert "<table>made</table>" in explore(lambda tokens: Table()).picture.value

    def test_text_is_escaped(self):
        assert "&lt;s&gt;" in explore(lambda tokens: "<s>").picture.value


class TestControls:
    def test_only_the_sliders_that_matter(self):
        assert list(explore(lambda tokens: "x")._knobs) == ["tokens"]
        assert list(explore(lambda n_heads: "x")._knobs) == ["d_model", "n_heads"]
        assert list(explore(flow)._knobs) == list(SLIDERS)
        assert not explore(lambda temperature: "x", temperature=(0.1, 2.0))._knobs

    @pytest.mark.parametrize(
        ("spec", "kind", "start", "other"),
        [
            ((0, 9), widgets.IntSlider, 0, 5),
            ((0.0, 2.0), widgets.FloatSlider, 0.0, 1.5),
            ((0, 100, 10), widgets.IntSlider, 0, 50),
            (["keys", "queries"], widgets.Dropdown, "keys", "queries"),
            ({"over keys": -1, "over queries": -2}, widgets.Dropdown, -1, -2),
            (True, widgets.Checkbox, True, False),
            ("hello", widgets.Text, "hello", "bye"),
        ],
    )
    def test_extras(self, spec, kind, start, other):
        panel = explore(lambda extra: f"it is {extra!r}", extra=spec)
        control = panel._extras["extra"]
        assert isinstance(
            getattr(control, "slider", control), kind
        ) and f"it is {start!r}" in panel.picture.value.replace("&#x27;", "'")
        getattr(control, "field", control).value = other
        assert f"it is {other!r}" in panel.picture.value.replace("&#x27;", "'")

    def test_an_extra_starts_at_the_default(self):
        def with_default(extra=3):
            return f"it is {extra}"

        assert "it is 3" in explore(with_default, extra=(0, 9)).picture.value

    def test_a_slider_stretches_for_a_number_beyond_its_end_and_shrinks_again(self):
        panel = explore(lambda tokens: "x", budget=10**12)
        knob(panel, "tokens").field.value = 300
        assert (knob(panel, "tokens").slider.value, knob(panel, "tokens").slider.max) == (300, 300)
        knob(panel, "tokens").field.value = 20
        assert (knob(panel, "tokens").slider.value, knob(panel, "tokens").slider.max) == (20, 32)

    @pytest.mark.parametrize(("typed", "stands"), [(12, 8), (13, 16), (100, 104), (3, 8), (1001, 1000)])
    def test_a_number_between_two_steps_is_kept_and_the_slider_stands_nearby(self, typed, stands):
        """A browser would move a handle between two steps to one of them, and send that back as a move."""
        panel = explore(lambda d_model: f"width {d_model}", at=Dims(n_heads=1))
        knob(panel, "d_model").field.value = typed
        slider = knob(panel, "d_model").slider
        assert (knob(panel, "d_model").field.value, slider.value) == (typed, stands)
        assert f"width {typed}" in panel.picture.value and (slider.max - slider.min) % slider.step == 0

    def test_numbers_on_request(self):
        panel = explore(flow)
        assert panel._numbers.value == ""
        panel._numbers_button.value = True
        assert "batch, heads, queries, keys" in panel._numbers.value and "(2, 8, 10, 10)" in panel._numbers.value
        knob(panel, "tokens").slider.value = 7
        assert "(2, 8, 7, 7)" in panel._numbers.value
        assert explore(lambda tokens: "no numbers")._numbers_button.disabled

    def test_every_field_has_a_name(self):
        panel = explore(lambda dims, x: "x", x=(0, 5))
        fields = [k.field for k in panel._knobs.values()] + [panel._extras["x"].field]
        assert [f.description for f in fields] == [
            "batch, exact",
            "tokens, exact",
            "width, exact",
            "heads, exact",
            "x, exact",
        ]


def test_the_same_cell_carries_a_still_picture():
    data, _ = explore(flow)._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert '<img alt="Shape flow of one layer' in data["text/html"] and data["text/plain"].startswith("Shape flow")


def test_no_figures_are_left_open():
    panel = explore(flow)
    for tokens in range(1, 26):
        knob(panel, "tokens").slider.value = tokens
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or not pyplot.get_fignums()


def test_a_closed_panel_is_no_longer_drawn():
    drawn = []
    one, two = explore(lambda tokens: drawn.append(tokens) or "x"), explore(flow)
    one.close()
    drawn.clear()
    knob(two, "tokens").slider.value = 12
    assert not drawn


def test_a_cell_that_runs_again_replaces_its_panel(monkeypatch):
    monkeypatch.setattr(controls, "_cell", lambda: ("cell-1", "first run"))
    old, both = explore(flow), explore(flow)
    monkeypatch.setattr(controls, "_cell", lambda: ("cell-1", "second run"))
    new = explore(flow)
    drawn = list(controls.shared._panels)
    assert old not in drawn and both not in drawn and new in drawn


def test_a_panel_nobody_holds_is_let_go():
    sizes = Sizes()
    panel = Panel(lambda tokens: "x", sizes, ("tokens",), {}, lambda dims: 0, 10)
    watch = weakref.ref(panel)
    panel.close()
    for child in panel.children:
        child.close()
    del panel, child
    gc.collect()
    assert watch() is None or watch() not in sizes._panels


def test_later_panels_follow_when_the_kernel_is_idle():
    """In a running loop the moved panel is drawn at once, another one later and only for the newest value."""
    import asyncio

    drawn = []

    async def slide():
        one, two = explore(flow), explore(lambda tokens: drawn.append(tokens) or "x")
        drawn.clear()
        for tokens in (11, 12, 13):
            knob(one, "tokens").slider.value = tokens
            assert of(one) == f"2,{tokens},512,8" and not drawn
        await asyncio.sleep(0.3)
        return two

    two = asyncio.run(slide())
    assert drawn == [13] and knob(two, "tokens").field.value == 13
