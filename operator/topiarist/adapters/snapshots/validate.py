"""Validation of snapshot rows: strict JSON, the row's schema, and rules that no schema can express.

``files`` and ``caching_reader`` call it. jsonschema-rs validates by ``schemas/snapshot.json``; ``schema.explain``
explains an invalid row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from topiarist.adapters.snapshots.codec import FORMAT_VERSION, Row
from topiarist.adapters.snapshots.times import parse_time
from topiarist.adapters.strict_json import JsonError, decode_json
from topiarist.schema import load
from topiarist.text import quote

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator


_FIRST_KIND, _OTHER_KINDS = "cluster", ("topic", "record", "usage")
_MAX_ERRORS_OF_ROW = 5
"""Errors of one row in a message."""


class RowError(Exception):
    """A line that is not a row, or a row at the wrong position; the message says what was found and wanted."""


def parse_row(line: bytes) -> Row:
    """Parse a line as a JSON object: valid Unicode, no duplicate keys, no fractions."""
    try:
        value = decode_json(line.rstrip(b"\n"))
    except JsonError as error:
        raise RowError(f"{error}, wanted a row") from None
    if not isinstance(value, dict):
        raise RowError("found JSON that is not an object, wanted a row")
    return value


class RowChecker:
    """A checker of the rows of one file, in order.

    ``names`` are the topic names of the rows so far, without those of usage.
    """

    def __init__(self) -> None:
        self._first_row: Row | None = None
        self.names: set[str] = set()
        self._names_of_usage: set[str] = set()

    def check(self, row: Row) -> None:
        """Raise ``RowError`` unless the row is valid as the next row."""
        wanted = _OTHER_KINDS if self._first_row else (_FIRST_KIND,)
        if row.get("kind") not in wanted:
            raise RowError(f"kind: {_describe_found(row.get('kind'))}, wanted {' or '.join(wanted)}")
        version = row.get("formatVersion")
        if type(version) is int and version > FORMAT_VERSION:
            message = f"found {version}, wanted {FORMAT_VERSION}: a newer release of topiarist wrote it"
            raise RowError(f"formatVersion: {message}")
        if not _matches_schema(row):
            from topiarist.schema import explain  # imports jsonschema, which a valid row does not need

            problems = explain.explain_errors(_row_schema(row["kind"]), row)[:_MAX_ERRORS_OF_ROW]
            raise RowError("; ".join(problem.message for problem in problems))
        if problem := next(self._row_errors(row), ""):
            raise RowError(problem)
        self._first_row = self._first_row or row

    def _row_errors(self, row: Row) -> Iterator[str]:
        if self._first_row is None:
            yield from _cluster_row_errors(row)
            return
        for field in ("cluster", "takenAt"):
            if row[field] != self._first_row[field]:
                wanted = quote(self._first_row[field])
                yield f"{field}: {_describe_found(row[field])}, wanted {wanted} as in the first row"
        names = self._names_of_usage if row["kind"] == "usage" else self.names
        if row["topic"] in names:
            yield f"topic: {_describe_found(row['topic'])} twice"
        names.add(row["topic"])
        if row["kind"] == "usage" and not self._first_row.get("evidence"):
            yield "kind: found 'usage', and the first row has no evidence"
        yield from _other_row_errors(row)


def is_valid_row(row: Row) -> bool:
    """Return whether a topic or record row is valid by itself, in any file."""
    return row.get("kind") in _OTHER_KINDS and _matches_schema(row) and not any(_other_row_errors(row))


def _cluster_row_errors(row: Row) -> Iterator[str]:
    times = {field: row.get(field) for field in ("takenAt", "requestedAt", "batchAt")}
    times["evidence.readAt"] = row["evidence"]["readAt"] if row.get("evidence") else None
    yield from _time_errors(times)
    yield from _order_errors("brokers", [broker["id"] for broker in row["brokers"]])


def _time_errors(times: Mapping[str, str | None]) -> Iterator[str]:
    for field, text in times.items():
        try:
            if text is not None:
                parse_time(text)
        except ValueError:
            yield f"{field}: {_describe_found(text)}, wanted a valid time"


def _usage_row_errors(row: Row) -> Iterator[str]:
    lengths = {field: len(row[field]) for field in ("ends", "begins", "bytes", "oldestAt", "newestAt")}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{count:,} {field}" for field, count in lengths.items())
        yield f"ends: found {found}, wanted one of each for each partition"
    times = {f"{side}.{field}": row[side][field] for side in ("written", "read") for field in _SIDE_TIMES}
    curve = [point["at"] for point in row["curve"]]
    times |= {f"curve[{index}].at": text for index, text in enumerate(curve)}
    yield from _time_errors(times)
    yield from _order_errors("curve", curve)


_SIDE_TIMES = ("after", "before", "observedSince")


def _other_row_errors(row: Row) -> Iterator[str]:
    if row["kind"] == "usage":
        yield from _usage_row_errors(row)
        return
    if row["kind"] == "topic":
        yield from _topic_row_errors(row)
    if row["record"]:
        yield from _order_errors("record.config", row["record"]["config"])


def _topic_row_errors(row: Row) -> Iterator[str]:
    if (row["readError"] is None) != (row["readErrorPath"] is None):
        yield "readError: found one of readError and readErrorPath, wanted both or neither"
    if (row["readError"] is None) == (row["identity"] is None):
        yield "identity: found both an identity and a readError, or neither, wanted one of them"
    partitions, ids = range(len(row["replicas"])), row["partitionIds"]
    if ids is not None:
        yield from _order_errors("partitionIds", ids)
        if len(ids) != len(partitions):
            yield f"partitionIds: found {len(ids):,}, wanted {len(partitions):,}: one for each list in replicas"
        if ids == list(partitions):
            yield "partitionIds: found 0 to n-1, wanted null"
    yield from _order_errors("reassigningPartitions", row["reassigningPartitions"])
    if not set(row["reassigningPartitions"]) <= set(partitions if ids is None else ids):
        yield "reassigningPartitions: found a partition that the topic does not have"


def _order_errors(field: str, values: Sequence[Any]) -> Iterator[str]:
    if any(value >= following for value, following in pairwise(values)):
        yield f"{field}: found values that are duplicate or not in ascending order"


def _matches_schema(row: Row) -> bool:
    try:
        return _build_validator(row["kind"]).is_valid(row)
    except ValueError:  # a number that jsonschema-rs cannot represent
        return False


@cache
def _build_validator(kind: str) -> Draft7Validator:
    from jsonschema_rs import Draft7Validator

    return Draft7Validator(_row_schema(kind))


@cache
def _row_schema(kind: str) -> dict[str, Any]:
    """Return the schema of one kind of row.

    Errors of one kind can be explained; errors of a choice between all kinds cannot.
    """
    definitions: Mapping[str, Any] = load.load_schema("snapshot")["definitions"]
    return {**definitions[kind], "definitions": definitions}


def _describe_found(value: object) -> str:
    return f"found {quote(value)}" if isinstance(value, str) else "found no text"
