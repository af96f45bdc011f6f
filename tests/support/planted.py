"""Secrets with recognisable values, and the search for them in whatever a test has printed or written.

The hooks at the end are ``conftest``'s: they look at the output of every test, of the processes that it has started, at
what was logged and at the files in its folder.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

_planted: set[str] = set()


def plant(secret: str) -> str:
    """Remember a secret, which from now on may turn up nowhere; gives it back."""
    _planted.add(secret)
    return secret


def must_be_clean(text: str, where: str) -> None:
    """Fail if a secret stands in ``text``."""
    found = sum(secret in text for secret in _planted)
    assert not found, f"{found} planted secret(s) in {where}"


def files_must_be_clean(folder: Path) -> None:
    """Fail if a secret stands in a file below ``folder``."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            must_be_clean(path.read_bytes().decode("utf-8", "replace"), str(path))


def _watched(method: Callable[..., Any], where: str) -> Callable[..., Any]:
    """A method that gives output, with a look at what it gives."""

    def look(*args: Any, **options: Any) -> Any:
        given = method(*args, **options)
        for part in given:
            must_be_clean(part.decode("utf-8", "replace") if isinstance(part, bytes) else part or "", where)
        return given

    return look


def pytest_configure() -> None:
    """Look at output that a test takes for itself."""
    setattr(pytest.CaptureFixture, "readouterr", _watched(pytest.CaptureFixture.readouterr, "the output"))  # noqa: B010
    setattr(subprocess.Popen, "communicate", _watched(subprocess.Popen.communicate, "a process's output"))  # noqa: B010


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:  # noqa: ARG001
    """Look at output and log of a test, and at its own error."""
    report = yield
    try:
        for name, text in (*report.sections, ("the error", report.longreprtext)):
            must_be_clean(text, name)
    except AssertionError as error:
        report.outcome, report.longrepr, report.sections = "failed", str(error), []
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Function) -> Generator[None, None, None]:
    """Look at the files of a test."""
    folder = item.funcargs.get("tmp_path")
    if isinstance(folder, Path):
        files_must_be_clean(folder)
    yield
