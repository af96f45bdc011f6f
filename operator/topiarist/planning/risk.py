"""Assesses the risk of a change: a table of risks, applied to the values before and after.

``planner`` and ``diff`` call it for new plans, ``preconditions`` directly before a write. Where the brokers were not
asked, the value in effect without an override is often unknown. Then the worse case counts. (With
``log.retention.ms=-1`` on the brokers, adding Kafka's documented default as an override deletes every old message.)
Cluster-wide dynamic settings, ``Cluster.spec.brokerConfig`` and the brokers themselves make the value known.

A new risk of a config is a value in its row of ``RISK_TABLE``, with rows in ``MATRIX`` and ``EFFECTS`` of
``test_risk.py``; every config of ``config_table`` has a row. The risk of a new kind of change is a function as
``assess_growth``. Kinds with a risk that depends on the topic at the moment of the write are in ``reassess`` and
``describe_increase`` as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from topiarist.kafka import config_rules, config_values
from topiarist.kafka.types import LONG_MAX, MAX_KAFKA_VERSION, KafkaVersion
from topiarist.model.moves import LeaderChange, ReplicaMove
from topiarist.model.plan import SAFE_ASSESSMENT, AddPartitions, Change, Risk, RiskAssessment, UpdateConfig
from topiarist.text import format_count, humanize_bytes, humanize_duration

# The risk of a change of each topic config, in both directions, with its reason: data without rules.
# ``docs/manifest-fields.md`` shows this table. A reason that applies only to large changes has a ``min_factor``.

SAFE, DISRUPTIVE, DATA_LOSS = Risk.SAFE, Risk.DISRUPTIVE, Risk.DATA_LOSS


class Effect(str, Enum):
    """The effect of a value as long as it is there, the worst first; the reason of a change says how."""

    DATA_LOSS = "DataLoss"
    """Messages, or copies of messages that were acknowledged, are lost now, or by the next fault."""
    AVAILABILITY = "Availability"
    """Clients are refused, or cannot read or write, now or by the next fault; disks fill."""
    COST = "Cost"
    """More disk, memory, processors or network than wanted; slower."""
    ORDER = "Order"
    """Messages meet other messages than wanted: in other partitions, with other timestamps."""
    NONE = "None"
    UNKNOWN = "Unknown"
    """Nothing shows what it does."""


LOSS, OUTAGE, COST, ORDER, NOTHING = Effect.DATA_LOSS, Effect.AVAILABILITY, Effect.COST, Effect.ORDER, Effect.NONE


class ChangeRisk(Struct, frozen=True):
    """A risk and its reason, for a change by ``min_factor`` or more, and what the new value does from then on.

    A smaller change is ``SAFE``, and has no effect. In ``explanation``, ``{limit}`` is replaced by the new value with
    its unit, ``{before}`` and ``{after}`` by the two values unchanged.
    """

    risk: Risk
    effect: Effect
    explanation: str
    min_factor: int = 1


_NO_RISK = ChangeRisk(SAFE, NOTHING, "")


class NumberRisks(Struct, frozen=True):
    """The risks of a number that becomes lower or higher.

    A negative number means no limit, and counts as the highest. ``unlimited`` replaces ``increase`` if the new value is
    no limit or the highest possible number.
    """

    decrease: ChangeRisk
    increase: ChangeRisk
    unlimited: ChangeRisk | None = None


class WordRisks(Struct, frozen=True):
    """The risks of a value that becomes a given word.

    ``otherwise`` is the risk of any word that ``by_word`` does not have.
    """

    by_word: Mapping[str, ChangeRisk] = field(default_factory=dict)
    otherwise: ChangeRisk = _NO_RISK


def _boolean_risks(true: ChangeRisk, false: ChangeRisk) -> WordRisks:
    return WordRisks({"true": true, "false": false})


_MORE_CPU = ChangeRisk(SAFE, COST, "brokers need more CPU to compress new batches")
_LESS_CPU = ChangeRisk(SAFE, COST, "new batches take more disk space")
_COMPRESSION_LEVEL = NumberRisks(_LESS_CPU, _MORE_CPU)
_MORE_FILES = "many more files: memory and open files on the brokers"
_MORE_LOCAL_DATA = "more data stays on the brokers' disks, up to {limit}"
# Brokers delete a local segment only after its copy in remote storage; without remote storage they ignore the config.
_READ_REMOTELY = "leave the brokers' disks, and are read from remote storage, which takes longer"
_THROTTLED_REPLICAS = WordRisks(
    otherwise=ChangeRisk(
        DISRUPTIVE, OUTAGE, "replication is throttled, so that replicas may fall out of sync, or no longer throttled"
    )
)
_LIMIT_REMOVED = ChangeRisk(DISRUPTIVE, OUTAGE, "nothing is deleted any more, so disks fill up")
_DIFFERENCE_APPLIES = ChangeRisk(
    DISRUPTIVE, OUTAGE, "message.timestamp.difference.max.ms applies from now on, and may be lower"
)
_EARLIER_COPY = ChangeRisk(SAFE, NOTHING, "segments are copied to remote storage sooner")
_LATER_COPY = ChangeRisk(
    SAFE, NOTHING, "segments are copied to remote storage later, and are on the brokers alone until then"
)
_LATER_FLUSH = "acknowledged messages reach the disk later, and are lost if all replicas lose power before that"
_FEWER_IN_SYNC = "writes with acks=all need this many in-sync replicas: {after} (before: {before})"
_MORE_FLUSHES = "the log is forced to disk more often, so writes become slower"

RISK_TABLE: Mapping[str, NumberRisks | WordRisks] = {
    "cleanup.policy": WordRisks(
        otherwise=ChangeRisk(
            DATA_LOSS, LOSS, "cleanup changes from {before} to {after}, so other messages are deleted, at other times"
        ),
    ),
    "compression.gzip.level": _COMPRESSION_LEVEL,
    "compression.lz4.level": _COMPRESSION_LEVEL,
    "compression.type": WordRisks(
        otherwise=ChangeRisk(DISRUPTIVE, COST, "brokers may have to compress the batches of producers again")
    ),
    "compression.zstd.level": _COMPRESSION_LEVEL,
    "delete.retention.ms": NumberRisks(
        ChangeRisk(DATA_LOSS, LOSS, "tombstones are removed after {limit}, perhaps before a consumer has read them"),
        ChangeRisk(SAFE, COST, "tombstones are kept longer"),
    ),
    "errors.deadletterqueue.group.enable": _boolean_risks(
        ChangeRisk(SAFE, NOTHING, "share groups may write undeliverable messages to the topic"),
        ChangeRisk(DISRUPTIVE, OUTAGE, "share groups can no longer write undeliverable messages to the topic"),
    ),
    "file.delete.delay.ms": NumberRisks(
        ChangeRisk(
            SAFE, NOTHING, "files of deleted segments are removed sooner; their messages were already unreadable"
        ),
        ChangeRisk(DISRUPTIVE, COST, "files of deleted segments stay much longer, so disks fill up", 10),
    ),
    "flush.messages": NumberRisks(
        ChangeRisk(DISRUPTIVE, COST, _MORE_FLUSHES), ChangeRisk(DISRUPTIVE, LOSS, _LATER_FLUSH)
    ),
    "flush.ms": NumberRisks(ChangeRisk(DISRUPTIVE, COST, _MORE_FLUSHES), ChangeRisk(DISRUPTIVE, LOSS, _LATER_FLUSH)),
    "follower.replication.throttled.replicas": _THROTTLED_REPLICAS,
    "index.interval.bytes": NumberRisks(
        ChangeRisk(DISRUPTIVE, COST, "indexes grow, so segments roll sooner, into more files", 10),
        ChangeRisk(SAFE, COST, "reads from an offset take a little longer to find it"),
    ),
    "leader.replication.throttled.replicas": _THROTTLED_REPLICAS,
    "local.retention.bytes": NumberRisks(
        ChangeRisk(DISRUPTIVE, COST, f"messages beyond {{limit}} {_READ_REMOTELY}"),
        ChangeRisk(DISRUPTIVE, COST, _MORE_LOCAL_DATA),
        _LIMIT_REMOVED,
    ),
    "local.retention.ms": NumberRisks(
        ChangeRisk(DISRUPTIVE, COST, f"messages older than {{limit}} {_READ_REMOTELY}"),
        ChangeRisk(DISRUPTIVE, COST, _MORE_LOCAL_DATA),
        _LIMIT_REMOVED,
    ),
    "max.compaction.lag.ms": NumberRisks(
        ChangeRisk(DATA_LOSS, LOSS, "compaction removes older values of a key after {limit} at the latest"),
        ChangeRisk(SAFE, COST, "older values of a key may stay longer"),
    ),
    "max.decompressed.message.bytes": NumberRisks(
        ChangeRisk(DISRUPTIVE, OUTAGE, "larger messages are refused from now on; those stored already stop compaction"),
        ChangeRisk(DISRUPTIVE, COST, "much larger messages: brokers and consumers need more memory", 10),
    ),
    "max.message.bytes": NumberRisks(
        ChangeRisk(DISRUPTIVE, OUTAGE, "larger messages are refused from now on"),
        ChangeRisk(DISRUPTIVE, COST, "much larger messages: brokers, consumers and mirrors need more memory", 10),
    ),
    "message.downconversion.enable": _boolean_risks(
        ChangeRisk(SAFE, COST, "consumers with an older message format are served"),
        ChangeRisk(DISRUPTIVE, OUTAGE, "consumers with an older message format are refused from now on"),
    ),
    "message.format.version": WordRisks(
        otherwise=ChangeRisk(
            DISRUPTIVE,
            OUTAGE,
            "the format of new messages changes: headers, transactions and old consumers depend on it",
        ),
    ),
    "message.timestamp.after.max.ms": NumberRisks(
        ChangeRisk(DISRUPTIVE, OUTAGE, "messages with a timestamp further in the future are refused from now on"),
        ChangeRisk(SAFE, NOTHING, "more messages are accepted"),
        _DIFFERENCE_APPLIES,
    ),
    "message.timestamp.before.max.ms": NumberRisks(
        ChangeRisk(DISRUPTIVE, OUTAGE, "messages with an older timestamp are refused from now on"),
        ChangeRisk(SAFE, NOTHING, "more messages are accepted"),
        _DIFFERENCE_APPLIES,
    ),
    "message.timestamp.difference.max.ms": NumberRisks(
        ChangeRisk(DISRUPTIVE, OUTAGE, "messages with a timestamp further from the clock are refused from now on"),
        ChangeRisk(SAFE, NOTHING, "more messages are accepted"),
    ),
    "message.timestamp.type": WordRisks(
        {
            "CreateTime": ChangeRisk(
                DATA_LOSS,
                LOSS,
                "retention uses the producers' timestamps, so messages with an old timestamp are deleted",
            ),
            "LogAppendTime": ChangeRisk(
                DISRUPTIVE, ORDER, "brokers set the timestamps, and retention by time uses them"
            ),
        }
    ),
    "min.cleanable.dirty.ratio": NumberRisks(
        ChangeRisk(
            DISRUPTIVE,
            COST,
            "the log is compacted more often: older values of a key are removed sooner, more disk traffic",
        ),
        ChangeRisk(DISRUPTIVE, COST, "more data stays uncompacted, so disks fill up and reading all keys takes longer"),
    ),
    "min.compaction.lag.ms": NumberRisks(
        ChangeRisk(DATA_LOSS, LOSS, "compaction may remove older values of a key after {limit}"),
        ChangeRisk(DISRUPTIVE, COST, "more data stays uncompacted, so disks fill up and reading all keys takes longer"),
    ),
    "min.insync.replicas": NumberRisks(
        ChangeRisk(DISRUPTIVE, LOSS, _FEWER_IN_SYNC),
        ChangeRisk(DISRUPTIVE, OUTAGE, _FEWER_IN_SYNC),
    ),
    "preallocate": _boolean_risks(
        ChangeRisk(DISRUPTIVE, COST, "each new segment takes its whole size at once, so disks fill up"),
        ChangeRisk(SAFE, NOTHING, "new segments grow as they are written"),
    ),
    "remote.copy.lag.bytes": NumberRisks(_EARLIER_COPY, _LATER_COPY),
    "remote.copy.lag.ms": NumberRisks(_EARLIER_COPY, _LATER_COPY),
    "remote.log.copy.disable": _boolean_risks(
        ChangeRisk(DISRUPTIVE, COST, "no more segments are copied to remote storage, so local disks fill up"),
        ChangeRisk(SAFE, NOTHING, "segments are copied to remote storage again"),
    ),
    "remote.log.delete.on.disable": _boolean_risks(
        # It deletes nothing itself: Kafka deletes when remote storage is disabled, which has its own row.
        ChangeRisk(DISRUPTIVE, NOTHING, "disabling remote storage will delete the messages in it"),
        ChangeRisk(SAFE, NOTHING, "messages in remote storage stay there"),
    ),
    "remote.storage.enable": _boolean_risks(
        ChangeRisk(DISRUPTIVE, COST, "old segments move to remote storage, which cannot be undone"),
        ChangeRisk(DATA_LOSS, LOSS, "messages that are only in remote storage are deleted"),
    ),
    "retention.bytes": NumberRisks(
        ChangeRisk(DATA_LOSS, LOSS, "messages beyond {limit} will be deleted"),
        ChangeRisk(DISRUPTIVE, COST, "messages are kept longer, up to {limit}"),
        _LIMIT_REMOVED,
    ),
    "retention.ms": NumberRisks(
        ChangeRisk(DATA_LOSS, LOSS, "messages older than {limit} will be deleted"),
        ChangeRisk(DISRUPTIVE, COST, "messages are kept longer, up to {limit}"),
        _LIMIT_REMOVED,
    ),
    "segment.bytes": NumberRisks(
        ChangeRisk(DISRUPTIVE, COST, _MORE_FILES, 10),
        ChangeRisk(DISRUPTIVE, COST, "whole segments are deleted and compacted, so this happens much later", 10),
    ),
    "segment.index.bytes": NumberRisks(
        ChangeRisk(DISRUPTIVE, COST, _MORE_FILES, 10),
        ChangeRisk(DISRUPTIVE, COST, "each open segment reserves much more memory and disk", 10),
    ),
    "segment.jitter.ms": NumberRisks(
        ChangeRisk(DISRUPTIVE, COST, "segments roll at the same time", 10),
        ChangeRisk(SAFE, NOTHING, "segments begin at different times"),
    ),
    "segment.ms": NumberRisks(
        ChangeRisk(DISRUPTIVE, COST, _MORE_FILES, 10),
        ChangeRisk(DISRUPTIVE, COST, "whole segments are deleted and compacted, so this happens much later", 10),
    ),
    "unclean.leader.election.enable": _boolean_risks(
        ChangeRisk(
            DATA_LOSS, LOSS, "an out-of-sync replica may become leader, and acknowledged messages are then lost"
        ),
        ChangeRisk(DISRUPTIVE, OUTAGE, "partitions stay offline as long as no in-sync replica is online"),
    ),
}
"""The risks of each config, by key."""

UNKNOWN_KEY_RISK = ChangeRisk(DISRUPTIVE, Effect.UNKNOWN, "not a config of Kafka: topiarist does not know its effect")
"""The risk of a vendor's own key."""


