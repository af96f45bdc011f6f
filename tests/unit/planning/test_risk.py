"""Risks of config changes, one row per case; with an unknown broker setting, the higher risk counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.strategies import texts
from topiarist.kafka.config_table import MAX_BY_TYPE, TOPIC_CONFIGS
from topiarist.kafka.config_values import check_value, is_equivalent
from topiarist.kafka.types import parse_version
from topiarist.model.plan import Risk
from topiarist.planning.risk import (
    NO_FACTS,
    UNKEYED_GROWTH,
    Effect,
    NumberRisks,
    TopicFacts,
    WordRisks,
    assess_config,
    assess_deletion,
    assess_effect,
    assess_growth,
)
from topiarist.planning.risk import RISK_TABLE as TABLE_OF_RISKS

SAFE, DISRUPTIVE, LOSS = Risk
DAY, HOUR, UNLIMITED = "86400000", "3600000", str(2**63 - 1)

MATRIX: dict[str, list[tuple[str, str, Risk]]] = {
    "cleanup.policy": [
        *[("delete", "compact", LOSS), ("compact", "delete", LOSS), ("compact", "compact,delete", LOSS)],
        *[("delete", "delete,compact", LOSS), ("compact,delete", "compact", LOSS), ("delete, compact", "delete", LOSS)],
    ],
    "compression.gzip.level": [("9", "1", SAFE), ("1", "9", SAFE)],
    "compression.lz4.level": [("17", "1", SAFE), ("1", "17", SAFE)],
    "compression.type": [("zstd", word, DISRUPTIVE) for word in ("uncompressed", "lz4", "snappy", "gzip", "producer")]
    + [("producer", "zstd", DISRUPTIVE)],
    "compression.zstd.level": [("22", "1", SAFE), ("1", "22", SAFE)],
    "delete.retention.ms": [(DAY, HOUR, LOSS), (HOUR, DAY, SAFE)],
    "errors.deadletterqueue.group.enable": [("false", "true", SAFE), ("true", "false", DISRUPTIVE)],
    "file.delete.delay.ms": [(DAY, HOUR, SAFE), (HOUR, DAY, DISRUPTIVE), (HOUR, "7200000", SAFE)],
    "flush.messages": [("2", "1", DISRUPTIVE), ("1", "2", DISRUPTIVE)],
    "flush.ms": [("2", "1", DISRUPTIVE), ("1", "2", DISRUPTIVE)],
    "follower.replication.throttled.replicas": [("", "0:1", DISRUPTIVE), ("*", "", DISRUPTIVE)],
    "index.interval.bytes": [("4096", "4095", SAFE), ("4096", "409", DISRUPTIVE), ("409", "40960", SAFE)],
    "leader.replication.throttled.replicas": [("", "0:1", DISRUPTIVE), ("*", "", DISRUPTIVE)],
    "local.retention.bytes": [("2000", "1000", DISRUPTIVE), ("1000", "2000", DISRUPTIVE), ("1000", "-1", DISRUPTIVE)],
    # A local segment is deleted only once remote storage has it: the messages stay.
    "local.retention.ms": [
        *[(DAY, HOUR, DISRUPTIVE), (HOUR, DAY, DISRUPTIVE), (DAY, "-1", DISRUPTIVE), ("-1", DAY, DISRUPTIVE)],
    ],
    "max.compaction.lag.ms": [(DAY, HOUR, LOSS), (HOUR, DAY, SAFE), (UNLIMITED, DAY, LOSS)],
    "max.decompressed.message.bytes": [
        *[("1000", "999", DISRUPTIVE), ("999", "1000", SAFE), ("1000", "10000", DISRUPTIVE)],
    ],
    "max.message.bytes": [("1000", "999", DISRUPTIVE), ("999", "1000", SAFE), ("1000", "10000", DISRUPTIVE)],
    "message.downconversion.enable": [("true", "false", DISRUPTIVE), ("false", "true", SAFE)],
    "message.format.version": [("2.8", "0.10.2", DISRUPTIVE), ("0.10.2", "2.8", DISRUPTIVE)],
    "message.timestamp.after.max.ms": [(DAY, HOUR, DISRUPTIVE), (HOUR, DAY, SAFE), (UNLIMITED, DAY, DISRUPTIVE)],
    "message.timestamp.before.max.ms": [(DAY, HOUR, DISRUPTIVE), (HOUR, DAY, SAFE), (UNLIMITED, DAY, DISRUPTIVE)],
    "message.timestamp.difference.max.ms": [(DAY, HOUR, DISRUPTIVE), (HOUR, DAY, SAFE)],
    "message.timestamp.type": [("CreateTime", "LogAppendTime", DISRUPTIVE), ("LogAppendTime", "CreateTime", LOSS)],
    "min.cleanable.dirty.ratio": [("0.5", "0.4", DISRUPTIVE), ("0.5", "0.51", DISRUPTIVE)],
    "min.compaction.lag.ms": [(DAY, HOUR, LOSS), (HOUR, DAY, DISRUPTIVE), (HOUR, "0", LOSS)],
    "min.insync.replicas": [("2", "1", DISRUPTIVE), ("1", "2", DISRUPTIVE)],
    "preallocate": [("false", "true", DISRUPTIVE), ("true", "false", SAFE)],
    "remote.copy.lag.bytes": [("2", "1", SAFE), ("1", "2", SAFE)],
    "remote.copy.lag.ms": [("2", "1", SAFE), ("1", "2", SAFE)],
    "remote.log.copy.disable": [("false", "true", DISRUPTIVE), ("true", "false", SAFE)],
    # The value deletes nothing: disabling remote storage does, which is a change of its own.
    "remote.log.delete.on.disable": [("false", "true", DISRUPTIVE), ("true", "false", SAFE)],
    "remote.storage.enable": [("false", "true", DISRUPTIVE), ("true", "false", LOSS)],
    "retention.bytes": [("2000", "1000", LOSS), ("1000", "2000", DISRUPTIVE), ("1000", "-1", DISRUPTIVE)],
    "retention.ms": [(DAY, HOUR, LOSS), (HOUR, DAY, DISRUPTIVE), (DAY, "-1", DISRUPTIVE), ("-1", DAY, LOSS)],
    "segment.bytes": [
        ("10485760", "1048576", DISRUPTIVE),
        ("10485760", "1048577", SAFE),
        ("1048577", "10485760", SAFE),
        ("1048576", "10485760", DISRUPTIVE),
    ],
    "segment.index.bytes": [("1000", "100", DISRUPTIVE), ("999", "100", SAFE), ("100", "1000", DISRUPTIVE)],
    "segment.jitter.ms": [(DAY, HOUR, DISRUPTIVE), ("3", "2", SAFE), ("2", "0", DISRUPTIVE), (HOUR, DAY, SAFE)],
    "segment.ms": [(DAY, HOUR, DISRUPTIVE), ("1000", "5000", SAFE), (HOUR, DAY, DISRUPTIVE)],
    "unclean.leader.election.enable": [("false", "true", LOSS), ("true", "false", DISRUPTIVE)],
}
"""What is expected of every config, in every direction: before, after, risk; written by hand."""

EFFECTS = {
    **{"cleanup.policy": "LLLLCC", "compression.gzip.level": "CC", "compression.lz4.level": "CC"},
    **{"compression.type": "CCCCCC", "compression.zstd.level": "CC", "delete.retention.ms": "LC"},
    **{"errors.deadletterqueue.group.enable": "NA", "file.delete.delay.ms": "NCN", "flush.messages": "CL"},
    **{"flush.ms": "CL", "follower.replication.throttled.replicas": "AA", "index.interval.bytes": "NCC"},
    **{"leader.replication.throttled.replicas": "AA", "local.retention.bytes": "CCA", "local.retention.ms": "CCAC"},
    **{"max.compaction.lag.ms": "LCL", "max.decompressed.message.bytes": "ANC", "max.message.bytes": "ANC"},
    **{"message.downconversion.enable": "AC", "message.format.version": "AA"},
    **{"message.timestamp.after.max.ms": "ANA", "message.timestamp.before.max.ms": "ANA"},
    **{"message.timestamp.difference.max.ms": "AN", "message.timestamp.type": "OL", "min.cleanable.dirty.ratio": "CC"},
    **{"min.compaction.lag.ms": "LCL", "min.insync.replicas": "LA", "preallocate": "CN", "remote.copy.lag.bytes": "NN"},
    **{"remote.copy.lag.ms": "NN", "remote.log.copy.disable": "CN", "remote.log.delete.on.disable": "NN"},
    **{"remote.storage.enable": "CL", "retention.bytes": "LCA", "retention.ms": "LCAL", "segment.bytes": "CNNC"},
    **{"segment.index.bytes": "CNC", "segment.jitter.ms": "CNCN", "segment.ms": "CNC"},
    **{"unclean.leader.election.enable": "LA"},
}
"""What each change of ``MATRIX`` does from then on, in its order: loss, availability, cost, order, nothing; by hand."""

# key, before, after, known settings of the brokers -> risk; changes between two set and known values are in MATRIX
TABLE: list[tuple[str, str | None, str | None, dict[str, str], Risk]] = [
    ("retention.ms", HOUR, "-1", {}, DISRUPTIVE),
    ("retention.ms", "-1", HOUR, {}, LOSS),
    ("retention.ms", None, "604800000", {}, LOSS),
    ("retention.ms", "604800000", None, {}, LOSS),
    ("retention.ms", None, "604800000", {"log.retention.ms": "-1"}, LOSS),
    ("retention.ms", None, "604800000", {"log.retention.ms": HOUR}, DISRUPTIVE),
    ("retention.ms", None, "604800000", {"log.retention.hours": "168"}, SAFE),
    ("retention.ms", DAY, None, {"log.retention.hours": "168"}, DISRUPTIVE),
    ("retention.ms", DAY, None, {"log.retention.hours": "1"}, LOSS),
    ("retention.ms", "abc", DAY, {}, LOSS),
    ("retention.ms", "abc", "x", {}, LOSS),
    ("retention.bytes", "-1", "-2", {}, SAFE),
    ("retention.bytes", "-1", "1000", {}, LOSS),
    ("local.retention.ms", "-2", DAY, {}, DISRUPTIVE),
    ("local.retention.ms", DAY, "-2", {}, DISRUPTIVE),
    ("delete.retention.ms", None, DAY, {}, LOSS),
    ("delete.retention.ms", None, DAY, {"log.cleaner.delete.retention.ms": HOUR}, SAFE),
    ("max.compaction.lag.ms", None, DAY, {}, LOSS),
    ("cleanup.policy", "compact,delete", "delete", {}, LOSS),
    ("cleanup.policy", "compact,delete", "delete,compact", {}, SAFE),
    ("cleanup.policy", None, "delete", {}, LOSS),
    ("cleanup.policy", None, "delete", {"log.cleanup.policy": "delete"}, SAFE),
    ("cleanup.policy", "compact", None, {}, LOSS),
    ("unclean.leader.election.enable", None, "true", {}, LOSS),
    ("unclean.leader.election.enable", "true", None, {}, DISRUPTIVE),
    ("unclean.leader.election.enable", "TRUE", " true ", {}, SAFE),
    ("unclean.leader.election.enable", "false", None, {}, LOSS),
    ("unclean.leader.election.enable", "false", None, {"unclean.leader.election.enable": "false"}, SAFE),
    ("min.insync.replicas", None, "2", {}, DISRUPTIVE),
    ("min.insync.replicas", None, "2", {"min.insync.replicas": "2"}, SAFE),
    ("preallocate", None, "true", {}, DISRUPTIVE),
    ("preallocate", None, "false", {}, SAFE),
    ("confluent.tier.enable", None, "true", {}, DISRUPTIVE),
    ("min.compaction.lag.ms", None, HOUR, {}, LOSS),
    ("min.compaction.lag.ms", HOUR, None, {}, LOSS),
    ("min.compaction.lag.ms", "0", None, {}, DISRUPTIVE),
    ("min.compaction.lag.ms", None, HOUR, {"log.cleaner.min.compaction.lag.ms": "0"}, DISRUPTIVE),
    ("message.timestamp.before.max.ms", None, DAY, {}, DISRUPTIVE),
    ("message.timestamp.before.max.ms", DAY, None, {}, DISRUPTIVE),
    ("message.timestamp.before.max.ms", DAY, UNLIMITED, {}, DISRUPTIVE),
    ("message.timestamp.after.max.ms", DAY, UNLIMITED, {}, DISRUPTIVE),
    ("message.timestamp.difference.max.ms", DAY, UNLIMITED, {}, SAFE),
    ("message.timestamp.type", None, "CreateTime", {}, LOSS),
    ("message.timestamp.type", None, "LogAppendTime", {}, DISRUPTIVE),
    ("message.timestamp.type", "LogAppendTime", None, {}, LOSS),
    ("message.timestamp.type", "CreateTime", None, {}, DISRUPTIVE),
    ("message.timestamp.type", "LogAppendTime", None, {"log.message.timestamp.type": "LogAppendTime"}, SAFE),
    ("delete.retention.ms", "0", None, {}, SAFE),
    ("max.compaction.lag.ms", None, UNLIMITED, {}, SAFE),
    ("retention.ms", None, UNLIMITED, {}, DISRUPTIVE),
    ("retention.ms", None, "-1", {}, DISRUPTIVE),
    ("retention.ms", "9007199254740993", "9007199254740992", {}, LOSS),
    ("segment.jitter.ms", None, "0", {}, DISRUPTIVE),
    ("cleanup.policy", "compact", "", {}, LOSS),
]


@pytest.mark.parametrize(("key", "before", "after", "settings", "risk"), TABLE)
def test_the_table(key: str, before: str | None, after: str | None, settings: dict[str, str], risk: Risk) -> None:
    """Each row of the table yields its risk, and every risk has a reason."""
    verdict = assess_config(key, before, after, settings)
    assert verdict.risk is risk
    assert bool(verdict.explanation) == (risk is not SAFE)


def test_the_matrix_has_every_config_in_every_direction() -> None:
    """The table has every config of Kafka in every direction: numbers up and down, each enum value as target."""
    assert sorted(MATRIX) == sorted(TABLE_OF_RISKS) == sorted(TOPIC_CONFIGS)
    for key, rows in MATRIX.items():
        definition, goals = TOPIC_CONFIGS[key], {after for _, after, _ in rows}
        if definition.type in (*MAX_BY_TYPE, "double"):
            assert isinstance(TABLE_OF_RISKS[key], NumberRisks)
            assert {float(after) > float(before) for before, after, _ in rows if "-" not in before + after} == {
                True,
                False,
            }
        else:
            assert isinstance(TABLE_OF_RISKS[key], WordRisks)
            assert goals >= set({"boolean": ("true", "false")}.get(definition.type, definition.valid_values))


@pytest.mark.parametrize(("key", "row"), [(key, row) for key, rows in MATRIX.items() for row in rows])
def test_the_matrix(key: str, row: tuple[str, str, Risk]) -> None:
    """With both values set on the topic, each change has its exact risk, and each risk other than Safe has a reason."""
    before, after, risk = row
    assert not [text for text in (before, after) if text and check_value(key, text)]
    verdict = assess_config(key, before, after, {})
    assert verdict.risk is risk
    assert bool(verdict.explanation) == (risk is not SAFE)
    assert "{" not in verdict.explanation


LETTERS = {
    **{"L": Effect.DATA_LOSS, "A": Effect.AVAILABILITY, "C": Effect.COST, "O": Effect.ORDER, "N": Effect.NONE},
}


@pytest.mark.parametrize("key", sorted(MATRIX))
def test_what_each_difference_does(key: str) -> None:
    """A value that is there in place of another one has the effect that the table says, in both directions."""
    assert len(EFFECTS[key]) == len(MATRIX[key])
    for (expected, actual, _), letter in zip(MATRIX[key], EFFECTS[key], strict=True):
        found = assess_effect(key, expected, actual, NO_FACTS)
        assert found.effect is LETTERS[letter], (key, expected, actual)
        assert "{" not in found.explanation
        assert found.explanation or letter == "N"


def test_a_value_that_nobody_set_is_that_of_the_brokers_or_of_kafka() -> None:
    """Without an override, the setting of the brokers counts, and without it Kafka's own default."""
    unclean, retention = "unclean.leader.election.enable", "retention.ms"
    assert assess_effect(unclean, None, "true", NO_FACTS).effect is Effect.DATA_LOSS
    assert assess_effect(unclean, None, "true", TopicFacts({unclean: "true"})).effect is Effect.NONE
    assert assess_effect(retention, None, str(8 * 86_400_000), NO_FACTS) == (
        Effect.COST,
        "messages are kept longer, up to 8 days",
    )
    assert assess_effect(retention, None, str(6 * 86_400_000), NO_FACTS).effect is Effect.DATA_LOSS
    assert assess_effect(retention, None, HOUR, TopicFacts({"log.retention.minutes": "30"})).effect is Effect.COST
    assert assess_effect("local.retention.ms", "-2", DAY, NO_FACTS).effect is Effect.COST
    assert assess_effect("local.retention.ms", DAY, "-2", NO_FACTS).effect is Effect.COST
    assert assess_effect("confluent.tier.enable", None, "true", NO_FACTS).effect is Effect.UNKNOWN


