"""Freezing and thawing: one set of our gate, without the lock, so that it works while another run holds that.

Every transaction of ours checks the gate's version as its run has read it: from the set on no transaction begun before
goes through. The set itself is made at the version just read, so that of two people who freeze at once the second is
told of the first.
"""

from __future__ import annotations

from kazoo.exceptions import BadVersionError, NoAuthError, NoNodeError
from kazoo.protocol.serialization import SetData

from topiarist.adapters.zookeeper.codec import own_znodes, paths
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError
from topiarist.adapters.zookeeper.connection.session import MAX_DISCONNECTS, ConnectionInterrupted, Session
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, read_znodes, sync
from topiarist.adapters.zookeeper.read.cluster_metadata import read_metadata
from topiarist.adapters.zookeeper.write.write_context import ensure_own_znodes
from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import FreezeResult, Result
from topiarist.model.state import Freeze

_KRAFT_REASONS = frozenset({Reason.KRAFT_CONTROLLER, Reason.KRAFT_MIGRATION})


def set_freeze(session: Session, freeze: Freeze | None, *, by: str, force: bool) -> FreezeResult:
    """Freeze the cluster, or thaw it if ``freeze`` is None. What another than ``by`` has frozen takes ``force``.

    Works without a controller, since it touches nothing of Kafka's. Raises ``TopiaristError`` with the reason if a
    KRaft controller is, or may soon be, in charge: then nothing at all is written.
    """
    head = read_metadata(session)
    if head.write_block.reason in _KRAFT_REASONS:
        raise TopiaristError(
            head.write_block.reason, head.write_block.message, "nothing is written here any more, frozen or not"
        )
    sent = False
    for _ in range(MAX_DISCONNECTS):
        sync(session)
        (node,) = read_znodes(session, [paths.FREEZE])
        found, readable = _decode_freeze(node)
        if readable and found == freeze:
            return FreezeResult(Result.DONE if sent else Result.UNCHANGED, found)
        if found and freeze and (found.by, found.reason) == (freeze.by, freeze.reason):
            return FreezeResult(Result.UNCHANGED, found)
        if found and found.by != by and not force:
            return FreezeResult(Result.REFUSED, found)
        if not isinstance(node, Znode):
            ensure_own_znodes(session)
            continue
        sent = True
        if _write_freeze(session, freeze, node.version):
            return FreezeResult(Result.DONE, found)
    raise TopiaristError(Reason.STATE_CONFLICT, f"{paths.FREEZE} changed {MAX_DISCONNECTS} times in a row", "run again")


def _decode_freeze(node: Znode | ReadFailure) -> tuple[Freeze | None, bool]:
    """What the gate says, and whether it can be read; one that is not there is open."""
    try:
        return own_znodes.decode_freeze(node.data) if isinstance(node, Znode) else None, True
    except ZnodeError:
        return None, False


def _write_freeze(session: Session, freeze: Freeze | None, version: int) -> bool:
    """Set the gate at this version; False if that has to be looked at again."""
    request = SetData(session.chroot + paths.FREEZE, own_znodes.encode_freeze(freeze), version)
    try:
        session.result(session.send(request))
    except NoAuthError:
        raise TopiaristError(
            Reason.NO_PERMISSION, f"no permission to set {paths.FREEZE}", "give this identity the right"
        ) from None
    except (BadVersionError, NoNodeError, ConnectionInterrupted):
        return False
    return True
