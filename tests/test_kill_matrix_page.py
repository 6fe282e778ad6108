"""The published kill matrix is the computed one."""

import kill_matrix


def test_the_page_says_what_is_so():
    stored = kill_matrix.PAGE.read_text(encoding="utf-8")
    assert stored == kill_matrix.page(), "run: python tools/kill_matrix.py"


def test_our_checks_leave_no_row_empty():
    ours = kill_matrix.page().split("## Ours")[1].split("## Who")[0]
    rows = [line for line in ours.splitlines() if line.startswith("| ") and "**caught**" not in line][2:]
    assert len(rows) == len(kill_matrix.CATALOGUE) and all("✗" in row for row in rows)