class EffectAssessment(NamedTuple):
    """The effect of a value that is not the expected one, and how it works; empty for ``NONE``."""

    effect: Effect
    explanation: str = ""


class TopicFacts(NamedTuple):
    """The facts beside its own values that decide the effect of a config.

    ``settings`` are those of the brokers, under their names. ``config`` are all overrides of the topic, None if they
    are not known: then each config is judged by itself.
    """

    settings: Mapping[str, str] = {}
    version: KafkaVersion = MAX_KAFKA_VERSION
    config: Mapping[str, str] | None = None

    def find_value(self, key: str, text: str | None) -> str:
        """Return the value in effect of an override: without one that of the brokers, else Kafka's default."""
        setting = config_rules.server_default(key, self.settings) if text is None else text
        return config_rules.kafka_default(key, self.version) if setting is None else setting


NO_FACTS = TopicFacts()

_READ_ONLY_WITH: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(("retention.bytes", "retention.ms"), ("cleanup.policy", "delete")),
    **dict.fromkeys(("delete.retention.ms", "min.cleanable.dirty.ratio"), ("cleanup.policy", "compact")),
    **dict.fromkeys(("max.compaction.lag.ms", "min.compaction.lag.ms"), ("cleanup.policy", "compact")),
    **{f"compression.{name}.level": ("compression.type", name) for name in ("gzip", "lz4", "zstd")},
    **dict.fromkeys(("local.retention.bytes", "local.retention.ms"), ("remote.storage.enable", "true")),
    "remote.log.copy.disable": ("remote.storage.enable", "true"),
    **{
        f"message.timestamp.{name}.max.ms": ("message.timestamp.type", "CreateTime")
        for name in ("after", "before", "difference")
    },
}
"""Configs that Kafka ignores unless another one has, or its list contains, a value."""

