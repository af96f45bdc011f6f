"""The least work of a plan without changes, as a process of its own: ``python -m benchmarks.cli.floor FOLDER CONNECT``.

It reads all files, parses them by the events of libyaml, reads the znodes of all topics in bulk, and compares numbers
and configs. It checks nothing else: no schema, no duplicate key, no position, no record, no owner, no placement. What
``topiarist plan`` takes more than this is the price of everything it promises.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import yaml

from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.connection.session import open_session
from topiarist.adapters.zookeeper.read.bulk_read import Znode, read_znodes


def parse_documents(text: bytes) -> Iterator[Any]:
    """Yield the documents of a file as plain values, all scalars as text."""
    stack: list[Any] = []
    keys: list[str | None] = []
    for event in yaml.parse(text, Loader=yaml.CLoader):
        if isinstance(event, yaml.ScalarEvent):
            value: Any = event.value
        elif isinstance(event, yaml.MappingStartEvent):
            stack.append({})
            keys.append(None)
            continue
        elif isinstance(event, yaml.SequenceStartEvent):
            stack.append([])
            keys.append(None)
            continue
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            value = stack.pop()
            keys.pop()
        else:
            continue
        if not stack:
            yield value
        elif isinstance(stack[-1], list):
            stack[-1].append(value)
        elif keys[-1] is None:
            keys[-1] = value
        else:
            stack[-1][keys[-1]] = value
            keys[-1] = None


def count_differences(folder: Path, connect: str) -> int:
    """Return the number of topics with other partitions, replicas or configs than their documents."""
    wanted = {}
    for file in sorted(folder.rglob("*.yaml")):
        for document in parse_documents(file.read_bytes()):
            wanted[document["metadata"]["name"]] = document["spec"]
    with closing(open_session(connect, 10.0)) as session:
        names = [*wanted]
        znodes = [path(name) for name in names for path in (paths.topic_path, paths.config_path, paths.record_path)]
        found = [znode.data for znode in read_znodes(session, znodes) if isinstance(znode, Znode)]
    different = 0
    for number, name in enumerate(names):
        lists, config, record = map(json.loads, found[3 * number : 3 * number + 3])
        lists, config = lists["partitions"], config["config"]
        spec = wanted[name]
        same_size = len(lists) == int(spec["partitions"]) and len(lists["0"]) == int(spec["replicationFactor"])
        different += not (same_size and config == spec["config"] and record)
    return different


if __name__ == "__main__":
    sys.exit(int(count_differences(Path(sys.argv[1]), sys.argv[2]) > 0))
