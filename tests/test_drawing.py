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
    """The pixels behind the first image of a drawing."""
    raw = re.search(r"data:image/png;base64,([^\"]+)", markup).group(1)
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(raw))))


def test_colours_are_those_of_the_map():
    values = np.array([[0.0, 0.5], [1.0, 0.25]])
    expected = matplotlib.colormaps["cividis"](values)[..., :3] * 255
    assert np.abs(drawing.colour(values, 0, 1, "cividis") - expected).max() <= 3


def test_values_outside_are_clipped_and_masked_ones_have_their_own_colour():
    low, high, masked, nan = drawing.colour(np.array([-9.0, 9.0, -np.inf, np.nan]), -1, 1, look.SCORES_MAP)
    ends = drawing.colour(np.array([-1.0, 1.0]), -1, 1, look.SCORES_MAP)
    assert (low == ends[0]).all() and (high == ends[1]).all()
    grey = [int(look.MASKED[i : i + 2], 16) for i in (1, 3, 5)]
    assert masked.tolist() == nan.tolist() == grey
    every = drawing.colour(np.linspace(-1, 1, 500), -1, 1, look.SCORES_MAP)
    assert not (every == grey).all(axis=-1).any()


def test_equal_ends_do_not_divide_by_zero():
    assert drawing.colour(np.zeros((2, 3)), 0, 0, "RdBu_r").shape == (2, 3, 3)


def test_a_sheet_holds_the_pixels_unchanged():
    pixels = np.arange(5 * 7 * 3, dtype=np.uint8).reshape(5, 7, 3)
    assert (decoded(drawing.sheet("s", pixels)) == pixels).all()


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
