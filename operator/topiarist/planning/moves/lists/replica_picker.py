"""Chooses a broker for one more replica: of a rack that the list lacks, the broker with the fewest replicas.

``raise_factor``, ``drain`` and ``repair_racks`` use one ``ReplicaPicker`` for all topics of a plan in turn, so that its
counts have the replicas that earlier topics got. An example with equal counts, where the order of the brokers
alternates racks and the search goes forward from the replaced broker 5::

    order     1 (a)  3 (b)  5 (c)  2 (a)  4 (b)  6 (c)
    list      1, 3, 5 without 5: the racks a and b are there, so c is preferred, and 6 is chosen
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from topiarist.kafka.placement import AssignmentError, alternate_racks
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.plan import Load, compute_broker_load
from topiarist.text import format_count

_UNIT = 1 << 32
"""More than any count of replicas, so that two counts fit into one number that compares like a pair."""


class ReplicaPicker:
    """A picker over the registered brokers; those in ``without`` take no replicas.

    ``lists`` has the number of each replica list of the cluster. Without racks each broker counts as a rack of its own;
    so does a broker that is not registered.
    """

    def __init__(
        self, brokers: Sequence[Broker], without: Collection[int] = (), lists: Mapping[Replicas, int] | None = None
    ) -> None:
        self.takers = tuple(broker for broker in sorted(brokers) if broker.id not in without)
        """The brokers that may take replicas, by id."""
        racked = all(broker.rack is not None for broker in brokers)
        self._has_racks = any(broker.rack is not None for broker in brokers)
        self._order = alternate_racks(brokers) if racked else tuple(sorted(broker.id for broker in brokers))
        self._rack_by_broker: dict[int, str | int] = {
            broker.id: broker.id if broker.rack is None else broker.rack for broker in brokers
        }
        taking = {broker.id for broker in self.takers}
        self._taker_racks = frozenset(self.rack_of(broker) for broker in taking)
        self._turns = {
            broker: tuple(id_ for id_ in (*self._order[at + 1 :], *self._order[: at + 1]) if id_ in taking)
            for at, broker in enumerate(self._order)
        }
        self._default_turn = tuple(broker for broker in self._order if broker in taking)
        load = compute_broker_load(lists or {}, self._order)
        self._held = {broker: load[broker].replicas for broker in self._order}
        self._led = {broker: load[broker].leaders for broker in self._order}
        self._score = dict(self._held)
        self._topic_led: Counter[int] = Counter()
        self._uncounted: Iterable[Replicas] | None = None
        self._lacks_rack: dict[Replicas, bool] = {}

    def rack_of(self, broker: int) -> str | int:
        """Return the rack of a broker; its id if it has none or is not registered."""
        return self._rack_by_broker.get(broker, broker)

    def count_racks(self, replicas: Iterable[int]) -> int:
        """Return the number of different racks of a list."""
        return len({self.rack_of(broker) for broker in replicas})

    def lacks_rack(self, replicas: Replicas) -> bool:
        """Return whether a list has fewer racks than it could have."""
        if not self._has_racks:  # each broker is a rack of its own
            racks = len(set(replicas))
            return racks < len(replicas) and racks < self.count_available_racks(replicas)
        lacks = self._lacks_rack.get(replicas)
        if lacks is None:  # few lists of a cluster are distinct
            lacks = self.count_racks(replicas) < self.count_available_racks(replicas)
            self._lacks_rack[replicas] = lacks
        return lacks

    def count_available_racks(self, replicas: Replicas) -> int:
        """Return the number of racks that a list of this length can have at most."""
        return min(len(replicas), len(self._taker_racks.union(map(self.rack_of, replicas))))

    def begin_topic(self, lists: Iterable[Replicas]) -> None:
        """Count the lists of the next topic, which the cluster's counts contain already."""
        self._uncounted = lists  # most topics need no other replica, so their lists are counted at the first change

    def _count_topic(self) -> None:
        if self._uncounted is None:
            return
        lists, self._uncounted = self._uncounted, None
        self._score = dict(self._held)
        self._topic_led = Counter()
        for replicas in lists:
            if replicas:
                self._topic_led[replicas[0]] += 1
            for broker in replicas:
                if broker in self._score:
                    self._score[broker] += _UNIT

    def require_takers(self, kept: Collection[int], width: int) -> None:
        """Raise ``AssignmentError`` if ``kept`` cannot become a list of this width; call it before the first ``pick``.

        A topic that is refused must not change the counts for the topics after it.
        """
        if len({*kept, *self._default_turn}) < width:
            raise too_few_brokers_error(width, len(self.takers))

    def pick(self, kept: Collection[int], origin: int, *, leads: bool = False) -> int:
        """Return the broker for one more replica beside ``kept``, and count it.

        The first broker after ``origin`` with the fewest replicas: of the topic, then of the cluster. If it ``leads``,
        led partitions count before replicas. Raises ``AssignmentError`` if every broker is in ``kept``.
        """
        self._count_topic()
        turn = self._turns.get(origin, self._default_turn)
        racks = {self.rack_of(broker) for broker in kept}
        candidates = [broker for broker in turn if self._rack_by_broker[broker] not in racks]
        candidates = candidates or [broker for broker in turn if broker not in kept]
        if not candidates:
            raise too_few_brokers_error(len(kept) + 1, len(turn))
        chosen = min(candidates, key=self._leader_key if leads else self._score.__getitem__)
        self.add(chosen, leads=leads)
        return chosen

    def remove(self, broker: int, *, leads: bool = False) -> None:
        """Subtract a replica that its list no longer has."""
        self._count_topic()
        if broker in self._held:
            self._held[broker] -= 1
            self._score[broker] -= _UNIT + 1
            self._led[broker] -= leads
            self._topic_led[broker] -= leads

    def add(self, broker: int, *, leads: bool = False) -> None:
        """Count a replica that was chosen without ``pick``."""
        self._count_topic()
        if broker in self._held:
            self._held[broker] += 1
            self._score[broker] += _UNIT + 1
            self._led[broker] += leads
            self._topic_led[broker] += leads

    def load(self) -> dict[int, Load]:
        """Return the counts of the registered brokers."""
        return {broker: Load(self._led[broker], self._held[broker]) for broker in sorted(self._order)}

    def _leader_key(self, broker: int) -> tuple[int, int, int, int]:
        topic_held, held = divmod(self._score[broker], _UNIT)
        return self._topic_led[broker], topic_held, self._led[broker], held


def too_few_brokers_error(width: int, takers: int) -> AssignmentError:
    """Return the error for a list that needs more brokers than there are."""
    able = f"{format_count(takers, 'broker')} can take replicas"
    return AssignmentError("invalid_replication_factor", f"found {width} replicas for one partition, but {able}")
