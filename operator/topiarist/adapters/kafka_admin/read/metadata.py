"""Decode a Metadata answer: brokers, and topics with their ids, replica lists, leaders and in-sync replicas."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import (
    NO_ID,
    TOPIC_IDS_VERSION,
    Connection,
    Message,
    decode_topic_id,
    encode_topic_id,
)
from topiarist.adapters.kafka_admin.connection.session import ANSWER_HEADER_BYTES, AnswerCache
from topiarist.adapters.kafka_admin.protocol.messages import MalformedMessage, MetadataRequest, read_varint, skip_tags
from topiarist.kafka.types import Broker, Replicas

# A decoder of DescribeConfigs answers that keeps only the overrides of topics.
#
# A broker answers with every config of every topic, and almost none is an override: of ten thousand topics it is 13 MB,
# and the decoder of messages makes an object of each entry. This one steps over what is not kept, which takes a tenth
# of the time. It decodes version 4, which every broker from Kafka 2.7 on serves.

VERSION = 4
"""The version of the answer."""

OVERRIDE = 1
"""The source of a config that the topic itself sets."""

_TOO_MANY = 1 << 28
_LONG = 128  # a length from here on has more than one byte

_PLAIN_ENDS = frozenset(bytes((1, config_type, 0, 0)) for config_type in range(10))
"""The end of an entry without synonyms, documentation and tagged fields: all that topiarist asks for."""


class TopicOverrides(NamedTuple):
    """The overrides of one topic, or the error of the broker for it: a code that is not 0, and its message."""

    name: str
    config: dict[str, str]
    error_code: int
    error_message: str | None


def decode_overrides(data: bytes) -> Iterator[TopicOverrides]:
    """Yield the overrides of each topic of an answer, header included. Raises ``MalformedMessage``."""
    try:
        yield from _decode(data)
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedMessage(str(error)) from error


def _decode(data: bytes) -> Iterator[TopicOverrides]:
    position = ANSWER_HEADER_BYTES
    if len(data) < position or data[4]:
        raise MalformedMessage("the header has tagged fields, or is cut off")
    results, position = read_length(data, position)
    for _ in range(results):
        code = int.from_bytes(data[position : position + 2], signed=True)
        message, position = _read_text(data, position + 2)
        position += 1  # the type of the resource
        name, position = _read_text(data, position)
        entries, position = read_length(data, position)
        config: dict[str, str] = {}
        for _ in range(entries):
            # Nearly every entry is short and plain. Its length is one byte for each text, and 7 bytes follow.
            key_size = data[position]
            value_at = position + (key_size or 1)
            value_size = data[value_at]
            after = value_at + (value_size or 1)
            if key_size < _LONG and value_size < _LONG and data[after + 3 : after + 7] in _PLAIN_ENDS:
                if data[after + 1] == OVERRIDE:
                    config[data[position + 1 : value_at].decode()] = data[value_at + 1 : after].decode()
                position = after + 7
                continue
            key_start, key_end = read_span(data, position)
            value_start, value_end = read_span(data, key_end)
            source = data[value_end + 1]  # after the flag for a config that is read only
            if source == OVERRIDE:
                config[data[key_start:key_end].decode()] = data[value_start:value_end].decode()
            position = value_end + 3  # the source, and the flag for a sensitive config
            synonyms, position = read_length(data, position)
            for _ in range(synonyms):
                _, position = read_span(data, position)
                _, position = read_span(data, position)
                position = skip_tags(data, position + 1)
            _, position = read_span(data, position + 1)  # the type of the config, its documentation
            position = skip_tags(data, position)
        position = skip_tags(data, position)
        yield TopicOverrides(name, config, code, message)
    position = skip_tags(data, position)
    if position != len(data):
        raise MalformedMessage(f"{len(data) - position} bytes follow the answer")


def read_length(data: bytes, position: int) -> tuple[int, int]:
    """Return the number of elements of a list (a null list has none), and the position after it."""
    value, position = read_varint(data, position)
    if value > _TOO_MANY:
        raise MalformedMessage(f"a list has {value:,} elements")
    return max(value - 1, 0), position


def read_span(data: bytes, position: int) -> tuple[int, int]:
    """Return start and end of a text (a null text is empty)."""
    value, position = read_varint(data, position)
    end = position + max(value - 1, 0)
    if end > len(data):
        raise MalformedMessage("a text ends after the answer")
    return position, end


def _read_text(data: bytes, position: int) -> tuple[str, int]:
    start, end = read_span(data, position)
    return data[start:end].decode(), end


UNKNOWN_TOPIC_ID = 100
"""The error code of a topic id that no topic has; a topic that is hidden has ``TOPIC_AUTHORIZATION_FAILED``."""

_ID_BYTES = 4
_FIRST_FLEXIBLE = 9  # the first version of this form


class PartitionMetadata(NamedTuple):
    """One partition: its replica list, its leader (-1: none), and the in-sync replicas."""

    replicas: Replicas
    leader: int
    isr: Replicas
    leader_epoch: int


class TopicMetadata(NamedTuple):
    """One topic; ``partitions`` are sorted by id. ``topic_id`` is in Kafka's own text form."""

    name: str
    topic_id: str | None
    partitions: Mapping[int, PartitionMetadata]


