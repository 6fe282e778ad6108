"""Whatever a learner writes, the kernel lives, and an answer comes within two seconds of the limit."""

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

from mha_lib.practice import judge

LIMIT = 1.0
#: The promise, in seconds after the limit.
LATEST = 2.0


def for_ever(x):
    while True:
        pass


def for_ever_and_stubborn(x):
    while True:
        try:
            pass
        except BaseException:
            pass


def for_ever_and_deaf(x):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        pass


def for_ever_inside_c(x):
    return sum(range(10**15))


def asleep(x):
    time.sleep(10_000)


@pytest.fixture(autouse=True)
def up():
    """The process is there before the clock starts."""
    judge.run(judge.call, len, [])


@pytest.mark.slow
@pytest.mark.parametrize("function", [for_ever, for_ever_and_stubborn, for_ever_and_deaf, for_ever_inside_c, asleep])
def test_what_never_ends_is_ended(function):
    began = time.monotonic()
    with pytest.raises(judge.Trouble, match=rf"`{function.__name__}` was stopped after 1 seconds. Is there a loop"):
        judge.run(judge.call, function, 1, limit=LIMIT)
    assert LIMIT <= time.monotonic() - began < LIMIT + LATEST


@pytest.mark.parametrize(
    "function", [lambda x: os._exit(3), lambda x: os.kill(os.getpid(), signal.SIGABRT)], ids=["exit", "abort"]
)
def test_a_process_that_dies_is_not_this_one(function):
    with pytest.raises(judge.Trouble, match="ended its own process"):
        judge.run(judge.call, function, 1)
    assert judge.run(judge.call, len, [3, 4]) == 2  # and the next one finds a new process


def test_what_cannot_be_sent_is_said():
    lock = threading.Lock()
    with pytest.raises(judge.Trouble, match=r"uses something that cannot leave this notebook.*lock.*as arguments"):
        judge.run(judge.call, lambda x: lock, 1)


def test_the_function_takes_along_what_it_uses():
    factor = np.arange(3.0)

    def helper(x):
        return x * factor

    assert judge.run(judge.call, lambda x: helper(x).sum(), 2) == 6


def test_what_it_changes_stays_there():
    seen = []

    def remember(x):
        seen.append(x)
        return len(seen)

    assert judge.run(judge.call, remember, 1) == 1
    assert seen == []


@pytest.mark.slow
def test_a_call_takes_milliseconds():
    """Without the processes that wait, each would take Python and NumPy a quarter of a second to come up."""
    times = []
    for _ in range(5):
        time.sleep(0.5)  # for the processes to come up, as they do while a reader reads
        began = time.perf_counter()
        judge.run(judge.call, np.sum, [1, 2])
        times.append(time.perf_counter() - began)
    assert min(times) < 0.05


def test_a_trouble_inside_the_task_comes_back_as_one():
    def task_says(function, *args):
        raise judge.Trouble("a sentence")

    with pytest.raises(judge.Trouble, match="a sentence"):
        judge._unpacked(judge._work(task_says, __import__("cloudpickle").dumps(len), ()))


def breaks(function, *args):
    raise KeyError("ours")


def test_a_fault_of_the_check_is_no_fault_of_the_learner():
    with pytest.raises(judge.Trouble, match="The check itself failed, which is no fault of `len`: KeyError, 'ours'"):
        judge.run(breaks, len, 1)


# ---- where there are no processes


@pytest.fixture
def alone(monkeypatch):
    monkeypatch.setattr(judge, "_HAS_PROCESSES", False)


def test_in_place_it_works_as_well(alone):
    judge.warm_up()
    assert judge.run(judge.call, len, [3, 4]) == 2


def test_in_place_a_loop_ends_too(alone):
    began, before = time.monotonic(), sys.gettrace()
    with pytest.raises(judge.Trouble, match=r"was stopped after 0\.2 seconds"):
        judge.run(judge.call, for_ever, 1, limit=0.2)
    assert time.monotonic() - began < LATEST
    assert sys.gettrace() is before


def test_where_no_process_starts_it_works_in_place(monkeypatch):
    class NoPool:
        def schedule(self, *args, **options):
            raise OSError("no processes here")

    def no_pool():
        return NoPool()

    no_pool.cache_clear = lambda: None
    monkeypatch.setattr(judge, "_pool", no_pool)
    judge.warm_up()
    assert judge.run(judge.call, len, [3, 4]) == 2


def test_a_pool_that_broke_is_made_anew():
    judge._pool().stop()
    judge._pool().join()
    assert judge.run(judge.call, lambda x: os.getpid(), 1) != os.getpid()
