"""Writer of the definitions of Kafka's messages that topiarist sends and gets.

Usage: ``python -P -m kafka_messages`` writes ``protocol/messages.json`` from the jar of Kafka's clients, ``--check``
fails if it differs. Each field has a line of its own, so that a newer release of Kafka shows as a short difference.
"""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from support.checkout import ROOT
from support.kafka.jars import fetch_jars

RELEASE = "4.4.0"
"""The release of Kafka with the definitions."""

TARGET = ROOT / "operator" / "topiarist" / "adapters" / "kafka_admin" / "protocol" / "messages.json"

NAMES = (
    *("AddPartitionsToTxn", "AlterPartitionReassignments", "ApiVersions", "ConsumerGroupDescribe"),
    *("CreatePartitions", "CreateTopics", "DeleteTopics", "DescribeCluster", "DescribeConfigs", "DescribeGroups"),
    *("DescribeLogDirs", "DescribeQuorum", "DescribeShareGroupOffsets", "ElectLeaders", "EndTxn", "Fetch"),
    *("FindCoordinator", "IncrementalAlterConfigs", "InitProducerId", "ListGroups", "ListOffsets"),
    *("ListPartitionReassignments", "Metadata", "OffsetFetch", "Produce", "SaslAuthenticate", "SaslHandshake"),
    *("ShareGroupDescribe", "StreamsGroupDescribe"),
)
"""The messages, without ``Request`` and ``Response``."""

_KEPT = ("name", "type", "versions", "nullableVersions", "taggedVersions", "tag", "default")
_NULL = {"CreatePartitionsRequest": "Assignments"}
"""Fields without a default that are null where nothing is given: the brokers choose."""

_COMMENT = re.compile(r"(?m)^\s*//.*$")


def read_definitions(jar: Path, names: Sequence[str] = NAMES) -> dict[str, Any]:
    """Return the definitions of the messages in a jar of Kafka's clients, by name."""
    with zipfile.ZipFile(jar) as archive:
        return {
            f"{name}{kind}": _reduce(f"{name}{kind}", json.loads(_COMMENT.sub("", _read(archive, f"{name}{kind}"))))
            for name in names
            for kind in ("Request", "Response")
        }


def _read(archive: zipfile.ZipFile, name: str) -> str:
    return archive.read(f"common/message/{name}.json").decode()


def _reduce(name: str, message: dict[str, Any]) -> dict[str, Any]:
    common = {each["name"]: each["fields"] for each in message.get("commonStructs", ())}
    _add_defaults(message["fields"], _NULL.get(name, ""))
    return {
        **{key: message[key] for key in ("apiKey", "validVersions", "flexibleVersions")},
        "fields": [_reduce_field(each, common) for each in message["fields"]],
    }


def _add_defaults(fields: list[dict[str, Any]], null: str) -> None:
    for each in fields:
        if each["name"] == null:
            each["default"] = "null"
        _add_defaults(each.get("fields", []), null)


def _reduce_field(field: dict[str, Any], common: dict[str, Any]) -> dict[str, Any]:
    kept = {key: field[key] for key in _KEPT if key in field}
    if "default" in kept:
        kept["default"] = str(kept["default"]).lower() if isinstance(kept["default"], bool) else str(kept["default"])
    fields = field.get("fields", common.get(field["type"].removeprefix("[]")))
    return kept if fields is None else {**kept, "fields": [_reduce_field(each, common) for each in fields]}


def format_definitions(definitions: dict[str, Any]) -> str:
    """Return the text of the file: a line for each field."""
    parts = []
    for name, each in definitions.items():
        head = json.dumps({key: value for key, value in each.items() if key != "fields"})[1:-1]
        parts.append("\n".join((f'"{name}": {{{head}, "fields": [', *_format_fields(each["fields"], 1))) + "]}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _format_fields(fields: list[dict[str, Any]], depth: int) -> Iterator[str]:
    for number, each in enumerate(fields):
        end = "," if number + 1 < len(fields) else ""
        head = json.dumps({key: value for key, value in each.items() if key != "fields"})
        if "fields" not in each:
            yield f"{' ' * depth}{head}{end}"
            continue
        yield f'{" " * depth}{head[:-1]}, "fields": ['
        *inner, last = _format_fields(each["fields"], depth + 1)
        yield from inner
        yield f"{last}]}}{end}"


def main(arguments: list[str]) -> int:
    """Write or check the file; return the exit code."""
    (jar,) = fetch_jars(RELEASE).glob("kafka-clients-*.jar")
    text = format_definitions(read_definitions(jar))
    if arguments != ["--check"]:
        TARGET.write_text(text, encoding="utf-8")
    elif text != TARGET.read_text(encoding="utf-8"):
        print(f"{TARGET} is not that of Kafka {RELEASE}: run python -P -m kafka_messages", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
