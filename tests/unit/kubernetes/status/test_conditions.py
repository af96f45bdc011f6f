"""Conditions of a resource: each value, each reason, and the time of the last transition."""

from __future__ import annotations

from typing import Any

import pytest

from support.kubernetes import resource_bodies
from topiarist.kubernetes.status.topic import (
    MovingCondition,
    ReadyCondition,
    build_conditions,
    common_status,
    invalid_condition,
    truncate_message,
)

NOW, BEFORE = "2026-02-01T12:00:00Z", "2026-01-01T12:00:00Z"


def built(ready: ReadyCondition, *old: dict[str, Any], alarms: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the conditions by type, each as status, reason and message."""
    found = build_conditions(ready, 7, old, NOW, alarms or {})
    assert {each["observedGeneration"] for each in found} == {7}
    return {each["type"]: (each["status"], each["reason"], each["message"]) for each in found}


@pytest.mark.parametrize(
    ("ready", "values"),
    [
        (ReadyCondition(True, "Synced", "well"), ("True", "False", "False", "False")),
        (ReadyCondition(None, "Paused", "well"), ("Unknown", "False", "False", "False")),
        (ReadyCondition(False, "Changed", "well", reconciling=True), ("False", "True", "False", "False")),
        (ReadyCondition(False, "Frozen", "well", stalled=True), ("False", "False", "True", "False")),
        (ReadyCondition(False, "Frozen", "well", drift="other"), ("False", "False", "False", "True")),
    ],
)
def test_four_conditions_are_always_there(ready: ReadyCondition, values: tuple[str, ...]) -> None:
    """Each condition that is true has the message, and Ready has it always; drift has a reason of its own."""
    found = built(ready)
    assert [*found] == ["Ready", "Reconciling", "Stalled", "DriftDetected"]
    assert tuple(status for status, _, _ in found.values()) == values
    assert found["Ready"][1:] == (ready.reason, "well")
    for name in ("Reconciling", "Stalled"):
        assert found[name][1:] == (ready.reason, "well" if found[name][0] == "True" else "")
    assert found["DriftDetected"][1:] == (("DriftDetected", "other") if ready.drift else (ready.reason, ""))


def test_moves_have_a_condition_from_the_first_on() -> None:
    """The condition of moves appears with a move, with the reason of a stall, and is false after the last one."""
    still = ReadyCondition(True, "Synced", "well")
    moving = still._replace(moving=MovingCondition("2 of 3"))
    stuck = still._replace(moving=MovingCondition("2 of 3", "Stuck"))
    assert "Moving" not in built(still)
    assert built(moving)["Moving"] == ("True", "Moving", "2 of 3")
    assert built(stuck)["Moving"] == ("True", "Stuck", "2 of 3")
    assert built(still, {"type": "Moving", "status": "True", "lastTransitionTime": BEFORE})["Moving"] == (
        "False",
        "Synced",
        "",
    )


def test_alarms_come_last_and_go_with_their_cause() -> None:
    """An alarm is a condition that is true, with its own name as the reason, after all others."""
    found = built(
        ReadyCondition(True, "Synced", "well", moving=MovingCondition("m")), alarms={"Away": "gone", "B": "b"}
    )
    assert [*found][4:] == ["Moving", "Away", "B"]
    assert (found["Away"], found["B"]) == (("True", "Away", "gone"), ("True", "B", "b"))
    old = {"type": "Away", "status": "True", "lastTransitionTime": BEFORE}
    assert "Away" not in built(ReadyCondition(True, "Synced", "well"), old)


def test_the_time_of_a_transition_is_that_of_the_status() -> None:
    """A condition keeps its time while its status is the same, whatever its reason and message are."""
    same = {"type": "Ready", "status": "True", "lastTransitionTime": BEFORE, "reason": "Other", "message": "x"}
    other = {"type": "Stalled", "status": "True", "lastTransitionTime": BEFORE}
    found = build_conditions(ReadyCondition(True, "Synced", "well"), 1, [same, other], NOW)
    times = {each["type"]: each["lastTransitionTime"] for each in found}
    assert times == {"Ready": BEFORE, "Reconciling": NOW, "Stalled": NOW, "DriftDetected": NOW}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("x" * 1024, "x" * 1024),
        ("x" * 1025, "x" * 1021 + "..."),
        ("é" * 512, "é" * 512),
        ("é" * 513, "é" * 510 + "..."),
        ("x" + "é" * 512, "x" + "é" * 510 + "..."),
    ],
)
def test_a_message_is_cut_by_its_bytes(text: str, shown: str) -> None:
    """A message of more than 1,024 bytes ends with three dots, and no character is divided, in each condition."""
    assert truncate_message(text) == shown
    ready = ReadyCondition(False, "R", text, reconciling=True, drift=text, moving=MovingCondition(text))
    assert {words for _, _, words in built(ready, alarms={"A": text}).values()} == {shown, ""}


def test_an_invalid_resource_needs_its_user() -> None:
    """All errors are in the message, one a line."""
    assert invalid_condition(["a", "b"]) == ReadyCondition(False, "InvalidManifest", "a\nb", stalled=True)


@pytest.mark.parametrize(
    ("annotations", "start"),
    [
        ({}, ""),
        ({"retain": "x"}, 'annotation topiarist.dev/retain: found "x", wanted "true" or "false". '),
        (
            {"retain": "x", "paused": "y"},
            'annotation topiarist.dev/paused: found "y", wanted "true" or "false": it counts as a pause (and 1 more). ',
        ),
    ],
)
def test_an_invalid_annotation_stands_before_the_message(annotations: dict[str, str], start: str) -> None:
    """The first error is before the message and the others are counted; the status has all of them."""
    meta = {"annotations": {f"topiarist.dev/{key}": text for key, text in annotations.items()}, "generation": 5}
    old = {"type": "Ready", "status": "True", "lastTransitionTime": BEFORE}
    topic = resource_bodies.topic("orders", meta=meta, status={"conditions": [old]})
    found = common_status(topic, ReadyCondition(True, "Synced", "well"), NOW, {"Away": "gone"})
    assert found["observedGeneration"] == 5
    assert (found["conditions"][0]["message"], found["conditions"][0]["lastTransitionTime"]) == (f"{start}well", BEFORE)
    assert [each["type"] for each in found["conditions"]][4:] == ["Away"]
    assert len(found.get("annotations", ())) == len(annotations)
    assert ("annotations" in found) is bool(annotations)
