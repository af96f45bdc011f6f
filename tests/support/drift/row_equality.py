"""The fast equality check of one snapshot row, called as by a reader of snapshots."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from topiarist.adapters.snapshots.lenient_reader import CachingReader, RowRemainder
from topiarist.drift.cross_cluster import SpecGroups
from topiarist.drift.equality import EqualityIndex, EqualTopics
from topiarist.drift.placement import find_checker
from topiarist.kafka.types import Broker
from topiarist.model.spec import TopicSpec


def check_row(spec: TopicSpec, row: Mapping[str, Any], owner: str, brokers: Sequence[Broker]) -> EqualTopics:
    """Return the counted topic of a cluster with only this row, or nothing."""
    lists = CachingReader().parse_replica_lists(json.dumps(row["replicas"], separators=(",", ":")).encode())
    assert lists is not None
    equal_topics = EqualityIndex(owner, SpecGroups({})).for_cluster([spec])
    equal_topics.checker = find_checker(brokers, spec.cluster)
    equal_topics.add_if_equal(spec.topic, lists, RowRemainder(dict(row)))
    return equal_topics
