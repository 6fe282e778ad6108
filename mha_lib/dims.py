"""The four sizes of a layer, and every shape that follows from them.

The whole course runs on four whole numbers: how many sequences (``batch``), how many tokens in each
(``tokens``), how wide a token is (``d_model``) and how many heads share that width (``n_heads``).
Everything else, from the width of a head to the bytes of the score tensor, is computed here. This
module needs nothing but the standard library.

Letters in shape comments: ``B`` batch, ``T`` tokens, ``D`` d_model, ``H`` n_heads, ``d_k`` width of a head.
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple

#: The nine named steps of multi-head attention, in the order in which they run.
STEP_NAMES = ("project", "split", "score", "scale", "mask", "normalise", "mix", "merge", "output")

#: A size above this is taken for a slip of the keyboard, not for a layer.
LARGEST_SIZE = 10_000_000


class HeadsDoNotDivide(ValueError):
    """A width that cannot be cut into equal heads.

    Attributes
    ----------
    d_model, n_heads : int
        The two numbers that do not fit.
    valid : tuple of int
        Every head count that does divide ``d_model``, smallest first.
    """

    def __init__(self, d_model: int, n_heads: int):
        self.d_model, self.n_heads, self.valid = d_model, n_heads, valid_head_counts(d_model)
        do = f"{self.suggestion()} do" if len(self.valid) > 1 else "only 1 does"
        super().__init__(f"d_model {d_model} does not divide evenly across {n_heads} heads; {do}")

    def suggestion(self, at_most: int = 7) -> str:
        """The valid head counts nearest to the one asked for, as words: ``"1, 2, 3, 4, 6, 8, 12, …"``."""
        first = sum(count < self.n_heads for count in self.valid) - 4
        first = max(0, min(first, len(self.valid) - at_most))
        near = [str(count) for count in self.valid[first : first + at_most]]
        before = ["…"] if first else []
        after = ["…"] if first + at_most < len(self.valid) else []
        return ", ".join(before + near + after)


def whole_number(name: str, value: object, *, least: int = 1) -> int:
    """Return ``value`` as an int, or say in words why it cannot be a size.

    Parameters
    ----------
    name : str
        What the number is called in the message.
    value : int or NumPy integer
        Booleans, floats and text are refused, even where they look whole.
    least : int
        The smallest size that makes sense.

    Raises
    ------
    TypeError
        ``value`` is not an integer.
    ValueError
        ``value`` is below ``least`` or above `LARGEST_SIZE`.

    Examples
    --------
    >>> whole_number("tokens", 10)
    10
    >>> whole_number("tokens", 10.0)
    Traceback (most recent call last):
        ...
    TypeError: tokens must be a whole number, not 10.0 (float); write 10
    """
    if type(value).__name__ in ("bool", "bool_"):
        raise TypeError(f"{name} must be a whole number, not {value} (bool)")
    try:
        number = operator.index(value)
    except TypeError:
        shown, way_out = repr(value), ""
        if isinstance(value, Real):
            shown = str(value)  # a NumPy float's repr holds its type as well
            way_out = f"; write {int(value)}" if float(value).is_integer() else ""
        elif isinstance(value, str) and value.strip().isdecimal():
            way_out = f"; write {value.strip()}, without quotes"
        raise TypeError(f"{name} must be a whole number, not {shown} ({type(value).__name__}){way_out}") from None
    if not least <= number <= LARGEST_SIZE:
        # Python refuses to spell out an int of more than 4,300 digits.
        power = int(number.bit_length() * math.log10(2))
        shown = f"{number:,}" if power < 20 else f"{'-' * (number < 0)}10^{power}"
        if number < least:
            raise ValueError(f"{name} must be at least {least}, not {shown}")
        raise ValueError(f"{name} {shown} is beyond {LARGEST_SIZE:,}, the largest size this course computes with")
    return number


def valid_head_counts(d_model: int) -> tuple[int, ...]:
    """Every head count that divides ``d_model``, smallest first.

    Examples
    --------
    >>> valid_head_counts(48)
    (1, 2, 3, 4, 6, 8, 12, 16, 24, 48)
    """
    d_model = whole_number("d_model", d_model)
    small = [n for n in range(1, math.isqrt(d_model) + 1) if d_model % n == 0]
    return tuple(small + [d_model // n for n in reversed(small) if n * n != d_model])


class StepShape(NamedTuple):
    """One array of a forward pass: which step makes it, its name, its shape and the name of every axis."""

    step: str
    name: str
    shape: tuple[int, ...]
    axes: tuple[str, ...]

    @property
    def elements(self) -> int:
        """How many numbers the array holds."""
        return math.prod(self.shape)

    def nbytes(self, itemsize: int = 4) -> int:
        """Bytes the array takes, at ``itemsize`` bytes a number (4 is float32)."""
        return self.elements * itemsize


@dataclass(frozen=True)
class Dims:
    """The four sizes of one layer of multi-head self-attention.

    The defaults are the course's worked example. A width that does not divide evenly is refused,
    because a head would be left with a fraction of a feature.

    Parameters
    ----------
    batch, tokens, d_model, n_heads : int
        Each a whole number of at least 1; ``d_model`` must be a multiple of ``n_heads``.

    Raises
    ------
    TypeError
        A size is a boolean, a float or text.
    ValueError
        A size is below 1 or absurdly large.
    HeadsDoNotDivide
        ``d_model`` is no multiple of ``n_heads`` (a ValueError that knows the counts that work).

    Examples
    --------
    >>> dims = Dims()
    >>> dims.d_k, dims.shape("score"), dims.score_elements
    (64, (2, 8, 10, 10), 1600)
    >>> Dims(d_model=48, n_heads=5)
    Traceback (most recent call last):
        ...
    mha_lib.dims.HeadsDoNotDivide: d_model 48 does not divide evenly across 5 heads; 1, 2, 3, 4, 6, 8, 12, … do
    """

    batch: int = 2
    tokens: int = 10
    d_model: int = 512
    n_heads: int = 8

    def __post_init__(self):
        for name in ("batch", "tokens", "d_model", "n_heads"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name)))
        if self.d_model % self.n_heads:
            raise HeadsDoNotDivide(self.d_model, self.n_heads)

    @property
    def d_k(self) -> int:
        """Width of one head: ``d_model // n_heads``."""
        return self.d_model // self.n_heads

    @property
    def valid_head_counts(self) -> tuple[int, ...]:
        """Every head count that divides this ``d_model``."""
        return valid_head_counts(self.d_model)

    @property
    def arrays(self) -> tuple[StepShape, ...]:
        """Every array of a forward pass in order: the input, then what the nine steps make."""
        B, T, D, H, d_k = self.batch, self.tokens, self.d_model, self.n_heads, self.d_k
        wide = (B, T, D), ("batch", "tokens", "width")
        heads = (B, H, T, d_k), ("batch", "heads", "tokens", "d_k")
        pairs = (B, H, T, T), ("batch", "heads", "queries", "keys")
        return (
            StepShape("input", "x", *wide),
            *(StepShape("project", name, *wide) for name in ("q", "k", "v")),
            *(StepShape("split", name, *heads) for name in ("q_heads", "k_heads", "v_heads")),
            StepShape("score", "scores", *pairs),
            StepShape("scale", "scaled", *pairs),
            StepShape("mask", "masked", *pairs),
            StepShape("normalise", "weights", *pairs),
            StepShape("mix", "mixed", *heads),
            StepShape("merge", "merged", *wide),
            StepShape("output", "output", *wide),
        )

    def shape(self, step: str) -> tuple[int, ...]:
        """Shape of what ``step`` makes (for project and split: of q, of k and of v).

        Raises
        ------
        KeyError
            ``step`` is not one of the nine, nor ``"input"``.
        """
        for array in self.arrays:
            if array.step == step:
                return array.shape
        raise KeyError(f"no step {step!r}; the steps are {', '.join(('input', *STEP_NAMES))}")

    @property
    def score_elements(self) -> int:
        """Numbers in the score tensor: B · H · T · T."""
        return math.prod(self.shape("score"))

    def score_bytes(self, itemsize: int = 4) -> int:
        """Bytes of the score tensor, at ``itemsize`` bytes a number (4 is float32, 2 is float16)."""
        return self.score_elements * itemsize

    def trace_bytes(self, itemsize: int = 4) -> int:
        """Bytes of a whole forward pass that keeps every array, and of the four weight matrices.

        What a panel asks before it starts: the four matrices hold 4 · D · D numbers, whatever the heads.
        """
        return sum(array.nbytes(itemsize) for array in self.arrays) + 4 * self.d_model**2 * itemsize


def in_words(nbytes: int) -> str:
    """Bytes as a reader says them, in binary units.

    Examples
    --------
    >>> in_words(6400), in_words(32 * 2**20)
    ('6.25 KiB', '32 MiB')
    """
    amount, units = float(nbytes), ["byte" if nbytes == 1 else "bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while amount >= 1023.5 and len(units) > 1:  # what would be rounded to 1,024 is 1 of the next unit
        amount, units = amount / 1024, units[1:]
    digits = 2 if amount < 10 else 1 if amount < 100 else 0
    text = f"{amount:,.{digits}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text} {units[0]}"
