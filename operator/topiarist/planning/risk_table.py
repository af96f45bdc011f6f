"""The risk of a change of each topic config, in both directions, with its reason: data without rules.

Every config of ``config_table`` is here. ``risk`` reads this table, and ``docs/risks.md`` shows it. A reason that
applies only to large changes has a ``min_factor``.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from topiarist.model.run_options import Risk

SAFE, DISRUPTIVE, DATA_LOSS = Risk.SAFE, Risk.DISRUPTIVE, Risk.DATA_LOSS


class ChangeRisk(Struct, frozen=True):
    """A risk and its reason, for a change by ``min_factor`` or more.

    A smaller change is ``SAFE``. In ``explanation``, ``{limit}`` is replaced by the new value with its unit,
    ``{before}`` and ``{after}`` by the two values unchanged.
    """

    risk: Risk
    explanation: str
    min_factor: int = 1


_NO_RISK = ChangeRisk(SAFE, "")


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


_MORE_CPU = ChangeRisk(SAFE, "brokers need more CPU to compress new batches")
_LESS_CPU = ChangeRisk(SAFE, "new batches take more disk space")
_COMPRESSION_LEVEL = NumberRisks(_LESS_CPU, _MORE_CPU)
_MORE_FILES = "many more files: memory and open files on the brokers"
_MORE_LOCAL_DATA = "more stays on the brokers' disks: up to {limit}"
_THROTTLED_REPLICAS = WordRisks(
    otherwise=ChangeRisk(
        DISRUPTIVE, "replication is throttled, so that replicas may fall out of sync, or no longer throttled"
    )
)
_NO_LIMIT = ChangeRisk(DISRUPTIVE, "nothing is deleted any longer: disks fill")
_DIFFERENCE_APPLIES = ChangeRisk(
    DISRUPTIVE, "message.timestamp.difference.max.ms applies from now on, and may be lower"
)
_EARLIER_COPY = ChangeRisk(SAFE, "segments are copied to remote storage sooner")
_LATER_COPY = ChangeRisk(SAFE, "segments are copied to remote storage later, and are on the brokers alone until then")
_LATER_FLUSH = "acknowledged messages reach the disk later: they are lost if all replicas lose power before"
_MORE_FLUSHES = "the log is forced to disk more often: writes become slower"

RISK_TABLE: Mapping[str, NumberRisks | WordRisks] = {
    "cleanup.policy": WordRisks(
        otherwise=ChangeRisk(
            DATA_LOSS, "cleanup changes from {before} to {after}: other messages are deleted, at other times"
        ),
    ),
    "compression.gzip.level": _COMPRESSION_LEVEL,
    "compression.lz4.level": _COMPRESSION_LEVEL,
    "compression.type": WordRisks(
        otherwise=ChangeRisk(DISRUPTIVE, "brokers may have to compress the batches of producers again")
    ),
    "compression.zstd.level": _COMPRESSION_LEVEL,
    "delete.retention.ms": NumberRisks(
        ChangeRisk(DATA_LOSS, "tombstones are removed after {limit}, perhaps before a consumer has read them"),
        ChangeRisk(SAFE, "tombstones are kept longer"),
    ),
    "errors.deadletterqueue.group.enable": _boolean_risks(
        ChangeRisk(SAFE, "share groups may write undeliverable messages to the topic"),
        ChangeRisk(DISRUPTIVE, "share groups can no longer write undeliverable messages to the topic"),
    ),
    "file.delete.delay.ms": NumberRisks(
        ChangeRisk(SAFE, "files of deleted segments are removed sooner; their messages were already unreadable"),
        ChangeRisk(DISRUPTIVE, "files of deleted segments stay much longer: disks fill", 10),
    ),
    "flush.messages": NumberRisks(ChangeRisk(DISRUPTIVE, _MORE_FLUSHES), ChangeRisk(DISRUPTIVE, _LATER_FLUSH)),
    "flush.ms": NumberRisks(ChangeRisk(DISRUPTIVE, _MORE_FLUSHES), ChangeRisk(DISRUPTIVE, _LATER_FLUSH)),
    "follower.replication.throttled.replicas": _THROTTLED_REPLICAS,
    "index.interval.bytes": NumberRisks(
        ChangeRisk(DISRUPTIVE, "indexes grow: segments roll sooner, into more files", 10),
        ChangeRisk(SAFE, "reads from an offset search a little longer"),
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
        ChangeRisk(DATA_LOSS, "compaction removes older values of a key after {limit} at the latest"),
        ChangeRisk(SAFE, "older values of a key may stay longer"),
    ),
    "max.decompressed.message.bytes": NumberRisks(
        ChangeRisk(DISRUPTIVE, "larger messages are refused from now on; those stored already stop compaction"),
        ChangeRisk(DISRUPTIVE, "much larger messages: brokers and consumers need more memory", 10),
    ),
    "max.message.bytes": NumberRisks(
        ChangeRisk(DISRUPTIVE, "larger messages are refused from now on"),
        ChangeRisk(DISRUPTIVE, "much larger messages: brokers, consumers and mirrors need more memory", 10),
    ),
    "message.downconversion.enable": _boolean_risks(
        ChangeRisk(SAFE, "consumers with an older message format are served"),
        ChangeRisk(DISRUPTIVE, "consumers with an older message format are refused from now on"),
    ),
    "message.format.version": WordRisks(
        otherwise=ChangeRisk(
            DISRUPTIVE, "the format of new messages changes: headers, transactions and old consumers depend on it"
        ),
    ),
    "message.timestamp.after.max.ms": NumberRisks(
        ChangeRisk(DISRUPTIVE, "messages with a timestamp further in the future are refused from now on"),
        ChangeRisk(SAFE, "more messages are accepted"),
        _DIFFERENCE_APPLIES,
    ),
    "message.timestamp.before.max.ms": NumberRisks(
        ChangeRisk(DISRUPTIVE, "messages with an older timestamp are refused from now on"),
        ChangeRisk(SAFE, "more messages are accepted"),
        _DIFFERENCE_APPLIES,
    ),
    "message.timestamp.difference.max.ms": NumberRisks(
        ChangeRisk(DISRUPTIVE, "messages with a timestamp further from the clock are refused from now on"),
        ChangeRisk(SAFE, "more messages are accepted"),
    ),
    "message.timestamp.type": WordRisks(
        {
            "CreateTime": ChangeRisk(
                DATA_LOSS, "retention uses the timestamps of producers: messages with an old one are deleted"
            ),
            "LogAppendTime": ChangeRisk(
                DISRUPTIVE, "timestamps are those of the brokers, and retention by time uses them"
            ),
        }
    ),
    "min.cleanable.dirty.ratio": NumberRisks(
        ChangeRisk(
            DISRUPTIVE, "the log is compacted more often: older values of a key are removed sooner, more disk traffic"
        ),
        ChangeRisk(DISRUPTIVE, "more stays uncompacted: disks fill, and reading all keys takes longer"),
    ),
    "min.compaction.lag.ms": NumberRisks(
        ChangeRisk(DATA_LOSS, "compaction may remove older values of a key after {limit}"),
        ChangeRisk(DISRUPTIVE, "more stays uncompacted: disks fill, and reading all keys takes longer"),
    ),
    "min.insync.replicas": NumberRisks(
        ChangeRisk(DISRUPTIVE, "in-sync replicas that writes with acks=all need: {before} to {after}"),
        ChangeRisk(DISRUPTIVE, "in-sync replicas that writes with acks=all need: {before} to {after}"),
    ),
    "preallocate": _boolean_risks(
        ChangeRisk(DISRUPTIVE, "each new segment takes its whole size at once: disks fill"),
        ChangeRisk(SAFE, "new segments grow as they are written"),
    ),
    "remote.copy.lag.bytes": NumberRisks(_EARLIER_COPY, _LATER_COPY),
    "remote.copy.lag.ms": NumberRisks(_EARLIER_COPY, _LATER_COPY),
    "remote.log.copy.disable": _boolean_risks(
        ChangeRisk(DISRUPTIVE, "no more segments are copied to remote storage: local disks fill"),
        ChangeRisk(SAFE, "segments are copied to remote storage again"),
    ),
    "remote.log.delete.on.disable": _boolean_risks(
        ChangeRisk(DATA_LOSS, "messages in remote storage are deleted when it is disabled"),
        ChangeRisk(SAFE, "messages in remote storage stay there"),
    ),
    "remote.storage.enable": _boolean_risks(
        ChangeRisk(DISRUPTIVE, "old segments move to remote storage, which cannot be undone"),
        ChangeRisk(DATA_LOSS, "messages that are only in remote storage can no longer be read"),
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
        ChangeRisk(DISRUPTIVE, "whole segments are deleted and compacted, so this happens much later", 10),
    ),
    "segment.index.bytes": NumberRisks(
        ChangeRisk(DISRUPTIVE, _MORE_FILES, 10),
        ChangeRisk(DISRUPTIVE, "each open segment reserves much more memory and disk", 10),
    ),
    "segment.jitter.ms": NumberRisks(
        ChangeRisk(DISRUPTIVE, "segments roll at the same time", 10),
        ChangeRisk(SAFE, "segments begin at different times"),
    ),
    "segment.ms": NumberRisks(
        ChangeRisk(DISRUPTIVE, _MORE_FILES, 10),
        ChangeRisk(DISRUPTIVE, "whole segments are deleted and compacted, so this happens much later", 10),
    ),
    "unclean.leader.election.enable": _boolean_risks(
        ChangeRisk(DATA_LOSS, "an out-of-sync replica may become leader: acknowledged messages are lost"),
        ChangeRisk(DISRUPTIVE, "partitions stay offline as long as no in-sync replica is online"),
    ),
}
"""The risks of each config, by key."""

UNKNOWN_KEY_RISK = ChangeRisk(DISRUPTIVE, "not a config of Kafka: topiarist does not know its effect")
"""The risk of a vendor's own key."""
