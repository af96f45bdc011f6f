"""Decode a Metadata answer: brokers, and topics with their ids, replica lists, leaders and in-sync replicas."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kafka.protocol.metadata.metadata import MetadataRequest

from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import Connection, Message
from topiarist.adapters.kafka_admin.connection.topic_ids import NO_ID, decode_topic_id, encode_topic_id
from topiarist.adapters.kafka_admin.read.overrides_decoder import MalformedAnswer, read_length, read_span, skip_tags
from topiarist.kafka.types import Broker, Replicas

UNKNOWN_TOPIC_ID = 100
"""The error code of a topic id that no topic has; a topic that is hidden has ``TOPIC_AUTHORIZATION_FAILED``."""

_HEADER_BYTES, _ID_BYTES = 4 + 1 + 4, 4  # correlation id, tagged fields of the header, throttle time


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
    answer names another broker as its controller, so that this number does not count.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._content: tuple[bytes, bytes] | None = None
        self._metadata: ClusterMetadata | None = None

    def read(self) -> ClusterMetadata:
        """Return the metadata of now. Raises ``Disconnected``."""
        request = _request(None)
        version = self._connection.version_of(request)
        data = self._connection.call_raw(request, version)
        controller_at = _find_controller_id(data)
        content = data[_HEADER_BYTES:controller_at], data[controller_at + _ID_BYTES :]
        if self._metadata is None or content != self._content:
            self._metadata, self._content = decode_metadata(self._connection.decode(request, version, data)), content
            return self._metadata
        controller = int.from_bytes(data[controller_at : controller_at + _ID_BYTES], "big", signed=True)
        return self._metadata._replace(controller=controller if controller >= 0 else None)


def _find_controller_id(data: bytes) -> int:
    """Return the position of the controller's id in an answer; the end of bytes that are not an answer."""
    try:
        brokers, position = read_length(data, _HEADER_BYTES)
        for _ in range(brokers):
            _, position = read_span(data, position + _ID_BYTES)  # the host
            _, position = read_span(data, position + _ID_BYTES)  # the rack, after the port
            position = skip_tags(data, position)
        _, position = read_span(data, position)  # the id of the cluster
    except (IndexError, MalformedAnswer):
        return len(data)
    return position


def read_topic_id_errors(connection: Connection, topic_ids: Collection[str]) -> Mapping[str, int]:
    """Return the error code of each topic id: 0, ``UNKNOWN_TOPIC_ID``, or that of a topic that is hidden."""
    if not topic_ids:
        return {}
    topic = MetadataRequest.MetadataRequestTopic
    answer = connection.call(_request([topic(name=None, topic_id=decode_topic_id(each)) for each in topic_ids]))
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
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
