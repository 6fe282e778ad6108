"""Retrieval at the start of a notebook: a few questions from earlier ones, those that are due first.

Remembering what was learnt some notebooks ago is what keeps it. So one question comes from the notebook
before, one from two before, one from four before.
"""

from __future__ import annotations

import html
from collections.abc import Mapping
from datetime import datetime

import ipywidgets as widgets

from . import content, questions
from .content import READING_ORDER, Question
from .progress import Progress, mine

#: How many notebooks before this one the questions come from, in this order.
BACK = (1, 2, 4)

_IN_WORDS = ("No", "One", "Two", "Three", "Four", "Five")


def review(notebook: str, *, count: int = 3, now: datetime | None = None) -> widgets.VBox:
    """Ask questions from the notebooks before this one.

    Parameters
    ----------
    notebook : str
        The one that begins: ``"02"`` or ``"02_split_and_merge"``.
    count : int
        How many questions at most.
    now : datetime with a time zone, optional
        The present, unless told.

    Returns
    -------
    VBox
        A `Sheet` of questions; a sentence where there is nothing to ask yet.

    Raises
    ------
    ValueError
        There is no such notebook, or ``count`` is less than 1.

    Examples
    --------
    >>> review("00").said
    'This is the first notebook: there is nothing to review yet.'
    """
    if _place(notebook) == 0:
        return questions.Sentence("This is the first notebook: there is nothing to review yet.")
    try:
        known = content.questions()
    except ValueError as problem:
        return questions.Sentence(f"The questions cannot be read. {html.escape(str(problem))}")
    progress = mine()
    names = drawn(notebook, known, progress, count, now)
    if not names:
        return questions.Sentence("The notebooks before this one have no questions yet, so there is nothing to review.")
    asked = [questions.ask(name, turn=progress.times(name)) for name in names]
    return questions.Sheet(asked, _heading(len(asked), len({known[name].notebook for name in names})))


def drawn(
    notebook: str,
    known: Mapping[str, Question],
    progress: Progress,
    count: int = 3,
    now: datetime | None = None,
) -> list[str]:
    """Choose the questions to ask at the start of a notebook.

    One comes from each of the notebooks `BACK` before it, as far as they have questions. What is missing then
    is filled from all earlier ones, from those without a question so far before the others. Wherever there is a
    choice, `Progress.due` makes it: the longest overdue, then what was never asked.

    Parameters
    ----------
    notebook : str
        As for `review`.
    known : dict of str to Question
        All there are, in reading order.
    progress : Progress
    count : int
        How many at most.
    now : datetime with a time zone, optional

    Returns
    -------
    list of str
        Their names, each once; fewer than ``count`` only where there are no more.

    Raises
    ------
    ValueError
        There is no such notebook, or ``count`` is less than 1.
    """
    here = _place(notebook)
    if count < 1:
        raise ValueError(f"count is {count}; ask for at least 1 question")
    order = {each: place for place, each in enumerate(READING_ORDER)}
    places = {name: order[question.notebook] for name, question in known.items() if question.notebook in order}
    earlier = {name: place for name, place in places.items() if place < here}
    names: list[str] = []
    for back in BACK[:count]:
        there = [name for name, place in earlier.items() if place == here - back]
        names += progress.due(there, now)[:1]
    while len(names) < count:
        used = {earlier[name] for name in names}
        rest = [name for name in earlier if name not in names]
        rest.sort(key=lambda name: (earlier[name] in used, -earlier[name]))
        if not rest:
            break
        names.append(progress.due(rest, now)[0])
    return names


def _place(notebook: str) -> int:
    for place, name in enumerate(READING_ORDER):
        if notebook in (name, name.partition("_")[0]):
            return place
    raise ValueError(f"there is no notebook {notebook!r}; there are {', '.join(READING_ORDER)}")


def _heading(count: int, notebooks: int) -> str:
    number = _IN_WORDS[count] if count < len(_IN_WORDS) else str(count)
    source = "an earlier notebook" if notebooks == 1 else "earlier notebooks"
    return f"{number} question{'s' if count > 1 else ''} from {source}. Answer from memory."
