"""What the reader did, in one local file that a person can read; nothing leaves the machine.

The file is JSON. Every change is read → change → write under a lock, into a new file that takes the
place of the old one at once: a kill in the middle leaves the old file, and two notebooks never lose
each other's entries. What cannot be read is moved aside and never overwritten. Where nothing can be
written, practice goes on: the changes wait in memory, and `Progress.problem` says so.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

FORMAT = "progress in the multi-head attention course"
VERSION = 1

#: Most records a question, a prediction or an exercise keeps; older ones go, their number stays.
MOST = 50

#: Seconds to wait for another notebook that is writing; it needs some milliseconds.
LOCK_SECONDS = 3.0

_FILE = "progress.json"
_LONGEST_SAID = 1000


class Progress:
    """The reader's progress in one file. Reading never writes; there is no file before there is something to keep.

    Parameters
    ----------
    path : str or path
        The file. Its folder is made when something is first written.

    Attributes
    ----------
    path : Path
        The file itself, where a link was given.
    problem : str or None
        Why nothing can be kept at the moment, in a sentence.
    notice : str or None
        What happened to an older file, in a sentence.

    Examples
    --------
    >>> Progress("no-such-folder/progress.json").times("00-what-a-head-sees")
    0
    """

    def __init__(self, path: str | os.PathLike):
        # A link keeps pointing at the reader's own place, and two ways to one file take one lock.
        self.path = Path(os.path.realpath(os.path.expanduser(os.fspath(path))))
        self.problem: str | None = None
        self.notice: str | None = None
        self._waiting: list[Callable[[dict], None]] = []

    # ---------------------------------------------------------------------------------------------
    # What the reader does

    def answered(self, name: str, answer: str | Sequence[str], right: bool) -> None:
        """A concept question was answered; when it comes again is worked out by FSRS.

        Parameters
        ----------
        name : str
            Of the question.
        answer : str, or sequence of str
            The options that were picked.
        right : bool
        """
        at = _now()
        record = {"at": _iso(at), "answer": _text(answer), "right": bool(right)}

        def change(state: dict) -> None:
            entry = _entry(state, "questions", name)
            before = list(entry.get("answers", ()))
            _append(entry, "answers", record)
            card = _reviewed(entry.get("card"), before, record)
            if card is not None:
                entry["card"] = card

        self._record(change)

    def predicted(self, name: str, answer: str | None, right: bool | None) -> None:
        """A prediction was made, or skipped: then ``answer`` and ``right`` are None."""
        record = {
            "at": _iso(_now()),
            "answer": None if answer is None else _text(answer),
            "right": None if right is None else bool(right),
        }
        self._record(lambda state: _append(_entry(state, "predictions", name), "answers", record))

    def explained(self, name: str, text: str) -> None:
        """The reader's own words on why a prediction came out as it did. Empty ones are not kept."""
        record = {"at": _iso(_now()), "text": str(text)}
        if record["text"].strip():
            self._record(lambda state: _append(_entry(state, "predictions", name), "words", record))

    def tried(self, exercise: str, passed: bool, said: str) -> None:
        """An exercise was checked.

        Parameters
        ----------
        exercise : str
            Its name.
        passed : bool
        said : str
            The verdict in words.
        """
        record = {"at": _iso(_now()), "passed": bool(passed), "said": str(said)[:_LONGEST_SAID]}

        def change(state: dict) -> None:
            entry = _entry(state, "exercises", exercise)
            _append(entry, "attempts", record)
            if record["passed"]:
                entry["passed_at"] = entry.get("passed_at") or record["at"]

        self._record(change)

    def hinted(self, exercise: str, number: int) -> None:
        """Hint ``number`` of an exercise was opened; only the first time counts."""
        record = {"at": _iso(_now()), "number": int(number)}

        def change(state: dict) -> None:
            entry = _entry(state, "exercises", exercise)
            if all(hint["number"] != record["number"] for hint in entry.get("hints", ())):
                _append(entry, "hints", record)

        self._record(change)

    def gave_up(self, exercise: str) -> None:
        """The solution of an exercise was opened before it passed."""
        at = _iso(_now())

        def change(state: dict) -> None:
            entry = _entry(state, "exercises", exercise)
            entry["gave_up"] = entry.get("gave_up") or at

        self._record(change)

    # ---------------------------------------------------------------------------------------------
    # What there is

    def state(self) -> dict:
        """What the file holds, and what waits to be written; a fresh one if there is no file that can be read."""
        state = _fresh()
        try:
            state = _loaded(self.path)
        except _Foreign as fault:
            self.notice = (
                f"{self.path} cannot be read: {fault}. It is still there; "
                "when there is something to write, it is kept aside under another name."
            )
        except _Newer as newer:
            self.problem = self._said_of(newer)
        except OSError as error:
            self.problem = self._said_of(error)
        else:
            if not self._waiting:
                self.problem = None
        return self._changed(state)

    def times(self, name: str) -> int:
        """How often a question was answered."""
        entry = self.state()["questions"].get(name, {})
        return max(entry.get("times", 0), len(entry.get("answers", ())))

    def due_at(self, name: str) -> datetime | None:
        """When a question should come again, in UTC; None before it was answered."""
        return comes_again(self.state()["questions"].get(name, {}))

    def due(self, names: Iterable[str], now: datetime | None = None) -> list[str]:
        """Put names of questions in the order in which to ask them.

        Parameters
        ----------
        names : iterable of str
        now : datetime with a time zone, optional
            The present, unless told.

        Returns
        -------
        list of str
            All the names: due first, the longest overdue before the others; then those never asked, in the
            order given; then those not yet due, the soonest first.
        """
        now = now or _now()
        questions = self.state()["questions"]

        def place(name: str) -> tuple[int, float]:
            at = comes_again(questions.get(name, {}))
            if at is None:
                return 1, 0.0
            return (0 if at <= now else 2), at.timestamp()

        return sorted(dict.fromkeys(names), key=place)

    def kept(self) -> list[Path]:
        """The files that were moved aside, oldest first; each can be brought back unless it is foreign."""
        start = f"{self.path.name}.kept-"
        try:
            return sorted(path for path in self.path.parent.iterdir() if path.name.startswith(start))
        except OSError:
            return []

    # ---------------------------------------------------------------------------------------------
    # Reset, export, bring in

    def export(self) -> str:
        """The whole progress as JSON text, also where it could not be written."""
        return _written(self.state()).decode("utf-8")

    def bring_in(self, text: str | bytes) -> None:
        """Add an exported file to what is here. Nothing that is here goes; bringing it in twice changes nothing.

        Parameters
        ----------
        text : str or bytes
            What `export` gave, here or on another machine.

        Raises
        ------
        ValueError
            The text was not exported by this course, or by a newer version of it. Nothing is changed then.
        """
        raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else bytes(text)
        try:
            other = _parsed(raw)
        except _Foreign as fault:
            raise ValueError(f"This is no file that this course exported: {fault}. Nothing was changed.") from None
        except _Newer as newer:
            raise ValueError(
                f"This file is of version {newer}, this course reads version {VERSION}: "
                "update the course, then bring it in. Nothing was changed."
            ) from None
        self._record(lambda state: _merge(state, other))

    def reset(self) -> Path | None:
        """Start afresh. The file is moved aside, never deleted.

        Returns
        -------
        Path or None
            Where it is now; None where there was nothing, or where `problem` says why it could not be moved.
        """
        if not os.path.lexists(self.path) and not self._waiting:
            return None
        kept = None
        with self._trouble_told(), self._locked():
            if os.path.lexists(self.path):
                kept = self._set_aside()
            if self._waiting:
                # What could not be written so far is kept in a file of its own.
                self._write(self._changed(_fresh()))
                self._waiting.clear()
                aside = self._set_aside()
                kept = kept or aside
            self.problem = self.notice = None
        return kept

    # ---------------------------------------------------------------------------------------------
    # The file

    def _record(self, change: Callable[[dict], None]) -> None:
        self._waiting.append(change)
        with self._trouble_told(), self._locked():
            try:
                state = _loaded(self.path)
            except _Foreign as fault:
                kept = self._set_aside()
                self.notice = f"{self.path} could not be read: {fault}. It is kept in {kept}; a new file was begun."
                state = _fresh()
            self._write(self._changed(state))
            self._waiting.clear()
            self.problem = None

    def _changed(self, state: dict) -> dict:
        for change in self._waiting:
            change(state)
        return state

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            # Where the system knows no locks on files, filelock says so once and takes a file as the lock.
            warnings.simplefilter("ignore")
            import filelock
        with filelock.FileLock(self._lock_path()).acquire(timeout=LOCK_SECONDS, poll_interval=0.005):
            yield

    def _lock_path(self) -> str:
        return f"{self.path}.lock"

    def _write(self, state: dict) -> None:
        """Under the lock, so one name for the new file will do, and a kill leaves at most one of it behind."""
        new = self.path.with_name(self.path.name + ".new")
        with open(new, "wb") as file:
            file.write(_written(state))
            file.flush()
            os.fsync(file.fileno())
        _replace(new, self.path)

    def _set_aside(self) -> Path:
        name = f"{self.path.name}.kept-{_now():%Y%m%d-%H%M%S}"
        kept, number = self.path.with_name(name), 1
        while os.path.lexists(kept):
            number += 1
            kept = self.path.with_name(f"{name}-{number}")
        os.rename(self.path, kept)
        return kept

    @contextlib.contextmanager
    def _trouble_told(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ImportError, NotImplementedError, _Newer) as trouble:
            self.problem = self._said_of(trouble)

    def _said_of(self, trouble: Exception) -> str:
        if isinstance(trouble, _Newer):
            return (
                f"{self.path} was written by a newer version of the course (its version is {trouble}, "
                f"this one reads {VERSION}) and is left alone. Update the course, or reset: the file is kept then."
            )
        waits = "What you do now waits in memory until this notebook's kernel stops"
        if isinstance(trouble, TimeoutError):
            return (
                f"Another notebook has held {self._lock_path()} for {LOCK_SECONDS:g} seconds. "
                f"{waits}, and is written as soon as it is free. If no other notebook is open, delete that file."
            )
        why = (getattr(trouble, "strerror", None) or str(trouble) or type(trouble).__name__).rstrip(".")
        return (
            f"Your progress cannot be kept in {self.path}: {why}. {waits}; export it before. "
            "The environment variable MHA_PROGRESS may name a file in a place you can write to."
        )


