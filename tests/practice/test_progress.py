"""The reader's file survives kills, other notebooks, foreign files and newer versions; nothing in it gets lost."""

import json
import os
import random
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mha_lib.practice import progress
from mha_lib.practice.progress import Progress

START = datetime(2026, 12, 1, 9, 30, tzinfo=timezone.utc)


@pytest.fixture
def clock(monkeypatch):
    """The present is what the test says: ``clock.now``."""

    class Clock:
        now = START

    monkeypatch.setattr(progress, "_now", lambda: Clock.now)
    return Clock


@pytest.fixture
def mine(tmp_path):
    return Progress(tmp_path / "progress.json")


def held(path):
    return json.loads(path.read_text(encoding="utf-8"))


def full(path):
    """A file with something of everything in it."""
    made = Progress(path)
    made.answered("00-what-a-head-sees", "a part of the width", False)
    made.answered("00-what-a-head-sees", "all of it, √d_k “wide”", True)
    made.predicted("00-output-shape", "2, 10, 512", True)
    made.predicted("00-skipped", None, None)
    made.explained("00-output-shape", "W_O mixes the heads 🙂")
    made.tried("attend", False, "The rows do not sum to 1.")
    made.hinted("attend", 1)
    made.gave_up("attend")
    made.tried("attend", True, "Right.")
    assert made.problem is None and made.notice is None
    return made


def others(folder):
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


# ---------------------------------------------------------------------------------------------
# What is kept


def test_a_person_can_read_the_file(tmp_path):
    made = full(tmp_path / "progress.json")
    text = made.path.read_text(encoding="utf-8")
    assert text.splitlines()[1] == '  "format": "progress in the multi-head attention course",'
    assert "all of it, √d_k “wide”" in text and "🙂" in text
    state = held(made.path)
    assert state == made.state()
    question = state["questions"]["00-what-a-head-sees"]
    assert [answer["right"] for answer in question["answers"]] == [False, True] and question["times"] == 2
    assert datetime.fromisoformat(question["answers"][0]["at"]).utcoffset() == timedelta(0)
    assert state["predictions"]["00-skipped"]["answers"][0]["answer"] is None
    assert state["predictions"]["00-output-shape"]["words"][0]["text"] == "W_O mixes the heads 🙂"
    exercise = state["exercises"]["attend"]
    assert [attempt["passed"] for attempt in exercise["attempts"]] == [False, True]
    assert exercise["passed_at"] and exercise["gave_up"] and [hint["number"] for hint in exercise["hints"]] == [1]


def test_reading_writes_nothing(tmp_path):
    mine = Progress(tmp_path / "deep" / "progress.json")
    assert mine.state()["questions"] == {} and mine.times("q") == 0 and mine.due(["q"]) == ["q"]
    assert mine.due_at("q") is None and mine.kept() == [] and mine.reset() is None and mine.export()
    assert mine.problem is None and not (tmp_path / "deep").exists()


def test_a_passed_exercise_stays_passed_and_a_hint_counts_once(mine, clock):
    mine.tried("attend", True, "Right.")
    mine.hinted("attend", 2)
    clock.now += timedelta(days=1)
    mine.tried("attend", False, "No longer.")
    mine.tried("attend", True, "Right again.")
    mine.hinted("attend", 2)
    entry = mine.state()["exercises"]["attend"]
    assert entry["passed_at"] == START.isoformat() and entry["times"] == 3 and len(entry["hints"]) == 1


def test_empty_words_are_not_kept(mine):
    mine.explained("00-output-shape", "  ")
    assert not mine.path.exists()


def test_old_answers_go_and_their_number_stays(mine, clock):
    for i in range(progress.MOST + 5):
        clock.now += timedelta(minutes=1)
        mine.answered("q", f"answer {i}", True)
    assert mine.times("q") == progress.MOST + 5
    answers = mine.state()["questions"]["q"]["answers"]
    assert len(answers) == progress.MOST and answers[-1]["answer"] == f"answer {progress.MOST + 4}"


