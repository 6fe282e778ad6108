"""The shape flow is drawn to scale from real arrays, and says in words what it shows."""

import base64
import io
import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from mha_lib import look, masks, samples
from mha_lib.attention import MultiHead
from mha_lib.dims import Dims
from mha_lib.drawing import CLEAR, colour, whole_palette
from mha_lib.shape_flow import HEIGHT, WIDTH, _Layout, shape_flow

SVG = "{http://www.w3.org/2000/svg}"


def trace(*sizes, **options):
    dims = Dims(*sizes)
    return samples.layer(dims).trace(samples.inputs(dims), **options)


def tree(picture):
    return ElementTree.fromstring(picture.data)


def words(picture):
    return [" ".join("".join(text.itertext()).split()) for text in tree(picture).iter(f"{SVG}text")]


def test_alt_text_states_the_shapes_in_words():
    alt = shape_flow(trace(2, 10, 512, 8)).alt
    for part in (
        "batch 2",
        "tokens 10",
        "width 512",
        "heads 8",
        "d_k 64",
        "(2, 10, 512)",
        "(2, 8, 10, 64)",
        "1,600 numbers",
    ):
        assert part in alt
    assert "no mask" in alt and "0.125" in alt


def test_every_shape_stands_below_its_step():
    said = words(shape_flow(trace(2, 5, 12, 3)))
    assert said.count("(2, 5, 12)") == 3 and "each (2, 5, 12)" in said
    assert said.count("(2, 3, 5, 4)") == 2 and "(2, 3, 5, 5)" in said


def test_names_of_all_nine_steps():
    said = words(shape_flow(trace(2, 5, 12, 3)))
    for number, step in enumerate("project split score scale mask normalise mix merge output".split(), 1):
        assert f"{number} {step}" in said


def test_the_article_has_six_and_a_quarter_kib():
    assert any("1,600 numbers, 6.25 KiB in float32" in line for line in words(shape_flow(trace(2, 10, 512, 8))))


def test_blocks_are_to_scale():
    """A feature is as wide and a token as tall in a head as in the whole width."""
    layout = _Layout(trace(2, 10, 512, 8))
    left, right = layout.spans["input"]
    assert (right - left) / 512 == pytest.approx(layout.feature)
    left, right = layout.spans["mix"]
    assert (right - left) / 64 == pytest.approx(layout.feature)
    left, right = layout.spans["score"]
    assert (right - left) / 10 == pytest.approx(layout.unit) == pytest.approx(layout.tall(10) / 10)


@given(st.integers(1, 4), st.integers(1, 64), st.integers(1, 16), st.integers(1, 64))
@settings(max_examples=40, deadline=None)
def test_everything_fits_on_the_page(batch, tokens, n_heads, d_k):
    picture = shape_flow(trace(batch, tokens, n_heads * d_k, n_heads))
    layout = _Layout(trace(batch, tokens, n_heads * d_k, n_heads))
    spans = list(layout.spans.values())
    assert all(right <= left for (_, right), (left, _) in pairwise(spans)), "two columns overlap"
    assert spans[0][0] >= 0 and spans[-1][1] <= WIDTH
    assert layout.tall(tokens) < layout.pitch and layout.unit <= 22, "lanes need a gap between them"
    assert layout.lane_middle(0) - layout.pitch / 2 > 0
    assert layout.lane_middle(len(layout.lanes) - 1) + layout.pitch / 2 < HEIGHT
    assert tree(picture).get("viewBox") == f"0 0 {WIDTH} {HEIGHT}"


def test_more_heads_than_lanes_are_counted():
    picture = shape_flow(trace(1, 4, 64, 32))
    assert "⋯ 17 more heads ⋯" in words(picture)
    assert _Layout(trace(1, 4, 64, 32)).lanes == [*range(14), None, 31]
    assert _Layout(trace(1, 4, 64, 16)).lanes == list(range(16))


def squares(picture, n_heads=3):
    """The maps of the lanes in the order in which they are drawn, one stack of heads each, as places in the palette.

    Only for five tokens: the windows that are five pixels wide.
    """
    raw = base64.b64decode(next(tree(picture).iter(f"{SVG}image")).get("href").split(",")[1])
    pixels = np.asarray(Image.open(io.BytesIO(raw)))
    windows = [s.get("viewBox") for s in tree(picture).iter(f"{SVG}svg") if s.get("preserveAspectRatio")]
    parts = [tuple(map(int, window.split())) for window in windows]
    columns = [pixels[top : top + rows, left : left + wide] for left, top, wide, rows in parts if wide == 5]
    return [column.reshape(n_heads, -1, 5)[:, :5] for column in columns]