_NEXT_LIMIT = {
    **{"retention.bytes": "retention.ms", "retention.ms": "retention.bytes"},
    "message.timestamp.after.max.ms": "message.timestamp.difference.max.ms",
    "message.timestamp.before.max.ms": "message.timestamp.difference.max.ms",
}
"""The config that limits a topic where one of these sets no limit."""

_NO_LIMIT = float("inf")
_UNKNOWN_SETTING = "the brokers' setting is unknown and may {be} {word}: declare it in Cluster.spec.brokerConfig"

UNKEYED_GROWTH = RiskAssessment(Risk.SAFE, "its messages have no keys (keyed: false)")
"""The assessment of growth that moves no keys; all other safe changes have no explanation."""


def assess_growth(
    configs: Iterable[Mapping[str, str]], settings: Mapping[str, str], *, keyed: bool = True
) -> RiskAssessment:
    """Return the risk of adding partitions, which moves keys to other partitions.

    ``configs`` are the overrides before and after. If one of them compacts the topic, old values and Kafka's tombstones
    stay in the old partitions, and messages have keys whatever ``keyed`` says: Kafka compacts no others.
    """
    default = config_rules.server_default("cleanup.policy", settings) or ""
    if any("compact" in config.get("cleanup.policy", default) for config in configs):
        return RiskAssessment(
            Risk.DATA_LOSS, "keys map to other partitions: old values and tombstones stay in the old ones, uncompacted"
        )
    if not keyed:
        return UNKEYED_GROWTH
    return RiskAssessment(Risk.DISRUPTIVE, "keys map to other partitions")


