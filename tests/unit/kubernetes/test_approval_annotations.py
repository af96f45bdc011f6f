"""Invalid annotations: the operator reports them, and withholds every action that they may have been meant to
prevent.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from support import states
from support.kubernetes import resource_bodies
from topiarist.adapters.memory import MemoryCluster
from topiarist.errors import Reason
from topiarist.kubernetes.api import client
from topiarist.kubernetes.approval import annotation_errors, is_paused
from topiarist.kubernetes.reconciler import SyncState
from topiarist.kubernetes.status.cluster import policy_status
from topiarist.kubernetes.status.topic import topic_status
from topiarist.kubernetes.status.writer import annotation_events, unusable_events
from unit.kubernetes.reconcile_requests import DELETING_META, make_request, owned_topic, reconcile_topics
from unit.kubernetes.topic_results import LATER, NOW, make_result

DIGEST = "sha256:0123456789abcdef"


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("topiarist.dev/paused", "true", ""),
        ("topiarist.dev/paused", "false", ""),
        ("topiarist.dev/retain", "true", ""),
        ("topiarist.dev/allow-risk", DIGEST, ""),
        ("topiarist.dev/recreate", f"{DIGEST},{DIGEST}", ""),
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
        (
            "topiarist.dev/paused",
            "",
            'topiarist.dev/paused: found "", wanted "true" or "false": it counts as a pause',
        ),
        ("topiarist.dev/retain", "yes", 'topiarist.dev/retain: found "yes", wanted "true" or "false"'),
        ("topiarist.dev/pasued", "true", "topiarist.dev/pasued is not known on a Topic: did you mean paused?"),
        ("topiarist.dev/x", "true", "topiarist.dev/x is not known on a Topic"),
        ("topiarist.io/paused", "true", "topiarist.io/paused is not known: did you mean topiarist.dev/paused?"),
        (
            "topiarist.dev/allow-risk",
            "DataLoss",
            'topiarist.dev/allow-risk: found "DataLoss", which consents to nothing: wanted the digest that a refusal '
            "gives",
        ),
        (
            "topiarist.dev/take-ownership",
            "true",
            'topiarist.dev/take-ownership: found "true", which consents to nothing: wanted the digest that a refusal '
            "gives",
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
    risk = {"annotations": {"topiarist.dev/allow-risk": DIGEST}}
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
        port = MemoryCluster(states.cluster())
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
    port = MemoryCluster(states.cluster(owned_topic("orders")))
    (refusal,) = reconcile_topics(port, make_request(resource_bodies.cluster(allowDeletion=True), going))[
        "orders"
    ].refusals
    assert refusal.reason is Reason.DELETION_HELD
    assert note in refusal.message
    assert refusal.hint == "correct or remove the annotation"
    assert [*port.state.topics] == ["orders"]


def test_a_status_says_it_and_an_event_once() -> None:
    """The status reports an invalid annotation beside the state of the topic, and one Event reports it. A correction
    restores the status.
    """
    topic = resource_bodies.topic("orders", meta={"annotations": {"topiarist.dev/pasued": "true"}})
    words = "topiarist.dev/pasued is not known on a Topic: did you mean paused?"
    status = topic_status(topic, {"prod": make_result(topic, SyncState.SYNCED)}, {}, NOW, ("prod",))
    ready = status["conditions"][0]
    assert (ready["status"], ready["message"]) == ("True", f"annotation {words}. as asked on 1 cluster")
    assert status["annotations"] == [words]
    (event,) = unusable_events(topic, status)
    assert (event.reason, event.message, event.warning) == ("InvalidAnnotation", words, True)
    topic = resource_bodies.updated_body(topic, status=status)
    assert topic_status(topic, {"prod": make_result(topic, SyncState.SYNCED)}, {}, LATER, ("prod",)) == status
    assert [*unusable_events(topic, status)] == []
    topic = replace(resource_bodies.updated_body(topic, annotations={}), status=status)
    assert "annotations" not in topic_status(
        topic, {"prod": make_result(topic, SyncState.SYNCED)}, {}, LATER, ("prod",)
    )


def test_what_is_said_is_bounded() -> None:
    """At most ten invalid annotations are reported, for any number of annotations."""
    topic = resource_bodies.topic(
        "orders", meta={"annotations": {f"topiarist.dev/x{number}": "" for number in range(50)}}
    )
    assert len(annotation_errors(topic)) == 10
