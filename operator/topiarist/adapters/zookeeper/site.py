"""What a writing run stands on: the fence and the brokers as of now, the ACLs of new nodes, our own root in
ZooKeeper.
"""

from __future__ import annotations

from kazoo.exceptions import NoAuthError, NodeExistsError, NoNodeError
from kazoo.protocol.serialization import Create, GetACL
from kazoo.security import ACL, Id

from topiarist.adapters import znodes
from topiarist.adapters.znodes import paths
from topiarist.adapters.zookeeper.head import Head, read_head
from topiarist.adapters.zookeeper.session import Session
from topiarist.adapters.zookeeper.transaction import Acl, Kind, Operation, Site, fence
from topiarist.adapters.zookeeper.wire import Failure, read_nodes
from topiarist.errors import Reason, TopiaristError

_PARENTS = (paths.TOPICS, paths.TOPIC_CONFIGS, paths.CHANGES, paths.DELETIONS)

NOTHING = "nothing was written"

_MASKED = ":x"
"""In place of a digest's hash, which is longer."""


def read_site(session: Session, lock_path: str, hint: str = NOTHING) -> tuple[Site, Head]:
    """The ground for transactions, and the cluster's head as of now.

    Raises ``TopiaristError`` with the reason of the gate, and ``hint``, if nothing may be written.
    """
    head = read_head(session)
    require_open(head, hint)
    if head.epoch_version is None or head.gate_version is None:
        # Not the epoch: without one there is no controller, and the gate is closed.
        raise TopiaristError(Reason.STATE_CONFLICT, f"{paths.GATE} has gone in the middle of the run", "run again")
    acls = {parent: _acl_of(session, parent) for parent in _PARENTS}
    acls[paths.RECORDS] = acls[paths.TOPICS]
    brokers = {broker.id: Operation(Kind.CHECK, znodes.broker_path(broker.id)) for broker in head.brokers}
    return Site(fence(lock_path, head.epoch_version, head.gate_version), brokers, acls), head


def require_open(head: Head, hint: str = NOTHING) -> None:
    """Raise if nothing may be written to this cluster; ``hint`` says what was written before."""
    if head.gate.reason:
        raise TopiaristError(head.gate.reason, head.gate.message, hint)


def make_root(session: Session) -> list[ACL]:
    """Make our own nodes where they are missing, with the ACL of Kafka's topics; gives that ACL.

    Single creates: a chroot that does not exist is an error here, never created.
    """
    acl = kazoo_acl(_acl_of(session, paths.TOPICS))
    nodes = {paths.ROOT: b"", paths.LOCK: b"", paths.RECORDS: b"", paths.GATE: znodes.encode_gate(None)}
    # Looked for first: to be told that a node is there already takes the right to make it.
    found = dict(zip(nodes, read_nodes(session, nodes), strict=True))
    for path, data in nodes.items():
        if found[path] is Failure.MISSING:
            _make(session, path, data, acl)
    return acl


def _make(session: Session, path: str, data: bytes, acl: list[ACL]) -> None:
    try:
        session.ask(Create(session.chroot + path, data, acl, 0))
    except NodeExistsError:
        return  # another run was faster, or we were, and the answer was lost
    except NoAuthError:
        message = f"no permission to create {path}, where topiarist keeps its records and its lock"
        raise TopiaristError(Reason.NO_PERMISSION, message, f"give {session.who} the right, or make the node") from None


def kazoo_acl(acl: Acl) -> list[ACL]:
    """The entries in kazoo's form."""
    return [ACL(permissions, Id(scheme, identity)) for permissions, scheme, identity in acl]


def _acl_of(session: Session, path: str) -> Acl:
    """What new nodes below ``path`` get: the entries of their siblings, which are the parent's."""
    try:
        entries, _ = session.ask(GetACL(session.chroot + path))
    except NoNodeError:
        raise TopiaristError(Reason.NOT_A_KAFKA_CLUSTER, f"{path} does not exist") from None
    except NoAuthError:
        message = f"no permission to read the ACL of {path}: what new nodes should get cannot be told"
        raise TopiaristError(Reason.NO_PERMISSION, message) from None
    if any(entry.id.scheme == "digest" and entry.id.id.endswith(_MASKED) for entry in entries):
        # Written back, the mask would lock out whom the entry is for.
        message = (
            f"the ACL of {path} has digest entries, which ZooKeeper shows only to those with the admin right there"
        )
        raise TopiaristError(
            Reason.NO_PERMISSION,
            f"{message}: what new nodes should get cannot be told",
            f"give {session.who} that right",
        )
    return tuple((entry.perms, entry.id.scheme, entry.id.id) for entry in entries)
