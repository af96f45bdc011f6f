"""What nearly all exported topics share: it is said once, among the defaults of their cluster.

Sizes are for topics to come, since defaults of size count at creation only: every exported topic still names its own.

A cluster's state as documents: one ``Cluster``, unless it has a document already, and one ``Topic`` for each topic.

Fields stand in the order of the reference, configs by name. A topic says its own size and, of its config, what differs
from the cluster's defaults; explicit replica lists are not written: where existing partitions lie is not managed.

Names of documents for names of topics: DNS names, no two the same, also where a file system ignores case.

A name begins with that of the cluster: documents of several clusters can then be planned together.
Kafka allows what DNS does not (``_``, capitals, dots at the ends), so two topics may want one name. Then a topic whose
name is a DNS name already keeps it, and each of the others gets a few letters behind it that follow from its own name.

What a manifest can say of one topic as it stands, so that the plan of that manifest has nothing to change.

A topic that no manifest can describe, or that is somebody else's, is ``LeftOut`` as a whole. A config value that no
manifest may hold is left out by itself: the key stays on the cluster, unmanaged, and the topic comes under management.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from hashlib import sha256
from typing import Any, NamedTuple

from topiarist.kafka import config_rules, config_table, config_values
from topiarist.kafka.config_rules import is_min_isr_above
from topiarist.kafka.config_table import THROTTLE_CONFIGS
from topiarist.kafka.config_values import Scalar, to_scalar
from topiarist.kafka.java_numbers import java_trim
from topiarist.kafka.names import INTERNAL_TOPICS, metric_name, topic_name_problem
from topiarist.kafka.types import MAX_KAFKA_VERSION, format_version
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState, TopicState, describe_unequal_replication_factors
from topiarist.schema import load
from topiarist.text import format_count

MIN_SHARED_TOPICS = 3
"""Topics that must share a value: for fewer, a default is one place more to look at."""

MIN_SHARED_PERCENT = 90
"""Per cent of the topics that must share it; the others say what they have, or that they do not want it."""


def with_defaults(cluster: ClusterSpec, topics: Sequence[ExportedTopic]) -> ClusterSpec:
    """``cluster`` with defaults that fit these topics best; as it is if there are none."""
    if not topics:
        return cluster
    return replace(
        cluster,
        default_partitions=_most_common(Counter(topic.partitions for topic in topics)),
        default_replication_factor=_most_common(Counter(topic.replication_factor for topic in topics)),
        default_config=_shared_config(topics),
    )


def _most_common(sizes: Counter[int]) -> int:
    """The size that most have; the smaller one of two, which can still be made larger."""
    return min(sizes, key=lambda size: (-sizes[size], size))


def _shared_config(topics: Sequence[ExportedTopic]) -> Mapping[str, str]:
    found = Counter(item for topic in topics for item in topic.config.items())
    shared = (
        item
        for item, times in found.items()
        if times >= MIN_SHARED_TOPICS and times * 100 >= MIN_SHARED_PERCENT * len(topics)
    )
    return dict(sorted(shared))


Document = dict[str, Any]

CLUSTER_FILE = "cluster.yaml"
TOPICS_FOLDER = "topics/"

_CLUSTER_ID = re.compile(r"[!-~]{1,255}")


@dataclass(frozen=True, slots=True)
class ExportResult:
    """Documents by the file that each belongs in, and what none of them says: topics and configs left out.

    ``uneven`` are the topics whose partitions have different numbers of replicas: their documents have the usual one.
    """

    files: Mapping[str, Document]
    topic_count: int
    omitted: tuple[OmittedItem, ...] = ()
    unmanaged: tuple[OmittedItem, ...] = ()
    mixed_replication: tuple[OmittedItem, ...] = ()


def export_cluster(state: ClusterState, cluster: ClusterSpec, owner: str) -> ExportResult:
    """Everything that ``owner`` can manage on a cluster, as documents of which the plan finds nothing to change.

    A ``cluster`` that has a document keeps it: its defaults count, and there is nothing but topics. Otherwise there is
    a ``Cluster`` too, whose defaults are what topics have in common. Topics name their cluster in any case.
    """
    kept: list[ExportedTopic] = []
    left_out = [OmittedItem(name, f"{fault.path}: {fault.message}") for name, fault in state.topic_errors.items()]
    for found in _describe_topics(state, cluster, owner):
        kept.append(found) if isinstance(found, ExportedTopic) else left_out.append(found)
    files, folder = {}, ""
    if cluster.source is None:
        cluster, folder = with_defaults(replace(cluster, cluster_id=state.cluster_id), kept), TOPICS_FOLDER
        files[CLUSTER_FILE] = build_cluster_document(cluster)
    names = assign_document_names((topic.topic for topic in kept), cluster.name)
    for topic in kept:
        files[f"{folder}{names[topic.topic]}.yaml"] = _build_topic_document(topic, names[topic.topic], cluster)
    unmanaged = tuple(item for topic in kept for item in topic.omitted)
    uneven = tuple(
        OmittedItem(topic.topic, _mixed_replication_message(topic)) for topic in kept if topic.mixed_replication
    )
    return ExportResult(files, len(kept), tuple(sorted(left_out)), unmanaged, uneven)


def _mixed_replication_message(topic: ExportedTopic) -> str:
    return f"{topic.mixed_replication}; its manifest says {topic.replication_factor} and ignores replicationFactor"


def _describe_topics(state: ClusterState, cluster: ClusterSpec, owner: str) -> Iterator[ExportedTopic | OmittedItem]:
    """Every topic that can be read, in order of name."""
    taken: dict[str, str] = {}
    for name, topic in sorted(state.topics.items()):
        why = _omission_reason(topic, state, cluster, owner)
        found = OmittedItem(name, why) if why else export_topic(topic, cluster)
        if isinstance(found, ExportedTopic):
            first = taken.setdefault(metric_name(name), name)
            if first != name:
                found = OmittedItem(
                    name, f"its name collides with {first} (Kafka takes . and _ for the same letter in metrics)"
                )
        yield found


def _omission_reason(topic: TopicState, state: ClusterState, cluster: ClusterSpec, owner: str) -> str:
    """Why a topic is nothing for this owner's manifests; empty if it is."""
    name, record = topic.name, topic.valid_record
    if name in state.pending_deletions:
        return "marked for deletion"
    if name in INTERNAL_TOPICS:
        return "of Kafka's own"
    if wrong := topic_name_problem(name):
        return wrong
    if record is None:
        protected = cluster.is_protected(name)
        return "of other software (Cluster.spec.protected lists the names)" if protected else ""
    if record.owner != owner:
        return f"belongs to owner {record.owner}, this run is {owner}"
    return "deleted by us, but the brokers have delete.topic.enable=false" if record.deleted else ""