def assess_deletion(partitions: int, replicas: int) -> RiskAssessment:
    """Return the risk of a deletion, which always loses all data."""
    copies = f"{format_count(partitions, 'partition')}, {format_count(replicas, 'replica')} in all"
    return RiskAssessment(Risk.DATA_LOSS, f"all its messages are deleted ({copies})")


def assess_moves(moves: Sequence[ReplicaMove]) -> RiskAssessment:
    """Return the risk of moving replicas.

    Another order of the same brokers is safe: nothing is copied, and the leader stays until a preferred election.
    """
    lowering = assess_lowering(moves)
    if lowering.risk is Risk.DATA_LOSS:
        return lowering
    copies = sum(len(move.added) for move in moves)
    leaders = sum(move.before[0] not in move.after for move in moves)
    parts = [
        f"copies {format_count(copies, 'replica')}" if copies else "",
        f"leaders of {format_count(leaders, 'partition')} change" if leaders else "",
        lowering.explanation,
    ]
    explanation = "; ".join(filter(None, parts))
    return RiskAssessment(Risk.DISRUPTIVE, explanation) if explanation else SAFE_ASSESSMENT


def assess_lowering(moves: Sequence[ReplicaMove]) -> RiskAssessment:
    """Return the risk of the moves that leave fewer replicas than before; safe if none does.

    The explanation names the partition that loses the most.
    """
    lowered = [(len(move.before), len(move.after)) for move in moves if len(move.after) < len(move.before)]
    if not lowered:
        return SAFE_ASSESSMENT
    if single := sum(after == 1 for _, after in lowered):
        count = format_count(single, "partition")
        return RiskAssessment(Risk.DATA_LOSS, f"{count} with one replica: if its broker is lost, so are the messages")
    before, after = max(lowered, key=lambda widths: (widths[0] - widths[1], -widths[1]))
    fewer = "one broker" if before - after == 1 else f"{before - after} brokers"
    return RiskAssessment(Risk.DISRUPTIVE, f"{before} -> {after} replicas: {fewer} less may fail")


