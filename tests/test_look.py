"""The colours are told apart by readers with colour-vision deficiency, and text can be read on white."""

from itertools import combinations

import numpy as np
import pytest
from colorspacious import cspace_convert

from mha_lib import look

# Machado et al. 2009, at full severity: no cone of one kind at all.
SIGHTS = {
    "typical": None,
    "protanopia": {"name": "sRGB1+CVD", "cvd_type": "protanomaly", "severity": 100},
    "deuteranopia": {"name": "sRGB1+CVD", "cvd_type": "deuteranomaly", "severity": 100},
    "tritanopia": {"name": "sRGB1+CVD", "cvd_type": "tritanomaly", "severity": 100},
}


def rgb(colour):
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255


def seen(colour, sight):
    """The colour in CAM02-UCS, where a distance of 1 is about what one can just tell apart."""
    simulated = rgb(colour) if SIGHTS[sight] is None else cspace_convert(rgb(colour), SIGHTS[sight], "sRGB1")
    return cspace_convert(np.clip(simulated, 0, 1), "sRGB1", "CAM02-UCS")


def contrast(one, other):
    """WCAG 2 contrast of two colours."""

    def luminance(colour):
        linear = np.where(rgb(colour) <= 0.03928, rgb(colour) / 12.92, ((rgb(colour) + 0.055) / 1.055) ** 2.4)
        return linear @ [0.2126, 0.7152, 0.0722]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("colours", [look.HEADS, tuple(look.ROLES.values())], ids=["heads", "roles"])
def test_colours_stay_apart(colours, sight):
    closest = min(
        combinations(colours, 2), key=lambda pair: np.linalg.norm(seen(pair[0], sight) - seen(pair[1], sight))
    )
    distance = np.linalg.norm(seen(closest[0], sight) - seen(closest[1], sight))
    assert distance > 14, f"{closest} are {distance:.1f} apart for {sight}"


def test_the_measure_can_fail():
    """Red and green of the same lightness: far apart for most readers, close for a deuteranope."""
    red, green = "#c04040", "#6a7a20"
    far, near = (np.linalg.norm(seen(red, s) - seen(green, s)) for s in ("typical", "deuteranopia"))
    assert far > 30 and near < 14


@pytest.mark.parametrize("colour", [look.INK, look.QUIET, *look.AXES.values()])
def test_text_has_enough_contrast(colour):
    assert contrast(colour, look.PAPER) >= 4.5


@pytest.mark.parametrize("colour", [*look.HEADS, look.LIT])
def test_lines_have_enough_contrast(colour):
    assert contrast(colour, look.PAPER) >= 3


def test_heads_start_again_after_the_last_colour():
    assert look.head_colour(0) == look.head_colour(len(look.HEADS)) == look.HEADS[0]
    assert len(set(look.HEADS)) == len(look.HEADS) == 8


@pytest.mark.parametrize("sight", SIGHTS)
def test_weights_map_rises_in_lightness(sight):
    """A brighter cell is a larger weight, for everybody."""
    import matplotlib

    steps = matplotlib.colormaps[look.WEIGHTS_MAP](np.linspace(0, 1, 12))[:, :3]
    if SIGHTS[sight]:
        steps = np.clip(cspace_convert(steps, SIGHTS[sight], "sRGB1"), 0, 1)
    lightness = cspace_convert(steps, "sRGB1", "CAM02-UCS")[:, 0]
    assert (np.diff(lightness) > 0).all()
