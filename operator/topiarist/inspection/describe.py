"""Describes one topic of one cluster: its state, its values with sources, and its pending plan.

``cli.commands.describe`` calls this module; ``output.text.describe`` and ``output.json.describe`` print the result.
Everything is computed elsewhere, and only once: ``planner`` makes the pending plan, ``topic_phase`` determines the
phase, ``value_sources`` finds the source of each value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import NamedTuple

from msgspec import Struct

from topiarist.inspection.partition_health import Partition, build_partitions
from topiarist.inspection.topic_phase import TopicPhase, determine_phase
from topiarist.inspection.value_sources import ValueSource, find_value_sources
from topiarist.kafka.placement import InferredPlacement, infer_nearest_placement
from topiarist.kafka.types import matches_any
from topiarist.model.plan import Plan, TopicPlan
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState, OwnershipRecord, ReadError, TopicInspection

_MAX_SUGGESTIONS = 3


class ResolvedTopic(NamedTuple):
    """A topic that a name from the command line refers to.

    ``by_document_name`` is true if the name is that of a document, and the topic has a different name in Kafka.
    """

    topic: str
    spec: TopicSpec | None = None
    by_document_name: bool = False


class Description(Struct, frozen=True):
    """The description of one topic on one cluster.

    ``manifests_given`` is true if the run has manifests; ``pending_plan`` is the plan of the topic if a manifest
    declares it. ``states_known`` is true if the states of its partitions are known. ``read_errors`` are the parts of
    its metadata that cannot be read. ``is_orphan`` is true if the run's owner has the topic and no manifest declares
    it. ``placement`` is the placement of Kafka's that most of its replica lists follow; None if there is none, or no
    list.
    """

    cluster: ClusterSpec
    state: ClusterState
    resolved: ResolvedTopic
    phase: TopicPhase
    partitions: tuple[Partition, ...]
    values: tuple[ValueSource, ...]
    states_known: bool
    read_errors: tuple[ReadError, ...] = ()
    topic_id: str | None = None
    manifests_given: bool = False
    pending_plan: TopicPlan | None = None
    owner: str = "default"
    is_orphan: bool = False
    placement: InferredPlacement | None = None

    @property
    def topic(self) -> str:
        """Return the topic's name in Kafka."""
        return self.resolved.topic

    @property
    def record(self) -> OwnershipRecord | None:
        """Return the ownership record, valid or not, with or without a topic."""
        return self.state.record_of(self.topic)


def resolve_topic(name: str, state: ClusterState, specs: Iterable[TopicSpec]) -> Sequence[ResolvedTopic]:
    """Return the topic named ``name``, or the topics of documents of that name.

    A name without a topic and without a document is returned as a topic name.
    """
    all_specs = list(specs)
    exists = (
        name in state.topics
        or name in state.topic_errors
        or name in state.pending_deletions
        or name in state.dangling_records
    )
    if by_topic_name := [spec for spec in all_specs if spec.topic == name]:
        return [ResolvedTopic(name, by_topic_name[0])]
    documents = [
        ResolvedTopic(spec.topic, spec, by_document_name=True) for spec in all_specs if spec.manifest.name == name
    ]
    return documents if documents and not exists else [ResolvedTopic(name)]


def split_patterns(text: str) -> tuple[str, ...]:
    """Return the distinct names and patterns of a list: ``orders,shop.*`` has two."""
    return tuple(dict.fromkeys(filter(None, (word.strip() for word in text.split(",")))))


def is_pattern(text: str) -> bool:
    """Return whether a text is a glob pattern.

    No name of a topic or document has such a character.
    """
    return any(character in text for character in "*?[")


def select_topics(name_or_pattern: str, state: ClusterState, specs: Iterable[TopicSpec]) -> Sequence[ResolvedTopic]:
    """Return the topics that a name or a pattern matches, sorted by name.

    A pattern is compared with the topic names of the cluster, readable or not, of its records, and of manifests. The
    result is empty if a pattern matches nothing.
    """
    all_specs = list(specs)
    if not is_pattern(name_or_pattern):
        return resolve_topic(name_or_pattern, state, all_specs)
    specs_by_topic = {spec.topic: spec for spec in all_specs}
    names = {*state.topics, *state.topic_errors, *state.pending_deletions, *state.dangling_records, *specs_by_topic}
    return [
        ResolvedTopic(name, specs_by_topic.get(name)) for name in sorted(names) if matches_any(name, (name_or_pattern,))
    ]


def similar_names(name: str, state: ClusterState, specs: Iterable[TopicSpec]) -> Sequence[str]:
    """Return the topic names most similar to ``name``, the closest first."""
    all_names = {*state.topics, *state.topic_errors, *state.dangling_records, *(spec.topic for spec in specs)}
    return get_close_matches(name, sorted(all_names), n=_MAX_SUGGESTIONS, cutoff=0.7)


def describe(
    state: ClusterState,
    cluster: ClusterSpec,
    resolved: ResolvedTopic,
    inspection: TopicInspection | None,
    plan: Plan | None,
    owner: str,
) -> Description:
    """Return the description of the topic ``resolved``.

    ``inspection`` is None if the state of its partitions is not known. ``plan`` is the plan of all manifests for the
    cluster, None if there are none; ``owner`` is that of the run.
    """
    name, topic, record = resolved.topic, state.topics.get(resolved.topic), state.record_of(resolved.topic)
    states_known = inspection is not None and inspection.states_readable
    rules = cluster.config_rules.for_cluster(state.mode, state.known_configs)
    partitions = build_partitions(state, name, inspection, rules.oldest_version(state.min_version))
    pending_plan, placement = None, None
    if resolved.spec:
        # The plan has no entry for a topic without changes, refusals and notices.
        empty_plan = TopicPlan(name, topic, record, record, spec=resolved.spec)
        pending_plan = next((each for each in plan.topics if each.topic == name), empty_plan) if plan else empty_plan
    if topic and topic.has_contiguous_partitions:
        placement = infer_nearest_placement(state.brokers, topic.replicas, excluded=cluster.exclude_brokers)
    return Description(
        cluster=cluster,
        state=state,
        resolved=resolved,
        phase=determine_phase(state, name, resolved.spec, partitions, states_known),
        partitions=partitions,
        values=find_value_sources(state, name, cluster, resolved.spec, partitions),
        states_known=states_known,
        read_errors=tuple(_find_read_errors(state, name, inspection, partitions)),
        topic_id=inspection.topic_id if inspection else topic.topic_id if topic else None,
        manifests_given=plan is not None,
        pending_plan=pending_plan,
        owner=owner,
        is_orphan=plan is not None and name in plan.orphans,
        placement=placement,
    )


def _find_read_errors(
    state: ClusterState, name: str, inspection: TopicInspection | None, partitions: Iterable[Partition]
) -> Iterator[ReadError]:
    if read_error := state.topic_errors.get(name):
        yield read_error
    yield from inspection.other_errors if inspection else ()
    yield from (partition.read_error for partition in partitions if partition.read_error)
