"""What a manifest can say of one topic as it stands, so that the plan of that manifest has nothing to change.

A topic that no manifest can describe, or that is somebody else's, is ``LeftOut`` as a whole. A config value that no
manifest may hold is left out by itself: the key stays on the cluster, unmanaged, and the topic comes under management.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from topiarist.core import configs
from topiarist.core.differences import THROTTLES
from topiarist.core.javatext import trim
from topiarist.core.rules import config_problem, min_isr_above
from topiarist.core.sizes import unequal_widths
from topiarist.core.spec import NEWEST, ClusterSpec
from topiarist.core.state import TopicState
from topiarist.core.units import count
from topiarist.core.values import scalar

_LONGEST = 65_536
"""Characters of a config value in a manifest."""

_MIN_ISR = "min.insync.replicas"


class LeftOut(NamedTuple):
    """A topic, or one of its configs, that no manifest will have; ``why`` is what many may have in common."""

    topic: str
    why: str


@dataclass(frozen=True, slots=True)
class Kept:
    """One topic as its manifest will describe it; ``config`` is sorted, in the form that reads best.

    ``uneven`` has the words for partitions with different numbers of replicas, and is empty if they have one number;
    ``replication_factor`` is that of most.
    """

    topic: str
    partitions: int
    replication_factor: int
    uneven: str
    config: Mapping[str, str]
    left_out: tuple[LeftOut, ...] = ()


def describe(topic: TopicState, cluster: ClusterSpec) -> Kept | LeftOut:
    """What a manifest will say of a topic that is ours to describe, or why none can."""
    widths = _widths(topic)
    if not widths:
        return LeftOut(topic.name, _without_width(topic))
    factor = max(widths, key=lambda width: (widths[width], width))
    wrong = dict(_unfit(topic.config, factor, cluster))
    record = topic.valid_record
    if ours := sorted(wrong.keys() & set(record.config if record else ())):
        return LeftOut(topic.name, f"{wrong[ours[0]]}; it was set by us, and a manifest without it would remove it")
    fit = sorted(topic.config.keys() - wrong.keys() - THROTTLES)
    return Kept(
        topic=topic.name,
        partitions=len(topic.replicas),
        replication_factor=factor,
        uneven=unequal_widths(topic),
        config={key: readable(key, topic.config[key]) for key in fit},
        left_out=tuple(LeftOut(topic.name, why) for _, why in sorted(wrong.items())),
    )


def readable(key: str, text: str) -> str:
    """The text of a config value that means the same to Kafka and reads best; as it stands if it cannot be read."""
    plain = trim(text)
    if key not in configs.CONFIGS or (configs.CONFIGS[key].form == "double" and not isinstance(scalar(plain), str)):
        return plain
    try:
        return configs.canonical_text(key, plain)
    except ValueError:
        return plain


def _widths(topic: TopicState) -> Counter[int]:
    """How many partitions have how many replicas, but for those that have none or are being moved."""
    pairs = zip(topic.partition_ids, topic.replicas, strict=True)
    return Counter(len(ids) for partition, ids in pairs if ids and partition not in topic.reassigning)


def _without_width(topic: TopicState) -> str:
    if topic.reassigning:
        return "every partition is being reassigned: export again when that is done"
    return "no partition has replicas" if topic.replicas else "it has no partitions"


def _unfit(config: Mapping[str, str], factor: int, cluster: ClusterSpec) -> Iterator[tuple[str, str]]:
    """The keys whose values no manifest of this cluster may hold, each with what is wrong."""
    fit = {}
    for key in sorted(config.keys() - THROTTLES):
        text = readable(key, config[key])
        problem = config_problem(cluster, key, text)
        if problem:
            yield key, problem[0]
        elif key not in configs.CONFIGS and not (text.isprintable() and len(text) <= _LONGEST):
            yield key, f"{key}: its value is too long, or has characters that do not print"
        else:
            fit[key] = text
    # Each conflict goes with the key that it is about; what is left may still be at odds over another one.
    while found := configs.conflicts(fit, cluster.release or NEWEST, cluster.broker_config):
        key, message = found[0]
        del fit[key]
        yield key, message
    if min_isr_above(fit, factor):
        yield _MIN_ISR, f"{_MIN_ISR}: found {fit[_MIN_ISR]}, with {count(factor, 'replica')}"