class ClusterMetadata(NamedTuple):
    """A Metadata answer. ``errors`` has the error code of each topic that the answer does not describe, by name."""

    cluster_id: str
    controller: int | None
    brokers: tuple[Broker, ...]
    topics: Mapping[str, TopicMetadata]
    errors: Mapping[str, int]


def read_metadata(connection: Connection, names: Collection[str] | None = None) -> ClusterMetadata:
    """Return the metadata of these topics, of all topics (None), or of the cluster alone (no names).

    Creates no topic. Raises ``Disconnected``.
    """
    topic = MetadataRequest.MetadataRequestTopic
    wanted = None if names is None else [topic(name=name, topic_id=NO_ID) for name in names]
    return decode_metadata(connection.call(_request(wanted)))


class AllMetadata:
    """The metadata of all topics, read again and again over one connection.

    An answer that is like the one before is not decoded again: its ``topics`` are the same object. In KRaft mode each
    answer names another broker as its controller, so that this number does not count. ``answers`` are those of earlier
    reads.
    """

    def __init__(self, connection: Connection, answers: AnswerCache | None = None) -> None:
        self._connection = connection
        self._answers = answers or AnswerCache()

    def read(self) -> ClusterMetadata:
        """Return the metadata of now. Raises ``Disconnected``."""
        request = _request(None)
        version = self._connection.version_of(request)
        data = self._connection.call_raw(request, version)
        controller_at = _find_controller_id(data) if version >= _FIRST_FLEXIBLE else len(data)
        content = data[ANSWER_HEADER_BYTES:controller_at], data[controller_at + _ID_BYTES :]
        metadata = self._answers.decode(
            ("Metadata", version), content, lambda: decode_metadata(self._connection.decode(request, version, data))
        )
        if controller_at == len(data):
            return metadata
        controller = int.from_bytes(data[controller_at : controller_at + _ID_BYTES], signed=True)
        return metadata._replace(controller=controller if controller >= 0 else None)


def _find_controller_id(data: bytes) -> int:
    """Return the position of the controller's id in an answer; the end of bytes that are not an answer."""
    try:
        brokers, position = read_length(data, ANSWER_HEADER_BYTES)
        for _ in range(brokers):
            _, position = read_span(data, position + _ID_BYTES)  # the host
            _, position = read_span(data, position + _ID_BYTES)  # the rack, after the port
            position = skip_tags(data, position)
        _, position = read_span(data, position)  # the id of the cluster
    except (IndexError, MalformedMessage):
        return len(data)
    return position


def read_topic_id_errors(connection: Connection, topic_ids: Collection[str]) -> Mapping[str, int]:
    """Return the error code of each topic id: 0, ``UNKNOWN_TOPIC_ID``, or that of a topic that is hidden.

    Brokers without topic ids cannot be asked: each id has ``UNSUPPORTED_VERSION``.
    """
    if not topic_ids:
        return {}
    topic = MetadataRequest.MetadataRequestTopic
    request = _request([topic(name=None, topic_id=decode_topic_id(each)) for each in topic_ids])
    if connection.version_of(request) < TOPIC_IDS_VERSION:
        return dict.fromkeys(topic_ids, error_codes.UNSUPPORTED_VERSION)
    answer = connection.call(request)
    found = {encode_topic_id(each.topic_id): each.error_code for each in answer.topics}
    # A topic that the answer leaves out is not known to be gone.
    return {each: found.get(each, error_codes.UNKNOWN_SERVER_ERROR) for each in topic_ids}


def decode_metadata(answer: Message) -> ClusterMetadata:
    """Return the values of a Metadata answer."""
    topics: dict[str, TopicMetadata] = {}
    errors: dict[str, int] = {}
    lists: dict[Replicas, Replicas] = {}  # most lists are equal to others: one object for all of them

    def intern(ids: Iterable[int]) -> Replicas:
        found = tuple(ids)
        return lists.setdefault(found, found)

    for each in answer.topics:
        if each.error_code:
            errors[each.name] = each.error_code
            continue
        partitions = {
            partition.partition_index: PartitionMetadata(
                intern(partition.replica_nodes),
                partition.leader_id,
                intern(partition.isr_nodes),
                partition.leader_epoch,
            )
            for partition in sorted(each.partitions, key=lambda partition: int(partition.partition_index))
        }
        topics[each.name] = TopicMetadata(each.name, encode_topic_id(each.topic_id) or None, partitions)
    brokers = tuple(
        Broker(each.node_id, each.rack) for each in sorted(answer.brokers, key=lambda one: int(one.node_id))
    )
    controller = answer.controller_id if answer.controller_id >= 0 else None
    return ClusterMetadata(answer.cluster_id or "", controller, brokers, topics, errors)


def _request(topics: list[Message] | None) -> Message:
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=False,
    )
