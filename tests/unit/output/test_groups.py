"""Groups of a plan: what many topics share is shown once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from support.plans import OWN_RECORD, existing_topic_plan, plan
from support.states import topic
from topiarist.errors import Reason
from topiarist.model.plan import SAFE_ASSESSMENT, ConfigItem, Issue, TakeOwnership, TopicPlan, UpdateConfig
from topiarist.output.groups import group_items

DEFAULT = ConfigItem("min.insync.replicas", "1", "2", SAFE_ASSESSMENT, inherited=True)
REFUSED = Issue(Reason.BROKERS_MISSING, "broker 4 is not registered")
KINDS = {
    "defaults": existing_topic_plan("a", UpdateConfig((DEFAULT,))),
    "ownership_actions": TopicPlan("a", topic("a", managed_keys=None), None, OWN_RECORD, (TakeOwnership(),)),
    "refusals": existing_topic_plan("a", findings=(REFUSED,)),
}


@pytest.mark.parametrize(("kind", "shared"), KINDS.items(), ids=KINDS)
def test_four_topics_are_a_group(kind: str, shared: TopicPlan) -> None:
    """Three topics have blocks of their own."""
    topics = [replace(shared, topic=name) for name in "abcd"]
    (members,) = getattr(group_items(plan(*topics)), kind).values()
    assert len(members) == 4
    assert not getattr(group_items(plan(*topics[:3])), kind)