def test_keys_of_somebody_else_stay(tmp_path):
    made = full(tmp_path / "progress.json")
    state = held(made.path)
    state["colour"] = "blue"
    state["questions"]["00-what-a-head-sees"]["starred"] = {"since": [1, 2]}
    state["questions"]["00-what-a-head-sees"]["answers"][0]["seconds"] = 12.5
    made.path.write_text(json.dumps(state), encoding="utf-8")
    made.answered("00-what-a-head-sees", "again", True)
    after = held(made.path)
    assert after["colour"] == "blue" and made.kept() == []
    assert after["questions"]["00-what-a-head-sees"]["starred"] == {"since": [1, 2]}
    assert after["questions"]["00-what-a-head-sees"]["answers"][0]["seconds"] == 12.5


@pytest.mark.parametrize("text", ["half a character \ud83d", 'quotes " and \\ud83d', "\u2028\x00\n"])
def test_any_text_comes_back_as_it_was(mine, text):
    mine.explained("p", text)
    assert mine.problem is None
    assert Progress(mine.path).state()["predictions"]["p"]["words"][0]["text"] == text
    assert json.loads(mine.export()) == mine.state()


def test_a_file_that_an_editor_has_touched_is_still_read(tmp_path):
    made = full(tmp_path / "progress.json")
    state = made.state()
    text = made.path.read_text(encoding="utf-8").replace("+00:00", "Z").replace("\n", "\r\n")
    made.path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert made.times("00-what-a-head-sees") == 2 and made.notice is None
    made.answered("00-what-a-head-sees", "again", True)
    assert made.kept() == [] and len(made.state()["questions"]) == len(state["questions"])


def test_the_readers_own_file_is_where_the_variable_says(tmp_path, monkeypatch):
    assert progress.mine().path == tmp_path / "progress.json" and progress.mine() is progress.mine()
    monkeypatch.setenv("MHA_PROGRESS", str(tmp_path))
    assert progress.mine().path == tmp_path / "progress.json"
    monkeypatch.setenv("MHA_PROGRESS", "")
    assert progress.mine().path.parts[-2:] == ("mha-course", "progress.json")


# ---------------------------------------------------------------------------------------------
# When a question comes again


def test_the_interval_grows_after_right_answers_and_is_short_after_a_wrong_one(mine, clock):
    intervals = []
    for _ in range(5):
        mine.answered("q", "right", True)
        intervals.append(mine.due_at("q") - clock.now)
        clock.now = mine.due_at("q")
    assert intervals == sorted(set(intervals)) and intervals[0] < timedelta(hours=1) < timedelta(days=30) < intervals[4]
    mine.answered("q", "wrong", False)
    assert mine.due_at("q") - clock.now < timedelta(hours=1)


def test_due_first_then_never_asked_then_not_yet_due(mine, clock):
    def ask(name, day, times):
        for i in range(times):
            clock.now = START + timedelta(days=day, minutes=20 * i)
            mine.answered(name, "right", True)

    ask("overdue", 1, 1)
    ask("long overdue", 0, 1)
    ask("later", 2, 3)
    ask("soon", 2, 2)
    names = ["later", "new b", "overdue", "soon", "new a", "long overdue", "new b"]
    in_order = ["long overdue", "overdue", "new b", "new a", "soon", "later"]
    assert mine.due(names, START + timedelta(days=3)) == in_order
    assert mine.due(names, START - timedelta(days=3))[:2] == ["new b", "new a"]


@pytest.mark.parametrize(
    "card",
    [
        {"due": "2026-12-01T09:30:00+00:00", "last_review": None},
        {"due": "9999-12-31T23:00:00+00:00", "last_review": None, "card_id": 1, "state": 7, "step": 0},
        {"due": "2026-12-01T09:30:00Z", "last_review": "2026-12-01T09:30:00Z", "card_id": 1, "state": 2, "step": None,
         "stability": float("nan"), "difficulty": 1e300},
    ],
)  # fmt: skip
def test_a_card_of_no_use_is_worked_out_anew_from_the_answers(mine, clock, card):
    mine.answered("q", "right", True)
    right_way = Progress(mine.path.with_name("other.json"))
    right_way.answered("q", "right", True)
    state = held(mine.path)
    state["questions"]["q"]["card"] = card
    mine.path.write_text(json.dumps(state), encoding="utf-8")
    clock.now += timedelta(minutes=10)
    for each in (mine, right_way):
        each.answered("q", "right", True)
    assert mine.due_at("q") == right_way.due_at("q") and mine.notice is None


