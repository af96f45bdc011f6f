"""Approvals: the part of a plan that the operator may apply, and the required settings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from support import builders
from support.kubernetes import resource_bodies
from support.kubernetes.passes import (
    DELETING_META,
    make_request,
    owned_topic,
    reconcile_topics,
    refusal_reasons,
    spec_of,
    with_approval,
)
from support.memory_cluster import MemoryCluster
from support.plans import DATA_LOSS_RISK
from topiarist.desired.shared_specs import merge
from topiarist.errors import Reason, TopiaristError
from topiarist.kubernetes import approval, client
from topiarist.kubernetes.approval import (
    HINT_ALLOW_RISK,
    MESSAGE_NO_MEMORY,
    RECREATE,
    TAKE_OWNERSHIP,
    annotation_errors,
    check_current_topic,
    current_consents_digest,
    describe_issue,
    filter_unapproved,
    find_next_step,
    has_consented_changes,
    is_paused,
    step_time,
    withhold_early_steps,
    write_memory,
)
from topiarist.kubernetes.reconciler import SyncState, TopicResult, reconcile_cluster
from topiarist.kubernetes.resources import FINALIZER, Resource, parse_resource
from topiarist.kubernetes.status_writer import annotation_events, policy_status
from topiarist.kubernetes.topic_status import topic_status
from topiarist.model.outcome import Result
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    Change,
    ConfigItem,
    DeleteTopic,
    Issue,
    Nudge,
    Plan,
    Risk,
    RiskAssessment,
    RunOptions,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.spec import RetentionStep
from topiarist.model.state import NO_MEMORY, ClusterState, OperatorMemory, OwnershipRecord, TopicState, WriteBlock
from topiarist.planning.planner import make_plan

OWNER = "k8s/shop/topiarist"
LONG, SHORT = "604800000", "3600000"


def notes(**annotations: str) -> dict[str, Any]:
    """Return annotations of topiarist."""
    return {"annotations": {f"topiarist.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}}


def left(home: Resource, topic: Resource, found: TopicState, held: dict[str, str] | None = None) -> Plan:
    """Return the approved part of the plan for a Topic."""
    assert topic.manifest is not None
    spec = spec_of(home)
    plan = make_plan(builders.state(found), spec, [merge(topic.manifest, spec)], RunOptions(owner=OWNER))
    return filter_unapproved(plan, spec, {"orders": topic}, held or {})


def ours(partitions: int = 3, **config: str) -> TopicState:
    """Return a topic that the operator owns."""
    named = {key.replace("_", "."): text for key, text in config.items()}
    return builders.topic("orders", partitions, *sorted(named), config=named, owner=OWNER)


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
    compacted = builders.topic("orders", config={"retention.ms": LONG, "cleanup.policy": "delete"}, owner=OWNER)
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
    hint = "to allow this, set allowRisk: [Disruptive] in the Cluster"
    refused = [] if allowed else [(Reason.DISRUPTIVE, hint)]
    assert [(found.reason, found.hint) for found in plan.topics[0].refusals] == refused
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


OWNED = builders.state(builders.topic("orders", 3, owner="somebody", config={"flush.ms": "1"}))
DELETED = builders.state(dangling_records={"orders": OwnershipRecord(OWNER)})


@pytest.mark.parametrize(
    ("annotation", "there", "other", "reason"),
    [
        (
            TAKE_OWNERSHIP,
            OWNED,
            builders.state(builders.topic("orders", 3, owner="other", config={"flush.ms": "1"})),
            Reason.NOT_OWNED,
        ),
        (
            RECREATE,
            DELETED,
            builders.state(dangling_records={"orders": OwnershipRecord(OWNER, ("flush.ms",))}),
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
    assert (refusal.reason, refusal.hint) == (Reason.DATA_LOSS, "allowDeletion: true in the Cluster allows it")


@pytest.mark.parametrize(("allowed", "held"), [(False, {}), (True, {"orders": "its namespace is being deleted"})])
def test_a_deletion_with_its_resource_that_is_held(allowed: bool, held: dict[str, str]) -> None:
    """A withheld deletion of a resource reports how to delete the resource without its topic."""
    going = absent(deletionTimestamp="2026-02-01T00:00:00Z", finalizers=[FINALIZER])
    (found,) = left(resource_bodies.cluster(allowDeletion=allowed), going, ours(), held).topics
    (refusal,) = found.refusals
    assert refusal.reason is Reason.DELETION_HELD
    assert 'topiarist.dev/retain: "true"' in refusal.hint
    assert not found.changes


def test_without_records_nothing_is_lost() -> None:
    """Used consents and the deletions of a day are in the records: without them no deletion and no loss is made."""
    access = {"bootstrapServers": "b1:9092", "records": "None"}
    home = resource_bodies.cluster(via="Kafka", kafka=access, allowDeletion=True, allowRisk=["DataLoss", "Disruptive"])
    found = replace(ours(retention_ms=LONG), record=None, record_valid=False)
    digest = refused_digest(ours(retention_ms=LONG))
    for topic, reason in (
        (absent(), Reason.DATA_LOSS),
        (absent(deletionTimestamp="2026-02-01T00:00:00Z", finalizers=[FINALIZER]), Reason.DELETION_HELD),
        (asking(digest), Reason.DATA_LOSS),
    ):
        (plan,) = left(home, topic, found).topics
        (refusal,) = plan.refusals
        assert (plan.changes, refusal.reason, refusal.message) == ((), reason, MESSAGE_NO_MEMORY)
        assert refusal.hint.startswith("make this change on the command line")
    longer = resource_bodies.topic("orders", config={"retention.ms": "1209600000"})
    assert left(home, longer, found).has_changes


MINE, THEIRS = OwnershipRecord(OWNER), OwnershipRecord("somebody")
LOSS = RiskAssessment(Risk.DATA_LOSS, "messages are lost")
THERE = builders.topic("orders")


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


@pytest.mark.parametrize("annotation", [approval.TAKE_OWNERSHIP, approval.RECREATE])
def test_a_digest_is_of_one_topic_in_one_state(annotation: str) -> None:
    """A consent counts for one Topic, one cluster, one owner and one use: the digest of any other differs."""
    digest = partial(approval.consent_digest, annotation)
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


# Invalid annotations: the operator reports them, and withholds every action that they may have been meant to prevent.

SOME_DIGEST = "sha256:0123456789abcdef"


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("topiarist.dev/paused", "true", ""),
        ("topiarist.dev/paused", "false", ""),
        ("topiarist.dev/retain", "true", ""),
        ("topiarist.dev/allow-risk", SOME_DIGEST, ""),
        ("topiarist.dev/recreate", f"{SOME_DIGEST},{SOME_DIGEST}", ""),
        ("topiarist.dev/from-defaults", "retention.ms", ""),
        ("topiarist.dev/from-profiles", "retention.ms", ""),
        ("topiarist.dev/from-broker-config", "retention.ms", ""),
        ("example.com/paused", "True", ""),
        ("topiarist.io/other", "True", ""),
        ("kubectl.kubernetes.io/last-applied-configuration", '{"apiVersion": "topiarist.dev/v1"}', ""),
        (
            "topiarist.dev/paused",
            "True",
            'topiarist.dev/paused: found "True", wanted "true" or "false": it counts as a pause',
        ),
        ("topiarist.dev/paused", "", 'topiarist.dev/paused: found "", wanted "true" or "false": it counts as a pause'),
        ("topiarist.dev/retain", "yes", 'topiarist.dev/retain: found "yes", wanted "true" or "false"'),
        ("topiarist.dev/pasued", "true", "topiarist.dev/pasued is not known on a Topic: did you mean paused?"),
        ("topiarist.dev/x", "true", "topiarist.dev/x is not known on a Topic"),
        ("topiarist.io/paused", "true", "topiarist.io/paused is not known: did you mean topiarist.dev/paused?"),
        (
            "topiarist.dev/allow-risk",
            "DataLoss",
            'topiarist.dev/allow-risk: found "DataLoss", which allows nothing: wanted the digest in the refusal',
        ),
        (
            "topiarist.dev/take-ownership",
            "true",
            'topiarist.dev/take-ownership: found "true", which allows nothing: wanted the digest in the refusal',
        ),
    ],
)
def test_what_is_wrong_with_an_annotation(key: str, value: str, problem: str) -> None:
    """The operator reports the actual and the valid values of an invalid annotation, and ignores annotations of other
    programs.
    """
    topic = resource_bodies.topic("orders", meta={"annotations": {key: value}})
    assert annotation_errors(topic) == ([problem] if problem else [])
    beside = {"topiarist.dev/retain": "false", "example.com/paused": "never", "example.com/retian": "", key: value}
    topic = resource_bodies.topic("orders", meta={"annotations": beside})
    assert annotation_errors(topic) == ([problem] if problem else [])


def test_each_kind_has_its_own() -> None:
    """A consent on a Cluster or a pause on a Policy has no effect, and the operator reports it."""
    risk = {"annotations": {"topiarist.dev/allow-risk": SOME_DIGEST}}
    paused = {"annotations": {"topiarist.dev/paused": "true"}}
    assert annotation_errors(resource_bodies.cluster(meta=risk)) == [
        "topiarist.dev/allow-risk is not known on a Cluster"
    ]
    assert annotation_errors(resource_bodies.cluster(meta=paused)) == []
    policy = resource_bodies.policy("law", meta=paused)
    status = policy_status(policy, (), client.utc_now())
    assert status["annotations"] == ["topiarist.dev/paused is not known on a Policy"]
    assert [event.reason for event in annotation_events(policy, status)] == ["InvalidAnnotation"]


@pytest.mark.parametrize(
    ("value", "paused"), [("true", True), ("True", True), ("yes", True), ("1", True), ("", True), ("false", False)]
)
def test_a_pause_that_is_mistyped_pauses(value: str, paused: bool) -> None:
    """An invalid pause of a Topic or a Cluster counts as a pause, so the operator writes nothing."""
    note = {"annotations": {"topiarist.dev/paused": value}}
    for home, topic in (
        (resource_bodies.cluster(), resource_bodies.topic("orders", meta=note)),
        (resource_bodies.cluster(meta=note), resource_bodies.topic("orders")),
    ):
        port = MemoryCluster(builders.state())
        found = reconcile_topics(port, make_request(home, topic))["orders"]
        assert (found.state is SyncState.PAUSED) is paused
        assert bool(port.writes) is not paused
    assert is_paused(resource_bodies.topic("orders", meta=note)) is paused


@pytest.mark.parametrize("note", ["topiarist.dev/retain", "topiarist.dev/retian"])
def test_what_is_not_understood_holds_a_deletion(note: str) -> None:
    """An invalid annotation withholds a deletion, because it may be an attempt to keep the topic."""
    going = resource_bodies.topic(
        "orders", deletionPolicy="Delete", meta={**DELETING_META, "annotations": {note: "True", "topiarist.dev/zz": ""}}
    )
    port = MemoryCluster(builders.state(owned_topic("orders")))
    (refusal,) = reconcile_topics(port, make_request(resource_bodies.cluster(allowDeletion=True), going))[
        "orders"
    ].refusals
    assert refusal.reason is Reason.DELETION_HELD
    assert note in refusal.message
    assert refusal.hint == "correct or remove the annotation"
    assert [*port.state.topics] == ["orders"]


def test_what_is_said_is_bounded() -> None:
    """At most ten invalid annotations are reported, for any number of annotations."""
    topic = resource_bodies.topic(
        "orders", meta={"annotations": {f"topiarist.dev/x{number}": "" for number in range(50)}}
    )
    assert len(annotation_errors(topic)) == 10


# Waits of the operator between two steps of a cut of retention, also after a restart.

START = datetime(2026, 2, 1, 12, tzinfo=UTC)
CLUSTER = resource_bodies.cluster(retentionStep={"share": "50%", "interval": "1h"}, allowRisk=["DataLoss"])


STEP = TopicPlan(
    "orders",
    changes=(UpdateConfig((ConfigItem("retention.ms", "8000", "4000", SAFE_ASSESSMENT),)),),
    notices=(Issue(Reason.NOT_SENT, "another"), Issue(Reason.RETENTION_STEP, "2 more")),
)
"""The plan of a step that is not the last."""


class Passes:
    """Passes of operators that are restarted between any two; ``keeps_status`` says whether statuses can be written."""

    keeps_status = True

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cluster: Resource = CLUSTER, **config: Any) -> None:
        self.cluster = cluster
        self.port = MemoryCluster(builders.state(owned_topic("orders", retention_ms="8000")))
        self.topic = resource_bodies.topic("orders", config={"retention.ms": 1000, **config})
        self.now = START
        monkeypatch.setattr(client, "utc_now", lambda: self.now)

    def run(self, after: timedelta = timedelta(), *, allow: bool = True) -> TopicResult:
        """Run a pass some time after the last one, and keep its status; the owner of the topic allows what is asked."""
        self.now += after
        view = reconcile_topics(self.port, make_request(self.cluster, self.topic))["orders"]
        if allow and Reason.DATA_LOSS in refusal_reasons(view):
            self.topic = with_approval(self.cluster, self.topic, self.port.read())
        view = reconcile_topics(self.port, make_request(self.cluster, self.topic))["orders"]
        found = topic_status(self.topic, {"prod": view}, {}, client.format_time(self.now), ["prod"])
        if self.keeps_status:
            self.topic = resource_bodies.updated_body(self.topic, status=found)
        return view

    @property
    def stored(self) -> str:
        """The retention on the cluster."""
        return self.port.read().topics["orders"].config["retention.ms"]

    @property
    def step_at(self) -> str:
        """The time of the last step in the status; empty without one."""
        return str(self.topic.status_on("prod").get("retentionStepAt", ""))


def test_the_operator_waits_between_two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic with steps left is Waiting; the time of a step survives a restart, and goes with the last step."""
    passes = Passes(monkeypatch)
    view = passes.run()
    assert (passes.stored, view.state, refusal_reasons(view)) == ("4000", SyncState.WAITING, [Reason.RETENTION_WAITS])
    assert passes.step_at == "2026-02-01T12:00:00Z"
    view = passes.run(timedelta(minutes=59))
    assert (passes.stored, view.state) == ("4000", SyncState.WAITING)
    assert view.refusals[0].message == "retention.ms: the next step follows after 2026-02-01T13:00:00Z"
    assert passes.step_at == "2026-02-01T12:00:00Z"
    passes.run(timedelta(minutes=1))
    assert (passes.stored, passes.step_at) == ("2000", "2026-02-01T13:00:00Z")
    assert passes.run(timedelta(minutes=10)).state is SyncState.WAITING  # the last step waits too
    assert passes.stored == "2000"
    view = passes.run(timedelta(minutes=50))
    assert (passes.stored, view.state, passes.step_at) == ("1000", SyncState.SYNCED, "")