def assess_elections(partitions: Sequence[LeaderChange]) -> RiskAssessment:
    """Return the risk of electing leaders: clients of the partitions reconnect."""
    return RiskAssessment(Risk.DISRUPTIVE, f"leaders of {format_count(len(partitions), 'partition')} change")


def assess_config(key: str, before: str | None, after: str | None, settings: Mapping[str, str]) -> RiskAssessment:
    """Return the risk of one override that changes from ``before`` to ``after``.

    None means no override: the brokers' setting is in effect. ``settings`` are the known broker settings, under broker
    names.
    """
    if before == after:
        return SAFE_ASSESSMENT
    row = RISK_TABLE.get(key)
    if row is None:
        return _make_assessment(UNKNOWN_KEY_RISK)
    old = before if before is not None else config_rules.server_default(key, settings)
    new = after if after is not None else config_rules.server_default(key, settings)
    if old is not None and new is not None and config_values.is_equivalent(key, old, new):
        return SAFE_ASSESSMENT
    # -2 means the value of retention.*, which may be unknown.
    if key.startswith("local.retention.") and "-2" in (old, new):
        return RiskAssessment(
            DISRUPTIVE, f"{key} -2 means {key.removeprefix('local.')}: less may stay on the brokers' disks"
        )
    return _assess_number(key, row, old, new) if isinstance(row, NumberRisks) else _assess_word(key, row, old, new)


