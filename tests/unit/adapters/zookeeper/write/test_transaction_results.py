"""Results of transactions: the failed operation, conflicts, and the ownership record as proof of a commit."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.exceptions import (
    BadVersionError,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)

from support.states import cluster, spec, topic
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode
from topiarist.adapters.zookeeper.read.cluster_metadata import TopicZnodes
from topiarist.adapters.zookeeper.write import transaction
from topiarist.adapters.zookeeper.write.transaction import Operation, OperationType, TransactionTemplate, build_fence
from topiarist.errors import Reason
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import TopicPlan
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec
from topiarist.planning.planner import make_plan
from topiarist.planning.without_specs import UnmanageRequest, plan_unmanage

BROKER = Operation(OperationType.CHECK, "/brokers/ids/4")
SET = Operation(OperationType.SET, "/brokers/topics/orders", b"{}", 5)
CREATE = Operation(OperationType.CREATE, "/config/changes/config_change_", b"{}", sequential=True)
GUARD = Operation(OperationType.DELETE, "/admin/delete_topics/orders")
SITE = TransactionTemplate(build_fence("/topiarist/lock/run-1", 1, 1), {4: BROKER}, {})
STEPS = [*SITE.fence, BROKER, SET, GUARD, CREATE]


def fail(at: int, error: Exception) -> transaction.FailedOperation:
    """Return the failure of an answer in which the operation ``at`` failed."""
    results = [RolledBackError()] * at + [error] + [RuntimeInconsistency()] * (len(STEPS) - at - 1)
    found = transaction.find_first_failure(SITE, STEPS, results)
    assert found is not None
    return found


def test_done_means_that_every_step_was() -> None:
    """A result without exceptions is a commit."""
    assert transaction.find_first_failure(SITE, STEPS, [True] * len(STEPS)) is None


@pytest.mark.parametrize("at", range(len(STEPS)))
def test_the_step_that_failed_is_found_among_those_rolled_back(at: int) -> None:
    """Rolled-back operations before and inconsistent operations after the failed one are not the cause. They count as
    the cause only if the answer has no other error.
    """
    assert fail(at, BadVersionError()).operation == STEPS[at]
    assert transaction.find_first_failure(SITE, STEPS, [RolledBackError()] * len(STEPS)) is not None


@pytest.mark.parametrize("error", [BadVersionError(), NoNodeError()])
@pytest.mark.parametrize("at", range(len(STEPS)))
def test_the_ground_is_the_fence_and_the_brokers(at: int, error: Exception) -> None:
    """Failed checks of lock, epoch, controller, freeze znode and brokers concern the run; all failures are
    conflicts.
    """
    found = fail(at, error)
    assert found.context_changed is (at < 5)
    assert found.is_conflict


@pytest.mark.parametrize(
    ("at", "error", "message"),
    [
        (5, BadVersionError(), "/brokers/topics/orders changed while it was written"),
        (5, NoNodeError(), "/brokers/topics/orders was deleted while it was written"),
        (6, NodeExistsError(), "/admin/delete_topics/orders appeared while it was written"),
    ],
)
def test_conflicts_say_what_was_in_the_way(at: int, error: Exception, message: str) -> None:
    """The message of a conflict names the path and the change."""
    assert fail(at, error).message == message


@pytest.mark.parametrize(
    ("at", "message"),
    [
        (0, "no permission to read /topiarist/lock/run-1"),
        (4, "no permission to read /brokers/ids/4"),
        (5, "no permission to set /brokers/topics/orders"),
        (6, "no permission to delete children of /admin/delete_topics"),
        (7, "no permission to create children of /config/changes"),
    ],
)
def test_a_missing_right_is_named_where_it_is_given(at: int, message: str) -> None:
    """A missing permission to create or delete a znode is reported at its parent, and is no conflict."""
    found = fail(at, NoAuthError())
    assert not found.is_conflict
    assert not found.context_changed
    assert found.to_outcome("orders") == Outcome("orders", Result.FAILED, Reason.NO_PERMISSION, message)


@pytest.mark.parametrize(
    ("error", "word"), [(InvalidACLError(), "InvalidACLError"), (KazooException("error -125"), "error -125")]
)
def test_any_other_error_is_told_as_it_came(error: Exception, word: str) -> None:
    """Any other error is reported with its name and the path."""
    found = fail(7, error).to_outcome("orders")
    assert (found.result, found.reason) == (Result.FAILED, Reason.WRITE_FAILED)
    assert found.message == f"ZooKeeper returned {word} at /config/changes/config_change_"


def record(data: bytes, version: int) -> Znode:
    """Return the znode of an ownership record."""
    return Znode(data, 1, 1, 0, version, 0)


@pytest.mark.parametrize(
    ("before", "now", "witness"),
    [
        (ReadFailure.MISSING, record(b"ours", 0), True),
        (ReadFailure.MISSING, ReadFailure.MISSING, False),
        (ReadFailure.MISSING, record(b"theirs", 0), False),
        (ReadFailure.MISSING, record(b"ours", 1), False),
        (record(b"ours", 4), record(b"ours", 5), True),
        (record(b"ours", 4), record(b"ours", 4), False),
        (record(b"old", 4), record(b"theirs", 5), False),
        (record(b"ours", 4), record(b"ours", 6), False),
        (record(b"ours", 0), record(b"ours", 0), False),
        (record(b"ours", 4), ReadFailure.DENIED, False),
    ],
)
def test_the_record_is_a_witness_one_version_on_with_our_bytes(
    before: Znode | ReadFailure, now: Znode | ReadFailure, witness: bool
) -> None:
    """The record proves a commit only with both the next version and the written bytes."""
    step = Operation(OperationType.SET, "/topiarist/topics/orders", b"ours")
    assert transaction.record_proves_commit(now, before, step) is witness


@pytest.mark.parametrize(("now", "witness"), [(ReadFailure.MISSING, True), (Znode(b"", 1, 1, 0, 0, 0), False)])
def test_a_record_that_was_to_go_is_a_witness_by_its_absence(now: Znode | ReadFailure, witness: bool) -> None:
    """A missing record proves its deletion, because only the holder of the lock removes records."""
    step = Operation(OperationType.DELETE, "/topiarist/topics/orders", version=0)
    assert transaction.record_proves_commit(now, Znode(b"", 1, 1, 0, 0, 0), step) is witness


TOPIC = Znode(b"{}", 5, 5, 0, 0, 0)
TAKEN = Znode(b"{}", 6, 6, 0, 0, 0)
"""The znode of a topic, and the state of an initialized partition."""


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (ReadFailure.MISSING, Reason.NOT_INITIALIZED),
        (ReadFailure.DENIED, Reason.NO_PERMISSION),
        (TOPIC._replace(czxid=4), Reason.NOT_INITIALIZED),
    ],
    ids=["missing", "denied", "of an earlier topic"],
)
@pytest.mark.parametrize("fields", [{"ensure": "Absent"}, {"partitions": 9}], ids=["deletion", "growth"])
@pytest.mark.parametrize("partition", [0, 2])
def test_what_the_controller_has_to_know_is_not_sent_without_its_state(
    state: Znode | ReadFailure, reason: Reason, fields: dict[str, Any], partition: int
) -> None:
    """Growth needs the states of all existing partitions, a deletion that of the first."""
    plan = planned(**fields)
    wanted = transaction.partitions_requiring_state(plan)
    assert transaction.partitions_to_read(plan) == wanted
    states: list[Znode | ReadFailure] = [TAKEN for _ in wanted]
    assert transaction.uninitialized_outcome(plan, TOPIC, states) is None
    if partition in wanted:
        states[partition] = state
        found = transaction.uninitialized_outcome(plan, TOPIC, states)
        assert found is not None
        assert found.reason is reason
        assert str(partition) in found.message


def test_a_state_without_its_topic_is_left_to_the_preconditions() -> None:
    """If the topic was deleted after the plan, its conflict is reported elsewhere, and the states say nothing."""
    assert transaction.uninitialized_outcome(planned(ensure="Absent"), ReadFailure.MISSING, [TAKEN]) is None


def test_a_state_is_asked_for_where_the_controller_could_undo_a_change() -> None:
    """A change of config alone requires no partition state; it reads the first one if it exists."""
    assert transaction.partitions_requiring_state(planned(ensure="Absent")) == range(1)
    assert transaction.partitions_requiring_state(planned(partitions=9)) == range(3)
    configured = planned(config={"retention.ms": 5})
    assert transaction.partitions_requiring_state(configured) == range(0)
    assert transaction.partitions_to_read(configured) == range(1)
    assert transaction.uninitialized_outcome(configured, TOPIC, [ReadFailure.MISSING]) is None


def nodes(czxid: int | None) -> TopicZnodes:
    """Return the topic as read before the write; None means that it did not exist."""
    found = ReadFailure.MISSING if czxid is None else Znode(b"{}", czxid, 1, 0, 0, 0)
    return TopicZnodes("orders", found, ReadFailure.MISSING, ReadFailure.MISSING, marked_for_deletion=False)


def planned(**fields: Any) -> TopicPlan:
    """Return a change to the topic ``orders``."""
    return make_plan(cluster(topic("orders")), ClusterSpec(), [spec("orders", **fields)], RunOptions()).topics[0]


@pytest.mark.parametrize(
    ("fields", "before", "looked", "result"),
    [
        ({"partitions": 4}, 7, Znode(b"", 7, 9, 0, 1, 0), Result.DONE),
        ({"partitions": 4}, 7, Znode(b"", 8, 9, 0, 1, 0), Result.FAILED),
        ({"partitions": 4}, 7, None, Result.FAILED),
        ({"partitions": 4}, None, None, Result.DONE),
        ({"ensure": "Absent"}, 7, None, Result.DONE),
        ({"ensure": "Absent"}, 7, Znode(b"", 7, 9, 0, 1, 0), Result.DONE),
        ({"ensure": "Absent"}, 7, Znode(b"", 8, 9, 0, 1, 0), Result.FAILED),
    ],
)
def test_what_was_done_was_done_to_the_topic_that_was_meant(
    fields: dict[str, Any], before: int | None, looked: Znode | None, result: Result
) -> None:
    """A recreated topic is detected by its identity, because versions start again.

    A missing topic is right only for a deletion.
    """
    assert transaction.committed_outcome(planned(**fields), nodes(before), looked).result is result


@pytest.mark.parametrize("looked", [None, Znode(b"", 8, 9, 0, 1, 0)])
def test_a_release_is_done_whatever_became_of_the_topic(looked: Znode | None) -> None:
    """Unmanage succeeds for a deleted or recreated topic, because it removes only the ownership record."""
    released, _ = plan_unmanage(cluster(topic("orders")), "prod", UnmanageRequest(("orders",)), RunOptions())
    assert transaction.committed_outcome(released.topics[0], nodes(7), looked).result is Result.DONE
