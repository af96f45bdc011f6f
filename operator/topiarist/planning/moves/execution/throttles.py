"""The config values that throttle a batch (KIP-73), and what becomes of the values that they replace.

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

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.config_table import RATE_CONFIGS, THROTTLE_CONFIGS
from topiarist.model.moves import UNLIMITED, BatchRecord, OwnThrottles, OwnValue, ReplicaMove
from topiarist.text import format_count

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
