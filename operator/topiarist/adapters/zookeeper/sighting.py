"""Single topics as somebody sees them who waits for the controller: few reads, often. Above stands ``core.waiting``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from topiarist.adapters import znodes
from topiarist.adapters.znodes import Pool, ZnodeError, paths
from topiarist.adapters.zookeeper.head import read_reassigning
from topiarist.adapters.zookeeper.session import Session
from topiarist.adapters.zookeeper.wire import Failure, Node, read_children, read_nodes, sync
from topiarist.core.waiting import Sight
from topiarist.errors import Reason, TopiaristError


def look(session: Session, names: Sequence[str]) -> Mapping[str, Sight]:
    """Each topic as of now.

    The marks first: the controller takes the topic away before the mark, so that a topic which is there after its mark
    has gone was not deleted.
    """
    sync(session)
    marks = list(read_nodes(session, [znodes.deletion_path(name) for name in names]))
    topics = list(read_nodes(session, [znodes.topic_path(name) for name in names]))
    (brokers,) = read_children(session, [paths.BROKER_IDS])
    if Failure.DENIED in (*marks, *topics, brokers):
        raise TopiaristError(Reason.NO_PERMISSION, "no permission any more to read the topics that are waited for")
    registered = frozenset() if isinstance(brokers, Failure) else frozenset(brokers)
    reassigning = read_reassigning(session, names)
    return {
        name: _sight(topic, mark is not Failure.MISSING, registered, name in reassigning)
        for name, mark, topic in zip(names, marks, topics, strict=True)
    }


def _sight(topic: Node | Failure, marked: bool, registered: frozenset[str], reassigning: bool) -> Sight:
    if isinstance(topic, Failure):
        return Sight(None, marked)
    try:
        found = Pool().topic(topic.data)
    except ZnodeError:
        return Sight(topic.czxid, marked, reassigning=reassigning)  # what it cannot say, it cannot wait for either
    brokers = {broker for replicas in found.replicas for broker in replicas}
    missing = tuple(sorted(broker for broker in brokers if str(broker) not in registered))
    return Sight(topic.czxid, marked, missing, reassigning or bool(found.reassigning))
