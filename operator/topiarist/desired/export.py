"""Documents from values: the state of a cluster, exported, and merged specs, rendered.

The export has one ``Cluster`` document and one ``Topic`` document per topic. ``topiarist export`` uses it to bring
existing topics under management. The exported documents describe each topic as it is, so the plan of these documents
contains no changes. A cluster that has a document keeps that document, and only topics are exported. The folder is
written by ``adapters.atomic_files``.

Defaults: a config that nearly all exported topics share becomes a default of the cluster. Defaults of size apply at
creation only, so every exported topic still names its own size.

Topics: fields are in the order of the reference, configs are sorted by name. A topic holds its own size and the configs
that differ from the cluster's defaults. Replica lists are not exported, because topiarist does not manage the placement
of existing partitions. A topic that no manifest can describe, or that belongs to another owner, is an ``OmittedItem``
as a whole. A config value that no manifest may hold is omitted alone: the key stays on the cluster unmanaged, and the
topic is exported.

Document names: unique DNS names, also unique on a file system that ignores case. A name begins with the cluster's name,
so that documents of several clusters can be planned together. Kafka allows characters that DNS does not (``_``,
capitals, dots at the ends), so two topics may map to one name. A topic with a valid DNS name keeps that name; each of
the other topics gets a suffix of hex digits that is computed from the topic name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from hashlib import sha256
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from topiarist.kafka import config_rules, config_values
from topiarist.kafka.config_rules import is_min_isr_above
from topiarist.kafka.config_table import THROTTLE_CONFIGS, TOPIC_CONFIGS
from topiarist.kafka.config_values import Scalar, add_unit, java_trim, to_scalar
from topiarist.kafka.types import count_replicas, format_version, metric_name, topic_name_problem
from topiarist.model.access import KafkaAccess, ZooKeeperAccess
from topiarist.model.spec import ClusterSpec, TopicSpec, find_origin
from topiarist.model.state import ClusterState, TopicState, describe_unequal_replication_factors
from topiarist.schema.load import API_GROUP, API_VERSION
from topiarist.text import format_count, quote

Document = dict[str, Any]

# A merged spec as a ``Topic`` document, as ``topiarist render`` shows it.
#
# Plain values only; ``adapters.manifests.yaml_text`` writes them as YAML. The documents can be applied: together with
# their cluster they mean the same as the originals, except that sizes from the cluster's defaults, and all values of
# profiles, are now set in the topic.

FROM_DEFAULTS = "topiarist.dev/from-defaults"
"""Annotation that lists the fields with a value from the cluster's defaults."""

FROM_PROFILES = "topiarist.dev/from-profiles"
"""Annotation that lists the fields with a value from the topic's profiles."""

FROM_BROKER_CONFIG = "topiarist.dev/from-broker-config"
"""Annotation that lists the sizes with a value from the cluster's ``brokerConfig``."""


def render_document(spec: TopicSpec) -> dict[str, Any]:
    """Return the ``Topic`` document of one topic on one cluster.

    Keys are sorted; fields at the default of the format are left out.
    """
    manifest = spec.manifest
    metadata = {
        "name": manifest.name,
        "namespace": manifest.namespace,
        "labels": dict(sorted(spec.labels.items())),
        "annotations": _build_annotations(spec),
    }
    fields = {
        "topicName": spec.topic,
        "coPartitionGroup": spec.co_partition_group,
        "clusters": [spec.cluster.name] if spec.cluster.name else [],
        "config": dict(sorted(spec.config.items())),
        "withoutConfig": sorted(spec.cluster.default_config.keys() - spec.config.keys()),
        "ignore": sorted(spec.ignored_fields),
        "unmanagedConfig": "Remove" if spec.remove_unmanaged else "",
        "ensure": "Absent" if spec.absent else "",
        "mode": "Observe" if spec.observe_only else "",
        "deletionPolicy": manifest.spec.get("deletionPolicy", ""),
        **({} if spec.keyed else {"keyed": False}),
        **_size_fields(spec),
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "Topic",
        "metadata": _drop_empty(metadata),
        "spec": _drop_empty(fields),
    }


# The catalog of Backstage: an entity of the kind Resource for each topic of a cluster.

BACKSTAGE_API_VERSION = "backstage.io/v1alpha1"
BACKSTAGE_NAME_LENGTH = 63
"""Characters; Backstage allows letters, digits and ``-_.`` in a name, and does not distinguish case."""

SYSTEM_LABEL = "app.kubernetes.io/part-of"
"""The label of a topic with the larger application that it is part of: the system of Backstage."""

