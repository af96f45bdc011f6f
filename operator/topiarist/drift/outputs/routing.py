"""The findings of a report to those who repair them: one file for each team, and a message to a webhook.

``cli.commands.drift`` adds both as last steps of a report, which read its files before it is published. The message is
sent after that: a webhook that refuses it costs no report. The address of a webhook is a secret, and no message has it.
"""

from __future__ import annotations

import json
import re
import time
import urllib.error
from collections.abc import Iterator, Mapping
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, quote, unquote
from urllib.request import Request

from topiarist.adapters.http_client import MAX_ANSWER_BYTES, NoAnswer, authorize, build_opener, exchange, split_address
from topiarist.adapters.tls import read_secret
from topiarist.drift.history import FINDINGS_FILE, RESOLVED_FILE, count_findings
from topiarist.drift.outputs.folder import NO_TEAM
from topiarist.drift.rows import NEW, WORSE
from topiarist.errors import Location, Reason, TopiaristError
from topiarist.model.access import SecretReference
from topiarist.text import format_count, printable

TEAMS_FOLDER = "by-responsible"

_MAX_NAME_BYTES = 220

_BATCH_LINES = 100_000
"""Lines of a report that are in memory at the same time."""


def split_by_responsible(staging: Path) -> None:
    """Write the findings of a report again: one file for each responsible, in their order, in a new folder."""
    (staging / TEAMS_FOLDER).mkdir()
    with (staging / FINDINGS_FILE).open("rb") as lines:
        for _, batch in groupby(enumerate(lines), key=lambda pair: pair[0] // _BATCH_LINES):
            by_team: dict[str | None, list[bytes]] = {}
            for _, line in batch:
                by_team.setdefault(json.loads(line)["responsible"], []).append(line)
            for team, found in by_team.items():
                with (staging / TEAMS_FOLDER / name_team_file(team)).open("ab") as file:
                    file.writelines(found)


def name_team_file(team: str | None) -> str:
    """Return the name of the file of a team: its name, percent-encoded; ``NO_TEAM`` for findings without one.

    No two teams have one name on any file system with names of 255 bytes: a longer name ends with its checksum.
    """
    if team is None:
        return f"{NO_TEAM}.jsonl"
    encoded = quote(team, safe="@ ,+")
    encoded = encoded.replace(".", "%2E", 1) if encoded[:1] == "." else encoded
    if len(encoded) > _MAX_NAME_BYTES:
        whole = re.match(rf"(?:%..|[^%]){{,{_MAX_NAME_BYTES}}}", encoded[:_MAX_NAME_BYTES])
        encoded = f"{whole[0] if whole else ''}~{sha256(team.encode()).hexdigest()[:12]}"
    return f"{encoded}.jsonl"


FORMAT_VERSION = 1

MAX_SENT = 1000
"""New, worse and resolved findings that a message has, of each the first; the counts are those of all."""

TIMEOUT_S = 10.0
"""Seconds for the whole answer of a webhook."""


class News:
    """The new, worse and resolved findings of a report, as far as a message has them."""

    def __init__(self) -> None:
        self._rows: dict[str, list[dict[str, Any]]] = {"new": [], "worse": [], "resolved": []}
        self._counts = dict.fromkeys(self._rows, 0)

    def collect(self, staging: Path) -> None:
        """Read the files of a report in its staging folder."""
        for row in _read_rows(staging / FINDINGS_FILE):
            if kind := {NEW: "new", WORSE: "worse"}.get(row["status"]):
                self._add(kind, row)
        for row in _read_rows(staging / RESOLVED_FILE):
            if count_findings([row]):
                self._add("resolved", row)

    def _add(self, kind: str, row: dict[str, Any]) -> None:
        self._counts[kind] += 1
        if len(self._rows[kind]) < MAX_SENT:
            self._rows[kind].append(row)

    def __bool__(self) -> bool:
        return any(self._counts.values())

    def make_message(self, summary: Mapping[str, Any]) -> dict[str, Any]:
        """Return the message, as ``docs/drift-reference.md`` has it."""
        head = {"formatVersion": FORMAT_VERSION, "asOf": summary["asOf"], "owner": summary["owner"]}
        return {**head, "counts": self._counts, "bySeverity": summary["bySeverity"], **self._rows}


def _read_rows(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as lines:
        yield from map(json.loads, lines)


class Webhook:
    """A webhook at the address that ``reference`` names, ``env:NAME`` or ``file:PATH``.

    A user and a password in the address are sent as Basic authentication. ``is_repeatable``: another run with the same
    options has the same news. Raises ``TopiaristError``: WrongUsage for another reference, CredentialsInvalid for an
    address that is missing or none.
    """

    def __init__(self, reference: str, *, is_repeatable: bool = True) -> None:
        kind, _, name = reference.partition(":")
        if kind not in ("env", "file") or not name:
            message = "--webhook: wanted env:NAME or file:PATH, because the address is a secret"
            raise TopiaristError(Reason.WRONG_USAGE, message, "export the address as a variable, and give its name")
        file, env = ("", name) if kind == "env" else (name, "")
        self._url = _parse_address(read_secret(SecretReference(file, env, Location("--webhook", 0))), reference)
        self._reference = reference
        self._is_repeatable = is_repeatable

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. Raises ``TopiaristError`` (Unreachable) if it is not accepted; the text has no secret."""
        url = self._url
        headers = {"Content-Type": "application/json", "User-Agent": "topiarist"}
        if url.username is not None:
            headers |= authorize(unquote(url.username), unquote(url.password or ""))
        address = url._replace(netloc=url.netloc.rpartition("@")[2]).geturl()
        request = Request(address, json.dumps(message).encode(), headers, method="POST")
        try:
            exchange(build_opener(None), request, time.monotonic() + TIMEOUT_S)
        except urllib.error.HTTPError as error:
            with error:
                words = error.read(MAX_ANSWER_BYTES).decode("utf-8", "replace")
            raise self._error(f"it refuses the findings: HTTP status {error.code}{self._quote(words)}") from None
        except NoAnswer as error:
            raise self._error(f"no answer{self._quote(str(error))}") from None

    def _quote(self, words: str) -> str:
        """Return words of the server for a message, unless they have a part of the address that may be a secret."""
        url = self._url
        secrets = (*url.path.split("/"), url.query, url.username, url.password)
        is_quotable = words.strip() and not any(each and len(each) > 3 and each in words for each in secrets)
        return f": {printable(' '.join(words.split()), 200)}" if is_quotable else ""

    def _error(self, why: str) -> TopiaristError:
        where = f"--webhook {self._reference} ({printable(self._url.hostname or '', 200)})"
        hint = "the report is written; to send its news again, repeat the run with the same --previous or --history"
        if not self._is_repeatable:
            hint = "the report is written; no later run sends its news: its New and Worse findings, and resolved.jsonl"
        return TopiaristError(Reason.UNREACHABLE, f"{where}: {why}", hint)


def _parse_address(text: str, reference: str) -> SplitResult:
    parts = split_address(text)
    if parts is None:
        message = f"--webhook {reference}: found no address there, wanted https://hooks.example.com/PATH"
        raise TopiaristError(Reason.CREDENTIALS_INVALID, message)
    if parts.username is not None and parts.scheme == "http":
        message = f"--webhook {reference}: its user and password would be sent without encryption"
        raise TopiaristError(Reason.CREDENTIALS_INVALID, message, "use https")
    return parts


def describe_sent(message: Mapping[str, Any]) -> str:
    """Return the number of findings of a message in words."""
    counts = message["counts"]
    left = sum(counts.values()) - sum(len(message[kind]) for kind in counts)
    words = ", ".join(f"{counts[kind]:,} {kind}" for kind in counts)
    return words + (f"; {format_count(left, 'finding')} left out" if left else "")
