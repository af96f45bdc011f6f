"""What an earlier read of a session made of topics: one that is read again and again decodes only what has changed."""

from __future__ import annotations

from typing import NamedTuple

from topiarist.adapters.znodes import Pool
from topiarist.adapters.zookeeper.reading import TopicNodes, topic_state
from topiarist.adapters.zookeeper.wire import Failure, Node
from topiarist.core.state import Fault, TopicState


class Memory:
    """What the last read of a session made of each topic, and of which znodes: what has not changed is not read again.

    Every write of a znode gives it another mzxid, and a session never goes back.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Decoded] = {}
        self._new: dict[str, _Decoded] = {}
        self.decoded = 0

    def begin(self) -> None:
        """A read begins: what it does not find again is forgotten."""
        self._known, self._new, self.decoded = self._new, {}, 0

    def topic(self, nodes: TopicNodes, pool: Pool) -> TopicState | Fault | None:
        """As ``topic_state``; ``decoded`` counts the topics of which something had changed."""
        stamp = _stamp(nodes.topic), _stamp(nodes.config), _stamp(nodes.record)
        found = self._known.get(nodes.name)
        if found is None or found.stamp != stamp:
            self.decoded += 1
            found = _Decoded(stamp, topic_state(nodes, pool))
        self._new[nodes.name] = found
        return found.state


class _Decoded(NamedTuple):
    """A topic, and the last changes of the znodes that it was made from."""

    stamp: tuple[int | Failure, ...]
    state: TopicState | Fault | None


def _stamp(node: Node | Failure) -> int | Failure:
    return node if isinstance(node, Failure) else node.mzxid
