"""What makes a line of a snapshot a row: JSON with one meaning, its schema, and what no schema can say.

jsonschema-rs decides by ``schemas/snapshot.json``; what is wrong with a row is explained as for manifests.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from topiarist import schema
from topiarist.adapters.snapshot.rows import FORMAT_VERSION, TIME, Row
from topiarist.core.values import quoted

if TYPE_CHECKING:
    from jsonschema_rs import Draft7Validator

_FIRST, _OTHERS = "cluster", ("topic", "record")
_PROBLEMS = 5
"""Problems of one row that are shown."""


class Odd(Exception):
    """A line that is no row, or one that does not belong where it stands; says why."""


def parse(line: bytes) -> Row:
    """The JSON object that a line is: whole characters, no key twice, no fraction (a snapshot has none)."""
    try:
        value = _decoder.decode(line.decode())
        if b"\\u" in line:
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise Odd("found half of a character (a lone surrogate), wanted a row") from None
    except UnicodeDecodeError as error:
        raise Odd(f"found a byte that is no UTF-8 (at {error.start + 1}), wanted a row") from None
    except json.JSONDecodeError as error:
        raise Odd(f"found no JSON ({error.msg} at character {error.pos + 1}), wanted a row") from None
    except RecursionError:
        raise Odd("found JSON that is nested too deep, wanted a row") from None
    except ValueError:  # CPython's limit on the digits of an integer
        raise Odd("found a number beyond any use, wanted a row") from None
    if not isinstance(value, dict):
        raise Odd("found JSON that is no object, wanted a row")
    return value


class Checks:
    """The rows of one file, checked one after the other in their order; ``names`` are those that have been there."""

    def __init__(self) -> None:
        self._head: Row | None = None
        self.names: set[str] = set()

    def check(self, row: Row) -> None:
        """Raise ``Odd`` unless this can be the next row."""
        wanted = _OTHERS if self._head else (_FIRST,)
        if row.get("kind") not in wanted:
            raise Odd(f"kind: {_found(row.get('kind'))}, wanted {' or '.join(wanted)}")
        _require_format(row)
        if not _valid(row):
            _explain(row)
        if problem := next(self._problems(row), ""):
            raise Odd(problem)
        self._head = self._head or row

    def _problems(self, row: Row) -> Iterator[str]:
        if self._head is None:
            yield from _problems_of_cluster(row)
            return
        for field in ("cluster", "takenAt"):
            if row[field] != self._head[field]:
                yield f"{field}: {_found(row[field])}, wanted {quoted(self._head[field])} as in the first row"
        if row["topic"] in self.names:
            yield f"topic: {_found(row['topic'])} a second time"
        self.names.add(row["topic"])
        yield from _problems_of_other(row)


def is_sound(row: Row) -> bool:
    """Whether nothing is wrong with the row of a topic or record in itself, whatever file it stands in."""
    return row.get("kind") in _OTHERS and _valid(row) and not any(_problems_of_other(row))


def _require_format(row: Row) -> None:
    version = row.get("formatVersion")
    if type(version) is int and version > FORMAT_VERSION:
        raise Odd(f"formatVersion: found {version}, wanted {FORMAT_VERSION}: a newer topiarist has made it")


def _problems_of_cluster(row: Row) -> Iterator[str]:
    try:
        datetime.strptime(row["takenAt"], TIME)
    except ValueError:
        yield f"takenAt: {_found(row['takenAt'])}, wanted a time that there is"
    yield from _ascending("brokers", [broker["id"] for broker in row["brokers"]])


def _problems_of_other(row: Row) -> Iterator[str]:
    if row["kind"] == "topic":
        yield from _problems_of_topic(row)
    if row["record"]:
        yield from _ascending("record.config", row["record"]["config"])


def _problems_of_topic(row: Row) -> Iterator[str]:
    if (row["fault"] is None) != (row["faultAt"] is None):
        yield "fault: found one of fault and faultAt, wanted both or none"
    if (row["fault"] is None) == (row["identity"] is None):
        yield "identity: found one beside a fault, or neither, wanted one of them"
    partitions, ids = range(len(row["replicas"])), row["partitionIds"]
    if ids is not None:
        yield from _ascending("partitionIds", ids)
        if len(ids) != len(partitions):
            yield f"partitionIds: found {len(ids):,}, wanted {len(partitions):,}: one for each list in replicas"
        if ids == list(partitions):
            yield "partitionIds: found 0 to n-1, wanted null"
    yield from _ascending("movingPartitions", row["movingPartitions"])
    if not set(row["movingPartitions"]) <= set(partitions if ids is None else ids):
        yield "movingPartitions: found a partition that the topic does not have"


def _ascending(field: str, values: Sequence[Any]) -> Iterator[str]:
    if any(one >= other for one, other in pairwise(values)):
        yield f"{field}: found an order that is not ascending, or one twice"


def _explain(row: Row) -> NoReturn:
    from topiarist.schema import explain

    problems = explain.problems(_schema(row["kind"]), row)[:_PROBLEMS]
    raise Odd("; ".join(problem.message for problem in problems))


def _valid(row: Row) -> bool:
    try:
        return _validator(row["kind"]).is_valid(row)
    except ValueError:  # a number that is out of all bounds
        return False


@cache
def _validator(kind: str) -> Draft7Validator:
    from jsonschema_rs import Draft7Validator

    return Draft7Validator(_schema(kind))


@cache
def _schema(kind: str) -> dict[str, Any]:
    """The schema of one kind of row, which can be explained, as the choice between all of them could not."""
    definitions: Mapping[str, Any] = schema.schema("snapshot")["definitions"]
    return {**definitions[kind], "definitions": definitions}


def _found(value: object) -> str:
    return f"found {quoted(value)}" if isinstance(value, str) else "found no text"


def _unique(pairs: Sequence[tuple[str, object]]) -> Row:
    row = dict(pairs)
    if len(row) < len(pairs):
        raise Odd("found a key twice in one object, wanted a row")
    return row


def _no_number(text: str) -> NoReturn:
    raise Odd(f"found {quoted(text)}, wanted whole numbers only")


_decoder = json.JSONDecoder(parse_float=_no_number, parse_constant=_no_number, object_pairs_hook=_unique)
