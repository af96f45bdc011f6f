"""A cache of decoded topics for a session that reads its cluster repeatedly.

The operator enables it with ``ZooKeeperCluster.enable_decode_cache``; ``read_state`` then decodes only the topics with
a changed znode.
"""

from __future__ import annotations

from typing import NamedTuple

from topiarist.adapters.zookeeper.codec.topics import ZnodeDecoder
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode
from topiarist.adapters.zookeeper.read.topic import TopicZnodes, decode_topic_state
from topiarist.model.state import ReadError, TopicState


class DecodeCache:
    """The decoded topics of the last read of a session, with the mzxids of their znodes.

    Every write of a znode changes its mzxid, and the reads of a session never return older data. ``decoded_count`` is
    the number of topics that the current read had to decode.
    """

    def __init__(self) -> None:
        self._previous: dict[str, _CacheEntry] = {}
        self._current: dict[str, _CacheEntry] = {}
        self.decoded_count = 0

    def start_read(self) -> None:
        """Start a read: topics that it does not contain are removed from the cache."""
        self._previous, self._current, self.decoded_count = self._current, {}, 0

    def decode_topic_state(self, nodes: TopicZnodes, pool: ZnodeDecoder) -> TopicState | ReadError | None:
        """Return the state as ``read.topic.decode_topic_state`` does; decode it only if a znode has changed."""
        mzxids = _mzxid(nodes.topic), _mzxid(nodes.config), _mzxid(nodes.record)
        entry = self._previous.get(nodes.name)
        if entry is None or entry.mzxids != mzxids:
            self.decoded_count += 1
            entry = _CacheEntry(mzxids, decode_topic_state(nodes, pool))
        self._current[nodes.name] = entry
        return entry.state


class _CacheEntry(NamedTuple):
    """The state of a topic, and the mzxids of the znodes that it was decoded from."""

    mzxids: tuple[int | ReadFailure, ...]
    state: TopicState | ReadError | None


def _mzxid(node: Znode | ReadFailure) -> int | ReadFailure:
    return node if isinstance(node, ReadFailure) else node.mzxid
