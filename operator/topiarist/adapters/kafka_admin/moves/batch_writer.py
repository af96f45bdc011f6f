"""Write the record of a batch and its throttles, and send its moves, through Kafka's own API, for ``Mover``.

The record comes first, and has the values that throttles are about to get beside those that they have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from topiarist.adapters.kafka_admin.connection.connection import Connection, Disconnected, Message
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.moves.look import (
    MoveReader,
    Partition,
    build_reassignments,
    read_reassignments_answer,
)
from topiarist.adapters.kafka_admin.read.configs import BROKER_RESOURCE, TOPIC_RESOURCE
from topiarist.adapters.kafka_admin.records.codec import RecordsStore
from topiarist.adapters.kafka_admin.write import requests
from topiarist.adapters.kafka_admin.write.chunks import ANSWER_TIMEOUT_S
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import BatchRecord, OwnThrottles, ReplicaMove
from topiarist.planning.moves.throttles import (
    EntityConfigs,
    find_needed_throttles,
    find_present_throttles,
    update_throttles,
)

HINT_CONTINUE = "moves that were sent continue at the controller; the next run waits for them, and puts throttles back"

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

    def prepare(self, record: BatchRecord, rate: int) -> Mapping[str, TopiaristError]:
        """Compute the throttles of all moves of ``record``; write it with them, and then the throttles.

        Returns the error of each topic, by name, that does not get its throttle.
        """
        needed = find_needed_throttles(record.moves, rate)
        # The old rates stay until the end, as those of a batch do; the new rate replaces ours.
        return self._write(record, needed, final=False).failed

    def replace_rate(self, rate: int) -> None:
        """Give the moves of the record another rate."""
        if self.batch is not None:
            self._write(self.batch, find_needed_throttles(self.batch.moves, rate), final=True)

    def end(self) -> None:
        """Put the throttles back, and delete the record; keep what is left of it where one cannot be changed now."""
        if self.batch is None:
            return
        left = self._write(self.batch._replace(moves=()), {}, final=True).left
        rest = self.batch._replace(moves=(), throttles=left, replaced={}) if left else None
        self._records.commit_batch(rest, hold=False)

    def send_moves(self, moves: Sequence[ReplicaMove]) -> Mapping[Partition, requests.Element]:
        """Send moves; return the element of each partition, without a code if it is not known whether they arrived."""
        asked = [(move.topic, move.partition) for move in moves]
        answer = self.send(build_reassignments(moves))
        if answer is None:
            return dict.fromkeys(asked, requests.Element(None))
        return read_reassignments_answer(answer, asked)

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
            if getattr(answer, "error_code", None) == requests.NOT_CONTROLLER and not is_last:
                self._session.forget_controller()
                continue
            return answer
        return None

    def _write(self, record: BatchRecord, needed: EntityConfigs, *, final: bool) -> _Written:
        """Write the record with its throttles, then the throttles. Raises the error of a broker that needs one."""
        before: OwnThrottles = self.batch.throttles if self.batch else {}
        earlier: OwnThrottles = self.batch.replaced if self.batch else {}
        entities = {*needed, *before, *earlier}
        current, unreachable, errors = self._reader.read_throttles(entities)
        failed = _find_failed_topics(errors, needed)
        unreachable = {**unreachable, **{entity: error.message for entity, error in errors.items()}}
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
        if not record.moves:
            # The end: until the throttles are back, the record has the values that they have.
            self.batch = record._replace(throttles={**present, **kept}, replaced={})
        self._records.commit_batch(self.batch, hold=True)
        refused = self._send_changes(changes)
        for entity in refused.keys() - needed.keys():
            self._remark(refused[entity].message)
        left = {**kept, **{entity: present[entity] for entity in refused if entity in present}}
        return _Written(left, {**failed, **_find_failed_topics(refused, needed)})

    def _send_changes(self, changes: Changes) -> Mapping[str, TopiaristError]:
        """Send the changes of configs; return the error of each entity with a change that the brokers refuse."""
        refused: dict[str, TopiaristError] = {}
        by_kind: dict[str, dict[str, Mapping[str, str | None]]] = {"topics": {}, "brokers": {}}
        for entity, values in sorted(changes.items()):
            kind, _, name = entity.partition("/")
            by_kind[kind][name] = values
        if by_kind["topics"]:
            refused |= self._send_configs("topics", by_kind["topics"], None)
        for broker, values in by_kind["brokers"].items():
            try:
                connection = self._session.broker(int(broker))
            except Disconnected as error:
                message = f"cannot send to brokers/{broker}: {error}"
                raise TopiaristError(Reason.UNREACHABLE, message, HINT_CONTINUE) from error
            refused |= self._send_configs("brokers", {broker: values}, connection)
        return refused

    def _send_configs(self, kind: str, changes: Changes, connection: Connection | None) -> Mapping[str, TopiaristError]:
        refused: dict[str, TopiaristError] = {}
        request = requests.build_alter_configs(changes, resource_type=_RESOURCES[kind])
        answer = self.send(request, connection)
        if answer is None:
            message = f"no answer to the throttles of {', '.join(f'{kind}/{name}' for name in [*changes][:3])}"
            raise TopiaristError(Reason.UNREACHABLE, message, HINT_CONTINUE)
        for name, element in requests.read_answer(requests.Kind.CONFIGURE, answer, changes).elements.items():
            entity = f"{kind}/{name}"
            if element.code == requests.UNKNOWN_TOPIC:
                self._remark(f"{entity} was deleted, with its throttle")
            elif element.code != 0:
                refused[entity] = _write_error(entity, element)
        return refused


class _Written(NamedTuple):
    """The throttles that cannot be put back now, and the error of each topic that does not get its throttle."""

    left: OwnThrottles
    failed: Mapping[str, TopiaristError]


def _find_failed_topics(errors: Mapping[str, TopiaristError], needed: Collection[str]) -> Mapping[str, TopiaristError]:
    """Return the errors of topics that need a throttle, by name.

    Raises the error of a broker: all topics with a replica on it need its throttle.
    """
    found = {entity: error for entity, error in sorted(errors.items()) if entity in needed}
    for entity, error in found.items():
        if entity.startswith("brokers/"):
            raise error
    return {entity.removeprefix("topics/"): error for entity, error in found.items()}


def _find_changes(before: Mapping[str, str], after: Mapping[str, str]) -> Mapping[str, str | None]:
    keys = sorted(before.keys() | after.keys())
    return {key: after.get(key) for key in keys if before.get(key) != after.get(key)}


def _write_error(what: str, element: requests.Element) -> TopiaristError:
    reason = Reason.NO_PERMISSION if element.is_denied else Reason.WRITE_FAILED
    right = f": it needs AlterConfigs on the {'topic' if what.startswith('topics/') else 'cluster'}"
    message = f"the throttle of {what} was not written{right if element.is_denied else ''}: {element.words}"
    return TopiaristError(reason, message, HINT_CONTINUE)
