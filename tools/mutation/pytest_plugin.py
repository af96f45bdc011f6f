"""A pytest plugin that orders the tests, logs failures and durations, and serves mutants from one collection.

Single tests run in the requested order; within a file, literal cases run before properties. Properties have the same
examples in each run, and the first failing example is enough, however large it is.

With ``SERVE`` in the environment, the process collects the tests and then answers requests instead of running them. For
each request it forks: the child replaces the code of the mutant's functions and runs the requested tests until one
fails. So a mutant costs neither imports nor a collection.
"""

from __future__ import annotations

import gc
import json
import os
import re
import resource
import signal
import threading
import time
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from importlib import import_module
from inspect import CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from hypothesis import Phase, settings
from mutation.fork_runner import MEMORY_BYTES, own_time, wait_for
from mutation.workspace import EXHAUSTED_SUFFIX, REFUSED_SUFFIX

settings.register_profile(
    "one-example", deadline=None, derandomize=True, database=None, phases=(Phase.explicit, Phase.generate)
)

_EXAMPLES = int(os.environ.get("EXAMPLES", "0"))
"""The most examples of a property, whatever its own settings are; 0 is no limit."""

if _EXAMPLES:
    settings.register_profile("one-example", settings.get_profile("one-example"), max_examples=_EXAMPLES)
    _create_settings = settings.__init__

    def _create_limited_settings(self: settings, parent: settings | None = None, **changes: Any) -> None:
        if "max_examples" in changes:
            changes["max_examples"] = min(changes["max_examples"], _EXAMPLES)
        _create_settings(self, parent, **changes)

    type.__setattr__(settings, "__init__", _create_limited_settings)

_TEST_CPU_S = float(os.environ.get("TEST_CPU_S", "0"))
"""CPU seconds that a test may take, or 0. A busy machine does not change them."""

_IDLE_S, _IDLE_CPU_S = 20, 0.02
"""Seconds in which a test that goes on uses more CPU than this, also on a busy machine; one that waits does not."""

_MISSING_ARGUMENT = re.compile(r"TypeError: [^\n]*missing \d+ required [a-z-]+ arguments?")

_seconds: dict[str, float] = {}
_failed: list[str] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the requested tests, in the requested order.

    A requested test that no longer exists has other parameters: all tests of its function take its place.
    """
    # A process that a test starts inherits the environment, and cannot be started with so long a value.
    order = [name for name in os.environ.pop("ORDER", "").split("\n") if name]
    if not order:
        return
    known = {item.nodeid for item in items}
    place = {name: number for number, name in enumerate(order)}
    changed = {name.partition("[")[0]: number for name, number in place.items() if name not in known}

    def rank(item: pytest.Item) -> int | None:
        names = (item.nodeid, item.nodeid.partition("::")[0])
        found = next((place[name] for name in names if name in place), None)
        return changed.get(item.nodeid.partition("[")[0]) if found is None else found

    ranks = {item: number for item in items if (number := rank(item)) is not None}
    items[:] = sorted(ranks, key=lambda item: (ranks[item], item.get_closest_marker("hypothesis") is not None))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """End a test that uses more CPU than it may."""
    signal.signal(signal.SIGPROF, _end_test)
    signal.setitimer(signal.ITIMER_PROF, _TEST_CPU_S)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _end_test(*_: object) -> None:
    pytest.fail("Timeout: the test uses too much CPU, or waits")


def _end_waiting_test() -> None:
    """End tests that wait, as long as the process lives."""
    while True:
        before = time.process_time()
        time.sleep(_IDLE_S)
        if time.process_time() - before < _IDLE_CPU_S:
            os.kill(os.getpid(), signal.SIGPROF)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note the duration of a test with its fixtures, without the time in which other processes ran."""
    began = own_time(os.getpid())
    result = yield
    _seconds[item.nodeid] = own_time(os.getpid()) - began
    return result


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Log a failure."""
    _log_failure(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Log a test file that cannot be loaded."""
    _log_failure(report)


