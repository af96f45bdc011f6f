"""Faults planted in the guards of the write path through Kafka's own API: the explorer must find each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from interleavings.planted import Fault, Patch
from topiarist.adapters.kafka_admin.moves import mover
from topiarist.adapters.kafka_admin.moves.batch_writer import BatchWriter
from topiarist.adapters.kafka_admin.records import codec, log, transactions
from topiarist.adapters.kafka_admin.records.codec import Lock, Records
from topiarist.adapters.kafka_admin.records.run import RecordsRun
from topiarist.adapters.kafka_admin.write import chunks, results
from topiarist.adapters.kafka_admin.write.writer import Writer
from topiarist.planning import preconditions
from topiarist.planning.moves import gate
from topiarist.planning.moves.gate import MoveStanding


def _returns(module: Any, name: str, value: Any) -> Sequence[Patch]:
    return [(module, name, lambda *_arguments, **_keywords: value)]


def _find_claims(records: Records) -> Any:
    """Return the claims alone, as if the lock were free."""
    return records.claims


def _find_lock(records: Records) -> Any:
    """Return the lock alone, as if no other run were about to take it."""
    return (records.lock,) if records.lock.run else ()


def _commit_without_intents(self: Writer, chunk: Any) -> None:
    """Commit the final records alone, and hold the lock for the chunk."""
    _commit(self, {name: record._replace(intent=None) for name, record in chunk.items()})


def _keep_intents(self: RecordsRun, _stop: Any) -> None:
    """Forget the intents of other runs without a look at their topics."""
    topics = {name: codec.forget_intent(record) for name, record in self._records.topics.items()}
    self._records = self._records._replace(topics={name: each for name, each in topics.items() if each})


def _acquire_while_frozen(self: RecordsRun, *arguments: Any, **_keywords: Any) -> Any:
    return _acquire(self, *arguments, ignore_freeze=True)


def _append_as_next(self: RecordsRun, key: bytes, value: bytes | None) -> int | None:
    """Take a claim for the next record after those that were read, whatever was written before it."""
    self._log._read_to = (end := self._producer.write(key, value)) - 1  # type: ignore[attr-defined, operator]
    self._log.take_written(key, value, end)
    return end


def _trust_the_commit(self: RecordsRun, lock: Lock, _cause: Any) -> None:
    """Take a commit without an answer for made."""
    self._records = self._records._replace(lock=lock)


def _all_unchanged(self: Writer, writes: Any) -> Any:
    self._reader.look([write.plan.topic for write in writes])
    return list(writes)


def _not_late(write: Any, topic: Any, now: float, **keywords: Any) -> Any:
    """Take a request without an answer for one that will not be carried out any more."""
    write.late_until = None if write.late_until is None else -1.0
    return _find_result(write, topic, now, **keywords)


def _forget_given_up(record: Any, topic: Any, *, has_waited: bool) -> Any:  # noqa: ARG001
    """Resolve a creation without a topic to nothing at once."""
    return _resolve(record, topic, has_waited=True)


def _commit_nothing(self: RecordsRun, _batch: Any, *, hold: bool) -> None:
    self.commit({}, hold=hold)


def _all_that_wait(waiting: Any, *_arguments: Any) -> Any:
    return tuple(waiting)


_commit, _acquire = Writer._commit, RecordsRun.acquire
_find_result, _resolve = results.find_result, codec.resolve

FAULTS = {
    "the fence is not checked before each request": Fault(
        "API: two growths, a stop", _returns(RecordsRun, "require_fence", None)
    ),
    "the time of the lease is not checked": Fault("API: two growths, a stop", [(transactions, "MARGIN_S", -1e9)]),
    "the lease of another run is not waited for": Fault(
        "API: two growths, a stop", [(log, "find_holders", _find_claims)]
    ),
    "the claims of other runs are not waited for": Fault(
        "API: two runs, other topics", [(log, "find_holders", _find_lock)]
    ),
    "records before the own claim are not read": Fault(
        "API: two runs, other topics", [(RecordsRun, "_append", _append_as_next)]
    ),
    "intents are not written": Fault("API: two creations, a crash", [(Writer, "_commit", _commit_without_intents)]),
    "intents of other runs are forgotten": Fault(
        "API: two creations, a crash", [(RecordsRun, "_resolve_intents", _keep_intents)]
    ),
    "late requests of other runs are not waited for": Fault(
        "API: one creation, two runs, a delay", _returns(codec, "has_late_write", False)
    ),
    "a creation that was given up is forgotten": Fault(
        "API: two creations, a stop", [(codec, "resolve", _forget_given_up)]
    ),
    "a request without an answer is not waited for": Fault(
        "API: one creation, a delay", [(results, "find_result", _not_late)]
    ),
    "a look that may be old decides": Fault("API: one run", [(chunks, "OLD_LOOK_S", -1.0)]),
    "a commit without an answer counts as made": Fault(
        "API: one run", [(RecordsRun, "_find_commit", _trust_the_commit)]
    ),
    "a frozen cluster is written to": Fault("API: a freeze", [(RecordsRun, "acquire", _acquire_while_frozen)]),
    "topics are not compared after the intents": Fault(
        "API: growth, another client", [(Writer, "_compare_again", _all_unchanged)]
    ),
    "topics are never compared with the plan": Fault("API: two equal runs", _returns(Writer, "_compare", None)),
    "planned values are not compared": Fault(
        "API: growth, another client", _returns(preconditions, "_change_conflict", "")
    ),
    "a recreated topic is not recognized": Fault(
        "API: adoption, another client", _returns(preconditions, "_is_recreated", False)
    ),
    "without records: topics are never compared with the plan": Fault(
        "API: no records, two growths", _returns(Writer, "_compare", None)
    ),
    "moves: throttles are not set": Fault("API: a move", _returns(BatchWriter, "_send_changes", {})),
    "moves: the record is not written first": Fault("API: a move", [(RecordsRun, "commit_batch", _commit_nothing)]),
    "moves: the limits are not kept": Fault("API: two moves", [(mover, "fill_window", _all_that_wait)]),
    "moves: topics are not compared": Fault(
        "API: a move, another client", _returns(gate, "find_standing", MoveStanding.BEFORE)
    ),
    "moves: throttles are never put back": Fault("API: a move", _returns(BatchWriter, "end", None)),
}
"""The planted faults, by what the product then fails to do."""
