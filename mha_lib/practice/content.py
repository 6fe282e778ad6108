"""The course's questions, predictions and exercises as data: one TOML file a notebook, named as the notebook is.

Literal strings (``'''…'''``) keep formulas as they are. `faults` reads every file as a strict reviewer
would and names file and entry; the loaders below are less strict, and refuse only what they cannot read.
"""

from __future__ import annotations

import ast
import functools
import html
import html.parser
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import resources

from ..dims import STEP_NAMES, Dims
from . import forms

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: The notebooks in the order in which they are read.
READING_ORDER = (
    "00_start_here",
    "01_shapes",
    "02_split_and_merge",
    "03_scaling",
    "04_softmax_axis",
    "05_masks",
    "06_concat_and_project",
    "07_reading_heads",
    "08_testing_heads",
    "09_cost_of_heads",
    "10_int8",
    "11_bug_clinic",
    "12_interview",
)

#: What people believe that is not so. Every wrong answer of the course comes from one of these.
MISCONCEPTIONS = {
    "M1": "a head gets a slice of the input",
    "M2": "scale by √d_model or √h",
    "M3": "a bigger divisor makes softmax peakier",
    "M4": "softmax over queries, heads or batch",
    "M5": "reshape is the same as transpose",
    "M6": "mask after softmax, or logit 0",
    "M7": "mask polarity is the same everywhere",
    "M8": "more heads cost parameters and matmul FLOPs",
    "M9": "heads are averaged; W_O is cosmetic",
    "M10": "every head is distinct and needed",
    "M11": "weight = importance = cause",
    "M12": "fused kernels approximate",
    "M13": "GQA tiles instead of repeating",
    "M14": "the causal mask ignores T_q ≠ T_k",
    "M15": "INT8 everywhere, INT8 accumulators",
    "M16": "KV cache from d_model",
    "M17": "it trains, so it is right",
}

#: What a prediction can ask for.
KINDS = ("shape", "number", "choice", "brightest")

#: Sizes that the text of a prediction may name in braces.
SIZES = ("batch", "tokens", "d_model", "n_heads", "d_k")

#: Tags that a text may use, without attributes.
TAGS = ("b", "br", "code", "i", "li", "p", "sub", "sup", "ul")

_FOLDER = resources.files(__package__).joinpath("content")


@dataclass(frozen=True)
class Option:
    """One answer to tick.

    Attributes
    ----------
    text, feedback : str
        HTML with ``$formulas$``. The feedback says why the answer is right or wrong.
    right : bool
    misconception : str or None
        For a wrong answer the belief behind it, a key of `MISCONCEPTIONS`.
    """

    text: str
    right: bool
    feedback: str
    misconception: str | None


@dataclass(frozen=True)
class Question:
    """A concept question.

    Attributes
    ----------
    name : str
        As ``00-what-a-head-sees``.
    notebook : str
        The file it belongs to, as ``00_start_here``.
    ask, why : str
        HTML with ``$formulas$``; ``why`` is said when the right answer is open.
    options : tuple of Option
    several : bool
        Whether more than one option is right, and all of them are to be ticked.
    in_order : bool
        Whether the options stay in the order of the file.
    """

    name: str
    notebook: str
    ask: str
    options: tuple[Option, ...]
    several: bool
    why: str
    in_order: bool = False


@dataclass(frozen=True)
class PredictionText:
    """The words of a prediction. The truth is computed when it is asked, and stands nowhere here.

    Attributes
    ----------
    name, notebook : str
        As for `Question`.
    kind : str
        One of `KINDS`.
    ask, ask_why, why : str
        HTML with ``$formulas$``: the question, what is asked after the reveal, and the explanation. A size
        in braces, as ``{d_k}``, is filled in by `filled`.
    step : str or None
        For a shape: the step of the layer whose shape is asked.
    count : str or None
        For a number: the attribute or method of `Dims` that computes it.
    unit : str
    tolerance : float
        Largest relative error of a number that still counts as right.
    options : tuple of Option
        For a choice.
    in_order : bool
    """

    name: str
    notebook: str
    kind: str
    ask: str
    ask_why: str
    why: str
    step: str | None = None
    count: str | None = None
    unit: str = ""
    tolerance: float = 0.0
    options: tuple[Option, ...] = ()
    in_order: bool = False


