"""Describes one topic of one cluster (state, values, pending plan), and explains a word that a user meets.

``planner`` makes the pending plan, ``health`` determines the phase. A value without an override of the topic is known
only in part. The metadata has the cluster-wide dynamic defaults, and ``Cluster.spec.brokerConfig`` repeats the brokers'
files; only the brokers know all other values, and describe them if they are asked.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from topiarist.errors import FieldPath, Location, Reason
from topiarist.inspection.health import Partition, TopicPhase, build_partitions, determine_phase
from topiarist.kafka import config_rules, config_table, config_values
from topiarist.kafka.config_table import TOPIC_CONFIGS, ConfigDef
from topiarist.kafka.config_values import units_of
from topiarist.kafka.placement import InferredPlacement, infer_nearest_placement
from topiarist.kafka.types import MIN_KAFKA_VERSION, format_version, is_pattern, matches_any
from topiarist.model.plan import Plan, TopicPlan
from topiarist.model.spec import ClusterSpec, TopicSpec, ValueOrigin, find_item_origin, find_origin
from topiarist.model.state import ClusterState, OwnershipRecord, ReadError, TopicInspection, TopicState
from topiarist.schema.load import MANIFEST_KINDS, Field, FieldTable, load_schema

# Explanations of a word that a user meets: a reason, a topic config, or a field of a manifest.
#
# ``cli.commands.describe`` shows them. The texts are those of the documentation: ``reasons.json``, which is generated
# from ``docs/reasons.md``, the table of configs, and the schemas of manifests.

EXPLAINED_KINDS = (*MANIFEST_KINDS, "Project")
"""The kinds of documents with fields that ``explain`` knows: manifests, and the project file."""


class Explanation(NamedTuple):
    """The explanation of a word: what it is, its meaning, and labelled facts in the order in which they are shown."""

    title: str
    meaning: str
    facts: tuple[tuple[str, str], ...] = ()


def explain(word: str) -> list[Explanation]:
    """Return the explanations of a word; none if it is unknown.

    A reason, a config and a kind match without regard to case. A field matches by its path (``Topic.spec.moves``), or
    by the end of its path (``moves.allow``). The explanation of a map lists its fields, and that of a kind those of a
    document.
    """
    lower = word.lower().replace("[]", "")
    found = [_explain_reason(reason) for reason in Reason if reason.value.lower() == lower]
    found += [_explain_config(definition) for name, definition in TOPIC_CONFIGS.items() if name == lower]
    found += [_explain_kind(kind) for kind in EXPLAINED_KINDS if kind.lower() == lower]
    return [*found, *_explain_fields(lower)]


def list_words() -> list[str]:
    """Return every word that ``explain`` knows, a field by its path: for suggestions and completion."""
    fields = (f"{kind}.{field.path}" for kind in EXPLAINED_KINDS for field in _list_fields(kind))
    return [*(reason.value for reason in Reason), *TOPIC_CONFIGS, *EXPLAINED_KINDS, *fields]


def _explain_reason(reason: Reason) -> Explanation:
    cause, remedy = _reason_texts().get(reason.value, ("", ""))
    facts = (
        ("remedy", remedy),
        ("exit code", str(int(reason.exit_code))),
        ("retry", "may succeed without any change by a user" if reason.retryable else "does not help"),
    )
    return Explanation(f"reason {reason.value}", cause, tuple(fact for fact in facts if fact[1]))


@cache
def _reason_texts() -> dict[str, list[str]]:
    """Return cause and remedy of each reason."""
    texts: dict[str, list[str]] = json.loads((files("topiarist") / "reasons.json").read_bytes())
    return texts


def _explain_config(definition: ConfigDef) -> Explanation:
    facts = [("type", definition.type), ("default", definition.default or "empty")]
    if definition.valid_values:
        facts.append(("values", ", ".join(definition.valid_values)))
    if units := units_of(definition.name):
        facts.append(("units", ", ".join(units)))
    if definition.server_defaults:
        facts.append(("broker settings", ", ".join(definition.server_defaults)))
    if definition.since > MIN_KAFKA_VERSION:
        facts.append(("since", f"Kafka {format_version(definition.since)}"))
    if definition.removed:
        facts.append(("ignored from", f"Kafka {format_version(definition.removed)}"))
    if definition.deprecated:
        since, advice = definition.deprecated
        facts.append(("deprecated since", f"Kafka {format_version(since)}: {advice}"))
    return Explanation(f"topic config {definition.name}", definition.description, tuple(facts))


def _explain_kind(kind: str) -> Explanation:
    facts = tuple((f".{each.path}", each.kind.replace("`", "")) for each in _list_fields(kind) if "." not in each.path)
    return Explanation(f"kind {kind}", load_schema(kind)["description"], facts)


def _explain_fields(word: str) -> Iterator[Explanation]:
    for kind in EXPLAINED_KINDS:
        fields = _list_fields(kind)
        for field in fields:
            path = f"{kind}.{field.path}"
            plain = path.replace("[]", "").lower()
            if plain == word or plain.endswith(f".{word}"):
                facts = (("takes", field.kind.replace("`", "")), *_list_inner(fields, field))
                yield Explanation(f"field {path}", field.meaning.replace("`", ""), facts)


def _list_inner(fields: tuple[Field, ...], outer: Field) -> Iterator[tuple[str, str]]:
    """Yield name and values of the fields directly inside a field."""
    for field in fields:
        name = field.path.removeprefix(outer.path).removeprefix("[]")
        if field.path.startswith(outer.path) and name[:1] == "." and "." not in name[1:]:
            yield name, field.kind.replace("`", "")


@cache
def _list_fields(kind: str) -> tuple[Field, ...]:
    schema = load_schema(kind)
    return tuple(FieldTable(schema, linked=False).list_fields(schema))


class DesiredSource(str, Enum):
    """The document that asks for a value, or topiarist itself."""

    MANIFEST = "Manifest"
    OVERRIDE = "Override"
    PROFILE = "Profile"
    CLUSTER_DEFAULTS = "ClusterDefaults"
    BROKER_CONFIG = "BrokerConfig"
    TOPIARIST = "Topiarist"


class ActualSource(str, Enum):
    """The origin of the value that is in effect on the cluster."""

    TOPIC = "Topic"
    DYNAMIC_DEFAULT = "DynamicDefault"
    BROKER_CONFIG = "BrokerConfig"
    BROKERS = "Brokers"


class ValueSource(Struct, frozen=True):
    """A field of a topic with its values and their sources.

    ``field`` is ``config.KEY`` for a config. ``desired`` is the value that ``desired_source`` asks for at
    ``desired_location`` (None: no value is asked for). ``actual`` is the value in effect on the cluster, from
    ``actual_source`` at ``actual_location``. It is None if only the brokers know the value, or if there is none
    (``actual_source`` None). ``broker_setting`` is the name of the broker setting that an inherited value comes from.
    ``in_record`` is true for configs that the ownership record lists. ``differs`` is true if a plan would report a
    difference, ``ignored`` if a plan would not change the field.
    """

    field: str
    desired: str | None = None
    desired_source: DesiredSource | None = None
    desired_location: Location | None = None
    actual: str | None = None
    actual_source: ActualSource | None = None
    broker_setting: str = ""
    actual_location: Location | None = None
    in_record: bool = False
    differs: bool = False
    ignored: bool = False


def find_value_sources(
    state: ClusterState, name: str, cluster: ClusterSpec, spec: TopicSpec | None, partitions: Sequence[Partition]
) -> tuple[ValueSource, ...]:
    """Return the value sources of a topic.

    The size is first, then the configs by key, then the management fields.
    """
    topic = state.topics.get(name)
    return (
        *_size_sources(spec, topic, partitions),
        *_config_sources(state, topic, cluster, spec),
        *_management_sources(spec),
    )


def _size_sources(
    spec: TopicSpec | None, topic: TopicState | None, partitions: Sequence[Partition]
) -> Iterator[ValueSource]:
    listed = [partition for partition in partitions if partition.listed]
    factors = sorted({partition.replica_count for partition in listed})
    exists = topic is not None or bool(listed)
    wanted: Mapping[str, int | None] = {}
    if spec and not spec.absent:
        # The cluster's defaults for sizes apply at creation only.
        new = {"partitions": spec.create_partitions, "replicationFactor": spec.create_replication_factor}
        wanted = {"partitions": spec.partitions, "replicationFactor": spec.replication_factor} if exists else new
    partition_count = str(len(listed)) if exists else ""
    factor = " to ".join(map(str, sorted({factors[0], factors[-1]}))) if factors else ""
    for field, actual in (("partitions", partition_count), ("replicationFactor", factor)):
        if spec and (size := wanted.get(field)):
            yield _make_size_source(spec, field, "replicaAssignment" if spec.assignment else field, str(size), actual)
        elif actual:
            yield ValueSource(field, actual=actual, actual_source=ActualSource.TOPIC)
    if spec and spec.assignment and not spec.absent:
        field = "replicaAssignment"
        # The short form of Kafka's own tools: 1:2,2:3.
        desired, actual = (
            ",".join(":".join(map(str, brokers)) for brokers in lists)
            for lists in (spec.assignment, [partition.replicas for partition in listed])
        )
        yield _make_size_source(spec, field, field, desired, actual)


def _make_size_source(spec: TopicSpec, field: str, path: str, desired: str, actual: str) -> ValueSource:
    source, location = _find_desired_source(find_origin(spec, path))
    actual_source = ActualSource.TOPIC if actual else None
    differs, ignored = desired != actual, field in spec.ignored_fields
    return ValueSource(
        field, desired, source, location, actual or None, actual_source, differs=differs, ignored=ignored
    )


def _config_sources(
    state: ClusterState, topic: TopicState | None, cluster: ClusterSpec, spec: TopicSpec | None
) -> Iterator[ValueSource]:
    overrides: Mapping[str, str] = topic.config if topic else {}
    wanted = spec.config if spec and not spec.absent else {}
    settings = cluster.config_rules.merge_dynamic_settings(state.broker_defaults) if topic else {}
    record = topic.valid_record if topic else None
    recorded_keys = record.config_keys if record else ()
    ignored_fields = spec.ignored_fields if spec else frozenset()
    with_known_default = {
        name for name in config_table.TOPIC_CONFIGS if config_rules.server_default(name, settings) is not None
    }
    for key in sorted(overrides.keys() | wanted.keys() | with_known_default):
        desired, override = wanted.get(key), overrides.get(key)
        source, location = None, None
        if spec and desired is not None:
            source, location = _find_desired_source(find_origin(spec, "config", key))
        found = ValueSource(
            f"config.{key}",
            desired,
            source,
            location,
            in_record=key in recorded_keys,
            differs=desired is not None
            and (override is None or not config_values.is_equivalent(key, override, desired)),
            ignored=f"config.{key}" in ignored_fields,
        )
        if override is not None:
            found = replace(found, actual=override, actual_source=ActualSource.TOPIC)
        elif topic:
            found = _add_inherited_value(found, key, state, cluster, settings)
        yield found


def _add_inherited_value(
    found: ValueSource, key: str, state: ClusterState, cluster: ClusterSpec, settings: Mapping[str, str]
) -> ValueSource:
    """Return ``found`` with the value in effect for a topic without an override."""
    text = config_rules.server_default(key, settings)
    if text is None:
        known = (state.known_configs or {}).get(key)
        return replace(found, actual=known.default if known else None, actual_source=ActualSource.BROKERS)
    definition = config_table.TOPIC_CONFIGS[key]  # no other key has a default
    setting = next((name for name in definition.server_defaults if name in settings), "")
    if setting in state.broker_defaults:
        source, location = ActualSource.DYNAMIC_DEFAULT, None
    else:
        source = ActualSource.BROKER_CONFIG
        location = cluster.source.locate(("spec", "brokerConfig", setting)) if cluster.source else None
    return replace(found, actual=text, actual_source=source, broker_setting=setting, actual_location=location)


def _management_sources(spec: TopicSpec | None) -> Iterator[ValueSource]:
    if spec is None:
        return
    values = {
        "ensure": "Absent" if spec.absent else "Present",
        "mode": "Observe" if spec.observe_only else "Enforce",
        "unmanagedConfig": "Remove" if spec.remove_unmanaged else "Keep",
    }
    for field, value in values.items():
        yield ValueSource(field, value, *_find_desired_source(find_origin(spec, field)))
    for field, items in (("ignore", sorted(spec.ignored_fields)), ("withoutConfig", spec.excluded_default_keys)):
        if items:
            yield ValueSource(field, ", ".join(items), *_find_desired_source(find_item_origin(spec, field, items[0])))


def _find_desired_source(value_origin: ValueOrigin) -> tuple[DesiredSource, Location | None]:
    if value_origin.path == ("spec",):
        return DesiredSource.TOPIARIST, None
    return _SOURCE_BY_PATH.get(value_origin.path[:2], DesiredSource.MANIFEST), value_origin.locate()


_SOURCE_BY_PATH: Mapping[FieldPath, DesiredSource] = {
    ("spec", "overrides"): DesiredSource.OVERRIDE,
    ("spec", "profiles"): DesiredSource.PROFILE,
    ("spec", "defaults"): DesiredSource.CLUSTER_DEFAULTS,
    ("spec", "brokerConfig"): DesiredSource.BROKER_CONFIG,
}
"""The source of a value by the start of its path; every other value is the manifest's own."""