def test_a_clock_that_goes_backwards_does_no_harm(mine, clock):
    for days in (0, 10, -400, 3, -10_000):
        clock.now = START + timedelta(days=days)
        mine.answered("q", "right", True)
    assert mine.problem is None and mine.times("q") == 5 and mine.due(["q"]) == ["q"]


def test_without_fsrs_answers_are_kept_all_the_same(mine, clock, monkeypatch):
    monkeypatch.setitem(sys.modules, "fsrs", None)
    mine.answered("q", "right", True)
    assert mine.times("q") == 1 and mine.due(["new", "q"], START) == ["q", "new"]
    monkeypatch.undo()
    monkeypatch.setattr(progress, "_now", lambda: START + timedelta(minutes=10))
    mine.answered("q", "right", True)
    assert mine.due_at("q") - START > timedelta(days=1)


# ---------------------------------------------------------------------------------------------
# Kills and other notebooks


def started(code, *arguments, **options):
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)


ANSWERS = """
import sys
from mha_lib.practice.progress import Progress
mine, who, count = Progress(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for i in range(count):
    mine.answered(f"{who}-{i}", "an answer " * 10, True)
    assert mine.problem is None, mine.problem
    print(f"{who}-{i}", flush=True)
"""


@pytest.mark.slow
def test_kills_at_any_moment_lose_nothing_that_was_acknowledged(tmp_path):
    path, acknowledged = tmp_path / "progress.json", set()
    moments = random.Random(0)
    for together in ("abc", "def", "ghi", "jkl", "mno"):
        notebooks = [started(ANSWERS, path, who, 100_000) for who in together]
        for notebook in notebooks:
            said = [notebook.stdout.readline() for _ in range(moments.randint(1, 6))]
            # It is in the middle of something: writing, or waiting for the one that is.
            notebook.kill()
            said += notebook.communicate()[0].splitlines(keepends=True)
            acknowledged.update(line.strip() for line in said if line.endswith("\n"))
            assert acknowledged <= set(held(path)["questions"])
    assert len(acknowledged) >= 15
    after = Progress(path)
    after.answered("after", "an answer", True)
    assert after.problem is None and after.notice is None and after.kept() == []
    assert acknowledged | {"after"} <= set(held(path)["questions"])
    assert set(others(tmp_path)) <= {"progress.json", "progress.json.new"}


#: Ends the process, as a kill would, in one place of a recording.
ENDS = {
    "half of the new file is written": """
class Half:
    def __init__(self, *arguments): self.file = open(*arguments)
    def __enter__(self): return self
    def __exit__(self, *problem): pass
    def write(self, raw):
        self.file.write(raw[:len(raw) // 2]); self.file.flush(); os._exit(9)
progress.open = Half
""",
    "it is written and not yet on the disk": "os.fsync = lambda *_: os._exit(9)",
    "it has not taken the place of the old one": "os.replace = lambda *_: os._exit(9)",
    "it just has": "replace = os.replace; os.replace = lambda *both: (replace(*both), os._exit(9))",
    "a torn file is about to be moved aside": "os.rename = lambda *_: os._exit(9)",
}