BEFORE, DIFFERENCE = "message.timestamp.before.max.ms", "message.timestamp.difference.max.ms"

# key, expected, actual, overrides of the topic, Kafka version -> effect; from the descriptions of Kafka's topic configs
AMONG_OTHERS: list[tuple[str, str | None, str | None, dict[str, str], str, Effect]] = [
    # "if we are using the delete retention policy"
    ("retention.ms", DAY, HOUR, {"cleanup.policy": "compact"}, "4.4", Effect.NONE),
    ("retention.ms", DAY, HOUR, {"cleanup.policy": "compact, delete"}, "4.4", Effect.DATA_LOSS),
    ("retention.ms", DAY, HOUR, {}, "4.4", Effect.DATA_LOSS),
    ("retention.bytes", "2000", "1000", {"cleanup.policy": "compact"}, "4.4", Effect.NONE),
    # "only applicable for logs that are being compacted"
    ("min.compaction.lag.ms", DAY, None, {}, "4.4", Effect.NONE),
    ("min.compaction.lag.ms", DAY, None, {"cleanup.policy": "compact"}, "4.4", Effect.DATA_LOSS),
    ("max.compaction.lag.ms", None, DAY, {"cleanup.policy": "delete"}, "4.4", Effect.NONE),
    ("delete.retention.ms", DAY, HOUR, {"cleanup.policy": "delete"}, "4.4", Effect.NONE),
    ("min.cleanable.dirty.ratio", "0.5", "0.1", {"cleanup.policy": "delete"}, "4.4", Effect.NONE),
    # "if compression.type is set to gzip"
    ("compression.gzip.level", "1", "9", {"compression.type": "zstd"}, "4.4", Effect.NONE),
    ("compression.lz4.level", "1", "9", {}, "4.4", Effect.NONE),
    ("compression.zstd.level", "1", "9", {"compression.type": "zstd"}, "4.4", Effect.COST),
    # Kafka accepts an empty list, and deletes nothing then.
    ("cleanup.policy", "delete", "", {"cleanup.policy": ""}, "4.4", Effect.AVAILABILITY),
    ("cleanup.policy", "", "delete", {"cleanup.policy": "delete"}, "4.4", Effect.DATA_LOSS),
    ("retention.ms", DAY, HOUR, {"cleanup.policy": ""}, "4.4", Effect.NONE),
    # Without remote storage all segments are local, and retention.* alone counts.
    ("local.retention.ms", HOUR, "-1", {}, "4.4", Effect.NONE),
    ("local.retention.bytes", "1000", "-2", {"remote.storage.enable": "false"}, "4.4", Effect.NONE),
    ("local.retention.bytes", "1000", "-2", {"remote.storage.enable": "TRUE"}, "4.4", Effect.COST),
    ("local.retention.ms", HOUR, "-1", {"remote.storage.enable": "maybe"}, "4.4", Effect.AVAILABILITY),
    ("remote.log.copy.disable", None, "true", {}, "4.4", Effect.NONE),
    # "ignored if message.timestamp.type=LogAppendTime"
    (BEFORE, DAY, HOUR, {"message.timestamp.type": "LogAppendTime"}, "4.4", Effect.NONE),
    (DIFFERENCE, DAY, HOUR, {}, "3.9", Effect.AVAILABILITY),
    # A limit of size is none where a limit of time deletes, and the other way round.
    ("retention.bytes", "1000", "-1", {}, "4.4", Effect.COST),
    ("retention.bytes", "1000", None, {"retention.ms": "-1"}, "4.4", Effect.AVAILABILITY),
    ("retention.ms", DAY, "-1", {"retention.bytes": "1000"}, "4.4", Effect.COST),
    ("retention.ms", DAY, UNLIMITED, {}, "4.4", Effect.AVAILABILITY),
    # Before 4.0 the older config counts in place of one without a limit.
    (BEFORE, DAY, None, {}, "3.9", Effect.NONE),
    (
        "message.timestamp.before.max.ms",
        DAY,
        None,
        {DIFFERENCE: HOUR},
        "3.9",
        Effect.AVAILABILITY,
    ),
    (BEFORE, HOUR, None, {DIFFERENCE: DAY}, "3.9", Effect.NONE),
    (BEFORE, DAY, None, {DIFFERENCE: HOUR}, "4.0", Effect.NONE),
    # Kafka 4.0 has another default: an hour.
    ("message.timestamp.after.max.ms", DAY, None, {}, "3.9", Effect.NONE),
    ("message.timestamp.after.max.ms", DAY, None, {}, "4.0", Effect.AVAILABILITY),
]


