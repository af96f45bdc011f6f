"""Find out whether ZooKeeper still holds records that a run through the brokers must not ignore.

In ZooKeeper mode the answer is needed: without it nothing is written. In KRaft mode ZooKeeper may have ended long ago,
so it is asked only if the records were not moved, and a ZooKeeper that does not answer blocks nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from topiarist.errors import Reason, TopiaristError
from topiarist.model.state import LeftRecords, WriteBlock, find_records_block

WARNING_ZOOKEEPER_ENDED = "ZooKeeper does not answer for this cluster, which is in KRaft mode: remove spec.zookeeper"


class LeftRecordsCheck(NamedTuple):
    """The write block by what ZooKeeper holds of topiarist, and a warning if that is not known (may be empty)."""

    block: WriteBlock = WriteBlock()
    warning: str = ""


def check_left_records(
    read: Callable[[], LeftRecords] | None,
    read_cluster_id: Callable[[], str],
    *,
    are_taken: bool,
    is_zookeeper_mode: bool,
) -> LeftRecordsCheck:
    """Return whether runs through the brokers may write.

    ``read`` asks ZooKeeper, None if its address is not known; ``are_taken`` is true if the topic of records has the
    note of a move. The cluster id is that of the brokers.
    """
    if read is None or (are_taken and not is_zookeeper_mode):
        return LeftRecordsCheck()
    try:
        left = read()
        other_cluster = left.cluster_id != read_cluster_id()
    except TopiaristError as error:
        if not is_zookeeper_mode:
            return LeftRecordsCheck(warning=WARNING_ZOOKEEPER_ENDED)
        if are_taken:
            return LeftRecordsCheck(warning=f"runs through ZooKeeper would not be noticed: {error.args[0]}")
        return _block(f"whether ZooKeeper has records that were not moved to Kafka is not known: {error.args[0]}")
    if not other_cluster:
        return LeftRecordsCheck(find_records_block(left, are_taken=are_taken))
    if not is_zookeeper_mode:
        return LeftRecordsCheck(warning=WARNING_ZOOKEEPER_ENDED)
    return _block(f"spec.zookeeper leads to another cluster ({left.cluster_id}), spec.kafka to {read_cluster_id()}")


def _block(message: str) -> LeftRecordsCheck:
    return LeftRecordsCheck(WriteBlock(Reason.RECORDS_NOT_MOVED, message))
