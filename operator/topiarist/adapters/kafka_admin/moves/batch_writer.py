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
from topiarist.adapters.kafka_admin.moves import requests
from topiarist.adapters.kafka_admin.moves.look import MoveReader, MoveSession
from topiarist.adapters.kafka_admin.moves.requests import Partition
from topiarist.adapters.kafka_admin.records.codec import Records, RecordsStore
from topiarist.adapters.kafka_admin.write.answers import (
    NOT_CONTROLLER,
    UNKNOWN_TOPIC,
    Element,
)
from topiarist.adapters.kafka_admin.write.chunk_requests import ANSWER_TIMEOUT_S
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import BatchRecord, OwnThrottles, ReplicaMove
from topiarist.planning.moves.execution.throttle_configs import (
    EntityConfigs,
    find_needed_throttles,
    find_present_throttles,
    update_throttles,
)

HINT_CONTINUE = "moves that were sent continue at the controller; the next run waits for them"

Changes = Mapping[str, Mapping[str, str | None]]


class BatchWriter:
    """A writer for moves; the lock is held while its methods run.

    ``batch`` is the record as it was read under the lock, and then as it was written. ``remark`` is called with each
    fact about throttles of other clients.
    """

    def __init__(
        self,
        session: MoveSession,
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
        answer = self.send(requests.build_reassignments(moves))
        if answer is None:
            return dict.fromkeys(asked, Element(None))
        return requests.read_reassignments_answer(answer, asked)

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
        topics = {entity: values for entity, values in changes.items() if entity.startswith("topics/")}
        if topics:
            self._send_configs(topics, None)
        for entity in sorted(changes.keys() - topics.keys()):
            try:
                connection = self._session.broker(int(entity.partition("/")[2]))
            except Disconnected as error:
                message = f"cannot send to {entity}: {error}"
                raise TopiaristError(Reason.UNREACHABLE, message, HINT_CONTINUE) from error
            self._send_configs({entity: changes[entity]}, connection)

    def _send_configs(self, changes: Changes, connection: Connection | None) -> None:
        answer = self.send(requests.build_config_changes(changes), connection)
        if answer is None:
            message = f"no answer to the throttles of {', '.join(sorted(changes)[:3])}"
            raise TopiaristError(Reason.UNREACHABLE, message, HINT_CONTINUE)
        for entity, element in requests.read_config_changes_answer(answer, changes).items():
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
