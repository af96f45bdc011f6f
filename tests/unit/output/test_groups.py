"""Changes by key, in an Event and in a status, and what groups of topics use of their limits."""

from __future__ import annotations

import pytest

from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    AddPartitions,
    Change,
    ConfigItem,
    Risk,
    RiskAssessment,
    TakeOwnership,
    UpdateConfig,
)
from topiarist.model.spec import LimitedResource, LimitUsage
from topiarist.output.groups import (
    MAX_VALUE_LENGTH,
    describe_changes,
    describe_differences,
    describe_limits,
    describe_old_and_new,
    describe_risk_reasons,
    format_consent,
    list_field_changes,
)


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


LOSS = RiskAssessment(Risk.DATA_LOSS, "messages go")
GROWTH = AddPartitions(3, (1, 2), ((1, 2),) * 3, RiskAssessment(Risk.DISRUPTIVE, "keys move"))


def config(*items: tuple[str, str | None, str | None]) -> UpdateConfig:
    """Return a change of config keys."""
    return UpdateConfig(tuple(ConfigItem(*item, SAFE_ASSESSMENT) for item in items))


def test_in_words() -> None:
    """The text distinguishes completed changes, differences and withheld changes."""
    changes: list[Change] = [GROWTH, config(("flush.ms", "7", "8"), ("x", "", None))]
    assert describe_changes(changes) == 'grow 3 -> 6 partitions, configure flush.ms 7 -> 8, x "" -> not set'
    assert describe_old_and_new(changes) == 'partitions 3 -> 6, flush.ms 7 -> 8, x "" -> not set'
    assert (
        describe_differences(changes) == 'partitions is 3, wanted 6, flush.ms is 7, wanted 8, x is "", wanted not set'
    )
    assert describe_changes([TakeOwnership()]) == "record only"


def test_long_and_unprintable_values_are_cut_and_escaped() -> None:
    """Long values are cut and unprintable characters escaped, so no stored value breaks a line."""
    (detail,) = list_field_changes([config(("x", "a\nb", "y" * 1000))])
    assert detail.before == "a\\nb"
    assert len(detail.after) == MAX_VALUE_LENGTH == 120


def test_what_may_be_secret_is_hidden() -> None:
    """Values of keys with a sensitive name are hidden on both sides."""
    for key in ("sasl.jaas.PASSWORD", "vendor.api.token", "my.client-secret", "ssl.private.key"):
        (detail,) = list_field_changes([config((key, "hunter2", "hunter3"))])
        assert (detail.before, detail.after) == ("(hidden)", "(hidden)")
    (detail,) = list_field_changes([config(("cleanup.policy", "delete", "compact"))])
    assert detail.after == "compact"


def test_risks_are_those_of_one_kind() -> None:
    """Only risks of the given kind are listed, each with its key; growth and deletion have one entry each."""
    items = (
        ConfigItem("a", "1", "2", LOSS),
        ConfigItem("b", "1", "2", RiskAssessment(Risk.DISRUPTIVE, "slow")),
        ConfigItem("c", "1", "2", RiskAssessment(Risk.DATA_LOSS, "more goes")),
    )
    assert describe_risk_reasons(UpdateConfig(items), Risk.DATA_LOSS) == "a: messages go; c: more goes"
    assert describe_risk_reasons(GROWTH, Risk.DISRUPTIVE) == "keys move"


@pytest.mark.parametrize(("count", "more"), [(8, ""), (9, " and 1 other field"), (1008, " and 1,000 other fields")])
def test_eight_fields_are_listed(count: int, more: str) -> None:
    """Up to eight fields are listed, and of more the first eight."""
    words = describe_old_and_new([config(*((f"k{number:04}", None, "1") for number in range(count)))])
    assert words == ", ".join(f"k{number:04} not set -> 1" for number in range(8)) + more


def test_a_consent_names_up_to_twenty_topics() -> None:
    """The option for more topics has a placeholder in place of their names."""
    names = [f"t{number:02}" for number in range(21)]
    assert format_consent(names[:20]) == f"--allow-risk DataLoss={','.join(names[:20])}"
    assert format_consent(names) == "--allow-risk DataLoss=TOPIC,..."
