"""Approvals: the part of a plan that the operator may apply, and the required settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from support import states
from support.kubernetes import resource_bodies
from topiarist.adapters.memory import MemoryCluster
from topiarist.desired.shared_specs import merge
from topiarist.errors import Reason
from topiarist.kubernetes.api.resources import FINALIZER, Resource
from topiarist.kubernetes.approval import (
    HINT_ALLOW_RISK,
    RECREATE,
    TAKE_OWNERSHIP,
    filter_unapproved,
    has_consented_changes,
    ownership_digest,
    recreation_digest,
)
from topiarist.kubernetes.reconciler import TopicResult, reconcile_cluster
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    DeleteTopic,
    Issue,
    Nudge,
    Plan,
    RiskAssessment,
    TopicPlan,
)
from topiarist.model.run_options import Risk, RunOptions
from topiarist.model.state import ClusterState, OperatorMemory, OwnershipRecord, TopicState
from topiarist.planning.planner import make_plan
from unit.kubernetes.reconcile_requests import make_request
from unit.kubernetes.topic_results import spec_of

OWNER = "k8s/shop/topiarist"
LONG, SHORT = "604800000", "3600000"


def notes(**annotations: str) -> dict[str, Any]:
    """Return annotations of topiarist."""
    return {"annotations": {f"topiarist.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}}


def left(home: Resource, topic: Resource, found: TopicState, held: dict[str, str] | None = None) -> Plan:
    """Return the approved part of the plan for a Topic."""
    assert topic.manifest is not None
    spec = spec_of(home)
    plan = make_plan(states.cluster(found), spec, [merge(topic.manifest, spec)], RunOptions(owner=OWNER))
    return filter_unapproved(plan, spec, {"orders": topic}, held or {})


def ours(partitions: int = 3, **config: str) -> TopicState:
    """Return a topic that the operator owns."""
    named = {key.replace("_", "."): text for key, text in config.items()}
    return states.topic("orders", partitions, config=named, managed_keys=sorted(named), owner=OWNER)


RISKS: Sequence[list[str]] = ([], ["Disruptive"], ["DataLoss"], ["Disruptive", "DataLoss"])


def digest_of(finding: Issue) -> str:
    """Return the digest in the command of a refusal."""
    (found,) = re.findall(r"sha256:[0-9a-f]{16}", finding.hint)
    return str(found)


def asking(word: str = "", **config: str) -> Resource:
    """Return a Topic with a short retention and this consent; the same Topic each time."""
    wanted = {"retention.ms": SHORT, **{key.replace("_", "."): text for key, text in config.items()}}
    return resource_bodies.topic("orders", config=wanted, meta={"uid": "u", **notes(allow_risk=word)})


def refused_digest(found: TopicState, **config: str) -> str:
    """Return the digest that the operator requires for this change."""
    (refusal,) = left(resource_bodies.cluster(), asking(**config), found).topics[0].refusals
    return digest_of(refusal)


@pytest.mark.parametrize("allowed", RISKS)
@pytest.mark.parametrize("word", ["", "true", "DataLoss", "sha256:0123456789abcdef", "exactly", "among"])
def test_data_loss_needs_both_words(allowed: list[str], word: str) -> None:
    """Data loss needs the Cluster's allowRisk and the Topic's annotation with the digest of this change; the refusal
    names each missing one.
    """
    found = ours(retention_ms=LONG)
    digest = refused_digest(found)
    consents = word in ("exactly", "among")
    text = {"exactly": digest, "among": f"sha256:0123456789abcdef, {digest}"}.get(word, word)
    plan = left(resource_bodies.cluster(allowRisk=allowed), asking(text), found)
    assert plan.has_changes is (consents and "DataLoss" in allowed)
    assert plan.has_refusals is not plan.has_changes
    if plan.has_refusals:
        (refusal,) = plan.topics[0].refusals
        assert (refusal.reason, refusal.message) == (
            Reason.DATA_LOSS,
            "may lose data: retention.ms: messages older than 1 hour will be deleted",
        )
        command = (
            "kubectl annotate --overwrite --namespace=shop topics.topiarist.dev orders "
            f"topiarist.dev/allow-risk={digest}"
        )
        missing = [*([] if "DataLoss" in allowed else [HINT_ALLOW_RISK]), *([] if consents else [command])]
        assert refusal.hint == f"to allow exactly this: {', and '.join(missing)}"


def test_a_consent_to_one_change_counts_for_no_other() -> None:
    """A consent counts for no other values, keys, recreated topic, reason, Topic or cluster."""
    found = ours(retention_ms=LONG)
    digest, home = refused_digest(found), resource_bodies.cluster(allowRisk=["DataLoss"])
    assert left(home, asking(digest), found).has_changes
    compacted = states.topic(
        "orders", config={"retention.ms": LONG, "cleanup.policy": "delete"}, managed_keys=(), owner=OWNER
    )
    for topic, there in (
        (asking(digest, retention_ms="60000"), found),
        (asking(digest), ours(retention_ms="1209600000")),
        (asking(digest, cleanup_policy="compact"), compacted),
        (asking(digest), replace(found, identity=f"{found.identity}1")),
        (resource_bodies.topic("orders", config={"retention.ms": SHORT}, meta=notes(allow_risk=digest)), found),
    ):
        assert not left(home, topic, there).has_changes, topic
    other = resource_bodies.cluster("other", allowRisk=["DataLoss"])
    assert not left(other, asking(digest), found).has_changes
    record = replace(owned, memory=OperatorMemory("sha256:0")) if (owned := found.record) else None
    assert not left(home, asking(digest), replace(found, record=record)).has_changes
    forged = resource_bodies.updated_body(
        asking(digest), status={"clusters": [{"name": "prod", "consent": "sha256:0"}]}
    )
    assert left(home, forged, found).has_changes


def test_every_reason_is_told() -> None:
    """The refusal lists the reason of each key that may lose data, and no other key."""
    there = ours(retention_ms=LONG, cleanup_policy="delete", segment_ms="7")
    topic = asking(cleanup_policy="compact", segment_ms="8")
    (found,) = left(resource_bodies.cluster(), topic, there).topics
    (refusal,) = found.refusals
    assert refusal.message == (
        "may lose data: cleanup.policy: all but the newest message of each key will be deleted; "
        "retention.ms: messages older than 1 hour will be deleted"
    )


@pytest.mark.parametrize("allowed", RISKS)
def test_what_disturbs_needs_the_clusters_word(allowed: list[str]) -> None:
    """A disruptive change needs the Cluster's allowRisk, which permits it by default and whenever it permits more."""
    topic = resource_bodies.topic("orders", partitions=6)
    plan = left(resource_bodies.cluster(allowRisk=allowed), topic, ours())
    assert plan.has_changes is bool(allowed)
    assert [found.reason for found in plan.topics[0].refusals] == ([] if allowed else [Reason.DISRUPTIVE])
    assert left(resource_bodies.cluster(), topic, ours()).has_changes


