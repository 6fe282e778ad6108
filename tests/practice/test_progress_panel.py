"""The panel shows what was done and what is due, and no button of it can lose anything or break."""

import base64
import html.parser
import json
import re
from datetime import datetime, timedelta, timezone

import pytest

from mha_lib.practice import content, progress, progress_panel
from mha_lib.practice.content import ExerciseText, Option, PredictionText, Question
from mha_lib.practice.progress import Progress

OPTIONS = (Option("yes", True, "Yes.", None), Option("no", False, "No.", "M1"))


@pytest.fixture(autouse=True)
def a_small_course(monkeypatch):
    def asked(name, notebook):
        return Question(name, notebook, "So?", OPTIONS, False, "Because.")

    asked = [asked("00-a", "00_start_here"), asked("00-b", "00_start_here"), asked("03-a", "03_scaling")]
    predicted = PredictionText("00-p", "00_start_here", "shape", "What?", "Why?", "Because.")
    exercise = ExerciseText("attend", "03_scaling", "Write it.", ("1", "2", "3"), "")
    monkeypatch.setattr(content, "questions", lambda: {question.name: question for question in asked})
    monkeypatch.setattr(content, "predictions", lambda: {predicted.name: predicted})
    monkeypatch.setattr(content, "exercise_texts", lambda: {exercise.name: exercise})


@pytest.fixture
def mine():
    return progress.mine()


@pytest.fixture
def panel():
    return progress_panel.progress_panel()


class Rows(html.parser.HTMLParser):
    """The cells of a table, row by row; the tags that are left open."""

    def __init__(self, page):
        super().__init__()
        self.rows, self.open, self.scopes = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag == "th":
            self.scopes.append(dict(attributes)["scope"])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if {"th", "td"} & set(self.open):
            self.rows[-1].append(text)


def shown(panel):
    panel._refresh.click()
    return panel._shown.value


def uploaded(panel, raw, name="mine.json"):
    panel._file.value = ({
        "name": name, "type": "application/json", "size": len(raw), "content": memoryview(raw),
        "last_modified": datetime.now(timezone.utc),
    },)  # fmt: skip
    return panel._said.value


def test_a_fresh_panel_writes_nothing_and_says_where_the_file_will_be(panel, mine):
    assert str(mine.path) in shown(panel) and not mine.path.exists() and "mha-error" not in shown(panel)
    found = Rows(shown(panel))
    assert found.rows[1:] == [
        ["00 start here", "0 of 1", "0 of 2", "–", "–", "–"],
        ["03 scaling", "–", "0 of 1", "–", "–", "0 of 1"],
    ]
    assert found.open == [] and found.scopes == ["col"] * 6 + ["row"] * 2


def test_the_table_counts_what_was_done(panel, mine):
    mine.answered("00-a", "no", False)
    mine.answered("00-a", "yes", True)
    mine.answered("00-b", "no", False)
    mine.predicted("00-p", None, None)
    mine.tried("attend", False, "Not yet.")
    mine.answered("99-gone", "yes", True)
    assert Rows(shown(panel)).rows[1:] == [
        ["00 start here", "1 of 1", "2 of 2", "1 of 2", "2", "–"],
        ["03 scaling", "–", "0 of 1", "–", "–", "0 of 1"],
    ]
    mine.tried("attend", True, "Right.")
    assert Rows(shown(panel)).rows[2][-1] == "1 of 1"


def test_what_comes_again_in_a_month_is_not_due_today(panel, mine, monkeypatch):
    for day in (0, 1, 4, 20):
        at = progress._now() if day == 20 else progress._now() - timedelta(days=40 - day)
        monkeypatch.setattr(progress, "_now", lambda at=at: at)
        mine.answered("00-a", "yes", True)
        monkeypatch.undo()
        monkeypatch.setenv("MHA_PROGRESS", str(mine.path))
    assert mine.due_at("00-a") > datetime.now(timezone.utc) + timedelta(days=7)
    assert "<td>0</td>" in progress_panel._row("00_start_here", mine.state(), {
        "questions": ["00-a"], "predictions": [], "exercises": [],
    })  # fmt: skip


def test_export_is_a_link_that_holds_the_file(panel, mine):
    mine.explained("00-p", 'my <b>words</b> & "quotes" 🙂')
    panel._export.click()
    said = panel._said.value
    link = re.search(r'<a download="(mha-progress-[\d-]+\.json)" href="data:application/json;base64,([^"]+)">', said)
    assert json.loads(base64.b64decode(link[2])) == mine.state() and str(mine.path) in said
    assert 'role="alert"' in said


