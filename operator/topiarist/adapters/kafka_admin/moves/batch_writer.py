"""Write under the lock: the record of the moves in flight, their throttles, then the moves themselves.

Kafka has no transaction over records, configs and reassignments, so the order is what a crash can be recovered from:
the record comes first, and has the values that throttles are about to get beside those that they have. The next run
compares both with what is there. A move has its throttle before it begins, and a throttle goes only when its moves are
done. Configs have no compare-and-set: a change that another client makes between the look and the write is lost.

A broker takes its own configs alone. One that cannot be reached copies nothing, so it needs no throttle; one that we
throttled earlier stays in the record until a later run reaches it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from topiarist.adapters.kafka_admin.connection.connection import Connection, Disconnected, Message
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.moves import look
from topiarist.adapters.kafka_admin.moves.look import MoveReader, Partition
from topiarist.adapters.kafka_admin.read.configs import BROKER_RESOURCE, TOPIC_RESOURCE
from topiarist.adapters.kafka_admin.records.codec import Records, RecordsStore
from topiarist.adapters.kafka_admin.write.chunks import ANSWER_TIMEOUT_S
from topiarist.adapters.kafka_admin.write.requests import (
    NOT_CONTROLLER,
    UNKNOWN_TOPIC,
    Element,
    build_alter_configs,
    read_config_answer,
)
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import BatchRecord, ClearedMoves, OwnThrottles, ReplicaMove
from topiarist.planning.moves.throttles import (
    EntityConfigs,
    find_needed_throttles,
    find_present_throttles,
    update_throttles,
)
from topiarist.text import format_count

HINT_CONTINUE = "moves that were sent continue at the controller; the next run waits for them"

_RESOURCES = {"topics": TOPIC_RESOURCE, "brokers": BROKER_RESOURCE}

Changes = Mapping[str, Mapping[str, str | None]]


class BatchWriter:
    """A writer for moves; the lock is held while its methods run.

    ``batch`` is the record as it was read under the lock, and then as it was written. ``remark`` is called with each
    fact about throttles of other clients.
    """

    def __init__(
        self,
        session: Session,
        reader: MoveReader,
        records: RecordsStore,
        batch: BatchRecord | None,
        remark: Callable[[str], None],
    ) -> None:
        self._session = session
        self._reader = reader
        self._records = records
        self.batch = batch
        self._remark = remark

    def prepare(self, record: BatchRecord, rate: int) -> None:
        """Compute the throttles of all moves of ``record``; write it with them, and then the throttles."""
        needed = find_needed_throttles(record.moves, rate)
        # The old rates stay until the end, as those of a batch do; the new rate replaces ours.
        self._write(record, needed, final=False)

    def replace_rate(self, rate: int) -> None:
        """Give the moves of the record another rate."""
        if self.batch is not None:
            self._write(self.batch, find_needed_throttles(self.batch.moves, rate), final=True)

    def end(self) -> None:
        """Put the throttles back, and delete the record; keep what is left of it if a broker cannot be reached."""
        if self.batch is None:
            return
        left = self._write(self.batch._replace(moves=()), {}, final=True)
        rest = self.batch._replace(moves=(), throttles=left, replaced={}) if left else None
        self._records.commit_batch(rest, hold=False)

    def send_moves(self, moves: Sequence[ReplicaMove]) -> Mapping[Partition, Element]:
        """Send moves; return the element of each partition, without a code if it is not known whether they arrived."""
        asked = [(move.topic, move.partition) for move in moves]
        answer = self.send(look.build_reassignments(moves))
        if answer is None:
            return dict.fromkeys(asked, Element(None))
        return look.read_reassignments_answer(answer, asked)

    def send(self, request: Message, connection: Connection | None = None) -> Message | None:
        """Send a request once, to the controller if no ``connection`` is given; None if its outcome is not known.

        It is sent again only after what says that nothing was done: not the controller, or nothing sent.
        """
        for is_last in (False, True):
            try:
                found = connection or self._session.controller()
                self._records.require_fence()
                answer = found.call(request, timeout=ANSWER_TIMEOUT_S)
            except Disconnected as error:
                if error.was_sent:
                    return None
                if is_last or connection:
                    message = f"cannot send to the brokers: {error}"
                    raise TopiaristError(Reason.UNREACHABLE, message, HINT_CONTINUE) from error
                self._session.forget_controller()
                continue
            if getattr(answer, "error_code", 0) == NOT_CONTROLLER and not is_last:
                self._session.forget_controller()
                continue
            return answer
        return None

    def _write(self, record: BatchRecord, needed: EntityConfigs, *, final: bool) -> OwnThrottles:
        """Write the record with its throttles, then the throttles; return what cannot be put back now."""
        before: OwnThrottles = self.batch.throttles if self.batch else {}
        earlier: OwnThrottles = self.batch.replaced if self.batch else {}
        entities = {*needed, *before, *earlier}
        current, unreachable = self._reader.read_throttles(entities)
        present = find_present_throttles(current, self.batch) if self.batch else {}
        kept = {
            entity: before.get(entity) or earlier[entity] for entity in unreachable if entity in {*before, *earlier}
        }
        for entity, why in sorted(unreachable.items()):
            self._remark(f"{entity}: its throttle cannot be changed now: {why}")
        update = update_throttles(
            {entity: values for entity, values in needed.items() if entity not in unreachable},
            current,
            {entity: values for entity, values in present.items() if entity not in unreachable},
            final=final,
        )
        for remark in update.remarks:
            self._remark(remark)
        changes = {entity: _find_changes(current[entity], after) for entity, after in update.configs.items()}
        throttles = {**update.own, **kept}
        replaced = {entity: present[entity] for entity in changes if entity in present}
        self.batch = record._replace(throttles=throttles, replaced=replaced)
        if final and not record.moves:
            # The end: until the throttles are back, the record has the values that they have.
            self.batch = record._replace(throttles={**present, **kept}, replaced={})
        self._records.commit_batch(self.batch, hold=True)
        self._send_changes(changes)
        return kept

    def _send_changes(self, changes: Changes) -> None:
        by_kind: dict[str, dict[str, Mapping[str, str | None]]] = {"topics": {}, "brokers": {}}
        for entity, values in sorted(changes.items()):
            kind, _, name = entity.partition("/")
            by_kind[kind][name] = values
        if by_kind["topics"]:
            self._send_configs("topics", by_kind["topics"], None)
        for broker, values in by_kind["brokers"].items():
            try:
                connection = self._session.broker(int(broker))
            except Disconnected as error:
                message = f"cannot send to brokers/{broker}: {error}"
                raise TopiaristError(Reason.UNREACHABLE, message, HINT_CONTINUE) from error
            self._send_configs("brokers", {broker: values}, connection)

    def _send_configs(self, kind: str, changes: Changes, connection: Connection | None) -> None:
        request = build_alter_configs(changes, resource_type=_RESOURCES[kind])
        answer = self.send(request, connection)
        if answer is None:
            message = f"no answer to the throttles of {', '.join(f'{kind}/{name}' for name in [*changes][:3])}"
            raise TopiaristError(Reason.UNREACHABLE, message, HINT_CONTINUE)
        for name, element in read_config_answer(answer, changes).elements.items():
            entity = f"{kind}/{name}"
            if element.code == UNKNOWN_TOPIC:
                self._remark(f"{entity} was deleted, with its throttle")
            elif element.code != 0:
                raise _write_error(entity, element)


def _find_changes(before: Mapping[str, str], after: Mapping[str, str]) -> Mapping[str, str | None]:
    keys = sorted(before.keys() | after.keys())
    return {key: after.get(key) for key in keys if before.get(key) != after.get(key)}


def _write_error(what: str, element: Element) -> TopiaristError:
    reason = Reason.NO_PERMISSION if element.is_denied else Reason.WRITE_FAILED
    right = f": it needs the right AlterConfigs on the {'topic' if what.startswith('topics/') else 'cluster'}"
    message = f"the throttle of {what} was not written{right if element.is_denied else ''}: {element.words}"
    return TopiaristError(reason, message, HINT_CONTINUE)


def acquire_unless_stopped(records: RecordsStore, stop: Callable[[], bool]) -> Records | None:
    """Wait for the lock and read the records; return None if ``stop()`` became true before."""
    if stop():
        return None
    try:
        return records.acquire(stop)
    except TopiaristError as error:
        if error.reason is Reason.LOCKED and stop():
            return None
        raise


# Clear what an ended run of moves left: put its throttles back, and delete the record of its moves.
#
# The next run of the same owner does this by itself. A user does it by hand if no run is going to continue.


def clear_moves(session: Session, reader: MoveReader, records: RecordsStore) -> ClearedMoves | None:
    """Clear the record of the moves under the lock; return None, with nothing written, if there is none.

    Raises ``TopiaristError``: ReassignmentInProgress while a move of the record is in flight.
    """
    if records.read().moves is None:
        return None
    known = records.acquire(lambda: False)
    try:
        if known.moves is None:
            return None
        look = reader.look(())
        moves = known.moves.moves
        # A target of another client counts too: its brokers may copy the same replicas.
        copying = [move for move in moves if look.target_of((move.topic, move.partition))]
        if copying:
            message = f"{format_count(len(copying), 'partition')} in flight: brokers copy, and need the throttles"
            raise TopiaristError(Reason.REASSIGNMENT_IN_PROGRESS, message, HINT_CONTINUE)
        remarks: dict[str, None] = {}
        BatchWriter(session, reader, records, known.moves, remarks.setdefault).end()
        return ClearedMoves(known.moves, tuple(remarks))
    finally:
        records.release()
