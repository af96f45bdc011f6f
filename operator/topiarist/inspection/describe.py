"""One topic of one cluster, whole: what it is, what is asked of it and by whom, what is to be done about it.

Put together from what others have found, so that nothing is judged a second time: ``make_plan`` says what is pending,
``lifecycle`` what the controller has done, ``provenance`` where each value comes from. ``output.text.describe`` shows
it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

from topiarist.inspection.partition_health import Partition, build_partitions
from topiarist.inspection.topic_phase import TopicPhase, determine_phase
from topiarist.inspection.value_sources import ValueSource, find_value_sources
from topiarist.kafka.names import matches_any
from topiarist.kafka.placement_inference import InferredPlacement, infer_nearest_placement
from topiarist.model.plan import Plan, TopicPlan
from topiarist.model.spec import ClusterSpec, TopicSpec
from topiarist.model.state import ClusterState, OwnershipRecord, ReadError, TopicInspection

_MAX_SUGGESTIONS = 3


class ResolvedTopic(NamedTuple):
    """The topic that somebody's word means on a cluster. ``document`` is where it is a document's name and not the
    topic's: how the topic is called in Kafka, the word does not say.
    """

    topic: str
    spec: TopicSpec | None = None
    by_document_name: bool = False


@dataclass(frozen=True, slots=True)
class Description:
    """Everything about one topic on one cluster.

    ``planned`` is whether manifests were given, ``pending`` the plan of the topic if one of them names it. ``known`` is
    whether the states of its partitions are. ``faults`` are its odd znodes. ``orphaned``: it is ours, and none of the
    manifests that were given names it. ``placement`` is the one of Kafka's that most of its replica lists follow; None
    if there is none, or no list.
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
        """The topic's name in Kafka."""
        return self.resolved.topic

    @property
    def record(self) -> OwnershipRecord | None:
        """Our record, valid or not, with a topic or without."""
        return self.state.record_of(self.topic)


def resolve_topic(name: str, state: ClusterState, specs: Iterable[TopicSpec]) -> Sequence[ResolvedTopic]:
    """What ``name`` means: the topic of that name, else what a document of that name is about; several if several are.

    A name that nothing has is the topic's name all the same.
    """
    found = list(specs)
    there = (
        name in state.topics
        or name in state.topic_errors
        or name in state.pending_deletions
        or name in state.dangling_records
    )
    if named := [spec for spec in found if spec.topic == name]:
        return [ResolvedTopic(name, named[0])]
    documents = [ResolvedTopic(spec.topic, spec, by_document_name=True) for spec in found if spec.manifest.name == name]
    return documents if documents and not there else [ResolvedTopic(name)]


def split_patterns(text: str) -> tuple[str, ...]:
    """Return the names and patterns that are asked for, each once: ``orders,shop.*`` has two."""
    return tuple(dict.fromkeys(filter(None, (word.strip() for word in text.split(",")))))


def is_pattern(text: str) -> bool:
    """Return whether a word is a glob pattern: no name of a topic or document has such a character."""
    return any(character in text for character in "*?[")


def select_topics(name_or_pattern: str, state: ClusterState, specs: Iterable[TopicSpec]) -> Sequence[ResolvedTopic]:
    """Return the topics that a name or a pattern means, in order of name; none if a pattern fits nothing.

    A pattern is one of topic names: of the cluster, readable or not, of its records, and of manifests.
    """
    found = list(specs)
    if not is_pattern(name_or_pattern):
        return resolve_topic(name_or_pattern, state, found)
    wanted = {spec.topic: spec for spec in found}
    names = {*state.topics, *state.topic_errors, *state.pending_deletions, *state.dangling_records, *wanted}
    return [ResolvedTopic(name, wanted.get(name)) for name in sorted(names) if matches_any(name, (name_or_pattern,))]


def similar_names(name: str, state: ClusterState, specs: Iterable[TopicSpec]) -> Sequence[str]:
    """Topics whose names are like ``name``, the closest first."""
    known = {*state.topics, *state.topic_errors, *state.dangling_records, *(spec.topic for spec in specs)}
    return get_close_matches(name, sorted(known), n=_MAX_SUGGESTIONS, cutoff=0.7)


def describe(
    state: ClusterState,
    cluster: ClusterSpec,
    resolved: ResolvedTopic,
    inspection: TopicInspection | None,
    plan: Plan | None,
    owner: str,
) -> Description:
    """Everything about the topic ``resolved`` means; ``inspection`` is None where nobody knows what the controller has
    done.

    ``plan`` is that of all manifests for the cluster, None if there are none; ``owner`` is that of the run.
    """
    name, topic = resolved.topic, state.topics.get(resolved.topic)
    known = inspection is not None and inspection.states_readable
    listed = build_partitions(state, name, inspection)
    planned = {each.topic: each for each in plan.topics} if plan else {}
    return Description(
        cluster=cluster,
        state=state,
        resolved=resolved,
        phase=determine_phase(state, name, resolved.spec, listed, known),
        partitions=listed,
        values=find_value_sources(state, name, cluster, resolved.spec, listed),
        states_known=known,
        read_errors=tuple(_find_read_errors(state, name, inspection, listed)),
        topic_id=inspection.topic_id if inspection else topic.topic_id if topic else None,
        manifests_given=plan is not None,
        pending_plan=planned.get(name, _make_empty_plan(state, resolved)) if resolved.spec else None,
        owner=owner,
        is_orphan=plan is not None and name in plan.orphans,
        placement=infer_nearest_placement(state.brokers, topic.replicas, excluded=cluster.exclude_brokers)
        if topic and topic.has_contiguous_partitions
        else None,
    )


def _make_empty_plan(state: ClusterState, resolved: ResolvedTopic) -> TopicPlan:
    """What a plan would hold of a topic of which it has nothing to say."""
    topic = state.topics.get(resolved.topic)
    record = state.record_of(resolved.topic)
    return TopicPlan(resolved.topic, topic, record, record, spec=resolved.spec)


def _find_read_errors(
    state: ClusterState, name: str, inspection: TopicInspection | None, partitions: Iterable[Partition]
) -> Iterator[ReadError]:
    """The topic's own znodes that are odd or forbidden, and those of its partitions."""
    if fault := state.topic_errors.get(name):
        yield fault
    yield from inspection.other_errors if inspection else ()
    yield from (one.read_error for one in partitions if one.read_error)
