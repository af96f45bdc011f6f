"""What a writing run stands on at this moment: controller, gate, brokers, names, and the fence of its transactions.

``site`` reads it once. Here it is kept while ``writing`` sends one topic after the other, and renewed when the server
says that it moved. While a new controller is being elected there is none, and the run waits for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from topiarist.adapters import znodes
from topiarist.adapters.znodes import Pool, ZnodeError
from topiarist.adapters.zookeeper.head import read_again, requested
from topiarist.adapters.zookeeper.reading import TopicNodes, release_of, topic_state
from topiarist.adapters.zookeeper.session import Session
from topiarist.adapters.zookeeper.site import NOTHING, read_site
from topiarist.adapters.zookeeper.wire import Failure, Node
from topiarist.core.change import TopicPlan
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
        self._hint = NOTHING
        self.renew()
        self._hint = "nothing more is written: what was not sent before is left as it was"

    def renew(self) -> None:
        """Find out what there is to stand on now; an election is waited for."""
        self.site, self.head = elected(lambda: read_site(self._session, self._lock_path, self._hint), self._stop)
        self.requested = self.head.requested
        self._unified = unify(self.head.topic_names)
        self._renewed = time.monotonic()

    def renew_if_old(self) -> None:
        """Find it out anew if brokers, names and the gate have had time to change."""
        if time.monotonic() - self._renewed > FRESH:
            self.renew()

    def look_again(self, plans: Sequence[TopicPlan]) -> None:
        """What the topics of ``plans`` rest on and no transaction can check. Raises if a migration to KRaft has begun.

        A broker that comes back has a new registration of the same version, perhaps in another rack.
        """
        named = {broker for plan in plans for replicas in plan.new_replicas() for broker in replicas}
        self.head = read_again(self._session, self.head, sorted(named))
        if self.head.gate.reason:
            self.renew()

    def take_request(self, node: Node | Failure, names: Collection[str]) -> None:
        """Keep what the reassignment request ``node`` names, as it was read with the topics ``names``."""
        self.requested = requested(self._session, node, names)

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
            reassigning=nodes.name in self.requested.topics,
            brokers={broker.id: broker for broker in head.brokers},
            unified=self._unified,
            broker_defaults=head.broker_defaults,
            release_at_least=release_of(head, (found,) if found else ()),
        )
