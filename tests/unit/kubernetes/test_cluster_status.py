"""The statuses of Clusters and Policies: Topic counts by state, deletions of the last day, and errors."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from support import builders
from support.kubernetes import resource_bodies
from support.kubernetes.passes import make_result
from support.kubernetes.schemas import validate_status
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes.approval import Deletion
from topiarist.kubernetes.moves import ClusterMoves
from topiarist.kubernetes.reconciler import ReconcileResult, SyncState, TopicResult
from topiarist.kubernetes.resources import Resource, parse_resource
from topiarist.kubernetes.status_writer import cluster_status, policy_status
from topiarist.model.moves import ReplicaMove
from topiarist.model.plan import Issue
from topiarist.model.state import WriteBlock

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
AWAY = TopiaristError(Reason.UNREACHABLE, "no answer")


def checked(status: Mapping[str, Any], kind: str) -> Mapping[str, Any]:
    """Return the status after validation against its schema."""
    validate_status(kind, status)
    return status


def summary(home: Resource, seen: ReconcileResult, now: datetime = NOON) -> Mapping[str, Any]:
    """Return a Cluster's status after a pass."""
    return checked(cluster_status(home, seen, now), "cluster")


def told(status: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the values of Ready, Reconciling and Stalled, and the reason of Ready."""
    found = {each["type"]: each for each in status["conditions"]}
    return (*(found[name]["status"] for name in ("Ready", "Reconciling", "Stalled")), found["Ready"]["reason"])


def views(*states_: SyncState) -> list[TopicResult]:
    """Return one topic result for each of these states."""
    return [make_result(resource_bodies.topic(f"t{number}"), state) for number, state in enumerate(states_)]


def test_topics_are_counted() -> None:
    """A Cluster's status counts Topics of all states; topics without a pending change are ready."""
    status = summary(resource_bodies.cluster(), ReconcileResult(views(*SyncState, SyncState.SYNCED), builders.state()))
    assert status["topics"] == {"total": len(SyncState) + 1, "ready": 4, "drifted": 1, "refused": 1}
    assert (status["clusterId"], status["brokers"]) == (builders.CLUSTER_ID, 6)
    assert told(status) == ("True", "False", "False", "Reachable")
    (drift,) = [each for each in status["conditions"] if each["type"] == "DriftDetected"]
    assert drift["status"] == "True"
    assert status["conditions"][0]["message"] == "topics: 10 total, 4 ready, 1 drifted, 1 refused"
    assert drift["message"] == "1 topic changed on the cluster"
    none = summary(resource_bodies.cluster(), ReconcileResult([], builders.state()))
    assert none["conditions"][0]["message"] == "topics: 0 total"


def test_a_paused_cluster_says_so() -> None:
    """A paused Cluster can be used, and says why its Topics do not become ready."""
    home = resource_bodies.cluster(meta={"annotations": {"topiarist.dev/paused": "true"}})
    status = summary(home, ReconcileResult(views(SyncState.PAUSED), builders.state()))
    assert told(status) == ("True", "False", "False", "Reachable")
    words = "topics: 1 total; nothing is written while topiarist.dev/paused is set"
    assert status["conditions"][0]["message"] == words


def test_numbers_of_all_topics_are_in_the_clusters_message() -> None:
    """A budget or limit that holds several topics is named once with its numbers, which no Topic has."""
    issues = (
        Issue(Reason.BUDGET_EXCEEDED, "2 deletions, 1 allowed (deletions)", own_message="the budget is exceeded"),
        Issue(Reason.NOT_OWNED, "another owner has it"),
    )
    held = [view._replace(refusals=issues) for view in views(SyncState.REFUSED, SyncState.REFUSED)]
    status = summary(resource_bodies.cluster(), ReconcileResult(held, builders.state()))
    assert status["conditions"][0]["message"] == "topics: 2 total, 2 refused; 2 deletions, 1 allowed (deletions)"


@pytest.mark.parametrize(
    ("reason", "is_shared"),
    [
        (Reason.BUDGET_EXCEEDED, True),
        (Reason.LIMIT_EXCEEDED, True),
        (Reason.TOO_LARGE, True),
        (Reason.RESOURCE_CONFLICT, False),
    ],
)
def test_only_budgets_and_limits_are_in_the_message_of_a_cluster(reason: Reason, *, is_shared: bool) -> None:
    """Every other refusal is an affair of its own Topic."""
    (view,) = views(SyncState.REFUSED)
    view = view._replace(refusals=(Issue(reason, "the numbers of all", own_message="too much"),))
    status = summary(resource_bodies.cluster(), ReconcileResult([view], builders.state()))
    more = "; the numbers of all" if is_shared else ""
    assert status["conditions"][0]["message"] == f"topics: 1 total, 1 refused{more}"


def test_a_cluster_that_is_not_served_has_the_id_that_another_one_has() -> None:
    """The id says which Kafka cluster both name, also if an earlier status has another id."""
    error = TopiaristError(Reason.CLUSTER_CONFLICT, "another Cluster has it")
    for old in ({}, {"clusterId": "another", "brokers": 6}):
        home = resource_bodies.updated_body(resource_bodies.cluster(), status=old)
        status = summary(home, ReconcileResult([], error=error, cluster_id=builders.CLUSTER_ID))
        assert status["clusterId"] == builders.CLUSTER_ID
        assert status.get("brokers") == old.get("brokers")


def test_an_outage_keeps_the_deletions_of_the_last_day() -> None:
    """They count into the budget; a pass that has read the cluster has its own list."""
    late, early = ({"topic": f"at-{hour}", "time": f"2026-01-30T{hour}:00:00Z"} for hour in (13, 11))
    home = resource_bodies.updated_body(resource_bodies.cluster(), status={"deletions": [early, late]})
    assert summary(home, ReconcileResult([], error=AWAY))["deletions"] == [late]
    assert summary(home, ReconcileResult([], builders.state(), error=AWAY, deletions=[]))["deletions"] == []


def test_a_second_look_at_the_same_changes_nothing() -> None:
    """A second pass with the same result yields the same status, so the operator writes nothing."""
    home, seen = resource_bodies.cluster(), ReconcileResult(views(*SyncState), builders.state())
    first = summary(home, seen)
    assert summary(resource_bodies.updated_body(home, status=first), seen, NOON + timedelta(minutes=1)) == first


def test_the_topic_of_records_is_kept() -> None:
    """The id of the topic of records is in the status if there is one, and stays during an outage."""
    home = resource_bodies.cluster()
    assert "recordsTopicId" not in summary(home, ReconcileResult([], builders.state()))
    first = summary(home, ReconcileResult([], replace(builders.state(), records_topic_id="t")))
    assert (first["recordsTopicId"], first["clusterId"], first["brokers"]) == ("t", builders.CLUSTER_ID, 6)
    lost = TopiaristError(Reason.RECORDS_LOST, "another id")
    second = summary(resource_bodies.updated_body(home, status=first), ReconcileResult([], error=lost))
    assert second["recordsTopicId"] == "t"
    assert told(second) == ("False", "False", "True", "RecordsLost")


def test_an_outage_keeps_what_was_known() -> None:
    """An outage keeps the counts, the id and the brokers, and the conditions report that the cluster is unreachable."""
    home = resource_bodies.cluster()
    first = summary(home, ReconcileResult(views(SyncState.SYNCED), builders.state()))
    status = summary(resource_bodies.updated_body(home, status=first), ReconcileResult([], error=AWAY))
    assert {key: status[key] for key in ("topics", "clusterId", "brokers")} == {
        key: first[key] for key in ("topics", "clusterId", "brokers")
    }
    assert told(status) == ("False", "True", "False", "Unreachable")
    fresh = summary(home, ReconcileResult([], error=AWAY))
    assert fresh["topics"] == {"total": 0, "ready": 0, "drifted": 0, "refused": 0}
    assert "clusterId" not in fresh


@pytest.mark.parametrize(
    ("reason", "wanted"),
    [
        (Reason.WRONG_CLUSTER, ("False", "False", "True", "WrongCluster")),
        (Reason.CREDENTIALS_INVALID, ("False", "False", "True", "CredentialsInvalid")),
        (Reason.SESSION_LOST, ("False", "True", "False", "SessionLost")),
    ],
)
def test_errors_that_pass_and_errors_that_stay(reason: Reason, wanted: tuple[str, ...]) -> None:
    """A transient error sets Reconciling; an error that needs action by a user sets Stalled."""
    assert told(summary(resource_bodies.cluster(), ReconcileResult([], error=TopiaristError(reason, "why")))) == wanted


@pytest.mark.parametrize(("reason", "stalled"), [(Reason.FROZEN, "True"), (Reason.NO_CONTROLLER, "False")])
def test_a_cluster_that_must_not_be_written_to(reason: Reason, stalled: str) -> None:
    """A Cluster with a write block is not ready, and its reason is the reason of the block."""
    status = summary(
        resource_bodies.cluster(), ReconcileResult([], builders.state(write_block=WriteBlock(reason, "why")))
    )
    assert told(status) == ("False", "False", stalled, reason.value)


def test_a_cluster_that_cannot_be_read_names_what_is_wrong() -> None:
    """An invalid Cluster is stalled, and its message has each error with its path."""
    wrong = parse_resource(resource_bodies.body("Cluster", "prod", {"kafkaVersion": "never"}))
    error = TopiaristError(Reason.INVALID_MANIFEST, "the Cluster cannot be read")
    status = summary(wrong, ReconcileResult([], error=error))
    assert told(status) == ("False", "False", "True", "InvalidManifest")
    assert "spec.kafkaVersion: " in status["conditions"][0]["message"]


def test_deletions_are_listed_by_topic_and_time() -> None:
    """The status lists deletions by topic and time, and keeps the latest 1,000 if the budget allows more."""
    found = [Deletion(f"2026-01-31T11:{number // 60:02}:{number % 60:02}Z", f"t{number}") for number in range(1001)]
    status = checked(
        cluster_status(resource_bodies.cluster(), ReconcileResult([], builders.state(), deletions=found), NOON),
        "cluster",
    )
    assert len(status["deletions"]) == 1000
    assert status["deletions"][0] == {"topic": "t1", "time": "2026-01-31T11:00:01Z"}
    assert status["deletions"][-1] == {"topic": "t1000", "time": "2026-01-31T11:16:40Z"}


def test_a_policy_says_whether_it_judges() -> None:
    """A Policy is ready, or stalled with the errors of its rules. The same result yields the same status."""
    policy = resource_bodies.policy("law", {"expression": "true"}, meta={"generation": 3})
    status = checked(policy_status(policy, [], NOON), "policy")
    assert told(status) == ("True", "False", "False", "Active")
    assert status["observedGeneration"] == 3
    assert policy_status(resource_bodies.updated_body(policy, status=status), [], NOON + timedelta(1)) == status
    faulty = checked(policy_status(policy, ["policy law, rule r0: one", "two"], NOON), "policy")
    assert told(faulty) == ("False", "False", "True", "InvalidRule")
    assert faulty["conditions"][0]["message"] == "policy law, rule r0: one\ntwo"


def test_a_policy_that_cannot_be_read_says_where() -> None:
    """An invalid Policy is stalled, and its message has the path of the error, as for a Topic."""
    broken = parse_resource(resource_bodies.body("Policy", "law", {"rules": []}))
    status = checked(policy_status(broken, [], NOON), "policy")
    assert told(status) == ("False", "False", "True", "InvalidManifest")
    assert "spec.rules" in status["conditions"][0]["message"]


def test_topics_without_a_topic_are_counted() -> None:
    """The status and the message have their number, and no field without any."""
    home = resource_bodies.cluster()
    status = checked(cluster_status(home, ReconcileResult([], builders.state(), undeclared=2), NOON), "cluster")
    assert status["topics"]["undeclared"] == 2
    assert status["conditions"][0]["message"] == "topics: 0 total, 2 undeclared"
    assert "undeclared" not in summary(home, ReconcileResult([], builders.state()))["topics"]


def test_a_namespace_that_is_away_is_told() -> None:
    """Each Cluster reports an unavailable namespace in a condition of its own, which does not affect Ready."""
    home, seen = resource_bodies.cluster(), ReconcileResult([], builders.state())
    gone = {"NamespaceAway": "team-a: may not list topics; team-b: there is no such namespace"}
    status = checked(cluster_status(home, seen, NOON, gone), "cluster")
    (found,) = (each for each in status["conditions"] if each["type"] == "NamespaceAway")
    assert (found["status"], found["reason"]) == ("True", "NamespaceAway")
    assert found["message"] == "team-a: may not list topics; team-b: there is no such namespace"
    assert told(status) == told(summary(home, seen))
    later = resource_bodies.updated_body(home, status=status)
    assert cluster_status(later, seen, NOON + timedelta(hours=1), gone) == status
    assert len(summary(later, seen)["conditions"]) == 4


MOVES = tuple(ReplicaMove("orders", number, (number, 1), (number + 1, 1)) for number in range(2, 6))


def moves_of(moves: ClusterMoves, old: Mapping[str, Any] = {}) -> Mapping[str, Any]:
    """Return a Cluster's status after a pass with these moves; ``old`` is the previous status."""
    home = resource_bodies.updated_body(resource_bodies.cluster(), status=old)
    return summary(home, ReconcileResult([], builders.state(), moves=moves))


@pytest.mark.parametrize(
    ("moves", "wanted", "message"),
    [
        (ClusterMoves(MOVES[:1]), {"partitionsLeft": 1, "copiesLeft": 1}, "1 partition left"),
        (
            ClusterMoves(MOVES[:3], waiting_for="a reassignment"),
            {"partitionsLeft": 3, "copiesLeft": 3},
            "3 partitions left; waiting for: a reassignment",
        ),
        (
            ClusterMoves(MOVES[:3], MOVES[3:], 2, 3, sent_at_ms=1_769_860_800_250),
            {
                **{"batch": 2, "batches": 3, "partitionsLeft": 4, "partitionsInFlight": 1},
                **{"copiesLeft": 4, "copyingBrokers": [6], "since": "2026-01-31T12:00:00Z"},
            },
            "4 partitions left, 1 of them in batch 2 of 3",
        ),
        (
            ClusterMoves((), MOVES[3:], 3, 3, problem=Issue(Reason.MOVES_STALLED, "no progress", hint="wait")),
            {
                **{"batch": 3, "batches": 3, "partitionsLeft": 1, "partitionsInFlight": 1},
                **{"copiesLeft": 1, "copyingBrokers": [6], "reason": "MovesStalled"},
            },
            "1 partition left, 1 of them in batch 3 of 3; no progress: wait",
        ),
        (ClusterMoves(throttle_left=True), {}, "throttles of the last batch are still set"),
        (
            ClusterMoves(problem=Issue(Reason.STUCK_REASSIGNMENT, "stuck"), waiting_for="another"),
            {"reason": "StuckReassignment"},
            "stuck",
        ),
    ],
)
def test_moves_that_are_left_are_in_the_status(moves: ClusterMoves, wanted: Mapping[str, Any], message: str) -> None:
    """A batch has its number while it is in flight; the condition ``Moving`` has the text and the reason."""
    status, none = moves_of(moves), {"partitionsLeft": 0, "partitionsInFlight": 0, "copiesLeft": 0}
    assert status["moves"] == {**none, "copyingBrokers": [], "reason": "Moving", **wanted, "message": message}
    (condition,) = (each for each in status["conditions"] if each["type"] == "Moving")
    reason = wanted.get("reason", "Moving")
    assert (condition["status"], condition["reason"], condition["message"]) == ("True", reason, message)
    assert "draining" not in status


def test_moves_that_are_done_are_in_no_status() -> None:
    """The condition stays, as False, so that users can wait for it; an outage keeps the moves that were known."""
    before = moves_of(ClusterMoves(MOVES, draining={6: 2}))
    after = moves_of(ClusterMoves(), before)
    assert {"moves", "draining", "drainingLeft"}.isdisjoint(after)
    assert [each["status"] for each in after["conditions"] if each["type"] == "Moving"] == ["False"]
    home = resource_bodies.updated_body(resource_bodies.cluster(), status=before)
    away = summary(home, ReconcileResult([], error=AWAY))
    for name in ("moves", "draining", "drainingLeft"):
        assert away[name] == before[name]
    assert [each["status"] for each in away["conditions"] if each["type"] == "Moving"] == ["True"]


def test_drained_brokers_have_their_replicas() -> None:
    """Each broker to be drained has its number of replicas, and all of them one text for ``kubectl get``."""
    status = moves_of(ClusterMoves(draining={5: 1200, 6: 0}))
    assert status["draining"] == [{"broker": 5, "replicas": 1200}, {"broker": 6, "replicas": 0}]
    assert status["drainingLeft"] == "1,200 left"
    assert moves_of(ClusterMoves(draining={5: 0}))["drainingLeft"] == "done"
    assert "moves" not in status


def test_lists_of_brokers_have_a_limit() -> None:
    """A status of a thousand brokers and more must fit into etcd."""
    moves = tuple(ReplicaMove("orders", number, (1,), (number + 2,)) for number in range(1001))
    status = moves_of(ClusterMoves((), moves, 1, 1, draining=dict.fromkeys(range(1001), 1)))
    assert (len(status["moves"]["copyingBrokers"]), len(status["draining"])) == (1000, 1000)
    assert status["drainingLeft"] == "1,001 left"
