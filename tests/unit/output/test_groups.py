"""What groups of topics use of their limits, as text."""

from __future__ import annotations

from topiarist.model.spec import LimitedResource, LimitUsage
from topiarist.output.groups import describe_limits


def test_a_group_has_one_text_for_all_resources_of_a_limit() -> None:
    """An unchanged total is there once, sizes have units, and a group without bound says so."""
    usages = [
        LimitUsage("quotas", "team=shop", LimitedResource.TOPICS, 3, 3, 50),
        LimitUsage("quotas", "team=shop", LimitedResource.PARTITIONS, 96, 1080, 2000),
        LimitUsage("quotas", "team=ads", LimitedResource.RETAINED_BYTES, 1 << 30, None, 2 << 30),
    ]
    assert [*describe_limits(usages)] == [
        "team=shop: 3 of 50 topics, 96 -> 1,080 of 2,000 partitions (quotas)",
        "team=ads: 1 GiB -> unbounded of 2 GiB retained (quotas)",
    ]