def mine() -> Progress:
    """The reader's own progress: in the file or folder named by MHA_PROGRESS, or where the system keeps such data."""
    path = os.path.expanduser(os.environ.get("MHA_PROGRESS", ""))
    if not path:
        import platformdirs

        path = platformdirs.user_data_path("mha-course", appauthor=False) / _FILE
    elif os.path.isdir(path):
        path = os.path.join(path, _FILE)
    return _progress_at(os.path.abspath(path))


@functools.cache
def _progress_at(path: str) -> Progress:
    """One for a file, so that what one widget could not write is known to all."""
    return Progress(path)


# ---------------------------------------------------------------------------------------------
# What a file holds


class _Foreign(Exception):
    """Why a file is not one of ours, or no longer."""


class _Newer(Exception):
    """The version of a file that is newer than this library."""


def _fresh() -> dict:
    return {"format": FORMAT, "version": VERSION, "questions": {}, "predictions": {}, "exercises": {}}


def _loaded(path: Path) -> dict:
    if os.path.lexists(path) and not path.is_file():
        raise _Foreign("it is no file")
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return _fresh()
    return _parsed(raw)


def _parsed(raw: bytes) -> dict:
    try:
        found = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise _Foreign("it is not text in UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise _Foreign(f"it is not JSON, or a part of it is missing ({error})") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT or not _is_number(found.get("version"), 1):
        raise _Foreign(f'it is JSON, but its "format" is not "{FORMAT}"')
    if found["version"] > VERSION:
        raise _Newer(found["version"])
    fault = _fault(found)
    if fault:
        raise _Foreign(fault)
    return {**_fresh(), **found}


def _written(state: dict) -> bytes:
    text = json.dumps(state, indent=2, ensure_ascii=False) + "\n"
    # Half a character, as a browser may send it, has no UTF-8; its escape is the same in Python and in JSON.
    return text.encode("utf-8", "backslashreplace")


def _replace(new: Path, path: Path) -> None:
    """Windows does not replace a file that somebody is reading, so there it waits for the reader."""
    for pause in (0.02, 0.05, 0.1, 0.2):
        try:
            return os.replace(new, path)
        except PermissionError:
            if os.name != "nt":
                raise
            time.sleep(pause)
    return os.replace(new, path)


def _is_number(value, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_time(value) -> bool:
    try:
        return _moment(value).tzinfo is not None
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        return False


def _is_card(value) -> bool:
    return (
        isinstance(value, dict)
        and _is_time(value.get("due"))
        and (value.get("last_review") is None or _is_time(value["last_review"]))
    )


def _is(*kinds: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kinds)


_NOTHING = type(None)
_TIME = {"at": _is_time}

#: The lists of an entry, and what each of their records must hold; the first of them is what is counted.
_LISTS = {
    "questions": {"answers": {**_TIME, "answer": _is(str), "right": _is(bool)}},
    "predictions": {
        "answers": {**_TIME, "answer": _is(str, _NOTHING), "right": _is(bool, _NOTHING)},
        "words": {**_TIME, "text": _is(str)},
    },
    "exercises": {
        "attempts": {**_TIME, "passed": _is(bool), "said": _is(str)},
        "hints": {**_TIME, "number": _is_number},
    },
}

#: What else an entry may hold. Keys that are in neither table are somebody else's and stay.
_REST = {"times": _is_number, "card": _is_card, "passed_at": _is_time, "gave_up": _is_time}

_COUNTED = {"answers", "attempts"}


def _fault(found: dict) -> str | None:
    """The first place that does not hold what it should, in words."""
    for section, lists in _LISTS.items():
        entries = found.get(section, {})
        if not isinstance(entries, dict):
            return f'"{section}" holds no entries'
        for name, entry in entries.items():
            if not isinstance(entry, dict):
                return f'the entry "{name}" in "{section}" is broken'
            broken = [key for key, fine in _REST.items() if key in entry and not fine(entry[key])]
            broken += [key for key, wanted in lists.items() if key in entry and not _is_list_of(entry[key], wanted)]
            if broken:
                return f'the entry "{name}" in "{section}" is broken at "{broken[0]}"'
    return None


def _is_list_of(records, wanted: dict) -> bool:
    return isinstance(records, list) and all(
        isinstance(record, dict) and all(fine(record.get(key)) for key, fine in wanted.items()) for record in records
    )


def _entry(state: dict, section: str, name: str) -> dict:
    return state[section].setdefault(str(name), {})


def _append(entry: dict, key: str, record: dict) -> None:
    records = entry.get(key, [])
    if key in _COUNTED:
        entry["times"] = max(entry.get("times", 0), len(records)) + 1
    entry[key] = [*records, record][-MOST:]


# ---------------------------------------------------------------------------------------------
# Two files in one


def _merge(state: dict, other: dict) -> None:
    """Add ``other`` to ``state``."""
    for section in _LISTS:
        for name, entry in other[section].items():
            _merge_entry(_entry(state, section, name), entry, _LISTS[section])
    for key, value in other.items():
        state.setdefault(key, value)


def _merge_entry(entry: dict, other: dict, lists: dict) -> None:
    times = max(entry.get("times", 0), other.get("times", 0))
    for key in lists:
        if key in entry or key in other:
            records = _union(entry.get(key, []), other.get(key, []))
            entry[key] = records[-MOST:]
            if key in _COUNTED:
                # Records that both sides have dropped may be the same ones: at least so many there were.
                times = max(times, len(records))
    if times:
        entry["times"] = times
    for key, value in other.items():
        if key == "card" and "card" in entry:
            entry["card"] = max(entry["card"], value, key=_latest)
        elif key in ("passed_at", "gave_up") and key in entry:
            entry[key] = min(entry[key], value, key=_moment)
        else:
            entry.setdefault(key, value)


def _union(ours: list[dict], theirs: list[dict]) -> list[dict]:
    """Every record as often as the side that has it more often; in order of time."""
    mine, other = Counter(map(_canonical, ours)), Counter(map(_canonical, theirs))
    if not other - mine:
        return ours
    records = [json.loads(record) for record in (mine | other).elements()]
    return sorted(records, key=lambda record: (_moment(record["at"]), _canonical(record)))


def _canonical(record: dict) -> str:
    return json.dumps(record, sort_keys=True)


def _latest(card: dict) -> tuple:
    return _moment(card.get("last_review") or card["due"]), _canonical(card)


# ---------------------------------------------------------------------------------------------
# When a question comes again


def _reviewed(card: dict | None, before: list[dict], record: dict) -> dict | None:
    """The FSRS card after one more answer; worked out anew from all answers where the old one is of no use."""
    try:
        import fsrs
    except ImportError:
        return None
    scheduler = fsrs.Scheduler(enable_fuzzing=False)

    def review(known, answer: dict):
        rating = fsrs.Rating.Good if answer["right"] else fsrs.Rating.Again
        return scheduler.review_card(known, rating, _moment(answer["at"]))[0]

    if card is not None:
        # A card that was edited by hand, or made by another FSRS, may fail in many ways.
        with contextlib.suppress(ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
            return {**card, **review(fsrs.Card.from_dict(card), record).to_dict()}
    first = _moment((before or [record])[0]["at"])
    known = fsrs.Card(card_id=int(first.timestamp() * 1000), due=first)
    for answer in [*before, record]:
        known = review(known, answer)
    return known.to_dict()


def comes_again(entry: dict) -> datetime | None:
    """When the question of an entry in ``state()["questions"]`` should come again, in UTC; None before an answer."""
    if "card" in entry:
        return _moment(entry["card"]["due"])
    # Answered where FSRS was not installed: there is nothing to go by but the last answer.
    answers = entry.get("answers")
    return _moment(answers[-1]["at"]) if answers else None


# ---------------------------------------------------------------------------------------------


def _now() -> datetime:
    return datetime.now(timezone.utc).replace(microsecond=0)


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


def _moment(text: str) -> datetime:
    """Python 3.10 does not read the Z that other programs write."""
    found = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    return found.astimezone(timezone.utc) if found.tzinfo else found


def _text(answer: str | Sequence[str]) -> str:
    return answer if isinstance(answer, str) else "; ".join(map(str, answer))
