"""Tries the rights of ``docs/connections.md`` with an authorizer: they suffice, and each missing one is named.

Each principal has exactly the rights that the test names, and a topic of records of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from brokers.shared_clusters import PASSWORD
from support.builders import apply_outcomes, plan_specs, refusal_reasons, topic_spec
from support.kafka.acls import Acl, create_acls
from support.kafka.clients import Clients
from support.kafka.kraft import KraftCluster
from support.kafka.kraft_fixture import KraftFixture
from topiarist.adapters.kafka_admin.cluster import WARNING_NO_OWNERS, KafkaCluster
from topiarist.adapters.kafka_admin.read import sync
from topiarist.adapters.kafka_admin.read.state import WARNING_NO_REASSIGNMENTS
from topiarist.adapters.kafka_admin.read.sync import LACKS_DESCRIBE, WARNING_UNSYNCED
from topiarist.errors import Location, Reason, TopiaristError
from topiarist.model.access import KafkaAccess, RecordsTopic, SaslMechanism, SaslPassword, SecretReference
from topiarist.model.moves import UNLIMITED, MoveKind, MoveSettings
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Issue, MoveReplicas, RunOptions
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import Freeze
from topiarist.planning.without_specs import parse_unmanage_request, plan_unmanage
from topiarist.ports import MoveOptions
from topiarist.reconcile import read_and_plan

_ANY = "*"
_RECORDS = "the topic of records"


class Right(NamedTuple):
    """One right, as the table of the documentation names it; a name that ends with ``-*`` is a prefix."""

    operation: str
    resource: str
    name: str = _ANY


DESCRIBE, DESCRIBE_CONFIGS = Right("Describe", "Topic"), Right("DescribeConfigs", "Topic")
DESCRIBE_CLUSTER = Right("Describe", "Cluster")
READ_RECORDS = Right("Read", "Topic", _RECORDS)
CREATE_RECORDS, WRITE_RECORDS = Right("Create", "Topic", _RECORDS), Right("Write", "Topic", _RECORDS)
TRANSACTIONS = Right("Write", "TransactionalId", "topiarist")

READING = frozenset({DESCRIBE, DESCRIBE_CONFIGS, DESCRIBE_CLUSTER, Right("Describe", "Topic", _RECORDS), READ_RECORDS})
"""The rights of all runs."""

WRITING = READING | {CREATE_RECORDS, WRITE_RECORDS, Right("Describe", "TransactionalId", "topiarist"), TRANSACTIONS}
"""The rights of ``apply``, ``freeze`` and ``unmanage`` without a change of a topic."""

CHANGES: dict[str, dict[str, Any]] = {
    "Create": {"partitions": 1},
    "Alter": {"partitions": 3},
    "AlterConfigs": {"config": {"retention.ms": 5000}},
    "Delete": {"ensure": "Absent"},
}
"""The change of a topic that needs each right on topics."""

THROTTLING = frozenset(
    {Right("AlterConfigs", "Topic"), Right("DescribeConfigs", "Cluster"), Right("AlterConfigs", "Cluster")}
)
MOVING = WRITING | {Right("Alter", "Cluster")}
THROTTLE = 50_000_000
MOVES = MoveSettings(frozenset(MoveKind), THROTTLE, stall_after=60)


@dataclass
class Guarded:
    """A cluster with an authorizer; clients of the plain listener are the super user."""

    kafka: KraftCluster
    clients: Clients
    password: Path

    def __post_init__(self) -> None:
        self._numbers = count()

    def open_all(self) -> KafkaCluster:
        """Return the cluster as the super user sees it, with the records of the last principal."""
        access = KafkaAccess(self.kafka.bootstrap, records=self.records)
        return KafkaCluster(access, owner="default", lock_timeout=20.0)

    def grant(self, rights: Collection[Right]) -> KafkaAccess:
        """Return the access of a new principal with these rights; no principal has used its topic of records."""
        number = next(self._numbers)
        user, self.records = f"user-{number}", RecordsTopic(f"__topiarist-{number}", 1)
        acls = (
            Acl(user, (right.operation,), right.resource, self.records.name if right.name == _RECORDS else right.name)
            for right in sorted(rights)
        )
        create_acls(self.kafka.bootstrap, acls)
        login = SaslPassword(
            SaslMechanism.PLAIN, user, SecretReference(str(self.password), "", Location("c.yaml", 1, 1))
        )
        return KafkaAccess(self.kafka.bootstrap_of("LOGIN"), login, records=self.records, request_timeout=15.0)


@pytest.fixture
def guarded(kraft: KraftFixture, tmp_path_factory: pytest.TempPathFactory) -> Guarded:
    """Return the cluster without any rights."""
    password = tmp_path_factory.mktemp("rights") / "password"
    password.write_text(PASSWORD)
    return Guarded(kraft.kafka, kraft.clients, password)


def refusal(run: Callable[[], object]) -> str:
    """Return the message of a run that ends for lack of a right."""
    with pytest.raises(TopiaristError) as caught:
        run()
    assert caught.value.reason is Reason.NO_PERMISSION, caught.value
    return str(caught.value)


def own(guarded: Guarded, *names: str) -> None:
    """Create topics, owned in the records of the last principal."""
    with guarded.open_all() as cluster:
        specs = [topic_spec(name, replicationFactor=2) for name in names]
        assert {each.result for each in apply_outcomes(cluster, plan_specs(cluster, *specs)).values()} == {Result.DONE}


def freeze(access: KafkaAccess) -> None:
    """Freeze the cluster, and end that."""
    with KafkaCluster(access, owner="default") as cluster:
        assert cluster.set_freeze(Freeze("test", "ada"), by="ada", force=False).result is Result.DONE
        assert cluster.read().write_block.reason is Reason.FROZEN
        assert cluster.set_freeze(None, by="ada", force=False).result is Result.DONE


def change(access: KafkaAccess, **fields: Any) -> Outcome:
    """Plan a change of the topic ``t`` and apply it."""
    with KafkaCluster(access, owner="default", lock_timeout=20.0) as cluster:
        plan = plan_specs(cluster, topic_spec("t", **{"replicationFactor": 2, **fields}))
        (outcome,) = apply_outcomes(cluster, plan).values()
        return outcome


@pytest.mark.core
def test_reading_needs_the_rights_of_all_runs(guarded: Guarded) -> None:
    """With exactly them everything is visible, also before there are records, and there are no warnings."""
    access = guarded.grant(READING)
    with KafkaCluster(access, owner="default") as cluster:
        assert cluster.read().topics == {}
        own(guarded, "t")
        state = cluster.read()
        assert state.topics["t"].valid_record
        assert (state.topic_errors, state.warnings) == ({}, ())
        assert cluster.poll({"t": [0, 1]})["t"].identity == state.topics["t"].identity
        assert cluster.inspect("t").assignment.keys() == {0, 1}
        assert cluster.inspect_all([state.topics["t"]]).keys() == {"t"}


def test_a_hidden_topic_is_never_absent(guarded: Guarded) -> None:
    """Without Describe the listing leaves topics out: one with a record is an error, and no plan changes it."""
    access = guarded.grant(READING - {DESCRIBE} | {Right("Describe", "Topic", "seen-*")})
    own(guarded, "seen-1", "hidden-1")
    guarded.clients.create({"hidden-2": ((1,),)})
    with KafkaCluster(access, owner="default") as cluster:
        state = cluster.read()
        assert {"seen-1"} == {name for name in state.topics if not name.startswith("__")}
        assert state.topic_errors.keys() == {"hidden-1"}
        assert "hidden from topiarist" in state.topic_errors["hidden-1"].message
        assert "Describe on every topic" in state.topic_errors["hidden-1"].message
        assert state.dangling_records == {}
        changes: tuple[dict[str, Any], ...] = ({}, {"ensure": "Absent"}, {"partitions": 4})
        for fields in changes:
            (planned,) = plan_specs(cluster, topic_spec("hidden-1", **fields)).topics
            assert refusal_reasons(planned) == ["TopicUnreadable"], planned
            assert not planned.is_actionable
        assert cluster.poll({"hidden-1": [0]})["hidden-1"].read_error
        assert cluster.inspect("hidden-1").other_errors


@pytest.mark.night(area="rights")
def test_a_hidden_topic_without_a_record_is_not_created(guarded: Guarded) -> None:
    """A plan cannot know it; the run sees that it is hidden, or finds that it exists, and changes nothing."""
    rights = WRITING - {DESCRIBE} | {Right("Create", "Cluster")}
    access = guarded.grant(rights)
    guarded.clients.create({"t": ((1,),)})
    outcome = change(access)
    assert (outcome.result, outcome.reason) == (Result.CONFLICT, Reason.TOPIC_UNREADABLE), outcome
    assert "Describe is missing" in outcome.message


@pytest.mark.night(area="rights")
def test_a_prefix_is_enough_for_its_topics(guarded: Guarded) -> None:
    """A principal with rights on a prefix manages the topics of that prefix."""
    on_prefix = {Right(word, "Topic", "team-*") for word in ("Describe", "DescribeConfigs", "Create", "Delete")}
    access = guarded.grant(WRITING - {DESCRIBE, DESCRIBE_CONFIGS} | on_prefix | {DESCRIBE_CONFIGS_OF_RECORDS})
    guarded.clients.create({"other": ((1,),)})
    with KafkaCluster(access, owner="default", lock_timeout=20.0) as cluster:
        changes: tuple[dict[str, Any], ...] = ({}, {"ensure": "Absent"})
        for fields in changes:
            (outcome,) = apply_outcomes(cluster, plan_specs(cluster, topic_spec("team-1", **fields))).values()
            assert outcome.result is Result.DONE, outcome


DESCRIBE_CONFIGS_OF_RECORDS = Right("DescribeConfigs", "Topic", _RECORDS)


@pytest.mark.night(area="rights")
def test_reading_without_a_right(guarded: Guarded) -> None:
    """The run ends, and names the right: it is never taken for "no overrides"."""
    access = guarded.grant(READING - {DESCRIBE_CONFIGS})
    own(guarded, "t")
    with KafkaCluster(access, owner="default") as cluster:
        assert "lacks DescribeConfigs on" in refusal(cluster.read)


@pytest.mark.core
def test_a_topic_without_the_right_to_its_configs(guarded: Guarded) -> None:
    """It alone is refused, with the right, and keeps its record; the others are planned and changed."""
    on_prefix = {Right(word, "Topic", "seen-*") for word in ("AlterConfigs", "Create")}  # with DescribeConfigs
    access = guarded.grant(WRITING - {DESCRIBE_CONFIGS} | on_prefix | {DESCRIBE_CONFIGS_OF_RECORDS})
    own(guarded, "seen-1", "denied-1")
    wanted = [
        topic_spec(name, replicationFactor=2, config={"retention.ms": 7_000_000})
        for name in ("seen-1", "seen-2", "denied-1")
    ]
    with KafkaCluster(access, owner="default", lock_timeout=20.0) as cluster:
        plan = plan_specs(cluster, *wanted)
        outcomes = apply_outcomes(cluster, plan)
        assert {name: each.result for name, each in outcomes.items()} == dict.fromkeys(
            ("seen-1", "seen-2"), Result.DONE
        )
        (refused,) = (each for each in plan.topics if each.refusals)
        assert (refused.topic, refusal_reasons(refused)) == ("denied-1", ["TopicUnreadable"])
        assert "lacks DescribeConfigs on topic denied-1 (TOPIC_AUTHORIZATION_FAILED)" in refused.refusals[0].message
        state = cluster.read()
        assert ("denied-1" in state.topic_errors, state.dangling_records) == (True, {})
        assert state.topics["seen-1"].config["retention.ms"] == "7000000"
        assert cluster.inspect("denied-1").assignment.keys() == {0, 1}
    with guarded.open_all() as cluster:
        assert cluster.read().topics["denied-1"].valid_record


@pytest.mark.core
def test_reading_without_the_records(guarded: Guarded) -> None:
    """Without Read on their topic a plan is made with a warning; no topic is owned, and none is free to write."""
    access = guarded.grant(WRITING - {READ_RECORDS} | {Right("Alter", "Topic")})
    own(guarded, "t")
    with KafkaCluster(access, owner="default") as cluster:
        state = cluster.read()
        assert state.records_error.reason is Reason.NO_PERMISSION
        assert "lacks Read on the topic __topiarist" in state.write_block.message
        assert (state.topics["t"].record, WARNING_NO_OWNERS in state.warnings) == (None, True)
        plan = plan_specs(cluster, topic_spec("t", partitions=3, replicationFactor=2), run=RunOptions(adopt=("*",)))
        assert (plan.has_changes, refusal_reasons(plan.topics[0])) == (False, ["NoPermission"])


@pytest.mark.core
@pytest.mark.parametrize("may_delete", [True, False])
def test_a_first_write_that_fails_for_good_leaves_nothing(guarded: Guarded, may_delete: bool) -> None:
    """The empty topic is deleted by its id, or the error says that it is left; without transactions none is made."""
    right = {Right("Delete", "Topic", _RECORDS)} if may_delete else set()
    access = guarded.grant(WRITING - {WRITE_RECORDS} | right)
    said = refusal(lambda: change(access))
    left = guarded.clients.describe([guarded.records.name])[guarded.records.name]
    assert (left is None, "was deleted again" in said, "stays empty" in said) == (
        may_delete,
        may_delete,
        not may_delete,
    )
    if left is not None:
        guarded.clients.delete([guarded.records.name])  # records begin in no second topic
    access = guarded.grant(WRITING - {TRANSACTIONS})
    assert "lacks Write on the transactional id" in refusal(lambda: change(access))
    assert guarded.clients.describe([guarded.records.name])[guarded.records.name] is None


@pytest.mark.core
def test_without_records_none_of_their_rights_is_needed(guarded: Guarded) -> None:
    """Topics are created, grown and deleted without a right on the records; a second run of another owner waits not."""
    on_topics = {Right(word, "Topic", "t") for word in ("Create", "Alter", "AlterConfigs", "Delete")}
    access = replace(guarded.grant({DESCRIBE, DESCRIBE_CONFIGS, DESCRIBE_CLUSTER} | on_topics), records=None)
    cluster_spec = ClusterSpec("prod", kafka=access)
    changes: tuple[dict[str, Any], ...] = (
        {"partitions": 1, "replicationFactor": 2},
        {"partitions": 2, "replicationFactor": 2, "config": {"retention.ms": 5000}},
        {"ensure": "Absent"},
    )
    for fields in changes:
        for expected in (True, False):
            with KafkaCluster(access, owner="default") as cluster:
                wanted = topic_spec("t", cluster_spec, **fields)
                plan = read_and_plan(cluster, cluster_spec, (wanted,), RunOptions())
                assert (plan.has_changes, plan.has_refusals) == (expected, False), plan
                assert {each.result for each in apply_outcomes(cluster, plan).values()} <= {Result.DONE}
    assert guarded.clients.describe([guarded.records.name, "__topiarist"]) == {
        guarded.records.name: None,
        "__topiarist": None,
    }


@pytest.mark.night(area="rights")
def test_reading_without_the_cluster(guarded: Guarded) -> None:
    """Without Describe on the cluster a plan says that it may be old, and that reassignments are not visible."""
    access = guarded.grant(READING - {DESCRIBE_CLUSTER})
    own(guarded, "t")
    with KafkaCluster(access, owner="default") as cluster:
        state = cluster.read()
        assert state.topics["t"].valid_record
        hidden = f"{WARNING_NO_REASSIGNMENTS}Describe on the cluster is missing"
        assert {WARNING_UNSYNCED, hidden} <= set(state.warnings)
        assert state.capabilities.freshness == state.capabilities.listed_reassignments == LACKS_DESCRIBE
        assert cluster.inspect("t").assignment.keys() == {0, 1}


@pytest.mark.night(area="rights")
def test_a_session_without_the_cluster_waits_once(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads wait for a second after what the session did or saw last; a read after a write of its own shows it."""
    access = guarded.grant({*WRITING, Right("AlterConfigs", "Topic")} - {DESCRIBE_CLUSTER})
    own(guarded, "t")
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        time.sleep(seconds)

    monkeypatch.setattr(sync, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))
    with KafkaCluster(access, owner="default", lock_timeout=20.0) as cluster:
        cluster.read()
        assert sum(slept) > 0.5
        slept.clear()
        for _ in range(3):
            cluster.read()
        assert slept == []
        wanted = topic_spec("t", replicationFactor=2, config={"retention.ms": 7_000_000})
        (outcome,) = apply_outcomes(cluster, plan_specs(cluster, wanted)).values()
        assert outcome.result is Result.DONE, outcome
        slept.clear()
        assert cluster.read().topics["t"].config["retention.ms"] == "7000000"
        assert sum(slept) > 0


