"""What a writing run stands on at this moment: controller, gate, brokers, names, and the fence of its transactions.

``site`` reads it once. Here it is kept while ``writing`` sends one topic after the other, and renewed when the server
says that it moved. While a new controller is being elected there is none, and the run waits for it.

What a writing run stands on: the fence and the brokers as of now, the ACLs of new nodes, our own root in
ZooKeeper.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from kazoo.exceptions import NoAuthError, NodeExistsError, NoNodeError
from kazoo.protocol.serialization import Create, GetACL
from kazoo.security import ACL, Id

from topiarist.adapters.zookeeper.codec import own_znodes, paths
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError
from topiarist.adapters.zookeeper.codec.topics import ZnodeDecoder
from topiarist.adapters.zookeeper.connection.session import Session
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, read_znodes
from topiarist.adapters.zookeeper.read.cluster_metadata import (
    ClusterMetadata,
    decode_reassignment_request,
    read_metadata,
    refresh_metadata,
)
from topiarist.adapters.zookeeper.read.state import infer_min_version
from topiarist.adapters.zookeeper.read.topic import TopicZnodes, decode_topic_state
from topiarist.adapters.zookeeper.write.transaction import (
    Acl,
    Operation,
    OperationType,
    TransactionTemplate,
    build_fence,
)
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.names import index_by_metric_name
from topiarist.model.plan import TopicPlan
from topiarist.model.state import ReadError
from topiarist.planning.preconditions import CurrentTopic

CONTROLLER_ELECTION_TIMEOUT_S = 10.0
"""Seconds that a run waits for a new controller; there is none for as long as an election takes."""

CONTEXT_MAX_AGE_S = 1.0
"""Seconds for which a run that was held back relies on what it stands on; then it looks again before it writes."""

_POLL_INTERVAL_S = 0.1

T = TypeVar("T")


def wait_for_controller(attempt: Callable[[], T], stop: Callable[[], bool]) -> T:
    """What ``attempt`` gives, asked again for as long as an election may take while it raises ``NoController``."""
    deadline = time.monotonic() + CONTROLLER_ELECTION_TIMEOUT_S
    while True:
        try:
            return attempt()
        except TopiaristError as error:
            if error.reason is not Reason.NO_CONTROLLER or stop() or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_INTERVAL_S)


class WriteContext:
    """The ground of one run, read at once. Raises ``TopiaristError`` if nothing may be written."""

    def __init__(self, session: Session, lock_path: str, stop: Callable[[], bool]) -> None:
        self._session = session
        self._lock_path = lock_path
        self._stop = stop
        self._hint = HINT_NOTHING_WRITTEN
        self.refresh()
        self._hint = "nothing more is written: what was not sent before is left as it was"

    def refresh(self) -> None:
        """Find out what there is to stand on now; an election is waited for."""
        self.template, self.metadata = wait_for_controller(
            lambda: read_transaction_template(self._session, self._lock_path, self._hint), self._stop
        )
        self.reassignment_request = self.metadata.reassignment_request
        self._topics_by_metric_name = index_by_metric_name(self.metadata.topic_names)
        self._refreshed_at = time.monotonic()

    def refresh_if_stale(self) -> None:
        """Find it out anew if brokers, names and the gate have had time to change."""
        if time.monotonic() - self._refreshed_at > CONTEXT_MAX_AGE_S:
            self.refresh()

    def refresh_metadata(self, plans: Sequence[TopicPlan]) -> None:
        """What the topics of ``plans`` rest on and no transaction can check. Raises if a migration to KRaft has begun.

        A broker that comes back has a new registration of the same version, perhaps in another rack.
        """
        named = {broker for plan in plans for replicas in plan.new_replicas() for broker in replicas}
        self.metadata = refresh_metadata(self._session, self.metadata, sorted(named))
        if self.metadata.write_block.reason:
            self.refresh()

    def update_reassignment_request(self, node: Znode | ReadFailure, names: Collection[str]) -> None:
        """Keep what the reassignment request ``node`` names, as it was read with the topics ``names``."""
        self.reassignment_request = decode_reassignment_request(self._session, node, names)

    def decode_current_topic(self, nodes: TopicZnodes) -> CurrentTopic | str:
        """A topic as it stands, for a comparison by value; text if one of its nodes cannot be read."""
        found = decode_topic_state(nodes, ZnodeDecoder())
        if isinstance(found, ReadError):
            return f"{found.path}: {found.message}"
        record = found.record if found else None
        if found is None and isinstance(nodes.record, Znode):
            try:
                record = own_znodes.decode_record(nodes.record.data)
            except ZnodeError as error:
                return f"{paths.record_path(nodes.name)}: {error}"
        head = self.metadata
        return CurrentTopic(
            topic=found,
            record=record,
            marked_for_deletion=nodes.marked_for_deletion,
            reassigning=nodes.name in self.reassignment_request.topics,
            brokers={broker.id: broker for broker in head.brokers},
            topics_by_metric_name=self._topics_by_metric_name,
            broker_defaults=head.broker_defaults,
            min_version=infer_min_version(head, (found,) if found else ()),
        )


_PARENT_PATHS = (paths.TOPICS, paths.TOPIC_CONFIGS, paths.CONFIG_CHANGES, paths.DELETION_REQUESTS)

HINT_NOTHING_WRITTEN = "nothing was written"

_MASKED_DIGEST_SUFFIX = ":x"
"""In place of a digest's hash, which is longer."""


