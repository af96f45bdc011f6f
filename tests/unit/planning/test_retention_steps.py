"""Cuts of retention in steps: each step is small enough, and the last one is what the manifest asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import PROD_CLUSTER, config_changes, notice_reasons, plan_single_topic, spec, state, topic
from topiarist.model.spec import ClusterSpec, RetentionStep
from topiarist.model.state import OwnershipRecord

HALF: ClusterSpec = replace(PROD_CLUSTER, retention_step=RetentionStep(50, 3_600_000))
WITH_DEFAULT = replace(HALF, broker_config={"log.retention.ms": "1000"})


def _step(
    before: dict[str, str], wanted: dict[str, object], on: ClusterSpec = HALF, **fields: object
) -> tuple[dict[str, tuple[str | None, str | None]], list[str]]:
    """Return the changes of the next run on a topic with ``before``, and its notices."""
    seen = state(topic("a", config=before, record=OwnershipRecord("default", tuple(before))))
    found = plan_single_topic(seen, spec("a", on, config=wanted, **fields))
    return config_changes(found), [notice.message for notice in found.notices]


def test_a_larger_cut_is_made_in_steps() -> None:
    """The notice has the step, the end and the number of steps that follow."""
    changes, notices = _step({"retention.ms": "8000"}, {"retention.ms": 1000})
    assert changes == {"retention.ms": ("8000", "4000")}
    assert notices == ["retention.ms 4s is a step to 1s: 2 more, of 50% at most"]


@pytest.mark.parametrize(
    ("before", "wanted"),
    [("8000", 4000), ("8000", 9000), ("8000", -1), ("-1", 1000), ("8000", 8000)],
)
def test_other_changes_are_made_at_once(before: str, wanted: int) -> None:
    """A cut within the step, a longer retention, and one from no bound, which has no share."""
    changes, notices = _step({"retention.ms": before}, {"retention.ms": wanted})
    assert changes == ({} if before == str(wanted) else {"retention.ms": (before, str(wanted))})
    assert notices == []


def test_a_cluster_without_the_field_cuts_at_once() -> None:
    """Steps are asked for by the platform team."""
    assert _step({"retention.ms": "8000"}, {"retention.ms": 1}, PROD_CLUSTER) == ({"retention.ms": ("8000", "1")}, [])


def test_a_removed_override_is_a_cut_to_the_default() -> None:
    """The override stays for a step, and topiarist still owns it; without a known default it is removed at once."""
    changes, _ = _step({"retention.ms": "8000"}, {}, WITH_DEFAULT)
    assert changes == {"retention.ms": ("8000", "4000")}
    seen = state(topic("a", config={"retention.ms": "8000"}, record=OwnershipRecord("default", ("retention.ms",))))
    found = plan_single_topic(seen, spec("a", WITH_DEFAULT))
    assert found.record_after
    assert found.record_after.config_keys == ("retention.ms",)
    assert notice_reasons(found) == ["RetentionStepped"]
    assert _step({"retention.ms": "8000"}, {})[0] == {"retention.ms": ("8000", None)}
    assert _step({"retention.ms": "2000"}, {}, WITH_DEFAULT)[0] == {"retention.ms": ("2000", None)}


def test_a_cut_from_the_default_is_made_in_steps_if_it_is_known() -> None:
    """The brokers' value is the value before."""
    assert _step({}, {"retention.ms": 10}, WITH_DEFAULT)[0] == {"retention.ms": (None, "500")}
    assert _step({}, {"retention.ms": 10})[0] == {"retention.ms": (None, "10")}


def test_an_ignored_field_and_an_unmanaged_key_have_no_steps() -> None:
    """What is not changed is not stepped either."""
    changes, notices = _step({"retention.ms": "8000"}, {"retention.ms": 1}, ignore=["config.retention.ms"])
    assert changes == {}
    assert notices == ["retention.ms: 8000 on the cluster, 1 in the manifest"]
    seen = state(topic("a", config={"retention.ms": "8000"}, record=OwnershipRecord("default")))
    found = plan_single_topic(seen, spec("a", WITH_DEFAULT))
    assert config_changes(found) == {}
    assert notice_reasons(found) == ["Unmanaged"]


@given(st.integers(0, 1 << 62), st.integers(0, 1 << 62), st.integers(1, 99))
def test_steps_end_at_the_manifest(before: int, target: int, share: int) -> None:
    """Each step is at most the share, or one if that is less than one; after the counted steps nothing is left."""
    on = replace(PROD_CLUSTER, retention_step=RetentionStep(share, 1))
    actual, left = before, None
    while actual != target:
        changes, notices = _step({"retention.bytes": str(actual)}, {"retention.bytes": target}, on)
        value = int(changes["retention.bytes"][1] or "")
        if value > actual:
            assert value == target
        else:
            assert target <= value < actual
            assert (actual - value) * 100 <= actual * share or actual - value == 1
        more = int(notices[0].split(": ")[1].split(" ")[0].replace(",", "")) if notices else 0
        assert left is None or more == left - 1
        actual, left = value, more
        if left and left > 300:
            return
    assert not left
