"""Values become the colours they should, and words stay what they are."""

import base64
import io
import re
from xml.etree import ElementTree

import matplotlib
import numpy as np
from PIL import Image

from mha_lib import drawing, look


def decoded(markup):
    """The pixels behind the first image of a drawing, as places in the palette."""
    raw = re.search(r"data:image/png;base64,([^\"]+)", markup).group(1)
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(raw))))


def test_colours_are_those_of_the_map():
    values = np.array([[0.0, 0.5], [1.0, 0.25]])
    for name in (look.WEIGHTS_MAP, look.VALUES_MAP, look.SCORES_MAP):
        expected = matplotlib.colormaps[name](values)[..., :3] * 255
        assert np.abs(drawing.whole_palette()[drawing.colour(values, 0, 1, name)] - expected).max() <= 4


def test_values_outside_are_clipped_and_masked_ones_have_their_own_colour():
    low, high, masked, nan = drawing.colour(np.array([-9.0, 9.0, -np.inf, np.nan]), -1, 1, look.SCORES_MAP)
    assert (low, high) == tuple(drawing.colour(np.array([-1.0, 1.0]), -1, 1, look.SCORES_MAP))
    grey = [int(look.MASKED[i : i + 2], 16) for i in (1, 3, 5)]
    assert drawing.whole_palette()[[masked, nan]].tolist() == [grey, grey]
    every = drawing.whole_palette()[drawing.colour(np.linspace(-1, 1, 500), -1, 1, look.SCORES_MAP)]
    assert not (every == grey).all(axis=-1).any()


def test_a_larger_weight_is_never_drawn_as_a_smaller_one():
    places = drawing.colour(np.linspace(0, 1, 2000), 0, 1, look.WEIGHTS_MAP).astype(int)
    assert (np.diff(places) >= 0).all() and len(set(places)) == 83


def test_equal_ends_do_not_divide_by_zero():
    assert drawing.colour(np.zeros((2, 3)), 0, 0, "RdBu_r").shape == (2, 3)


def test_a_sheet_holds_the_pixels_unchanged():
    pixels = np.arange(5 * 7, dtype=np.uint8).reshape(5, 7) * 7 % drawing.CLEAR
    assert (decoded(drawing.sheet("s", pixels)) == pixels).all()
    image = Image.open(io.BytesIO(drawing.png(pixels))).convert("RGB")
    assert (np.asarray(image) == drawing.whole_palette()[pixels]).all()


def test_a_png_of_colours_keeps_them():
    colours = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
    assert (np.asarray(Image.open(io.BytesIO(drawing.png(colours)))) == colours).all()


def test_blocks_beside_each_other_are_found_again():
    blocks = {"a": np.full((3, 2, 5), 1, np.uint8), "b": np.full((3, 4, 2), 2, np.uint8)}
    whole, places = drawing.beside(blocks)
    assert whole.shape == (3, 4, 7)
    for name, (left, columns, rows) in places.items():
        assert (whole[:, :rows, left : left + columns] == blocks[name]).all()


def test_literal_text():
    assert drawing.literal("<b>$x_1$") == "&lt;b&gt;$x_1$"
    assert drawing.literal("") == "∅"


def test_a_whole_drawing_is_well_formed_and_opaque():
    tree = ElementTree.fromstring(drawing.svg(40, 30, drawing.text(1, 2, drawing.literal("a<b & c")), ""))
    assert tree.get("viewBox") == "0 0 40 30"
    paper = tree.find("{http://www.w3.org/2000/svg}rect")
    assert (paper.get("width"), paper.get("height"), paper.get("fill")) == ("40", "30", look.PAPER)


def test_names_are_unique():
    assert len({drawing.unique("a") for _ in range(50)}) == 50