def test_a_wait_needs_no_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """While no status can be written, the operator waits between two steps all the same, also after a restart."""
    passes = Passes(monkeypatch)
    passes.keeps_status = False
    passes.run()
    assert passes.stored == "4000"
    assert refusal_reasons(passes.run(timedelta(minutes=59))) == [Reason.RETENTION_WAITS]
    assert passes.stored == "4000"
    passes.run(timedelta(minutes=1))
    assert passes.stored == "2000"
    passes.topic = resource_bodies.topic("orders", config={"retention.ms": 9000})
    assert passes.run().state is SyncState.SYNCED  # a longer retention saves what is left: it does not wait
    assert (passes.stored, passes.step_at) == ("9000", "")
    passes.topic = resource_bodies.topic("orders", config={"retention.ms": 1000})
    passes.run()
    assert passes.stored == "4500"  # a cut of its own, which follows no step


def test_one_consent_cuts_retention_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The annotation stays, no status can be written, and the value is set back: the same cut needs a new consent."""
    cluster = resource_bodies.cluster(allowRisk=["DataLoss"], driftPolicy="Correct")
    passes = Passes(monkeypatch, cluster)
    passes.keeps_status = False
    assert passes.run().state is SyncState.SYNCED
    assert passes.stored == "1000"
    meta = {"annotations": dict(passes.topic.source.annotations), "uid": passes.topic.uid}
    passes.topic = resource_bodies.topic("orders", config={"retention.ms": 8000}, meta=meta)
    assert passes.run().state is SyncState.SYNCED
    passes.topic = resource_bodies.topic("orders", config={"retention.ms": 1000}, meta=meta)
    assert refusal_reasons(passes.run(allow=False)) == [Reason.DATA_LOSS]
    assert passes.stored == "8000"


def test_other_changes_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another key of the same topic is written while a step waits."""
    passes = Passes(monkeypatch)
    passes.run()
    config = {"retention.ms": 1000, "compression.type": "zstd"}
    passes.topic = resource_bodies.topic("orders", status=passes.topic.status, config=config)
    view = passes.run(timedelta(minutes=1))
    assert passes.port.read().topics["orders"].config == {"retention.ms": "4000", "compression.type": "zstd"}
    assert view.state is SyncState.WAITING
    assert passes.step_at == "2026-02-01T12:00:00Z"


