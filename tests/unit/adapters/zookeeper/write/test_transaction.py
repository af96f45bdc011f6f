"""The transaction for one topic: its checks and writes, their versions and their order."""

from __future__ import annotations

from collections.abc import Iterable
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

from support.builders import spec, spread_replicas, state, topic
from topiarist.adapters import own_values
from topiarist.adapters.zookeeper.codec import paths, topics
from topiarist.adapters.zookeeper.codec.topics import decode_config, encode_config
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode
from topiarist.adapters.zookeeper.read.cluster_metadata import TopicZnodes
from topiarist.adapters.zookeeper.write import transaction
from topiarist.adapters.zookeeper.write.transaction import (
    Acl,
    Operation,
    OperationType,
    TransactionTemplate,
    build_fence,
    build_operations,
)
from topiarist.errors import Reason
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Nudge, RunOptions, TopicPlan
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState
from topiarist.planning.planner import make_plan
from topiarist.planning.without_specs import UnmanageRequest, parse_unmanage_request, plan_unmanage

ACL: Acl = ((31, "world", "anyone"),)
ACLS = dict.fromkeys(
    ("/brokers/topics", "/config/topics", "/config/changes", "/admin/delete_topics", "/topiarist/topics"), ACL
)
SITE = TransactionTemplate(
    build_fence("/topiarist/lock/run-1", 42, 3),
    {broker: Operation(OperationType.CHECK, paths.broker_path(broker)) for broker in range(1, 7)},
    ACLS,
)
FENCE = ["check /topiarist/lock/run-1", "check /controller_epoch @42", "check /controller", "check /topiarist/gate @3"]


def node(data: bytes, version: int) -> Znode:
    """Return a znode with this version."""
    return Znode(data, 1, 2, 0, version, 0)


STANDING = TopicZnodes(
    "orders",
    node(topics.encode_topic(spread_replicas(3)), 5),
    node(encode_config({"retention.ms": "7"}), 6),
    node(own_values.encode_record(own_values.decode_record(b'{"version":1,"owner":"default","config":[]}')), 7),
    marked_for_deletion=False,
)
NOTHING = TopicZnodes(
    "orders", ReadFailure.MISSING, ReadFailure.MISSING, ReadFailure.MISSING, marked_for_deletion=False
)


def planned(state: ClusterState, **fields: Any) -> TopicPlan:
    """Return the plan for the topic ``orders``."""
    (found,) = make_plan(state, ClusterSpec(), [spec("orders", **fields)], RunOptions()).topics
    assert not found.refusals
    return found


def describe(operations: Iterable[Operation]) -> list[str]:
    """Return operations in short form: type, path and, if checked, the version."""
    return [f"{step.type.value} {step.path}{'' if step.version < 0 else f' @{step.version}'}" for step in operations]


def words(plan: TopicPlan, nodes: TopicZnodes, state: Znode | ReadFailure = ReadFailure.MISSING) -> list[str]:
    """Return the operations of a plan in short form."""
    return describe(build_operations(plan, nodes, SITE, state))


def brokers(plan: TopicPlan) -> list[str]:
    """Return a check for each broker of the new replica lists."""
    used = {broker for replicas in plan.new_replicas() for broker in replicas}
    return [f"check /brokers/ids/{broker}" for broker in sorted(used)]


def test_a_create() -> None:
    """A creation has fence, brokers, no deletion request, config, topic and record.

    The znodes of the topic must be absent, because they are created and not set.
    """
    plan = planned(state(), partitions=1, replicationFactor=3)
    assert len(brokers(plan)) == 3
    assert words(plan, NOTHING) == [
        *FENCE,
        *brokers(plan),
        "create /admin/delete_topics/orders",
        "delete /admin/delete_topics/orders",
        "create /config/topics/orders",
        "create /brokers/topics/orders",
        "create /topiarist/topics/orders",
    ]


def test_a_create_over_what_an_earlier_topic_left() -> None:
    """A leftover config and record are set at the versions read; the topic itself is always created."""
    plan = planned(state())
    left = STANDING._replace(topic=ReadFailure.MISSING)
    assert words(plan, left)[-3:] == [
        "set /config/topics/orders @6",
        "create /brokers/topics/orders",
        "set /topiarist/topics/orders @7",
    ]


def test_growth() -> None:
    """Growth sets the topic at its version, and checks the config with managed keys at its own version."""
    plan = planned(state(topic("orders")), partitions=4)
    assert words(plan, STANDING) == [
        *FENCE,
        *brokers(plan),
        "create /admin/delete_topics/orders",
        "delete /admin/delete_topics/orders",
        "set /brokers/topics/orders @5",
        "check /config/topics/orders @6",
        "set /topiarist/topics/orders @7",
    ]