def reassess(
    change: Change, before: Mapping[str, str], after: Mapping[str, str], settings: Mapping[str, str]
) -> Change:
    """Return the change with its risk on a topic with other overrides.

    ``before`` are the overrides of the topic, ``after`` those after all changes. A creation and a change of the
    ownership record alone are always safe; a deletion always loses all data.
    """
    match change:
        case AddPartitions():
            return replace(change, assessment=assess_growth((before, after), settings, keyed=change.keyed))
        case UpdateConfig(items):
            verdicts = [assess_config(item.key, item.before, item.after, settings) for item in items]
            return UpdateConfig(
                tuple(item._replace(assessment=verdict) for item, verdict in zip(items, verdicts, strict=True))
            )
    return change


def describe_increase(planned: Change, current: Change) -> str:
    """Return how a change is riskier than planned; empty if it is not.

    The text has both risks and the reason.
    """
    match planned, current:
        case UpdateConfig(), UpdateConfig():
            pairs = [
                (f"the change of {item.key}", item.assessment, now.assessment)
                for item, now in zip(planned.items, current.items, strict=True)
            ]
        case _:
            pairs = [("the growth", planned.assessment, current.assessment)]
    return "; ".join(
        f"{what} was planned as {was.risk.label}, and is {verdict.risk.label} now: {verdict.explanation}"
        for what, was, verdict in pairs
        if verdict.risk > was.risk
    )