def test_drift_is_told_with_the_differences() -> None:
    """One that no field shows has none to name, and no sign before them."""
    items = (ConfigItem("flush.ms", "9", "7", SAFE_ASSESSMENT),)
    for withheld, words in (((), ""), ((UpdateConfig(items),), ": flush.ms is 9, wanted 7")):
        assert describe_issue(Issue(Reason.DRIFT_DETECTED, "changed", withheld=withheld)) == f"changed{words}"


def test_each_step_needs_its_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refusal has the command for this step; a step that is refused leaves no time behind, and does not wait."""
    passes = Passes(monkeypatch)
    assert refusal_reasons(passes.run(allow=False)) == [Reason.DATA_LOSS]
    assert (passes.stored, passes.step_at) == ("8000", "")
    passes.run()
    assert (passes.stored, passes.step_at) == ("4000", "2026-02-01T12:00:00Z")
    view = passes.run(timedelta(hours=2), allow=False)
    assert (passes.stored, view.state, refusal_reasons(view)) == ("4000", SyncState.REFUSED, [Reason.DATA_LOSS])
    passes.run()
    assert (passes.stored, passes.step_at) == ("2000", "2026-02-01T14:00:00Z")


def test_a_topic_that_is_only_observed_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a Topic is paused nothing of it is written, and it is not Waiting for its next step."""
    passes = Passes(monkeypatch)
    passes.run()
    passes.topic = resource_bodies.updated_body(passes.topic, annotations={"topiarist.dev/paused": "true"})
    view = passes.run(timedelta(minutes=1))
    assert (passes.stored, view.state) == ("4000", SyncState.PAUSED)
    assert Reason.RETENTION_WAITS not in refusal_reasons(view)