@pytest.mark.parametrize(
    "operation",
    ["Create", *(pytest.param(each, marks=pytest.mark.night(area="rights")) for each in CHANGES if each != "Create")],
)
def test_each_change_needs_one_right_more(guarded: Guarded, operation: str) -> None:
    """With exactly that right the change is made; without it, it is refused, and the right is named."""
    access = guarded.grant(WRITING)
    if operation != "Create":
        own(guarded, "t")
    outcome = change(access, **CHANGES[operation])
    assert (outcome.result, outcome.reason) == (Result.FAILED, Reason.NO_PERMISSION), outcome
    assert f"it needs {operation} on the topic" in outcome.message
    if operation != "Create":
        guarded.clients.delete(["t"])
    access = guarded.grant(WRITING | {Right(operation, "Topic")})
    if operation != "Create":
        own(guarded, "t")
    assert change(access, **CHANGES[operation]).result is Result.DONE


@pytest.mark.night(area="rights")
def test_ownership_and_freeze_need_no_right_on_topics(guarded: Guarded) -> None:
    """Adoption, release and freeze write records only."""
    access = guarded.grant(WRITING)
    guarded.clients.create({"t": ((1, 2), (2, 3))})
    freeze(access)
    assert change(access).result is Result.DONE
    with KafkaCluster(access, owner="default") as cluster:
        plan, _ = plan_unmanage(cluster.read(), "", parse_unmanage_request(["t"]), RunOptions())
        assert apply_outcomes(cluster, plan)["t"].result is Result.DONE
        assert cluster.read().topics["t"].record is None


