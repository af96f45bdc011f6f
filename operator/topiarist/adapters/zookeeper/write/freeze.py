"""Freeze or unfreeze a cluster: one write of the freeze znode, without the lock.

Without the lock, a freeze works while another run holds it. Every transaction of topiarist checks the version of the
freeze znode that its run has read, so after this write no transaction of an earlier run commits. The write itself is
made at the version just read: of two users who freeze at once, the second sees the freeze of the first.
"""

from __future__ import annotations

from kazoo.exceptions import BadVersionError, NoAuthError, NoNodeError
from kazoo.protocol.serialization import SetData

from topiarist.adapters import own_values
from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError
from topiarist.adapters.zookeeper.connection.session import MAX_DISCONNECTS, ConnectionInterrupted, Session
from topiarist.adapters.zookeeper.read.bulk_read import Znode, read_znodes, sync
from topiarist.adapters.zookeeper.read.cluster_metadata import read_metadata
from topiarist.adapters.zookeeper.write.write_context import ensure_own_znodes
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moved_records import is_closed_by_move
from topiarist.model.outcome import FreezeResult, Result
from topiarist.model.state import Freeze

_KRAFT_REASONS = frozenset({Reason.KRAFT_CONTROLLER, Reason.KRAFT_MIGRATION})


def set_freeze(session: Session, freeze: Freeze | None, *, by: str, force: bool) -> FreezeResult:
    """Freeze the cluster, or unfreeze it if ``freeze`` is None.

    A freeze of a user other than ``by``, and the one of a move of the records to Kafka, are changed only with
    ``force``. Works without a controller, since it writes no znode of Kafka. Raises ``TopiaristError`` with the reason
    if a KRaft controller is, or may soon be, in charge: then nothing is written.
    """
    metadata = read_metadata(session)
    if metadata.write_block.reason in _KRAFT_REASONS:
        raise TopiaristError(
            metadata.write_block.reason,
            metadata.write_block.message,
            "topiarist no longer writes through ZooKeeper, frozen or not",
        )
    sent = False
    for _ in range(MAX_DISCONNECTS):
        sync(session)
        (node,) = read_znodes(session, [paths.FREEZE])
        current, readable = None, True
        if isinstance(node, Znode):
            try:
                current = own_values.decode_freeze(node.data)
            except ZnodeError:
                readable = False
        if readable and current == freeze:
            # After a lost reply, the value found may be the one that this call wrote.
            return FreezeResult(Result.DONE if sent else Result.UNCHANGED, current)
        if current and freeze and (current.by, current.reason) == (freeze.by, freeze.reason):
            return FreezeResult(Result.UNCHANGED, current)
        # Another user may have frozen the cluster for a reason that this user does not know. After a move of the
        # records runs continue through the brokers, so the user who moved them does not open ZooKeeper either.
        if current and (current.by != by or is_closed_by_move(current)) and not force:
            return FreezeResult(Result.REFUSED, current)
        if not isinstance(node, Znode):
            ensure_own_znodes(session)
            continue
        sent = True
        request = SetData(session.chroot + paths.FREEZE, own_values.encode_freeze(freeze), node.version)
        try:
            session.result(session.send(request))
        except NoAuthError:
            raise TopiaristError(
                Reason.NO_PERMISSION, f"no permission to set {paths.FREEZE}", f"give {session.principal_text} the right"
            ) from None
        except (BadVersionError, NoNodeError, ConnectionInterrupted):
            continue  # written by another client, or perhaps by this request: read again
        return FreezeResult(Result.DONE, current)
    raise TopiaristError(Reason.STATE_CONFLICT, f"{paths.FREEZE} changed {MAX_DISCONNECTS} times in a row", "run again")
