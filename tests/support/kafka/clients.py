"""Kafka's own clients and its parser of configs, as Java programs that answer one request after the other.

``Clients`` are the Admin client, producer and consumer of the newest release, which can talk to brokers of all of them;
one process serves all clusters. ``ConfigParser`` is ``LogConfig`` of one release. What a process of Kafka's command
line tools does in seconds is a matter of milliseconds here; each request takes any number of topics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from support.kafka.programs import Program


class Partition(NamedTuple):
    """A partition as brokers describe it; ``leader`` is -1 if there is none."""

    id: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Topic(NamedTuple):
    """A topic as brokers describe it; ``id`` is None where it has none."""

    id: str | None
    partitions: tuple[Partition, ...]

    @property
    def replicas(self) -> tuple[tuple[int, ...], ...]:
        """The replica lists, partition 0 first."""
        return tuple(partition.replicas for partition in self.partitions)

    @property
    def is_in_sync(self) -> bool:
        """Whether every partition has a leader and all of its replicas are in sync."""
        return all(one.leader >= 0 and set(one.isr) == set(one.replicas) for one in self.partitions)


class ConfigCheck(NamedTuple):
    """What Kafka says of a map of overrides: why its admin code refuses it, why a broker throws that loads it (None: it
    does not), and the values in the form that Kafka's tools show.
    """

    refusal: str | None
    load_error: str | None
    values: Mapping[str, str]


class Clients:
    """Kafka's clients, for one cluster. Requests for each topic give what went wrong by topic: empty is good."""

    def __init__(self, program: Program, bootstrap: str) -> None:
        self._program = program
        self._bootstrap = bootstrap

    def controller(self) -> int:
        """The controller that the brokers name; -1 if they name none."""
        return int(self._ask("cluster")["controller"])

    def racks(self) -> dict[int, str | None]:
        """The brokers that are there, with their racks."""
        return {int(broker): rack for broker, rack in self._ask("cluster")["racks"].items()}

    def describe(self, topics: Iterable[str]) -> dict[str, Topic | None]:
        """Topics as the brokers describe them; None for one that is not there."""
        found = self._ask("describe", topics=list(topics))
        return {name: topic and _parse_topic(topic) for name, topic in found.items()}

    def overrides(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """The configs that topics themselves have, in the form that Kafka's tools show."""
        return {
            name: {key: value for key, (value, source) in configs.items() if source == "DYNAMIC_TOPIC_CONFIG"}
            for name, configs in self.configs(topics).items()
        }

    def configs(self, topics: Iterable[str], *, kind: str = "TOPIC") -> dict[str, dict[str, tuple[str, str]]]:
        """Every config of each topic (``BROKER``: of each broker): its value, wherever from, and that source."""
        found = self._ask("configs", topics=list(topics), kind=kind)
        return {name: {key: (one[0], one[1]) for key, one in values.items()} for name, values in found.items()}

    def create(
        self, topics: Mapping[str, Sequence[Sequence[int]] | tuple[int, int]], config: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Create topics with these replica lists."""
        return self._create({name: {"replicas": lists, "config": config or {}} for name, lists in topics.items()})

    def create_unassigned(
        self, topics: Mapping[str, tuple[int, int]], config: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Create topics of as many partitions and replicas, placed by the brokers."""
        return self._create(
            {name: {"partitions": size[0], "factor": size[1], "config": config or {}} for name, size in topics.items()}
        )

    def validate_create(self, configs: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        """What brokers would say of new topics with these configs; nothing is created."""
        topics = {name: {"partitions": 1, "factor": 1, "config": config} for name, config in configs.items()}
        return self._create(topics, validate=True)

    def grow(self, totals: Mapping[str, int]) -> dict[str, str]:
        """Grow topics to so many partitions, placed by Kafka's own algorithm."""
        return dict(self._ask("grow", topics=dict(totals)))

    def alter(self, changes: Mapping[str, Mapping[str, str | None]], *, kind: str = "TOPIC") -> dict[str, str]:
        """Set configs, or remove them (None); of ``BROKER`` by id, where an empty one means all brokers."""
        return dict(self._ask("alter", topics={name: dict(change) for name, change in changes.items()}, kind=kind))

    def delete(self, topics: Iterable[str]) -> dict[str, str]:
        """Delete topics."""
        return dict(self._ask("delete", topics=list(topics)))

    def reassign(self, targets: Mapping[str, Mapping[int, Sequence[int]]]) -> dict[str, str]:
        """Move partitions to other brokers; returns when that has begun."""
        return dict(self._ask("reassign", topics={name: dict(lists) for name, lists in targets.items()}))

    def ongoing_reassignments(self) -> dict[str, dict[str, list[list[int]]]]:
        """What is being reassigned, by topic and partition: the replicas that are added, and those taken away."""
        return dict(self._ask("moving"))

    def throttle(self, rate: int | None) -> dict[str, str]:
        """Limit how many bytes a second each broker takes in of throttled replicas; None takes the limit away."""
        return dict(self._ask("throttle", rate=rate))

    def produce(self, partitions: Mapping[str, int], value: str) -> dict[str, list[int | str]]:
        """Write a message, with all acknowledgements, to each of so many partitions: offsets, or what went wrong."""
        return dict(self._ask("produce", topics=dict(partitions), value=value))

    def consume(self, partitions: Mapping[str, int]) -> dict[str, list[list[str]]]:
        """All messages of so many partitions of each topic, oldest first."""
        return dict(self._ask("consume", topics=dict(partitions)))

    def consume_as_group(self, group: str, topics: Iterable[str]) -> int:
        """Read topics as the only member of a consumer group, and commit: how many messages there were."""
        return int(self._ask("group", topics=list(topics), group=group))

    def _create(self, topics: Mapping[str, Any], *, validate: bool = False) -> dict[str, str]:
        return dict(self._ask("create", topics=topics, validate=validate))

    def _ask(self, op: str, **request: Any) -> Any:
        return self._program.ask(op=op, bootstrap=self._bootstrap, **request)


class ConfigParser:
    """Kafka's own parser of topic configs, in one release."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def names(self) -> set[str]:
        """The topic configs that the release knows."""
        return set(self._program.ask(op="names"))

    def check(self, configs: Collection[Mapping[str, str]], *, tiered: bool = False) -> list[ConfigCheck]:
        """What Kafka says of each map of overrides; ``tiered``: on brokers with remote storage."""
        found = self._program.ask(op="judge", tiered=tiered, configs=[dict(config) for config in configs])
        return [ConfigCheck(one["refused"], one["broken"], one.get("values", {})) for one in found]


def _parse_topic(found: Mapping[str, Any]) -> Topic:
    partitions = (Partition(id, leader, tuple(held), tuple(isr)) for id, leader, held, isr in found["partitions"])
    return Topic(found["id"], tuple(partitions))
