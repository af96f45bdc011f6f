"""A cluster's state as documents: one ``Cluster``, unless it has a document already, and one ``Topic`` for each topic.

Fields stand in the order of the reference, configs by name. A topic says its own size and, of its config, what differs
from the cluster's defaults; explicit replica lists are not written: where existing partitions lie is not managed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from topiarist import schema
from topiarist.core import configs
from topiarist.core.names import INTERNAL_TOPICS, collision_key, name_problem
from topiarist.core.rules import version
from topiarist.core.spec import ClusterSpec
from topiarist.core.state import ClusterState, TopicState
from topiarist.core.values import Scalar, scalar
from topiarist.export.defaults import with_defaults
from topiarist.export.names import document_names
from topiarist.export.topics import Kept, LeftOut, describe

Document = dict[str, Any]

CLUSTER_FILE = "cluster.yaml"
TOPICS_FOLDER = "topics/"

_ID = re.compile(r"[!-~]{1,255}")


@dataclass(frozen=True, slots=True)
class Exported:
    """Documents by the file that each belongs in, and what none of them says: topics and configs left out.

    ``uneven`` are the topics whose partitions have different numbers of replicas: their documents have the usual one.
    """

    files: Mapping[str, Document]
    topics: int
    left_out: tuple[LeftOut, ...] = ()
    unmanaged: tuple[LeftOut, ...] = ()
    uneven: tuple[LeftOut, ...] = ()


def export(state: ClusterState, cluster: ClusterSpec, owner: str) -> Exported:
    """Everything that ``owner`` can manage on a cluster, as documents of which the plan finds nothing to change.

    A ``cluster`` that has a document keeps it: its defaults count, and there is nothing but topics. Otherwise there is
    a ``Cluster`` too, whose defaults are what topics have in common. Topics name their cluster in any case.
    """
    kept: list[Kept] = []
    left_out = [LeftOut(name, f"{fault.where}: {fault.why}") for name, fault in state.faults.items()]
    for found in _described(state, cluster, owner):
        kept.append(found) if isinstance(found, Kept) else left_out.append(found)
    files, folder = {}, ""
    if cluster.source is None:
        cluster, folder = with_defaults(replace(cluster, cluster_id=state.cluster_id), kept), TOPICS_FOLDER
        files[CLUSTER_FILE] = cluster_document(cluster)
    names = document_names((topic.topic for topic in kept), cluster.name)
    for topic in kept:
        files[f"{folder}{names[topic.topic]}.yaml"] = _topic_document(topic, names[topic.topic], cluster)
    unmanaged = tuple(item for topic in kept for item in topic.left_out)
    uneven = tuple(LeftOut(topic.topic, _uneven(topic)) for topic in kept if topic.uneven)
    return Exported(files, len(kept), tuple(sorted(left_out)), unmanaged, uneven)


def _uneven(topic: Kept) -> str:
    return f"{topic.uneven}; its manifest says {topic.replication_factor} and ignores replicationFactor"


def _described(state: ClusterState, cluster: ClusterSpec, owner: str) -> Iterator[Kept | LeftOut]:
    """Every topic that can be read, in order of name."""
    taken: dict[str, str] = {}
    for name, topic in sorted(state.topics.items()):
        why = _not_ours(topic, state, cluster, owner)
        found = LeftOut(name, why) if why else describe(topic, cluster)
        if isinstance(found, Kept):
            first = taken.setdefault(collision_key(name), name)
            if first != name:
                found = LeftOut(
                    name, f"its name collides with {first} (Kafka takes . and _ for the same letter in metrics)"
                )
        yield found


def _not_ours(topic: TopicState, state: ClusterState, cluster: ClusterSpec, owner: str) -> str:
    """Why a topic is nothing for this owner's manifests; empty if it is."""
    name, record = topic.name, topic.valid_record
    if name in state.deleting:
        return "marked for deletion"
    if name in INTERNAL_TOPICS:
        return "of Kafka's own"
    if wrong := name_problem(name):
        return wrong
    if record is None:
        protected = cluster.protects(name)
        return "of other software (Cluster.spec.protected lists the names)" if protected else ""
    if record.owner != owner:
        return f"belongs to owner {record.owner}, this run is {owner}"
    return "deleted by us, but the brokers have delete.topic.enable=false" if record.absent else ""


def cluster_document(cluster: ClusterSpec) -> Document:
    """The ``Cluster`` document of a cluster that has none; an id that no document may have is left out."""
    spec: Document = {"zookeeper": {"connect": cluster.connect}}
    if _ID.fullmatch(cluster.cluster_id):
        spec["clusterId"] = cluster.cluster_id
    if cluster.release:
        spec["kafkaVersion"] = version(cluster.release)
    defaults = {field: value for field, value in cluster.defaults().items() if value}
    if defaults:
        spec["defaults"] = defaults | ({"config": _values(cluster.default_config)} if "config" in defaults else {})
    return _document("Cluster", cluster.name, spec)


def _topic_document(topic: Kept, name: str, cluster: ClusterSpec) -> Document:
    defaults = cluster.default_config
    own = {
        key: text
        for key, text in topic.config.items()
        if key not in defaults or not configs.equal(key, text, defaults[key])
    }
    fields = {
        "topicName": topic.topic if topic.topic != name else "",
        "clusters": [cluster.name],
        "partitions": topic.partitions,
        "replicationFactor": topic.replication_factor,
        "config": _values(own),
        "withoutConfig": sorted(defaults.keys() - topic.config.keys()),
        "ignore": ["replicationFactor"] if topic.uneven else [],
    }
    return _document("Topic", name, {field: value for field, value in fields.items() if value})


def _document(kind: str, name: str, spec: Document) -> Document:
    return {"apiVersion": schema.VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _values(config: Mapping[str, str]) -> Document:
    return {key: _value(key, text) for key, text in config.items()}


def _value(key: str, text: str) -> Scalar:
    """A fraction only where Kafka reads a number: elsewhere ``3.10`` is not ``3.1``."""
    value = scalar(text)
    fraction = key in configs.CONFIGS and configs.CONFIGS[key].form == "double"
    return text if isinstance(value, Decimal) and not fraction else value
