"""Decode the znodes of one topic into a ``TopicState``.

``read.state`` decodes every topic of a bulk read with it, ``WriteContext`` a single topic before its write.
"""

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
        if topic is ReadFailure.DENIED:
            raise ZnodeError(NO_PERMISSION_MESSAGE)
        node = decoder.decode_topic(topic.data)
        where = config_path
        overrides = _decode_config(config, decoder)
        where = record_path
        ownership_record = decode_optional_record(record, decoder)
    except ZnodeError as error:
        return ReadError(where(name), str(error))
    # A record that was last written before the topic was created belongs to an earlier topic of that name.
    valid = not isinstance(record, ReadFailure) and record.mzxid >= topic.czxid
    return TopicState(
        name=name,
        identity=topic.czxid,
        replicas=node.replicas,
        config=overrides,
        partition_ids=node.partition_ids,
        topic_id=node.topic_id,
        reassigning_partitions=node.reassigning_partitions,
        record=ownership_record,
        record_valid=valid,
        modified_externally=valid and _config_changed_since(config, record),
        unknown_fields=node.unknown_fields,
    )


def _decode_config(node: Znode | ReadFailure, decoder: ZnodeDecoder) -> Mapping[str, str]:
    """Return the overrides; a missing znode means none, as in Kafka."""
    if node is ReadFailure.MISSING:
        return _NO_CONFIG
    if node is ReadFailure.DENIED:
        raise ZnodeError(NO_PERMISSION_MESSAGE)
    return decoder.decode_config(node.data)


def decode_optional_record(node: Znode | ReadFailure, decoder: ZnodeDecoder) -> OwnershipRecord | None:
    """Return the ownership record, None if it is missing; raise ``ZnodeError`` if it is malformed or forbidden."""
    if node is ReadFailure.MISSING:
        return None
    if node is ReadFailure.DENIED:
        raise ZnodeError(NO_PERMISSION_MESSAGE)
    return decoder.decode_record(node.data)


def _config_changed_since(config: Znode | ReadFailure, record: Znode | ReadFailure) -> bool:
    return not isinstance(config, ReadFailure) and not isinstance(record, ReadFailure) and config.mzxid > record.mzxid
