"""Small builders for tests of the planner: manifests as a person would write them, and clusters as they may stand.

Specs always come from a manifest by ``merge``, so that a test says what it wants in the manifest's own words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from topiarist.desired.merge import merge
from topiarist.errors import FieldPath, Location
from topiarist.kafka.names import index_by_metric_name
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.plan import Plan, TopicPlan, UpdateConfig
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec
from topiarist.model.state import ClusterState, OwnershipRecord, TopicState
from topiarist.planning.planner import make_plan
from topiarist.planning.preconditions import CurrentTopic
from topiarist.planning.simulate import simulate

RACKED_BROKERS = tuple(Broker(number, rack) for number, rack in enumerate("abcabc", start=1))
"""Six brokers in three racks."""

RACKLESS_BROKERS = tuple(Broker(number) for number in range(1, 5))
"""Four brokers without racks."""

PROD_CLUSTER = ClusterSpec(name="prod", cluster_id="ID", version=(3, 9))
"""A cluster whose release is declared."""

DEFAULT_OPTIONS = RunOptions()
"""A run without any flag."""


@dataclass(frozen=True)
class DocumentSource:
    """A document's places: the line of a path is its number in the document, read from top to bottom."""

    file: str
    document: Mapping[str, Any]

    def locate(self, path: FieldPath = ()) -> Location:
        """The place of ``path`` or of its nearest ancestor in the document."""
        lines = {step: line for line, step in enumerate(_walk_paths(self.document), start=1)}
        while path not in lines:
            path = path[:-1]
        return Location(self.file, lines[path], len(path) + 1)


def _walk_paths(value: Any, path: FieldPath = ()) -> Iterator[FieldPath]:
    yield path
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from _walk_paths(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _walk_paths(child, (*path, index))


def manifest(name: str, namespace: str = "", **spec: Any) -> Manifest:
    """The ``Topic`` document ``name`` with these fields, in the file ``NAME.yaml``."""
    document = {"kind": "Topic", "metadata": {"name": name}, "spec": spec}
    return Manifest("Topic", name, namespace, {}, spec, DocumentSource(f"{name}.yaml", document))


def cluster(name: str, **fields: Any) -> ClusterSpec:
    """The ``Cluster`` document ``name``, in the file ``NAME.yaml``."""
    document = {"kind": "Cluster", "metadata": {"name": name}, "spec": {}}
    return ClusterSpec(name=name, source=DocumentSource(f"{name}.yaml", document), **fields)


def spec(name: str = "orders", on: ClusterSpec = PROD_CLUSTER, **fields: Any) -> TopicSpec:
    """What the document ``name`` with these fields asks for on a cluster; three partitions of two unless it says so."""
    if not fields.keys() & {"partitions", "replicationFactor", "replicaAssignment", "ensure"}:
        fields |= {"partitions": 3, "replicationFactor": 2}
    return merge(manifest(name, **fields), on)


def replica_lists(*replicas: str) -> tuple[Replicas, ...]:
    """``lists("12", "23")`` is two partitions, on brokers 1, 2 and 2, 3."""
    return tuple(tuple(map(int, partition)) for partition in replicas)


def topic(
    name: str = "orders", replicas: tuple[Replicas, ...] = replica_lists("12", "23", "34"), *keys: str, **fields: Any
) -> TopicState:
    """A topic on a cluster; ``keys`` are in our valid record. With ``record=None`` it is unadopted."""
    fields.setdefault("record", OwnershipRecord("default", tuple(sorted(keys))))
    fields.setdefault("record_valid", fields["record"] is not None)
    return TopicState(name, fields.pop("identity", 7), replicas, fields.pop("config", {}), **fields)


def record_without_values(planned: TopicPlan) -> OwnershipRecord | None:
    """The record that a plan leaves, without the values that it remembers."""
    return planned.record_after and replace(planned.record_after, applied=None)


def state(*topics: TopicState, brokers: tuple[Broker, ...] = RACKED_BROKERS, **fields: Any) -> ClusterState:
    """A cluster that holds these topics."""
    fields.setdefault("next_identity", 1000)
    return ClusterState("ID", brokers, {topic.name: topic for topic in topics}, **fields)


def plan(
    state_before: ClusterState, *specs: TopicSpec, run: RunOptions = DEFAULT_OPTIONS, on: ClusterSpec | None = None
) -> Plan:
    """The plan of specs that are all for one cluster."""
    return make_plan(state_before, on or (specs[0].cluster if specs else PROD_CLUSTER), specs, run)


def plan_single_topic(state_before: ClusterState, declared: TopicSpec, run: RunOptions = DEFAULT_OPTIONS) -> TopicPlan:
    """The plan of the one topic of a run; an empty one if there is nothing to say about it."""
    topics = plan(state_before, declared, run=run).topics
    assert len(topics) <= 1
    return topics[0] if topics else TopicPlan(declared.topic)


def replan(state_before: ClusterState, specs: Iterable[TopicSpec], run: RunOptions = DEFAULT_OPTIONS) -> Plan:
    """The plan after the plan was carried out: what is left."""
    wanted = list(specs)
    return plan(simulate(state_before, plan(state_before, *wanted, run=run).actionable_topics()), *wanted, run=run)


def current_topic(cluster_state: ClusterState, name: str) -> CurrentTopic:
    """One topic at the moment of writing, in a cluster that stands like this."""
    found = cluster_state.topics.get(name)
    return CurrentTopic(
        topic=found,
        record=found.record if found else cluster_state.dangling_records.get(name),
        marked_for_deletion=name in cluster_state.pending_deletions,
        reassigning=name in cluster_state.reassigning_topics,
        brokers={broker.id: broker for broker in cluster_state.brokers},
        broker_defaults=cluster_state.broker_defaults,
        min_version=cluster_state.min_version,
        topics_by_metric_name=index_by_metric_name(cluster_state.topics),
    )


def with_topic(cluster_state: ClusterState, name: str, **fields: Any) -> ClusterState:
    """The same cluster after somebody changed one topic."""
    return replace(cluster_state, topics={**cluster_state.topics, name: replace(cluster_state.topics[name], **fields)})


def change_kinds(topic: TopicPlan) -> list[str]:
    """What kinds of changes there are, in order."""
    return [type(change).__name__ for change in topic.changes]


def refusal_reasons(topic: TopicPlan) -> list[str]:
    """The reasons of all refusals, in order."""
    return [refusal.reason.value for refusal in topic.refusals]


def notice_reasons(topic: TopicPlan) -> list[str]:
    """The reasons of all notices, in order."""
    return [notice.reason.value for notice in topic.notices]


def config_changes(topic: TopicPlan) -> dict[str, tuple[str | None, str | None]]:
    """What is done to each config key of an existing topic: before and after."""
    updates = [change for change in topic.changes if isinstance(change, UpdateConfig)]
    return {item.key: (item.before, item.after) for update in updates for item in update.items}
