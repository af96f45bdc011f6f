"""The risk of a change of each topic config, in both directions, with its reason: data without rules.

Every config of ``config_table`` is here. ``risk`` reads this table, and ``docs/operations.md`` shows it. A reason that
applies only to large changes has a ``min_factor``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from topiarist.model.plan import Risk

SAFE, DISRUPTIVE, DATA_LOSS = Risk.SAFE, Risk.DISRUPTIVE, Risk.DATA_LOSS


class ChangeRisk(NamedTuple):
    """A risk and its reason, for a change by ``min_factor`` or more.

    A smaller change is ``SAFE``. In ``explanation``, ``{limit}`` is replaced by the new value with its unit,
    ``{before}`` and ``{after}`` by the two values unchanged.
    """

    risk: Risk
    explanation: str
    min_factor: int = 1


_NO_RISK = ChangeRisk(SAFE, "")


@dataclass(frozen=True, slots=True)
class NumberRisks:
    """The risks of a number that becomes lower or higher.

    A negative number means no limit, and counts as the highest. ``unlimited`` replaces ``increase`` if the new value is
    no limit or the highest possible number.
    """

    decrease: ChangeRisk
    increase: ChangeRisk
    unlimited: ChangeRisk | None = None


@dataclass(frozen=True, slots=True)
class WordRisks:
    """The risks of a value that becomes a given word.

    ``otherwise`` is the risk of any word that ``by_word`` does not have.
    """

    by_word: Mapping[str, ChangeRisk] = field(default_factory=dict)
    otherwise: ChangeRisk = _NO_RISK


def _boolean_risks(true: ChangeRisk, false: ChangeRisk) -> WordRisks:
    return WordRisks({"true": true, "false": false})


_MORE_CPU = ChangeRisk(SAFE, "brokers spend more time on compressing new batches")
_LESS_CPU = ChangeRisk(SAFE, "new batches take more room")
_COMPRESSION_LEVEL = NumberRisks(_LESS_CPU, _MORE_CPU)
_MORE_FILES = "many more files: memory and open files on the brokers"
_MORE_LOCAL_DATA = "more stays on the brokers' disks: up to {limit}"
_THROTTLED_REPLICAS = WordRisks(
    otherwise=ChangeRisk(
        DISRUPTIVE, "replication is slowed down, so that replicas may fall out of sync, or no longer slowed down"
    )
)
_NO_LIMIT = ChangeRisk(DISRUPTIVE, "nothing is deleted any more: disks fill")
_DIFFERENCE_APPLIES = ChangeRisk(DISRUPTIVE, "message.timestamp.difference.max.ms holds from now on, which may be less")
_LATER_FLUSH = "acknowledged messages reach the disk later: they are lost if all replicas lose power before"
_MORE_FLUSHES = "the log is forced to disk more often: writes become slower"

RISK_TABLE: Mapping[str, NumberRisks | WordRisks] = {
    "cleanup.policy": WordRisks(
        otherwise=ChangeRisk(DATA_LOSS, "what is deleted, and when, changes: cleanup is {after}, was {before}"),
    ),
    "compression.gzip.level": _COMPRESSION_LEVEL,
    "compression.lz4.level": _COMPRESSION_LEVEL,
    "compression.type": WordRisks(
        otherwise=ChangeRisk(DISRUPTIVE, "brokers may have to compress again what producers send")
    ),
    "compression.zstd.level": _COMPRESSION_LEVEL,
    "delete.retention.ms": NumberRisks(
        ChangeRisk(DATA_LOSS, "tombstones may go before a reader has seen them, already after {limit}"),
        ChangeRisk(SAFE, "tombstones are kept longer"),
    ),
    "file.delete.delay.ms": NumberRisks(
        ChangeRisk(
            SAFE, "files of deleted segments are freed sooner: their messages could not be read any more before"
        ),
        ChangeRisk(DISRUPTIVE, "files of deleted segments stay for long: disks fill", 10),
    ),
    "flush.messages": NumberRisks(ChangeRisk(DISRUPTIVE, _MORE_FLUSHES), ChangeRisk(DISRUPTIVE, _LATER_FLUSH)),
    "flush.ms": NumberRisks(ChangeRisk(DISRUPTIVE, _MORE_FLUSHES), ChangeRisk(DISRUPTIVE, _LATER_FLUSH)),
    "follower.replication.throttled.replicas": _THROTTLED_REPLICAS,
    "index.interval.bytes": NumberRisks(
        ChangeRisk(DISRUPTIVE, "indexes grow: segments are full sooner, more files", 10),
        ChangeRisk(SAFE, "reading from an offset searches a little longer"),
    ),
    "leader.replication.throttled.replicas": _THROTTLED_REPLICAS,
    "local.retention.bytes": NumberRisks(
        ChangeRisk(DATA_LOSS, "messages beyond {limit} will be deleted"),
        ChangeRisk(DISRUPTIVE, _MORE_LOCAL_DATA),
        _NO_LIMIT,
    ),
    "local.retention.ms": NumberRisks(
        ChangeRisk(DATA_LOSS, "messages older than {limit} will be deleted"),
        ChangeRisk(DISRUPTIVE, _MORE_LOCAL_DATA),
        _NO_LIMIT,
    ),
    "max.compaction.lag.ms": NumberRisks(
        ChangeRisk(DATA_LOSS, "older values of a key are compacted away already after {limit}"),
        ChangeRisk(SAFE, "older values of a key may stay longer"),
    ),
    "max.message.bytes": NumberRisks(
        ChangeRisk(DISRUPTIVE, "messages larger than that are refused from now on"),
        ChangeRisk(DISRUPTIVE, "much larger messages: memory of brokers, and of consumers and copies of the topic", 10),
    ),
    "message.downconversion.enable": _boolean_risks(
        ChangeRisk(SAFE, "consumers that know only an older format are served"),
        ChangeRisk(DISRUPTIVE, "consumers that know only an older format are refused from now on"),
    ),
    "message.format.version": WordRisks(
        otherwise=ChangeRisk(
            DISRUPTIVE, "the format of new messages changes: headers, transactions and old consumers depend on it"
        ),
    ),
    "message.timestamp.after.max.ms": NumberRisks(
        ChangeRisk(DISRUPTIVE, "messages whose timestamp is further ahead than that are refused from now on"),
        ChangeRisk(SAFE, "more messages are accepted"),
        _DIFFERENCE_APPLIES,
    ),
    "message.timestamp.before.max.ms": NumberRisks(
        ChangeRisk(DISRUPTIVE, "messages whose timestamp is older than that are refused from now on"),
        ChangeRisk(SAFE, "more messages are accepted"),
        _DIFFERENCE_APPLIES,
    ),
    "message.timestamp.difference.max.ms": NumberRisks(
        ChangeRisk(DISRUPTIVE, "messages whose timestamp is further from the clock than that are refused from now on"),
        ChangeRisk(SAFE, "more messages are accepted"),
    ),
    "message.timestamp.type": WordRisks(
        {
            "CreateTime": ChangeRisk(
                DATA_LOSS, "messages to which producers give an old timestamp are deleted as that old"
            ),
            "LogAppendTime": ChangeRisk(DISRUPTIVE, "timestamps get another meaning; retention by time follows them"),
        }
    ),
    "min.cleanable.dirty.ratio": NumberRisks(
        ChangeRisk(DISRUPTIVE, "the log is compacted more often: older values of a key go sooner, more disk traffic"),
        ChangeRisk(DISRUPTIVE, "more stays uncompacted: disks fill, and reading all keys takes longer"),
    ),
    "min.compaction.lag.ms": NumberRisks(
        ChangeRisk(DATA_LOSS, "older values of a key may be compacted away already after {limit}"),
        ChangeRisk(DISRUPTIVE, "more stays uncompacted: disks fill, and reading all keys takes longer"),
    ),
    "min.insync.replicas": NumberRisks(
        ChangeRisk(DISRUPTIVE, "replicas that must confirm a write with acks=all change: {before} to {after}"),
        ChangeRisk(DISRUPTIVE, "replicas that must confirm a write with acks=all change: {before} to {after}"),
    ),
    "preallocate": _boolean_risks(
        ChangeRisk(DISRUPTIVE, "each new segment takes its whole size at once: disks fill"),
        ChangeRisk(SAFE, "new segments grow as they are written"),
    ),
    "remote.log.copy.disable": _boolean_risks(
        ChangeRisk(DISRUPTIVE, "nothing more is copied to remote storage: local disks fill"),
        ChangeRisk(SAFE, "segments are copied to remote storage again"),
    ),
    "remote.log.delete.on.disable": _boolean_risks(
        ChangeRisk(DATA_LOSS, "messages in remote storage are deleted once it is switched off"),
        ChangeRisk(SAFE, "messages in remote storage stay there"),
    ),
    "remote.storage.enable": _boolean_risks(
        ChangeRisk(DISRUPTIVE, "old segments move to remote storage, and that cannot be undone"),
        ChangeRisk(DATA_LOSS, "messages that are in remote storage alone cannot be read any more"),
    ),
    "retention.bytes": NumberRisks(
        ChangeRisk(DATA_LOSS, "messages beyond {limit} will be deleted"),
        ChangeRisk(DISRUPTIVE, "more is kept: up to {limit}"),
        _NO_LIMIT,
    ),
    "retention.ms": NumberRisks(
        ChangeRisk(DATA_LOSS, "messages older than {limit} will be deleted"),
        ChangeRisk(DISRUPTIVE, "more is kept: up to {limit}"),
        _NO_LIMIT,
    ),
    "segment.bytes": NumberRisks(
        ChangeRisk(DISRUPTIVE, _MORE_FILES, 10),
        ChangeRisk(DISRUPTIVE, "whole segments are deleted and compacted: much later than now", 10),
    ),
    "segment.index.bytes": NumberRisks(
        ChangeRisk(DISRUPTIVE, _MORE_FILES, 10),
        ChangeRisk(DISRUPTIVE, "every open segment sets aside so much more memory and disk", 10),
    ),
    "segment.jitter.ms": NumberRisks(
        ChangeRisk(DISRUPTIVE, "segments roll at the same time", 10),
        ChangeRisk(SAFE, "segments begin at different times"),
    ),
    "segment.ms": NumberRisks(
        ChangeRisk(DISRUPTIVE, _MORE_FILES, 10),
        ChangeRisk(DISRUPTIVE, "whole segments are deleted and compacted: much later than now", 10),
    ),
    "unclean.leader.election.enable": _boolean_risks(
        ChangeRisk(DATA_LOSS, "a replica that lags may become leader: acknowledged messages are lost"),
        ChangeRisk(DISRUPTIVE, "partitions stay offline while none of their replicas in sync is there"),
    ),
}
"""The risks of each config, by key."""

UNKNOWN_KEY_RISK = ChangeRisk(DISRUPTIVE, "not one of Kafka's configs: what it does is not known here")
"""The risk of a vendor's own key."""
