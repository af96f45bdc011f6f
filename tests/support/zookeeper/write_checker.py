"""An independent checker that compares a cluster before and after, and reports forbidden changes.

It shares no code with the product: its reader is ``wire``, and its knowledge of Kafka's znodes is written a second time
here. It runs after every test that writes, above all after tests with injected faults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from support.zookeeper.independent_client import Node, read_tree

Tree = Mapping[str, Node]

_TOPICS, _CONFIGS, _CHANGES = "/brokers/topics", "/config/topics", "/config/changes"

_OWN_ROOT = "/topiarist"

_MUTABLE_PATHS = (
    "/brokers/ids",
    "/controller",
    "/migration",
    "/feature",
    "/admin",
    "/config/brokers",
    _TOPICS,
    _CONFIGS,
    _CHANGES,
    _OWN_ROOT,
)
"""Where a scenario's other actors, or we, may change something; everywhere else nothing changes at all."""


def read_nodes(connect: str) -> Tree:
    """Return all znodes below the chroot of ``connect``, by path."""
    return read_tree(connect)


def decode_topics(tree: Tree) -> dict[str, dict[str, Any]]:
    """Return the topics of a tree by name: the decoded topic znode."""
    return {name: json.loads(node.data or b"") for name, node in _children(tree, _TOPICS)}


def decode_configs(tree: Tree) -> dict[str, dict[str, str]]:
    """Return the overrides of the topics of a tree, by name."""
    return {name: json.loads(node.data or b"")["config"] for name, node in _children(tree, _CONFIGS)}


def find_problems(before: Tree, after: Tree, allowed: Collection[str]) -> list[str]:
    """Return the problems of the changes from ``before`` to ``after`` if only ``allowed`` topics may change.

    The test must remove its intended deletions from ``before``.
    """
    return [
        *_find_losses(before, after),
        *_find_foreign_changes(before, after, allowed),
        *_find_missing_notifications(before, after),
        *_find_invalid_formats(before, after),
        *_find_writes_elsewhere(before, after),
    ]


def _children(tree: Tree, parent: str) -> Iterator[tuple[str, Node]]:
    for path, node in sorted(tree.items()):
        above, _, name = path.rpartition("/")
        if above == parent:
            yield name, node


def _find_losses(before: Tree, after: Tree) -> Iterator[str]:
    """Report lost topics and partitions, changed replica lists, and lost or replaced topic ids."""
    now = dict(_children(after, _TOPICS))
    for name, node in _children(before, _TOPICS):
        if name not in now:
            yield f"{name}: the topic is gone"
            continue
        old, new = _json(node), _json(now[name])
        if now[name].czxid != node.czxid:
            yield f"{name}: the topic was deleted and made again"
        for partition, replicas in old.get("partitions", {}).items():
            found = new.get("partitions", {}).get(partition)
            if found != replicas:
                yield f"{name}: partition {partition} was on {replicas}, is on {found}"
        if old.get("topic_id", new.get("topic_id")) != new.get("topic_id"):
            yield f"{name}: its id was {old.get('topic_id')}, is {new.get('topic_id')}"
        for field in old.keys() - new.keys():
            yield f"{name}: its field {field} is gone"


def _find_foreign_changes(before: Tree, after: Tree, allowed: Collection[str]) -> Iterator[str]:
    """Report changed bytes of other topics, and new other topics."""
    for parent in (_TOPICS, _CONFIGS, f"{_OWN_ROOT}/topics"):
        old, new = dict(_children(before, parent)), dict(_children(after, parent))
        for name in sorted((old.keys() | new.keys()) - set(allowed)):
            was, now = old.get(name), new.get(name)
            if was is None or now is None or was.data != now.data or was.czxid != now.czxid:
                yield f"{name}: {parent}/{name} was not to be touched: {was and was.data!r} became {now and now.data!r}"


def _find_missing_notifications(before: Tree, after: Tree) -> Iterator[str]:
    """Report changes of an existing topic's config without a notification that is at least as new as the change."""
    announced: dict[str, int] = {}
    for name, node in _children(after, _CHANGES):
        entity = _json(node).get("entity_path", "")
        announced[entity] = max(announced.get(entity, 0), node.czxid)
        if not re.fullmatch(r"config_change_[0-9]{10}", name):
            yield f"{_CHANGES}/{name}: brokers cannot read past this name"
    old = dict(_children(before, _CONFIGS))
    for name, node in _children(after, _CONFIGS):
        existed = f"{_TOPICS}/{name}" in before
        changed = name not in old or _json(old[name]) != _json(node)
        if existed and changed and announced.get(f"topics/{name}", 0) < node.mzxid:
            yield f"{name}: its config changed and no notification says so"