def build_cluster_document(cluster: ClusterSpec) -> Document:
    """The ``Cluster`` document of a cluster that has none; an id that no document may have is left out."""
    spec: Document = {"zookeeper": {"connect": cluster.connect}}
    if _CLUSTER_ID.fullmatch(cluster.cluster_id):
        spec["clusterId"] = cluster.cluster_id
    if cluster.version:
        spec["kafkaVersion"] = format_version(cluster.version)
    defaults = {field: value for field, value in cluster.defaults().items() if value}
    if defaults:
        spec["defaults"] = defaults | (
            {"config": _manifest_values(cluster.default_config)} if "config" in defaults else {}
        )
    return _build_document("Cluster", cluster.name, spec)


def _build_topic_document(topic: ExportedTopic, name: str, cluster: ClusterSpec) -> Document:
    defaults = cluster.default_config
    own = {
        key: text
        for key, text in topic.config.items()
        if key not in defaults or not config_values.is_equivalent(key, text, defaults[key])
    }
    fields = {
        "topicName": topic.topic if topic.topic != name else "",
        "clusters": [cluster.name],
        "partitions": topic.partitions,
        "replicationFactor": topic.replication_factor,
        "config": _manifest_values(own),
        "withoutConfig": sorted(defaults.keys() - topic.config.keys()),
        "ignore": ["replicationFactor"] if topic.mixed_replication else [],
    }
    return _build_document("Topic", name, {field: value for field, value in fields.items() if value})


