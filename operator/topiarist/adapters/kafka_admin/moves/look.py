"""Look at what moves depend on: replica lists, states, what is being reassigned, and configs, at one moment.

The list of reassignments is read before and after the topics, and again until both are equal: a partition that is done
in between would else have its list of during the move and no reassignment, which is how a list of another client looks.

That is not enough, because the controller lists what it has decided and brokers serve what is committed: on Kafka 4.4.0
a partition that was no longer listed kept its list of during the move for some ms, after a sync. So a look is also
repeated while a partition that was listed, or that topiarist sent, is not listed any more and still has both the added
and the removed replicas.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from topiarist.adapters.kafka_admin.connection.connection import Disconnected, Message
from topiarist.adapters.kafka_admin.connection.error_codes import describe_error
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.protocol.messages import AlterPartitionReassignmentsRequest, ElectLeadersRequest
from topiarist.adapters.kafka_admin.read.configs import BROKER_OVERRIDE, BROKER_RESOURCE, build_describe_configs
from topiarist.adapters.kafka_admin.read.metadata import OVERRIDE, decode_metadata
from topiarist.adapters.kafka_admin.read.sync import build_list_reassignments, decode_reassignments, target_of
from topiarist.adapters.kafka_admin.read.topic_reader import build_topic_state
from topiarist.adapters.kafka_admin.records.codec import TopicRecord
from topiarist.adapters.kafka_admin.write import requests
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.config_table import RATE_CONFIGS, THROTTLE_CONFIGS
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import ReplicaMove
from topiarist.model.state import PartitionState, Reassignment, TopicState
from topiarist.planning.moves.gate import MovedTopic, effective_min_isr
from topiarist.planning.moves.throttles import PartitionInFlight

# The Admin requests of moves and elections, and the elements of their answers.
#
# Every element is read: an answer as a whole has no error if single partitions have one.

Partition = tuple[str, int]

PREFERRED_LEADER_NOT_AVAILABLE, ELECTION_NOT_NEEDED = 80, 84

_PREFERRED = 0


def build_reassignments(moves: Iterable[ReplicaMove]) -> Message:
    """Return the request that begins these moves. A target that is set already is set again, without effect."""
    topic = AlterPartitionReassignmentsRequest.ReassignableTopic
    return AlterPartitionReassignmentsRequest(
        timeout_ms=requests.ADMIN_TIMEOUT_MS,
        topics=[
            topic(
                name=name,
                partitions=[
                    topic.ReassignablePartition(partition_index=move.partition, replicas=list(move.after))
                    for move in of_topic
                ],
            )
            for name, of_topic in groupby(sorted(moves), key=lambda move: move.topic)
        ],
    )


def read_reassignments_answer(answer: Message, asked: Iterable[Partition]) -> Mapping[Partition, requests.Element]:
    """Return the element of each partition; an error of the whole answer is that of each partition."""
    if answer.error_code:
        return dict.fromkeys(asked, requests.Element(answer.error_code, answer.error_message or ""))
    found = (((topic.name, each.partition_index), each) for topic in answer.responses for each in topic.partitions)
    return requests.collect_elements(found, asked)


def build_elections(partitions: Iterable[Partition]) -> Message:
    """Return the request that elects the preferred leaders of these partitions."""
    topic = ElectLeadersRequest.TopicPartitions
    return ElectLeadersRequest(
        election_type=_PREFERRED,
        topic_partitions=[
            topic(topic=name, partitions=[partition for _, partition in of_topic])
            for name, of_topic in groupby(sorted(partitions), key=lambda each: each[0])
        ],
        timeout_ms=requests.ADMIN_TIMEOUT_MS,
    )


def read_elections_answer(answer: Message, asked: Iterable[Partition]) -> Mapping[Partition, requests.Element]:
    """Return the element of each partition; an error of the whole answer is that of each partition."""
    if answer.error_code:
        return dict.fromkeys(asked, requests.Element(answer.error_code))
    results = answer.replica_election_results
    return requests.collect_elements(
        (((result.topic, each.partition_id), each) for result in results for each in result.partition_result), asked
    )


Found = TypeVar("Found")

READ_PATIENCE_S = 60.0
"""Seconds in which a read is repeated while brokers change their controller, or a connection breaks."""

_PAUSE_S = 0.5
_SETTLE_S, _SETTLE_PAUSE_S = 5.0, 0.05
_MIN_ISR = "min.insync.replicas"
_TEMPORARY = frozenset({-1, 5, 6, 7, 9, 13, 14, 15, 41})
"""Codes of a cluster that changes its leaders or its controller."""


class MoveLook(Struct, frozen=True):
    """Topics, brokers and reassignments as they are after a sync.

    ``topics`` has None for a topic that does not exist. ``min_isr`` has the ``min.insync.replicas`` in effect,
    ``errors`` the topics that the brokers do not describe, of those that were asked for.
    """

    topics: Mapping[str, TopicState | None]
    states: Mapping[str, Mapping[int, PartitionState]]
    reassignments: Mapping[Partition, Reassignment]
    brokers: Mapping[int, Broker]
    min_isr: Mapping[str, int]
    errors: Mapping[str, TopiaristError]

    def moved_topic(self, name: str, records: Mapping[str, TopicRecord]) -> MovedTopic:
        """Return one topic for ``judge_topic``, with its record if that is valid; raise its error if it has one."""
        if error := self.errors.get(name):
            raise error
        topic = self.topics[name]
        if topic is not None:
            found = records.get(name)
            is_valid = found is not None and found.topic_id == topic.topic_id
            topic = replace(topic, record=found.record if found else None, record_valid=is_valid)
        of_topic = {partition: each for (other, partition), each in self.reassignments.items() if other == name}
        states = self.states.get(name, {})
        return MovedTopic(
            topic=topic,
            reassignments=of_topic,
            marked_for_deletion=False,
            brokers=self.brokers,
            states=states,
            min_isr=self.min_isr.get(name, 1),
        )

    def list_of(self, key: Partition) -> Replicas:
        """Return the replica list of a partition; empty if it does not exist."""
        topic = self.topics.get(key[0])
        lists = dict(zip(topic.partition_ids, topic.replicas, strict=True)) if topic else {}
        return lists.get(key[1], ())

    def target_of(self, key: Partition) -> Replicas:
        """Return the target of a partition that is being reassigned; empty if it is not."""
        reassignment = self.reassignments.get(key)
        return target_of(self.list_of(key), reassignment) if reassignment else ()

    def in_flight(self, key: Partition) -> PartitionInFlight | None:
        """Return a partition that is being reassigned, for the search of what it waits for."""
        state = self.states.get(key[0], {}).get(key[1])
        if key not in self.reassignments or state is None:
            return None
        return PartitionInFlight(*key, self.target_of(key), self.reassignments[key].adding, state.isr)


class PresentThrottles(NamedTuple):
    """The overrides that throttle, by entity; why brokers cannot be asked for theirs, and what is not described.

    A topic that does not exist is in none of them.
    """

    configs: Mapping[str, Mapping[str, str]]
    unreachable: Mapping[str, str]
    errors: Mapping[str, TopiaristError]


class MoveReader:
    """Reads for moves. ``sync`` returns when the broker of ``session.any_broker`` serves metadata that are not old."""

    def __init__(self, session: Session, sync: Callable[[], object]) -> None:
        self._session = session
        self._sync = sync
        self._moving: dict[Partition, Reassignment] = {}

    def look(self, names: Collection[str]) -> MoveLook:
        """Return these topics, and all that are being reassigned, as they are now. Raises ``TopiaristError``."""
        return self._repeat(lambda is_last: self._look_once(names, is_last=is_last))

    def read_throttles(self, entities: Collection[str]) -> PresentThrottles:
        """Return the overrides of entities that throttle moves."""
        topics = [entity.removeprefix("topics/") for entity in entities if entity.startswith("topics/")]
        described = self._repeat(lambda is_last: self._describe_throttled_topics(topics, is_last=is_last))
        unreachable: dict[str, str] = {}
        for entity in sorted(entity for entity in entities if entity.startswith("brokers/")):
            broker = entity.removeprefix("brokers/")
            request = build_describe_configs([broker], RATE_CONFIGS, resource=BROKER_RESOURCE)
            try:
                answer = self._session.broker(int(broker)).call(request)
            except Disconnected as error:
                unreachable[entity] = str(error)
                continue
            result = next(iter(answer.results), None)
            configs = _configs_or_error(result, entity, "DescribeConfigs on the cluster", is_last=True)
            described[entity] = _find_overrides(configs, BROKER_OVERRIDE)
        errors = {entity: each for entity, each in described.items() if isinstance(each, TopiaristError)}
        found = {entity: each for entity, each in described.items() if not isinstance(each, TopiaristError)}
        return PresentThrottles(found, unreachable, errors)

    def expect(self, moves: Iterable[ReplicaMove]) -> None:
        """Note moves that were sent, so that a look does not show them between their list and their end."""
        self._moving.update(((move.topic, move.partition), Reassignment(move.added, move.removed)) for move in moves)

    def _read_settled(self, names: Collection[str]) -> tuple[Mapping[Partition, Reassignment], Sequence[str], Message]:
        """Return the reassignments, and the metadata of these topics and of those, as they are at one moment."""
        deadline = time.monotonic() + _SETTLE_S
        while True:
            before = self._list_reassignments()
            self._moving.update(before)
            self._sync()
            wanted = sorted({*names, *(name for name, _ in before)})
            answer = self._session.read_metadata(wanted)
            if self._list_reassignments() == before and not self._has_unsettled(before, answer):
                break
            if time.monotonic() > deadline:
                break  # a list of another client: it is compared as it is
            time.sleep(_SETTLE_PAUSE_S)
        self._moving = dict(before)
        return before, wanted, answer

    def _has_unsettled(self, listed: Mapping[Partition, Reassignment], answer: Message) -> bool:
        for topic in answer.topics:
            for each in topic.partitions:
                key = topic.name, each.partition_index
                known = self._moving.get(key)
                if known is None:
                    continue
                has_both = {*known.adding, *known.removing}.issubset(each.replica_nodes)
                if has_both != (key in listed) and (known.removing or key in listed):
                    return True
        return False

    def _look_once(self, names: Collection[str], *, is_last: bool) -> MoveLook:
        before, wanted, answer = self._read_settled(names)
        topics: dict[str, TopicState | None] = dict.fromkeys(wanted)
        states: dict[str, Mapping[int, PartitionState]] = {}
        metadata = decode_metadata(answer)
        errors: dict[str, TopiaristError] = {}
        for name in names:  # a topic that only another client moves may be hidden
            code = metadata.errors.get(name, requests.NONE)
            if code != requests.UNKNOWN_TOPIC and (
                error := _find_error(code, None, f"topic {name}", "Describe on the topic", is_last=is_last)
            ):
                errors[name] = error
        reassignments: dict[str, dict[int, Reassignment]] = {}
        for (name, partition), reassignment in before.items():
            reassignments.setdefault(name, {})[partition] = reassignment
        for name, topic in metadata.topics.items():
            topics[name] = build_topic_state(topic, {}, reassignments)
            states[name] = {
                number: PartitionState(one.leader, one.isr, one.leader_epoch)
                for number, one in topic.partitions.items()
            }
        present = [name for name in names if topics[name] is not None]
        min_isr: dict[str, int] = {}
        for name, configs in self._describe_topics(present, [_MIN_ISR], is_last=is_last):
            if isinstance(configs, TopiaristError):
                errors[name] = configs
            else:
                min_isr[name] = effective_min_isr({each.name: each.value for each in configs}, {})
        return MoveLook(topics, states, before, {broker.id: broker for broker in metadata.brokers}, min_isr, errors)

    def _describe_throttled_topics(
        self, names: Collection[str], *, is_last: bool
    ) -> dict[str, Mapping[str, str] | TopiaristError]:
        if names:
            self._sync()
        described = self._describe_topics(names, sorted(THROTTLE_CONFIGS), is_last=is_last)
        return {f"topics/{name}": _find_overrides(configs, OVERRIDE) for name, configs in described}

    def _describe_topics(
        self, names: Collection[str], keys: Sequence[str], *, is_last: bool
    ) -> Iterator[tuple[str, Message | TopiaristError]]:
        """Yield the configs of each topic that exists, or the error of one that the brokers do not describe."""
        if not names:
            return
        answer = self._session.any_broker().call(build_describe_configs(names, keys))
        results = {each.resource_name: each for each in answer.results}
        for name in names:
            result = results.get(name)
            if result is None or result.error_code != requests.UNKNOWN_TOPIC:
                right = f"DescribeConfigs on topic {name}"
                yield name, _configs_or_error(result, f"topics/{name}", right, is_last=is_last)

    def _list_reassignments(self) -> Mapping[Partition, Reassignment]:
        answer = self._session.controller().call(build_list_reassignments())
        _require(answer.error_code, answer.error_message, "the reassignments", "Describe on the cluster")
        listed = decode_reassignments(answer)
        return {(name, number): each for name, found in listed.items() for number, each in found.items()}

    def _repeat(self, read: Callable[[bool], Found]) -> Found:
        """Return the result of ``read``, which is called again after what may be gone, and told if it is the last."""
        deadline = time.monotonic() + READ_PATIENCE_S
        while True:
            is_last = time.monotonic() > deadline
            try:
                return read(is_last)
            except (Disconnected, _Temporary) as error:
                if is_last:
                    raise TopiaristError(Reason.UNREACHABLE, f"cannot read the cluster: {error}") from error
                self._session.forget_controller()
                time.sleep(_PAUSE_S)


class _Temporary(Exception):
    """An error code that is worth another read."""


def _find_overrides(configs: Message | TopiaristError, source: int) -> Mapping[str, str] | TopiaristError:
    """Return the values that are set for the entity itself, by their source; an error stays one."""
    if isinstance(configs, TopiaristError):
        return configs
    return {each.name: each.value for each in configs if each.config_source == source and each.value is not None}


def _configs_or_error(result: Message | None, entity: str, right: str, *, is_last: bool) -> Message | TopiaristError:
    if result is None:
        return TopiaristError(Reason.UNREADABLE, f"the answer of the brokers does not have the configs of {entity}")
    what = f"the configs of {entity}"
    return _find_error(result.error_code, result.error_message, what, right, is_last=is_last) or result.configs


def _require(code: int, message: str | None, what: str, right: str) -> None:
    if error := _find_error(code, message, what, right, is_last=False):
        raise error


def _find_error(code: int, message: str | None, what: str, right: str, *, is_last: bool) -> TopiaristError | None:
    """Return the error of an answer; None if it has none. What is worth another read raises ``_Temporary``."""
    if not code:
        return None
    said = describe_error(code, message)
    if code in _TEMPORARY and not is_last:
        raise _Temporary(f"{what}: {said}")
    if code in (requests.TOPIC_AUTHORIZATION, requests.CLUSTER_AUTHORIZATION):
        return TopiaristError(Reason.NO_PERMISSION, f"no permission to read {what}: it needs {right}; {said}")
    reason = Reason.UNREACHABLE if code in _TEMPORARY else Reason.UNREADABLE
    return TopiaristError(reason, f"{what} cannot be read: {said}")