RECORDED = OwnershipRecord("o", memory=OperatorMemory(step_ms=1_000_000_000_000))


@pytest.mark.parametrize(
    ("topic", "record", "wanted"),
    [
        (STEP, RECORDED, "2001-09-09T01:46:40Z"),
        (STEP, None, ""),
        (STEP, OwnershipRecord("o"), ""),
        (replace(STEP, notices=()), RECORDED, ""),
        (TopicPlan("orders", refusals=(Issue(Reason.RETENTION_WAITS, "later"),)), RECORDED, "2001-09-09T01:46:40Z"),
        (TopicPlan("orders", refusals=(Issue(Reason.DATA_LOSS, "no"),)), RECORDED, ""),
        (None, RECORDED, ""),
    ],
)
def test_the_time_of_a_step_is_that_of_its_record(
    topic: TopicPlan | None, record: OwnershipRecord | None, wanted: str
) -> None:
    """The status shows the time in the record; without steps left it goes."""
    assert step_time(topic, record) == wanted


def test_without_a_rule_no_step_waits() -> None:
    """A Cluster without ``retentionStep`` makes a cut at once, also soon after a step."""
    cut = TopicPlan("orders", record_before=RECORDED, changes=STEP.changes)
    soon, plan = datetime(2001, 9, 9, 1, 46, 41, tzinfo=UTC), Plan("prod", "id", topics=(cut,))
    assert withhold_early_steps(plan, None, soon) is plan
    withheld = withhold_early_steps(plan, RetentionStep(50, 60_000), soon).topics[0]
    assert [each.reason for each in withheld.refusals] == [Reason.RETENTION_WAITS]