_MAX_SUGGESTIONS = 3


class ResolvedTopic(NamedTuple):
    """A topic that a name from the command line refers to.

    ``by_document_name`` is true if the name is that of a document, and the topic has a different name in Kafka.
    """

    topic: str
    spec: TopicSpec | None = None
    by_document_name: bool = False


class Description(Struct, frozen=True):
    """The description of one topic on one cluster.

    ``manifests_given`` is true if the run has manifests; ``pending_plan`` is the plan of the topic if a manifest
    declares it. ``states_known`` is true if the states of its partitions are known. ``read_errors`` are the parts of
    its metadata that cannot be read. ``is_orphan`` is true if the run's owner has the topic and no manifest declares
    it. ``placement`` is the placement of Kafka's that most of its replica lists follow; None if there is none, or no
    list.
    """

    cluster: ClusterSpec
    state: ClusterState
    resolved: ResolvedTopic
    phase: TopicPhase
    partitions: tuple[Partition, ...]
    values: tuple[ValueSource, ...]
    states_known: bool
    read_errors: tuple[ReadError, ...] = ()
    topic_id: str | None = None
    manifests_given: bool = False
    pending_plan: TopicPlan | None = None
    owner: str = "default"
    is_orphan: bool = False
    placement: InferredPlacement | None = None

    @property
    def topic(self) -> str:
        """Return the topic's name in Kafka."""
        return self.resolved.topic

    @property
    def record(self) -> OwnershipRecord | None:
        """Return the ownership record, valid or not, with or without a topic."""
        return self.state.record_of(self.topic)


