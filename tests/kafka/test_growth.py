"""Growth: new partitions lie where Kafka's own ``--alter --partitions`` puts those of a twin, and lose no message.

Each case is a pair of topics with the same replica lists, given by a seed: topiarist makes one of them grow, Kafka
the other one, on the same brokers at the same time.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import NamedTuple

from support.kafka.kafka_fixture import KafkaFixture
from topiarist.errors import Exit

CASES = {"racked": 20, "bare": 10, "gone": 12}
"""How many pairs for each layout: 126 with three releases."""

GONE = (2, 7)
"""Brokers of the racked cluster that go before the growth: of two of its three racks."""

Lists = tuple[tuple[int, ...], ...]


class Case(NamedTuple):
    """A pair of topics, ``name`` and ``twin``, with their replica lists, and how many partitions they are to have."""

    name: str
    lists: Lists
    total: int

    @property
    def twin(self) -> str:
        """The topic that Kafka makes grow."""
        return f"{self.name}-twin"

    @property
    def spec(self) -> dict[str, int]:
        """What a manifest says of it."""
        return {"partitions": self.total, "replicationFactor": len(self.lists[0])}


def cases(kind: str, seed: str, brokers: Collection[int], widest: int) -> list[Case]:
    """Random pairs: replica lists in no order, of 1 to 9 partitions with 1 to ``widest`` replicas.

    One of a list's brokers stays: Kafka's client waits for every partition to have a leader before it answers.
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
    """Make all pairs, wait for them, and write a message to each partition that topiarist will not touch."""
    lists = {name: case.lists for case in pairs for name in (case.name, case.twin)}
    assert bed.clients.create(lists) == {}
    bed.describe_in_sync(lists)
    bed.write_messages({case.name: case.lists for case in pairs}, "before")


def grow(bed: KafkaFixture, pairs: Sequence[Case], *words: str) -> None:
    """Let topiarist and Kafka each make one of each pair grow, and hold them against each other and the plan."""
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
    """What was written before is still there, and every partition, old or new, takes messages and gives them back."""
    found = bed.describe_in_sync([case.name for case in pairs])
    replicas = {name: topic.replicas for name, topic in found.items()}
    bed.write_messages(replicas, "after")
    read = bed.read_messages(replicas)
    for case in pairs:
        old, new = [["before", "after"]] * len(case.lists), [["after"]] * (case.total - len(case.lists))
        assert read[case.name] == old + new


def test_growth_across_racks_is_kafkas(racked: KafkaFixture) -> None:
    """Random lists on five brokers in three uneven racks."""
    pairs = cases("racked", racked.kafka.release, racked.kafka.racks, widest=5)
    make(racked, pairs)
    grow(racked, pairs)
    check_messages(racked, pairs)


def test_growth_without_racks_is_kafkas(bare: KafkaFixture) -> None:
    """Random lists on three brokers that have no racks."""
    pairs = cases("bare", bare.kafka.release, bare.kafka.racks, widest=3)
    make(bare, pairs)
    grow(bare, pairs)
    check_messages(bare, pairs)


def test_growth_of_what_kafka_has_placed(racked: KafkaFixture) -> None:
    """Topics that brokers placed at a random start, out of a list of brokers in their own order."""
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
    """Two of five brokers are gone: nothing is done until that is said to be meant; then new replicas lie as Kafka puts
    them on the others, and more replicas than brokers are refused, as by Kafka.
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
        # The controller must know it too, or it answers Kafka's client out of an older list.
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
    """The reasons for which a plan refuses topics; nothing is written."""
    said = bed.run("plan", "--format", "json", "--adopt=*", *words)
    assert said.code == Exit.DONE, said
    (cluster,) = json.loads(said.out)["clusters"]
    return {topic["topic"]: refusal["reason"] for topic in cluster["topics"] for refusal in topic["refusals"]}
