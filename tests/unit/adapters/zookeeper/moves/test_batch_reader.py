"""What is read before a batch: states of the present topic alone, and configs that can be decoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

import pytest

from topiarist.adapters.zookeeper.codec.topics import encode_config
from topiarist.adapters.zookeeper.connection.session import Session
from topiarist.adapters.zookeeper.moves import batch_reader
from topiarist.adapters.zookeeper.moves.batch_reader import (
    StateZnodes,
    decode_entity_configs,
    decode_lists,
    decode_moved_topic,
    decode_reassignments,
    decode_states,
    read_partition_states,
)
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode
from topiarist.adapters.zookeeper.read.topic import TopicZnodes
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Broker
from topiarist.model.state import PartitionState, Reassignment

TOPIC = (
    b'{"partitions":{"0":[3,2,1],"1":[2,3]},"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ","adding_replicas":{"0":[3]},'
    b'"removing_replicas":{"0":[1]},"version":3}'
)
STATE = b'{"controller_epoch":1,"leader":2,"version":1,"leader_epoch":0,"isr":[2,3]}'
BROKERS = {1: Broker(1)}


def node(data: bytes) -> Znode:
    """Return a znode with these bytes."""
    return Znode(data, 7, 8, 0, 1, 0)


def znodes(data: Znode | ReadFailure) -> TopicZnodes:
    """Return the znodes of ``orders``, with two replicas as the smallest number in sync."""
    config = node(encode_config({"min.insync.replicas": "2"}))
    return TopicZnodes("orders", data, config, ReadFailure.MISSING, marked_for_deletion=True)


def test_a_topic_is_read_for_the_gate() -> None:
    """Its reassignments, deletion request, states and smallest number of replicas in sync."""
    states = {("orders", 0): node(STATE), ("other", 1): node(STATE)}
    found = decode_moved_topic(znodes(node(TOPIC)), BROKERS, {}, states)
    assert found.topic is not None
    assert found.topic.replicas == ((3, 2, 1), (2, 3))
    assert found.reassignments == {0: Reassignment((3,), (1,))}
    assert (found.marked_for_deletion, found.brokers, found.min_isr) == (True, BROKERS, 2)
    assert found.states == {0: PartitionState(2, (2, 3), controller_epoch=1)}
    assert decode_moved_topic(znodes(node(TOPIC)), BROKERS, {}).states is None


def test_a_topic_that_does_not_exist_has_no_state() -> None:
    """Its config may be left of an earlier topic, and does not count."""
    found = decode_moved_topic(znodes(ReadFailure.MISSING), BROKERS, {"min.insync.replicas": "2"})
    assert (found.topic, found.reassignments, found.min_isr) == (None, {}, 1)


@pytest.mark.parametrize("data", [node(b"{"), ReadFailure.DENIED])
def test_a_topic_that_cannot_be_read_is_an_error(data: Znode | ReadFailure) -> None:
    """The path is in the message; partitions and reassignments of such a topic are not known."""
    with pytest.raises(TopiaristError, match="/brokers/topics/orders") as caught:
        decode_moved_topic(znodes(data), BROKERS, {})
    assert caught.value.reason is Reason.TOPIC_UNREADABLE
    assert decode_reassignments(znodes(data)) == {}
    assert not decode_lists(znodes(data))


def test_partitions_and_reassignments_of_a_topic() -> None:
    """A topic that does not exist has none."""
    assert (*decode_lists(znodes(node(TOPIC))),) == (0, 1)
    assert decode_reassignments(znodes(ReadFailure.MISSING)) == {}
    assert not decode_lists(znodes(ReadFailure.MISSING))


def test_a_malformed_state_counts_as_none() -> None:
    """The partition is then not moved."""
    states = {("orders", 0): node(b"{"), ("orders", 1): node(STATE)}
    assert decode_states("orders", states) == {1: PartitionState(2, (2, 3), controller_epoch=1)}


class Answers:
    """A session in place of a real one: each read returns these answers, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Znode | ReadFailure) -> None:
        self.paths: list[str] = []

        def read(_session: object, paths: Iterable[str]) -> Iterator[Znode | ReadFailure]:
            self.paths = list(paths)
            return iter(answers)

        monkeypatch.setattr(batch_reader, "read_znodes", read)

    def read_states(self) -> StateZnodes:
        """Return the states of ``orders``, which was created at transaction 7."""
        return read_partition_states(cast("Session", self), [znodes(node(TOPIC)), znodes(ReadFailure.MISSING)])


def test_a_state_of_an_earlier_topic_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A state that is older than its topic is left out, as a missing one is; a topic that does not exist has none."""
    younger, older = node(STATE), node(STATE)._replace(czxid=6)
    answers = Answers(monkeypatch, younger, older)
    assert answers.read_states() == {("orders", 0): younger}
    assert answers.paths == [f"/brokers/topics/orders/partitions/{partition}/state" for partition in (0, 1)]
    assert Answers(monkeypatch, ReadFailure.MISSING, younger).read_states() == {("orders", 1): younger}


def test_a_state_that_may_not_be_read_ends_the_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it nothing is known of the health of the partition."""
    with pytest.raises(TopiaristError, match=r"no permission to read .*/partitions/1/state") as caught:
        Answers(monkeypatch, node(STATE), ReadFailure.DENIED).read_states()
    assert caught.value.reason is Reason.NO_PERMISSION


def test_configs_of_entities() -> None:
    """A missing config is empty; a topic that does not exist is left out, whatever its config is."""
    topics = {
        "gone": replace_name(znodes(ReadFailure.MISSING), "gone"),
        "orders": znodes(node(TOPIC)),
    }
    nodes: dict[str, Znode | ReadFailure] = {
        "brokers/1": ReadFailure.MISSING,
        "topics/gone": node(encode_config({"a": "1"})),
        "topics/orders": node(encode_config({"b": "2"})),
        "topics/unread": node(encode_config({})),
    }
    assert decode_entity_configs(nodes, topics) == {"brokers/1": {}, "topics/orders": {"b": "2"}}


def replace_name(nodes: TopicZnodes, name: str) -> TopicZnodes:
    """Return the znodes of another topic."""
    return nodes._replace(name=name)


@pytest.mark.parametrize("data", [node(b"{"), ReadFailure.DENIED])
def test_a_config_that_cannot_be_read_is_an_error(data: Znode | ReadFailure) -> None:
    """Nothing could be put back into it."""
    with pytest.raises(TopiaristError, match="/config/brokers/1 cannot be read") as caught:
        decode_entity_configs({"brokers/1": data}, {})
    assert caught.value.reason is Reason.UNREADABLE