@pytest.mark.night(area="rights")
@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (CREATE_RECORDS, "lacks Create on the topic __topiarist"),
        (WRITE_RECORDS, "lacks Write on the topic __topiarist"),
        (TRANSACTIONS, "lacks Write on the transactional id topiarist"),
    ],
)
def test_no_write_begins_without_the_rights_for_records(guarded: Guarded, missing: Right, message: str) -> None:
    """Apply and freeze end before anything is written, and name the right."""
    access = guarded.grant(WRITING - {missing} | {Right("Create", "Cluster")} - {missing})
    if missing is CREATE_RECORDS:
        access = guarded.grant(WRITING - {missing} | {Right("Create", "Topic", "t")})
    assert message in refusal(lambda: change(access))
    assert message in refusal(lambda: freeze(access))
    assert guarded.clients.describe(["t"])["t"] is None


def move(access: KafkaAccess, throttle: int) -> Outcome | Issue:
    """Move the topic ``t`` away from broker 3; return the refusal of the plan if there is one."""
    settings = replace(MOVES, throttle=throttle)
    cluster_spec = ClusterSpec("prod", moves=settings, drain_brokers=frozenset({3}))
    wanted = topic_spec("t", cluster_spec, replicationFactor=2)
    with KafkaCluster(access, owner="default", lock_timeout=20.0) as cluster:
        plan = read_and_plan(cluster, cluster_spec, (wanted,), RunOptions())
        if refusals := plan.topics[0].refusals:
            assert not plan.topics[0].moves()
            assert [type(change) for change in refusals[0].withheld] == [MoveReplicas]
            return refusals[0]
        assert plan.topics[0].moves(), plan
        (outcome,) = cluster.move(plan, MoveOptions(settings), lambda: False)
        return outcome