def test_a_nudge() -> None:
    """A nudge sets the topic znode to its own bytes, at the version read, and nothing else."""
    plan = TopicPlan("orders", before=topic("orders"), changes=(Nudge((0,)),))
    steps = build_operations(plan, STANDING, SITE, request_version=3)
    assert [f"{step.type.value} {step.path}" for step in steps] == [
        *(step.partition(" @")[0] for step in FENCE),
        "check /admin/reassign_partitions",
        "create /admin/delete_topics/orders",
        "delete /admin/delete_topics/orders",
        "set /brokers/topics/orders",
    ]
    assert isinstance(STANDING.topic, Znode)
    assert (steps[-1].data, steps[-1].version) == (STANDING.topic.data, STANDING.topic.version)


def test_a_config_change_of_a_topic_without_config_znode() -> None:
    """The znode is created with the keys of the plan, because Kafka reads a missing one as an empty config."""
    plan = planned(state(topic("orders")), config={"retention.ms": 9})
    steps = build_operations(plan, STANDING._replace(config=ReadFailure.MISSING), SITE)
    (made,) = [step for step in steps if step.path == "/config/topics/orders"]
    assert (made.type, made.data) == (OperationType.CREATE, encode_config({"retention.ms": "9"}))


@pytest.mark.parametrize(
    ("fields", "nodes", "checked"),
    [
        ({"partitions": 4}, STANDING, True),
        ({"ensure": "Absent"}, STANDING, True),
        ({"config": {"retention.ms": 9}}, STANDING, False),
        ({}, NOTHING, True),
    ],
    ids=["growth", "deletion", "config", "creation"],
)
def test_the_request_is_checked_where_it_must_not_name_the_topic(
    fields: dict[str, Any], nodes: TopicZnodes, checked: bool
) -> None:
    """The reassignment request is checked at the version read, after the fence; without a request there is no check."""
    plan = planned(state(topic("orders")) if nodes is STANDING else state(), **fields)
    check = Operation(OperationType.CHECK, "/admin/reassign_partitions", version=3)
    steps = build_operations(plan, nodes, SITE, request_version=3)
    assert (check in steps) is checked
    assert [step for step in steps if step != check] == build_operations(plan, nodes, SITE)


def test_a_config_that_is_not_there_is_not_checked() -> None:
    """Growth of a topic without a config znode does not check the config."""
    plan = planned(state(topic("orders")), partitions=4)
    without = words(plan, STANDING._replace(config=ReadFailure.MISSING))
    assert without == [step for step in words(plan, STANDING) if "/config/topics/" not in step]


def test_a_release() -> None:
    """Unmanage deletes the ownership record at the version read, behind the fence, and does not check the topic."""
    plan = plan_unmanage(state(topic("orders")), "", parse_unmanage_request(["orders"]), RunOptions())[0].topics[0]
    assert words(plan, STANDING) == [*FENCE, "delete /topiarist/topics/orders @7"]


def test_a_config_change() -> None:
    """A config change has one set and one notification in one transaction, and checks the version of the topic.

    Brokers take the whole map: it is the one just read, with the keys of the plan changed.
    """
    plan = planned(state(topic("orders")), config={"segment.ms": 8})
    assert words(plan, STANDING) == [
        *FENCE,
        "set /config/topics/orders @6",
        "create /config/changes/config_change_",
        "check /brokers/topics/orders @5",
        "set /topiarist/topics/orders @7",
    ]
    written, notification = build_operations(plan, STANDING, SITE)[4:6]
    assert decode_config(written.data) == {"retention.ms": "7", "segment.ms": "8"}
    assert (notification.sequential, notification.data) == (True, b'{"version":2,"entity_path":"topics/orders"}')


def test_a_deletion() -> None:
    """A deletion checks the topic and its first partition, and writes the deletion request and the deletion record."""
    plan = planned(state(topic("orders")), ensure="Absent")
    cluster_state = node(b"{}", 9)
    assert words(plan, STANDING, cluster_state) == [
        *FENCE,
        "check /brokers/topics/orders/partitions/0/state @9",
        "create /admin/delete_topics/orders",
        "check /brokers/topics/orders @5",
        "check /config/topics/orders @6",
        "set /topiarist/topics/orders @7",
    ]
    record = build_operations(plan, STANDING, SITE, cluster_state)[-1]
    assert record.data == b'{"version":1,"owner":"default","config":[],"ensure":"Absent"}'


def test_an_adoption_writes_the_record_only() -> None:
    """An adoption writes only the record, and checks that topic and config are those that were read."""
    plan = planned(state(topic("orders", record=None)))
    assert words(plan, STANDING._replace(record=ReadFailure.MISSING)) == [
        *FENCE,
        "check /brokers/topics/orders @5",
        "check /config/topics/orders @6",
        "create /topiarist/topics/orders",
    ]


