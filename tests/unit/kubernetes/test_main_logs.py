"""The operator's log: one JSON object a line for machines, lines for people; and how it writes times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from support.checkout import ROOT
from topiarist.kubernetes.api import client

PROGRAM = """
import logging, sys
from topiarist.kubernetes import main
main.configure_logging(*sys.argv[1:])
log = logging.getLogger("topiarist.kubernetes.manager")
log.info("done", extra={"cluster": "prod", "topic": "orders"})
log.debug("never")
log.warning("two\\nlines and \\u202e")
try:
    raise ValueError("a mistake\\nof ours")
except ValueError:
    log.exception("a pass has failed")
logging.getLogger("kopf.objects").info("noise")
logging.getLogger("kopf._cogs.clients.watching").error("a watch has failed")
logging.getLogger("kazoo.client").error("noise")
"""


def logged(*words: str, program: str = PROGRAM) -> list[str]:
    """The lines that a program logs; all on standard error."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "operator")}
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == ""
    return done.stderr.splitlines()


def test_every_line_is_one_object() -> None:
    """With time, level and logger, what else is known of it, and a traceback as one text."""
    found = [json.loads(line) for line in logged("json")]
    assert [each["message"] for each in found] == [
        "done",
        "two\nlines and \u202e",
        "a pass has failed",
        "a watch has failed",
    ]
    assert [each["level"] for each in found] == ["INFO", "WARNING", "ERROR", "ERROR"]
    assert {each["logger"] for each in found[:3]} == {"topiarist.kubernetes.manager"}
    assert (found[0]["cluster"], found[0]["topic"]) == ("prod", "orders")
    assert "ValueError: a mistake" in found[2]["exception"]
    for each in found:
        assert datetime.fromisoformat(each["time"])


def test_lines_for_people() -> None:
    """With what else is known at their end."""
    first, *others = logged("text")
    assert first.endswith(" INFO done cluster=prod topic=orders")
    assert not any("noise" in line or "never" in line for line in others)


@pytest.mark.parametrize(
    ("level", "messages"),
    [
        pytest.param("debug", ["done", "never", "two", "a pass", "a watch"], marks=pytest.mark.slow),
        ("warning", ["two", "a pass", "a watch"]),
        pytest.param("error", ["a pass", "a watch"], marks=pytest.mark.slow),
    ],
)
def test_the_level_is_a_setting(level: str, messages: list[str]) -> None:
    """What is below it is not logged; others' noise never is."""
    found = [json.loads(line)["message"] for line in logged("json", level)]
    assert [text for text in messages if not any(each.startswith(text) for each in found)] == []
    assert len(found) == len(messages)


def test_times_as_kubernetes_writes_them() -> None:
    """Whole seconds in conditions, microseconds in Events and Leases; always in UTC."""
    moment = datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC)
    assert client.format_time(moment) == "2026-01-31T12:00:00Z"
    assert datetime.fromisoformat(client.format_micro_time_now()).utcoffset() == timedelta(0)
    assert client.format_micro_time_now()[-8] == "."
    assert len(client.format_micro_time_now()) == len("2026-01-31T12:00:00.000005Z")


@pytest.mark.parametrize(
    ("ago", "counts"),
    [(timedelta(0), True), (timedelta(hours=23, minutes=59), True), (timedelta(days=1), False), (timedelta(-1), True)],
)
def test_a_day(ago: timedelta, counts: bool) -> None:
    """Deletions of the last day count, also after the clock was set back."""
    now = datetime(2026, 3, 1, tzinfo=UTC)
    assert client.is_within_a_day(client.format_time(now - ago), now) is counts


def test_nothing_else_is_written_where_the_log_goes() -> None:
    """No module of the operator prints."""
    folder = Path(ROOT, "operator", "topiarist", "kubernetes")
    assert [path.name for path in folder.glob("*.py") if "print(" in path.read_text()] == []