def test_what_is_safe_needs_nobody() -> None:
    """A safe change needs no approval, even if the Cluster permits no risk."""
    topic = resource_bodies.topic("orders", config={"preallocate": False})
    assert left(resource_bodies.cluster(allowRisk=[]), topic, ours()).has_changes


def test_one_part_that_may_lose_data_holds_back_only_itself() -> None:
    """The approval filter withholds only the part of a topic that may lose data; the rest is applied."""
    topic = resource_bodies.topic("orders", partitions=6, config={"retention.ms": SHORT})
    (found,) = left(resource_bodies.cluster(), topic, ours(retention_ms=LONG)).topics
    assert [type(change).__name__ for change in found.changes] == ["AddPartitions"]
    assert [refusal.reason for refusal in found.refusals] == [Reason.DATA_LOSS]


def one_pass(port: MemoryCluster, home: Resource, topic: Resource) -> TopicResult:
    """Run one pass over one Topic, with its digest as read."""
    (view,) = reconcile_cluster(port, make_request(home, topic), lambda: False).topic_results
    return view


def consenting(annotation: str, text: str) -> Resource:
    """Return a Topic with this annotation; the same Topic each time."""
    return resource_bodies.topic("orders", config={"flush.ms": 1}, meta={"uid": "u", **notes(**{annotation: text})})


OWNED = states.cluster(states.topic("orders", owner="somebody", config={"flush.ms": "1"}))
DELETED = states.cluster(dangling_records={"orders": OwnershipRecord(OWNER)})


@pytest.mark.parametrize(
    ("annotation", "there", "other", "reason"),
    [
        (
            TAKE_OWNERSHIP,
            OWNED,
            states.cluster(states.topic("orders", owner="other", config={"flush.ms": "1"})),
            Reason.NOT_OWNED,
        ),
        (
            RECREATE,
            DELETED,
            states.cluster(dangling_records={"orders": OwnershipRecord(OWNER, ("flush.ms",))}),
            Reason.DELETED_EXTERNALLY,
        ),
    ],
)
def test_a_topic_is_taken_or_made_again_by_exact_consent_only(
    annotation: str, there: ClusterState, other: ClusterState, reason: Reason
) -> None:
    """Taking ownership and recreation need an exact consent, which names the reported owner or deletion. The former
    value true is no consent.
    """
    home = resource_bodies.cluster(allowRisk=["DataLoss"])
    refused = one_pass(MemoryCluster(there), home, consenting(annotation, ""))
    (refusal,) = refused.refusals
    digest = digest_of(refusal)
    assert refusal.reason is reason
    assert refusal.hint.endswith(f"orders topiarist.dev/{annotation}={digest}")
    for cluster, text, state, done in (
        (home, "true", there, False),
        (resource_bodies.cluster(), digest, there, False),
        (home, digest, other, False),
        (home, digest, there, True),
    ):
        port = MemoryCluster(state)
        view = one_pass(port, cluster, consenting(annotation, text))
        assert [found.reason for found in view.refusals] == ([] if done else [reason])
        assert bool(port.writes) is done
        assert bool(view.record and view.record.memory.consent) is done


