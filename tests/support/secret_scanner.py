"""Secrets with recognisable values, and a search for them in all output and files of a test.

The hooks at the end belong to ``conftest``: they check the output of every test and of its processes, the log, and the
files in its folder.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

_registered_secrets: set[str] = set()


def register_secret(secret: str) -> str:
    """Register and return a secret, which from then on must not appear anywhere."""
    _registered_secrets.add(secret)
    return secret


def assert_no_secrets(output: str | bytes, where: str) -> None:
    """Fail if an output contains a secret."""
    raw = output.encode("utf-8", "replace") if isinstance(output, str) else output
    found = sum(secret.encode() in raw for secret in _registered_secrets)
    assert not found, f"{found} planted secret(s) in {where}"


def assert_no_secrets_in_files(folder: Path) -> None:
    """Fail if a file below ``folder`` contains a secret."""
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert_no_secrets(path.read_bytes(), str(path))


def _scan_output(method: Callable[..., Any], where: str) -> Callable[..., Any]:
    """Wrap a method that returns output with a check of this output."""

    def look(*args: Any, **options: Any) -> Any:
        given = method(*args, **options)
        for part in given:
            assert_no_secrets(part or "", where)
        return given

    return look


def pytest_configure() -> None:
    """Check output that a test captures itself."""
    setattr(pytest.CaptureFixture, "readouterr", _scan_output(pytest.CaptureFixture.readouterr, "the output"))  # noqa: B010
    setattr(subprocess.Popen, "communicate", _scan_output(subprocess.Popen.communicate, "a process's output"))  # noqa: B010


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:  # noqa: ARG001
    """Check the output, the log and the error of a test."""
    report = yield
    try:
        for name, text in (*report.sections, ("the error", report.longreprtext)):
            assert_no_secrets(text, name)
    except AssertionError as error:
        report.outcome, report.longrepr, report.sections = "failed", str(error), []
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Function) -> Generator[None, None, None]:
    """Check the files of a test."""
    folder = item.funcargs.get("tmp_path")
    if isinstance(folder, Path):
        assert_no_secrets_in_files(folder)
    yield