def test_the_next_step_is_the_reason_to_wait() -> None:
    """A topic is not as asked while steps are left, although all of its plan was made."""
    notice = Issue(Reason.RETENTION_STEP, "2 more")
    assert find_next_step(STEP) == notice._replace(reason=Reason.RETENTION_WAITS)
    assert find_next_step(replace(STEP, notices=())) is None
    assert find_next_step(None) is None


# The operator's memory in records: which consents are used up, and when a cut of retention had its last step.

PRESENT = datetime(2026, 2, 1, 12, tzinfo=UTC)
PRESENT_MS = 1_769_947_200_000
PLAIN = resource_bodies.topic("orders")
CONSENT = resource_bodies.topic("orders", meta={"annotations": {"topiarist.dev/allow-risk": "sha256:0123456789abcdef"}})
DIGEST = current_consents_digest(CONSENT)
CUT = UpdateConfig((ConfigItem("retention.ms", "8000", "4000", DATA_LOSS_RISK),))
SAFE_CHANGE = UpdateConfig((ConfigItem("flush.ms", "1", "2", SAFE_ASSESSMENT),))
STEP_NOTICE = Issue(Reason.RETENTION_STEP, "2 more")


def written(
    *changes: Change, memory: OperatorMemory = NO_MEMORY, topic: Any = PLAIN, **fields: Any
) -> OperatorMemory | None:
    """Return the memory in the record that the plan of ``orders`` writes; None if it writes none."""
    before = OwnershipRecord("default", memory=memory)
    seen = replace(builders.topic("orders"), record=before)
    found = TopicPlan("orders", seen, before, before, changes, spec=builders.spec("orders"))
    plan = Plan("prod", "id", topics=(replace(found, **fields),))
    (made,) = write_memory(
        plan, builders.state(seen), {"orders": topic}, {"orders": builders.spec("orders")}, PRESENT
    ).topics
    return made.record_after.memory if made.record_after else None


