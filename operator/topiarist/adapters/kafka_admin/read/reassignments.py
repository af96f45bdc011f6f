"""Read the reassignments in progress, which the controller lists with the replicas that it adds and removes.

The controller lists what it has decided, and brokers serve what is committed. On Kafka 4.4.0 a partition that was no
longer listed kept its replica list of during the move for some ms, also after a sync: together they look like a list
that another client wrote. So metadata fit a list of reassignments only if they are read after a sync that begins some
time after that list, and if the list is the same afterwards (``ReassignmentsWatch``).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping

from kafka.protocol.admin.topics import ListPartitionReassignmentsRequest

from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import Connection, Message
from topiarist.adapters.kafka_admin.connection.offered import UnsupportedRequest
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read.sync import sync
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Replicas
from topiarist.model.state import Reassignment

LIST_TIMEOUT_MS = 10_000
RIGHT = "Describe on the cluster"

SETTLE_S = 0.05
"""Seconds after which what a list of reassignments shows is committed, or at least before the high watermark."""

Reassignments = Mapping[str, Mapping[int, Reassignment]]
"""The reassignments by topic and partition."""


class ReassignmentsWatch:
    """The reassignments during one read of metadata. ``current`` is the last list; empty if it is not visible.

    ``is_visible`` is false without the right to list them, without a controller, and if the brokers do not offer that;
    ``hidden_because`` is the reason, empty without a controller.
    """

    def __init__(self, session: Session, connection: Connection, *, has_controller: bool = True) -> None:
        self._session = session
        self._connection = connection
        self._listed_at = time.monotonic()
        self.current: Reassignments = {}
        self.is_visible = has_controller
        self.hidden_because = ""
        if has_controller:
            try:
                self.current = read_reassignments(session, connection)
            except UnsupportedRequest as error:
                self.is_visible, self.hidden_because = False, str(error)
            except TopiaristError as error:
                if error.reason is not Reason.NO_PERMISSION:
                    raise
                self.is_visible, self.hidden_because = False, f"{RIGHT} is missing"
        self._listed_at = time.monotonic()

    def settle(self) -> None:
        """Return when metadata that are read now are not older than the last list. Raises the errors of ``sync``."""
        if self.is_visible:
            time.sleep(max(0.0, self._listed_at + SETTLE_S - time.monotonic()))
            sync(self._session)

    def refresh(self) -> Collection[str]:
        """List the reassignments again, and return the topics with other ones: their metadata are to be read again."""
        if not self.is_visible:
            return ()
        before, self.current = self.current, read_reassignments(self._session, self._connection)
        self._listed_at = time.monotonic()
        return {name for name in (*before, *self.current) if before.get(name) != self.current.get(name)}


def read_reassignments(session: Session, connection: Connection) -> Reassignments:
    """Return all reassignments in progress.

    Raises ``NoPermission``, ``Disconnected``, and ``UnsupportedRequest`` if the brokers never list them.
    """
    answer = connection.call(build_list_reassignments())
    if answer.error_code == error_codes.UNSUPPORTED_VERSION:
        code = error_codes.describe_error(answer.error_code)
        raise UnsupportedRequest(f"the brokers answer ListPartitionReassignments with {code}")
    if answer.error_code:
        raise session.error_of(answer.error_code, "cannot list the reassignments", RIGHT, answer.error_message)
    return decode_reassignments(answer)


def build_list_reassignments() -> Message:
    """Return the request for all partitions that are being reassigned."""
    return ListPartitionReassignmentsRequest(timeout_ms=LIST_TIMEOUT_MS, topics=None)


def decode_reassignments(answer: Message) -> Reassignments:
    """Return the partitions that are being reassigned; the caller has read the error of the answer."""
    return {
        topic.name: {
            each.partition_index: Reassignment(tuple(each.adding_replicas), tuple(each.removing_replicas))
            for each in topic.partitions
        }
        for topic in answer.topics
    }


def target_of(replicas: Replicas, reassignment: Reassignment) -> Replicas:
    """Return the list that a partition has after its reassignment, from the list that it has meanwhile."""
    return tuple(broker for broker in replicas if broker not in reassignment.removing)
