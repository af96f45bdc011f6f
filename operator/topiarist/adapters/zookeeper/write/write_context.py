"""The context that the transactions of a run depend on: controller, freeze znode, brokers, topic names, ACLs.

``Writer`` keeps one ``WriteContext`` while it sends topic after topic, and refreshes it when a check of the fence
fails. This module also creates topiarist's own root znodes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from kazoo.exceptions import NoAuthError, NodeExistsError, NoNodeError
from kazoo.protocol.serialization import Create, GetACL
from kazoo.security import ACL, Id

from topiarist.adapters import own_values
from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError
from topiarist.adapters.zookeeper.codec.topics import ZnodeDecoder
from topiarist.adapters.zookeeper.connection.session import Session
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, read_znodes
from topiarist.adapters.zookeeper.read.cluster_metadata import (
    ClusterMetadata,
    TopicZnodes,
    decode_reassignment_request,
    decode_topic_state,
    read_metadata,
    refresh_metadata,
)
from topiarist.adapters.zookeeper.read.state import infer_min_version
from topiarist.adapters.zookeeper.write.transaction import (
    Acl,
    Operation,
    OperationType,
    TransactionTemplate,
    build_fence,
)
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import index_by_metric_name
from topiarist.model.plan import TopicPlan
from topiarist.model.state import ReadError
from topiarist.planning.preconditions import CurrentTopic

CONTROLLER_ELECTION_TIMEOUT_S = 10.0
"""Seconds that a run waits for a new controller; there is none while an election is in progress."""

CONTEXT_MAX_AGE_S = 1.0
"""Seconds after which a run that was throttled reads its context again before it writes."""

HINT_NOTHING_WRITTEN = "nothing was written"

_POLL_INTERVAL_S = 0.1
_PARENT_PATHS = (paths.TOPICS, paths.TOPIC_CONFIGS, paths.CONFIG_CHANGES, paths.DELETION_REQUESTS)

# The end of a digest entry when ZooKeeper masks its hash, which is longer.
_MASKED_DIGEST_SUFFIX = ":x"

T = TypeVar("T")


def wait_for_controller(attempt: Callable[[], T], stop: Callable[[], bool]) -> T:
    """Return the result of ``attempt``, calling it again while it raises ``NoController``.

    After ``CONTROLLER_ELECTION_TIMEOUT_S`` seconds, or once ``stop()`` is true, the error is raised.
    """
    deadline = time.monotonic() + CONTROLLER_ELECTION_TIMEOUT_S
    while True:
        try:
            return attempt()
        except TopiaristError as error:
            if error.reason is not Reason.NO_CONTROLLER or stop() or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_INTERVAL_S)


class WriteContext:
    """The transaction template and the cluster metadata of one run.

    The constructor reads both. Raises ``TopiaristError`` if nothing may be written.
    """

    def __init__(self, session: Session, lock_path: str, stop: Callable[[], bool]) -> None:
        self._session = session
        self._lock_path = lock_path
        self._stop = stop
        self._hint = HINT_NOTHING_WRITTEN
        self.refresh()
        self._hint = "nothing more is written: topics that were not sent are unchanged"

    def refresh(self) -> None:
        """Read the template and the metadata again; wait if an election is in progress."""
        # An election takes some hundred milliseconds; ending the run for it would leave the rest of the plan unwritten.
        self.template, metadata = wait_for_controller(
            lambda: read_transaction_template(self._session, self._lock_path, self._hint), self._stop
        )
        self._use_metadata(metadata)
        self.reassignment_request = metadata.reassignment_request
        self._topics_by_metric_name = index_by_metric_name(metadata.topic_names)
        self._refreshed_at = time.monotonic()

    def refresh_if_stale(self) -> None:
        """Refresh the context if it is older than ``CONTEXT_MAX_AGE_S``."""
        if time.monotonic() - self._refreshed_at > CONTEXT_MAX_AGE_S:
            self.refresh()

    def refresh_metadata(self, plans: Sequence[TopicPlan]) -> None:
        """Refresh the metadata that ``plans`` depend on and that no transaction can check.

        A broker that restarts has a new registration of the same version, perhaps in another rack. Raises
        ``TopiaristError`` if a migration to KRaft has begun.
        """
        broker_ids = {broker for plan in plans for broker in plan.placed_brokers()}
        self._use_metadata(refresh_metadata(self._session, self.metadata, sorted(broker_ids)))
        if self.metadata.write_block.reason:
            self.refresh()

    def update_reassignment_request(self, node: Znode | ReadFailure, names: Collection[str]) -> None:
        """Keep the topics that the reassignment request ``node`` names, read together with the topics ``names``."""
        self.reassignment_request = decode_reassignment_request(self._session, node, names)

    def decode_current_topic(self, nodes: TopicZnodes) -> CurrentTopic | str:
        """Return the topic for a comparison by value, or a message if a znode cannot be read."""
        topic = decode_topic_state(nodes, ZnodeDecoder())
        if isinstance(topic, ReadError):
            return f"{topic.path}: {topic.message}"
        record = topic.record if topic else None
        if topic is None and isinstance(nodes.record, Znode):
            try:
                record = own_values.decode_record(nodes.record.data)
            except ZnodeError as error:
                return f"{paths.record_path(nodes.name)}: {error}"
        return CurrentTopic(
            topic=topic,
            record=record,
            marked_for_deletion=nodes.marked_for_deletion,
            reassigning=nodes.name in self.reassignment_request.topics,
            brokers=self._brokers,
            topics_by_metric_name=self._topics_by_metric_name,
            broker_defaults=self.metadata.broker_defaults,
            min_version=infer_min_version(self.metadata, (topic,) if topic else ()),
        )

    def _use_metadata(self, metadata: ClusterMetadata) -> None:
        self.metadata = metadata
        self._brokers = {broker.id: broker for broker in metadata.brokers}


def read_transaction_template(
    session: Session, lock_path: str, hint: str = HINT_NOTHING_WRITTEN, more_parents: Sequence[str] = ()
) -> tuple[TransactionTemplate, ClusterMetadata]:
    """Return the template for transactions, and the cluster metadata that it was built from.

    ``more_parents`` are the parents of further znodes that the transactions create.
    Raises ``TopiaristError`` with the reason of the write block, and ``hint``, if nothing may be written.
    """
    metadata = read_metadata(session)
    require_writable(metadata, hint)
    if metadata.epoch_version is None or metadata.freeze_version is None:
        # It is the freeze znode: without an epoch there is no controller, and the write block above has raised.
        raise TopiaristError(Reason.STATE_CONFLICT, f"{paths.FREEZE} was deleted during the run", "run again")
    # ACLs are read at every start: a wrong one would lock the brokers out of a new znode.
    acls = {parent: _read_acl(session, parent) for parent in (*_PARENT_PATHS, *more_parents)}
    # Topiarist's own znodes get the ACL of Kafka's topics, like the root znodes of ``ensure_own_znodes``.
    acls[paths.RECORDS] = acls[paths.TOPIARIST_ROOT] = acls[paths.TOPICS]
    fence = build_fence(lock_path, metadata.epoch_version, metadata.freeze_version)
    brokers = {broker.id: Operation(OperationType.CHECK, paths.broker_path(broker.id)) for broker in metadata.brokers}
    return TransactionTemplate(fence, brokers, acls), metadata


def require_writable(metadata: ClusterMetadata, hint: str = HINT_NOTHING_WRITTEN) -> None:
    """Raise ``TopiaristError`` if the cluster has a write block; ``hint`` says what was written before."""
    if metadata.write_block.reason:
        raise TopiaristError(metadata.write_block.reason, metadata.write_block.message, hint)


def ensure_own_znodes(session: Session) -> list[ACL]:
    """Create topiarist's missing root znodes with the ACL of Kafka's topics; return that ACL.

    Each znode is created by a single request: a chroot that does not exist is an error and is never created.
    """
    acl = [ACL(permissions, Id(scheme, identity)) for permissions, scheme, identity in _read_acl(session, paths.TOPICS)]
    nodes = {
        paths.TOPIARIST_ROOT: b"",
        paths.LOCK: b"",
        paths.RECORDS: b"",
        paths.FREEZE: own_values.encode_freeze(None),
    }
    # Read before creating: without the permission to create, ZooKeeper does not report that a znode exists.
    existing = dict(zip(nodes, read_znodes(session, nodes), strict=True))
    for path, data in nodes.items():
        if existing[path] is not ReadFailure.MISSING:
            continue
        try:
            session.call_with_retry(Create(session.chroot + path, data, acl, 0))
        except NodeExistsError:
            pass  # another run created it, or this run did and the reply was lost
        except NoAuthError:
            message = f"no permission to create {path}, where topiarist stores its records and its lock"
            hint = f"give {session.principal_text} the right, or create the znode"
            raise TopiaristError(Reason.NO_PERMISSION, message, hint) from None
    return acl


def _read_acl(session: Session, path: str) -> Acl:
    # New znodes below ``path`` get the ACL of their parent, which their siblings have too (contract 2.1).
    try:
        entries, _ = session.call_with_retry(GetACL(session.chroot + path))
    except NoNodeError:
        raise TopiaristError(Reason.NOT_A_KAFKA_CLUSTER, f"{path} does not exist") from None
    except NoAuthError:
        message = f"no permission to read the ACL of {path}, which new znodes must have"
        raise TopiaristError(Reason.NO_PERMISSION, message) from None
    if any(entry.id.scheme == "digest" and entry.id.id.endswith(_MASKED_DIGEST_SUFFIX) for entry in entries):
        # Writing the mask back would lock out the user of the entry.
        message = (
            f"the ACL of {path} has digest entries, which ZooKeeper shows only to clients with the admin right"
            " there: the ACL that new znodes must have is unknown"
        )
        raise TopiaristError(Reason.NO_PERMISSION, message, f"give {session.principal_text} that right")
    return tuple((entry.perms, entry.id.scheme, entry.id.id) for entry in entries)