@pytest.mark.parametrize("end", ENDS, ids=list(ENDS))
def test_a_kill_in_the_middle_of_a_recording(tmp_path, end):
    made = full(tmp_path / "progress.json")
    torn = "torn" in end
    if torn:
        made.path.write_text(made.path.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    before = made.path.read_bytes()
    code = f"import os, sys\nfrom mha_lib.practice import progress\n{ENDS[end]}\n"
    code += "progress.Progress(sys.argv[1]).answered('new', 'an answer', True)"
    notebook = started(code, made.path)
    notebook.communicate()
    assert notebook.returncode == 9
    if end == "it just has":
        assert made.times("new") == 1
    else:
        assert made.path.read_bytes() == before
    made.answered("next", "an answer", True)
    assert made.problem is None and made.times("next") == 1
    assert [path.read_bytes() for path in made.kept()] == ([before] if torn else [])
    assert torn or made.times("00-what-a-head-sees") == 2


def test_two_notebooks_that_write_at_the_same_time_lose_nothing(tmp_path):
    path = tmp_path / "progress.json"
    notebooks = [started(ANSWERS, path, who, 50) for who in "ab"]
    for notebook in notebooks:
        notebook.communicate()
        assert notebook.returncode == 0
    assert set(held(path)["questions"]) == {f"{who}-{i}" for who in "ab" for i in range(50)}
    assert others(tmp_path) == ["progress.json"]


def test_two_notebooks_see_what_the_other_wrote(mine):
    other = Progress(mine.path)
    mine.answered("q", "right", True)
    other.answered("q", "wrong", False)
    assert mine.times("q") == other.times("q") == 2


def test_a_lock_that_stays_taken_is_said_and_nothing_is_lost(mine, monkeypatch):
    import filelock

    monkeypatch.setattr(progress, "LOCK_SECONDS", 0.05)
    with filelock.FileLock(f"{mine.path}.lock"):
        mine.answered("q", "right", True)
        assert "progress.json.lock" in mine.problem and not mine.path.exists()
        assert mine.times("q") == 1, "practice goes on in memory"
    mine.answered("r", "right", True)
    assert mine.problem is None and set(held(mine.path)["questions"]) == {"q", "r"}


def test_a_system_without_locks_on_files_is_served_too(tmp_path):
    code = "import sys\nsys.modules['fcntl'] = None\nif sys.platform == 'win32': sys.modules['msvcrt'] = None\n"
    notebook = started(code + ANSWERS, tmp_path / "progress.json", "a", 3)
    notebook.communicate()
    assert notebook.returncode == 0 and len(held(tmp_path / "progress.json")["questions"]) == 3


def test_without_filelock_the_problem_is_said(mine, monkeypatch):
    monkeypatch.setitem(sys.modules, "filelock", None)
    mine.answered("q", "right", True)
    assert "filelock" in mine.problem and not mine.path.exists() and mine.times("q") == 1


# ---------------------------------------------------------------------------------------------
# Files that are not ours, or no longer


def test_every_prefix_of_a_file_is_kept_aside(tmp_path, monkeypatch):
    whole = full(tmp_path / "whole.json").path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda _: None)
    for i, length in enumerate([*range(0, len(whole.rstrip()), 23), len(whole.rstrip()) - 1]):
        mine = Progress(tmp_path / f"{i}.json")
        mine.path.write_bytes(whole[:length])
        assert mine.times("q") == 0 and mine.path.read_bytes() == whole[:length], "reading moved it"
        assert "It is still there" in mine.notice
        mine.tried("attend", True, "Right.")
        (kept,) = mine.kept()
        assert kept.read_bytes() == whole[:length] and str(kept) in mine.notice and mine.problem is None
        assert list(held(mine.path)["exercises"]) == ["attend"]


def changed(**sections):
    return json.dumps({"format": progress.FORMAT, "version": 1, **sections})


FOREIGN = {
    "other JSON": '{"cells": [], "nbformat": 4}',
    "a list": "[1, 2]",
    "a number": "12",
    "deep": "[" * 100_000,
    "other text": "Dear diary,",
    "other format": json.dumps({"format": "progress in another course", "version": 1}),
    "no version": json.dumps({"format": progress.FORMAT}),
    "version in words": json.dumps({"format": progress.FORMAT, "version": "1"}),
    "version 0": json.dumps({"format": progress.FORMAT, "version": 0}),
    "sections": changed(questions=[]),
    "an entry": changed(questions={"q": 3}),
    "answers": changed(questions={"q": {"answers": {"at": "2026-12-01T09:30:00+00:00"}}}),
    "an answer": changed(questions={"q": {"answers": ["yes"]}}),
    "a time": changed(questions={"q": {"answers": [{"at": "today", "answer": "a", "right": True}]}}),
    "a time without a zone": changed(questions={"q": {"answers": [
        {"at": "2026-12-01T09:30:00", "answer": "a", "right": True}]}}),
    "the end of time": changed(questions={"q": {"answers": [
        {"at": "9999-12-31T23:59:59-12:00", "answer": "a", "right": True}]}}),
    "right": changed(questions={"q": {"answers": [{"at": "2026-12-01T09:30:00+00:00", "answer": "a", "right": 1}]}}),
    "a card": changed(questions={"q": {"card": {"due": "soon"}}}),
    "times": changed(questions={"q": {"times": "3"}}),
    "passed": changed(exercises={"attend": {"passed_at": True}}),
    "a hint": changed(exercises={"attend": {"hints": [{"at": "2026-12-01T09:30:00+00:00", "number": True}]}}),
    "no UTF-8": b"\xff\xfe{\x00}\x00",
}  # fmt: skip


