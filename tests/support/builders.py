"""Small builders: manifests as a user writes them, specs, states of clusters, and the plans of both.

Specs always come from a manifest through ``merge``, so that a test states its input in the terms of a manifest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from msgspec.structs import replace

from support.memory_cluster import simulate
from topiarist.desired.shared_specs import merge
from topiarist.errors import FieldPath, Location
from topiarist.kafka.types import Broker, Replicas, index_by_metric_name
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan, RunOptions, TopicPlan, UpdateConfig
from topiarist.model.spec import ClusterSpec, Manifest, TopicSpec
from topiarist.model.state import AppliedSpec, ClusterState, OwnershipRecord, TopicState
from topiarist.planning.planner import make_plan
from topiarist.planning.preconditions import CurrentTopic
from topiarist.ports import Cluster
from topiarist.schema.load import API_VERSION

CLUSTER_ID = "ID"

RACKED_BROKERS = tuple(Broker(number, rack) for number, rack in enumerate("abcabc", start=1))
"""Six brokers in three racks."""

RACKLESS_BROKERS = tuple(Broker(number) for number in range(1, 5))
"""Four brokers without racks."""

PROD_CLUSTER = ClusterSpec(name="prod", cluster_id=CLUSTER_ID, version=(3, 9))
"""A cluster with a declared release."""

UNCAPPED_CLUSTER = ClusterSpec(name="prod", cluster_id=CLUSTER_ID, version=(3, 6))
"""The last release in which ``min.insync.replicas`` above the number of replicas stops writes."""

DEFAULT_OPTIONS = RunOptions()
"""A run without any flag."""

ADOPT_ALL = RunOptions(adopt=("*",))
"""A run that takes over whatever it finds."""


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


class PositionedSource(NamedTuple):
    """A source with given positions: line and column by path.

    The nearest ancestor of a path counts; the default is line 1.
    """

    file: str
    positions: Mapping[FieldPath, tuple[int, int]] = {}

    def locate(self, path: FieldPath = ()) -> Location:
        """Return the location of ``path`` or of its nearest ancestor."""
        while path and path not in self.positions:
            path = path[:-1]
        return Location(self.file, *self.positions.get(path, (1, 1)))


def _walk_paths(value: Any, path: FieldPath = ()) -> Iterator[FieldPath]:
    yield path
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from _walk_paths(child, (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _walk_paths(child, (*path, index))


def document(kind: str = "Topic", name: str = "orders", **spec: Any) -> dict[str, Any]:
    """Return the document of a resource with these fields, as YAML gives it."""
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def manifest(
    name: str, namespace: str = "", *, positions: Mapping[FieldPath, tuple[int, int]] | None = None, **spec: Any
) -> Manifest:
    """Return the ``Topic`` document ``name`` with these fields, in the file ``topics/NAME.yaml``.

    The lines of its fields are their positions in the document, counted from the top, unless there are ``positions``.
    """
    body = {"kind": "Topic", "metadata": {"name": name}, "spec": spec}
    file = f"topics/{name}.yaml"
    source = DocumentSource(file, body) if positions is None else PositionedSource(file, positions)
    return Manifest("Topic", name, namespace, {}, spec, source)


def cluster(name: str, **fields: Any) -> ClusterSpec:
    """Return the ``Cluster`` document ``name``, in the file ``NAME.yaml``."""
    body = {"kind": "Cluster", "metadata": {"name": name}, "spec": {}}
    return ClusterSpec(name=name, source=DocumentSource(f"{name}.yaml", body), **fields)


def spec(name: str = "orders", on: ClusterSpec = PROD_CLUSTER, **fields: Any) -> TopicSpec:
    """Return the merged spec of the document ``name`` on a cluster.

    The default is three partitions with two replicas each, unless there are lists or ``ensure``. A field that is None
    is not in the document.
    """
    if not fields.keys() & {"replicaAssignment", "ensure"}:
        fields = {"partitions": 3, "replicationFactor": 2} | fields
    return merge(manifest(name, **{key: value for key, value in fields.items() if value is not None}), on)


def topic_spec(name: str, on: ClusterSpec | None = None, **fields: Any) -> TopicSpec:
    """Return the spec of a topic as tests on clusters create it, with two partitions of three replicas each."""
    return spec(name, on or ClusterSpec(), **{"partitions": 2, "replicationFactor": 3} | fields)


def replica_lists(*replicas: str) -> tuple[Replicas, ...]:
    """Return replica lists from strings: ``lists("12", "23")`` is two partitions, on brokers 1, 2 and 2, 3."""
    return tuple(tuple(map(int, partition)) for partition in replicas)


def spread_replicas(partitions: int, factor: int = 3, brokers: int = 6) -> tuple[Replicas, ...]:
    """Return plain round-robin replica lists over brokers 1 to ``brokers``: [1,2,3], [2,3,4] and so on."""
    return tuple(tuple((first + step) % brokers + 1 for step in range(factor)) for first in range(partitions))


def topic(
    name: str = "orders",
    replicas: int | Sequence[Replicas] = replica_lists("12", "23", "34"),
    *keys: str,
    owner: str = "default",
    applied_spec: TopicSpec | None = None,
    **fields: Any,
) -> TopicState:
    """Return a topic of a cluster, with a valid ownership record that lists ``keys`` and the keys of ``applied_spec``.

    A number as ``replicas`` is that of partitions with three replicas. With ``record=None`` the topic has no owner.
    Further fields are fields of ``TopicState``.
    """
    fields.setdefault("record", _make_record(owner, keys, applied_spec))
    fields.setdefault("record_valid", fields["record"] is not None)
    lists = spread_replicas(replicas) if isinstance(replicas, int) else tuple(replicas)
    return TopicState(name, fields.pop("identity", "1"), lists, fields.pop("config", {}), **fields)


def _make_record(owner: str, keys: Sequence[str], applied_spec: TopicSpec | None) -> OwnershipRecord:
    if applied_spec is None:
        return OwnershipRecord(owner, tuple(sorted(keys)))
    applied = AppliedSpec(
        applied_spec.partitions, tuple(sorted(applied_spec.config.items())), applied_spec.remove_unmanaged
    )
    return OwnershipRecord(owner, tuple(sorted({*keys, *applied_spec.config})), applied=applied)


def record_without_values(planned: TopicPlan) -> OwnershipRecord | None:
    """Return the ownership record that a plan writes, without the applied values."""
    return planned.record_after and replace(planned.record_after, applied=None)


def state(*topics: TopicState, **fields: Any) -> ClusterState:
    """Return the state of a cluster of six brokers with these topics; further fields are fields of ``ClusterState``."""
    identity: dict[str, Any] = {"cluster_id": CLUSTER_ID, "controller": 1, "controller_epoch": 42}
    defaults = {**identity, "brokers": RACKED_BROKERS, "next_identity": 1000}
    return ClusterState(topics={topic.name: topic for topic in topics}, **(defaults | fields))


def plan(
    state_before: ClusterState, *specs: TopicSpec, run: RunOptions = DEFAULT_OPTIONS, on: ClusterSpec | None = None
) -> Plan:
    """Return the plan of specs that all select one cluster."""
    return make_plan(state_before, on or (specs[0].cluster if specs else PROD_CLUSTER), specs, run)


def plan_specs(port: Cluster, *specs: TopicSpec, run: RunOptions = ADOPT_ALL) -> Plan:
    """Return the plan of specs for the cluster as it is read now."""
    return make_plan(port.read(), ClusterSpec(), specs, run)


def apply_outcomes(port: Cluster, planned: Plan) -> dict[str, Outcome]:
    """Apply the plan; return outcomes by topic."""
    return {outcome.topic: outcome for outcome in port.apply(planned, lambda: False)}


def apply_results(port: Cluster, planned: Plan) -> dict[str, Result]:
    """Apply the plan; return results by topic."""
    return {topic: outcome.result for topic, outcome in apply_outcomes(port, planned).items()}


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