def _build_document(kind: str, name: str, spec: Document) -> Document:
    return {"apiVersion": load.API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _manifest_values(config: Mapping[str, str]) -> Document:
    return {key: _manifest_value(key, text) for key, text in config.items()}


def _manifest_value(key: str, text: str) -> Scalar:
    """A fraction only where Kafka reads a number: elsewhere ``3.10`` is not ``3.1``."""
    value = to_scalar(text)
    fraction = key in config_table.TOPIC_CONFIGS and config_table.TOPIC_CONFIGS[key].type == "double"
    return text if isinstance(value, Decimal) and not fraction else value


MAX_NAME_LENGTH = 250
"""Characters: Kubernetes takes 253, and the name of a file 255 with ``.yaml``."""

_FALLBACK_NAME = "topic"


def assign_document_names(topics: Iterable[str], cluster: str) -> dict[str, str]:
    """Return a name for the document of every topic of a cluster, by topic; the order of ``topics`` means nothing."""
    wanted = {topic: f"{cluster}.{to_dns_name(topic)}" for topic in sorted(topics)}
    rivals = Counter(wanted.values())
    names = {
        topic: name
        for topic, name in wanted.items()
        if len(name) <= MAX_NAME_LENGTH and (rivals[name] == 1 or name == f"{cluster}.{topic}")
    }
    taken = set(names.values())
    for topic, name in wanted.items():
        if topic not in names:
            names[topic] = _unused_name(name, topic, taken)
            taken.add(names[topic])
    return names


def to_dns_name(topic: str) -> str:
    """The DNS name that is closest to a topic's: lower case, ``-`` for ``_``, no empty or badly ended part."""
    parts = (part.strip("-") for part in re.sub(r"[^a-z0-9.]", "-", topic.lower()).split("."))
    return ".".join(filter(None, parts)) or _FALLBACK_NAME


def _unused_name(name: str, topic: str, taken: set[str]) -> str:
    """``name`` with so much of the topic's digest behind it that nobody has it yet."""
    digest = sha256(topic.encode()).hexdigest()
    found = (
        f"{name[: MAX_NAME_LENGTH - length - 1].rstrip('-.')}-{digest[:length]}" for length in range(6, len(digest))
    )
    return next(candidate for candidate in found if candidate not in taken)


_MAX_VALUE_LENGTH = 65_536
"""Characters of a config value in a manifest."""

_MIN_ISR = "min.insync.replicas"


class OmittedItem(NamedTuple):
    """A topic, or one of its configs, that no manifest will have; ``why`` is what many may have in common."""

    topic: str
    message: str


@dataclass(frozen=True, slots=True)
class ExportedTopic:
    """One topic as its manifest will describe it; ``config`` is sorted, in the form that reads best.

    ``uneven`` has the words for partitions with different numbers of replicas, and is empty if they have one number;
    ``replication_factor`` is that of most.
    """

    topic: str
    partitions: int
    replication_factor: int
    mixed_replication: str
    config: Mapping[str, str]
    omitted: tuple[OmittedItem, ...] = ()


def export_topic(topic: TopicState, cluster: ClusterSpec) -> ExportedTopic | OmittedItem:
    """What a manifest will say of a topic that is ours to describe, or why none can."""
    widths = _count_replication_factors(topic)
    if not widths:
        return OmittedItem(topic.name, _no_replication_factor_reason(topic))
    factor = max(widths, key=lambda width: (widths[width], width))
    wrong = dict(_invalid_configs(topic.config, factor, cluster))
    record = topic.valid_record
    if ours := sorted(wrong.keys() & set(record.config_keys if record else ())):
        return OmittedItem(topic.name, f"{wrong[ours[0]]}; it was set by us, and a manifest without it would remove it")
    fit = sorted(topic.config.keys() - wrong.keys() - THROTTLE_CONFIGS)
    return ExportedTopic(
        topic=topic.name,
        partitions=len(topic.replicas),
        replication_factor=factor,
        mixed_replication=describe_unequal_replication_factors(topic),
        config={key: normalize_config_text(key, topic.config[key]) for key in fit},
        omitted=tuple(OmittedItem(topic.name, why) for _, why in sorted(wrong.items())),
    )


def normalize_config_text(key: str, text: str) -> str:
    """The text of a config value that means the same to Kafka and reads best; as it stands if it cannot be read."""
    plain = java_trim(text)
    if key not in config_table.TOPIC_CONFIGS or (
        config_table.TOPIC_CONFIGS[key].type == "double" and not isinstance(to_scalar(plain), str)
    ):
        return plain
    try:
        return config_values.canonical_text(key, plain)
    except ValueError:
        return plain


def _count_replication_factors(topic: TopicState) -> Counter[int]:
    """How many partitions have how many replicas, but for those that have none or are being moved."""
    pairs = zip(topic.partition_ids, topic.replicas, strict=True)
    return Counter(len(ids) for partition, ids in pairs if ids and partition not in topic.reassigning_partitions)


def _no_replication_factor_reason(topic: TopicState) -> str:
    if topic.reassigning_partitions:
        return "every partition is being reassigned: export again when that is done"
    return "no partition has replicas" if topic.replicas else "it has no partitions"


def _invalid_configs(config: Mapping[str, str], factor: int, cluster: ClusterSpec) -> Iterator[tuple[str, str]]:
    """The keys whose values no manifest of this cluster may hold, each with what is wrong."""
    fit = {}
    for key in sorted(config.keys() - THROTTLE_CONFIGS):
        text = normalize_config_text(key, config[key])
        problem = cluster.config_rules.config_problem(key, text)
        if problem:
            yield key, problem[0]
        elif key not in config_table.TOPIC_CONFIGS and not (text.isprintable() and len(text) <= _MAX_VALUE_LENGTH):
            yield key, f"{key}: its value is too long, or has characters that do not print"
        else:
            fit[key] = text
    # Each conflict goes with the key that it is about; what is left may still be at odds over another one.
    while found := config_rules.find_conflicts(fit, cluster.version or MAX_KAFKA_VERSION, cluster.broker_config):
        key, message = found[0]
        del fit[key]
        yield key, message
    if is_min_isr_above(fit, factor):
        yield _MIN_ISR, f"{_MIN_ISR}: found {fit[_MIN_ISR]}, with {format_count(factor, 'replica')}"
