"""The JVM's output while Spark starts: it is hidden, unless the start fails."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from topiarist.drift.spark.session import suppress_banner

GREETING = "WARNING: Using incubator modules"


def say(words: str, code: int = 0) -> None:
    """Print to stderr in a child process that ends with ``code``; raise if the code is an error."""
    program = f"import sys; print({words!r}, file=sys.stderr); sys.exit({code})"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_greeting_is_not_shown(capfd: pytest.CaptureFixture[str]) -> None:
    """The JVM's output at the start is never shown; topiarist's own messages after the start are."""
    with suppress_banner():
        say(GREETING)
    print("and on", file=sys.stderr)
    assert capfd.readouterr().err == "and on\n"


def test_why_it_did_not_start_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    """If the start fails, the hidden output is shown before the error."""
    with pytest.raises(subprocess.CalledProcessError), suppress_banner():
        say("there is no Java", code=1)
    assert capfd.readouterr().err == "there is no Java\n"


def test_stderr_is_what_it_was() -> None:
    """After the start stderr is the same file as before; during the start it is another."""
    before = os.fstat(2)
    with suppress_banner():
        assert os.fstat(2).st_ino != before.st_ino
    assert (os.fstat(2).st_dev, os.fstat(2).st_ino) == (before.st_dev, before.st_ino)
