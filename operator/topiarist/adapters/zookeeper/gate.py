"""Freezing and thawing: one set of our gate, without the lock, so that it works while another run holds that.

Every transaction of ours checks the gate's version as its run has read it: from the set on no transaction begun before
goes through. The set itself is made at the version just read, so that of two people who freeze at once the second is
told of the first.
"""

from __future__ import annotations

from typing import NamedTuple

from kazoo.exceptions import BadVersionError, NoAuthError, NoNodeError
from kazoo.protocol.serialization import SetData

from topiarist.adapters import znodes
from topiarist.adapters.znodes import ZnodeError, paths
from topiarist.adapters.zookeeper.head import read_head
from topiarist.adapters.zookeeper.session import MOST_DROPS, Interrupted, Session
from topiarist.adapters.zookeeper.site import make_root
from topiarist.adapters.zookeeper.wire import Failure, Node, read_nodes, sync
from topiarist.core.state import Freeze
from topiarist.errors import Reason, TopiaristError
from topiarist.reconcile import Result

_KRAFT = frozenset({Reason.KRAFT_CONTROLLER, Reason.KRAFT_MIGRATION})


class Turned(NamedTuple):
    """What became of the gate: done, already so, or refused since ``before`` is somebody else's freeze.

    ``before`` is what it said until then: None if it was open, or could not be read.
    """

    result: Result
    before: Freeze | None


def turn(session: Session, wanted: Freeze | None, *, by: str, force: bool) -> Turned:
    """Freeze the cluster, or thaw it if ``wanted`` is None. What another than ``by`` has frozen takes ``force``.

    Works without a controller, since it touches nothing of Kafka's. Raises ``TopiaristError`` with the reason if a
    KRaft controller is, or may soon be, in charge: then nothing at all is written.
    """
    head = read_head(session)
    if head.gate.reason in _KRAFT:
        raise TopiaristError(head.gate.reason, head.gate.message, "nothing is written here any more, frozen or not")
    sent = False
    for _ in range(MOST_DROPS):
        sync(session)
        (node,) = read_nodes(session, [paths.GATE])
        found, readable = _read(node)
        if readable and found == wanted:
            return Turned(Result.DONE if sent else Result.ALREADY, found)
        if found and wanted and (found.by, found.reason) == (wanted.by, wanted.reason):
            return Turned(Result.ALREADY, found)
        if found and found.by != by and not force:
            return Turned(Result.REFUSED, found)
        if not isinstance(node, Node):
            make_root(session)
            continue
        sent = True
        if _set(session, wanted, node.version):
            return Turned(Result.DONE, found)
    raise TopiaristError(Reason.STATE_CONFLICT, f"{paths.GATE} changed {MOST_DROPS} times in a row", "run again")


def _read(node: Node | Failure) -> tuple[Freeze | None, bool]:
    """What the gate says, and whether it can be read; one that is not there is open."""
    try:
        return znodes.decode_gate(node.data) if isinstance(node, Node) else None, True
    except ZnodeError:
        return None, False


def _set(session: Session, wanted: Freeze | None, version: int) -> bool:
    """Set the gate at this version; False if that has to be looked at again."""
    request = SetData(session.chroot + paths.GATE, znodes.encode_gate(wanted), version)
    try:
        session.result(session.send(request))
    except NoAuthError:
        raise TopiaristError(
            Reason.NO_PERMISSION, f"no permission to set {paths.GATE}", "give this identity the right"
        ) from None
    except (BadVersionError, NoNodeError, Interrupted):
        return False
    return True
