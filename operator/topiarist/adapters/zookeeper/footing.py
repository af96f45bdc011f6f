"""What a writing run stands on at this moment: controller, gate, brokers, names, and the fence of its transactions.

``site`` reads it once. Here it is kept while ``writing`` sends one topic after the other, and renewed when the server
says that it moved. While a new controller is being elected there is none, and the run waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from topiarist.adapters import znodes
from topiarist.adapters.znodes import Pool, ZnodeError
from topiarist.adapters.zookeeper.head import read_reassigning
from topiarist.adapters.zookeeper.reading import TopicNodes, release_of, topic_state
from topiarist.adapters.zookeeper.session import Session
from topiarist.adapters.zookeeper.site import read_site
from topiarist.adapters.zookeeper.wire import Node
from topiarist.core.evolve import Now
from topiarist.core.names import unify
from topiarist.core.state import Fault
from topiarist.errors import Reason, TopiaristError

ELECTION = 10.0
"""Seconds that a run waits for a new controller; there is none for as long as an election takes."""

FRESH = 1.0
"""Seconds for which a run that was held back relies on what it stands on; then it looks again before it writes."""

_LOOK_AGAIN = 0.1

T = TypeVar("T")


def elected(ask: Callable[[], T], stop: Callable[[], bool]) -> T:
    """What ``ask`` gives, asked again for as long as an election may take while it raises ``NoController``."""
    deadline = time.monotonic() + ELECTION
    while True:
        try:
            return ask()
        except TopiaristError as error:
            if error.reason is not Reason.NO_CONTROLLER or stop() or time.monotonic() > deadline:
                raise
            time.sleep(_LOOK_AGAIN)


class Footing:
    """The ground of one run, read at once. Raises ``TopiaristError`` if nothing may be written."""

    def __init__(self, session: Session, lock_path: str, stop: Callable[[], bool]) -> None:
        self._session = session
        self._lock_path = lock_path
        self._stop = stop
        self.renew()

    def renew(self) -> None:
        """Find out what there is to stand on now; an election is waited for."""
        self.site, self.head = elected(lambda: read_site(self._session, self._lock_path), self._stop)
        self._unified = unify(self.head.topic_names)
        self._renewed = time.monotonic()

    def renew_if_old(self) -> None:
        """Find it out anew if brokers, names and the gate have had time to change."""
        if time.monotonic() - self._renewed > FRESH:
            self.renew()

    def look_at_reassignments(self, growing: Sequence[str]) -> None:
        """What a request names now of the topics that are to grow, if there are any.

        Read after the topics: a request that came and went before is in the topic's node, or moves its version.
        """
        if growing:
            self.head = replace(self.head, reassigning=read_reassigning(self._session, growing))

    def now(self, nodes: TopicNodes) -> Now | str:
        """A topic as it stands, for a comparison by value; text if one of its nodes cannot be read."""
        found = topic_state(nodes, Pool())
        if isinstance(found, Fault):
            return f"{found.where}: {found.why}"
        record = found.record if found else None
        if found is None and isinstance(nodes.record, Node):
            try:
                record = znodes.decode_record(nodes.record.data)
            except ZnodeError as error:
                return f"{znodes.record_path(nodes.name)}: {error}"
        head = self.head
        return Now(
            topic=found,
            record=record,
            marked=nodes.marked,
            reassigning=nodes.name in head.reassigning,
            brokers={broker.id: broker for broker in head.brokers},
            unified=self._unified,
            broker_defaults=head.broker_defaults,
            release_at_least=release_of(head, (found,) if found else ()),
        )
