"""Lines in order: moved by buttons, judged by running, every line too many found."""

import html
import itertools

import pytest

from mha_lib.practice import content, exercises, parsons, progress

PUZZLES = content.puzzles()
PUZZLE = PUZZLES["00-layer-in-order"]
each_puzzle = pytest.mark.parametrize("puzzle", PUZZLES.values(), ids=PUZZLES)


def with_extra(puzzle, extra):
    """The right lines with an extra in place of the last one of its goal."""
    lines = list(puzzle.lines)
    lines[max(place for place, line in enumerate(lines) if line.goal == extra.goal)] = extra
    return lines


def exchanged(lines, one, other):
    lines = list(lines)
    lines[one], lines[other] = lines[other], lines[one]
    return lines


@each_puzzle
def test_the_right_order_is_right(puzzle):
    assert parsons.judged(puzzle, puzzle.lines).passed
    assert puzzle.exercise in {exercise.name for exercise in exercises.EXERCISES}


@each_puzzle
def test_every_line_too_many_is_found_and_explained(puzzle):
    assert len(puzzle.extras) >= 2
    for extra in puzzle.extras:
        found = parsons.judged(puzzle, with_extra(puzzle, extra))
        assert found.state == "wrong" and found.mistake and extra.why in found.notes


@each_puzzle
def test_leaving_any_line_out_is_found(puzzle):
    for place in range(len(puzzle.lines)):
        lines = [*puzzle.lines[:place], *puzzle.lines[place + 1 :], puzzle.extras[0]]
        assert not parsons.judged(puzzle, lines).passed


def test_another_order_that_computes_the_same_is_right():
    """Scaling q before the scores would do as well; here, the split of an untouched line may come anywhere it can."""
    puzzle = content.Puzzle(
        "00-test", "00_start_here", "attend", "def attend(q, k, v):",
        tuple(content.Line("any", code) for code in (
            "k = k.swapaxes(-1, -2)",
            "q = q / np.sqrt(q.shape[-1])",
            "scores = q @ k",
            "grown = np.exp(scores - scores.max(axis=-1, keepdims=True))",
            "return grown @ v / grown.sum(axis=-1, keepdims=True)",
        )), (),
    )  # fmt: skip
    assert parsons.judged(puzzle, puzzle.lines).passed
    assert parsons.judged(puzzle, exchanged(puzzle.lines, 0, 1)).passed


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (exchanged(PUZZLE.lines, 6, 7), "Line 7 uses `mixed`, which is made only in line 8."),
        (exchanged(PUZZLE.lines, 2, 3), "Line 3 uses `scores`, which is made only in line 4."),
        ([*PUZZLE.lines[:6], PUZZLE.extras[0], *PUZZLE.lines[7:]], "Line 8 uses `mixed`, and no line makes it."),
        ([*PUZZLE.lines[:8], PUZZLE.extras[0]], "Nothing is returned. Is the line with `return` left over?"),
        ([*PUZZLE.lines[:7], PUZZLE.lines[7], PUZZLE.lines[8], PUZZLE.extras[0]], "Line 9 returns; the lines below it"),
    ],
)
def test_a_wrong_order_is_told_in_words(lines, said):
    assert parsons.judged(PUZZLE, lines).said.startswith(said)


def test_a_line_that_raises_is_counted_as_the_page_counts():
    """Split and score exchanged: the shapes no longer fit further down, in the line of that number."""
    found = parsons.judged(PUZZLE, exchanged(PUZZLE.lines, 1, 2))
    assert "In line 7, `mixed = weights @ v`." in found.said


def test_no_two_neighbours_can_be_exchanged_by_accident():
    """Were an order right by accident, the labels beside the places would teach something wrong."""
    passing = [
        (one, other)
        for one, other in itertools.pairwise(range(len(PUZZLE.lines)))
        if parsons.judged(PUZZLE, exchanged(PUZZLE.lines, one, other)).passed
    ]
    assert passing == []


# ---- on the page


def shown(puzzle):
    return html.unescape(f"{puzzle._news.value} {puzzle._said.value} {puzzle._shown.value}")


def bring(puzzle, line, place):
    """Move a line to its place as a reader does, one press at a time."""
    at = puzzle.lines.index(line)
    while at != place:
        button = puzzle._rows[at].up if place < at else puzzle._rows[at].down
        assert not button.disabled
        button.click()
        at = puzzle.lines.index(line)


