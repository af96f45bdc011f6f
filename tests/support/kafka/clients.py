"""Kafka's own clients and its config parser, as Java programs that answer one request after another.

``Clients`` are the Admin client, producer and consumer of the newest release, which supports brokers of all tested
releases; one process serves all clusters. ``ConfigParser`` is ``LogConfig`` of one release. A request takes
milliseconds instead of the seconds of Kafka's command line tools, and accepts any number of topics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from support.kafka.catch_up import wait_until_current
from support.kafka.programs import KafkaError, Program
from support.waiting import wait_until


class Partition(NamedTuple):
    """A partition as brokers describe it; ``leader`` is -1 if it has none."""

    id: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Topic(NamedTuple):
    """A topic as brokers describe it; ``id`` is None without a topic id."""

    id: str | None
    partitions: tuple[Partition, ...]

    @property
    def replicas(self) -> tuple[tuple[int, ...], ...]:
        """The replica lists, partition 0 first."""
        return tuple(partition.replicas for partition in self.partitions)

    @property
    def is_in_sync(self) -> bool:
        """True if every partition has a leader and all of its replicas are in sync."""
        return all(one.leader >= 0 and set(one.isr) == set(one.replicas) for one in self.partitions)


class ConfigCheck(NamedTuple):
    """Kafka's verdict on a map of overrides.

    It has the refusal of the admin code, the exception of a broker that loads the config (None: no exception), and the
    values in the form of Kafka's tools.
    """

    refusal: str | None
    load_error: str | None
    values: Mapping[str, str]


class Clients:
    """The Kafka clients of one cluster.

    Requests for topics return the error of each topic; an empty string is success.
    """

    def __init__(self, program: Program, bootstrap: str) -> None:
        self._program = program
        self._bootstrap = bootstrap

    def controller(self) -> int:
        """Return the controller that the brokers report; -1 if there is none."""
        return int(self._ask("cluster")["controller"])

    def racks(self) -> dict[int, str | None]:
        """Return the registered brokers with their racks."""
        return {int(broker): rack for broker, rack in self._ask("cluster")["racks"].items()}

    def describe(self, topics: Iterable[str]) -> dict[str, Topic | None]:
        """Return topics as the brokers describe them, once they are not behind; None for a missing topic."""
        wait_until_current(self._bootstrap)
        found = self._ask("describe", topics=list(topics))
        return {name: topic and _parse_topic(topic) for name, topic in found.items()}

    def overrides(self, topics: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the topics' own configs, in the form of Kafka's tools."""
        return {
            name: {key: value for key, (value, source) in configs.items() if source == "DYNAMIC_TOPIC_CONFIG"}
            for name, configs in self.configs(topics).items()
        }

    def configs(self, topics: Iterable[str], *, kind: str = "TOPIC") -> dict[str, dict[str, tuple[str, str]]]:
        """Return every config of each topic (``BROKER``: of each broker) with its effective value and source."""
        wait_until_current(self._bootstrap)
        found: dict[str, Any] = {}

        def are_known() -> bool:
            """Return whether the broker that is asked knows all topics; in ZooKeeper mode it may learn of them late."""
            try:
                found.update(self._ask("configs", topics=list(topics), kind=kind))
            except KafkaError as error:
                if str(error).startswith("UnknownTopicOrPartitionException"):
                    return False
                raise
            return True

        wait_until(are_known, f"all brokers to know {topics}", interval=0.05)
        return {name: {key: (one[0], one[1]) for key, one in values.items()} for name, values in found.items()}

    def create(
        self, topics: Mapping[str, Sequence[Sequence[int]] | tuple[int, int]], config: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Create topics with these replica lists."""
        return self._create({name: {"replicas": lists, "config": config or {}} for name, lists in topics.items()})

    def create_unassigned(
        self, topics: Mapping[str, tuple[int, int]], config: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Create topics with these numbers of partitions and replicas, placed by the brokers."""
        return self._create(
            {name: {"partitions": size[0], "factor": size[1], "config": config or {}} for name, size in topics.items()}
        )

    def validate_create(self, configs: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        """Return the brokers' validation of new topics with these configs, without creating them."""
        topics = {name: {"partitions": 1, "factor": 1, "config": config} for name, config in configs.items()}
        return self._create(topics, validate=True)

    def grow(self, totals: Mapping[str, int]) -> dict[str, str]:
        """Increase the partition counts of topics, placed by Kafka's own algorithm."""
        return dict(self._ask("grow", topics=dict(totals)))

    def alter(self, changes: Mapping[str, Mapping[str, str | None]], *, kind: str = "TOPIC") -> dict[str, str]:
        """Set configs, or remove them (None); of ``BROKER`` by id, where an empty id means all brokers."""
        return dict(self._ask("alter", topics={name: dict(change) for name, change in changes.items()}, kind=kind))

    def delete(self, topics: Iterable[str]) -> dict[str, str]:
        """Delete topics."""
        return dict(self._ask("delete", topics=list(topics)))

    def reassign(self, targets: Mapping[str, Mapping[int, Sequence[int]]]) -> dict[str, str]:
        """Start a reassignment of partitions to other brokers, and return once it is in progress."""
        return dict(self._ask("reassign", topics={name: dict(lists) for name, lists in targets.items()}))

    def ongoing_reassignments(self) -> dict[str, dict[str, list[list[int]]]]:
        """Return the added and removed replicas of ongoing reassignments, by topic and partition."""
        return dict(self._ask("moving"))

    def throttle(self, rate: int | None) -> dict[str, str]:
        """Limit the bytes per second of throttled replicas that each broker fetches; None removes the limit."""
        return dict(self._ask("throttle", rate=rate))

    def produce(self, partitions: Mapping[str, int], value: str) -> dict[str, list[int | str]]:
        """Write a message with all acknowledgements to each partition; return the offsets, or the error."""
        return dict(self._ask("produce", topics=dict(partitions), value=value))

    def consume(self, partitions: Mapping[str, int]) -> dict[str, list[list[str]]]:
        """Return all messages of these partitions of each topic, oldest first."""
        return dict(self._ask("consume", topics=dict(partitions)))

    def consume_as_group(self, group: str, topics: Iterable[str]) -> int:
        """Read topics as the only member of a consumer group, commit, and return the number of messages."""
        return int(self._ask("group", topics=list(topics), group=group))

    @contextmanager
    def member(
        self,
        group: str,
        topics: Iterable[str] = (),
        *,
        protocol: str = "classic",
        pattern: str = "",
        commit: bool = False,
    ) -> Iterator[None]:
        """Be a member of a group as long as the ``with`` block lasts, of topics or of a pattern of their names.

        ``protocol`` is ``classic``, ``consumer`` (KIP-848) or ``share``. Without ``commit`` it leaves no offsets.
        """
        self._ask("join", group=group, topics=list(topics), pattern=pattern, protocol=protocol, commit=commit)
        try:
            yield
        finally:
            self._ask("leave", group=group)

    def state(self) -> dict[str, Any]:
        """Return what the cluster keeps: topics, racks of brokers, dynamic configs, quotas, ACLs, number of moves."""
        wait_until_current(self._bootstrap)
        return dict(self._ask("state"))

    def clean(self, configs: Iterable[str]) -> dict[str, str]:
        """Remove topics, quotas, ACLs, reassignments, and all but these dynamic configs; return the errors."""
        return dict(self._ask("clean", configs=list(configs)))

    def unregister(self, broker: int) -> None:
        """Make a cluster in KRaft mode forget a broker that has ended."""
        self._ask("unregister", broker=broker)

    def _create(self, topics: Mapping[str, Any], *, validate: bool = False) -> dict[str, str]:
        return dict(self._ask("create", topics=topics, validate=validate))

    def _ask(self, op: str, **request: Any) -> Any:
        return self._program.ask(op=op, bootstrap=self._bootstrap, **request)


class ConfigParser:
    """Kafka's own parser of topic configs, in one release."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def names(self) -> set[str]:
        """Return the topic configs of the release."""
        return set(self._program.ask(op="names"))

    def check(self, configs: Collection[Mapping[str, str]], *, tiered: bool = False) -> list[ConfigCheck]:
        """Return Kafka's verdict on each map of overrides; ``tiered``: on brokers with remote storage."""
        found = self._program.ask(op="judge", tiered=tiered, configs=[dict(config) for config in configs])
        return [ConfigCheck(one["refused"], one["broken"], one.get("values", {})) for one in found]


def _parse_topic(found: Mapping[str, Any]) -> Topic:
    partitions = (Partition(id, leader, tuple(held), tuple(isr)) for id, leader, held, isr in found["partitions"])
    return Topic(found["id"], tuple(partitions))
