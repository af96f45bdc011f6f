"""What a change may cost: one table, used wherever a risk is shown or asked about.

ZooKeeper does not show the brokers' static settings, so the value that holds where a topic has no override is often
unknown; then the worse case counts. (With ``log.retention.ms=-1`` on the brokers, adding Kafka's documented default
as an override deletes every old message.) ``/config/brokers/<default>`` and ``Cluster.spec.brokerConfig`` make it
known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from topiarist.core import configs
from topiarist.core.change import SAFE, Risk, Verdict
from topiarist.core.units import count, duration, size

_UNLIMITED = 1 << 63
_UNKNOWN = "the brokers' own setting is not known: it may have been {word} (Cluster.spec.brokerConfig says it)"


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
    judge = _JUDGES.get(key)
    if judge is None:
        return SAFE
    old = before if before is not None else configs.server_default(key, settings)
    new = after if after is not None else configs.server_default(key, settings)
    if old is not None and new is not None and configs.equal(key, old, new):
        return SAFE
    return judge(key, old, new)


def _number(key: str, text: str | None) -> int | None:
    """The value as a number, without limit as a very large one; None if it is not known (or not readable)."""
    if text is None or configs.check(key, text):
        return None
    number = int(str(configs.parse(key, text)))
    return _UNLIMITED if number < 0 else number


def _words(key: str, number: int) -> str:
    return size(number) if key.endswith("bytes") else duration(number)


def _retention(key: str, before: str | None, after: str | None) -> Verdict:
    old, new = _number(key, before), _number(key, after)
    if new is not None and new == old:
        return SAFE
    if new == _UNLIMITED:
        return Verdict(Risk.DISRUPTIVE, "nothing is deleted any more: disks fill")
    if old is None or new is None:
        return Verdict(Risk.DATA_LOSS, _UNKNOWN.format(word="more"))
    if new < old:
        what = "beyond" if key.endswith("bytes") else "older than"
        return Verdict(Risk.DATA_LOSS, f"messages {what} {_words(key, new)} will be deleted")
    return Verdict(Risk.DISRUPTIVE, f"more is kept: up to {_words(key, new)}")


def _local_retention(key: str, before: str | None, after: str | None) -> Verdict:
    if before == "-2" or after == "-2":  # follows retention.*, whose effective value may not be known
        return Verdict(Risk.DATA_LOSS, f"{key} -2 follows {key.removeprefix('local.')}: less may be kept")
    return _retention(key, before, after)


def _tombstones(key: str, before: str | None, after: str | None) -> Verdict:
    old, new = _number(key, before), _number(key, after)
    if old is None or new is None:
        return Verdict(Risk.DATA_LOSS, _UNKNOWN.format(word="more"))
    if new < old:
        return Verdict(Risk.DATA_LOSS, f"{_TOMBSTONES[key]} already after {duration(new)}")
    return SAFE


_TOMBSTONES = {
    "delete.retention.ms": "tombstones may go before a reader has seen them,",
    "max.compaction.lag.ms": "older values of a key are compacted away",
}


def _cleanup(_key: str, before: str | None, after: str | None) -> Verdict:
    if before is None or after is None:
        return Verdict(Risk.DATA_LOSS, _UNKNOWN.format(word="different"))
    if "compact" in after and "compact" not in before:
        return Verdict(Risk.DATA_LOSS, "all but the newest message of each key will be deleted")
    return Verdict(
        Risk.DATA_LOSS, f"what is deleted, and when, changes: cleanup is {after or 'off'}, was {before or 'off'}"
    )


def _unclean(_key: str, before: str | None, after: str | None) -> Verdict:
    if after is not None and after.strip().lower() == "false":
        return SAFE
    if before is not None and before.strip().lower() == "true":
        return SAFE
    why = "a replica that lags may become leader: acknowledged messages are lost"
    return Verdict(Risk.DATA_LOSS, why if after is not None else _UNKNOWN.format(word="true"))


def _min_isr(_key: str, before: str | None, after: str | None) -> Verdict:
    words = f"{before or 'unknown'} to {after or 'unknown'}"
    return Verdict(Risk.DISRUPTIVE, f"replicas that must confirm a write with acks=all change: {words}")


def _smaller(factor: int, why: str) -> Callable[[str, str | None, str | None], Verdict]:
    """Disruptive if the value becomes smaller by ``factor`` or more, or may do so."""

    def judge(key: str, before: str | None, after: str | None) -> Verdict:
        old, new = _number(key, before), _number(key, after)
        if old is not None and new is not None and (new >= old or new * factor > old):
            return SAFE
        return Verdict(Risk.DISRUPTIVE, why)

    return judge


def _always(why: str) -> Callable[[str, str | None, str | None], Verdict]:
    return lambda _key, _before, _after: Verdict(Risk.DISRUPTIVE, why)


_JUDGES: Mapping[str, Callable[[str, str | None, str | None], Verdict]] = {
    "retention.ms": _retention,
    "retention.bytes": _retention,
    "local.retention.ms": _local_retention,
    "local.retention.bytes": _local_retention,
    "delete.retention.ms": _tombstones,
    "max.compaction.lag.ms": _tombstones,
    "cleanup.policy": _cleanup,
    "unclean.leader.election.enable": _unclean,
    "min.insync.replicas": _min_isr,
    "max.message.bytes": _smaller(1, "messages larger than that are refused from now on"),
    "message.timestamp.type": _always("timestamps get another meaning; retention by time follows them"),
    "compression.type": _always("brokers may have to compress again what producers send"),
    "segment.bytes": _smaller(10, "many more files: memory and open files on the brokers"),
    "segment.ms": _smaller(10, "many more files: memory and open files on the brokers"),
    "segment.index.bytes": _smaller(10, "many more files: memory and open files on the brokers"),
    "segment.jitter.ms": _smaller(10, "segments roll at the same time"),
}