def test_an_export_can_be_brought_back_twice(panel, mine, tmp_path):
    mine.answered("00-b", "no", False)
    other = Progress(tmp_path / "other.json")
    other.answered("00-a", "yes", True)
    for _ in range(2):
        said = uploaded(panel, other.export().encode(), "<mine>.json")
        assert "&lt;mine&gt;.json was added" in said and panel._file.value == ()
        assert mine.times("00-a") == mine.times("00-b") == 1
    assert "2 of 2" in panel._shown.value, "the table is up to date"


@pytest.mark.parametrize("raw", [b"", b"{}", b"\xff\xfe", b'{"format": "progress in the multi-head attention course"'])
def test_a_foreign_file_is_refused_in_words(panel, mine, raw):
    mine.answered("00-a", "yes", True)
    before = mine.path.read_bytes()
    assert "Nothing was changed." in uploaded(panel, raw) and 'role="alert"' in panel._said.value
    assert mine.path.read_bytes() == before and mine.kept() == []


def test_reset_asks_first_and_can_be_left(panel, mine):
    mine.answered("00-a", "yes", True)
    panel._reset.click()
    assert "Really? Your file is kept aside." in panel._said.value and mine.path.exists()
    assert list(panel._really.children) == [panel._yes, panel._no]
    panel._no.click()
    assert panel._really.children == () and mine.times("00-a") == 1 and mine.kept() == []


def test_reset_keeps_the_file_and_says_where(panel, mine):
    mine.answered("00-a", "yes", True)
    before = mine.path.read_bytes()
    assert "1 of 2" in shown(panel)
    panel._reset.click()
    panel._yes.click()
    (kept,) = mine.kept()
    assert kept.read_bytes() == before and str(kept) in panel._said.value and panel._really.children == ()
    assert mine.times("00-a") == 0 and "0 of 2" in panel._shown.value and str(kept) in shown(panel)
    panel._reset.click()
    panel._yes.click()
    assert "nothing to reset" in panel._said.value and mine.kept() == [kept]


def test_problems_and_notices_are_on_the_page(mine, monkeypatch, tmp_path):
    mine.path.write_text("foreign")
    mine.answered("00-a", "yes", True)
    page = progress_panel.progress_panel()._shown.value
    assert "<b>Note.</b>" in page and "is kept in" in page and "Files that were kept aside: 1" in page
    (tmp_path / "a file").touch()
    monkeypatch.setenv("MHA_PROGRESS", str(tmp_path / "a file" / "progress.json"))
    progress.mine().answered("00-a", "yes", True)
    panel = progress_panel.progress_panel()
    assert "<b>Not kept.</b>" in panel._shown.value and "1 of 2" in panel._shown.value, "what waits is shown"
    panel._reset.click()
    panel._yes.click()
    assert "could not be reset" in panel._said.value and "1 of 2" in shown(panel)


@pytest.mark.parametrize("button", ["_refresh", "_export", "_yes"])
def test_nothing_is_raised_out_of_a_button(panel, monkeypatch, button):
    def broken():
        raise RuntimeError("<the> disk is on fire")

    for method in ("state", "export", "reset"):
        monkeypatch.setattr(panel._progress, method, broken)
    getattr(panel, button).click()
    assert "&lt;the&gt; disk is on fire" in panel._said.value
    assert "disk is on fire" in progress_panel.progress_panel()._said.value


def test_what_was_reset_can_be_brought_back(panel, mine):
    mine.answered("00-a", "yes", True)
    kept = mine.reset()
    assert "was added" in uploaded(panel, kept.read_bytes(), kept.name) and mine.times("00-a") == 1


def test_in_the_browsers_python_the_panel_says_that_files_do_not_last(panel, monkeypatch):
    assert "Export before you leave" not in shown(panel)
    monkeypatch.setattr(progress_panel.sys, "platform", "emscripten")
    assert "Export before you leave" in shown(panel)


def test_the_still_is_one_sentence_without_the_readers_own(panel, mine):
    mine.answered("00-a", "yes", True)
    bundle, _ = panel._repr_mimebundle_()
    assert bundle["text/html"] == f"<p>{bundle['text/plain']}</p>" and str(mine.path) not in bundle["text/html"]
    assert "run the cell" in bundle["text/plain"]


def test_the_panel_is_on_paper(panel):
    assert {"mha-predict", "mha-progress"} <= set(panel._dom_classes) and "mha-css" in panel.children[0]._dom_classes
