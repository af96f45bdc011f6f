"""Carry out the elections of a plan: the controller makes the first replica of partitions their leader.

One request at a time exists in a cluster, also of other clients: the elector waits until the controller has removed
it, and never sets or deletes it. The controller removes a request when it has tried each entry, whatever the result, so
only the states of the partitions show it. An election is idempotent: after a lost reply the states are read, and the
rest is requested again. ::

    a request is there           wait until the controller removes it
    no request                   judge the next partitions under the lock, and request those that can be elected
    request removed              compare the leaders; a partition with another one was given up by the controller
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator
from enum import Enum

from kazoo.exceptions import NodeExistsError

from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.values import encode_election_request
from topiarist.adapters.zookeeper.connection.session import translate_errors
from topiarist.adapters.zookeeper.moves import batch_writer
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, read_children, read_znodes, sync
from topiarist.adapters.zookeeper.read.cluster_metadata import REQUEST_AND_WRITE_BLOCK, decode_request_and_write_block
from topiarist.adapters.zookeeper.write import transaction
from topiarist.adapters.zookeeper.write.write_context import KRAFT_REASONS
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Broker
from topiarist.model.moves import RequestedReassignment
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan
from topiarist.planning.moves.gate import ElectionJudgement, MovedTopic
from topiarist.planning.moves.ledger import HINT_ELECT_AGAIN, ElectionLedger, OpenElections, Partition
from topiarist.ports import MoveOptions
from topiarist.throttle import sleep_unless_stopped

# Build the transaction that requests the election of preferred leaders. Pure, as ``write/transaction.py``.
#
# The request is only ever created: the controller deletes it after it has tried each entry. An entry of a partition
# without a state would stop the controller and leave the request in place (contract 6.7), so the transaction
# checks the state of each partition. ::
#
#     check    the fence: lock, controller and its epoch, freeze
#     check    the registration of each broker that is to lead
#     check    each topic, and that it has no deletion request
#     check    the state of each partition
#     create   /admin/preferred_replica_election

ADMIN = paths.ELECTION_REQUEST.rpartition("/")[0]
"""The parent of the request, which gives it its ACL."""


def build_election_operations(
    partitions: Collection[tuple[str, int]],
    leaders: Collection[int],
    znodes: batch_writer.JudgedZnodes,
    template: transaction.TransactionTemplate,
) -> list[transaction.Operation]:
    """Return the operations that request an election of ``partitions``, given the znodes that they were judged from.

    ``leaders`` are the brokers that are to lead; each is in ``template.broker_checks``.
    """
    request = encode_election_request(sorted(partitions))
    return [
        *batch_writer.build_checks(sorted(partitions), leaders, znodes, template),
        transaction.Operation(
            transaction.OperationType.CREATE, paths.ELECTION_REQUEST, request, acl=template.acls[ADMIN]
        ),
    ]


_HINT_STUCK = "the controller's log has the cause, often an entry of a partition that it has not initialized"
_FIRST_POLL_S, _POLL_S = 0.05, 0.5
_MAX_ATTEMPTS = 5


class _Sent(Enum):
    """The result of one transaction; after ``UNKNOWN``, a lost reply, the states of the partitions decide."""

    YES = "yes"
    UNKNOWN = "unknown"
    REQUEST_EXISTS = "request exists"
    CONFLICT = "conflict"


class Elector:
    """A run that carries out the elections of one plan; ``execute`` may be called once."""

    def __init__(self, access: batch_writer.MoveAccess, plan: Plan, options: MoveOptions) -> None:
        self._session, self._writer_settings, self._stop = access
        self._options = options
        self._ledger = ElectionLedger(plan, options)
        self._lost_replies = 0
        self._blocked_by = ""

    def execute(self) -> Iterator[Outcome]:
        """Yield one outcome for each topic with elections; raise the error that ended the run after the last one."""
        yield from self._ledger.run(self._steps(), lambda: map(self._unfinished_outcome, self._ledger.open.values()))

    def _steps(self) -> Iterator[None]:
        with translate_errors(self._session):
            while self._ledger.queue and self._step():
                yield

    def _step(self) -> bool:
        """Request the next election and wait for it; return whether to continue."""
        if not self._await_no_request():
            return False
        partitions = self._ledger.queue.popleft()
        sent, ready = self._send(partitions)
        if sent is _Sent.REQUEST_EXISTS:
            self._ledger.queue.appendleft(partitions)
            return not self._stop()
        if not ready:
            return True
        if not self._options.wait or not self._await_no_request():
            return False
        self._judge_sent(ready, is_certain=sent is _Sent.YES)
        return True

    def _await_no_request(self) -> bool:
        """Wait until there is no election request; return False if the run was stopped or does not wait.

        Raises ``TopiaristError``: MovesStalled if one request stays for ``stall_after`` seconds, the reason of the
        write block if KRaft takes the cluster over.
        """
        stall_after, seen, deadline, pause = self._options.settings.stall_after, -1, 0.0, _FIRST_POLL_S
        while not self._stop():
            request = self._read_request()
            if request is None:
                return True
            if not self._options.wait:
                self._blocked_by = "another election is in progress"
                return False
            now = time.monotonic()
            if request.czxid != seen:
                seen, deadline = request.czxid, now + stall_after
            elif now >= deadline:
                message = f"{paths.ELECTION_REQUEST}: the controller has not removed it for {stall_after:g} s"
                raise TopiaristError(Reason.MOVES_STALLED, message, _HINT_STUCK)
            self._ledger.report()
            sleep_unless_stopped(min(pause, stall_after), self._stop)
            pause = _POLL_S
        return False

    def _read_request(self) -> Znode | None:
        """Read the election request; raise the reason of the write block if KRaft has taken the cluster over."""
        sync(self._session)
        (request,) = read_znodes(self._session, [paths.ELECTION_REQUEST])
        if request is ReadFailure.MISSING:
            return None
        if not isinstance(request, Znode):
            raise TopiaristError(Reason.NO_PERMISSION, f"no permission to read {paths.ELECTION_REQUEST}")
        _, block = decode_request_and_write_block(self._session, read_znodes(self._session, REQUEST_AND_WRITE_BLOCK))
        if block.reason in KRAFT_REASONS:
            message = f"{block.message}; {paths.ELECTION_REQUEST} is in place, and is not carried out any more"
            raise TopiaristError(block.reason, message)
        return request

    def _send(self, partitions: tuple[Partition, ...]) -> tuple[_Sent, tuple[Partition, ...]]:
        """Request the election of those partitions that can be elected; return them, empty if nothing was sent."""
        for _ in range(_MAX_ATTEMPTS):
            with batch_writer.lock_for_batch(
                self._session, self._writer_settings, self._stop, lambda remark: None
            ) as writer:
                if writer is None:
                    return _Sent.REQUEST_EXISTS, ()
                ready, judged = self._select(partitions, writer)
                if not ready:
                    return _Sent.YES, ()
                leaders = {self._ledger.open[topic].left[partition].after for topic, partition in ready}
                operations = build_election_operations(ready, leaders, judged, writer.template)
                try:
                    sent = self._commit(writer, operations)
                except batch_writer.TooLarge as error:
                    self._split(ready, error.size)
                    return _Sent.YES, ()
                except TopiaristError as error:
                    for topic, _ in ready:
                        self._ledger.open[topic].is_unknown = error.reason is Reason.SESSION_LOST
                    raise
            if sent is _Sent.REQUEST_EXISTS:
                return sent, ()
            if sent is not _Sent.CONFLICT:
                self._ledger.requests += 1
                self._ledger.add_sent(ready)
                return sent, ready
        message = f"the znodes of an election changed {_MAX_ATTEMPTS} times in a row while it was written"
        raise TopiaristError(Reason.STATE_CONFLICT, message, HINT_ELECT_AGAIN)

    def _select(
        self, partitions: Iterable[Partition], writer: batch_writer.BatchWriter
    ) -> tuple[tuple[Partition, ...], batch_writer.JudgedZnodes]:
        """Return the partitions that can be elected; keep the causes of the others, or close their topics."""
        metadata = writer.metadata
        brokers = {broker.id: broker for broker in metadata.brokers}
        judged, judgements = self._judge(partitions, brokers, metadata.reassignment_request.entries)
        return tuple(
            (topic.plan.topic, each.partition) for topic, judgement in judgements for each in judgement.ready
        ), judged

    def _judge(
        self,
        partitions: Iterable[Partition],
        brokers: dict[int, Broker],
        requested: Iterable[RequestedReassignment] = (),
    ) -> tuple[batch_writer.JudgedZnodes, list[tuple[OpenElections, ElectionJudgement]]]:
        """Read and judge open topics; close those that have a conflict or nothing left."""
        judged = batch_writer.read_judged(self._session, [*self._ledger.find_left(partitions)])

        def read(name: str) -> MovedTopic:
            return batch_writer.decode_moved_topic(judged.topics[name], brokers, {}, judged.states)

        in_flight = {(entry.topic, entry.partition) for entry in requested}
        return judged, [*self._ledger.judge(partitions, read, in_flight)]

    def _judge_sent(self, partitions: tuple[Partition, ...], *, is_certain: bool) -> None:
        """Compare the leaders of partitions after their election; after a lost reply, request the rest again."""
        open_again: list[Partition] = []
        sync(self._session)
        (names,) = read_children(self._session, [paths.BROKER_IDS])
        registered = () if isinstance(names, ReadFailure) else map(int, filter(str.isdecimal, names))
        brokers = {broker: Broker(broker) for broker in registered}
        for topic, judgement in self._judge(partitions, brokers)[1]:
            for each in judgement.ready:
                cause = f"the controller did not elect broker {each.after} as the leader of partition {each.partition}"
                topic.causes[each.partition] = cause
                open_again.append((topic.plan.topic, each.partition))
        if open_again and not is_certain:
            self._lost_replies += 1
            if self._lost_replies >= _MAX_ATTEMPTS:
                message = f"the connection dropped {_MAX_ATTEMPTS} times while an election was requested"
                raise TopiaristError(Reason.WRITE_FAILED, message, HINT_ELECT_AGAIN)
            self._ledger.queue.appendleft(tuple(open_again))

    def _commit(self, writer: batch_writer.BatchWriter, operations: list[transaction.Operation]) -> _Sent:
        try:
            failure = writer.commit(operations, HINT_ELECT_AGAIN)
        except batch_writer.NoReply:
            return _Sent.UNKNOWN
        if failure is None:
            return _Sent.YES
        exists = isinstance(failure.error, NodeExistsError) and failure.operation.path == paths.ELECTION_REQUEST
        return _Sent.REQUEST_EXISTS if exists else _Sent.CONFLICT

    def _split(self, partitions: tuple[Partition, ...], size: int) -> None:
        """Queue the halves of a request that is too large; refuse the topic of a single partition."""
        if len(partitions) > 1:
            middle = len(partitions) // 2
            self._ledger.queue.extendleft((partitions[middle:], partitions[:middle]))
            return
        name = partitions[0][0]
        message = f"the transaction of its election has {size:,} bytes, more than 90 % of a request"
        self._ledger.close(self._ledger.open[name], Outcome(name, Result.REFUSED, Reason.TOO_LARGE, message))

    def _unfinished_outcome(self, topic: OpenElections) -> Outcome:
        name = topic.plan.topic
        if topic.is_unknown:
            message = "the session ended before the reply: the next run compares the leaders"
            return Outcome(name, Result.UNKNOWN, Reason.OUTCOME_UNKNOWN, message)
        if not topic.was_sent and not topic.causes:
            reason = Reason.NOT_ELECTED if self._blocked_by else None
            return Outcome(name, Result.SKIPPED, reason, self._blocked_by)
        return self._ledger.pending_outcome(topic, "the controller carries the election out by itself")