@pytest.mark.parametrize("found", FOREIGN.values(), ids=list(FOREIGN))
def test_a_foreign_file_is_kept_aside_and_said(mine, found):
    raw = found if isinstance(found, bytes) else found.encode()
    mine.path.write_bytes(raw)
    mine.gave_up("attend")
    (kept,) = mine.kept()
    assert kept.read_bytes() == raw and str(kept) in mine.notice and mine.problem is None
    assert list(held(mine.path)["exercises"]) == ["attend"]
    with pytest.raises(ValueError, match="Nothing was changed"):
        mine.bring_in(raw)


def test_a_folder_in_its_place_is_kept_aside(mine):
    mine.path.mkdir()
    (mine.path / "thesis.txt").write_text("all of it")
    assert mine.times("q") == 0
    mine.answered("q", "right", True)
    (kept,) = mine.kept()
    assert (kept / "thesis.txt").read_text() == "all of it" and mine.times("q") == 1


def test_kept_files_never_take_each_others_place(mine, clock):
    for i in range(3):
        mine.path.write_text(f"foreign {i}")
        mine.answered("q", "right", True)
    assert [path.name for path in mine.kept()] == [
        "progress.json.kept-20261201-093000",
        "progress.json.kept-20261201-093000-2",
        "progress.json.kept-20261201-093000-3",
    ]
    assert [path.read_text() for path in mine.kept() if "foreign" in path.read_text()] == [
        "foreign 0",
        "foreign 1",
        "foreign 2",
    ]


def test_a_file_of_a_newer_version_is_left_alone(mine):
    newer = json.dumps({"format": progress.FORMAT, "version": 2, "questions": ["in a new way"]})
    mine.path.write_text(newer)
    assert mine.times("q") == 0 and "newer version" in mine.problem
    mine.problem = None
    mine.answered("q", "right", True)
    assert "newer version" in mine.problem and mine.path.read_text() == newer and mine.kept() == []
    with pytest.raises(ValueError, match="update the course"):
        mine.bring_in(newer)


# ---------------------------------------------------------------------------------------------
# Where nothing can be written


def test_where_nothing_can_be_written_practice_goes_on(tmp_path):
    (tmp_path / "taken").write_text("a file where the folder should be")
    mine = Progress(tmp_path / "taken" / "progress.json")
    mine.answered("q", ["one", "two"], True)
    mine.predicted("p", None, None)
    mine.explained("p", "because")
    mine.tried("attend", False, "Not yet.")
    mine.hinted("attend", 1)
    mine.gave_up("attend")
    assert str(mine.path) in mine.problem and "MHA_PROGRESS" in mine.problem
    assert mine.times("q") == 1 and mine.problem, "reading it back does not mend it"
    other = Progress(tmp_path / "other.json")
    other.bring_in(mine.export())
    assert other.state() == mine.state()
    assert mine.reset() is None and mine.problem and mine.times("q") == 1
    (tmp_path / "taken").unlink()
    mine.answered("r", "right", True)
    assert mine.problem is None and set(held(mine.path)["questions"]) == {"q", "r"}
    assert held(mine.path)["exercises"] == other.state()["exercises"]


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    made = full(tmp_path / "progress.json")
    before = made.path.read_bytes()

    def full_disk(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full_disk)
    made.answered("q", "right", True)
    assert "No space left on device" in made.problem and made.path.read_bytes() == before


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "synced").mkdir()
    (tmp_path / "progress.json").symlink_to(tmp_path / "synced" / "mine.json")
    Progress(tmp_path / "progress.json").answered("q", "right", True)
    assert (tmp_path / "progress.json").is_symlink() and Progress(tmp_path / "synced" / "mine.json").times("q") == 1