def is_done(moved: Outcome | Issue) -> bool:
    """Return whether a move was carried out."""
    return isinstance(moved, Outcome) and moved.result is Result.DONE


def own_for_move(guarded: Guarded) -> None:
    """Create the owned topic ``t`` with replicas on all brokers."""
    assert guarded.clients.create({"t": ((1, 3), (3, 2))}) == {}
    with guarded.open_all() as cluster:
        assert (
            apply_outcomes(cluster, plan_specs(cluster, topic_spec("t", replicationFactor=2)))["t"].result
            is Result.DONE
        )


@pytest.mark.night(area="rights")
def test_moves_need_alter_on_the_cluster(guarded: Guarded) -> None:
    """With it replicas move without a throttle; without it, the plan names the right."""
    access = guarded.grant(WRITING)
    own_for_move(guarded)
    refused = move(access, UNLIMITED)
    assert isinstance(refused, Issue)
    assert (refused.reason, refused.message) == (
        Reason.NO_PERMISSION,
        "to move replicas it needs the permission Alter on the cluster",
    )
    guarded.clients.delete(["t"])
    access = guarded.grant(MOVING)
    own_for_move(guarded)
    assert is_done(move(access, UNLIMITED))


@pytest.mark.night(area="rights")
def test_throttled_moves_need_configs(guarded: Guarded) -> None:
    """With the rights for throttles replicas move with one."""
    access = guarded.grant(MOVING | THROTTLING)
    own_for_move(guarded)
    assert is_done(move(access, THROTTLE))


@pytest.mark.night(area="rights")
@pytest.mark.parametrize("missing", sorted(THROTTLING))
def test_a_throttle_without_a_right_moves_nothing(guarded: Guarded, missing: Right) -> None:
    """The plan refuses the move and names the right; no replica moves, and no throttle is set."""
    # AlterConfigs implies DescribeConfigs, on the same resource.
    implied = {Right("AlterConfigs", "Cluster")} if missing == Right("DescribeConfigs", "Cluster") else set()
    access = guarded.grant((MOVING | THROTTLING) - {missing} - implied)
    own_for_move(guarded)
    refused = move(access, THROTTLE)
    assert isinstance(refused, Issue)
    assert f"{missing.operation} on the {missing.resource.lower()}" in refused.message
    topic = guarded.clients.describe(["t"])["t"]
    assert topic
    assert topic.replicas == ((1, 3), (3, 2))
