"""The command ``topiarist`` in a process of its own that stops or ends itself at one of its requests, for tests.

    python -m support.kafka.faulty_command KILL EndTxn 1 after apply topics/ --yes

The process sends itself the signal directly before or after the numbered request of this name, to whatever broker. It
counts from the search for the coordinator of its records on: what it sends before asks, also with the names of requests
that write. The lease of its records is short, so that the next run does not wait for long.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from typing import Any

from topiarist.adapters.kafka_admin.connection.connection import Connection
from topiarist.adapters.kafka_admin.records import transactions
from topiarist.cli.main import run

LEASE_S, MARGIN_S = 10.0, 4.0

BEGINS_WRITING = "FindCoordinator"
"""The first request of a run that may write."""


def main(signal_name: str, request: str, number: str, when: str, *words: str) -> int:
    """Run the command, with a signal at one request; return its exit code."""
    transactions.LEASE_S, transactions.MARGIN_S = LEASE_S, MARGIN_S
    original, counts = Connection.call_raw, Counter[str]()

    def send_signal(name: str, moment: str) -> None:
        if (name, counts[name], moment) == (request, int(number), when):
            os.kill(os.getpid(), getattr(signal, f"SIG{signal_name}"))

    def call_raw(self: Connection, message: Any, version: int, timeout: float | None = None) -> bytes:
        name = message.name.removesuffix("Request")
        counts[name] += name == BEGINS_WRITING or counts[BEGINS_WRITING] > 0
        send_signal(name, "before")
        answer = original(self, message, version, timeout)
        send_signal(name, "after")
        return answer

    Connection.call_raw = call_raw  # type: ignore[method-assign,assignment]
    return run([*words])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
