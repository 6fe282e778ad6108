"""The benchmark's clock and its eye for flicker, on pictures whose faults are known."""

from __future__ import annotations

import importlib.util
import sys

import pytest

from . import stand_in
from .driver import CHECKOUT


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("press_to_pixels", CHECKOUT / "benchmarks" / "press_to_pixels.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def row_of(bench, lab_and_context, cell: str, presses: int = 6):
    lab, context = lab_and_context
    row = bench.Row("made up", "made_up_bench.ipynb", "tokens", cell)
    stand_in.notebook(lab.copy / "notebooks" / row.book, cell, stored=False)
    tab = bench.Tab(lab, context, row.book)
    tab.show(0)
    there, back = tab.keys(row)
    for press in range(presses):
        landed = tab.press(row, back if press % 2 else there, watch_frames=True)
        assert landed["moved"]
        row.times.append(landed["total"])
        for kind, number in landed["frames"].items():
            row.frames[kind] = row.frames.get(kind, 0) + number
    for press in range(2):
        tab.film(row, back if press % 2 else there)
    tab.nb.close()
    return row


def test_a_callback_that_sleeps_takes_that_much_longer(bench, lab_and_context):
    floor = row_of(bench, lab_and_context, bench.FLOOR)
    sleepy = row_of(bench, lab_and_context, bench.SLEEPY)
    # The quickest of each: on a busy machine single presses take any time.
    assert 75 < min(sleepy.times) - min(floor.times) < 160
    assert floor.flashes == floor.frames["blank"] == floor.frames["jumps"] == 0


def test_a_picture_that_goes_before_the_next_one_comes_is_seen_to_flicker(bench, lab_and_context):
    emptied = "    import time\n    view.value = ''\n    time.sleep(0.08)\n"
    row = row_of(bench, lab_and_context, bench.FLOOR.replace("    view.value =", f"{emptied}    view.value ="))
    assert row.frames["blank"] and row.frames["jumps"]
    assert row.flashes


def test_a_picture_for_other_sizes_does_not_stop_the_clock(bench, lab_and_context):
    # Touched at once, while it still is of the old sizes, and drawn for the new ones 100 ms later.
    touched = "    import time\n    picture.value = picture.value.replace('<rect', '<rect ', 1)\n    time.sleep(0.1)\n"
    row = row_of(bench, lab_and_context, stand_in.PANEL.replace("    of = f", f"{touched}    of = f"))
    assert min(row.times) > 100


def test_percentiles(bench):
    assert bench.percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.5
    assert bench.percentile([7.0], 0.95) == 7.0
