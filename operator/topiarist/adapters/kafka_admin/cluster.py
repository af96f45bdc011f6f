"""A Kafka cluster behind its brokers: the port ``Cluster`` over Kafka's own protocol.

The methods that write import what they need when they are called: most runs find nothing to do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from msgspec.structs import replace

from topiarist.adapters.kafka_admin.connection.connection import Disconnected, UnsupportedRequest, translate_errors
from topiarist.adapters.kafka_admin.connection.session import AnswerCache, Session
from topiarist.adapters.kafka_admin.read import topic_reader
from topiarist.adapters.kafka_admin.read.capabilities import find_capabilities, find_mode
from topiarist.adapters.kafka_admin.read.configs import read_overrides, read_static_settings
from topiarist.adapters.kafka_admin.read.metadata import read_metadata
from topiarist.adapters.kafka_admin.read.state import REMEDY_NO_RECORDS, RecordsView, read_capabilities, read_state
from topiarist.adapters.kafka_admin.read.sync import read_quorum, sync, sync_to_read
from topiarist.adapters.kafka_admin.records.codec import (
    NoRecords,
    PresentTopics,
    Records,
    TopicRecord,
    merge_moved,
    resolve,
)
from topiarist.adapters.kafka_admin.records.run import ClusterView, LeftRecordsCheck, RecordsRun, check_left_records
from topiarist.adapters.kafka_admin.records.topic import describe_second_records, find_records_topics
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import TRANSACTIONS_TOPIC, ClusterMode
from topiarist.model.access import KafkaAccess
from topiarist.model.moves import ClearedMoves
from topiarist.model.outcome import FreezeResult, Outcome, TopicProgress
from topiarist.model.plan import Issue, Plan
from topiarist.model.state import (
    AllowedOperations,
    Capabilities,
    ClosedRecords,
    ClusterState,
    Freeze,
    IdentifiedRecord,
    LeftRecords,
    MovedRecords,
    TopicInspection,
    TopicState,
    WriteBlock,
)
from topiarist.planning.builder import find_impossible
from topiarist.planning.planner import FACTOR_SETTING, PARTITIONS_SETTING
from topiarist.ports import NO_CONTROL, Closable, FoundRefusals, MoveOptions, WriteControl, drop_notice

if TYPE_CHECKING:
    from topiarist.adapters.kafka_admin.moves.look import MoveReader

WARNING_NO_OWNERS = "the records cannot be read, so no topic counts as owned, and the owners are unknown"
_RECORDS_UNREADABLE = frozenset(
    {
        Reason.NO_PERMISSION,
        Reason.NOT_OFFERED,
        Reason.PREREQUISITE_MISSING,
        Reason.RECORDS_BLOCKED,
        Reason.RECORDS_LOST,
        Reason.UNREACHABLE,
        Reason.UNREADABLE,
    }
)

MESSAGE_NO_RECORDS = "a freeze is kept in the records, and this cluster keeps none (spec.kafka.records: None)"
HINT_KEEP_RECORDS = "remove records: None if the brokers carry out transactions and compaction"
MESSAGE_HAS_RECORDS = (
    "spec.kafka.records is None, and the cluster has the topic {}: other runs may keep owners, a lock and a freeze"
    " there, which this run would ignore. Remove records: None; or delete that topic, if no run needs it"
)


class KafkaCluster(Closable):
    """The connections of one run to one cluster. Use as a context manager, or call ``close``.

    ``owner`` is stored in the lock; the timeouts are in seconds. ``read_left_records`` reads what ZooKeeper holds of
    topiarist, None if the address of ZooKeeper is not known. ``on_notice`` receives what the brokers did otherwise than
    asked for with the topic of records, whatever made it. Raises ``Unreachable`` if no broker answers in time,
    ``CredentialsInvalid`` and ``AuthenticationFailed`` if the login fails.
    """

    def __init__(
        self,
        access: KafkaAccess,
        *,
        owner: str,
        connect_timeout: float = 10.0,
        lock_timeout: float = 60.0,
        read_left_records: Callable[[], LeftRecords] | None = None,
        on_notice: Callable[[str], None] = drop_notice,
    ) -> None:
        self._session = Session(access, connect_timeout)
        self._owner = owner
        self._lock_timeout = lock_timeout
        self._records_topic = access.records
        self._records_topic_id = access.records.known_id if access.records else ""
        self._read_left_records = read_left_records
        self._on_notice = on_notice
        self._recorded_ids: Mapping[str, str | None] = {}
        self._number: int | None = None
        self._previous: ClusterState | None = None
        self._recent: tuple[topic_reader.RecentState, RecordsRun] | None = None
        self._session.any_broker()

    def close(self) -> None:
        """Close the connections."""
        self._session.close()

    def enable_decode_cache(self) -> Self:
        """Return the cluster itself; an answer that is as before is not decoded again."""
        self._session.answers = AnswerCache()
        return self

    @property
    def requests(self) -> Mapping[tuple[str, str], int]:
        """Return the number of requests so far, by name and result."""
        return self._session.requests

    def read(self) -> ClusterState:
        """Read everything that a plan needs: the records first, so that a topic with a record is never too new.

        Reading needs no records: if they cannot be read, no topic counts as owned, and nothing may be written.
        """
        began = time.monotonic()
        if self._session.answers:
            self._session.answers.start_read()
        if self._records_topic is None:
            return self._read_without_records()
        try:
            with translate_errors():
                run, records = self._read_records()
        except TopiaristError as error:
            return self._read_beside_records(error)
        if records.number != self._number:
            self._number, self._session.changed_at = records.number, time.monotonic()  # another run may have written
        self._records_topic_id = records.meta.topic_id if records.meta else self._records_topic_id
        state = self._previous = read_state(self._session, view_records(records), self._previous)
        if records.meta:
            try:
                with translate_errors():
                    topic = state.topics.get(run.topic_name)
                    run.check_config(topic.config if topic else None)
            except TopiaristError as error:
                return self._read_beside_records(error)
        self._recent = (topic_reader.RecentState(state, records.number, began), run) if records.meta else None
        errors = {**state.topic_errors, **records.errors}
        defaults = {**state.broker_defaults, **self._read_transaction_settings(state)}
        state = replace(state, topic_errors=errors, records_topic_id=self._records_topic_id, broker_defaults=defaults)
        state = self._add_left_records(state, records)
        if records.meta is None:
            state = _block_beside_records(state, describe_second_records(self._records_topic, _find_records_of(state)))
        return state

    def _read_beside_records(self, error: TopiaristError) -> ClusterState:
        """Read a cluster without its records, which ``error`` hides; raise ``error`` if it ends every read."""
        self._recent = None
        if error.reason not in _RECORDS_UNREADABLE:
            raise error
        state = read_state(self._session, RecordsView())
        hint = "" if error.reason.retryable or not error.hint else f"; {error.hint}"
        problem = WriteBlock(error.reason, f"the records of topiarist cannot be read: {error.message}{hint}")
        return replace(
            state,
            write_block=state.write_block if state.write_block.reason else problem,
            records_error=problem,
            records_topic_id=self._records_topic_id,
            warnings=(*state.warnings, WARNING_NO_OWNERS),
        )

    def _read_without_records(self) -> ClusterState:
        """Read a cluster that keeps no records; nothing may be written while it has some after all."""
        self._previous = read_state(self._session, RecordsView(are_kept=False), self._previous)
        state = self._add_left_records(self._previous, Records())
        found = _find_records_of(state)
        return _block_beside_records(state, MESSAGE_HAS_RECORDS.format(found[0]) if found else "")

    def _add_left_records(self, state: ClusterState, records: Records) -> ClusterState:
        """Return the state with what ZooKeeper holds of topiarist."""
        if state.write_block.reason not in (None, Reason.FROZEN):
            return state
        check = self._check_left_records(records)
        if check.block.reason:
            state = replace(state, write_block=check.block)
        if check.warning:
            state = replace(state, warnings=(*state.warnings, check.warning))
        return state

    def apply(self, plan: Plan, stop: Callable[[], bool], control: WriteControl = NO_CONTROL) -> Iterator[Outcome]:
        """Apply ``plan`` in chunks of topics, yielding an outcome for each actionable topic.

        The lock is held from the intents of a chunk to its final records. A plan without changes takes no lock and
        writes nothing.
        """
        if plan.has_changes:
            from topiarist.adapters.kafka_admin.write.writer import Writer

            with translate_errors():
                plan = self._learn_lists(plan)
                if self._records_topic is None:
                    reader = topic_reader.FirstLook(topic_reader.TopicReader(self._session), None, lambda: 0)
                    yield from Writer(self._session, NoRecords(), reader, plan, stop, control).execute()
                    return
                recent, known = self._take_recent()
                run = self._open_records_to_write(known)
                reader = topic_reader.FirstLook(
                    topic_reader.TopicReader(self._session, run), recent, lambda: run.number
                )
                yield from Writer(self._session, run, reader, plan, stop, control).execute()

    def ask_brokers(self, plan: Plan) -> Mapping[str, Sequence[Issue]]:
        """Return the refusals of the brokers by topic; write nothing."""
        from topiarist.adapters.kafka_admin.write.dry_run import ask_brokers

        with translate_errors():
            return ask_brokers(self._session, plan)

    def find_refusals(self, plan: Plan) -> FoundRefusals:
        """Return what the brokers would refuse of ``plan``, as far as reading and one dry run show it."""
        with translate_errors():
            issues = topic_reader.find_refusals(self._session, plan, keeps_records=self._records_topic is not None)
            return FoundRefusals(issues, self._learn_lists(plan).capabilities)

    def move(self, plan: Plan, options: MoveOptions, stop: Callable[[], bool]) -> Iterator[Outcome]:
        """Carry out the moves of ``plan`` in a rolling window, and then its elections."""
        from topiarist.adapters.kafka_admin.moves.mover import Elector, MoveAccess, Mover
        from topiarist.planning.moves.ledger import carry_out

        with translate_errors():
            for issue, *_ in find_impossible(self._find_offered(), plan.actionable_topics()).values():
                raise TopiaristError(issue.reason, issue.message)  # before any throttle is written
            if self._records_topic is None:
                raise TopiaristError(Reason.NOT_OFFERED, topic_reader.NO_MOVES_WITHOUT_RECORDS)
            access = MoveAccess(self._session, self._move_reader(), self._open_records_to_write(), stop)
            mover, elector = Mover(access, plan, options), Elector(access, plan, options)
            yield from carry_out(plan, mover.execute, elector.execute)

    def clear_moves(self) -> ClearedMoves | None:
        """Put the throttles of the last moves back, and delete their record."""
        from topiarist.adapters.kafka_admin.moves.mover import clear_moves

        if self._records_topic is None:
            return None
        with translate_errors():
            return clear_moves(self._session, self._move_reader(), self._open_records_to_write())

    def set_freeze(self, freeze: Freeze | None, *, by: str, force: bool) -> FreezeResult:
        """Freeze the cluster, or unfreeze it if ``freeze`` is None; a run that is writing ends at its next request.

        A freeze of a user other than ``by`` is changed only with ``force``.
        """
        with translate_errors():
            return self._open_records_to_write().set_freeze(freeze, by=by, force=force)

    def check_moved_records(self, closed: ClosedRecords) -> MovedRecords:
        """Return the result that ``take_records`` would have now; write nothing. Raises what it raises."""
        with translate_errors():
            self._require_cluster_of(closed)
            return merge_moved(closed, self._open_records().read()).result

    def prepare_records(self) -> None:
        """Make the topic of records ready, and prove by one commit that topiarist may write to it.

        Raises ``TopiaristError``.
        """
        with translate_errors():
            run = self._open_records_to_write()
            run.acquire(ignore_freeze=True)
            run.commit({}, hold=False)

    def take_records(self, closed: ClosedRecords) -> MovedRecords:
        """Write the records of ZooKeeper in one transaction, unless an earlier run has moved them.

        Raises ``TopiaristError``: ``WrongCluster``, ``NotOwned`` if a topic has records of two owners, and the errors
        of a run over the records. Then nothing is written, unless the error says that the outcome is not known.
        """
        with translate_errors():
            self._require_cluster_of(closed)
            run = self._open_records_to_write()
            try:
                merged = merge_moved(closed, run.acquire(ignore_freeze=True))
                if not merged.result.repeated:
                    run.commit_moved(merged.topics, merged.moved, merged.gate)
            finally:
                run.release()
            return merged.result

    def read_cluster_id(self) -> str:
        """Read the cluster id."""
        return topic_reader.read_again(lambda: read_metadata(self._session.any_broker(), []).cluster_id)

    def poll(self, topics: Mapping[str, Collection[int]]) -> Mapping[str, TopicProgress]:
        """Return the progress of these topics."""
        return self._find_stale_records(topic_reader.poll_progress(self._session, topics))

    def inspect(self, topic: str) -> TopicInspection:
        """Read the partition states of this topic."""
        return topic_reader.inspect(self._session, topic)

    def inspect_all(self, topics: Collection[TopicState]) -> Mapping[str, TopicInspection]:
        """Read the partition states of these topics."""
        return topic_reader.inspect_all(self._session, topics)

    def find_capabilities(self) -> Capabilities:
        """Return what the cluster can do, without the configs of its topics and without its records."""
        return read_capabilities(self._session)

    def find_allowed_operations(self) -> AllowedOperations:
        """Return what the user may do, as far as the brokers say it."""
        return topic_reader.read_allowed_operations(self._session)

    def read_broker_throttles(self) -> Mapping[str, Mapping[str, str]]:
        """Read the rates of throttled copies of all brokers."""
        return topic_reader.read_broker_throttles(self._session)

    def _read_records(self) -> tuple[RecordsRun, Records]:
        """Return the records; their config is not checked yet.

        Records that name the topic in which they were found prove that it is the topic of now. Only without them its
        metadata may be too old, and are read again after a sync.
        """
        run = self._open_records()
        try:
            if (records := run.read(checks_config=False)).meta:
                return run, records
        except TopiaristError as error:
            if error.reason not in (Reason.RECORDS_LOST, Reason.UNREACHABLE):
                raise
            topic_reader.read_again(lambda: sync(self._session))
            # A topic that is no longer there looks as if its leader were away.
            if run.find() and error.reason is Reason.UNREACHABLE:
                raise
        else:
            topic_reader.read_again(lambda: sync_to_read(self._session))
        return run, run.read(checks_config=False)

    def _read_transaction_settings(self, state: ClusterState) -> Mapping[str, str]:
        """Return what the brokers would make the topic of transactions with, while there is none."""
        if TRANSACTIONS_TOPIC in state.topics or TRANSACTIONS_TOPIC in state.topic_errors or not state.brokers:
            return {}
        keys = (PARTITIONS_SETTING, FACTOR_SETTING)
        with suppress(UnsupportedRequest):
            return topic_reader.read_again(lambda: read_static_settings(self._session, state.brokers[0].id, keys))
        return {}

    def _learn_lists(self, plan: Plan) -> Plan:
        """Return the plan with what a dry run shows about replica lists, if the Cluster leaves it open.

        A plan of this session has that already.
        """
        from topiarist.adapters.kafka_admin.write.dry_run import find_list_support

        if self._session.access.placement is not None:
            return plan
        return replace(plan, capabilities=find_list_support(self._session, plan))

    def _require_cluster_of(self, closed: ClosedRecords) -> None:
        if (cluster_id := self.read_cluster_id()) != closed.cluster_id:
            raise TopiaristError(
                Reason.WRONG_CLUSTER,
                f"spec.kafka leads to the cluster {cluster_id}, and spec.zookeeper to {closed.cluster_id}",
                "correct one of the addresses: nothing was written",
            )

    def _check_left_records(self, records: Records) -> LeftRecordsCheck:
        return check_left_records(
            self._read_left_records,
            self.read_cluster_id,
            are_taken=records.moved is not None,
            is_zookeeper_mode=find_mode(self._session.any_broker()) is ClusterMode.ZOOKEEPER,
        )

    def _require_moved(self, records: Records) -> None:
        """Raise ``TopiaristError`` if ZooKeeper has records that were not moved, or its gate was opened again."""
        block = self._check_left_records(records).block
        if block.reason:
            raise TopiaristError(block.reason, block.message)

    def _find_stale_records(self, progress: Mapping[str, TopicProgress]) -> Mapping[str, TopicProgress]:
        """Return the progress with the records that are of an earlier topic of the name.

        ``poll`` is called often, so the records are read again only if those of the last read are not of these topics.
        """
        if self._records_topic is None:
            return progress
        ids = {name: each.topic_id for name, each in progress.items() if each.topic_id}
        if any(self._recorded_ids.get(name) != topic_id for name, topic_id in ids.items()):
            with translate_errors():
                records = self._open_records().read().topics
            self._recorded_ids = {name: each.topic_id for name, each in records.items() if each.record}
        stale = {name for name, found in ids.items() if self._recorded_ids.get(name, found) != found}
        return {name: each._replace(record_stale=name in stale) for name, each in progress.items()}

    def _take_recent(self) -> tuple[topic_reader.RecentState | None, RecordsRun | None]:
        """Return the last state and the run that has read its records, once, and if they are some seconds old."""
        recent, self._recent = self._recent, None
        if recent is None or not recent[0].is_recent:
            return None, None
        recent[1].assume_controller(recent[0].leader_epoch)
        return recent

    def _open_records_to_write(self, run: RecordsRun | None = None) -> RecordsRun:
        """Return the records for a run that writes, those of ``run`` if it has read them a moment ago.

        Raises ``TopiaristError`` if the brokers take no records.
        """
        opened = run or self._open_records()
        capabilities = self._find_offered()
        if capabilities.transactions.is_denied:
            raise TopiaristError(Reason.NOT_OFFERED, f"{capabilities.transactions.why}; {REMEDY_NO_RECORDS}")
        if capabilities.topic_ids.is_denied:
            raise TopiaristError(Reason.NOT_OFFERED, capabilities.topic_ids.why)
        return opened

    def _find_offered(self) -> Capabilities:
        """Return what the cluster can do by the requests that its brokers offer now."""
        return find_capabilities(self._session.any_broker())

    def _open_records(self) -> RecordsRun:
        if self._records_topic is None:
            raise TopiaristError(Reason.NOT_OFFERED, MESSAGE_NO_RECORDS, HINT_KEEP_RECORDS)
        return RecordsRun(
            self._session,
            self._owner,
            ClusterView(
                lambda names: topic_reader.TopicReader(self._session).look(names).topics,
                self._read_leader_epoch,
                self._require_moved,
                self._on_notice,
                self._find_records_topics,
            ),
            topic=self._records_topic._replace(known_id=self._records_topic_id),
            lock_timeout=self._lock_timeout,
        )

    def _find_records_topics(self) -> Collection[str]:
        connection = self._session.any_broker()
        names = sorted(read_metadata(connection).topics)
        return find_records_topics(read_overrides(self._session, connection, names))

    def _move_reader(self) -> MoveReader:
        from topiarist.adapters.kafka_admin.moves.look import MoveReader

        return MoveReader(self._session, lambda: sync(self._session))

    def _read_leader_epoch(self) -> int | None:
        """Return the epoch of the controller; None if it does not say, in ZooKeeper mode for example."""
        try:
            return read_quorum(self._session, self._session.any_broker()).leader_epoch
        except (TopiaristError, Disconnected):
            return None


def _find_records_of(state: ClusterState) -> Sequence[str]:
    return find_records_topics({**state.topic_errors, **{name: each.config for name, each in state.topics.items()}})


def _block_beside_records(state: ClusterState, message: str) -> ClusterState:
    """Return the state with a write block if there is a message, unless it has another one."""
    if message and state.write_block.reason is None:
        return replace(state, write_block=WriteBlock(Reason.RECORDS_LOST, message))
    return state


def view_records(records: Records) -> RecordsView:
    """Return the part of the records that a state has; an intent counts as what its topic shows of it."""
    pending = {name: each for name, each in records.topics.items() if each.intent}
    finished = {name: each for name, each in records.topics.items() if each.intent is None}

    def resolve_pending(topics: PresentTopics) -> Mapping[str, IdentifiedRecord]:
        return _identify({name: resolve(each, topics.get(name), has_waited=False) for name, each in pending.items()})

    return RecordsView(_identify(finished), records.gate, records.moves, resolve_pending=resolve_pending)


def _identify(records: Mapping[str, TopicRecord | None]) -> Mapping[str, IdentifiedRecord]:
    return {
        name: IdentifiedRecord(each.record, each.topic_id) for name, each in records.items() if each and each.record
    }