# ---------------------------------------------------------------------------------------------
# Reset, export, bring in


def test_reset_keeps_the_file_aside(tmp_path):
    made = full(tmp_path / "progress.json")
    before, exported = made.path.read_bytes(), made.export()
    kept = made.reset()
    assert kept.read_bytes() == before and made.kept() == [kept] and made.problem is None
    assert made.state()["questions"] == {} and not made.path.exists()
    made.bring_in(exported)
    assert held(made.path) == json.loads(exported)


def test_reset_keeps_a_newer_file_and_what_waited(mine):
    newer = json.dumps({"format": progress.FORMAT, "version": 2})
    mine.path.write_text(newer)
    mine.answered("q", "right", True)
    first = mine.reset()
    assert first.read_text() == newer and mine.problem is None and mine.times("q") == 0
    (waited,) = set(mine.kept()) - {first}
    mine.bring_in(waited.read_text(encoding="utf-8"))
    assert mine.times("q") == 1


moments = st.integers(0, 5).map(lambda minute: (START + timedelta(minutes=minute)).isoformat())
answers = st.lists(
    st.fixed_dictionaries({"at": moments, "answer": st.sampled_from("ab"), "right": st.booleans()}), max_size=4
)
cards = st.fixed_dictionaries({"due": moments, "last_review": st.none() | moments, "step": st.integers(0, 2)})


def entries(**optional):
    """As the library writes them: whatever was dropped, the number of all answers is there."""
    some = st.builds(
        lambda found, dropped, rest: rest | ({"answers": found, "times": len(found) + dropped} if found else {}),
        answers, st.integers(0, 3), st.fixed_dictionaries({}, optional=optional),
    )  # fmt: skip
    return st.dictionaries(st.sampled_from("xy"), some)


files = st.fixed_dictionaries({
    "format": st.just(progress.FORMAT),
    "version": st.just(1),
    "questions": entries(card=cards),
    "predictions": entries(),
    "exercises": st.dictionaries(
        st.sampled_from("xy"),
        st.fixed_dictionaries({}, optional={"passed_at": moments, "gave_up": moments, "mark": st.integers()}),
    ),
})  # fmt: skip


@given(files, files)
@settings(max_examples=150, deadline=None)
def test_bringing_in_twice_is_bringing_in_once_and_loses_nothing(ours, theirs):
    # So few that lists overflow.
    most, progress.MOST = progress.MOST, 4
    try:
        ours, theirs = (progress._parsed(json.dumps(each).encode()) for each in (ours, theirs))
        once = json.loads(json.dumps(ours))
        progress._merge(once, theirs)
        again = json.loads(json.dumps(once))
        for other in (theirs, ours, once):
            progress._merge(again, json.loads(json.dumps(other)))
    finally:
        progress.MOST = most
    assert again == once and progress._fault(once) is None
    for side in (ours, theirs):
        for name, entry in side["questions"].items():
            merged = once["questions"][name]
            assert merged.get("times", 0) >= max(entry.get("times", 0), len(entry.get("answers", ())))
            lost = [answer for answer in entry.get("answers", ()) if answer not in merged["answers"]]
            assert not lost or (
                len(merged["answers"]) == 4 and max(a["at"] for a in lost) <= merged["answers"][0]["at"]
            )
            if "card" in entry:
                last = [c["last_review"] or c["due"] for c in (entry["card"], merged["card"])]
                assert last[0] <= last[1]
        for name, entry in side["exercises"].items():
            assert all(once["exercises"][name][key] <= entry[key] for key in ("passed_at", "gave_up") if key in entry)


def test_an_export_of_another_machine_is_added(tmp_path, clock):
    here, there = full(tmp_path / "here.json"), Progress(tmp_path / "there.json")
    clock.now += timedelta(days=1)
    there.answered("00-what-a-head-sees", "all of it", True)
    there.answered("01-scores", "one a pair", True)
    there.tried("attend", True, "Right.")
    here.bring_in(there.export())
    assert here.times("00-what-a-head-sees") == 3 and here.times("01-scores") == 1
    assert here.due_at("00-what-a-head-sees") == there.due_at("00-what-a-head-sees")
    before = here.export()
    here.bring_in(there.export().encode())
    assert here.export() == before