def resolve_topic(name: str, state: ClusterState, specs: Iterable[TopicSpec]) -> Sequence[ResolvedTopic]:
    """Return the topic named ``name``, or the topics of documents of that name.

    A name without a topic and without a document is returned as a topic name.
    """
    all_specs = list(specs)
    exists = (
        name in state.topics
        or name in state.topic_errors
        or name in state.pending_deletions
        or name in state.dangling_records
    )
    if by_topic_name := [spec for spec in all_specs if spec.topic == name]:
        return [ResolvedTopic(name, by_topic_name[0])]
    documents = [
        ResolvedTopic(spec.topic, spec, by_document_name=True) for spec in all_specs if spec.manifest.name == name
    ]
    return documents if documents and not exists else [ResolvedTopic(name)]


def split_patterns(text: str) -> tuple[str, ...]:
    """Return the distinct names and patterns of a list: ``orders,shop.*`` has two."""
    return tuple(dict.fromkeys(filter(None, (word.strip() for word in text.split(",")))))


def select_topics(name_or_pattern: str, state: ClusterState, specs: Iterable[TopicSpec]) -> Sequence[ResolvedTopic]:
    """Return the topics that a name or a pattern matches, sorted by name.

    A pattern is compared with the topic names of the cluster, readable or not, of its records, and of manifests. The
    result is empty if a pattern matches nothing.
    """
    all_specs = list(specs)
    if not is_pattern(name_or_pattern):
        return resolve_topic(name_or_pattern, state, all_specs)
    specs_by_topic = {spec.topic: spec for spec in all_specs}
    names = {*state.topics, *state.topic_errors, *state.pending_deletions, *state.dangling_records, *specs_by_topic}
    return [
        ResolvedTopic(name, specs_by_topic.get(name)) for name in sorted(names) if matches_any(name, (name_or_pattern,))
    ]