@pytest.mark.parametrize(("key", "expected", "actual", "config", "version", "effect"), AMONG_OTHERS)
def test_an_effect_depends_on_the_other_configs_of_the_topic(
    key: str, expected: str | None, actual: str | None, config: dict[str, str], version: str, effect: Effect
) -> None:
    """A config that Kafka does not read has no effect, and a limit that another one replaces only a cost."""
    found = assess_effect(key, expected, actual, TopicFacts({}, parse_version(version), config))
    assert found.effect is effect
    assert found.explanation


def test_reasons_say_what_counts_in_place_of_a_config() -> None:
    """The reason names the condition that the topic does not meet, and the limit that deletes."""
    compacts = TopicFacts({"log.cleanup.policy": "compact"}, config={})
    assert assess_effect("retention.ms", DAY, HOUR, compacts).explanation == (
        "Kafka reads it only with cleanup.policy=delete"
    )
    facts = TopicFacts({"log.retention.hours": "48"}, config={})
    assert assess_effect("retention.bytes", "1000", "-1", facts) == (
        Effect.COST,
        "messages are kept longer, up to 2 days",
    )


def test_every_cost_has_a_reason() -> None:
    """Every row has a reason, also for safe changes, because the documentation page shows it."""
    for key, row in TABLE_OF_RISKS.items():
        if isinstance(row, NumberRisks):
            costs = [row.decrease, row.increase, *([row.unlimited] if row.unlimited else [])]
        else:
            costs = [*row.by_word.values()] or [row.otherwise]
        assert all(cost.explanation and cost.min_factor >= 1 for cost in costs), key