@dataclass(frozen=True)
class ExerciseText:
    """The words of an exercise.

    Attributes
    ----------
    name : str
        The name of the function that the reader writes.
    notebook, task : str
    hints : tuple of three str
    solution : str
        Python, one function, with three pieces in ⟦brackets⟧; see `mha_lib.practice.forms`.
    """

    name: str
    notebook: str
    task: str
    hints: tuple[str, ...]
    solution: str


@dataclass(frozen=True)
class Line:
    """One line of a puzzle: its code, the subgoal it serves, and for a line too many what is wrong with it."""

    goal: str
    code: str
    why: str = ""


@dataclass(frozen=True)
class Puzzle:
    """A function whose lines are to be put in order.

    Attributes
    ----------
    name, notebook : str
        As for `Question`.
    exercise : str
        The exercise that it is another way to solve.
    head : str
        The first lines, which are given.
    lines : tuple of Line
        In an order that is right.
    extras : tuple of Line
        Lines too many. Each imitates the last line of its goal.
    """

    name: str
    notebook: str
    exercise: str
    head: str
    lines: tuple[Line, ...]
    extras: tuple[Line, ...]

    def code(self, lines: Iterable[Line]) -> str:
        """The function with these lines in it."""
        return "\n".join([self.head, *(f"    {line.code}" for line in lines)])


# ---------------------------------------------------------------------------------------------
# Reading


def questions() -> dict[str, Question]:
    """The concept questions by name: notebooks in reading order, and the order of the file in each."""
    return dict(load()["question"])


def predictions() -> dict[str, PredictionText]:
    """The predictions by name, in the order of `questions`."""
    return dict(load()["prediction"])


def exercise_texts() -> dict[str, ExerciseText]:
    """The exercises' words by name, in the order of `questions`."""
    return dict(load()["exercise"])


def puzzles() -> dict[str, Puzzle]:
    """The lines to put in order by name, in the order of `questions`."""
    return dict(load()["puzzle"])


@functools.cache
def load(folder=_FOLDER) -> dict[str, dict]:
    """All that the files of a folder hold, by kind and name.

    Parameters
    ----------
    folder : Path or Traversable
        The course's own content if left out.

    Raises
    ------
    ValueError
        A file that is no TOML, or an entry with something missing or of the wrong type; file and entry are named.
    """
    made = {kind: {} for kind in _MAKE}
    for notebook, file in _files(folder):
        for kind, tables in _tables(file).items():
            for place, table in enumerate(tables, 1):
                where = _where(file.name, kind, table, place)
                for fault in _wrong_keys(kind, table):
                    raise ValueError(f"{where}: {fault}")
                made[kind][table["name"]] = _MAKE[kind](notebook, table)
    return made


def filled(text: str, dims: Dims | None) -> str:
    r"""A text with the sizes that it names in braces.

    Braces inside a formula are the formula's; there a size stands in double braces.

    Examples
    --------
    >>> filled(r"{n_heads} heads: $\sqrt{d_k} = \sqrt{{d_k}}$", Dims())
    '8 heads: $\\sqrt{d_k} = \\sqrt{64}$'
    """
    if dims is None:
        return text
    parts = text.split("$")  # every second part is a formula
    for size in SIZES:
        value = str(getattr(dims, size))
        parts[::2] = [part.replace(f"{{{size}}}", value) for part in parts[::2]]
        parts[1::2] = [part.replace(f"{{{{{size}}}}}", f"{{{value}}}") for part in parts[1::2]]
    return "$".join(parts)


def plain(text: str) -> str:
    """A text without its tags, for where only letters can stand.

    Examples
    --------
    >>> plain("<code>a &lt; b</code> or <b>not</b>")
    'a < b or not'
    """
    return html.unescape(re.sub(r"</?[a-z]+>", "", text))


def _files(folder) -> list[tuple[str, object]]:
    """(notebook, file) in reading order; a file of no known notebook comes last."""
    found = {file.name.removesuffix(".toml"): file for file in folder.iterdir() if file.name.endswith(".toml")}
    known = [notebook for notebook in READING_ORDER if notebook in found]
    return [(notebook, found[notebook]) for notebook in [*known, *sorted(found.keys() - set(known))]]


