"""What a writing run stands on: the fence and the brokers as of now, the ACLs of new nodes, our own root in
ZooKeeper.
"""

from __future__ import annotations

from kazoo.exceptions import NoAuthError, NodeExistsError, NoNodeError
from kazoo.protocol.serialization import Create, GetACL
from kazoo.security import ACL, Id

from topiarist.adapters import znodes
from topiarist.adapters.znodes import ZnodeError, paths
from topiarist.adapters.zookeeper.head import Head, read_head
from topiarist.adapters.zookeeper.reading import TopicNodes
from topiarist.adapters.zookeeper.session import Interrupted, Session
from topiarist.adapters.zookeeper.transaction import Acl, Kind, Operation, Site, fence
from topiarist.adapters.zookeeper.wire import Node
from topiarist.core.evolve import Now
from topiarist.core.state import Fault, TopicState
from topiarist.errors import Reason, TopiaristError

_PARENTS = (paths.TOPICS, paths.TOPIC_CONFIGS, paths.CHANGES, paths.DELETIONS)


def read_site(session: Session, lock_path: str) -> tuple[Site, Head]:
    """The ground for transactions, and the cluster's head as of now.

    Raises ``TopiaristError`` with the reason of the gate if nothing may be written.
    """
    head = read_head(session)
    require_open(head)
    if head.epoch_version is None or head.gate_version is None:
        gone = paths.GATE if head.gate_version is None else paths.CONTROLLER_EPOCH
        raise TopiaristError(Reason.STATE_CONFLICT, f"{gone} has gone in the middle of the run", "run again")
    acls = {parent: _acl_of(session, parent) for parent in _PARENTS}
    acls[paths.RECORDS] = acls[paths.TOPICS]
    brokers = {broker.id: Operation(Kind.CHECK, znodes.broker_path(broker.id)) for broker in head.brokers}
    return Site(fence(lock_path, head.epoch_version, head.gate_version), brokers, acls), head


def require_open(head: Head) -> None:
    """Raise if nothing may be written to this cluster."""
    if head.gate.reason:
        raise TopiaristError(head.gate.reason, head.gate.message, "nothing was written")


def make_root(session: Session) -> list[ACL]:
    """Make our own nodes where they are missing, with the ACL of Kafka's topics; gives that ACL.

    Single creates: a chroot that does not exist is an error here, never created.
    """
    acl = kazoo_acl(_acl_of(session, paths.TOPICS))
    for path, data in (
        (paths.ROOT, b""),
        (paths.LOCK, b""),
        (paths.RECORDS, b""),
        (paths.GATE, znodes.encode_gate(None)),
    ):
        try:
            session.result(session.send(Create(session.chroot + path, data, acl, 0)))
        except NodeExistsError:
            continue
        except NoAuthError:
            message = f"no permission to create {path}, where topiarist keeps its records and its lock"
            raise TopiaristError(
                Reason.NO_PERMISSION, message, "give this identity the right, or make the node"
            ) from None
        except Interrupted:
            # Making it again is harmless: it is there or it is not.
            session.resume()
            return make_root(session)
    return acl


def kazoo_acl(acl: Acl) -> list[ACL]:
    """The entries in kazoo's form."""
    return [ACL(permissions, Id(scheme, identity)) for permissions, scheme, identity in acl]


def _acl_of(session: Session, path: str) -> Acl:
    """What new nodes below ``path`` get: the entries of their siblings, which are the parent's."""
    while True:
        try:
            entries, _ = session.result(session.send(GetACL(session.chroot + path)))
            return tuple((entry.perms, entry.id.scheme, entry.id.id) for entry in entries)
        except Interrupted:
            session.resume()
        except NoNodeError:
            raise TopiaristError(Reason.NOT_A_KAFKA_CLUSTER, f"{path} does not exist") from None
        except NoAuthError:
            message = f"no permission to read the ACL of {path}: what new nodes should get cannot be told"
            raise TopiaristError(Reason.NO_PERMISSION, message) from None


def now_of(nodes: TopicNodes, found: TopicState | Fault | None, head: Head) -> Now | str:
    """The topic as it stands, for a comparison by value; text if one of its nodes cannot be read."""
    if isinstance(found, Fault):
        return f"{found.where}: {found.why}"
    record = found.record if found else None
    if found is None and isinstance(nodes.record, Node):
        try:
            record = znodes.decode_record(nodes.record.data)
        except ZnodeError as error:
            return f"{znodes.record_path(nodes.name)}: {error}"
    return Now(
        topic=found,
        record=record,
        marked=nodes.marked,
        reassigning=nodes.name in head.reassigning,
        brokers={broker.id: broker for broker in head.brokers},
    )
