"""The interfaces that adapters implement: clusters, their progress and inspection, and CEL rules.

``adapters.zookeeper`` and ``adapters.kafka_admin`` implement the ``Cluster`` port, ``adapters.snapshots`` what only
reads, ``adapters.cel`` the ``RuleEvaluator``. ``reconcile``, ``throttle`` and ``filters`` use these interfaces and
import no adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, Self

from msgspec import Struct

from topiarist.model.moves import NO_MOVES, ClearedMoves, MoveProgress, MoveSettings
from topiarist.model.outcome import FreezeResult, Outcome, TopicProgress
from topiarist.model.plan import Issue, Plan, TopicPlan
from topiarist.model.policy import CelBindings, Rule, RuleError
from topiarist.model.state import AllowedOperations, Capabilities, ClusterState, Freeze, TopicInspection, TopicState
from topiarist.model.usage import UsageRead


class Throttle(Protocol):
    """A limit on new partitions while the controller initializes earlier ones."""

    def try_acquire(self, topic: TopicPlan) -> bool:
        """Return whether a topic with new partitions may be sent now.

        If so, the topic counts as sent.
        """

    def wait(self) -> None:
        """Return when ``try_acquire`` is worth another call.

        Called when no topic may be sent. Raises ``TopiaristError`` to end the run.
        """

    def on_outcome(self, topic: TopicPlan, outcome: Outcome) -> None:
        """Record the outcome of a topic."""


WriteGuard = Callable[[TopicPlan], Outcome | None]
"""Called directly before a topic is written. An outcome takes the place of the write; None: it may be written."""


def write_all(_topic: TopicPlan) -> Outcome | None:
    """Guard nothing."""
    return None


def drop_notice(_text: str) -> None:
    """Drop a notice."""


class WriteControl(Struct, frozen=True):
    """A limit on the pace of writes, and a check directly before each write."""

    throttle: Throttle | None = None
    guard: WriteGuard = write_all


NO_CONTROL = WriteControl()


class MoveOptions(Struct, frozen=True):
    """The options of the moves of one run.

    Without ``wait`` at most one batch and one election are sent, and nothing is waited for. ``on_progress`` is called
    after each poll of a batch or an election.
    """

    settings: MoveSettings = NO_MOVES
    wait: bool = True
    on_progress: Callable[[MoveProgress], None] = lambda progress: None


NO_MOVE_OPTIONS = MoveOptions()
"""The options of a run that copies nothing."""


class ReadableCluster(Protocol):
    """A Kafka cluster, or a snapshot of one, that can be read."""

    def read(self) -> ClusterState:
        """Return everything that a plan is made from, in one read.

        Raises ``TopiaristError`` if the cluster cannot be reached, or if it is not a Kafka cluster.
        """


class Cluster(ReadableCluster, Protocol):
    """A Kafka cluster that can be read and changed."""

    def apply(self, plan: Plan, stop: Callable[[], bool], control: WriteControl = NO_CONTROL) -> Iterator[Outcome]:
        """Apply ``plan`` under the lock of the cluster, topic by topic or several topics at a time.

        Each topic is compared by value with the cluster directly before its write, and each change is made whole or not
        at all. ``adapters.zookeeper`` makes all changes of a topic and its record in one transaction, which fails if
        the topic, the lock, the freeze or the controller changed since the comparison. ``adapters.kafka_admin`` has no
        such transaction: it announces each change in the records, sends it as a request of its own (deletions, then
        creations, configs, growth), and settles the records after it. The request fails if the name is taken, the id is
        another, or the count differs; configs are overwritten as they are then, and one request of a run that has lost
        the lock may still take effect. docs/why-trust-it.md has the whole comparison.

        With a ``control.throttle``, topics without new partitions are sent first, and each of the other topics waits
        for ``try_acquire``. ``control.guard`` is called for each topic after the comparison, directly before the write.

        Yields exactly one outcome for each of ``plan.actionable_topics()``, as soon as it is known. After ``stop()``
        returns true, started writes are finished and the other topics are ``SKIPPED``. Writes nothing if there are no
        changes.

        Raises ``TopiaristError`` before the first outcome if the run cannot start (no lock, no controller).
        """

    def move(self, plan: Plan, options: MoveOptions, stop: Callable[[], bool]) -> Iterator[Outcome]:
        """Carry out the moves of ``plan`` in batches, then its elections; the caller has made all other changes.

        A batch is sent when the one before it is done, also one of an earlier run; ``adapters.kafka_admin`` sends each
        move as soon as there is room among those in flight. After the last batch the throttles are put back as they
        were, also those of an earlier run of the same owner that ended early; a plan without moves does only this.
        Moves that are done are not sent.

        One election is requested at a time, for partitions that the controller can elect; leaders that are elected
        already are not elected again.

        Yields one outcome for each actionable topic with moves or elections, as soon as its last partition is done.
        Topics with unfinished moves or elections are ``PENDING``. After ``stop()`` returns true no further batch is
        sent; one that was sent continues.

        Raises ``TopiaristError`` after the outcomes if the moves cannot continue: no progress for
        ``options.settings.stall_after`` seconds, or an entry of a request that the controller never removes.
        """


class ProgressSource(Protocol):
    """A cluster with controller progress that can be polled after ``apply``."""

    def poll(self, topics: Mapping[str, Collection[int]]) -> Mapping[str, TopicProgress]:
        """Return the current progress of topics.

        ``topics`` has the partitions of each topic to check for initialization. A poll is cheap enough to repeat until
        the controller has finished the work of ``apply``.
        """


class FoundRefusals(NamedTuple):
    """The refusals of a cluster by topic, each with the changes that it withholds, and its capabilities.

    The capabilities are those of the plan, with what the cluster has shown.
    """

    issues: Mapping[str, Sequence[Issue]]
    capabilities: Capabilities


class PartitionInspector(ReadableCluster, Protocol):
    """A cluster that can report the partition states of single topics."""

    def inspect(self, topic: str) -> TopicInspection | None:
        """Return the current partitions of a topic; None if they are not known.

        A snapshot has no partition states.
        """

    def inspect_all(self, topics: Collection[TopicState]) -> Mapping[str, TopicInspection]:
        """Return the current partitions of each topic; unknown ones are left out."""

    def find_refusals(self, plan: Plan) -> FoundRefusals:
        """Return what the cluster would refuse of ``plan``, and what it cannot do.

        Needs no right to write, unlike ``ask_brokers``, and finds less. Only if a plan places replicas, and it is not
        known whether the cluster carries out their lists, one request that is validated only asks for that.
        """


class BrokerValidator(Protocol):
    """A cluster with brokers that can be asked about a plan."""

    def ask_brokers(self, plan: Plan) -> Mapping[str, Sequence[Issue]]:
        """Return the refusals of the brokers by topic, each with the changes that it withholds; write nothing.

        Deletions are not asked about. Raises ``TopiaristError`` if the brokers do not answer, and ``WrongUsage`` if the
        cluster is not reached through its brokers.
        """


class Closable(Protocol):
    """A base of what holds sessions. Use as a context manager, or call ``close``."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the sessions."""