def assess_effect(key: str, expected: str | None, actual: str | None, facts: TopicFacts) -> EffectAssessment:
    """Return what the actual value of a config does where another one is expected: the effect of that change.

    None means no override. Then the brokers' setting counts, and Kafka's default if it is unknown: a value that is
    there already is judged by what is likely, and a change of it by the worst that is possible.
    """
    row = RISK_TABLE.get(key)
    if row is None:
        return EffectAssessment(UNKNOWN_KEY_RISK.effect, UNKNOWN_KEY_RISK.explanation)
    old, new = (facts.find_value(key, text) for text in (expected, actual))
    if config_values.is_equivalent(key, old, new):
        return EffectAssessment(NOTHING)
    if facts.config is not None and (unread := _explain_unread(key, facts)):
        return EffectAssessment(NOTHING, unread)
    if key.startswith("local.retention.") and "-2" in (old, new):
        return EffectAssessment(COST, f"{key} -2 means {key.removeprefix('local.')}")
    if isinstance(row, NumberRisks):
        found, limit = _find_number_risk(key, row, old, new), _describe_limit(key, _parse_number(key, new))
        if found is row.unlimited and facts.config is not None and key in _NEXT_LIMIT:
            found, limit = _find_next_limit(key, row, old, facts)
        return EffectAssessment(found.effect, found.explanation.format(limit=limit, before=old, after=new))
    if key == "cleanup.policy" and not _list_cleanups(new):
        return EffectAssessment(_LIMIT_REMOVED.effect, _LIMIT_REMOVED.explanation)
    if key == "cleanup.policy" and _list_cleanups(new) < _list_cleanups(old):
        return EffectAssessment(COST, f"cleanup is {new} alone, and no longer {old}, so messages are kept longer")
    found = row.by_word.get(_normalize_word(row, new) or "", row.otherwise)
    return EffectAssessment(found.effect, found.explanation.format(before=old or "off", after=new or "off"))


def _explain_unread(key: str, facts: TopicFacts) -> str:
    """Return the condition under which Kafka reads a config, if the topic does not meet it; else empty."""
    other, text = _READ_ONLY_WITH.get(key, ("", ""))
    if not other:
        return ""
    found = config_rules.effective_value(other, facts.config or {}, facts.settings, facts.version)
    wanted = config_values.parse_value(other, text)
    is_met = wanted <= found if isinstance(found, frozenset) and isinstance(wanted, frozenset) else found == wanted
    return "" if is_met or found is None else f"Kafka reads it only with {other}={text}"


def _find_next_limit(key: str, row: NumberRisks, before: str, facts: TopicFacts) -> tuple[ChangeRisk, str]:
    """Return what a value without limit does, and the limit in words that counts in its place."""
    other, config = _NEXT_LIMIT[key], facts.config or {}
    is_dropped = config_rules.is_dropped(other, facts.version)
    limit = _NO_LIMIT if is_dropped else _parse_number(other, facts.find_value(other, config.get(other)))
    if key.startswith("retention."):
        is_worst = limit in (None, _NO_LIMIT)
    else:
        is_worst = (limit or 0) < (_parse_number(key, before) or 0)
    return row.unlimited if row.unlimited and is_worst else row.increase, _describe_limit(other, limit)


def _list_cleanups(policy: str) -> set[str]:
    return {word.strip() for word in policy.split(",")} - {""}