def similar_names(name: str, state: ClusterState, specs: Iterable[TopicSpec]) -> Sequence[str]:
    """Return the topic names most similar to ``name``, the closest first."""
    all_names = {*state.topics, *state.topic_errors, *state.dangling_records, *(spec.topic for spec in specs)}
    return get_close_matches(name, sorted(all_names), n=_MAX_SUGGESTIONS, cutoff=0.7)


def describe(
    state: ClusterState,
    cluster: ClusterSpec,
    resolved: ResolvedTopic,
    inspection: TopicInspection | None,
    plan: Plan | None,
    owner: str,
) -> Description:
    """Return the description of the topic ``resolved``.

    ``inspection`` is None if the state of its partitions is not known. ``plan`` is the plan of all manifests for the
    cluster, None if there are none; ``owner`` is that of the run.
    """
    name, topic, record = resolved.topic, state.topics.get(resolved.topic), state.record_of(resolved.topic)
    states_known = inspection is not None and inspection.states_readable
    rules = cluster.config_rules.for_cluster(state.mode, state.known_configs)
    partitions = build_partitions(state, name, inspection, rules.oldest_version(state.min_version))
    pending_plan, placement = None, None
    if resolved.spec:
        # The plan has no entry for a topic without changes, refusals and notices.
        empty_plan = TopicPlan(name, topic, record, record, spec=resolved.spec)
        pending_plan = next((each for each in plan.topics if each.topic == name), empty_plan) if plan else empty_plan
    if topic and topic.has_contiguous_partitions:
        placement = infer_nearest_placement(state.brokers, topic.replicas, excluded=cluster.exclude_brokers)
    return Description(
        cluster=cluster,
        state=state,
        resolved=resolved,
        phase=determine_phase(state, name, resolved.spec, partitions, states_known),
        partitions=partitions,
        values=find_value_sources(state, name, cluster, resolved.spec, partitions),
        states_known=states_known,
        read_errors=tuple(_find_read_errors(state, name, inspection, partitions)),
        topic_id=inspection.topic_id if inspection else topic.topic_id if topic else None,
        manifests_given=plan is not None,
        pending_plan=pending_plan,
        owner=owner,
        is_orphan=plan is not None and name in plan.orphans,
        placement=placement,
    )


def _find_read_errors(
    state: ClusterState, name: str, inspection: TopicInspection | None, partitions: Iterable[Partition]
) -> Iterator[ReadError]:
    if read_error := state.topic_errors.get(name):
        yield read_error
    yield from inspection.other_errors if inspection else ()
    yield from (partition.read_error for partition in partitions if partition.read_error)