def test_reasons_have_the_numbers_in_words() -> None:
    """A reason states in words the effect on the messages, and not a difference in milliseconds."""
    assert assess_config("retention.ms", DAY, HOUR, {}).explanation == "messages older than 1 hour will be deleted"
    assert assess_config("retention.bytes", "-1", "1048576", {}).explanation == "messages beyond 1 MiB will be deleted"
    compacts = "all but the newest message of each key will be deleted"
    assert assess_config("cleanup.policy", "delete", "compact", {}).explanation == compacts
    stops = "cleanup changes from compact,delete to delete, so other messages are deleted, at other times"
    assert assess_config("cleanup.policy", "compact,delete", "delete", {}).explanation == stops
    disabled = "messages that are only in remote storage are deleted"
    assert assess_config("remote.storage.enable", "true", "false", {}).explanation == disabled
    unclean = "unclean.leader.election.enable"
    lags = "an out-of-sync replica may become leader, and acknowledged messages are then lost"
    assert assess_config(unclean, None, "true", {}).explanation == lags
    assert "brokerConfig" in assess_config(unclean, "false", None, {}).explanation
    for old, before in (("2", "2"), (None, "unknown")):
        needs = f"writes with acks=all need this many in-sync replicas: 1 (before: {before})"
        assert assess_config("min.insync.replicas", old, "1", {}).explanation == needs
    assert "brokerConfig" in assess_config("retention.ms", None, HOUR, {}).explanation
    assert UNKEYED_GROWTH == (SAFE, "its messages have no keys (keyed: false)")
    assert assess_deletion(1, 3).explanation == "all its messages are deleted (1 partition, 3 replicas in all)"


