"""Faults planted in the guards of the write path through ZooKeeper, one at a time: the explorer must find each.

A fault replaces functions of the product, as ``monkeypatch`` does. Each one names the bound in which it shows as a find
that the true code does not have there. ``tools/mutation`` removes guards too, and asks whether any test turns red; here
the question is whether the properties of the model notice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from interleavings.planted import Fault, Patch
from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.moves import batch_writer
from topiarist.adapters.zookeeper.read import bulk_read
from topiarist.adapters.zookeeper.write import transaction, write_context, writer
from topiarist.adapters.zookeeper.write import write_context as lock
from topiarist.adapters.zookeeper.write.transaction import Operation, OperationType, build_operations
from topiarist.model.outcome import Outcome, Result
from topiarist.planning import preconditions
from topiarist.planning.moves import gate, throttles
from topiarist.planning.moves.gate import MoveStanding


def _change_operations(change: Callable[[Operation], Operation | None]) -> Sequence[Patch]:
    """Return the patch that changes or drops operations of each transaction."""

    def build(*arguments: Any, **keywords: Any) -> list[Operation]:
        return [each for each in map(change, build_operations(*arguments, **keywords)) if each is not None]

    return [(transaction, "build_operations", build)]


def _drop_checks(*prefixes: str, suffix: str = "") -> Sequence[Patch]:
    def change(operation: Operation) -> Operation | None:
        is_checked = operation.type is OperationType.CHECK and operation.path.startswith(prefixes)
        return None if is_checked and operation.path.endswith(suffix) else operation

    return _change_operations(change)


def _set_at_any_version(parent: str) -> Sequence[Patch]:
    def change(operation: Operation) -> Operation:
        is_set = operation.type is OperationType.SET and operation.path.startswith(f"{parent}/")
        return operation._replace(version=-1) if is_set else operation

    return _change_operations(change)


def _keep_unless(unwanted: Callable[[Operation], bool]) -> Sequence[Patch]:
    return _change_operations(lambda operation: None if unwanted(operation) else operation)


def _returns(module: Any, name: str, value: Any) -> Sequence[Patch]:
    return [(module, name, lambda *_arguments, **_keywords: value)]


def _done(plan: Any, _nodes: Any, _stat: Any) -> Outcome:
    return Outcome(plan.topic, Result.DONE)


def _same_bytes(record: Any, _before: Any, last: Any) -> bool:
    return bool(getattr(record, "data", None) == last.data)


def _requeue_interrupted(self: writer.Writer, sent: Any) -> Any:
    """Send a topic again after its answer was lost, without a look at its record."""
    try:
        yield from _handle_reply(self, sent)
    finally:
        for each in self._unknown_writes:
            self._queue.requeue(each.write)
        self._unknown_writes = []


_handle_reply = writer.Writer._handle_reply
_read_znodes = bulk_read.read_znodes


def _resolve_at_the_end(self: writer.Writer, _error: Any) -> Any:
    """Report each transaction without an answer as made when the run ends early."""
    self._queue.close()
    for sent in [*self._unknown_writes, *self._in_flight_writes]:
        yield Outcome(sent.write.plan.topic, Result.DONE)
    yield from (Outcome(plan.topic, Result.SKIPPED) for plan in self._queue.remaining())


def _read_without_the_lock(session: Any, names: Any) -> Any:
    """Read znodes, and a lock that is always there."""
    answers = [*_read_znodes(session, wanted := [*names])]
    is_lock = [path.startswith(paths.LOCK) for path in wanted]
    return iter([b"" if own else answer for own, answer in zip(is_lock, answers, strict=True)])


def _first_in_the_queue(_lock: lock.Lock) -> list[str]:
    return []


def _without_own_znodes(self: lock.Lock) -> list[str]:
    """Return the queue; while the own place is not known, as if it had no own znode."""
    names = _read_queue(self)
    return names if self.path else [name for name in names if not name.startswith(self._prefix)]


_read_queue = lock.Lock._read_queue
_build_batch_operations = batch_writer.build_batch_operations


def _change_batches(change: Callable[[Operation], Operation | None]) -> Sequence[Patch]:
    """Return the patch that changes or drops operations of each batch of moves."""

    def build(*arguments: Any, **keywords: Any) -> list[Operation]:
        operations = _build_batch_operations(*arguments, **keywords)
        return [each for each in map(change, operations) if each is not None]

    return [(batch_writer, "build_batch_operations", build)]


def _drop_batch_operations(unwanted: Callable[[Operation], bool]) -> Sequence[Patch]:
    return _change_batches(lambda operation: None if unwanted(operation) else operation)


def _forget_own_throttles(needed: Any, current: Any, own: Any, *, final: bool) -> Any:
    """Return the update of a batch as if the one before had set no throttles."""
    return _update_throttles(needed, current, own if final else {}, final=final)


_update_throttles = throttles.update_throttles


FAULTS = {
    "the lock is not checked": Fault("two runs, unlock", _drop_checks(paths.LOCK)),
    "the controller's epoch is not checked": Fault("two runs, migrate", _drop_checks(paths.CONTROLLER_EPOCH)),
    "the controller's znode is not checked": Fault("two runs, resign", _drop_checks(paths.CONTROLLER, suffix="ller")),
    "the freeze is not checked": Fault("two runs, freeze", _drop_checks(paths.FREEZE)),
    "brokers are not checked": Fault("two runs, broker", _drop_checks(paths.BROKER_IDS)),
    "an existing request of reassignments is not checked": Fault(
        "requested reassignment", _drop_checks(paths.REASSIGNMENT_REQUEST)
    ),
    "the topic is set at any version": Fault("growth, another client", _set_at_any_version(paths.TOPICS)),
    "the config is set at any version": Fault("config, another client", _set_at_any_version(paths.TOPIC_CONFIGS)),
    "the record is set at any version": Fault("two runs, own", _set_at_any_version(paths.RECORDS)),
    "a topic that is not written is not checked": Fault(
        "config, another client", _drop_checks(paths.TOPICS, suffix="/a")
    ),
    "a config that is not written is not checked": Fault("growth, another policy", _drop_checks(paths.TOPIC_CONFIGS)),
    "a partition's state is not checked": Fault("config, another client", _drop_checks(paths.TOPICS, suffix="/state")),
    "a deletion request is not looked for": Fault(
        "growth, another client",
        _keep_unless(
            lambda each: (
                each.path.startswith(f"{paths.DELETION_REQUESTS}/")
                and each.type in (OperationType.CREATE, OperationType.DELETE)
            )
        ),
    ),
    "config changes are not announced": Fault("one run", _keep_unless(lambda each: each.sequential)),
    "a record proves each transaction": Fault("one run", _returns(transaction, "record_proves_commit", True)),
    "a record proves no transaction": Fault("one run", _returns(transaction, "record_proves_commit", False)),
    "a record of equal bytes proves a transaction": Fault(
        "drift, lost answers", [(transaction, "record_proves_commit", _same_bytes)]
    ),
    "a transaction without an answer is sent again": Fault(
        "one run", [(writer.Writer, "_handle_reply", _requeue_interrupted)]
    ),
    "a transaction without an answer counts as made after the session": Fault(
        "one run", [(writer.Writer, "_abort", _resolve_at_the_end)]
    ),
    "records prove transactions without the lock": Fault(
        "two equal runs, unlock", [(writer, "read_znodes", _read_without_the_lock)]
    ),
    "runs before this one are not waited for": Fault(
        "two different runs", [(lock.Lock, "_predecessors", _first_in_the_queue)]
    ),
    "a place in the queue is taken twice": Fault("two creations", [(lock.Lock, "_read_queue", _without_own_znodes)]),
    "planned values are not compared": Fault("config, another client", _returns(preconditions, "_change_conflict", "")),
    "planned records are not compared": Fault("two runs, own", _returns(preconditions, "_record_conflict", "")),
    "nothing of the topic is compared": Fault("two different runs", _returns(preconditions, "_topic_conflict", "")),
    "a recreated topic is not recognized": Fault(
        "adoption, recreated with id",
        _returns(preconditions, "_is_recreated", False),
    ),
    "the risk is not compared": Fault("growth, another policy", _returns(preconditions, "_risk_conflict", "")),
    "the config after the write is not checked": Fault(
        "config, another client", _returns(preconditions, "_invalid_config_conflict", "")
    ),
    "brokers of the plan are not compared": Fault("two runs, broker", _returns(preconditions, "_broker_conflict", "")),
    "a topic is not looked at after the write": Fault(
        "adoption, recreated with id", [(transaction, "committed_outcome", _done)]
    ),
    "growth does not wait for the controller": Fault(
        "two creations", _returns(transaction, "uninitialized_outcome", None)
    ),
    "a write block is not looked for": Fault("two runs, freeze", _returns(write_context, "require_writable", None)),
    "moves: the topic is not checked": Fault(
        "moves: another request",
        _drop_batch_operations(lambda each: each.type is OperationType.CHECK and each.path.startswith(paths.TOPICS)),
    ),
    "moves: a deletion request is not looked for": Fault(
        "moves: deletion by another client",
        _drop_batch_operations(lambda each: each.path.startswith(f"{paths.DELETION_REQUESTS}/")),
    ),
    "moves: throttles are not set": Fault(
        "moves: a raise", _drop_batch_operations(lambda each: each.path.startswith(f"{paths.BROKER_CONFIGS}/"))
    ),
    "moves: the lock is not checked": Fault(
        "moves: unlock", _drop_batch_operations(lambda each: each.path.startswith(paths.LOCK))
    ),
    "moves: a batch without an answer counts as sent": Fault(
        "moves: a raise", _returns(batch_writer.BatchWriter, "_was_committed", True)
    ),
    "moves: the topic is not compared": Fault(
        "moves: another request", _returns(gate, "find_standing", MoveStanding.BEFORE)
    ),
    "moves: throttles of the batch before are forgotten": Fault(
        "moves: two batches", [(batch_writer, "update_throttles", _forget_own_throttles)]
    ),
    "moves: throttles are never put back": Fault("moves: a raise", _returns(batch_writer.BatchWriter, "end", True)),
}
"""The planted faults, by what the product then fails to do."""
