"""Errors of topics in one ``coPartitionGroup``: they must ask for equal numbers of partitions on each cluster.

``resolve`` calls it with the specs of all manifests, so that the topics of a group may be in different files.
``filters.chain`` keeps the numbers equal when a run may not make the growth of every topic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from topiarist.desired.shared_specs import SpecGroup
from topiarist.errors import Diagnostic
from topiarist.model.spec import ClusterSpec, TopicSpec, find_origin


def co_partition_errors(groups: Iterable[SpecGroup], clusters: Mapping[str, ClusterSpec]) -> Iterator[Diagnostic]:
    """Yield an error for each topic with another number of partitions than the first topic of its group, by name.

    Topics to be absent, and topics without partitions (an error of their own), do not count.
    """
    members: defaultdict[str, list[tuple[TopicSpec, SpecGroup]]] = defaultdict(list)
    for group in groups:
        for spec in group.specs:
            if spec.co_partition_group and not spec.absent and spec.partitions is not None:
                members[spec.co_partition_group].append((spec, group))
    for name, found in members.items():
        if len({spec.partitions for spec, _ in found}) > 1:
            for cluster in clusters:
                specs = (spec for spec, group in found if cluster in group.clusters)
                yield from _find_differences(name, cluster, sorted(specs, key=lambda spec: spec.topic))


def _find_differences(group: str, cluster: str, specs: list[TopicSpec]) -> Iterator[Diagnostic]:
    for spec in specs[1:]:
        if spec.partitions == specs[0].partitions:
            continue
        place, first_place = (find_origin(each, _size_field(each)).locate() for each in (spec, specs[0]))
        where = f" on cluster {cluster}" if cluster else ""
        message = f"{spec.topic}: found {spec.partitions} partitions{where}, wanted {specs[0].partitions} as for "
        message += f"{specs[0].topic} at {first_place}: both are in coPartitionGroup {group}"
        if place:
            yield Diagnostic(place, message, "give all topics of the group the same number, or take this one out of it")


def _size_field(spec: TopicSpec) -> str:
    return "replicaAssignment" if spec.assignment is not None else "partitions"
