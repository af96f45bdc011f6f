"""Decode the znodes of one topic into a ``TopicState``, and cache the states between the reads of a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from topiarist.adapters.zookeeper.codec.paths import config_path, record_path, topic_path
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError
from topiarist.adapters.zookeeper.codec.topics import ZnodeDecoder
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode
from topiarist.model.state import OwnershipRecord, ReadError, TopicState

NO_PERMISSION_MESSAGE = "no permission to read it"
_NO_CONFIG: Mapping[str, str] = {}


class TopicZnodes(NamedTuple):
    """The znodes of one topic as read: raw, with their versions.

    ``marked_for_deletion`` is True if the topic has a deletion request.
    """

    name: str
    topic: Znode | ReadFailure
    config: Znode | ReadFailure
    record: Znode | ReadFailure
    marked_for_deletion: bool


def decode_topic_state(nodes: TopicZnodes, decoder: ZnodeDecoder) -> TopicState | ReadError | None:
    """Return the state of the topic.

    Returns None if the topic is missing, a ``ReadError`` for the first znode that is malformed or forbidden.
    """
    name, topic, config, record, _ = nodes
    if topic is ReadFailure.MISSING:
        return None
    where: Callable[[str], str] = topic_path
    try:
        topic = require_readable(topic)
        node = decoder.decode_topic(topic.data)
        where = config_path
        # A missing config znode means no overrides, as in Kafka.
        overrides = (
            _NO_CONFIG if config is ReadFailure.MISSING else decoder.decode_config(require_readable(config).data)
        )
        where = record_path
        ownership_record = decode_optional_record(record, decoder)
    except ZnodeError as error:
        return ReadError(where(name), str(error))
    record_valid = modified_externally = False
    # A record that was last written before the topic was created belongs to an earlier topic of that name.
    if isinstance(record, Znode) and record.mzxid >= topic.czxid:
        record_valid = True
        modified_externally = isinstance(config, Znode) and config.mzxid > record.mzxid
    return TopicState(
        name=name,
        identity=str(topic.czxid),
        replicas=node.replicas,
        config=overrides,
        partition_ids=node.partition_ids,
        topic_id=node.topic_id,
        reassigning_partitions=tuple(node.reassignments),
        record=ownership_record,
        record_valid=record_valid,
        modified_externally=modified_externally,
        unknown_fields=node.unknown_fields,
    )


def decode_optional_record(node: Znode | ReadFailure, decoder: ZnodeDecoder) -> OwnershipRecord | None:
    """Return the ownership record, None if it is missing; raise ``ZnodeError`` if it is malformed or forbidden."""
    return None if node is ReadFailure.MISSING else decoder.decode_record(require_readable(node).data)


def require_readable(node: Znode | ReadFailure) -> Znode:
    """Return a znode that exists; raise ``ZnodeError`` if there is no permission to read it."""
    if isinstance(node, ReadFailure):
        raise ZnodeError(NO_PERMISSION_MESSAGE)
    return node


class DecodeCache:
    """The decoded topics of the last read of a session, with the mzxids of their znodes.

    Every write of a znode changes its mzxid, and the reads of a session never return older data. The operator, which
    reads repeatedly, therefore decodes only the topics with a changed znode.
    """

    def __init__(self) -> None:
        self._previous: dict[str, _CacheEntry] = {}
        self._current: dict[str, _CacheEntry] = {}

    def start_read(self) -> None:
        """Start a read: topics that it does not contain are removed from the cache."""
        self._previous, self._current = self._current, {}

    def decode_topic_state(self, nodes: TopicZnodes, decoder: ZnodeDecoder) -> TopicState | ReadError | None:
        """Return the state as the function ``decode_topic_state`` does; decode it only if a znode has changed."""
        znodes = nodes.topic, nodes.config, nodes.record
        mzxids = tuple([node if isinstance(node, ReadFailure) else node.mzxid for node in znodes])
        entry = self._previous.get(nodes.name)
        if entry is None or entry[0] != mzxids:
            entry = mzxids, decode_topic_state(nodes, decoder)
        self._current[nodes.name] = entry
        return entry[1]


_CacheEntry = tuple[tuple[int | ReadFailure, ...], TopicState | ReadError | None]
"""The mzxids of a topic's znodes, and the state that was decoded from them."""
