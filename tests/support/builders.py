"""Small builders for planner tests: manifests as a user writes them, and states of clusters.

Specs always come from a manifest through ``merge``, so that a test states its input in the terms of a manifest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from topiarist.desired.shared_specs import merge
from topiarist.errors import FieldPath, Location
from topiarist.kafka.types import Broker, Replicas, index_by_metric_name
from topiarist.model.plan import Plan, RunOptions, TopicPlan, UpdateConfig
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec
from topiarist.model.state import ClusterState, OwnershipRecord, TopicState
from topiarist.planning.planner import make_plan
from topiarist.planning.preconditions import CurrentTopic, simulate

RACKED_BROKERS = tuple(Broker(number, rack) for number, rack in enumerate("abcabc", start=1))
"""Six brokers in three racks."""

RACKLESS_BROKERS = tuple(Broker(number) for number in range(1, 5))
"""Four brokers without racks."""

PROD_CLUSTER = ClusterSpec(name="prod", cluster_id="ID", version=(3, 9))
"""A cluster with a declared release."""

UNCAPPED_CLUSTER = ClusterSpec(name="prod", cluster_id="ID", version=(3, 6))
"""The last release in which ``min.insync.replicas`` above the number of replicas stops writes."""

DEFAULT_OPTIONS = RunOptions()
"""A run without any flag."""


@dataclass(frozen=True)
class DocumentSource:
    """A source of a document, in which the line of a path is its position in the document, counted from the top."""

    file: str
    document: Mapping[str, Any]

    def locate(self, path: FieldPath = ()) -> Location:
        """Return the location of ``path`` or of its nearest ancestor in the document."""
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
    """Return the ``Topic`` document ``name`` with these fields, in the file ``NAME.yaml``."""
    document = {"kind": "Topic", "metadata": {"name": name}, "spec": spec}
    return Manifest("Topic", name, namespace, {}, spec, DocumentSource(f"{name}.yaml", document))


def cluster(name: str, **fields: Any) -> ClusterSpec:
    """Return the ``Cluster`` document ``name``, in the file ``NAME.yaml``."""
    document = {"kind": "Cluster", "metadata": {"name": name}, "spec": {}}
    return ClusterSpec(name=name, source=DocumentSource(f"{name}.yaml", document), **fields)


def spec(name: str = "orders", on: ClusterSpec = PROD_CLUSTER, **fields: Any) -> TopicSpec:
    """Return the merged spec of the document ``name`` on a cluster.

    The default is three partitions with two replicas each.
    """
    if not fields.keys() & {"partitions", "replicationFactor", "replicaAssignment", "ensure"}:
        fields |= {"partitions": 3, "replicationFactor": 2}
    return merge(manifest(name, **fields), on)


def replica_lists(*replicas: str) -> tuple[Replicas, ...]:
    """Return replica lists from strings: ``lists("12", "23")`` is two partitions, on brokers 1, 2 and 2, 3."""
    return tuple(tuple(map(int, partition)) for partition in replicas)


def topic(
    name: str = "orders", replicas: tuple[Replicas, ...] = replica_lists("12", "23", "34"), *keys: str, **fields: Any
) -> TopicState:
    """Return a topic of a cluster, with a valid ownership record that lists ``keys``.

    With ``record=None`` the topic has no owner.
    """
    fields.setdefault("record", OwnershipRecord("default", tuple(sorted(keys))))
    fields.setdefault("record_valid", fields["record"] is not None)
    return TopicState(name, fields.pop("identity", "7"), replicas, fields.pop("config", {}), **fields)


def record_without_values(planned: TopicPlan) -> OwnershipRecord | None:
    """Return the ownership record that a plan writes, without the applied values."""
    return planned.record_after and replace(planned.record_after, applied=None)


def state(*topics: TopicState, brokers: tuple[Broker, ...] = RACKED_BROKERS, **fields: Any) -> ClusterState:
    """Return the state of a cluster with these topics."""
    fields.setdefault("next_identity", 1000)
    return ClusterState("ID", brokers, {topic.name: topic for topic in topics}, **fields)


def plan(
    state_before: ClusterState, *specs: TopicSpec, run: RunOptions = DEFAULT_OPTIONS, on: ClusterSpec | None = None
) -> Plan:
    """Return the plan of specs that all select one cluster."""
    return make_plan(state_before, on or (specs[0].cluster if specs else PROD_CLUSTER), specs, run)


def plan_single_topic(state_before: ClusterState, declared: TopicSpec, run: RunOptions = DEFAULT_OPTIONS) -> TopicPlan:
    """Return the plan of the only topic of a run, or an empty plan without changes and issues."""
    topics = plan(state_before, declared, run=run).topics
    assert len(topics) <= 1
    return topics[0] if topics else TopicPlan(declared.topic)


def replan(state_before: ClusterState, specs: Iterable[TopicSpec], run: RunOptions = DEFAULT_OPTIONS) -> Plan:
    """Return the second plan, after all changes of the first plan were applied."""
    wanted = list(specs)
    return plan(simulate(state_before, plan(state_before, *wanted, run=run).actionable_topics()), *wanted, run=run)


def current_topic(cluster_state: ClusterState, name: str) -> CurrentTopic:
    """Return one topic at the time of a write, for this state of the cluster."""
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
    """Return the same cluster after another client changed one topic; ids of new partitions follow their number."""
    if "replicas" in fields:
        fields = {"partition_ids": range(len(fields["replicas"])), **fields}
    return replace(cluster_state, topics={**cluster_state.topics, name: replace(cluster_state.topics[name], **fields)})


def change_kinds(topic: TopicPlan) -> list[str]:
    """Return the kinds of all changes, in order."""
    return [type(change).__name__ for change in topic.changes]


def refusal_reasons(topic: TopicPlan) -> list[str]:
    """Return the reasons of all refusals, in order."""
    return [refusal.reason.value for refusal in topic.refusals]


def notice_reasons(topic: TopicPlan) -> list[str]:
    """Return the reasons of all notices, in order."""
    return [notice.reason.value for notice in topic.notices]


def config_changes(topic: TopicPlan) -> dict[str, tuple[str | None, str | None]]:
    """Return the values before and after of each changed config key of an existing topic."""
    updates = [change for change in topic.changes if isinstance(change, UpdateConfig)]
    return {item.key: (item.before, item.after) for update in updates for item in update.items}
