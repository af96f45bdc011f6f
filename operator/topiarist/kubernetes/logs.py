"""The operator's log on standard error: one JSON object a line, or text for a person."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Mapping

from pythonjsonlogger.json import JsonFormatter

from topiarist.core.values import shown

INTERVAL = 60.0
"""Seconds between two lines about watches that fail."""

_ATTEMPT = re.compile(r"Request attempt #\d+/\d+ failed")
_WATCH = "the API server cannot be watched: this is tried again until it can"

_FIELDS: Mapping[str, str] = {"levelname": "level", "name": "logger", "exc_info": "exception"}


def begin(style: str, level: str = "info") -> None:
    """Log from here on, as ``json`` or ``text``, from this ``level`` up; of kopf only what a person has to know."""
    handler = logging.StreamHandler(sys.stderr)
    if style == "json":
        handler.setFormatter(
            JsonFormatter("%(levelname)s %(name)s %(message)s", rename_fields=_FIELDS, timestamp="time")
        )
    else:
        handler.setFormatter(_Text("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(_Once())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # kopf logs each failed attempt of a watch twice, here and under "watching": one of both is enough.
    logging.getLogger("kopf").setLevel(logging.ERROR)
    logging.getLogger("kopf._cogs.clients.errors").setLevel(logging.CRITICAL)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)


class _Once(logging.Filter):
    """A filter that lets one line a minute through of what kopf logs for each failed attempt of each watch.

    Three watches that cannot connect log four lines a second. The line that is left says what it means.
    """

    def __init__(self) -> None:
        super().__init__()
        self._last = -INTERVAL
        self._dropped = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is logged; a line about a failed attempt gets words of its own."""
        text = record.getMessage()
        if not record.name.startswith("kopf") or not _ATTEMPT.match(text):
            return True
        now = time.monotonic()
        if now - self._last < INTERVAL:
            self._dropped += 1
            return False
        record.msg, record.args, record.levelno, record.levelname = _WATCH, (), logging.WARNING, "WARNING"
        record.exc_info = record.exc_text = None
        vars(record).update(error=shown(text.partition(" -> ")[2] or text, 200), attempts=self._dropped + 1)
        self._last, self._dropped = now, 0
        return True


class _Text(logging.Formatter):
    """A line with what else is known of it at its end."""

    _plain = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "exc_text", "taskName"}

    def format(self, record: logging.LogRecord) -> str:
        more = [f"{key}={value}" for key, value in vars(record).items() if key not in self._plain]
        return " ".join([super().format(record), *more])
