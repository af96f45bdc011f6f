"""Writes that are not needed: without a record, or without a batch under way, nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kazoo.exceptions import (
    APIError,
    BadVersionError,
    InvalidACLError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from msgspec.structs import replace

from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.connection.session import ConnectionInterrupted
from topiarist.adapters.zookeeper.moves import batch_writer
from topiarist.adapters.zookeeper.moves.batch_writer import BatchWriter, WriterSettings, decode_record
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode
from topiarist.adapters.zookeeper.read.cluster_metadata import ReassignmentRequest
from topiarist.adapters.zookeeper.write.transaction import Operation, OperationType, TransactionTemplate
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import BatchRecord, ReplicaMove, RequestedReassignment

MOVE = ReplicaMove("orders", 0, (1, 2), (3, 2))


def writer(record: BatchRecord | None, *requested: RequestedReassignment) -> BatchWriter:
    """Return a writer without a session: every request would fail."""
    request = ReassignmentRequest(version=0 if requested else None, entries=requested)
    return BatchWriter(
        session=cast("Any", None),
        settings=WriterSettings("default", 1.0, 1_000_000),
        template=TransactionTemplate((), {}, {}),
        metadata=cast("Any", SimpleNamespace(reassignment_request=request)),
        record_znode=ReadFailure.MISSING,
        record=record,
        remark=lambda remark: None,
    )


class Answers:
    """A session that answers each transaction with fixed results, or with an error."""

    chroot = ""

    def __init__(self, answer: Any) -> None:
        self.calls: list[str] = []
        self._answer = answer

    def send(self, _: object) -> object:
        """Record the transaction."""
        self.calls.append("send")
        return object()

    def result(self, _: object) -> Any:
        """Return the results, or raise."""
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def wait_until_reconnected(self) -> None:
        """Record the call."""
        self.calls.append("wait")


@pytest.fixture(autouse=True)
def nothing_to_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the writer read no topics and no configs: there are no throttles."""
    monkeypatch.setattr(batch_writer, "read_moved_topics", lambda *_: {})
    monkeypatch.setattr(batch_writer, "read_entity_configs", lambda *_: {})


OWN = BatchRecord("default", 1, 1, (), {})
RECORD_NODE = Znode(b"{}", 1, 2, 0, 4, 0)


def end(answer: Any) -> tuple[bool, list[str]]:
    """End a batch without throttles over a session with this answer; return the result and the calls."""
    session = Answers(answer)
    fence = tuple(Operation(OperationType.CHECK, path) for path in ("/lock", "/gate"))
    template = TransactionTemplate(fence, {}, {})
    ending = writer(OWN)
    ending = replace(ending, session=cast("Any", session), template=template, record_znode=RECORD_NODE)
    return ending.end(), session.calls


def test_a_transaction_is_applied_if_every_operation_was() -> None:
    """One result for each operation, and no error among them."""
    assert end([True, True, True]) == (True, ["send"])


@pytest.mark.parametrize("error", [BadVersionError(), NoNodeError(), NodeExistsError()])
def test_a_conflict_is_tried_again(error: Exception) -> None:
    """Another client has changed a znode: the caller reads it again."""
    assert end([RolledBackError(), error, RuntimeInconsistency()]) == (False, ["send"])


@pytest.mark.parametrize(
    ("answer", "reason", "message"),
    [
        ([RolledBackError(), RolledBackError(), NoAuthError()], Reason.NO_PERMISSION, "no permission to delete"),
        ([InvalidACLError(), RuntimeInconsistency(), RuntimeInconsistency()], Reason.WRITE_FAILED, "/lock"),
        (APIError(), Reason.WRITE_FAILED, "APIError"),
    ],
)
def test_other_errors_end_the_run(answer: Any, reason: Reason, message: str) -> None:
    """They would not end by another try."""
    with pytest.raises(TopiaristError, match=message) as caught:
        end(answer)
    assert caught.value.reason is reason


@pytest.mark.parametrize("answer", [[], [True, True], ConnectionInterrupted()])
@pytest.mark.parametrize(("left", "applied"), [(ReadFailure.MISSING, True), (RECORD_NODE, False)])
def test_without_a_usable_reply_the_record_decides(
    monkeypatch: pytest.MonkeyPatch, answer: Any, left: Znode | ReadFailure, applied: bool
) -> None:
    """The connected server is brought up to date before the record is read."""
    calls: list[str] = []
    monkeypatch.setattr(batch_writer, "sync", lambda _: calls.append("sync"))

    def read(*_: object) -> Iterator[Znode | ReadFailure]:
        calls.append("read")
        yield left

    monkeypatch.setattr(batch_writer, "read_znodes", read)
    assert end(answer) == (applied, ["send", "wait"])
    assert calls == ["sync", "read"]


def test_without_a_record_nothing_is_written() -> None:
    """Another run has put the throttles back meanwhile."""
    assert writer(None).end()
    assert writer(None, RequestedReassignment("orders", 0, (3, 2))).replace_throttle(5)


def test_a_batch_that_is_done_keeps_its_throttle() -> None:
    """The request is of another client: the same topic with another partition, or another topic."""
    record = BatchRecord("default", 1, 1, (MOVE,), {})
    others = RequestedReassignment("orders", 1, (3, 2)), RequestedReassignment("clicks", 0, (3, 2))
    assert writer(record, *others).replace_throttle(5)
    assert writer(record).replace_throttle(5)


def test_a_request_is_there_if_it_has_a_version() -> None:
    """Also one that has no entries that can be read."""
    assert writer(None, RequestedReassignment("orders", 0, (3, 2))).has_request
    assert not writer(None).has_request


@pytest.mark.parametrize("node", [Znode(b"{", 1, 2, 0, 1, 0), ReadFailure.DENIED])
def test_a_record_that_cannot_be_read_is_an_error(node: Znode | ReadFailure) -> None:
    """It says which throttles are topiarist's, so nothing goes on without it."""
    with pytest.raises(TopiaristError, match=paths.MOVES) as caught:
        decode_record(node)
    assert caught.value.reason is Reason.UNREADABLE
    assert decode_record(ReadFailure.MISSING) is None