def read_transaction_template(
    session: Session, lock_path: str, hint: str = HINT_NOTHING_WRITTEN
) -> tuple[TransactionTemplate, ClusterMetadata]:
    """The ground for transactions, and the cluster's head as of now.

    Raises ``TopiaristError`` with the reason of the gate, and ``hint``, if nothing may be written.
    """
    head = read_metadata(session)
    require_writable(head, hint)
    if head.epoch_version is None or head.freeze_version is None:
        # Not the epoch: without one there is no controller, and the gate is closed.
        raise TopiaristError(Reason.STATE_CONFLICT, f"{paths.FREEZE} has gone in the middle of the run", "run again")
    acls = {parent: _read_acl(session, parent) for parent in _PARENT_PATHS}
    acls[paths.RECORDS] = acls[paths.TOPICS]
    brokers = {broker.id: Operation(OperationType.CHECK, paths.broker_path(broker.id)) for broker in head.brokers}
    return TransactionTemplate(build_fence(lock_path, head.epoch_version, head.freeze_version), brokers, acls), head


def require_writable(metadata: ClusterMetadata, hint: str = HINT_NOTHING_WRITTEN) -> None:
    """Raise if nothing may be written to this cluster; ``hint`` says what was written before."""
    if metadata.write_block.reason:
        raise TopiaristError(metadata.write_block.reason, metadata.write_block.message, hint)


def ensure_own_znodes(session: Session) -> list[ACL]:
    """Make our own nodes where they are missing, with the ACL of Kafka's topics; gives that ACL.

    Single creates: a chroot that does not exist is an error here, never created.
    """
    acl = to_kazoo_acl(_read_acl(session, paths.TOPICS))
    nodes = {
        paths.TOPIARIST_ROOT: b"",
        paths.LOCK: b"",
        paths.RECORDS: b"",
        paths.FREEZE: own_znodes.encode_freeze(None),
    }
    # Looked for first: to be told that a node is there already takes the right to make it.
    found = dict(zip(nodes, read_znodes(session, nodes), strict=True))
    for path, data in nodes.items():
        if found[path] is ReadFailure.MISSING:
            _create_own_znode(session, path, data, acl)
    return acl


def _create_own_znode(session: Session, path: str, data: bytes, acl: list[ACL]) -> None:
    try:
        session.call_with_retry(Create(session.chroot + path, data, acl, 0))
    except NodeExistsError:
        return  # another run was faster, or we were, and the answer was lost
    except NoAuthError:
        message = f"no permission to create {path}, where topiarist keeps its records and its lock"
        raise TopiaristError(
            Reason.NO_PERMISSION, message, f"give {session.principal_text} the right, or make the node"
        ) from None


def to_kazoo_acl(acl: Acl) -> list[ACL]:
    """The entries in kazoo's form."""
    return [ACL(permissions, Id(scheme, identity)) for permissions, scheme, identity in acl]


def _read_acl(session: Session, path: str) -> Acl:
    """What new nodes below ``path`` get: the entries of their siblings, which are the parent's."""
    try:
        entries, _ = session.call_with_retry(GetACL(session.chroot + path))
    except NoNodeError:
        raise TopiaristError(Reason.NOT_A_KAFKA_CLUSTER, f"{path} does not exist") from None
    except NoAuthError:
        message = f"no permission to read the ACL of {path}: what new nodes should get cannot be told"
        raise TopiaristError(Reason.NO_PERMISSION, message) from None
    if any(entry.id.scheme == "digest" and entry.id.id.endswith(_MASKED_DIGEST_SUFFIX) for entry in entries):
        # Written back, the mask would lock out whom the entry is for.
        message = (
            f"the ACL of {path} has digest entries, which ZooKeeper shows only to those with the admin right there"
        )
        raise TopiaristError(
            Reason.NO_PERMISSION,
            f"{message}: what new nodes should get cannot be told",
            f"give {session.principal_text} that right",
        )
    return tuple((entry.perms, entry.id.scheme, entry.id.id) for entry in entries)