@pytest.mark.parametrize(
    ("changes", "fields", "memory", "after"),
    [
        ((CUT,), {"notices": (STEP_NOTICE,)}, NO_MEMORY, OperatorMemory("used", PRESENT_MS)),
        ((CUT,), {"notices": (STEP_NOTICE,)}, OperatorMemory("", 5), OperatorMemory("used", PRESENT_MS)),
        ((CUT,), {}, OperatorMemory("", 5), OperatorMemory("used")),
        ((SAFE_CHANGE,), {"notices": (STEP_NOTICE,)}, OperatorMemory("", 5), OperatorMemory("", 5)),
        ((SAFE_CHANGE,), {}, OperatorMemory("", 5), NO_MEMORY),
        ((SAFE_CHANGE,), {}, OperatorMemory("old"), OperatorMemory("old")),
        ((SAFE_CHANGE,), {"record_before": None}, NO_MEMORY, NO_MEMORY),
        ((SAFE_CHANGE,), {"record_after": None}, OperatorMemory("", 5), None),
    ],
)
def test_a_change_writes_what_is_to_be_remembered(
    changes: tuple[Change, ...], fields: dict[str, Any], memory: OperatorMemory, after: OperatorMemory | None
) -> None:
    """A step has its time while others follow, a change with a consent uses it up, and other changes keep both."""
    expected = after._replace(consent=DIGEST) if after and after.consent == "used" else after
    assert written(*changes, memory=memory, topic=CONSENT, **fields) == expected