def _find_invalid_formats(before: Tree, after: Tree) -> Iterator[str]:
    """Report writes since ``before`` that Kafka could not have written."""
    for path, node in sorted(after.items()):
        old = before.get(path)
        if old is not None and old.mzxid == node.mzxid:
            continue
        parent, _, name = path.rpartition("/")
        check = {_TOPICS: _topic, _CONFIGS: _config, _CHANGES: _notification, f"{_OWN_ROOT}/topics": _record}.get(
            parent
        )
        if check:
            yield from (f"{name}: {path} {diagnostic}: {node.data!r}" for diagnostic in check(_json(node)))
        if path.startswith(f"{_CONFIGS}/") and path.count("/") > 3:
            yield f"{path}: a node below a topic's config keeps Kafka from deleting the topic"


def _topic(value: dict[str, Any]) -> Iterator[str]:
    partitions = value.get("partitions")
    if value.get("version") not in (2, 3) or not isinstance(partitions, dict):
        yield "is not a topic"
        return
    if {"adding_replicas", "removing_replicas"} - value.keys():
        yield "lacks a field"
    if set(partitions) != {str(number) for number in range(len(partitions))} or not partitions:
        yield "has a hole in its partitions"
    for replicas in partitions.values():
        if not replicas or len(set(replicas)) != len(replicas) or any(type(replica) is not int for replica in replicas):
            yield f"has the impossible replicas {replicas}"
    if "topic_id" in value and not re.fullmatch(r"[A-Za-z0-9_-]{22}", str(value["topic_id"])):
        yield "has an impossible id"
    if ("topic_id" in value) > (value["version"] == 3):
        yield "has an id and is not of version 3"


def _config(value: dict[str, Any]) -> Iterator[str]:
    config = value.get("config")
    if value.get("version") != 1 or not isinstance(config, dict):
        yield "is not a config"
    elif not all(isinstance(text, str) for text in config.values()):
        yield "has values that are no strings"


def _notification(value: dict[str, Any]) -> Iterator[str]:
    if value.keys() != {"version", "entity_path"} or value["version"] != 2:
        yield "is not a notification"
    elif not re.fullmatch(r"(topics|brokers)/[^/]+", value["entity_path"]):
        yield "names no entity"


def _record(value: dict[str, Any]) -> Iterator[str]:
    """Check the form of a record: its owner, sorted keys, and the applied values of some of these keys."""
    config, applied = (
        value.get("config"),
        value.get("applied", {"partitions": None, "config": {}, "removeUnmanaged": True}),
    )
    if not value.keys() <= {"version", "owner", "config", "ensure", "applied", "memory"} or value.get("version") != 1:
        yield "has unknown fields, or another version"
    elif not isinstance(value.get("owner"), str) or not isinstance(config, list):
        yield "is not a record"
    elif config != sorted(set(config)):
        yield "has keys that are not sorted"
    elif value.get("ensure", "Absent") != "Absent" or value.get("memory", "some") in ({}, None):
        yield "has a mark that is none, or an empty memory"
    elif applied.keys() != {"partitions", "config", "removeUnmanaged"}:
        yield "has no applied spec"
    elif not applied["config"].keys() <= set(config) or not all(isinstance(x, str) for x in applied["config"].values()):
        yield "has values that are no text, or of keys that it does not list"


def _find_writes_elsewhere(before: Tree, after: Tree) -> Iterator[str]:
    for path in sorted(before.keys() | after.keys()):
        if path == "/" or path.startswith(_MUTABLE_PATHS):
            continue
        was, now = before.get(path), after.get(path)
        if was is None or now is None or (was.data, was.czxid) != (now.data, now.czxid):
            yield f"{path}: nobody was to touch this: {was and was.data!r} became {now and now.data!r}"


def _json(node: Node) -> dict[str, Any]:
    """Return the object of a znode; an empty object without data, which fails the check of its form."""
    try:
        value = json.loads(node.data or b"")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