def test_brokers_that_are_not_registered_cannot_be_checked() -> None:
    """An unregistered broker of an explicit assignment, which the run allows, has no check."""
    wanted = spec("orders", partitions=None, replicationFactor=None, replicaAssignment=[[1, 99]])
    (plan,) = make_plan(state(), ClusterSpec(), [wanted], RunOptions(allow_unknown_brokers=True)).topics
    assert plan.changes
    assert [word for word in words(plan, NOTHING) if "/brokers/ids/" in word] == ["check /brokers/ids/1"]


@pytest.mark.parametrize("fields", [{"partitions": 4}, {"config": {"retention.ms": 8}}, {"ensure": "Absent"}])
def test_new_nodes_get_the_acl_of_their_siblings(fields: dict[str, Any]) -> None:
    """New znodes get the ACL of their siblings, never kazoo's open default, and each set has a version."""
    acls = {parent: ((31, "sasl", parent),) for parent in ACLS}
    plan = planned(state(topic("orders", config={"retention.ms": "7"})), **fields)
    for step in build_operations(plan, STANDING, SITE._replace(acls=acls)):
        if step.type is OperationType.CREATE:
            assert step.acl == ((31, "sasl", step.path.rpartition("/")[0]),)
        if step.type is OperationType.SET:
            assert step.version >= 0


BROKER = Operation(OperationType.CHECK, "/brokers/ids/4")
SET = Operation(OperationType.SET, "/brokers/topics/orders", b"{}", 5)
CREATE = Operation(OperationType.CREATE, "/config/changes/config_change_", b"{}", sequential=True)
GUARD = Operation(OperationType.DELETE, "/admin/delete_topics/orders")
RESULT_SITE = TransactionTemplate(build_fence("/topiarist/lock/run-1", 1, 1), {4: BROKER}, {})
STEPS = [*RESULT_SITE.fence, BROKER, SET, GUARD, CREATE]


def fail(at: int, error: Exception) -> transaction.FailedOperation:
    """Return the failure of an answer in which the operation ``at`` failed."""
    results = [RolledBackError()] * at + [error] + [RuntimeInconsistency()] * (len(STEPS) - at - 1)
    found = transaction.find_first_failure(RESULT_SITE, STEPS, results)
    assert found is not None
    return found


def test_done_means_that_every_step_was() -> None:
    """A result without exceptions is a commit."""
    assert transaction.find_first_failure(RESULT_SITE, STEPS, [True] * len(STEPS)) is None


@pytest.mark.parametrize("at", range(len(STEPS)))
def test_the_step_that_failed_is_found_among_those_rolled_back(at: int) -> None:
    """Rolled-back operations before and inconsistent operations after the failed one are not the cause. They count as
    the cause only if the answer has no other error.
    """
    assert fail(at, BadVersionError()).operation == STEPS[at]
    assert transaction.find_first_failure(RESULT_SITE, STEPS, [RolledBackError()] * len(STEPS)) is not None


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
    plan = planned_creation(**fields)
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
    assert transaction.uninitialized_outcome(planned_creation(ensure="Absent"), ReadFailure.MISSING, [TAKEN]) is None


def test_a_state_is_asked_for_where_the_controller_could_undo_a_change() -> None:
    """A change of config alone requires no partition state; it reads the first one if it exists."""
    assert transaction.partitions_requiring_state(planned_creation(ensure="Absent")) == range(1)
    assert transaction.partitions_requiring_state(planned_creation(partitions=9)) == range(3)
    configured = planned_creation(config={"retention.ms": 5})
    assert transaction.partitions_requiring_state(configured) == range(0)
    assert transaction.partitions_to_read(configured) == range(1)
    assert transaction.uninitialized_outcome(configured, TOPIC, [ReadFailure.MISSING]) is None


def nodes(czxid: int | None) -> TopicZnodes:
    """Return the topic as read before the write; None means that it did not exist."""
    found = ReadFailure.MISSING if czxid is None else Znode(b"{}", czxid, 1, 0, 0, 0)
    return TopicZnodes("orders", found, ReadFailure.MISSING, ReadFailure.MISSING, marked_for_deletion=False)


def planned_creation(**fields: Any) -> TopicPlan:
    """Return a change to the topic ``orders``."""
    return make_plan(state(topic("orders")), ClusterSpec(), [spec("orders", **fields)], RunOptions()).topics[0]


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
    assert transaction.committed_outcome(planned_creation(**fields), nodes(before), looked).result is result


@pytest.mark.parametrize("looked", [None, Znode(b"", 8, 9, 0, 1, 0)])
def test_a_release_is_done_whatever_became_of_the_topic(looked: Znode | None) -> None:
    """Unmanage succeeds for a deleted or recreated topic, because it removes only the ownership record."""
    released, _ = plan_unmanage(state(topic("orders")), "prod", UnmanageRequest(("orders",)), RunOptions())
    assert transaction.committed_outcome(released.topics[0], nodes(7), looked).result is Result.DONE
