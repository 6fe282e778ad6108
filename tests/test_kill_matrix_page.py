"""The published kill matrix is the computed one."""

import kill_matrix
import pytest


@pytest.fixture(scope="module")
def page():
    return kill_matrix.page()


def test_the_page_says_what_is_so(page):
    stored = kill_matrix.PAGE.read_text(encoding="utf-8")
    assert stored == page, "run: python tools/kill_matrix.py"


def test_our_checks_leave_no_row_empty(page):
    ours = page.split("## Ours")[1].split("## The checkers")[0]
    rows = [line for line in ours.splitlines() if line.startswith("| ") and "**caught**" not in line][2:]
    assert len(rows) == len(kill_matrix.CATALOGUE) and all("✗" in row for row in rows)


def test_every_checker_calls_every_mistake_it_lists_by_its_name(page):
    table = page.split("## The checkers")[1].split("## Who")[0]
    cells = [cell.strip() for line in table.splitlines() if line.startswith("| ") for cell in line.split("|")[2:-1]]
    assert cells.count("named") == sum(len(exercise.wrongs) for exercise in kill_matrix.EXERCISES)
    assert "MISSED" not in cells and "✗" not in cells
