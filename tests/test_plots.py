"""Head grids show the weights they are given, and tokens as they are."""

import base64
import io
import sys
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from mha_lib import look, plots
from mha_lib.drawing import colour, whole_palette

SVG = "{http://www.w3.org/2000/svg}"
WEIGHTS = np.random.default_rng(0).dirichlet(np.ones(7), size=(2, 3, 5))  # (B, H, T_q, T_k)


def words(picture):
    return ["".join(text.itertext()) for text in ElementTree.fromstring(picture.data).iter(f"{SVG}text")]


def tiles(picture):
    tree = ElementTree.fromstring(picture.data)
    raw = next(tree.iter(f"{SVG}image")).get("href").split(",")[1]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(raw))))
    windows = [
        tuple(map(int, s.get("viewBox").split())) for s in tree.iter(f"{SVG}svg") if s.get("preserveAspectRatio")
    ]
    return [pixels[top : top + rows, left : left + columns] for left, top, columns, rows in windows]


def test_one_tile_a_head_queries_down_keys_across():
    shown = tiles(plots.head_grid(WEIGHTS, sample=1))
    assert len(shown) == 3
    for head, tile in enumerate(shown):
        assert (tile == colour(WEIGHTS[1, head], 0, 1, look.WEIGHTS_MAP)).all()


def test_a_single_bright_cell_is_where_it_should_be():
    """Only query 3 looks at key 0: the bright cell is in row 3, column 0."""
    weights = np.zeros((1, 5, 5))
    weights[0, 3, 0] = 1
    picture = plots.head_grid(weights)
    brightness = whole_palette()[tiles(picture)[0]].sum(axis=-1)
    assert np.unravel_index(brightness.argmax(), brightness.shape) == (3, 0)
    assert "query 3 looks at key 0" in picture.alt


def test_alt_text_states_shape_and_strongest():
    weights = WEIGHTS[0].copy()
    weights[2, 4, 6] = 0.99
    alt = plots.head_grid(weights).alt
    assert "3 heads" in alt and "queries down (5) and keys across (7)" in alt
    assert "0.99, is in head 2: query 4 looks at key 6" in alt and "all be 0.14" in alt


@pytest.mark.parametrize(
    "tokens", [["<s>", "$$", "a_b", "<b>"], ["美", "🙂", "naïve", ""], ["a<b", "&amp;", "$x$", "\\n"]]
)
def test_tokens_are_literal(tokens):
    said = words(plots.head_grid(np.full((2, 4, 4), 0.25), tokens))
    for token in tokens:
        assert said.count(token or "∅") >= 2


def test_long_tokens_are_shortened():
    assert "x" * 13 + "…" in words(plots.head_grid(np.full((1, 2, 2), 0.5), ["x" * 10_000, "b"]))


@pytest.mark.parametrize("n_heads", [1, 2, 3, 4, 5, 8, 12, 13, 16, 32])
@pytest.mark.parametrize(("t_q", "t_k"), [(1, 1), (64, 64), (2, 40), (40, 2)])
def test_every_tile_lies_on_the_page(n_heads, t_q, t_k):
    picture = plots.head_grid(np.full((n_heads, t_q, t_k), 1 / t_k))
    tree = ElementTree.fromstring(picture.data)
    places = [
        tuple(float(s.get(a)) for a in ("x", "y", "width", "height"))
        for s in tree.iter(f"{SVG}svg")
        if s.get("preserveAspectRatio")
    ]
    assert len(places) == n_heads
    assert all(x > 0 and y > 60 and x + w < picture.width and y + h < picture.height for x, y, w, h in places)
    for i, (x, y, w, h) in enumerate(places):
        assert not any(abs(x - a) < w and abs(y - b) < h for a, b, _, _ in places[:i]), "two tiles overlap"


@pytest.mark.parametrize(
    ("weights", "options", "message"),
    [
        (np.ones((5, 5)), {}, r"shape \(5, 5\); a head grid takes"),
        (np.ones((2, 0, 5)), {}, "nothing to draw"),
        (np.full((2, 3, 3), 1.5), {}, "between 0 and 1; these go from 1.5 to 1.5"),
        (np.full((2, 3, 3), -0.5), {}, "between 0 and 1"),
        (np.ones((33, 2, 2)), {}, "33 heads are too many"),
        (np.full((2, 3, 3), 1 / 3), {"tokens": ["a", "b"]}, "2 tokens do not fit 3 queries and 3 keys"),
        (WEIGHTS, {"sample": 5}, "sample 5 is outside this batch of 2"),
    ],
)
def test_what_cannot_be_drawn_is_said(weights, options, message):
    with pytest.raises(ValueError, match=message):
        plots.head_grid(weights, **options)


def test_nan_weights_are_drawn_as_missing():
    weights = np.full((2, 3, 3), np.nan)
    assert "Every weight is NaN" in plots.head_grid(weights).alt
    weights[0] = 1 / 3
    assert plots.head_grid(weights).numbers().count("NaN") == 1


def test_numbers_give_the_entropy():
    table = plots.head_grid(np.full((1, 2, 4), 0.25)).numbers()
    assert "1.386" in table and "0.250" in table


def test_matplotlib_figures_become_pictures_without_pyplot():
    before = sys.modules.get("matplotlib.pyplot")
    figure = plots.blank(4, 3)
    figure.add_subplot().plot([1, 2])
    picture = plots.picture(figure, "a rising line")
    assert (picture.width, picture.height, picture.alt) == (400, 300, "a rising line")
    assert np.asarray(Image.open(io.BytesIO(picture.data))).shape == (300, 400, 3)
    assert sys.modules.get("matplotlib.pyplot") is before
