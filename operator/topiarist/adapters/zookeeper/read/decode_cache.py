"""What an earlier read of a session made of topics: one that is read again and again decodes only what has changed."""

from __future__ import annotations

from typing import NamedTuple

from topiarist.adapters.zookeeper.codec.topics import ZnodeDecoder
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode
from topiarist.adapters.zookeeper.read.topic import TopicZnodes, decode_topic_state
from topiarist.model.state import ReadError, TopicState


class DecodeCache:
    """What the last read of a session made of each topic, and of which znodes: what has not changed is not read again.

    Every write of a znode gives it another mzxid, and a session never goes back.
    """

    def __init__(self) -> None:
        self._previous: dict[str, _CacheEntry] = {}
        self._current: dict[str, _CacheEntry] = {}
        self.decoded_count = 0

    def start_read(self) -> None:
        """A read begins: what it does not find again is forgotten."""
        self._previous, self._current, self.decoded_count = self._current, {}, 0

    def decode_topic_state(self, nodes: TopicZnodes, pool: ZnodeDecoder) -> TopicState | ReadError | None:
        """As ``topic_state``; ``decoded`` counts the topics of which something had changed."""
        stamp = _mzxid(nodes.topic), _mzxid(nodes.config), _mzxid(nodes.record)
        found = self._previous.get(nodes.name)
        if found is None or found.mzxids != stamp:
            self.decoded_count += 1
            found = _CacheEntry(stamp, decode_topic_state(nodes, pool))
        self._current[nodes.name] = found
        return found.state


class _CacheEntry(NamedTuple):
    """A topic, and the last changes of the znodes that it was made from."""

    mzxids: tuple[int | ReadFailure, ...]
    state: TopicState | ReadError | None


def _mzxid(node: Znode | ReadFailure) -> int | ReadFailure:
    return node if isinstance(node, ReadFailure) else node.mzxid
