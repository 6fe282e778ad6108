"""Run what a learner wrote where it can do no harm: in a process of its own, with a time limit.

A loop without an end, ``sys.exit()``, a crash, ten gigabytes: the process dies, the notebook's kernel
does not. What a task returns comes back as plain data; what went wrong comes back as `Trouble`, a
sentence for the learner.

The browser's Python has no processes, and a system may forbid them. There the task runs in place, stopped
by a trace function, which ends a loop written in Python, unless that loop catches everything.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import contextlib
import functools
import importlib
import os
import pickle
import sys
import time
from collections.abc import Callable

import cloudpickle

#: Seconds that a learner's function has, all its calls together. Right answers need a hundredth of it.
LIMIT = 5.0

#: Seconds for Python and NumPy to come up in the other process, on a very busy machine.
_PATIENCE = 60

_HAS_PROCESSES = sys.platform not in ("emscripten", "wasi")


class Trouble(Exception):
    """Why there is no verdict; the message is for the learner."""


def warm_up() -> None:
    """Start the process ahead of its first task, in the background: Python and NumPy take a moment to come up."""
    if _HAS_PROCESSES:
        with contextlib.suppress(Exception):  # the first task will find out, and do without
            _first_task(_pool())


def run(task: Callable, function: Callable, *args, limit: float = LIMIT):
    """Call ``task(function, *args)`` apart from this process, and hand back what it returns.

    Parameters
    ----------
    task : function
        Importable (it lives in a module); calls the learner's function and returns plain data.
    function : function
        What the learner wrote, in a notebook's cell or anywhere. It is copied, with the names it uses.
    *args
        Further arguments of the task, plain data.
    limit : float, seconds
        How long the task may take.

    Raises
    ------
    Trouble
        The function cannot be copied, takes longer than the limit, or ends its process.

    Examples
    --------
    >>> run(call, len, [3, 4])
    2
    """
    if not _HAS_PROCESSES:
        return _in_place(task, function, args, limit)
    try:
        sent = cloudpickle.dumps(function)
    except (Exception, SystemExit) as problem:  # whatever a notebook holds, some of it cannot be copied
        raise Trouble(
            f"{_name(function)} uses something that cannot leave this notebook ({problem}). "
            "Pass what it needs as arguments."
        ) from None
    pool = _ready_pool()
    if pool is None:
        return _in_place(task, function, args, limit)
    return _unpacked(_ask(pool, task, sent, args, limit, _name(function)))


def call(function: Callable, *args):
    """The simplest task: the function's own result."""
    return function(*args)


# ---------------------------------------------------------------------------------------------
# On this side


def _ask(pool, task, sent: bytes, args, limit: float, name: str) -> bytes:
    import pebble

    asked = pool.schedule(_work, args=(task, sent, args), timeout=limit)
    try:
        return asked.result()
    except (TimeoutError, concurrent.futures.TimeoutError):  # one and the same from Python 3.11 on
        raise Trouble(_too_long(name, limit)) from None
    except pebble.ProcessExpired:
        raise Trouble(
            f"{name} ended its own process: it exits, crashes, or asks for more memory than there is."
        ) from None
    except Exception as problem:
        fault = f"{type(problem).__name__}, {problem}"
        raise Trouble(f"The check itself failed, which is no fault of {name}: {fault}.") from None
    except BaseException:  # the reader stops the kernel: the next check must not wait for this one
        asked.cancel()
        raise


def _ready_pool():
    """A pool that is known to work; None where no process can be started."""
    for _ in range(2):  # one that broke is made anew, once
        try:
            pool = _pool()
            if not pool.active:
                raise RuntimeError("it was stopped")
            _first_task(pool).result(timeout=_PATIENCE)
            return pool
        except Exception:  # a system may forbid processes in many ways; then the task runs right here
            _pool.cache_clear()
    return None


def _too_long(name: str, limit: float) -> str:
    return (
        f"{name} was stopped after {limit:g} seconds. Is there a loop that never ends? "
        "The right answer takes far less than one second."
    )


@functools.lru_cache(maxsize=1)
def _first_task(pool):
    """What shows that processes come up here; one for a pool."""
    return pool.schedule(_nothing)


@functools.cache
def _pool():
    """Two processes that wait, each for one task: what a task did to NumPy, or left running, goes with its process.

    Spawned: a fork of a kernel with threads may hang.
    """
    import multiprocessing

    import pebble

    # How long a process that was told to end may take before it is killed: code inside NumPy does not listen.
    pebble.CONSTS.term_timeout = 0.5
    pool = pebble.ProcessPool(
        max_workers=2, max_tasks=1, initializer=_come_up, context=multiprocessing.get_context("spawn")
    )
    atexit.register(_close, pool)
    return pool


def _close(pool) -> None:
    pool.stop()
    pool.join(timeout=2)


def _name(function) -> str:
    return f"`{getattr(function, '__name__', 'your function')}`"


def _unpacked(answer: bytes):
    fine, result = pickle.loads(answer)
    if fine:
        return result
    raise Trouble(result)


# ---------------------------------------------------------------------------------------------
# On the other side


def _come_up() -> None:
    """Load what a task will need before it comes, and keep what it writes past sys.stdout out of the notebook."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    # By its name: it stands above this module.
    importlib.import_module(f"{__package__}.exercises")


def _nothing() -> None:
    """A task to find out whether there are processes."""


def _work(task, sent: bytes, args) -> bytes:
    """What the process does. Pickled here, so that what cannot be sent back is a sentence and no broken pipe."""
    try:
        try:
            function = pickle.loads(sent)
        except Exception as problem:  # made of what this process does not have
            raise Trouble(f"The function cannot be run apart from this notebook: {problem}.") from None
        return pickle.dumps((True, task(function, *args)))
    except Trouble as trouble:
        return pickle.dumps((False, str(trouble)))


# ---------------------------------------------------------------------------------------------
# Where there are no processes


class Stopped(BaseException):
    """Not an Exception, so that a learner's ``except Exception`` does not swallow it.

    It comes once: Python takes a trace function away that raises. Who catches everything lets it pass.
    """


def _in_place(task, function, args, limit: float):
    deadline = time.monotonic() + limit

    def watch(frame, event, argument):
        if time.monotonic() > deadline:
            raise Stopped
        return watch

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        return task(function, *args)
    except Stopped:
        raise Trouble(_too_long(_name(function), limit)) from None
    finally:
        sys.settrace(before)
