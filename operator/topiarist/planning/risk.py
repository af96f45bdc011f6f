"""What a change may cost: ``risktable`` applied to two values, wherever a risk is shown or asked about.

ZooKeeper does not show the brokers' static settings, so the value that holds where a topic has no override is often
unknown; then the worse case counts. (With ``log.retention.ms=-1`` on the brokers, adding Kafka's documented default
as an override deletes every old message.) ``/config/brokers/<default>`` and ``Cluster.spec.brokerConfig`` make it
known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from topiarist.kafka import config_rules, config_values
from topiarist.kafka.java_numbers import LONG_MAX
from topiarist.model.plan import SAFE_ASSESSMENT, AddPartitions, Change, Risk, RiskAssessment, UpdateConfig
from topiarist.planning.risk_table import RISK_TABLE, UNKNOWN_KEY_RISK, ChangeRisk, NumberRisks, WordRisks
from topiarist.text import format_count, humanize_bytes, humanize_duration

_NO_LIMIT = float("inf")
_UNKNOWN_SETTING = "the brokers' own setting is not known: it may {be} {word} (Cluster.spec.brokerConfig says it)"


def assess_growth(configs: Iterable[Mapping[str, str]], settings: Mapping[str, str]) -> RiskAssessment:
    """Adding partitions moves keys; where the topic compacts, old values and tombstones stay behind.

    ``configs`` are the overrides before and after: it is enough if one of them compacts.
    """
    default = config_rules.server_default("cleanup.policy", settings) or ""
    if any("compact" in config.get("cleanup.policy", default) for config in configs):
        return RiskAssessment(
            Risk.DATA_LOSS, "keys move to other partitions: old values and tombstones stay where they are, uncompacted"
        )
    return RiskAssessment(Risk.DISRUPTIVE, "keys will map to other partitions")


def assess_deletion(partitions: int, replicas: int) -> RiskAssessment:
    """Deletion loses everything."""
    copies = f"{format_count(partitions, 'partition')}, {format_count(replicas, 'replica')} in all"
    return RiskAssessment(Risk.DATA_LOSS, f"all its messages are deleted ({copies})")


def assess_config(key: str, before: str | None, after: str | None, settings: Mapping[str, str]) -> RiskAssessment:
    """The risk of one override going from ``before`` to ``after`` (None: no override, the brokers' setting holds).

    ``settings`` is what is known of the brokers' settings, under broker names.
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
    if key.startswith("local.retention.") and "-2" in (old, new):  # follows retention.*, which may not be known
        return RiskAssessment(Risk.DATA_LOSS, f"{key} -2 follows {key.removeprefix('local.')}: less may be kept")
    return _assess_number(key, row, old, new) if isinstance(row, NumberRisks) else _assess_word(key, row, old, new)


def reassess(
    change: Change, before: Mapping[str, str], after: Mapping[str, str], settings: Mapping[str, str]
) -> Change:
    """The change with the risk that it has on a topic whose overrides are ``before``, and ``after`` once all is done.

    A creation and a change of the record alone are always safe, a deletion always loses everything.
    """
    match change:
        case AddPartitions():
            return replace(change, assessment=assess_growth((before, after), settings))
        case UpdateConfig(items):
            return UpdateConfig(
                tuple(
                    item._replace(assessment=assess_config(item.key, item.before, item.after, settings))
                    for item in items
                )
            )
    return change


def describe_increase(planned: Change, current: Change) -> str:
    """What is riskier about a change than it was ``planned``, with both risks and the reason; empty if nothing is."""
    match planned, current:
        case UpdateConfig(), UpdateConfig():
            pairs = [
                (f"to change {one.key}", one.assessment, other.assessment)
                for one, other in zip(planned.items, current.items, strict=True)
            ]
        case _:
            pairs = [("to add partitions", planned.assessment, current.assessment)]
    return "; ".join(
        f"{what} was planned as {was.risk.label}, and is {verdict.risk.label} now: {verdict.explanation}"
        for what, was, verdict in pairs
        if verdict.risk > was.risk
    )


def _assess_number(key: str, row: NumberRisks, before: str | None, after: str | None) -> RiskAssessment:
    """Return the worst verdict that is possible: where a side is not known, both directions may be."""
    old, new = _parse_number(key, before), _parse_number(key, after)
    higher = row.unlimited if row.unlimited and new == _NO_LIMIT else row.increase
    costs = []
    if _may_exceed(old, new, row.decrease.min_factor):
        costs.append(row.decrease)
    if _may_exceed(new, old, higher.min_factor):
        costs.append(higher)
    cost = max(costs, key=lambda one: one.risk, default=ChangeRisk(Risk.SAFE, ""))
    if cost.risk is Risk.DATA_LOSS and (old is None or new is None):
        return _assess_unknown("less" if new is None else "more", after)
    limit = "what the brokers have" if new is None else _format_number(key, new)
    return _make_assessment(cost, limit=limit, before=before or "unknown", after=after or "unknown")


def _may_exceed(value: float | None, reference: float | None, factor: int) -> bool:
    """Return whether ``value`` is, or may be, more than ``reference`` and at least ``factor`` times as much."""
    if value is None or reference is None:
        return value != 0 and reference != _NO_LIMIT
    return value > reference and value >= reference * factor


def _assess_word(key: str, row: WordRisks, before: str | None, after: str | None) -> RiskAssessment:
    old, new = _normalize_word(row, before), _normalize_word(row, after)
    if new is None:
        word, cost = max(
            ((word, cost) for word, cost in (row.by_word or {"different": row.otherwise}).items() if word != old),
            key=lambda one: one[1].risk,
        )
        return (
            _assess_unknown(word, None)
            if cost.risk is Risk.DATA_LOSS
            else _make_assessment(cost, before=before, after="unknown")
        )
    cost = row.by_word.get(new, row.otherwise)
    if key == "cleanup.policy" and old is None:
        return _assess_unknown("different", new)
    if key == "cleanup.policy" and "compact" in new and "compact" not in (old or ""):
        return RiskAssessment(cost.risk, "all but the newest message of each key will be deleted")
    return _make_assessment(cost, before=before or "off", after=after or "off")


def _normalize_word(row: WordRisks, text: str | None) -> str | None:
    """Return the value as the row has it; the case of a truth value does not count."""
    word = None if text is None else text.strip()
    return word.lower() if word is not None and word.lower() in row.by_word else word


def _assess_unknown(word: str, after: str | None) -> RiskAssessment:
    """Return the verdict on a value of the brokers that is not known, and may be, or have been, the worst one."""
    return RiskAssessment(Risk.DATA_LOSS, _UNKNOWN_SETTING.format(be="be" if after is None else "have been", word=word))


def _make_assessment(cost: ChangeRisk, **values: str | None) -> RiskAssessment:
    return SAFE_ASSESSMENT if cost.risk is Risk.SAFE else RiskAssessment(cost.risk, cost.explanation.format(**values))


def _parse_number(key: str, text: str | None) -> float | None:
    """Return the value as a number, without limit as infinity; None if it is not known, or not readable."""
    if text is None or config_values.check_value(key, text):
        return None
    value = config_values.parse_value(key, text)
    number = value if isinstance(value, int) else float(str(value))
    return _NO_LIMIT if number < 0 or number >= LONG_MAX else number


def _format_number(key: str, number: float) -> str:
    if number == _NO_LIMIT:
        return "without limit"
    return humanize_bytes(int(number)) if key.endswith("bytes") else humanize_duration(int(number))
