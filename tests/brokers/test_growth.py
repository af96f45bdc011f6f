"""Growth of topics, compared with Kafka's own ``--alter --partitions``.

Each case is a pair of topics with the same replica lists, generated from a seed. topiarist grows one, Kafka grows the
other, on the same brokers at the same time. New partitions get the same replicas, and no message is lost.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import NamedTuple

from support.kafka.kafka_fixture import KafkaFixture
from topiarist.errors import Exit

CASES = {"racked": 20, "bare": 10, "gone": 12}
"""Number of pairs for each layout: 126 with three releases."""

GONE = (2, 7)
"""Brokers of the racked cluster that are stopped before the growth, from two of its three racks."""

Lists = tuple[tuple[int, ...], ...]


class Case(NamedTuple):
    """A pair of topics, ``name`` and ``twin``, with their replica lists and their target partition count."""

    name: str
    lists: Lists
    total: int

    @property
    def twin(self) -> str:
        """Return the name of the topic that Kafka grows."""
        return f"{self.name}-twin"

    @property
    def spec(self) -> dict[str, int]:
        """Return the fields of the topic's manifest."""
        return {"partitions": self.total, "replicationFactor": len(self.lists[0])}


def cases(kind: str, seed: str, brokers: Collection[int], widest: int) -> list[Case]:
    """Return random pairs: unordered replica lists of 1 to 9 partitions with 1 to ``widest`` replicas.

    Each list has a broker that stays up, because Kafka's client waits for a leader of every partition.
    """
    random = Random(seed)
    found = []
    for number in range(CASES[kind]):
        width = random.randint(1, widest)
        lists: list[tuple[int, ...]] = []
        for _ in range(random.randint(1, 9)):
            lists.append(tuple(random.sample(sorted(brokers), width)))
            while not set(lists[-1]).difference(GONE):
                lists[-1] = tuple(random.sample(sorted(brokers), width))
        found.append(Case(f"grow-{kind}-{number}", tuple(lists), len(lists) + random.randint(1, 11)))
    return found


def make(bed: KafkaFixture, pairs: Sequence[Case]) -> None:
    """Create all pairs, wait for them, and write a message to each partition of the topics that topiarist grows."""
    lists = {name: case.lists for case in pairs for name in (case.name, case.twin)}
    assert bed.clients.create(lists) == {}
    bed.describe_in_sync(lists)
    bed.write_messages({case.name: case.lists for case in pairs}, "before")


def grow(bed: KafkaFixture, pairs: Sequence[Case], *words: str) -> None:
    """Grow one topic of each pair with topiarist and the other with Kafka.

    Compare both with each other and the plan.
    """
    bed.declare({case.name: case.spec for case in pairs})
    changes = bed.plan("--adopt=*", *words)
    bed.apply_plan()
    assert bed.clients.grow({case.twin: case.total for case in pairs}) == {}
    found = bed.describe_grown({name: case.total for case in pairs for name in (case.name, case.twin)})
    planned = {
        name: tuple(map(tuple, change["after"]["newReplicas"]))
        for name, of_topic in changes.items()
        for change in of_topic
        if change["kind"] == "AddPartitions"
    }
    ours = {case.name: found[case.name].replicas for case in pairs}
    assert ours == {case.name: case.lists + planned[case.name] for case in pairs}
    assert ours == {case.name: found[case.twin].replicas for case in pairs}


def check_messages(bed: KafkaFixture, pairs: Sequence[Case]) -> None:
    """Assert that old messages are kept, and that old and new partitions accept and return messages."""
    found = bed.describe_in_sync([case.name for case in pairs])
    replicas = {name: topic.replicas for name, topic in found.items()}
    bed.write_messages(replicas, "after")
    read = bed.read_messages(replicas)
    for case in pairs:
        old, new = [["before", "after"]] * len(case.lists), [["after"]] * (case.total - len(case.lists))
        assert read[case.name] == old + new


def test_growth_across_racks_is_kafkas(racked: KafkaFixture) -> None:
    """Growth of random replica lists on five brokers in three uneven racks equals Kafka's."""
    pairs = cases("racked", racked.kafka.release, racked.kafka.racks, widest=5)
    make(racked, pairs)
    grow(racked, pairs)
    check_messages(racked, pairs)


def test_growth_without_racks_is_kafkas(bare: KafkaFixture) -> None:
    """Growth of random replica lists on three brokers without racks equals Kafka's."""
    pairs = cases("bare", bare.kafka.release, bare.kafka.racks, widest=3)
    make(bare, pairs)
    grow(bare, pairs)
    check_messages(bare, pairs)


def test_growth_of_what_kafka_has_placed(racked: KafkaFixture) -> None:
    """Growth of topics that Kafka placed itself, from a random start in its own order of brokers, equals Kafka's."""
    sizes = {f"grow-placed-{number}": (number + 1, number % 3 + 1) for number in range(8)}
    assert racked.clients.create_unassigned(sizes) == {}
    placed = racked.describe_in_sync(sizes)
    pairs = [Case(name, topic.replicas, 2 * len(topic.replicas) + 3) for name, topic in placed.items()]
    assert racked.clients.create({case.twin: case.lists for case in pairs}) == {}
    racked.describe_in_sync([case.twin for case in pairs])
    racked.write_messages({case.name: case.lists for case in pairs}, "before")
    grow(racked, pairs)
    check_messages(racked, pairs)


def test_growth_while_brokers_are_gone_is_kafkas(racked: KafkaFixture) -> None:
    """With two of five brokers offline, growth is refused until ``--without-brokers`` names them.

    Then it equals Kafka's. More replicas than online brokers are refused, as by Kafka.
    """
    pairs = cases("gone", racked.kafka.release, racked.kafka.racks, widest=3)
    wide = Case("grow-gone-wide", ((1, 4, 9, 2),), 2)
    make(racked, [*pairs, wide])
    without = ("--without-brokers", ",".join(map(str, GONE)))
    try:
        for broker in GONE:
            racked.kafka.stop(broker)
        left = set(racked.kafka.racks) - set(GONE)
        racked.kafka.wait(lambda: racked.kafka.registered() == left, "ZooKeeper to forget the brokers")
        # The controller must notice it too, or it answers Kafka's client from an older list.
        racked.kafka.wait(lambda: set(racked.clients.racks()) == left, "the brokers to forget the brokers")
        racked.declare({case.name: case.spec for case in [*pairs, wide]})
        assert refusals(racked) == {case.name: "BrokersMissing" for case in [*pairs, wide]}
        assert refusals(racked, *without) == {wide.name: "TooFewBrokers"}
        assert racked.clients.grow({wide.twin: wide.total})[wide.twin].startswith("InvalidReplicationFactor")
        grow(racked, pairs, *without)
    finally:
        for broker in GONE:
            racked.kafka.start(broker)
    check_messages(racked, pairs)


def refusals(bed: KafkaFixture, *words: str) -> Mapping[str, str]:
    """Return the reason of each refused topic of a plan; the plan writes nothing."""
    said = bed.run("plan", "--format", "json", "--adopt=*", *words)
    assert said.code == Exit.DONE, said
    (cluster,) = json.loads(said.out)["clusters"]
    return {topic["topic"]: refusal["reason"] for topic in cluster["topics"] for refusal in topic["refusals"]}