def _log_failure(report: pytest.CollectReport | pytest.TestReport) -> None:
    if report.failed:
        _failed.append(report.nodeid)
        text = str(report.longrepr)
        suffix = ""
        if "Failed: Timeout" in text or "MemoryError" in text:
            suffix = EXHAUSTED_SUFFIX
        elif _MISSING_ARGUMENT.search(text):
            suffix = REFUSED_SUFFIX
        with Path(os.environ["RED"]).open("a", encoding="utf-8") as log:
            log.write(f"{report.nodeid}{suffix}\n")


def pytest_sessionfinish() -> None:
    """Log the durations."""
    with Path(os.environ["SECONDS"]).open("a", encoding="utf-8") as log:
        log.writelines(f"{took}\t{test}\n" for test, took in _seconds.items())


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Answer requests until there are no more; without ``SERVE``, let pytest run the tests."""
    if "SERVE" not in os.environ:
        return None
    requests, answers = map(int, os.environ.pop("SERVE").split(","))
    items = {item.nodeid: item for item in session.items}
    for module in os.environ["IMPORTED"].split():
        import_module(module)
    functions = _index_functions()
    gc.collect()
    gc.freeze()
    with os.fdopen(requests, encoding="utf-8") as lines, os.fdopen(answers, "w", encoding="utf-8") as out:
        print("ready", file=out, flush=True)
        for line in lines:
            request = json.loads(line)
            child = os.fork()
            if child == 0:
                _run_child(session, [items[test] for test in request["tests"]], request, functions)
            print(wait_for(child, request["seconds"]), file=out, flush=True)
    return True


_FunctionKey = tuple[str, str, int]


def _index_functions() -> Mapping[_FunctionKey, Sequence[FunctionType]]:
    """Return all functions of this process by the file, name and line of their code."""
    found: defaultdict[_FunctionKey, list[FunctionType]] = defaultdict(list)
    gc.unfreeze()  # objects that are frozen after a collection of tests would be left out
    for each in gc.get_objects():
        if type(each) is FunctionType:
            code = each.__code__
            found[code.co_filename, code.co_qualname, code.co_firstlineno].append(each)
    return found


def _run_child(
    session: pytest.Session,
    items: Sequence[pytest.Item],
    request: Mapping[str, Any],
    functions: Mapping[_FunctionKey, Sequence[FunctionType]],
) -> None:
    """Run tests under a mutant until one fails, and end the process with the code that pytest ends with."""
    os.setsid()
    threading.Thread(target=_end_waiting_test, daemon=True).start()
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    code = 70
    try:
        _replace_code(request["path"], request["sources"], functions)
        for item, following in zip(items, [*items[1:], None], strict=True):
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if _failed:
                break
        code = 1 if _failed else 0
        session._setupstate.teardown_exact(None)
    finally:
        os._exit(code)


def _replace_code(path: str, sources: Sequence[str], functions: Mapping[_FunctionKey, Sequence[FunctionType]]) -> None:
    """Give the functions of a module the code that they have in the mutated source."""
    modules = (compile(source, path, "exec", dont_inherit=True) for source in sources)
    changed = replaced = 0
    for old, new in zip(*map(_outer_functions, modules), strict=True):
        assert old.co_qualname == new.co_qualname
        changed += old != new
        for function in functions.get((path, old.co_qualname, old.co_firstlineno), ()):
            replaced += old != new
            function.__code__ = new
    if changed and not replaced:
        # A function that no test has reached yet, such as one of a class that is made later, has no object here.
        raise LookupError(f"{path}: no function of this process has the changed code")


def _outer_functions(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of all functions of a module and its classes, in order."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            if each.co_flags & CO_OPTIMIZED:  # a function and no class
                yield each
            else:
                yield from _outer_functions(each)
