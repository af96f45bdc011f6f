"""Read all groups of a cluster: which topics their members read, and the offsets that they committed.

A group is on the broker that lists it, its coordinator. It is never looked up: FindCoordinator would create the topic
of the committed offsets on a cluster that has none. Groups are listed before and after everything else, and whatever
either list has is read. A list without an error may still lack groups: ``reader`` decides whether it may.
"""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

from msgspec import Struct, field

from topiarist.adapters.kafka_admin.connection.connection import Connection, Disconnected, Message, UnsupportedRequest
from topiarist.adapters.kafka_admin.connection.error_codes import LOOKUP_CODES
from topiarist.adapters.kafka_admin.protocol import messages
from topiarist.model.usage import GroupType, UsageProblem

# Decode what a member of a classic consumer group is subscribed to, and what it is assigned.
#
# Both are bytes that the clients exchange; a broker stores them and does not check them. So whatever is not of the form
# that Kafka's own consumers write is no error: the group is opaque, and nothing can be said about what it reads. The
# topics come first in all versions of both forms, and what follows is not read.

_MAX_VERSION = 32


class Undecodable(Exception):
    """Bytes that are not a subscription or an assignment of a consumer."""


def decode_subscription(data: bytes) -> frozenset[str]:
    """Return the subscribed topics. Raises ``Undecodable``."""
    count, position = _read_head(data)
    topics: set[str] = set()
    for _ in range(count):
        topic, position = _read_text(data, position)
        topics.add(topic)
    return frozenset(topics)


def decode_assignment(data: bytes) -> frozenset[str]:
    """Return the topics with an assigned partition; none for a member without an assignment. Raises ``Undecodable``."""
    if not data:
        return frozenset()
    count, position = _read_head(data)
    topics: set[str] = set()
    for _ in range(count):
        topic, position = _read_text(data, position)
        partitions = _read(">i", data, position)
        position += 4
        if partitions > 0:
            topics.add(topic)
            position += 4 * partitions
        if position > len(data):
            raise Undecodable("it ends early")
    return frozenset(topics)


def _read_head(data: bytes) -> tuple[int, int]:
    version, count = _read(">h", data, 0), _read(">i", data, 2)
    if not 0 <= version <= _MAX_VERSION or count < 0:
        raise Undecodable("it is of another form")
    return count, 6


def _read_text(data: bytes, position: int) -> tuple[str, int]:
    length, start = _read(">h", data, position), position + 2
    text = data[start : start + length]
    if length <= 0 or len(text) != length:
        raise Undecodable("it has no topic name where one is due")
    try:
        return text.decode(), start + length
    except UnicodeDecodeError:
        raise Undecodable("a topic name is not UTF-8") from None


def _read(form: str, data: bytes, position: int) -> int:
    try:
        return int(struct.unpack_from(form, data, position)[0])
    except struct.error:
        raise Undecodable("it ends early") from None


# The requests of one read of usage: each to one broker, within one time limit, and with what was not answered noted.
#
# groups, offsets and sizes are asked for through ``UsageRequests``. A broker that is away, or lacks a right, must
# not end a snapshot: what it would have said is not known then, and ``problems`` names the request.

TIME_LIMIT_S = 60.0
"""Seconds for all requests of one read; 1,000 topics and 10,000 groups took 3 s on three brokers of one machine."""

ATTEMPTS, RETRY_INTERVAL_S = 3, 0.3
"""Attempts for a coordinator that is still loading, and for a group that rebalances."""

MAX_PROBLEMS = 100

_TIMED_OUT, _NETWORK = 7, 13

T = TypeVar("T")


class BrokerSession(Protocol):
    """A session that opens a connection to each broker."""

    def broker(self, broker_id: int) -> Connection:
        """Return the connection to one broker. Raises ``Disconnected``."""


