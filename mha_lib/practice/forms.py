"""One solution, four forms: worked, with one blank, with three, empty.

In a solution, what can be left out stands in ⟦these brackets⟧; the piece that is left out first, when
there is one blank only, begins with ``1:``. So the four forms can never disagree with each other.
"""

from __future__ import annotations

import ast
import re

#: From all there to nothing there.
FORMS = ("worked", "one blank", "three blanks", "empty")

#: What stands where something is to be filled in. It is a name, so that the cell can run before it is filled in.
BLANK = "___"

_PIECE = re.compile(r"⟦(?P<first>1: ?)?(?P<code>.*?)⟧")


def faded(solution: str, form: str) -> str:
    """The code in one of its forms.

    Parameters
    ----------
    solution : str
        One function, with its pieces in brackets.
    form : str
        One of `FORMS`.

    Raises
    ------
    ValueError
        There is no such form, or the solution is not one function.

    Examples
    --------
    >>> solution = "def half(x):\\n    return ⟦1: x⟧ / ⟦2⟧"
    >>> print(faded(solution, "one blank"))
    def half(x):
        return ___ / 2
    >>> print(faded(solution, "empty"))
    def half(x):
        return ...
    """
    if form not in FORMS:
        raise ValueError(f"there is no form {form!r}; there are {', '.join(FORMS)}")
    worked = _PIECE.sub(lambda piece: piece["code"], solution).strip("\n")
    if form == "worked":
        return worked
    if form == "one blank":
        return _PIECE.sub(lambda piece: BLANK if piece["first"] else piece["code"], solution).strip("\n")
    if form == "three blanks":
        return _PIECE.sub(BLANK, solution).strip("\n")
    return _header(worked)


def _header(code: str) -> str:
    """The ``def``, its docstring, and dots where the rest was."""
    body = ast.parse(code).body
    if len(body) != 1 or not isinstance(body[0], ast.FunctionDef):
        raise ValueError(f"a solution is one function, and this is not: {code.splitlines()[0]!r}")
    function = body[0]
    first = function.body[0]
    documented = (
        isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)
    )
    kept = first.end_lineno if documented else first.lineno - 1
    return "\n".join([*code.splitlines()[:kept], "    return ..."])


def unfilled(function) -> bool:
    """Whether a blank is left anywhere in a function, also in a function or a loop inside it."""
    code = getattr(function, "__code__", None)
    return code is not None and _has_blank(code)


def _has_blank(code) -> bool:
    return BLANK in code.co_names or any(_has_blank(inner) for inner in code.co_consts if hasattr(inner, "co_names"))
