"""Every notebook of the course: opened, looked at, run, and every control of it used.

The tests of one notebook share one tab and follow the order a reader does things in.
"""

from __future__ import annotations

import os

import pytest

from . import checks, panels
from .conftest import NOTEBOOKS, SCREENSHOTS
from .driver import OpenNotebook


def report(findings: list[str]) -> None:
    assert not findings, "\n".join([f"{len(findings)} to mend:", *(f"- {finding}" for finding in findings)])


class Visit:
    """One notebook, opened and run once, for all tests that ask about it."""

    def __init__(self, lab, context, name: str):
        self.nb = nb = OpenNotebook(lab, context, name)
        self.album = checks.Album(nb, SCREENSHOTS / name.removesuffix(".ipynb"))
        checks.unroll(nb)
        self.before_run = checks.check_before_run(nb) + checks.check_alt_texts(nb)
        self.pictures_before = checks.pictures_by_cell(nb)
        self.album.whole("1-before-run")
        self.in_time = nb.run_all()
        checks.unroll(nb)
        self.unsaved_pictures = checks.check_saved_pictures(nb, self.pictures_before)
        self.album.whole("2-after-run")
        self.album.screen("3-projector", 1920, 1080)


@pytest.fixture(scope="module", params=sorted(path.name for path in NOTEBOOKS.glob("*.ipynb")))
def visit(request, lab_and_context):
    visit = Visit(*lab_and_context, request.param)
    yield visit
    visit.nb.close()


def test_shows_its_pictures_before_it_is_run(visit):
    report(visit.before_run + visit.unsaved_pictures)


def test_runs(visit):
    assert visit.in_time, "Run All did not come to its end"
    report(checks.check_ran(visit.nb))


def test_says_in_words_what_its_pictures_show(visit):
    report(checks.check_alt_texts(visit.nb))


def test_names_its_controls(visit):
    report(checks.check_names(visit.nb))


def test_panels_follow_the_keyboard_and_leave_nothing_behind(visit):
    findings = []
    findings += panels.check_leaks(visit.nb, lambda: findings.extend(panels.check_panels(visit.nb, visit.album)))
    report(findings)


def test_axe_finds_nothing_of_ours(visit):
    findings = checks.check_axe(visit.nb)
    visit.nb.set_theme("JupyterLab Dark")
    visit.album.whole("4-dark")
    visit.nb.set_theme("JupyterLab Light")
    report(findings)


def test_is_quiet_and_offline(visit):
    """Last, so that everything the tests before did was listened to."""
    report(checks.check_heard(visit.nb))


def test_there_are_notebooks():
    if os.environ.get("MHA_REQUIRE_BROWSER") == "1":
        assert list(NOTEBOOKS.glob("*.ipynb"))
