"""Writes that are not needed: without a record, or without a batch under way, nothing is sent."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.moves.batch_writer import BatchWriter, WriterSettings, decode_record
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode
from topiarist.adapters.zookeeper.read.cluster_metadata import ReassignmentRequest
from topiarist.adapters.zookeeper.write.transaction import TransactionTemplate
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
