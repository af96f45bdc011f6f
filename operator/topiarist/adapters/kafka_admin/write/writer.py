"""Apply a plan in chunks: intents, a second look, the Admin requests, a third look, final records.

For each chunk ``Writer`` compares the topics by value with the plan, commits an intent for each topic that it is about
to change, and compares again: from then on every topic that exists has an owner, whatever happens. Then it sends the
requests of the chunk, each directly after a check of the fence, and reads the topics once more: what is there decides.
Only a creation that the controller confirmed with an id, counts and configs needs no third look, for which a broker
that makes many logs may need half a minute. It needs one for its replica lists, if it is not known that the brokers
carry out lists. The final records go into the transaction that has the intents of the next chunk. Changes of ownership
alone need no request and no intent.

A run that loses its records to another run stops: its last requests may be carried out, and the other run resolves the
intents that it finds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from topiarist.adapters.kafka_admin.connection.connection import Disconnected
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read.capabilities import find_capabilities
from topiarist.adapters.kafka_admin.read.topic_reader import Look, Reader
from topiarist.adapters.kafka_admin.records.codec import RecordsStore, TopicRecord
from topiarist.adapters.kafka_admin.write import chunks, results
from topiarist.adapters.kafka_admin.write.requests import CreatedTopic, Kind, creation_of, unknown_outcome
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import are_unplaced
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan, TopicPlan
from topiarist.model.state import ReadError, TopicState
from topiarist.planning.builder import find_impossible
from topiarist.planning.preconditions import CurrentTopic, Validity, check_preconditions, is_nudge
from topiarist.ports import NO_CONTROL, WriteControl
from topiarist.text import shorten_list
from topiarist.throttle import sleep_unless_stopped

QUOTA_TIMEOUT_S = 60.0
"""Seconds without one topic that the quota of the brokers accepts, after which a run ends."""

_LOOK_INTERVAL_S, _MAX_LOOK_INTERVAL_S = 0.1, 2.0

HINT_RUN_AGAIN = "run the same command again: finished changes are recognized"


class Writer:
    """A writer that applies one plan. ``execute`` may be called once.

    ``records`` is a run over the records of topiarist that ``execute`` acquires.
    """

    def __init__(
        self,
        session: Session,
        records: RecordsStore,
        reader: Reader,
        plan: Plan,
        stop: Callable[[], bool],
        control: WriteControl = NO_CONTROL,
    ) -> None:
        self._session = session
        self._run = records
        self._reader = reader
        self._plan = plan
        self._stop = stop
        self._guard = control.guard
        self._assumptions = plan.assumptions()
        self._are_lists_obeyed = plan.capabilities.replica_lists.is_given is True
        self._queue = chunks.ChunkQueue(control.throttle, stop)
        self._queue.reads_creations = not self._are_lists_obeyed
        self._is_acquired = False
        self._records: Mapping[str, TopicRecord] = {}  # as they were when the lock was acquired
        self._record_errors: Mapping[str, ReadError] = {}
        self._writes: Sequence[chunks.TopicWrite] = ()  # the chunk with committed intents, until it has results
        self._finals: dict[str, TopicRecord | None] = {}
        self._uncommitted: list[Outcome] = []  # the outcomes that ``_finals`` belong to
        self._committed: list[Outcome] = []
        self._no_quota_since: float | None = None

    def execute(self) -> Iterator[Outcome]:
        """Yield one outcome for each actionable topic, in the order in which they become known.

        Raises the error that ended the run, after the last outcome.
        """
        yield from self._queue_topics()
        if self._queue.is_empty:
            return
        self._acquire()  # outside of the try: a run that cannot start has no outcomes, and gives up what it has taken
        try:
            yield from self._write_chunks()
        except TopiaristError as error:
            in_doubt: list[str] = []
            for outcome in self._abort():
                if outcome.result is Result.UNKNOWN:
                    in_doubt.append(outcome.topic)
                yield outcome
            raise _name_topics(error, in_doubt) from error
        except GeneratorExit:
            # The caller takes no more outcomes. Between two chunks everything is known: write it, and free the lock.
            if self._finals:
                with suppress(TopiaristError):
                    self._commit({})
            raise
        finally:
            # After requests with an unknown outcome other runs wait for the lease.
            if not any(write.is_touched for write in self._writes):
                with suppress(TopiaristError, Disconnected):
                    self._release()
        yield from (Outcome(plan.topic, Result.SKIPPED) for plan in self._queue.remaining())

    def _acquire(self) -> None:
        records = self._run.acquire(self._stop)
        self._records, self._record_errors = records.topics, records.errors
        self._is_acquired = True

    def _write_chunks(self) -> Iterator[Outcome]:
        while not self._queue.is_empty and not self._stop():
            if chunk := self._queue.take():
                yield from self._write_chunk(chunk)
            else:
                yield from self._commit_finals()
                self._release()
                self._queue.wait()
        yield from self._commit_finals()

    def _release(self) -> None:
        if self._is_acquired:
            self._is_acquired = False
            self._run.release()

    def _queue_topics(self) -> Iterator[Outcome]:
        plans = [*self._plan.actionable_topics()]
        impossible = find_impossible(find_capabilities(self._session.controller()), plans)
        for plan in plans:
            if plan.topic in impossible:
                issue = impossible[plan.topic][0]
                yield Outcome(plan.topic, Result.REFUSED, issue.reason, issue.message)
            elif is_nudge(plan):
                message = "Kafka's protocol has no request that makes the controller initialize a partition again"
                yield Outcome(plan.topic, Result.REFUSED, Reason.NOT_INITIALIZED, message)
            elif outcome := chunks.too_large_outcome(plan) or self._refuse_lists(plan):
                yield outcome
            else:
                self._queue.add(plan)

    def _refuse_lists(self, plan: TopicPlan) -> Outcome | None:
        """Return the refusal of a saved plan with replica lists that the cluster is known not to carry out."""
        capabilities = self._plan.capabilities
        support = capabilities.growth_lists if plan.before else capabilities.replica_lists
        lists = plan.new_replicas()
        if not lists or are_unplaced(lists) or not support.is_denied:
            return None
        message = f"the plan lists brokers, and the cluster places new replicas itself: {support.why}; make a new plan"
        return Outcome(plan.topic, Result.REFUSED, Reason.PLACED_BY_BROKERS, message)

    def _write_chunk(self, chunk: Sequence[TopicPlan]) -> Iterator[Outcome]:
        try:
            if not self._is_acquired:
                self._acquire()  # other runs may have written while this one waited
            self._run.keep()
            # A topic without a request is not looked at again.
            is_sent = all(any(chunks.needs_request(plan, kind) for kind in Kind) for plan in chunk)
            look = (self._reader.look_first if is_sent else self._reader.look)([plan.topic for plan in chunk])
        except TopiaristError:
            self._queue.requeue(chunk)
            raise
        writes: list[chunks.TopicWrite] = []
        for plan in chunk:
            if outcome := self._compare(plan, look) or self._guard(plan):
                yield outcome
            elif any(chunks.needs_request(plan, kind) for kind in Kind):
                writes.append(chunks.TopicWrite(plan, _topic_id(look, plan.topic)))
            else:
                topic = look.topics[plan.topic]
                shown = None if isinstance(topic, ReadError) else topic
                self._finals[plan.topic] = self._final_record(plan, shown, results.FinalRecord.PLANNED)
                self._uncommitted.append(Outcome(plan.topic, Result.DONE))
        if not writes:
            return
        # No outcome is yielded until the chunk is over: the time of its lease is for its requests.
        self._writes = writes
        self._commit({write.plan.topic: self._build_intent(write) for write in writes})
        self._writes = writes = self._compare_again(writes)
        requests = chunks.ChunkRequests(self._session, self._run.require_fence, self._stop)
        requests.send(writes)
        throttled = self._find_results(writes)
        self._writes = ()
        yield from self._take_committed()
        if any(outcome.reason is Reason.NOT_SENT for outcome in self._uncommitted):
            yield from self._commit_finals()
            message = "the brokers did not answer in time, and not all planned changes were made"
            raise TopiaristError(Reason.NO_CONTROLLER, message, HINT_RUN_AGAIN)
        if throttled:
            yield from self._commit_finals()
            self._release()
            self._queue.requeue(throttled)
            self._wait_for_quota(requests.quota_reset_at, is_progress=len(throttled) < len(writes))

    def _compare(self, plan: TopicPlan, look: Look) -> Outcome | None:
        """Return the outcome of a topic that is not sent, None if its plan can be applied."""
        topic, name = look.topics[plan.topic], plan.topic
        if error := topic if isinstance(topic, ReadError) else self._record_errors.get(name):
            return Outcome(name, Result.CONFLICT, Reason.TOPIC_UNREADABLE, f"{error.path}: {error.message}")
        assert not isinstance(topic, ReadError)
        record = self._records.get(name)
        if topic is not None:
            is_valid = record is not None and record.topic_id == topic.topic_id
            topic = replace(topic, record=record.record if record else None, record_valid=is_valid)
        current = CurrentTopic(
            topic=topic,
            record=record.record if record else None,
            marked_for_deletion=False,
            reassigning=topic is not None and bool(topic.reassigning_partitions),
            brokers=look.brokers,
            broker_defaults=look.broker_defaults,
            min_version=look.min_version,
            topics_by_metric_name={},  # the brokers refuse a name that collides
        )
        check = check_preconditions(plan, self._assumptions, current)
        if check.validity is Validity.ALREADY_APPLIED:
            return Outcome(name, Result.UNCHANGED)
        if check.validity is Validity.CONFLICT:
            return Outcome(name, Result.CONFLICT, Reason.STATE_CONFLICT, check.message)
        return None

    def _compare_again(self, writes: Sequence[chunks.TopicWrite]) -> list[chunks.TopicWrite]:
        """Return the topics that are as before the intents; the others get their old record back, and an outcome."""
        ids = {write.plan.topic: write.topic_id for write in writes}
        # Configs alone do not depend on what is being moved.
        depends = any(write.needs(Kind.GROW) or write.needs(Kind.DELETE) for write in writes)
        look = self._reader.look_again(ids, lists_reassignments=depends)
        unchanged = []
        for write in writes:
            if outcome := self._compare(write.plan, look):
                self._finals[write.plan.topic] = self._records.get(write.plan.topic)
                self._uncommitted.append(outcome)
            else:
                unchanged.append(write)
        return unchanged

    def _find_results(self, writes: Sequence[chunks.TopicWrite], *, is_last_look: bool = False) -> list[TopicPlan]:
        """Set the outcomes and final records of the topics of a chunk; return those that a quota left out.

        Reads the topics that the answer to their creation does not describe whole. If all requests were confirmed, a
        look that shows them is enough, however old it is. Reads again while a request without an answer may still be
        carried out, unless ``is_last_look`` is true or the run is stopped.
        """
        throttled, interval, remaining = [], _LOOK_INTERVAL_S, []
        for write in writes:
            if result := results.find_created_result(write, are_lists_obeyed=self._are_lists_obeyed):
                self._settle(write, result, None)
            else:
                remaining.append(write)
        is_proven = is_last_look or self._stop() or any(write.problem for write in remaining)
        while remaining:
            now = time.monotonic()  # before the look: what it does not show was not made until then
            ids = {write.plan.topic: write.known_id for write in remaining}
            look = self._reader.look_again(ids, lists_reassignments=False, is_proven=is_proven)
            late = []
            for write in remaining:
                plan, topic = write.plan, look.topics[write.plan.topic]
                has_unknown = not plan.placed_brokers() <= self._assumptions.brokers.keys()
                result = results.find_result(write, topic, now, unknown_brokers=has_unknown)
                if result is None:
                    late.append(write)
                    continue
                self._settle(write, result, topic)
                if result.outcome is None:
                    throttled.append(plan)
            remaining = late
            if is_proven:
                if not remaining or is_last_look or self._stop():
                    break
                sleep_unless_stopped(interval, self._stop)
                interval = min(interval * 2, _MAX_LOOK_INTERVAL_S)
            is_proven = True
        for write in remaining:
            why = write.problem[0].message if write.problem else "the brokers do not show it yet"
            self._uncommitted.append(unknown_outcome(write.plan.topic, why))
        return throttled

    def _settle(
        self, write: chunks.TopicWrite, result: results.TopicResult, topic: TopicState | ReadError | None
    ) -> None:
        """Keep the outcome and the final record of a topic; ``topic`` is as the last look shows it, if there is one."""
        name, outcome = write.plan.topic, result.outcome
        if outcome:
            self._uncommitted.append(outcome)
            if topic and creation_of(write.plan) and outcome.result is Result.DONE:
                self._are_lists_obeyed = self._are_lists_obeyed or not are_unplaced(write.plan.new_replicas())
                self._queue.reads_creations = not self._are_lists_obeyed
        if result.record is not results.FinalRecord.INTENT:
            shown = None if isinstance(topic, ReadError) else topic
            self._finals[name] = self._final_record(write.plan, shown, result.record, write.created)

    def _commit_finals(self) -> Iterator[Outcome]:
        """Commit the final records without intents, which gives up the lease; yield all outcomes so far."""
        if self._finals or self._uncommitted:
            self._commit({})
        yield from self._take_committed()

    def _commit(self, intents: Mapping[str, TopicRecord]) -> None:
        self._run.commit({**self._finals, **intents}, hold=bool(intents))
        self._is_acquired = bool(intents)
        self._committed += self._uncommitted
        self._finals, self._uncommitted = {}, []

    def _take_committed(self) -> Iterator[Outcome]:
        committed, self._committed = self._committed, []
        yield from committed

    def _build_intent(self, write: chunks.TopicWrite) -> TopicRecord:
        before = self._records.get(write.plan.topic)
        return TopicRecord(before.record if before else None, write.topic_id, results.build_intent(write.plan))

    def _final_record(
        self, plan: TopicPlan, topic: TopicState | None, kind: results.FinalRecord, created: CreatedTopic | None = None
    ) -> TopicRecord | None:
        before = self._records.get(plan.topic)
        if kind is results.FinalRecord.BEFORE:
            return before
        if kind is results.FinalRecord.PARTIAL:
            record = results.build_partial_record(plan, topic) if topic else None
            return TopicRecord(record, topic.topic_id) if topic and record else before
        topic_id = (
            created.topic_id if created else None if chunks.is_deletion(plan) or topic is None else topic.topic_id
        )
        record = results.forget_applied(plan.record_after) if kind is results.FinalRecord.MADE else plan.record_after
        return None if record is None else TopicRecord(record, topic_id)

    def _wait_for_quota(self, until: float, *, is_progress: bool) -> None:
        now = time.monotonic()
        if is_progress or self._no_quota_since is None:
            self._no_quota_since = now
        if max(until, now) - self._no_quota_since > QUOTA_TIMEOUT_S:
            message = f"a quota of the brokers (controller_mutation_rate) accepted no topic for {QUOTA_TIMEOUT_S:g} s"
            raise TopiaristError(Reason.THROTTLED, message, "run the same command again, or raise the quota")
        sleep_unless_stopped(until - time.monotonic(), self._stop)

    def _abort(self) -> Iterator[Outcome]:
        """Yield an outcome for each topic without one when the run ends early; save what is known if possible."""
        yield from self._take_committed()
        touched = {write.plan.topic for write in self._writes if write.is_touched}
        written = (Result.DONE, Result.DIFFERS)
        touched.update(outcome.topic for outcome in self._uncommitted if outcome.result in written)
        names = dict.fromkeys(outcome.topic for outcome in self._uncommitted)
        names.update(dict.fromkeys(write.plan.topic for write in self._writes))
        known: list[Outcome] = []
        with suppress(TopiaristError):
            self._save_known()
            known = list(self._take_committed())
        saved = {outcome.topic for outcome in known}
        yield from known
        conflicts = {each.topic: each for each in self._uncommitted if each.topic not in touched}
        for name in names:
            if name in saved:
                continue
            if name in touched:
                yield unknown_outcome(name, "the run ended before its record was written")
            else:
                yield conflicts.get(name, Outcome(name, Result.SKIPPED))
        yield from (Outcome(plan.topic, Result.SKIPPED) for plan in self._queue.remaining())

    def _save_known(self) -> None:
        if self._writes:
            sent = [write for write in self._writes if write.is_touched]
            for write in self._writes:
                if not write.is_touched:
                    self._finals.setdefault(write.plan.topic, self._records.get(write.plan.topic))
            for plan in self._find_results(sent, is_last_look=True):
                self._uncommitted.append(Outcome(plan.topic, Result.SKIPPED))
        if self._finals or self._uncommitted:
            self._commit({})


def _topic_id(look: Look, name: str) -> str | None:
    topic = look.topics[name]
    return None if topic is None or isinstance(topic, ReadError) else topic.topic_id


def _name_topics(error: TopiaristError, names: Sequence[str]) -> TopiaristError:
    """Return ``error`` with the topics that have an unknown outcome."""
    if not names:
        return error
    message = f"{error.message}; the outcome of these topics has to be read: {shorten_list(sorted(names))}"
    return TopiaristError(error.reason, message, error.hint or HINT_RUN_AGAIN)