def _tables(file) -> dict[str, list[dict]]:
    try:
        read = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as problem:  # also what is not UTF-8
        raise ValueError(f"{file.name} cannot be read as TOML: {problem}") from None
    for kind, tables in read.items():
        if kind not in _MAKE:
            there = ", ".join(f"[[{one}]]" for one in _MAKE)
            raise ValueError(f"{file.name}: there is no [[{kind}]]; there are {there}")
        if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
            raise ValueError(f"{file.name}: write [[{kind}]] with double brackets, once for each {kind}")
    return read


def _where(file: str, kind: str, table: dict, place: int) -> str:
    name = table.get("name")
    return f"{file}, {kind} {name if isinstance(name, str) and name else f'number {place}'}"


def _question(notebook: str, table: dict) -> Question:
    words = {key: table[key].strip() for key in ("name", "ask", "why")}
    several, in_order = table.get("several", False), table.get("in_order", False)
    return Question(notebook=notebook, options=_options(table), several=several, in_order=in_order, **words)


def _prediction(notebook: str, table: dict) -> PredictionText:
    words = {key: value.strip() if isinstance(value, str) else value for key, value in table.items() if key != "option"}
    return PredictionText(notebook=notebook, options=_options(table), **words)


def _exercise(notebook: str, table: dict) -> ExerciseText:
    hints = tuple(hint.strip() for hint in table["hints"])
    words = {key: table[key].strip() for key in ("name", "task")}
    return ExerciseText(notebook=notebook, hints=hints, solution=table["solution"].strip("\n"), **words)


def _puzzle(notebook: str, table: dict) -> Puzzle:
    lines, extras = (
        tuple(Line(*(line.get(key, "").strip() for key in ("goal", "code", "why"))) for line in table[kind])
        for kind in ("line", "extra")
    )
    head = table["head"].strip("\n").rstrip()
    return Puzzle(table["name"].strip(), notebook, table["exercise"].strip(), head, lines, extras)


def _options(table: dict) -> tuple[Option, ...]:
    return tuple(
        Option(
            option["text"].strip(), option.get("right", False), option["feedback"].strip(), option.get("misconception")
        )
        for option in table.get("option", ())
    )


_MAKE = {"question": _question, "prediction": _prediction, "exercise": _exercise, "puzzle": _puzzle}

#: Keys of each table and their types; the first set must be there.
_KEYS: dict[str, tuple[dict, dict]] = {
    "question": (
        {"name": str, "ask": str, "why": str, "option": list},
        {"several": bool, "in_order": bool},
    ),
    "option": ({"text": str, "feedback": str}, {"right": bool, "misconception": str}),
    "prediction": (
        {"name": str, "kind": str, "ask": str, "ask_why": str, "why": str},
        {"step": str, "count": str, "unit": str, "tolerance": float, "option": list, "in_order": bool},
    ),
    "exercise": (
        {"name": str, "task": str, "hints": list, "solution": str},
        {},
    ),
    "puzzle": ({"name": str, "exercise": str, "head": str, "line": list, "extra": list}, {}),
    "line": ({"goal": str, "code": str}, {}),
    "extra": ({"goal": str, "code": str, "why": str}, {}),
}  # fmt: skip

_SAID = {str: "text", bool: "true or false", float: "a number with a point, as 0.05", list: "a list"}


def _wrong_keys(kind: str, table: dict) -> Iterator[str]:
    """What is missing, unknown or of the wrong type in one table, and in the options of one."""
    needed, allowed = _KEYS[kind]
    known = {**needed, **allowed}
    yield from (f"{key!r} is missing" for key in needed if key not in table)
    for key, value in table.items():
        if key not in known:
            yield f"{key!r} is no key of [[{kind}]]; there are {', '.join(known)}"
        elif not isinstance(value, known[key]):
            yield f"{key!r} must be {_SAID[known[key]]}, not {value!r}"
    if isinstance(given := table.get("hints", []), list) and not all(isinstance(one, str) for one in given):
        yield "'hints' must be a list of texts"
    for part in ("option", "line", "extra"):
        parts = table.get(part, []) if part in known else []
        for place, inner in enumerate(parts if isinstance(parts, list) else [], 1):
            if not isinstance(inner, dict):
                yield f"write [[{kind}.{part}]] with double brackets, once for each {part}"
                continue
            yield from (f"{part} {place}: {fault}" for fault in _wrong_keys(part, inner))