def absent(**meta: Any) -> Resource:
    """Return a Topic with ``ensure: Absent``."""
    return resource_bodies.topic("orders", ensure="Absent", meta=meta)


def test_a_deletion_takes_allow_deletion() -> None:
    """A deletion needs allowDeletion; neither allowRisk nor an annotation replaces it."""
    assert left(resource_bodies.cluster(allowDeletion=True), absent(), ours()).has_changes
    home = resource_bodies.cluster(allowRisk=["DataLoss"])
    (found,) = left(home, absent(**notes(allow_risk="DataLoss")), ours()).topics
    assert not found.changes
    (refusal,) = found.refusals
    assert (refusal.reason, refusal.hint) == (
        Reason.DATA_LOSS,
        "allowDeletion: true in the Cluster allows it",
    )


@pytest.mark.parametrize(("allowed", "held"), [(False, {}), (True, {"orders": "its namespace is being deleted"})])
def test_a_deletion_with_its_resource_that_is_held(allowed: bool, held: dict[str, str]) -> None:
    """A withheld deletion of a resource reports how to delete the resource without its topic."""
    going = absent(deletionTimestamp="2026-02-01T00:00:00Z", finalizers=[FINALIZER])
    (found,) = left(resource_bodies.cluster(allowDeletion=allowed), going, ours(), held).topics
    (refusal,) = found.refusals
    assert refusal.reason is Reason.DELETION_HELD
    assert 'topiarist.dev/retain: "true"' in refusal.hint
    assert not found.changes


MINE, THEIRS = OwnershipRecord(OWNER), OwnershipRecord("somebody")
LOSS = RiskAssessment(Risk.DATA_LOSS, "messages are lost")
THERE = states.topic("orders")


@pytest.mark.parametrize(
    ("fields", "needed"),
    [
        ({"before": THERE, "record_before": MINE, "record_after": MINE}, False),
        ({"before": THERE, "record_before": THEIRS, "record_after": MINE}, True),
        ({"before": THERE, "record_before": None, "record_after": MINE}, False),
        ({"before": THERE, "record_before": MINE, "record_after": None}, False),
        ({"before": None, "record_before": MINE, "record_after": MINE}, True),
        ({"before": None, "record_before": None, "record_after": MINE}, False),
        ({"before": None, "record_before": OwnershipRecord(OWNER, deleted=True), "record_after": MINE}, False),
        ({"before": THERE, "changes": (Nudge((0,), LOSS),)}, True),
        ({"before": THERE, "changes": (Nudge((0,), RiskAssessment(Risk.DISRUPTIVE, "why")),)}, False),
        ({"before": THERE, "changes": (Nudge((0,), SAFE_ASSESSMENT),)}, False),
        ({"before": THERE, "changes": (DeleteTopic(3, 9, LOSS),)}, False),
    ],
)
def test_a_consent_is_used_by_the_change_that_needed_it(fields: dict[str, Any], needed: bool) -> None:
    """Taking ownership from another owner, recreating what another client deleted, and losing data use a consent.

    A topic that the operator deleted itself needs none to be created again, and a deletion has approvals of its own.
    """
    assert has_consented_changes(TopicPlan("orders", **fields)) is needed


@pytest.mark.parametrize("digest", [ownership_digest, recreation_digest])
def test_a_digest_is_of_one_topic_in_one_state(digest: Callable[[Resource, str, OwnershipRecord | None], str]) -> None:
    """A consent counts for one Topic, one cluster, one owner and one use: the digest of any other differs."""
    part = {"name": "prod", "state": "Synced", "consent": "sha256:0123456789abcdef"}
    same = resource_bodies.topic("orders", meta={"uid": "u"})
    used = replace(THEIRS, memory=OperatorMemory("sha256:0123456789abcdef"))
    other_uid, other_name = (
        resource_bodies.topic("orders", meta={"uid": "v"}),
        resource_bodies.topic("orders", topicName="pay", meta={"uid": "u"}),
    )
    found = [
        *(digest(each, "prod", THEIRS) for each in (same, other_uid, other_name)),
        *(digest(same, "prod", record) for record in (used, MINE, None)),
        digest(same, "test", THEIRS),
    ]
    assert len({*found}) == len(found)
    again = resource_bodies.topic("orders", meta={"uid": "u", "labels": {"a": "b"}}, status={"clusters": [part]})
    assert digest(again, "prod", THEIRS) == found[0]
    assert re.fullmatch("sha256:[0-9a-f]{16}", found[0])


def test_a_consent_to_one_size_counts_for_no_other() -> None:
    """The digest has the values of every kind of change, not of configs alone."""
    spec = spec_of(resource_bodies.cluster())
    digests = []
    for added in ((1,), (1, 2)):
        growth = AddPartitions(3, added, ((1, 2, 3),) * len(added), LOSS)
        plan = Plan("prod", "", topics=(TopicPlan("orders", changes=(growth,)),))
        (topic,) = filter_unapproved(plan, spec, {"orders": asking()}, {}).topics
        digests.append(digest_of(topic.refusals[0]))
    assert len({*digests}) == 2