def test_it_is_solved_with_buttons():
    puzzle = parsons.order("00-layer-in-order")
    puzzle._check.click()
    assert puzzle.verdict.state == "wrong" and "Not yet." in shown(puzzle)
    for place, line in enumerate(PUZZLE.lines):
        bring(puzzle, line, place)
    puzzle._check.click()
    assert puzzle.verdict.passed and "Right: all 6 checks pass." in shown(puzzle)
    entry = progress.mine().state()["exercises"]["00-layer-in-order"]
    assert [attempt["passed"] for attempt in entry["attempts"]] == [False, True] and entry["passed_at"]


def test_no_line_is_lost_whatever_is_pressed():
    puzzle = parsons.order("00-layer-in-order")
    everything = sorted(line.code for line in puzzle.lines)
    for row in [*puzzle._rows, *puzzle._rows[::-1]]:
        for button in (row.up, row.down):
            if not button.disabled:
                button.click()
    assert sorted(line.code for line in puzzle.lines) == everything
    puzzle._move(0, -1)
    puzzle._move(len(puzzle.lines) - 1, 1)
    assert sorted(line.code for line in puzzle.lines) == everything


def test_buttons_are_named_by_their_lines_and_end_at_the_ends():
    puzzle = parsons.order("00-layer-in-order")
    assert puzzle._rows[0].up.disabled and puzzle._rows[-1].down.disabled
    # A description would be what a screen reader says, and the same in every row.
    assert not any(button.description for row in puzzle._rows for button in (row.up, row.down))
    assert not any(row.up.disabled for row in puzzle._rows[1:])
    for row, line in zip(puzzle._rows, puzzle.lines, strict=True):
        assert row.up.tooltip == f"Move up: {line.code}" and row.down.tooltip == f"Move down: {line.code}"
    puzzle._rows[3].up.click()
    assert puzzle._rows[2].up.tooltip == f"Move up: {puzzle.lines[2].code}"


def test_a_move_is_announced():
    puzzle = parsons.order("00-layer-in-order")
    puzzle._rows[2].up.click()
    assert 'role="alert"' in puzzle._news.value and "Now in place 2, split." in shown(puzzle)


def test_starting_over_and_giving_up():
    puzzle = parsons.order("00-layer-in-order")
    start = list(puzzle.lines)
    puzzle._rows[2].up.click()
    assert puzzle.lines != start
    puzzle._again.click()
    assert puzzle.lines == start
    assert puzzle._show.description == "I give up: show the order" and PUZZLE.lines[0].code not in shown(puzzle)
    puzzle._show.click()
    assert PUZZLE.code(PUZZLE.lines) in shown(puzzle) and PUZZLE.extras[0].why in shown(puzzle)
    assert progress.mine().state()["exercises"]["00-layer-in-order"]["gave_up"]
    puzzle._rows[2].up.click()
    assert PUZZLE.code(PUZZLE.lines) in shown(puzzle)  # who copies it line by line still needs it
    puzzle._again.click()
    assert PUZZLE.code(PUZZLE.lines) not in shown(puzzle)


def test_after_a_check_the_order_may_be_shown():
    puzzle = parsons.order("00-layer-in-order")
    puzzle._check.click()
    assert puzzle._show.description == "Show the order"


@each_puzzle
def test_the_shuffle_is_one_for_all_and_wrong(puzzle):
    first, second = parsons.shuffled(puzzle), parsons.shuffled(puzzle)
    assert first == second and sorted(first, key=repr) == sorted([*puzzle.lines, *puzzle.extras], key=repr)
    assert not parsons.judged(puzzle, first[: len(puzzle.lines)]).passed


def test_without_a_kernel_the_order_is_folded():
    data, _ = parsons.order("00-layer-in-order")._repr_mimebundle_()
    page = html.unescape(data["text/html"])
    before, after = page.split("<details>")
    assert all(line.code in before for line in (*PUZZLE.lines, *PUZZLE.extras))
    assert PUZZLE.code(PUZZLE.lines) in after


def test_content_that_cannot_be_read_is_a_sentence(monkeypatch):
    def broken():
        raise ValueError("00_start_here.toml, puzzle number 1: 'name' is missing")

    monkeypatch.setattr(content, "puzzles", broken)
    assert "'name' is missing" in html.unescape(parsons.order("00-layer-in-order").said)


@pytest.mark.parametrize("name", ["00-layer-in-oder", "", None, 3])
def test_an_unknown_puzzle_is_a_sentence(name):
    assert "00-layer-in-order" in parsons.order(name).said