# ---------------------------------------------------------------------------------------------
# Reviewing


def faults(folder=_FOLDER) -> list[str]:
    """All that is wrong with the content, one sentence each, with file and entry; empty if all is well.

    Parameters
    ----------
    folder : Path or Traversable
        The course's own content if left out.
    """
    found, seen = [], {}
    for notebook, file in _files(folder):
        if notebook not in READING_ORDER:
            found.append(f"{file.name}: no notebook is called {notebook}; see READING_ORDER")
        try:
            read = _tables(file)
        except ValueError as problem:
            found.append(str(problem))
            continue
        for kind, tables in read.items():
            for place, table in enumerate(tables, 1):
                where = _where(file.name, kind, table, place)
                wrong = list(_wrong_keys(kind, table))
                if not wrong:
                    wrong = [*_wrong_name(kind, table["name"], notebook), *_REVIEW[kind](_MAKE[kind](notebook, table))]
                    if first := seen.get(table["name"]):
                        wrong.append(f"the name is taken by {first}")
                    seen.setdefault(table["name"], where)
                found += [f"{where}: {fault}" for fault in wrong]
    return found


def _wrong_name(kind: str, name: str, notebook: str) -> Iterator[str]:
    if kind == "exercise":
        if not name.isidentifier():
            yield f"an exercise has the name of its function, and {name!r} cannot be one"
    elif not re.fullmatch(r"\d\d(-[a-z0-9]+)+", name) or name[:2] != notebook[:2]:
        yield f"the name must look like {notebook[:2]}-small-words-with-hyphens"


def _review_question(question: Question) -> Iterator[str]:
    yield from _wrong_texts({"ask": question.ask, "why": question.why})
    yield from _wrong_options(question.options, question.several)


def _review_prediction(text: PredictionText) -> Iterator[str]:
    texts = {"ask": text.ask, "ask_why": text.ask_why, "why": text.why}
    yield from _wrong_texts(texts)
    for key, words in texts.items():
        for name in re.findall(r"\{(\w+)\}", "".join(words.split("$")[::2])):
            if name not in SIZES:
                yield f"{key}: {{{name}}} is no size; there are {', '.join(SIZES)}"
    if text.kind not in KINDS:
        yield f"there is no kind {text.kind!r}; there are {', '.join(KINDS)}"
        return
    wanted = {"step": "shape", "count": "number", "unit": "number", "tolerance": "number", "options": "choice"}
    for key, kind in wanted.items():
        if getattr(text, key) and kind != text.kind:
            yield f"{key} is for kind = {kind!r}, and this is a {text.kind}"
    if text.kind == "choice":
        yield from _wrong_options(text.options, several=False)
    if text.step is not None and text.step not in ("input", *STEP_NAMES):
        yield f"there is no step {text.step!r}; there are input, {', '.join(STEP_NAMES)}"
    if text.count is not None and not isinstance(counted(Dims(), text.count), int | float):
        yield f"Dims computes no number {text.count!r}"
    if not 0 <= text.tolerance < 1:
        yield f"a tolerance lies between 0 and 1 (0.05 is 5 %), and this is {text.tolerance}"


def counted(dims: Dims, name: str) -> float | None:
    """The number that a `Dims` computes under that name, as attribute or method; None if there is none."""
    value = None if name.startswith("_") else getattr(dims, name, None)
    if callable(value):
        try:
            value = value()
        except TypeError:  # it wants to know more
            return None
    return value if isinstance(value, int | float) else None


def _review_exercise(text: ExerciseText) -> Iterator[str]:
    hints = {f"hint {place}": hint for place, hint in enumerate(text.hints, 1)}
    yield from _wrong_texts({"task": text.task, **hints})
    if len(text.hints) != 3:
        yield f"an exercise has three hints, and this one has {len(text.hints)}"
    blanks, first = len(re.findall("⟦.*?⟧", text.solution)), text.solution.count("⟦1:")
    if blanks != 3:
        yield f"a solution has three blanks in ⟦brackets⟧, and this one has {blanks}"
    if first != 1:
        yield f"exactly one blank begins with ⟦1: and here {first} do"
    for form in forms.FORMS:
        try:
            ast.parse(forms.faded(text.solution, form))
        except (SyntaxError, ValueError, IndexError) as problem:
            yield f"the solution in the form {form!r} is no Python function: {problem}"
            break


