"""What a change may cost: ``risktable`` applied to two values, wherever a risk is shown or asked about.

ZooKeeper does not show the brokers' static settings, so the value that holds where a topic has no override is often
unknown; then the worse case counts. (With ``log.retention.ms=-1`` on the brokers, adding Kafka's documented default
as an override deletes every old message.) ``/config/brokers/<default>`` and ``Cluster.spec.brokerConfig`` make it
known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from topiarist.core import configs
from topiarist.core.change import SAFE, AddPartitions, Change, Risk, UpdateConfig, Verdict
from topiarist.core.javatext import LONG_MAX
from topiarist.core.risktable import TABLE, UNKNOWN_KEY, Cost, Numeric, Words
from topiarist.core.units import count, duration, size

_UNLIMITED = float("inf")
_UNKNOWN = "the brokers' own setting is not known: it may {be} {word} (Cluster.spec.brokerConfig says it)"


def of_growth(configs_held: Iterable[Mapping[str, str]], settings: Mapping[str, str]) -> Verdict:
    """Adding partitions moves keys; where the topic compacts, old values and tombstones stay behind.

    ``configs_held`` are the overrides before and after: it is enough if one of them compacts.
    """
    default = configs.server_default("cleanup.policy", settings) or ""
    if any("compact" in config.get("cleanup.policy", default) for config in configs_held):
        return Verdict(
            Risk.DATA_LOSS, "keys move to other partitions: old values and tombstones stay where they are, uncompacted"
        )
    return Verdict(Risk.DISRUPTIVE, "keys will map to other partitions")


def of_deletion(partitions: int, replicas: int) -> Verdict:
    """Deletion loses everything."""
    copies = f"{count(partitions, 'partition')}, {count(replicas, 'replica')} in all"
    return Verdict(Risk.DATA_LOSS, f"all its messages are deleted ({copies})")


def of_config(key: str, before: str | None, after: str | None, settings: Mapping[str, str]) -> Verdict:
    """The risk of one override going from ``before`` to ``after`` (None: no override, the brokers' setting holds).

    ``settings`` is what is known of the brokers' settings, under broker names.
    """
    if before == after:
        return SAFE
    row = TABLE.get(key)
    if row is None:
        return _verdict(UNKNOWN_KEY)
    old = before if before is not None else configs.server_default(key, settings)
    new = after if after is not None else configs.server_default(key, settings)
    if old is not None and new is not None and configs.equal(key, old, new):
        return SAFE
    if key.startswith("local.retention.") and "-2" in (old, new):  # follows retention.*, which may not be known
        return Verdict(Risk.DATA_LOSS, f"{key} -2 follows {key.removeprefix('local.')}: less may be kept")
    return _of_number(key, row, old, new) if isinstance(row, Numeric) else _of_word(key, row, old, new)


def rejudged(
    change: Change, before: Mapping[str, str], after: Mapping[str, str], settings: Mapping[str, str]
) -> Change:
    """The change with the risk that it has on a topic whose overrides are ``before``, and ``after`` once all is done.

    A creation and a change of the record alone are always safe, a deletion always loses everything.
    """
    match change:
        case AddPartitions():
            return replace(change, verdict=of_growth((before, after), settings))
        case UpdateConfig(items):
            return UpdateConfig(
                tuple(item._replace(verdict=of_config(item.key, item.before, item.after, settings)) for item in items)
            )
    return change


def risen(shown: Change, now: Change) -> str:
    """What is riskier about a change than it was ``shown``, with both risks and the reason; empty if nothing is."""
    match shown, now:
        case UpdateConfig(), UpdateConfig():
            pairs = [
                (f"to change {one.key}", one.verdict, other.verdict)
                for one, other in zip(shown.items, now.items, strict=True)
            ]
        case _:
            pairs = [("to add partitions", shown.verdict, now.verdict)]
    return "; ".join(
        f"{what} was planned as {was.risk.word}, and is {verdict.risk.word} now: {verdict.because}"
        for what, was, verdict in pairs
        if verdict.risk > was.risk
    )


def _of_number(key: str, row: Numeric, before: str | None, after: str | None) -> Verdict:
    """Return the worst verdict that is possible: where a side is not known, both directions may be."""
    old, new = _number(key, before), _number(key, after)
    higher = row.endless if row.endless and new == _UNLIMITED else row.higher
    costs = []
    if _may_exceed(old, new, row.lower.times):
        costs.append(row.lower)
    if _may_exceed(new, old, higher.times):
        costs.append(higher)
    cost = max(costs, key=lambda one: one.risk, default=Cost(Risk.SAFE, ""))
    if cost.risk is Risk.DATA_LOSS and (old is None or new is None):
        return _unknown("less" if new is None else "more", after)
    limit = "what the brokers have" if new is None else _words(key, new)
    return _verdict(cost, limit=limit, before=before or "unknown", after=after or "unknown")


def _may_exceed(one: float | None, other: float | None, times: int) -> bool:
    """Return whether ``one`` is more than ``other``, ``times`` as much at least, or may be as far as is known."""
    if one is None or other is None:
        return one != 0 and other != _UNLIMITED
    return one > other and one >= other * times


def _of_word(key: str, row: Words, before: str | None, after: str | None) -> Verdict:
    old, new = _word(row, before), _word(row, after)
    if new is None:
        word, cost = max(
            ((word, cost) for word, cost in (row.to or {"different": row.other}).items() if word != old),
            key=lambda one: one[1].risk,
        )
        return _unknown(word, None) if cost.risk is Risk.DATA_LOSS else _verdict(cost, before=before, after="unknown")
    cost = row.to.get(new, row.other)
    if key == "cleanup.policy" and old is None:
        return _unknown("different", new)
    if key == "cleanup.policy" and "compact" in new and "compact" not in (old or ""):
        return Verdict(cost.risk, "all but the newest message of each key will be deleted")
    return _verdict(cost, before=before or "off", after=after or "off")


def _word(row: Words, text: str | None) -> str | None:
    """Return the value as the row has it; the case of a truth value does not count."""
    word = None if text is None else text.strip()
    return word.lower() if word is not None and word.lower() in row.to else word


def _unknown(word: str, after: str | None) -> Verdict:
    """Return the verdict on a value of the brokers that is not known, and may be, or have been, the worst one."""
    return Verdict(Risk.DATA_LOSS, _UNKNOWN.format(be="be" if after is None else "have been", word=word))


def _verdict(cost: Cost, **values: str | None) -> Verdict:
    return SAFE if cost.risk is Risk.SAFE else Verdict(cost.risk, cost.because.format(**values))


def _number(key: str, text: str | None) -> float | None:
    """Return the value as a number, without limit as infinity; None if it is not known, or not readable."""
    if text is None or configs.check(key, text):
        return None
    value = configs.parse(key, text)
    number = value if isinstance(value, int) else float(str(value))
    return _UNLIMITED if number < 0 or number >= LONG_MAX else number


def _words(key: str, number: float) -> str:
    if number == _UNLIMITED:
        return "without limit"
    return size(int(number)) if key.endswith("bytes") else duration(int(number))