DESCRIPTION_ANNOTATION = "kubernetes.io/description"


def build_entities(
    specs: Iterable[TopicSpec], owners: Mapping[str, str], describe: Callable[[TopicSpec], str]
) -> list[Document]:
    """Return the entities of topics, in their order.

    ``owners`` has the entity reference of the owner by ``entity_key``, and ``describe`` returns the description of a
    topic, empty without one. Names are those of documents, but shorter: one that is cut, or that two topics would
    share, gets the suffix.
    """
    names = assign_document_names(owners, "", BACKSTAGE_NAME_LENGTH)
    found = []
    for spec in specs:
        key = entity_key(spec)
        annotations = {
            f"{API_GROUP}/cluster": spec.cluster.name,
            f"{API_GROUP}/topic": spec.topic,
        }
        metadata = {
            "name": names[key],
            "title": f"{spec.topic} on {spec.cluster.name}" if spec.cluster.name else spec.topic,
            "description": describe(spec),
            "labels": dict(sorted(spec.labels.items())),
            "annotations": _drop_empty(annotations),
        }
        fields = {"type": "kafka-topic", "owner": owners[key], "system": spec.labels.get(SYSTEM_LABEL, "")}
        found.append(
            {
                "apiVersion": BACKSTAGE_API_VERSION,
                "kind": "Resource",
                "metadata": _drop_empty(metadata),
                "spec": _drop_empty(fields),
            }
        )
    return found


def entity_key(spec: TopicSpec) -> str:
    """Return the text that tells a topic from the other topics of all clusters; a ``/`` is in neither name."""
    return f"{spec.cluster.name}/{spec.topic}"


def to_owner_reference(team: str) -> str:
    """Return the entity reference of a team: a label value, or the first owner of a file in ``CODEOWNERS``.

    The team @acme/shop is the group shop, and @jane the user jane. Raises ``ValueError`` for no team, and for an
    address and a role of GitLab, which name no entity.
    """
    owner = team.partition(",")[0]
    if not owner:
        raise ValueError("found no owner")
    if "@" not in owner:
        return owner
    group, slash, name = owner.removeprefix("@").rpartition("/")
    if "@" in group + name:
        raise ValueError(f"found the owner {quote(owner)}, wanted @GROUP/TEAM or @NAME")
    return name if slash else f"user:{name}"


def _size_fields(spec: TopicSpec) -> dict[str, Any]:
    if spec.assignment is not None:
        return {"replicaAssignment": [list(replicas) for replicas in spec.assignment]}
    return {"partitions": spec.create_partitions, "replicationFactor": spec.create_replication_factor}


def _build_annotations(spec: TopicSpec) -> dict[str, str]:
    inherited = [f"config.{key}" for key in sorted(spec.inherited_keys)]
    sizes = (("partitions", spec.partitions), ("replicationFactor", spec.replication_factor))
    brokers: list[str] = []
    for name, own in sizes if spec.assignment is None else ():
        if own is None and _size_fields(spec)[name]:
            from_brokers = find_origin(spec, name).path[:2] == ("spec", "brokerConfig")
            (brokers if from_brokers else inherited).append(name)
    profiled = _list_profiled_fields(spec) if spec.manifest.spec.get("profiles") else []
    found = {FROM_DEFAULTS: inherited, FROM_PROFILES: profiled, FROM_BROKER_CONFIG: brokers}
    return {annotation: ", ".join(names) for annotation, names in found.items() if names}


def _list_profiled_fields(spec: TopicSpec) -> list[str]:
    paths: list[tuple[str, ...]] = [("config", key) for key in sorted(spec.config.keys() - spec.inherited_keys)]
    own_sizes = {"partitions": spec.partitions, "replicationFactor": spec.replication_factor}
    paths += [(name,) for name, own in own_sizes.items() if own is not None and spec.assignment is None]
    fields = [".".join(path) for path in paths if find_origin(spec, *path).path[:2] == ("spec", "profiles")]
    return fields + [f"labels.{key}" for key in sorted(spec.labels.keys() - spec.manifest.labels.keys())]