def _review_puzzle(puzzle: Puzzle) -> Iterator[str]:
    yield from _wrong_texts({f"extra {place}, why": extra.why for place, extra in enumerate(puzzle.extras, 1)})
    if len(puzzle.lines) < 3:
        yield f"a puzzle has three lines or more, and this one has {len(puzzle.lines)}"
    goals = {line.goal for line in puzzle.lines}
    for place, extra in enumerate(puzzle.extras, 1):
        if extra.goal not in goals:
            yield f"extra {place} imitates a line of {extra.goal!r}, and no line has that goal"
    codes = [line.code for line in (*puzzle.lines, *puzzle.extras)]
    if len(set(codes)) < len(codes):
        yield "two lines are the same"
    try:
        ast.parse(puzzle.code(puzzle.lines))
    except SyntaxError as problem:
        yield f"the lines in their order are no Python: {problem}"


_REVIEW = {
    "question": _review_question,
    "prediction": _review_prediction,
    "exercise": _review_exercise,
    "puzzle": _review_puzzle,
}


def _wrong_options(options: tuple[Option, ...], several: bool) -> Iterator[str]:
    right = sum(option.right for option in options)
    if not 3 <= len(options) <= 5:
        yield f"there must be 3 to 5 options, and there are {len(options)}"
    if several and not 2 <= right < len(options):
        yield f"several = true needs two right options or more and a wrong one; {right} of {len(options)} are right"
    if not several and right != 1:
        yield f"exactly one option is right, or several = true; here {right} are right"
    if len({option.text for option in options}) < len(options):
        yield "two options have the same text"
    for place, option in enumerate(options, 1):
        yield from _wrong_texts({f"option {place}, text": option.text, f"option {place}, feedback": option.feedback})
        if option.right and option.misconception is not None:
            yield f"option {place} is right and cannot have a misconception"
        if not option.right and option.misconception not in MISCONCEPTIONS:
            said = "names no misconception" if option.misconception is None else f"names {option.misconception!r}"
            yield f"option {place} is wrong and {said}; take one of M1 to M{len(MISCONCEPTIONS)}"


def _wrong_texts(texts: dict[str, str]) -> Iterator[str]:
    for key, text in texts.items():
        if not text:
            yield f"{key} is empty"
            continue
        yield from (f"{key}: {fault}" for fault in (*_wrong_formulas(text), *_wrong_tags(text)))


def _wrong_formulas(text: str) -> Iterator[str]:
    from matplotlib.mathtext import MathTextParser

    if text.count("$") % 2:
        yield "a $ without its partner"
        return
    for formula in text.split("$")[1::2]:
        try:
            if not formula.strip():
                raise ValueError("there is nothing in it")
            MathTextParser("path").parse(f"${html.unescape(formula)}$")
        except ValueError as problem:
            yield f"the formula ${formula}$ does not compile: {str(problem).strip().splitlines()[-1]}"


def _wrong_tags(text: str) -> list[str]:
    reader = _Tags()
    reader.feed(text)
    reader.close()
    return [*reader.faults, *(f"<{tag}> is never closed" for tag in reader.open)]


class _Tags(html.parser.HTMLParser):
    """Reads a text as a browser would, and notes what a browser would have to mend."""

    def __init__(self):
        super().__init__()
        self.open, self.faults = [], []

    def handle_starttag(self, tag, attributes):
        if tag not in TAGS:
            self.faults.append(f"<{tag}> is not among the tags in use; write &lt; for a plain <")
        elif attributes:
            self.faults.append(f"<{tag}> has attributes; texts carry none")
        if tag != "br":
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        if tag != "br" or attributes:
            self.faults.append(f"<{tag}/> closes itself, which HTML does not know")

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()
        else:
            self.faults.append(f"</{tag}> closes nothing that is open")