class Session(Closable, Protocol):
    """An open session."""

    def read_cluster_id(self) -> str:
        """Return the cluster id."""


class OpenCluster(Cluster, PartitionInspector, ProgressSource, BrokerValidator, Session, Protocol):
    """An open session with one cluster."""

    def enable_decode_cache(self) -> Self:
        """Keep decoded topics between reads, for a caller that reads repeatedly; return the cluster itself."""

    @property
    def requests(self) -> Mapping[tuple[str, str], int]:
        """Return the number of requests so far, by operation and result."""

    def find_capabilities(self) -> Capabilities:
        """Return what the cluster can do, also if its topics cannot be read. Raises ``TopiaristError``."""

    def find_allowed_operations(self) -> AllowedOperations | None:
        """Return what the user may do, as far as brokers say it; None through ZooKeeper. Raises ``TopiaristError``."""

    def read_broker_throttles(self) -> Mapping[str, Mapping[str, str]]:
        """Return the rates of throttled copies of each entity that has one, such as ``brokers/5``, by config."""

    def clear_moves(self) -> ClearedMoves | None:
        """Put back the throttles that the record of the last batch names, by value, and delete the record.

        Takes the lock. Returns None, with nothing written, if there is no record. Raises ``TopiaristError``
        (ReassignmentInProgress) while there is a reassignment request.
        """

    def set_freeze(self, freeze: Freeze | None, *, by: str, force: bool) -> FreezeResult:
        """Freeze the cluster, or unfreeze it if ``freeze`` is None, without the lock.

        A freeze of a user other than ``by`` is changed only with ``force``.
        """


class UsageReader(Session, Protocol):
    """An open session with brokers that can be asked who uses the topics of their cluster."""

    def read(self, topics: Collection[str] | None = None) -> UsageRead:
        """Return the usage of topics that exist (None: of all but Kafka's own), and how complete it is.

        Writes nothing, and makes no broker write. Whatever a broker does not answer is not known, and no error. Raises
        ``TopiaristError`` if no broker answers at all.
        """


class RuleEvaluator(Protocol):
    """The compiled rules of policies, safe for use from several threads."""

    @property
    def rule_errors(self) -> Mapping[Rule, RuleError]:
        """Return the rules that do not compile or are disabled, with the error.

        These rules are not evaluated.
        """

    def evaluate(self, rules: Iterable[Rule], facts: CelBindings) -> Iterator[tuple[Rule, RuleError | None]]:
        """Yield the violated rules with None, and unevaluated rules with the error.

        All ``rules`` have the same subject, and ``facts`` has every variable of that subject.
        """