def test_growth_where_anything_compacts() -> None:
    """Growth is data loss where the topic compacts, by override or by a known broker setting."""
    assert assess_growth([{}], {}).risk is DISRUPTIVE
    assert assess_growth([{}], {}, keyed=False) is UNKEYED_GROWTH
    assert assess_growth([{"cleanup.policy": "compact"}], {}, keyed=False).risk is LOSS
    assert assess_growth([{}], {"log.cleanup.policy": "compact"}, keyed=False).risk is LOSS
    assert assess_growth([{}], {"log.cleanup.policy": "delete,compact"}).risk is LOSS
    assert assess_growth([{"cleanup.policy": "delete"}, {"cleanup.policy": "compact"}], {}).risk is LOSS


@given(st.sampled_from(sorted(TOPIC_CONFIGS)), st.none() | texts(), st.none() | texts(), st.booleans())
def test_any_change_has_a_verdict(key: str, before: str | None, after: str | None, known: bool) -> None:
    """Any change of any stored value has a risk, and equal values have none."""
    settings = dict.fromkeys(TOPIC_CONFIGS[key].server_defaults, "5") if known else {}
    verdict = assess_config(key, before, after, settings)
    assert bool(verdict.explanation) == (verdict.risk is not SAFE)
    if before is not None and after is not None and is_equivalent(key, before, after):
        assert verdict.risk is SAFE


@given(st.sampled_from(["retention.ms", "retention.bytes"]), st.integers(-3, 1 << 62), st.integers(-3, 1 << 62))
def test_less_retention_is_always_a_loss(key: str, before: int, after: int) -> None:
    """A lower one of two known limits is data loss; negative numbers mean no limit."""
    old, new = (float("inf") if number < 0 else number for number in (before, after))
    if key == "retention.bytes" or min(before, after) >= -1:
        assert (assess_config(key, str(before), str(after), {}).risk is LOSS) == (new < old)
