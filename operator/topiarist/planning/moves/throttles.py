"""The config values that throttle a batch (KIP-73), and the causes for which a reassignment waits.

A throttle needs both: rates on the brokers, and the replicas in two configs of each topic. Each config, of topics and
brokers, is decided by value. A throttle of another client always stays::

    on the cluster        our value of before     this batch needs      result
    not set, or theirs    none                    a list                theirs with ours added; theirs is noted
    ``*``                 none                    a list                stays: it covers ours
    ours                  noted                   another list          theirs of before with the new one added
    ours                  noted                   nothing               a list goes back to theirs, a rate stays
    ours                  noted                   the end of all        theirs of before
    anything else         noted                   whatever              counts as theirs, with a remark
    a rate, theirs        none                    a rate                stays, with a remark

The adapter writes the result with the batch, together with the note of each value before and ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.config_table import RATE_CONFIGS, THROTTLE_CONFIGS
from topiarist.kafka.types import Replicas
from topiarist.model.moves import UNLIMITED, BatchRecord, OwnThrottles, OwnValue, ReplicaMove, RequestedReassignment
from topiarist.model.state import Reassignment
from topiarist.planning.builder import StaleEntry, explain_stale_entry
from topiarist.text import format_count, printable

Throttled = tuple[int, int]
"""A partition and a broker, which the config writes as ``0:1``."""


class ThrottledReplicas(NamedTuple):
    """The throttled replicas of one topic: those that are read from, and those that are written."""

    leader: tuple[Throttled, ...]
    follower: tuple[Throttled, ...]


def find_throttled_replicas(moves: Iterable[ReplicaMove]) -> Mapping[str, ThrottledReplicas]:
    """Return the throttled replicas of each topic, sorted: all replicas before, and the added ones."""
    leaders: dict[str, set[Throttled]] = {}
    followers: dict[str, set[Throttled]] = {}
    for move in moves:
        if move.added:
            leaders.setdefault(move.topic, set()).update((move.partition, broker) for broker in move.before)
            followers.setdefault(move.topic, set()).update((move.partition, broker) for broker in move.added)
    return {
        topic: ThrottledReplicas(tuple(sorted(leaders[topic])), tuple(sorted(followers[topic])))
        for topic in sorted(leaders)
    }


def find_throttled_brokers(replicas: Iterable[ThrottledReplicas]) -> tuple[int, ...]:
    """Return the brokers that need a rate, sorted."""
    return tuple(sorted({broker for found in replicas for listed in found for _, broker in listed}))


def format_throttled_replicas(replicas: Iterable[Throttled]) -> str:
    """Return the text of a config: ``0:1,0:2``."""
    return ",".join(f"{partition}:{broker}" for partition, broker in replicas)


LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
_ALL_REPLICAS = "*"


EntityConfigs = Mapping[str, Mapping[str, str]]
"""Config overrides by entity."""


def require_rate(rate: int | None, moves: Iterable[ReplicaMove]) -> int:
    """Return the rate of ``moves``; raise ``ThrottleMissing`` if replicas are copied and none is declared."""
    if rate is not None:
        return rate
    if copies := sum(len(move.added) for move in moves):
        message = f"{format_count(copies, 'replica')} to copy, and no throttle is declared"
        raise TopiaristError(Reason.THROTTLE_MISSING, message, "set throttle in spec.moves of the Cluster")
    return UNLIMITED


class ThrottleUpdate(NamedTuple):
    """The complete overrides of each entity that changes, the values that are then ours, and remarks for the user."""

    configs: EntityConfigs
    own: OwnThrottles
    remarks: tuple[str, ...]


def find_needed_throttles(moves: Iterable[ReplicaMove], rate: int) -> EntityConfigs:
    """Return the configs that throttle ``moves`` to ``rate`` bytes a second; nothing if it is ``UNLIMITED``."""
    if rate == UNLIMITED:
        return {}
    replicas = find_throttled_replicas(moves)
    topics = {
        f"topics/{topic}": {
            LEADER_REPLICAS: format_throttled_replicas(found.leader),
            FOLLOWER_REPLICAS: format_throttled_replicas(found.follower),
        }
        for topic, found in replicas.items()
    }
    brokers = find_throttled_brokers(replicas.values())
    return topics | {f"brokers/{broker}": dict.fromkeys(RATE_CONFIGS, str(rate)) for broker in brokers}


def update_throttles(
    needed: EntityConfigs, current: EntityConfigs, own: OwnThrottles, *, final: bool = False
) -> ThrottleUpdate:
    """Return the configs to write before a batch; ``final`` if no batch follows.

    ``current`` has the overrides of every entity in ``needed`` and ``own``; a topic that was deleted is not in it.
    """
    configs: dict[str, dict[str, str]] = {}
    own_after: dict[str, dict[str, OwnValue]] = {}
    remarks: list[str] = []
    for entity in sorted({*needed, *own}):
        if entity not in current:
            remarks.append(f"{entity} was deleted, with its throttle")
            continue
        config = dict(current[entity])
        for key in sorted({*needed.get(entity, ()), *own.get(entity, ())}):
            found, noted, wanted = config.get(key), own.get(entity, {}).get(key), needed.get(entity, {}).get(key)
            is_ours = noted is not None and found == noted.ours
            theirs = noted.before if noted is not None and is_ours else found
            if noted is not None and not is_ours:
                remarks.append(f"{entity}: another client changed {key} to {found or 'no value'}")
            if wanted is None and is_ours and key in RATE_CONFIGS and not final:
                after = found
            elif key in THROTTLE_CONFIGS:
                after = _add_replicas(theirs, wanted)
            else:
                after = wanted if theirs is None else theirs
                if wanted is not None and theirs is not None:
                    remarks.append(f"{entity}: {key} is {theirs} already, and stays")
            if after is None:
                config.pop(key, None)
            else:
                config[key] = after
                if after != theirs:
                    own_after.setdefault(entity, {})[key] = OwnValue(theirs, after)
        if config != current[entity]:
            configs[entity] = config
    return ThrottleUpdate(configs, own_after, tuple(remarks))


def has_other_rate(record: BatchRecord, rate: int) -> bool:
    """Return whether a batch may have another rate than ``rate``; a rate of another client stays, and counts too."""
    brokers = {entity for entity in record.throttles if entity.startswith("brokers/")}
    rates = {own.ours for broker in brokers for own in record.throttles[broker].values()}
    needed = {entity for entity in find_needed_throttles(record.moves, rate) if entity.startswith("brokers/")}
    return bool(needed - brokers or rates - {str(rate)})


def find_present_throttles(current: EntityConfigs, record: BatchRecord) -> OwnThrottles:
    """Return the values of ``record`` that are in place, if its throttles were not written in one transaction with it.

    A run that ended between the record and the throttles left the values that ``record.replaced`` has, or some of each.
    A value that is back as it was before is not ours. A value that is neither was changed by another client, and stays
    in the result, so that ``update_throttles`` says so.
    """
    present: dict[str, dict[str, OwnValue]] = {}
    for entity in {*record.throttles, *record.replaced}:
        config = current.get(entity, {})
        noted, earlier = record.throttles.get(entity, {}), record.replaced.get(entity, {})
        for key in {*noted, *earlier}:
            known = [each[key] for each in (noted, earlier) if key in each]
            found = config.get(key)
            if entity in current and found == known[-1].before:
                continue
            ours = next((each for each in known if each.ours == found), known[0])
            present.setdefault(entity, {})[key] = ours
    return present


def _add_replicas(theirs: str | None, added: str | None) -> str | None:
    """Return the list of another client with ours added; theirs alone if it covers ours."""
    if added is None or (theirs and theirs.strip() == _ALL_REPLICAS):
        return theirs
    listed = theirs.split(",") if theirs else []
    missing = [replica for replica in added.split(",") if replica not in listed]
    return ",".join([*listed, *missing]) if missing else theirs


# Explains what the partitions of a reassignment request wait for, in the order in which an operator should look.
#
# 1. A broker of the target is not registered: nothing can be copied to it, and the move waits until it returns.
# 2. A replica that stays is not in sync: the controller ends a move only when all of the target is in sync.
# 3. Otherwise brokers copy, or a throttle below the rate of production holds them back.
#
# Entries that the controller never removes by itself are a separate case: ``find_stuck_entry``.

_HINT_RUN_AGAIN = "what is in flight continues at the controller; run again to wait for it"
_HINT_DUPLICATE = "request the present replicas of the partition, with kafka-reassign-partitions --bootstrap-server"
_HINT_NEGATIVE = (
    "request the replicas that it had before, with kafka-reassign-partitions --bootstrap-server; or end it with"
    " --cancel, which may change their order"
)


class PartitionInFlight(NamedTuple):
    """A partition that a request names: its target, the added brokers among it, and its in-sync replicas."""

    topic: str
    partition: int
    target: Replicas
    adding: Replicas
    isr: Replicas

    @property
    def lagging(self) -> Replicas:
        """Return the brokers of the target that are not in sync."""
        return tuple(broker for broker in self.target if broker not in self.isr)


class StallWatch:
    """The progress of what is in flight; ``rate`` is the throttle of its copies, None if that is not known.

    ``stall_after`` is in seconds; ``deadline`` is the time at which moves without progress end the run.
    """

    def __init__(self, stall_after: float, rate: int | None) -> None:
        self._stall_after = stall_after
        self._rate = rate
        self._least: tuple[int, int] | None = None
        self.deadline = 0.0

    def reset(self) -> None:
        """Begin anew: other moves are in flight."""
        self._least = None

    def is_stalled(self, left: int, in_flight: Iterable[PartitionInFlight], now: float) -> bool:
        """Return whether neither partitions (``left``) nor replicas in sync changed until ``deadline``.

        ``now`` is the time in seconds.
        """
        found = left, sum(len(each.lagging) for each in in_flight)
        if self._least is None or found < self._least:
            self._least, self.deadline = found, now + self._stall_after
            return False
        return now >= self.deadline

    def error(self, in_flight: Sequence[PartitionInFlight], registered: Collection[int]) -> TopiaristError:
        """Return the error that ends the run, with what the partitions wait for."""
        message = f"no progress for {self._stall_after:g} s: {explain_stall(in_flight, registered, self._rate)}"
        if len(in_flight) > 1:
            message += f"; {format_count(len(in_flight), 'partition')} in flight"
        return TopiaristError(Reason.MOVES_STALLED, message, _HINT_RUN_AGAIN)


def find_added(target: Replicas, present: Replicas, reassignment: Reassignment | None) -> Replicas:
    """Return the brokers of ``target`` that copy the partition, given its list and its reassignment.

    Until the controller begins with a partition, it has the list of before and no reassignment.
    """
    if reassignment:
        return reassignment.adding
    return tuple(broker for broker in target if broker not in present)


def find_blocker(partitions: Sequence[PartitionInFlight], registered: Collection[int]) -> str:
    """Return what keeps partitions from ending however fast brokers copy; empty if nothing is known."""
    offline: dict[int, list[PartitionInFlight]] = {}
    unsynced: dict[int, list[PartitionInFlight]] = {}
    for each in partitions:
        for broker in each.lagging:
            if broker not in registered:
                offline.setdefault(broker, []).append(each)
            elif broker not in each.adding:
                unsynced.setdefault(broker, []).append(each)
    if offline:
        broker = min(offline)
        return f"broker {broker} is not registered: {_name(offline[broker])}"
    if unsynced:
        broker = min(unsynced)
        return f"broker {broker} keeps a replica that is not in sync: {_name(unsynced[broker])}"
    return ""


def explain_stall(partitions: Sequence[PartitionInFlight], registered: Collection[int], rate: int | None) -> str:
    """Return what the partitions wait for; ``rate`` is the throttle in bytes a second, None if it is not known."""
    if blocker := find_blocker(partitions, registered):
        return blocker
    copying = [each for each in partitions if each.lagging]
    if not copying:
        return "all replicas are in sync, and the controller has not ended the reassignment: read its log"
    held = "" if rate in (None, UNLIMITED) else f", or a throttle of {rate:,} bytes/s is below what is produced"
    brokers = sorted({broker for each in copying for broker in each.lagging})
    count = format_count(len(copying), "partition")
    return f"broker {', '.join(map(str, brokers))} has not copied all of {count} yet{held}"


def find_stuck_entry(entry: RequestedReassignment, *, exists: bool, is_younger: bool) -> str:
    """Return why the controller never removes an entry by itself, and what removes it; empty if it can be removed.

    ``exists`` is whether its topic does, ``is_younger`` whether the topic was created after the request.
    """
    where = f"{printable(entry.topic)}, partition {entry.partition}"
    if not exists or is_younger:
        stale = explain_stale_entry(topic_exists=exists)
        return f"{where}: {stale.message}; {stale.hint}"
    if invalid := explain_invalid_entry(entry):
        return f"{where}: {invalid.message}; {invalid.hint}"
    return ""


def find_stuck_request(entries: Iterable[tuple[RequestedReassignment, bool, bool]]) -> str:
    """Return why nothing of a request can be removed by the controller; empty if something can.

    Each entry has whether its topic exists, and whether that is younger, as in ``find_stuck_entry``.
    """
    causes = [find_stuck_entry(entry, exists=exists, is_younger=is_younger) for entry, exists, is_younger in entries]
    return causes[0] if causes and all(causes) else ""


def explain_invalid_entry(entry: RequestedReassignment) -> StaleEntry | None:
    """Return why the controller never removes an entry with such a target, and a hint; None for a valid target."""
    target = list(entry.replicas)
    if any(broker < 0 for broker in target):
        message = f"the target {target} has a negative broker id, and the controller waits for that broker without end"
        return StaleEntry(message, _HINT_NEGATIVE)
    if len(set(target)) < len(target):
        message = f"the target {target} has a broker twice, and the controller ignores it"
        return StaleEntry(message, _HINT_DUPLICATE)
    return None


def _name(partitions: Sequence[PartitionInFlight]) -> str:
    first, count = partitions[0], len(partitions)
    named = f"{printable(first.topic)} {first.partition}"
    if count == 1:
        return f"partition {named} waits for it"
    return f"{format_count(count, 'partition')} wait for it ({named} is the first)"