def test_a_plan_without_changes_writes_nothing() -> None:
    """Notices alone write no record."""
    assert written(memory=OperatorMemory("x", 5), notices=(STEP_NOTICE,)) == OperatorMemory("x", 5)


def used_up(
    record: OwnershipRecord | None, block: WriteBlock = WriteBlock(), topic: Resource = CONSENT, **spec: Any
) -> tuple[TopicPlan, ...]:
    """Return the topics of an empty plan after the consents of ``orders`` were looked at."""
    seen = replace(builders.topic("orders"), record=record, record_valid=record is not None)
    specs = {"orders": builders.spec("orders", **spec)}
    plan = Plan("prod", "id", write_block=block)
    return write_memory(plan, builders.state(seen), {"orders": topic}, specs, PRESENT).topics


def test_a_consent_that_nothing_is_left_for_is_used_up() -> None:
    """The record of a topic that is as asked is written alone, once, and keeps the rest of its memory."""
    record = OwnershipRecord("default", ("flush.ms",), memory=OperatorMemory("", 5))
    (made,) = used_up(record)
    assert (made.topic, made.changes, made.record_before) == ("orders", (TakeOwnership(),), record)
    assert made.record_after == replace(record, memory=OperatorMemory(DIGEST, 5))
    assert made.record_after is not None
    assert used_up(made.record_after) == ()


@pytest.mark.parametrize(
    ("record", "block", "fields"),
    [
        (None, WriteBlock(), {}),
        (OwnershipRecord("team"), WriteBlock(), {}),
        (OwnershipRecord("default", deleted=True), WriteBlock(), {}),
        (OwnershipRecord("default"), WriteBlock(Reason.FROZEN, "frozen"), {}),
        (OwnershipRecord("default"), WriteBlock(), {"mode": "Observe"}),
        (OwnershipRecord("default"), WriteBlock(), {"ensure": "Absent"}),
    ],
)
def test_a_consent_stays_where_nothing_may_be_written(
    record: OwnershipRecord | None, block: WriteBlock, fields: dict[str, Any]
) -> None:
    """Without an own record, with a write block, and for topics that are observed or to be absent, nothing is used."""
    assert used_up(record, block, **fields) == ()


def test_an_annotation_without_a_value_is_no_consent() -> None:
    """There is nothing to use up, so the record is not written."""
    empty = resource_bodies.topic("orders", meta={"annotations": {"topiarist.dev/allow-risk": ""}})
    assert used_up(OwnershipRecord("default"), topic=empty) == ()


def test_a_consent_stays_while_something_is_refused() -> None:
    """A refusal may be what the consent is for."""
    record = OwnershipRecord("default")
    seen = replace(builders.topic("orders"), record=record)
    refused = TopicPlan(
        "orders", seen, record, record, refusals=(Issue(Reason.DATA_LOSS, "no"),), spec=builders.spec("orders")
    )
    plan = Plan("prod", "id", topics=(refused,))
    found = write_memory(plan, builders.state(seen), {"orders": CONSENT}, {"orders": builders.spec("orders")}, PRESENT)
    assert found.topics == (refused,)


