"""Small builders for tests of the planner: manifests as a person would write them, and clusters as they may stand.

Specs always come from a manifest by ``merge``, so that a test says what it wants in the manifest's own words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from topiarist.core.change import Plan, TopicPlan, UpdateConfig
from topiarist.core.evolve import Now, evolve
from topiarist.core.names import unify
from topiarist.core.plan import Run, make_plan
from topiarist.core.spec import ClusterSpec, Manifest, TopicSpec, merge
from topiarist.core.state import Broker, ClusterState, Replicas, TopicRecord, TopicState
from topiarist.errors import Path, Place

RACKS = tuple(Broker(number, rack) for number, rack in enumerate("abcabc", start=1))
"""Six brokers in three racks."""

NO_RACKS = tuple(Broker(number) for number in range(1, 5))
"""Four brokers without racks."""

NAMED = ClusterSpec(name="prod", cluster_id="ID", release=(3, 9))
"""A cluster whose release is declared."""

PLAIN = Run()
"""A run without any flag."""


@dataclass(frozen=True)
class Tree:
    """A document's places: the line of a path is its number in the document, read from top to bottom."""

    file: str
    document: Mapping[str, Any]

    def place(self, path: Path = ()) -> Place:
        """The place of ``path`` or of its nearest ancestor in the document."""
        lines = {step: line for line, step in enumerate(_walk(self.document), start=1)}
        while path not in lines:
            path = path[:-1]
        return Place(self.file, lines[path], len(path) + 1)


def _walk(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from _walk(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _walk(child, (*path, index))


def manifest(name: str, namespace: str = "", **spec: Any) -> Manifest:
    """The ``Topic`` document ``name`` with these fields, in the file ``NAME.yaml``."""
    document = {"kind": "Topic", "metadata": {"name": name}, "spec": spec}
    return Manifest("Topic", name, namespace, {}, spec, Tree(f"{name}.yaml", document))


def cluster(name: str, **fields: Any) -> ClusterSpec:
    """The ``Cluster`` document ``name``, in the file ``NAME.yaml``."""
    document = {"kind": "Cluster", "metadata": {"name": name}, "spec": {}}
    return ClusterSpec(name=name, source=Tree(f"{name}.yaml", document), **fields)


def spec(name: str = "orders", on: ClusterSpec = NAMED, **fields: Any) -> TopicSpec:
    """What the document ``name`` with these fields asks for on a cluster; three partitions of two unless it says so."""
    if not fields.keys() & {"partitions", "replicationFactor", "replicaAssignment", "ensure"}:
        fields |= {"partitions": 3, "replicationFactor": 2}
    return merge(manifest(name, **fields), on)


def lists(*replicas: str) -> tuple[Replicas, ...]:
    """``lists("12", "23")`` is two partitions, on brokers 1, 2 and 2, 3."""
    return tuple(tuple(map(int, partition)) for partition in replicas)


def topic(
    name: str = "orders", replicas: tuple[Replicas, ...] = lists("12", "23", "34"), *keys: str, **fields: Any
) -> TopicState:
    """A topic on a cluster; ``keys`` are in our valid record. With ``record=None`` it is unadopted."""
    fields.setdefault("record", TopicRecord("default", tuple(sorted(keys))))
    fields.setdefault("record_valid", fields["record"] is not None)
    return TopicState(name, fields.pop("identity", 7), replicas, fields.pop("config", {}), **fields)


def mark(found: TopicPlan) -> TopicRecord | None:
    """The record that a plan leaves, without the values that it remembers."""
    return found.record_after and replace(found.record_after, applied=None)


def state(*topics: TopicState, brokers: tuple[Broker, ...] = RACKS, **fields: Any) -> ClusterState:
    """A cluster that holds these topics."""
    fields.setdefault("next_identity", 1000)
    return ClusterState("ID", brokers, {topic.name: topic for topic in topics}, **fields)


def plan(seen: ClusterState, *specs: TopicSpec, run: Run = PLAIN, on: ClusterSpec | None = None) -> Plan:
    """The plan of specs that are all for one cluster."""
    return make_plan(seen, on or (specs[0].cluster if specs else NAMED), specs, run)


def only(seen: ClusterState, wanted: TopicSpec, run: Run = PLAIN) -> TopicPlan:
    """The plan of the one topic of a run; an empty one if there is nothing to say about it."""
    topics = plan(seen, wanted, run=run).topics
    assert len(topics) <= 1
    return topics[0] if topics else TopicPlan(wanted.topic)


def again(seen: ClusterState, specs: Iterable[TopicSpec], run: Run = PLAIN) -> Plan:
    """The plan after the plan was carried out: what is left."""
    wanted = list(specs)
    return plan(evolve(seen, plan(seen, *wanted, run=run).to_do()), *wanted, run=run)


def now(seen: ClusterState, name: str) -> Now:
    """One topic at the moment of writing, in a cluster that stands like this."""
    found = seen.topics.get(name)
    return Now(
        topic=found,
        record=found.record if found else seen.records.get(name),
        marked=name in seen.deleting,
        reassigning=name in seen.reassigning,
        brokers={broker.id: broker for broker in seen.brokers},
        broker_defaults=seen.broker_defaults,
        release_at_least=seen.release_at_least,
        unified=unify(seen.topics),
    )


def with_topic(seen: ClusterState, name: str, **fields: Any) -> ClusterState:
    """The same cluster after somebody changed one topic."""
    return replace(seen, topics={**seen.topics, name: replace(seen.topics[name], **fields)})


def kinds(topic: TopicPlan) -> list[str]:
    """What kinds of changes there are, in order."""
    return [type(change).__name__ for change in topic.changes]


def refused(topic: TopicPlan) -> list[str]:
    """The reasons of all refusals, in order."""
    return [refusal.reason.value for refusal in topic.refusals]


def noticed(topic: TopicPlan) -> list[str]:
    """The reasons of all notices, in order."""
    return [notice.reason.value for notice in topic.notices]


def items(topic: TopicPlan) -> dict[str, tuple[str | None, str | None]]:
    """What is done to each config key of an existing topic: before and after."""
    updates = [change for change in topic.changes if isinstance(change, UpdateConfig)]
    return {item.key: (item.before, item.after) for update in updates for item in update.items}