def _drop_empty(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not empty, sorted by name; False is a value."""
    return {name: value for name, value in sorted(fields.items()) if value is False or value not in ("", 0, [], {}, ())}


CLUSTER_FILE = "cluster.yaml"
TOPICS_FOLDER = "topics/"

MIN_SHARED_TOPICS = 3
"""Topics that must share a value before it becomes a default; for fewer it only adds a second place to read."""

MIN_SHARED_PERCENT = 90
"""Minimum share of the topics, in per cent; the other topics override the default or exclude it."""

MAX_NAME_LENGTH = 250
"""Characters: Kubernetes allows 253, and a file name of 255 must hold ``.yaml`` too."""

_MAX_VALUE_LENGTH = 65_536
"""Characters of a config value in a manifest."""

_COMMON_WORD = re.compile(
    r"(b|bootstrap|brokers?|clusters?|hosts?|kafka|localhost|nodes?|servers?|svc|topic|zk|zookeeper)?[0-9]*"
)
"""Words in the addresses of clusters that do not tell one cluster from another."""
_MAX_HOST_LABELS = 2

_CLUSTER_ID = re.compile(r"[!-~]{1,255}")


class OmittedItem(NamedTuple):
    """A topic or config that is not exported; several items may have the same ``message``."""

    topic: str
    message: str


class ExportResult(Struct, frozen=True):
    """Exported documents by file path, and the items that are omitted from them.

    ``omitted`` are topics without a document. ``unmanaged`` are configs that are missing from their topic's document.
    ``mixed_replication`` are the topics with partitions of different replication factors: their documents have the most
    common one.
    """

    files: Mapping[str, Document]
    topic_count: int
    omitted: tuple[OmittedItem, ...] = ()
    unmanaged: tuple[OmittedItem, ...] = ()
    mixed_replication: tuple[OmittedItem, ...] = ()


class ExportedTopic(Struct, frozen=True):
    """One topic as its manifest will describe it.

    ``config`` is sorted and normalized. ``replication_factor`` is the most common one; ``mixed_replication`` is a
    message about partitions with different replication factors, empty if there is only one. ``omitted`` are the configs
    that no manifest may hold.
    """

    topic: str
    partitions: int
    replication_factor: int
    mixed_replication: str
    config: Mapping[str, str]
    omitted: tuple[OmittedItem, ...] = ()


def export_cluster(state: ClusterState, cluster: ClusterSpec, owner: str, *, use_units: bool = False) -> ExportResult:
    """Export everything that ``owner`` can manage on a cluster; with ``use_units`` 604800000 ms is ``7d``.

    The plan of the exported documents has no changes. If ``cluster`` has a document, its defaults apply and only topics
    are exported. Otherwise a ``Cluster`` document is exported too, with the values that the topics share as its
    defaults. Every topic names its cluster.
    """
    exported: list[ExportedTopic] = []
    omitted = [OmittedItem(name, f"{error.path}: {error.message}") for name, error in state.topic_errors.items()]
    taken: dict[str, str] = {}
    for name, topic in sorted(state.topics.items()):
        reason = _omission_reason(topic, state, cluster, owner)
        found = OmittedItem(name, reason) if reason else _export_topic(topic, cluster)
        if isinstance(found, OmittedItem):
            omitted.append(found)
        elif (first := taken.setdefault(metric_name(name), name)) != name:
            message = f"its name collides with {first} (Kafka does not distinguish . and _ in metric names)"
            omitted.append(OmittedItem(name, message))
        else:
            exported.append(found)
    files, folder = {}, ""
    if cluster.source is None:
        cluster, folder = _with_defaults(replace(cluster, cluster_id=state.cluster_id), exported), TOPICS_FOLDER
        files[CLUSTER_FILE] = build_cluster_document(cluster, use_units=use_units)
    names = assign_document_names((topic.topic for topic in exported), cluster.name)
    for described in exported:
        name = names[described.topic]
        files[f"{folder}{name}.yaml"] = _build_topic_document(described, name, cluster, use_units=use_units)
    unmanaged = tuple(item for each in exported for item in each.omitted)
    mixed = tuple(
        OmittedItem(
            each.topic,
            f"{each.mixed_replication}; its manifest has {each.replication_factor} and ignores replicationFactor",
        )
        for each in exported
        if each.mixed_replication
    )
    return ExportResult(files, len(exported), tuple(sorted(omitted)), unmanaged, mixed)


def _omission_reason(topic: TopicState, state: ClusterState, cluster: ClusterSpec, owner: str) -> str:
    """Return why ``owner`` cannot export a topic; empty if it can."""
    name, record = topic.name, topic.valid_record
    if name in state.pending_deletions:
        return "marked for deletion"
    if internal_owner := cluster.internal_owner(name):
        return f"internal topic of {internal_owner}"
    if problem := topic_name_problem(name):
        return problem
    if record is None:
        protected = cluster.is_protected(name)
        return "of other software (Cluster.spec.protected lists the names)" if protected else ""
    if record.owner != owner:
        return f"belongs to owner {record.owner}, this run is {owner}"
    return "deleted by topiarist, but the brokers have delete.topic.enable=false" if record.deleted else ""


def _export_topic(topic: TopicState, cluster: ClusterSpec) -> ExportedTopic | OmittedItem:
    """Return the manifest fields of a topic, or why no manifest can describe it."""
    pairs = zip(topic.partition_ids, topic.replicas, strict=True)
    # Partitions under reassignment have more replicas for a time.
    counts = Counter(
        count_replicas(ids) for partition, ids in pairs if ids and partition not in topic.reassigning_partitions
    )
    if not counts:
        if topic.reassigning_partitions:
            return OmittedItem(topic.name, "every partition is being reassigned: export again when that is done")
        return OmittedItem(topic.name, "no partition has replicas" if topic.replicas else "it has no partitions")
    factor = max(counts, key=lambda width: (counts[width], width))
    errors = dict(_invalid_configs(topic.config, factor, cluster))
    record = topic.valid_record
    if own := sorted(errors.keys() & set(record.config_keys if record else ())):
        message = f"{errors[own[0]]}; topiarist set it, and a manifest without it would remove it"
        return OmittedItem(topic.name, message)
    valid_keys = sorted(topic.config.keys() - errors.keys() - THROTTLE_CONFIGS)
    return ExportedTopic(
        topic=topic.name,
        partitions=len(topic.replicas),
        replication_factor=factor,
        mixed_replication=describe_unequal_replication_factors(topic),
        config={key: _normalize_config_text(key, topic.config[key]) for key in valid_keys},
        omitted=tuple(OmittedItem(topic.name, message) for _, message in sorted(errors.items())),
    )


def _normalize_config_text(key: str, text: str) -> str:
    """Return the canonical text of a config value with the same meaning to Kafka.

    A value that cannot be parsed is returned unchanged except for surrounding whitespace.
    """
    plain = java_trim(text)
    if key not in TOPIC_CONFIGS or (TOPIC_CONFIGS[key].type == "double" and not isinstance(to_scalar(plain), str)):
        return plain
    try:
        return config_values.canonical_text(key, plain)
    except ValueError:
        return plain


def _invalid_configs(config: Mapping[str, str], factor: int, cluster: ClusterSpec) -> Iterator[tuple[str, str]]:
    """Yield each key with a value that no manifest of this cluster may hold, and the problem."""
    valid = {}
    for key in sorted(config.keys() - THROTTLE_CONFIGS):
        text = _normalize_config_text(key, config[key])
        problem = cluster.config_rules.config_problem(key, text)
        if problem:
            yield key, problem[0]
        elif key not in TOPIC_CONFIGS and not (text.isprintable() and len(text) <= _MAX_VALUE_LENGTH):
            yield key, f"{key}: its value is too long, or has characters that do not print"
        else:
            valid[key] = text
    # Remove one key per conflict and check again: the remaining keys may conflict over another key.
    rules = cluster.config_rules
    while conflicts := config_rules.find_conflicts(valid, rules.newest_version(), cluster.broker_config, rules.mode):
        key, message = conflicts[0]
        del valid[key]
        yield key, message
    if is_min_isr_above(valid, factor, rules.newest_version()):
        key = "min.insync.replicas"
        yield key, f"{key}: found {valid[key]}, with {format_count(factor, 'replica')}"


def _with_defaults(cluster: ClusterSpec, topics: Sequence[ExportedTopic]) -> ClusterSpec:
    """Return ``cluster`` with the defaults that fit these topics best."""
    if not topics:
        return cluster
    counts = Counter(item for topic in topics for item in topic.config.items())
    least = max(MIN_SHARED_TOPICS, MIN_SHARED_PERCENT * len(topics) / 100)
    partitions = _most_common(Counter(topic.partitions for topic in topics))
    factor = _most_common(Counter(topic.replication_factor for topic in topics))
    return replace(
        cluster,
        # Kafka's own default of 1 is no choice: each new topic would get it in silence.
        default_partitions=partitions if partitions > 1 else None,
        default_replication_factor=factor if factor > 1 else None,
        default_config=dict(sorted(item for item, times in counts.items() if times >= least)),
    )


def _most_common(sizes: Counter[int]) -> int:
    """Return the most frequent size; of two equally frequent sizes the smaller, which can still grow."""
    return min(sizes, key=lambda size: (-sizes[size], size))


def build_cluster_document(cluster: ClusterSpec, *, use_units: bool = False) -> Document:
    """Build the ``Cluster`` document of a cluster that has none.

    A cluster id that the schema does not accept is left out.
    """
    spec: Document = {}
    if isinstance(cluster.access, ZooKeeperAccess):
        spec["zookeeper"] = {"connect": cluster.access.connect}
    elif cluster.access:
        spec["kafka"] = {"bootstrapServers": cluster.access.bootstrap_servers}
    if _CLUSTER_ID.fullmatch(cluster.cluster_id):
        spec["clusterId"] = cluster.cluster_id
    if cluster.version:
        spec["kafkaVersion"] = format_version(cluster.version)
    defaults = {**cluster.defaults(), "config": to_scalars(cluster.default_config, use_units=use_units)}
    if defaults := {field: value for field, value in defaults.items() if value}:
        spec["defaults"] = defaults
    return _build_document("Cluster", cluster.name, spec)


def _build_topic_document(topic: ExportedTopic, name: str, cluster: ClusterSpec, *, use_units: bool) -> Document:
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
        "config": to_scalars(own, use_units=use_units),
        "withoutConfig": sorted(defaults.keys() - topic.config.keys()),
        "ignore": ["replicationFactor"] if topic.mixed_replication else [],
    }
    return _build_document("Topic", name, {field: value for field, value in fields.items() if value})


def _build_document(kind: str, name: str, spec: Document) -> Document:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def to_scalars(config: Mapping[str, str], *, use_units: bool) -> dict[str, Scalar]:
    """Return config values as YAML scalars."""
    values = {key: to_scalar(add_unit(key, text) if use_units else text) for key, text in config.items()}
    # A fraction is a number only for keys that Kafka parses as a double: in any other key 3.10 differs from 3.1.
    doubles = {key for key in config if key in TOPIC_CONFIGS and TOPIC_CONFIGS[key].type == "double"}
    return {
        key: config[key] if isinstance(value, Decimal) and key not in doubles else value
        for key, value in values.items()
    }


def derive_cluster_name(access: ZooKeeperAccess | KafkaAccess | None) -> str:
    """Return a name for a cluster: from its chroot, else from the name of its first host; at worst ``kafka``.

    Numbers and words that many addresses have, such as ``kafka`` and ``broker``, are left out: the cluster at
    ``kafka-prod-1.example.com:9092`` is ``prod``, the one at ``zk1:2181/kafka-eu`` is ``eu``.
    """
    address = access.connect if isinstance(access, ZooKeeperAccess) else access.bootstrap_servers if access else ""
    hosts, _, chroot = address.partition("/")
    host = hosts.partition(",")[0].partition(":")[0]
    labels = [] if re.fullmatch(r"[0-9.]+|\[.*", host) else host.split(".")[:_MAX_HOST_LABELS]
    for part in filter(None, [*reversed(chroot.split("/")), *labels]):
        if words := [word for word in _to_dns_name(part).split("-") if not _COMMON_WORD.fullmatch(word)]:
            return "-".join(words)
    return "kafka"


def assign_document_names(
    topics: Iterable[str], cluster: str, max_length: int = MAX_NAME_LENGTH, others: Collection[str] = ()
) -> dict[str, str]:
    """Return a unique document name for every topic of a cluster, by topic; an unnamed cluster is no part of names.

    ``others`` are names that other documents have: topic ``b.c`` of cluster ``a`` would get that of ``c`` of ``a.b``.
    The result does not depend on the order of ``topics``. A name has at most ``max_length`` characters.
    """
    prefix = f"{cluster}." if cluster else ""
    wanted = {topic: f"{prefix}{_to_dns_name(topic)}" for topic in sorted(topics)}
    rivals = Counter(wanted.values())
    names = {
        topic: name
        for topic, name in wanted.items()
        if len(name) <= max_length and name not in others and (rivals[name] == 1 or name == f"{prefix}{topic}")
    }
    taken = {*others, *names.values()}
    for topic, name in wanted.items():
        if topic in names:
            continue
        # The shortest unused prefix of the topic's SHA-256 as suffix.
        digest = sha256(topic.encode()).hexdigest()
        candidates = (
            f"{name[: max_length - length - 1].rstrip('-.')}-{digest[:length]}" for length in range(6, len(digest))
        )
        names[topic] = next(candidate for candidate in candidates if candidate not in taken)
        taken.add(names[topic])
    return names


def _to_dns_name(topic: str) -> str:
    """Return the DNS name closest to a topic name.

    Lower case, ``-`` for every character that DNS does not allow, no empty part, no ``-`` at the ends of a part.
    """
    parts = (part.strip("-") for part in re.sub(r"[^a-z0-9.]", "-", topic.lower()).split("."))
    return ".".join(filter(None, parts)) or "topic"
