"""The risk of a change of each topic config, in both directions, with its reason: data, without any rule.

Every config of ``configtable`` is here. ``risk`` reads this table, and ``docs/operations.md`` shows it. Where a reason
names what a smaller change would not bring about, ``times`` is from what factor on it counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from topiarist.core.change import Risk

SAFE, DISRUPTIVE, DATA_LOSS = Risk.SAFE, Risk.DISRUPTIVE, Risk.DATA_LOSS


class Cost(NamedTuple):
    """A risk and its reason, for a change by the factor ``times`` or more; a smaller change is ``SAFE``.

    ``{limit}`` in a reason stands for the new value in words, ``{before}`` and ``{after}`` for both values as they are.
    """

    risk: Risk
    because: str
    times: int = 1


_NONE = Cost(SAFE, "")


@dataclass(frozen=True, slots=True)
class Numeric:
    """The costs of a number that becomes lower or higher; a negative number is no limit, and so the highest.

    ``endless`` counts in place of ``higher`` where the new value is no limit, or the highest that there is.
    """

    lower: Cost
    higher: Cost
    endless: Cost | None = None


@dataclass(frozen=True, slots=True)
class Words:
    """The costs of a value that becomes one of these words; ``other`` is the cost of any other."""

    to: Mapping[str, Cost] = field(default_factory=dict)
    other: Cost = _NONE


def _flag(true: Cost, false: Cost) -> Words:
    return Words({"true": true, "false": false})


_MORE_CPU = Cost(SAFE, "brokers spend more time on compressing new batches")
_LESS_CPU = Cost(SAFE, "new batches take more room")
_LEVEL = Numeric(_LESS_CPU, _MORE_CPU)
_FILES = "many more files: memory and open files on the brokers"
_LOCAL = "more stays on the brokers' disks: up to {limit}"
_THROTTLES = Words(
    other=Cost(
        DISRUPTIVE, "replication is slowed down, so that replicas may fall out of sync, or no longer slowed down"
    )
)
_ENDLESS = Cost(DISRUPTIVE, "nothing is deleted any more: disks fill")
_DIFFERENCE = Cost(DISRUPTIVE, "message.timestamp.difference.max.ms holds from now on, which may be less")
_ACKED = "acknowledged messages reach the disk later: they are lost if all replicas lose power before"
_FORCED = "the log is forced to disk more often: writes become slower"

TABLE: Mapping[str, Numeric | Words] = {
    "cleanup.policy": Words(
        other=Cost(DATA_LOSS, "what is deleted, and when, changes: cleanup is {after}, was {before}"),
    ),
    "compression.gzip.level": _LEVEL,
    "compression.lz4.level": _LEVEL,
    "compression.type": Words(other=Cost(DISRUPTIVE, "brokers may have to compress again what producers send")),
    "compression.zstd.level": _LEVEL,
    "delete.retention.ms": Numeric(
        Cost(DATA_LOSS, "tombstones may go before a reader has seen them, already after {limit}"),
        Cost(SAFE, "tombstones are kept longer"),
    ),
    "file.delete.delay.ms": Numeric(
        Cost(SAFE, "files of deleted segments are freed sooner: their messages could not be read any more before"),
        Cost(DISRUPTIVE, "files of deleted segments stay for long: disks fill", 10),
    ),
    "flush.messages": Numeric(Cost(DISRUPTIVE, _FORCED), Cost(DISRUPTIVE, _ACKED)),
    "flush.ms": Numeric(Cost(DISRUPTIVE, _FORCED), Cost(DISRUPTIVE, _ACKED)),
    "follower.replication.throttled.replicas": _THROTTLES,
    "index.interval.bytes": Numeric(
        Cost(DISRUPTIVE, "indexes grow: segments are full sooner, more files", 10),
        Cost(SAFE, "reading from an offset searches a little longer"),
    ),
    "leader.replication.throttled.replicas": _THROTTLES,
    "local.retention.bytes": Numeric(
        Cost(DATA_LOSS, "messages beyond {limit} will be deleted"),
        Cost(DISRUPTIVE, _LOCAL),
        _ENDLESS,
    ),
    "local.retention.ms": Numeric(
        Cost(DATA_LOSS, "messages older than {limit} will be deleted"),
        Cost(DISRUPTIVE, _LOCAL),
        _ENDLESS,
    ),
    "max.compaction.lag.ms": Numeric(
        Cost(DATA_LOSS, "older values of a key are compacted away already after {limit}"),
        Cost(SAFE, "older values of a key may stay longer"),
    ),
    "max.message.bytes": Numeric(
        Cost(DISRUPTIVE, "messages larger than that are refused from now on"),
        Cost(DISRUPTIVE, "much larger messages: memory of brokers, and of consumers and copies of the topic", 10),
    ),
    "message.downconversion.enable": _flag(
        Cost(SAFE, "consumers that know only an older format are served"),
        Cost(DISRUPTIVE, "consumers that know only an older format are refused from now on"),
    ),
    "message.format.version": Words(
        other=Cost(
            DISRUPTIVE, "the format of new messages changes: headers, transactions and old consumers depend on it"
        ),
    ),
    "message.timestamp.after.max.ms": Numeric(
        Cost(DISRUPTIVE, "messages whose timestamp is further ahead than that are refused from now on"),
        Cost(SAFE, "more messages are accepted"),
        _DIFFERENCE,
    ),
    "message.timestamp.before.max.ms": Numeric(
        Cost(DISRUPTIVE, "messages whose timestamp is older than that are refused from now on"),
        Cost(SAFE, "more messages are accepted"),
        _DIFFERENCE,
    ),
    "message.timestamp.difference.max.ms": Numeric(
        Cost(DISRUPTIVE, "messages whose timestamp is further from the clock than that are refused from now on"),
        Cost(SAFE, "more messages are accepted"),
    ),
    "message.timestamp.type": Words(
        {
            "CreateTime": Cost(DATA_LOSS, "messages to which producers give an old timestamp are deleted as that old"),
            "LogAppendTime": Cost(DISRUPTIVE, "timestamps get another meaning; retention by time follows them"),
        }
    ),
    "min.cleanable.dirty.ratio": Numeric(
        Cost(DISRUPTIVE, "the log is compacted more often: older values of a key go sooner, more disk traffic"),
        Cost(DISRUPTIVE, "more stays uncompacted: disks fill, and reading all keys takes longer"),
    ),
    "min.compaction.lag.ms": Numeric(
        Cost(DATA_LOSS, "older values of a key may be compacted away already after {limit}"),
        Cost(DISRUPTIVE, "more stays uncompacted: disks fill, and reading all keys takes longer"),
    ),
    "min.insync.replicas": Numeric(
        Cost(DISRUPTIVE, "replicas that must confirm a write with acks=all change: {before} to {after}"),
        Cost(DISRUPTIVE, "replicas that must confirm a write with acks=all change: {before} to {after}"),
    ),
    "preallocate": _flag(
        Cost(DISRUPTIVE, "each new segment takes its whole size at once: disks fill"),
        Cost(SAFE, "new segments grow as they are written"),
    ),
    "remote.log.copy.disable": _flag(
        Cost(DISRUPTIVE, "nothing more is copied to remote storage: local disks fill"),
        Cost(SAFE, "segments are copied to remote storage again"),
    ),
    "remote.log.delete.on.disable": _flag(
        Cost(DATA_LOSS, "messages in remote storage are deleted once it is switched off"),
        Cost(SAFE, "messages in remote storage stay there"),
    ),
    "remote.storage.enable": _flag(
        Cost(DISRUPTIVE, "old segments move to remote storage, and that cannot be undone"),
        Cost(DATA_LOSS, "messages that are in remote storage alone cannot be read any more"),
    ),
    "retention.bytes": Numeric(
        Cost(DATA_LOSS, "messages beyond {limit} will be deleted"),
        Cost(DISRUPTIVE, "more is kept: up to {limit}"),
        _ENDLESS,
    ),
    "retention.ms": Numeric(
        Cost(DATA_LOSS, "messages older than {limit} will be deleted"),
        Cost(DISRUPTIVE, "more is kept: up to {limit}"),
        _ENDLESS,
    ),
    "segment.bytes": Numeric(
        Cost(DISRUPTIVE, _FILES, 10),
        Cost(DISRUPTIVE, "whole segments are deleted and compacted: much later than now", 10),
    ),
    "segment.index.bytes": Numeric(
        Cost(DISRUPTIVE, _FILES, 10),
        Cost(DISRUPTIVE, "every open segment sets aside so much more memory and disk", 10),
    ),
    "segment.jitter.ms": Numeric(
        Cost(DISRUPTIVE, "segments roll at the same time", 10),
        Cost(SAFE, "segments begin at different times"),
    ),
    "segment.ms": Numeric(
        Cost(DISRUPTIVE, _FILES, 10),
        Cost(DISRUPTIVE, "whole segments are deleted and compacted: much later than now", 10),
    ),
    "unclean.leader.election.enable": _flag(
        Cost(DATA_LOSS, "a replica that lags may become leader: acknowledged messages are lost"),
        Cost(DISRUPTIVE, "partitions stay offline while none of their replicas in sync is there"),
    ),
}
"""What each change may cost, by config."""

UNKNOWN_KEY = Cost(DISRUPTIVE, "not one of Kafka's configs: what it does is not known here")
"""The cost of a vendor's own key."""
