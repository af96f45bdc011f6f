"""One topic of one cluster, whole: what it is, what is asked of it and by whom, what is to be done about it.

Put together from what others have found, so that nothing is judged a second time: ``make_plan`` says what is pending,
``lifecycle`` what the controller has done, ``provenance`` where each value comes from. ``render.described`` shows it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import NamedTuple

from topiarist.core.change import Plan, TopicPlan
from topiarist.core.inference import Inferred, nearest
from topiarist.core.inspection import Inspection
from topiarist.core.lifecycle import Life, life
from topiarist.core.names import fits
from topiarist.core.partitions import Partition, partitions
from topiarist.core.provenance import Value, values
from topiarist.core.spec import ClusterSpec, TopicSpec
from topiarist.core.state import ClusterState, Fault, TopicRecord

_GUESSES = 3


class Meant(NamedTuple):
    """The topic that somebody's word means on a cluster. ``document`` is where it is a document's name and not the
    topic's: how the topic is called in Kafka, the word does not say.
    """

    topic: str
    spec: TopicSpec | None = None
    document: bool = False


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
    meant: Meant
    life: Life
    partitions: tuple[Partition, ...]
    values: tuple[Value, ...]
    known: bool
    faults: tuple[Fault, ...] = ()
    topic_id: str | None = None
    planned: bool = False
    pending: TopicPlan | None = None
    owner: str = "default"
    orphaned: bool = False
    placement: Inferred | None = None

    @property
    def topic(self) -> str:
        """The topic's name in Kafka."""
        return self.meant.topic

    @property
    def record(self) -> TopicRecord | None:
        """Our record, valid or not, with a topic or without."""
        return self.state.record_of(self.topic)


def meant(word: str, state: ClusterState, specs: Iterable[TopicSpec]) -> Sequence[Meant]:
    """What ``word`` means: the topic of that name, else what a document of that name is about; several if several are.

    A name that nothing has is the topic's name all the same.
    """
    found = list(specs)
    there = word in state.topics or word in state.faults or word in state.deleting or word in state.records
    if named := [spec for spec in found if spec.topic == word]:
        return [Meant(word, named[0])]
    documents = [Meant(spec.topic, spec, document=True) for spec in found if spec.manifest.name == word]
    return documents if documents and not there else [Meant(word)]


def words_of(asked: str) -> tuple[str, ...]:
    """Return the names and patterns that are asked for, each once: ``orders,shop.*`` has two."""
    return tuple(dict.fromkeys(filter(None, (word.strip() for word in asked.split(",")))))


def is_pattern(word: str) -> bool:
    """Return whether a word is a glob pattern: no name of a topic or document has such a character."""
    return any(character in word for character in "*?[")


def chosen(word: str, state: ClusterState, specs: Iterable[TopicSpec]) -> Sequence[Meant]:
    """Return the topics that a name or a pattern means, in order of name; none if a pattern fits nothing.

    A pattern is one of topic names: of the cluster, readable or not, of its records, and of manifests.
    """
    found = list(specs)
    if not is_pattern(word):
        return meant(word, state, found)
    wanted = {spec.topic: spec for spec in found}
    names = {*state.topics, *state.faults, *state.deleting, *state.records, *wanted}
    return [Meant(name, wanted.get(name)) for name in sorted(names) if fits(name, (word,))]


def close_to(word: str, state: ClusterState, specs: Iterable[TopicSpec]) -> Sequence[str]:
    """Topics whose names are like ``word``, the closest first."""
    known = {*state.topics, *state.faults, *state.records, *(spec.topic for spec in specs)}
    return get_close_matches(word, sorted(known), n=_GUESSES, cutoff=0.7)


def describe(
    state: ClusterState, cluster: ClusterSpec, what: Meant, found: Inspection | None, plan: Plan | None, owner: str
) -> Description:
    """Everything about the topic ``what`` means; ``found`` is None where nobody knows what the controller has done.

    ``plan`` is that of all manifests for the cluster, None if there are none; ``owner`` is that of the run.
    """
    name, topic = what.topic, state.topics.get(what.topic)
    known = found is not None and found.known
    listed = partitions(state, name, found)
    planned = {each.topic: each for each in plan.topics} if plan else {}
    return Description(
        cluster=cluster,
        state=state,
        meant=what,
        life=life(state, name, what.spec, listed, known),
        partitions=listed,
        values=values(state, name, cluster, what.spec, listed),
        known=known,
        faults=tuple(_faults(state, name, found, listed)),
        topic_id=found.topic_id if found else topic.topic_id if topic else None,
        planned=plan is not None,
        pending=planned.get(name, _unchanged(state, what)) if what.spec else None,
        owner=owner,
        orphaned=plan is not None and name in plan.orphans,
        placement=nearest(state.brokers, topic.replicas, without=cluster.exclude_brokers)
        if topic and topic.whole
        else None,
    )


def _unchanged(state: ClusterState, what: Meant) -> TopicPlan:
    """What a plan would hold of a topic of which it has nothing to say."""
    topic = state.topics.get(what.topic)
    record = state.record_of(what.topic)
    return TopicPlan(what.topic, topic, record, record, spec=what.spec)


def _faults(state: ClusterState, name: str, found: Inspection | None, listed: Iterable[Partition]) -> Iterator[Fault]:
    """The topic's own znodes that are odd or forbidden, and those of its partitions."""
    if fault := state.faults.get(name):
        yield fault
    yield from found.odd if found else ()
    yield from (one.fault for one in listed if one.fault)