def test_the_pixels_are_the_weights_of_the_right_head():
    run = trace(2, 5, 12, 3)
    scores, scaled, masked, weights = squares(shape_flow(run, sample=1))
    assert (weights == colour(run["weights"][1], 0, 1, look.WEIGHTS_MAP)).all()
    assert (scores != scaled).any() and (scaled != masked).any()


def test_a_mask_is_seen():
    picture = shape_flow(trace(2, 5, 12, 3, mask=masks.causal(5)))
    assert "keep 60%" in words(picture) and "60% of the pairs" in picture.alt
    grey = [int(look.MASKED[i : i + 2], 16) for i in (1, 3, 5)]
    for head in squares(picture)[2]:
        assert ((whole_palette()[head] == grey).all(axis=-1) == ~masks.causal(5)).all()


def test_between_the_lanes_is_nothing():
    """A column is one image; the rows between two heads show the lanes behind them."""
    picture = shape_flow(trace(2, 5, 12, 3))
    raw = base64.b64decode(next(tree(picture).iter(f"{SVG}image")).get("href").split(",")[1])
    image = Image.open(io.BytesIO(raw))
    rows = _Layout(trace(2, 5, 12, 3)).rows
    lanes = np.asarray(image)[: 3 * rows].reshape(3, rows, -1)
    assert image.info["transparency"] == CLEAR and (lanes[:, 5:] == CLEAR).all()


def test_the_scale_is_said_as_it_is():
    assert "÷ √4" in words(shape_flow(trace(2, 5, 12, 3)))
    assert "× 0.3" in words(shape_flow(trace(2, 5, 12, 3, scale=0.3)))


def test_cross_attention_and_grouped_heads():
    rng = np.random.default_rng(0)
    layer = MultiHead.random(24, 6, rng, n_kv_heads=2, d_context=9, d_v=5)
    run = layer.trace(rng.standard_normal((2, 5, 24)), rng.standard_normal((2, 7, 9)))
    picture = shape_flow(run)
    said = words(picture)
    assert "(2, 6, 5, 7)" in said and "(2, 6, 5, 5)" in said and "queries 5, keys 7" in picture.alt
    assert "tokens 5 and 7" in said


@pytest.mark.parametrize("poison", [np.nan, np.inf])
def test_numbers_that_are_not_finite_do_not_break_it(poison):
    dims = Dims(2, 5, 12, 3)
    x = samples.inputs(dims).copy()
    x[0, 2] = poison
    assert shape_flow(samples.layer(dims).trace(x)).data


def test_nothing_to_draw_is_said():
    layer = MultiHead.random(12, 3, np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"nothing to draw.*\(0, 3, 5, 5\)"):
        shape_flow(layer.trace(np.zeros((0, 5, 12))))
    with pytest.raises(ValueError, match="sample 2 is outside this batch of 2"):
        shape_flow(trace(2, 5, 12, 3), sample=2)


def test_two_drawings_on_a_page_do_not_share_ids():
    ids = [re.findall(r'id="([^"]+)"', shape_flow(trace(2, 5, 12, 3)).data) for _ in range(2)]
    assert not set(ids[0]) & set(ids[1])


def test_every_axis_can_be_lit():
    drawn, rules = shape_flow(trace(2, 5, 12, 3)).data, look.stylesheet()
    assert "<style" not in drawn, "a style in a drawing makes the page restyle everything at every move"
    for axis in look.AXES:
        assert re.search(rf'class="(e|s|c) a-{axis}"|class="a-{axis}"', drawn), axis
        assert f'.mha-flow[data-lit~="{axis}"] .e.a-{axis}' in rules
    assert 'class="mha-drawing mha-flow"' in drawn


def test_numbers_behind_the_picture():
    table = shape_flow(trace(2, 5, 12, 3)).numbers()
    assert "(2, 3, 5, 5)" in table and "batch, heads, queries, keys" in table and table.count("<tr>") == 15
