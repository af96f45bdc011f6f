"""The operator's log on standard error: one JSON object a line, or text for a person."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping

from pythonjsonlogger.json import JsonFormatter

_FIELDS: Mapping[str, str] = {"levelname": "level", "name": "logger", "exc_info": "exception"}


def begin(style: str) -> None:
    """Log from here on, as ``json`` or ``text``; of kopf only what a person has to know."""
    handler = logging.StreamHandler(sys.stderr)
    if style == "json":
        handler.setFormatter(
            JsonFormatter("%(levelname)s %(name)s %(message)s", rename_fields=_FIELDS, timestamp="time")
        )
    else:
        handler.setFormatter(_Text("%(asctime)s %(levelname)s %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    # It tells each attempt of a watch twice while there is no server; we say once that it cannot be asked.
    logging.getLogger("kopf").setLevel(logging.ERROR)
    logging.getLogger("kopf._cogs.clients.errors").setLevel(logging.CRITICAL)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)


class _Text(logging.Formatter):
    """A line with what else is known of it at its end."""

    _plain = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "exc_text", "taskName"}

    def format(self, record: logging.LogRecord) -> str:
        more = [f"{key}={value}" for key, value in vars(record).items() if key not in self._plain]
        return " ".join([super().format(record), *more])