class UsageRequests:
    """Sends the requests of one read. ``problems`` has those that were not answered, at most ``MAX_PROBLEMS``."""

    def __init__(self, session: BrokerSession, time_limit: float = TIME_LIMIT_S) -> None:
        self._session = session
        self._deadline = time.monotonic() + time_limit
        self.problems: list[UsageProblem] = []
        self.more_problems = 0

    def ask(self, what: str, broker: int, request: Message, at_most: int | None = None) -> Message | None:
        """Return the answer of a broker; None, with a problem noted, if there is none.

        ``at_most`` is the highest version to send. A throttled answer is returned when the broker takes the next one.
        """
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            self.note(what, broker, _TIMED_OUT)
            return None
        try:
            connection = self._session.broker(broker)
            answer = connection.call(request, version=connection.version_of(request, at_most), timeout=remaining)
        except Disconnected:
            self.note(what, broker, _NETWORK)
            return None
        except UnsupportedRequest:
            self.note(what, broker, 35)
            return None
        if throttled := answer.throttle_time_ms:
            time.sleep(min(throttled / 1000, max(self._deadline - time.monotonic(), 0)))
        return answer

    def version_of(self, broker: int, request: Message) -> int:
        """Return the highest version of a request that both sides know; -1 if there is none, or no connection."""
        try:
            return self._session.broker(broker).version_of(request)
        except (Disconnected, UnsupportedRequest):
            return -1

    def note(self, what: str, broker: int | None, error: int) -> None:
        """Add a problem."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(UsageProblem(what, broker, error))
        else:
            self.more_problems += 1

    def attempts(self) -> Iterator[bool]:
        """Yield up to ``ATTEMPTS`` times, with a pause between them; the value is true for the last one."""
        for number in range(1, ATTEMPTS + 1):
            if number > 1:
                time.sleep(RETRY_INTERVAL_S)
            yield number == ATTEMPTS


def is_temporary(code: int) -> bool:
    """Return whether an error code may be gone after some time: a coordinator or a leader that is not there yet."""
    return code in LOOKUP_CODES


def chunks(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield the values in parts of at most ``size``."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


MAX_GROUPS = 20_000
"""Groups that are read; of more, the other ones are unread."""

_GROUPS_PER_REQUEST = 100
_MANY_GROUPS_VERSION, _NAMES_VERSION = 8, 9
_GROUP_ID_NOT_FOUND = 69
_EMPTY, _DEAD = "Empty", "Dead"
_TYPES_OF_PROTOCOLS = (GroupType.SHARE, GroupType.STREAMS)
"""The types that the protocol of a group shows where the brokers do not name the type (before Kafka 3.8)."""

_COORDINATION_ONLY = frozenset({"connect", "sr"})
"""Protocol types of workers that share out work and read no topic as this group: Kafka Connect, Schema Registry."""


class Group(Struct):
    """One group: its members by topic, and its offsets by topic and partition.

    ``is_read`` is false if a broker refused to describe it, ``is_opaque`` true if its members do not say what they
    read.
    """

    group: str
    type: GroupType
    members: Counter[str] = field(default_factory=Counter)
    offsets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    is_read: bool = True
    is_opaque: bool = False


class Groups(Struct):
    """The groups that were read by id, and the brokers that listed theirs each time.

    ``listed_count`` counts all groups, ``unread_count`` those that could not be read.
    """

    groups: dict[str, Group] = field(default_factory=dict)
    answered: set[int] = field(default_factory=set)
    listed_count: int = 0
    unread_count: int = 0


class _Listed(Struct, frozen=True):
    group: str
    broker: int
    type: GroupType
    protocol: str
    is_empty: bool


class GroupReader:
    """Reads the groups of the brokers."""

    def __init__(self, requests: UsageRequests, brokers: Sequence[int]) -> None:
        self._requests = requests
        self._brokers = brokers
        self._result = Groups(answered=set(brokers))
        self._dead: set[str] = set()

    def read(self) -> Groups:
        """Return all groups."""
        found: dict[str, _Listed] = {}
        for _ in range(2):
            listed = {each.group: each for broker in self._brokers for each in self._list(broker)}
            new = [each for name, each in listed.items() if name not in found]
            found.update(listed)
            room = MAX_GROUPS - len(self._result.groups)
            self._result.unread_count += len(new[room:])
            self._read(new[:room])
        self._result.listed_count = len(found)
        for name in self._dead & listed.keys():
            self._result.groups[name].is_opaque = True  # it is still there, so it is of a newer type
        return self._result

    def _list(self, broker: int) -> list[_Listed]:
        for is_last in self._requests.attempts():
            answer = self._requests.ask("ListGroups", broker, messages.ListGroupsRequest())
            if answer is None:
                break
            if not answer.error_code:
                return [_listed(each, broker) for each in answer.groups]
            if is_last or not is_temporary(answer.error_code):
                self._requests.note("ListGroups", broker, answer.error_code)
                break
        self._result.answered.discard(broker)
        return []

    def _read(self, listed: Sequence[_Listed]) -> None:
        for broker in self._brokers:
            here = [each for each in listed if each.broker == broker]
            for each in here:
                self._result.groups[each.group] = Group(each.group, each.type)
            for kind, describe in self._describers().items():
                described = [each for each in here if each.type is kind and not each.is_empty]
                for part in chunks(described, _GROUPS_PER_REQUEST):
                    describe(broker, part)
            self._read_offsets(broker, [each for each in here if each.type is not GroupType.SHARE])
            self._read_share_offsets(broker, [each for each in here if each.type is GroupType.SHARE])

    def _describers(self) -> Mapping[GroupType, Callable[[int, Sequence[_Listed]], None]]:
        return {
            GroupType.CLASSIC: self._describe_classic,
            GroupType.CONSUMER: self._describe_consumer,
            GroupType.SHARE: self._describe_share,
            GroupType.STREAMS: self._describe_streams,
        }

    def _describe_classic(self, broker: int, listed: Sequence[_Listed]) -> None:
        """Describe classic groups; while one rebalances its members have no subscription, so it is asked for again."""
        protocols = {each.group: each.protocol for each in listed}
        waiting = list(protocols)
        for is_last in self._requests.attempts():
            request = messages.DescribeGroupsRequest(groups=waiting)
            described, waiting = self._answers("DescribeGroups", broker, request, waiting, is_last=is_last)
            for answer in described:
                group = self._result.groups[answer.group_id]
                if answer.group_state == _DEAD or answer.error_code == _GROUP_ID_NOT_FOUND:
                    self._dead.add(
                        group.group
                    )  # to this request a group of a newer type is dead, like one that was deleted
                    continue
                group.is_opaque = not _add_classic_members(group, answer, protocols[group.group])
                if group.is_opaque and answer.protocol_type == "consumer":
                    waiting.append(answer.group_id)
            if not waiting:
                return

    def _describe_consumer(self, broker: int, listed: Sequence[_Listed]) -> None:
        request = messages.ConsumerGroupDescribeRequest(group_ids=[each.group for each in listed])
        for answer in self._all_answers("ConsumerGroupDescribe", broker, request, listed):
            group = self._result.groups[answer.group_id]
            for member in answer.members:
                topics = set(member.subscribed_topic_names) | _assigned(member.assignment)
                topics |= _assigned(member.target_assignment)
                group.members.update(topics)
                # The broker resolves a pattern itself; until it has, the topics are not known.
                group.is_opaque |= bool(member.subscribed_topic_regex) and not topics

    def _describe_share(self, broker: int, listed: Sequence[_Listed]) -> None:
        request = messages.ShareGroupDescribeRequest(group_ids=[each.group for each in listed])
        for answer in self._all_answers("ShareGroupDescribe", broker, request, listed):
            for member in answer.members:
                topics = set(member.subscribed_topic_names) | _assigned(member.assignment)
                self._result.groups[answer.group_id].members.update(topics)

    def _describe_streams(self, broker: int, listed: Sequence[_Listed]) -> None:
        """Describe applications of Kafka Streams: each member may read every source topic of the topology."""
        request = messages.StreamsGroupDescribeRequest(group_ids=[each.group for each in listed])
        for answer in self._all_answers("StreamsGroupDescribe", broker, request, listed):
            group = self._result.groups[answer.group_id]
            subtopologies = (answer.topology.subtopologies if answer.topology else None) or ()
            topics = {topic for each in subtopologies for topic in each.source_topics}
            topics.update(own.name for each in subtopologies for own in each.repartition_source_topics)
            topics.update(own.name for each in subtopologies for own in each.state_changelog_topics)
            group.members.update(dict.fromkeys(topics, len(answer.members)))
            group.is_opaque = bool(answer.members) and not topics

    def _all_answers(self, what: str, broker: int, request: Message, listed: Sequence[_Listed]) -> Iterable[Message]:
        """Yield the description of each group that has one."""
        waiting = [each.group for each in listed]
        for is_last in self._requests.attempts():
            request.group_ids = waiting
            described, waiting = self._answers(what, broker, request, waiting, is_last=is_last)
            yield from (answer for answer in described if answer.error_code != _GROUP_ID_NOT_FOUND)
            if not waiting:
                return

    def _answers(
        self, what: str, broker: int, request: Message, wanted: Sequence[str], *, is_last: bool
    ) -> tuple[list[Message], list[str]]:
        """Return the descriptions of groups, and the groups to ask for again; mark those that are refused as unread."""
        answer = self._requests.ask(what, broker, request)
        found = {each.group_id: each for each in answer.groups} if answer else {}
        described, again = [], []
        for name in wanted:
            code = found[name].error_code if name in found else -1
            if code in (0, _GROUP_ID_NOT_FOUND):
                described.append(found[name])
            elif answer is not None and is_temporary(code) and not is_last:
                again.append(name)
            else:
                self._mark_unread(name)
                if answer is not None:
                    self._requests.note(what, broker, code)
        return described, again

    def _mark_unread(self, name: str) -> None:
        if self._result.groups[name].is_read:
            self._result.groups[name].is_read = False
            self._result.unread_count += 1

    def _read_offsets(self, broker: int, listed: Sequence[_Listed]) -> None:
        """Read the committed offsets of groups; topics that are hidden from topiarist are silently left out."""
        probe = messages.OffsetFetchRequest()
        has_many = self._requests.version_of(broker, probe) >= _MANY_GROUPS_VERSION
        size = _GROUPS_PER_REQUEST if has_many else 1
        for part in chunks([each.group for each in listed if self._result.groups[each.group].is_read], size):
            waiting: Sequence[str] = part
            for is_last in self._requests.attempts():
                answer = self._requests.ask(
                    "OffsetFetch", broker, _offset_request(waiting, has_many=has_many), _NAMES_VERSION
                )
                again: list[str] = []
                for name, (code, topics) in _offsets_by_group(answer, waiting, has_many=has_many).items():
                    if not code:
                        self._result.groups[name].offsets = topics
                    elif is_temporary(code) and not is_last and answer is not None:
                        again.append(name)
                    else:
                        self._mark_unread(name)
                        if answer is not None:
                            self._requests.note("OffsetFetch", broker, code)
                waiting = again
                if not waiting:
                    break

    def _read_share_offsets(self, broker: int, listed: Sequence[_Listed]) -> None:
        group_class = messages.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
        for part in chunks([each.group for each in listed if self._result.groups[each.group].is_read], 100):
            request = messages.DescribeShareGroupOffsetsRequest(
                groups=[group_class(group_id=name, topics=None) for name in part]
            )
            described, _ = self._answers("DescribeShareGroupOffsets", broker, request, part, is_last=True)
            for answer in described:
                self._result.groups[answer.group_id].offsets = {
                    topic.topic_name: {
                        each.partition_index: each.start_offset
                        for each in topic.partitions
                        if not each.error_code and each.start_offset >= 0  # -1: subscribed, and nothing was fetched yet
                    }
                    for topic in answer.topics
                }


def _listed(answer: Message, broker: int) -> _Listed:
    protocol = answer.protocol_type
    kinds = {each.value.lower(): each for each in (GroupType if answer.group_type else _TYPES_OF_PROTOCOLS)}
    kind = kinds.get((answer.group_type or protocol).lower(), GroupType.CLASSIC)
    if kind is GroupType.CLASSIC and not protocol:
        kind = GroupType.SIMPLE
    return _Listed(answer.group_id, broker, kind, protocol, is_empty=answer.group_state == _EMPTY)


def _add_classic_members(group: Group, answer: Message, protocol: str) -> bool:
    """Add the members of a classic group; return false if one does not say what it reads."""
    group.members.clear()
    if not answer.members or (answer.protocol_type or protocol) in _COORDINATION_ONLY:
        return True
    if answer.protocol_type != "consumer":
        return False
    try:
        for member in answer.members:
            topics = decode_subscription(bytes(member.member_metadata))
            group.members.update(topics)  # whatever else cannot be read, these topics are read
            group.members.update(decode_assignment(bytes(member.member_assignment)) - topics)
    except Undecodable:
        return False
    return True


def _assigned(assignment: Message) -> set[str]:
    return {each.topic_name for each in assignment.topic_partitions if each.partitions}


def _offset_request(groups: Sequence[str], *, has_many: bool) -> Message:
    if not has_many:
        return messages.OffsetFetchRequest(group_id=groups[0], topics=None)
    group_class = messages.OffsetFetchRequest.OffsetFetchRequestGroup
    wanted = [group_class(group_id=name, topics=None) for name in groups]
    return messages.OffsetFetchRequest(groups=wanted)


def _offsets_by_group(
    answer: Message | None, groups: Sequence[str], *, has_many: bool
) -> dict[str, tuple[int, dict[str, dict[int, int]]]]:
    """Return the error code and the offsets of each group; -1 if the answer does not have it."""
    result: dict[str, tuple[int, dict[str, dict[int, int]]]] = dict.fromkeys(groups, (-1, {}))
    if answer is None:
        return result
    found = answer.groups if has_many else [answer]
    for each in found:
        name = each.group_id if has_many else groups[0]
        code = each.error_code
        topics: dict[str, dict[int, int]] = {}
        for topic in each.topics:
            for partition in topic.partitions:
                code = code or partition.error_code
                if partition.committed_offset >= 0:
                    topics.setdefault(topic.name, {})[partition.partition_index] = partition.committed_offset
        if name in result:
            result[name] = (code, topics)
    return result