def _find_number_risk(key: str, row: NumberRisks, before: str | None, after: str | None) -> ChangeRisk:
    """Return the worst possible risk; if a value is unknown, the number may become lower or higher."""
    old, new = _parse_number(key, before), _parse_number(key, after)
    increase = row.unlimited if row.unlimited and new == _NO_LIMIT else row.increase
    possible = [
        change_risk
        for change_risk, larger, smaller in ((row.decrease, old, new), (increase, new, old))
        if _may_exceed(larger, smaller, change_risk.min_factor)
    ]
    return max(possible, key=lambda change_risk: change_risk.risk, default=_NO_RISK)


def _describe_limit(key: str, value: float | None) -> str:
    if value is None:
        return "the brokers' setting"
    if value == _NO_LIMIT:
        return "without limit"
    return humanize_bytes(int(value)) if key.endswith("bytes") else humanize_duration(int(value))


def _assess_number(key: str, row: NumberRisks, before: str | None, after: str | None) -> RiskAssessment:
    """Return the assessment of the worst possible risk."""
    worst, new = _find_number_risk(key, row, before, after), _parse_number(key, after)
    if worst.risk is Risk.DATA_LOSS and (_parse_number(key, before) is None or new is None):
        return _assess_unknown("lower" if new is None else "higher", after)
    limit = _describe_limit(key, new)
    return _make_assessment(worst, limit=limit, before=before or "unknown", after=after or "unknown")


def _may_exceed(value: float | None, reference: float | None, factor: int) -> bool:
    """Return whether ``value`` is, or may be, larger than ``reference`` by ``factor``."""
    # An unknown value may be any value; but 0 is larger than no other value, and no value is larger than no limit.
    if value is None or reference is None:
        return value != 0 and reference != _NO_LIMIT
    return value > reference and value >= reference * factor


def _assess_word(key: str, row: WordRisks, before: str | None, after: str | None) -> RiskAssessment:
    old, new = _normalize_word(row, before), _normalize_word(row, after)
    if new is None:
        possible = row.by_word or {"different": row.otherwise}
        word, worst = max(
            ((word, risk) for word, risk in possible.items() if word != old), key=lambda pair: pair[1].risk
        )
        if worst.risk is Risk.DATA_LOSS:
            return _assess_unknown(word, None)
        return _make_assessment(worst, before=before, after="unknown")
    change_risk = row.by_word.get(new, row.otherwise)
    if key == "cleanup.policy" and old is None:
        return _assess_unknown("different", new)
    if key == "cleanup.policy" and "compact" in new and "compact" not in (old or ""):
        return RiskAssessment(change_risk.risk, "all but the newest message of each key will be deleted")
    return _make_assessment(change_risk, before=before or "off", after=after or "off")


def _normalize_word(row: WordRisks, text: str | None) -> str | None:
    """Return the value as the row spells it, ignoring the case of booleans."""
    word = None if text is None else text.strip()
    return word.lower() if word is not None and word.lower() in row.by_word else word


def _assess_unknown(word: str, after: str | None) -> RiskAssessment:
    """Return the assessment of an unknown broker setting, which may be, or have been, the worst one."""
    return RiskAssessment(Risk.DATA_LOSS, _UNKNOWN_SETTING.format(be="be" if after is None else "have been", word=word))


def _make_assessment(change_risk: ChangeRisk, **values: str | None) -> RiskAssessment:
    if change_risk.risk is Risk.SAFE:
        return SAFE_ASSESSMENT
    return RiskAssessment(change_risk.risk, change_risk.explanation.format(**values))


def _parse_number(key: str, text: str | None) -> float | None:
    """Return the value as a number, no limit as infinity, and an unknown or unreadable value as None."""
    if text is None or config_values.check_value(key, text):
        return None
    value = config_values.parse_value(key, text)
    number = value if isinstance(value, int) else float(str(value))
    return _NO_LIMIT if number < 0 or number >= LONG_MAX else number