# The check of a Topic directly before a change that cannot be undone.

DELETION = builders.plan_single_topic(builders.state(builders.topic()), builders.spec(ensure="Absent"))
GROWTH = builders.plan_single_topic(builders.state(builders.topic()), builders.spec(partitions=6, replicationFactor=2))
RETENTION_CUT = builders.plan_single_topic(
    builders.state(builders.topic("orders", builders.replica_lists("12", "23", "34"), config={"retention.ms": "9"})),
    builders.spec(partitions=3, replicationFactor=2, config={"retention.ms": 8}),
)
CREATION = builders.plan_single_topic(builders.state(), builders.spec())
LOST = builders.plan_single_topic(
    builders.state(dangling_records={"orders": OwnershipRecord("default")}),
    builders.spec(),
    RunOptions(recreate=("orders",)),
)
DELETION_RECORD = OwnershipRecord("default", deleted=True)
RECREATION = builders.plan_single_topic(builders.state(dangling_records={"orders": DELETION_RECORD}), builders.spec())
TOPIC = resource_bodies.topic("orders")


def refuse_read(_resource: Resource) -> Resource | None:
    """Fail the test: the Topic must not be read."""
    pytest.fail("the Topic is read")


@pytest.mark.parametrize("plan", [DELETION, RETENTION_CUT, RECREATION])
def test_a_current_topic_is_written(plan: TopicPlan) -> None:
    """A status and a resource version may differ: a plan does not depend on them."""
    assert plan.changes
    current = resource_bodies.updated_body(TOPIC, status={"clusters": []})
    assert check_current_topic(plan, TOPIC, lambda resource: current) is None


@pytest.mark.parametrize("plan", [GROWTH, CREATION, LOST])
def test_other_changes_read_no_topic(plan: TopicPlan) -> None:
    """A later reconciliation corrects them, and a request for each would slow down a large rollout."""
    assert plan.changes
    assert check_current_topic(plan, TOPIC, refuse_read) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"uid": "another"},
        {"generation": 2},
        {"labels": {"team": "a"}},
        {"annotations": {"topiarist.dev/paused": "true"}},
        {"deletionTimestamp": "2026-02-01T00:00:00Z"},
        {"finalizers": [FINALIZER]},
    ],
    ids=lambda changed: next(iter(changed)),
)
@pytest.mark.parametrize("plan", [DELETION, RETENTION_CUT, RECREATION])
def test_a_changed_topic_is_not_written(plan: TopicPlan, changed: dict[str, Any]) -> None:
    """Each input of a plan counts; the next reconciliation has the new one."""
    outcome = check_current_topic(plan, TOPIC, lambda resource: resource_bodies.updated_body(resource, **changed))
    assert outcome is not None
    assert (outcome.result, outcome.reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)


def test_a_topic_with_another_spec_is_not_written() -> None:
    """A restore of etcd sets the generation back, so that another spec may have the same one."""
    changed = parse_resource({**resource_bodies.body_of(TOPIC), "spec": {"partitions": 7, "replicationFactor": 3}})
    assert changed.generation == TOPIC.generation
    outcome = check_current_topic(DELETION, TOPIC, lambda _: changed)
    assert outcome is not None
    assert (outcome.result, outcome.reason) == (Result.CONFLICT, Reason.STATE_CONFLICT)


def test_a_topic_that_cannot_be_read_is_not_written() -> None:
    """The message has the error of the API server."""

    def read(_resource: Resource) -> Resource | None:
        raise TopiaristError(Reason.UNREACHABLE, "the API server: no answer")

    outcome = check_current_topic(DELETION, TOPIC, read)
    assert outcome is not None
    assert outcome.message.endswith("the API server: no answer")
