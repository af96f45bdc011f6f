"""Rules between fields: what is wrong with a merged spec although every field by itself passes the schema.

``complaints`` runs over every spec of a run before anything is connected to; ``warnings`` has what is only worth a
word. Whether a cluster's *state* allows what a spec asks is the business of ``plan``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from topiarist.core import configs, explicit
from topiarist.core.assignment import MAX_REPLICATION_FACTOR
from topiarist.core.javatext import INT_MAX, trim
from topiarist.core.names import fits, name_problem
from topiarist.core.quoting import quoted, shown
from topiarist.core.spec import (
    BROKER_SIZES,
    NEWEST,
    ClusterSpec,
    Origin,
    TopicSpec,
    item_origin,
    name_path,
    origin,
    restated,
)
from topiarist.core.state import Release
from topiarist.errors import Complaint, Key, Place, Reason

_MEMORY = 1 << 10
"""Judgements kept: topics of one cluster share few distinct values."""

AUTO_CREATE = "auto.create.topics.enable"
"""The brokers' setting by which clients create topics. Kafka reads it from files only."""

_MOST = {"partitions": INT_MAX, "replicationFactor": MAX_REPLICATION_FACTOR}

_NO_SUCH = "Kafka has no such topic config"
VENDORS = "a vendor's own key needs a pattern in the Cluster's allowUnknownConfigs"
"""What to do about a key that Kafka does not know and that is meant all the same."""


def complaints(spec: TopicSpec, *, known: bool = True) -> Iterator[Complaint]:
    """Everything wrong with one topic on one cluster, each at its place.

    ``known`` is false if there is no document of that cluster: what it could make right is then no complaint (sizes
    that its defaults may give, keys that it may allow).
    """
    if wrong := name_problem(spec.topic):
        yield Complaint(spec.manifest.source.place(name_path(spec.manifest)), wrong)
    yield from _size(spec, known)
    release, vendors = spec.cluster.release or NEWEST, spec.cluster.allow_unknown_configs
    for key, text in spec.config.items():
        problem = _config_problem(key, text, release, vendors)
        if problem and (known or key in configs.CONFIGS):
            yield _at(origin(spec, "config", key_step(key)), *problem, reason=Reason.CONFIG_INVALID)
    # What only its document can say of a cluster is taken to be said where there is none.
    unsaid = {} if known else {configs.REMOTE_STORAGE: "true"}
    for key, message in configs.conflicts(spec.config, release, {**unsaid, **spec.cluster.broker_config}):
        yield _at(origin(spec, "config", key), message, reason=Reason.CONFIG_INVALID)
    yield from _min_isr(spec)
    if known and (spec.ignore or spec.without):
        yield from _unknown_keys(spec)


def cluster_complaints(cluster: ClusterSpec) -> Iterator[Complaint]:
    """What is wrong with a cluster's own defaults, also where no topic uses them."""
    for key, text in cluster.default_config.items():
        if problem := config_problem(cluster, key, text):
            yield _at(
                Origin(cluster.source, ("spec", "defaults", "config", key_step(key))),
                *problem,
                reason=Reason.CONFIG_INVALID,
            )

    yield from _broker_config(cluster)


def _broker_config(cluster: ClusterSpec) -> Iterator[Complaint]:
    """Yield what is wrong with the settings of ``brokerConfig`` that decide how topics are created."""
    for field, name in BROKER_SIZES.items():
        text, most = cluster.broker_config.get(name), _MOST[field]
        if text is not None and not 1 <= (cluster.broker_size(field) or 0) <= most:
            yield _at(_setting(cluster, name), f"{name}: found {quoted(text)}, wanted a whole number from 1 to {most}")
    text = cluster.broker_config.get(AUTO_CREATE)
    if text is not None and trim(text).lower() not in ("true", "false"):
        yield _at(_setting(cluster, AUTO_CREATE), f"{AUTO_CREATE}: found {quoted(text)}, wanted true or false")


def cluster_warnings(cluster: ClusterSpec) -> Iterator[Complaint]:
    """Yield a warning if ``brokerConfig`` says that the brokers create topics that clients ask for.

    Kafka's default is true, but a ``brokerConfig`` that does not name the setting says nothing about the brokers.
    """
    if trim(cluster.broker_config.get(AUTO_CREATE, "")).lower() == "true":
        yield _at(
            _setting(cluster, AUTO_CREATE),
            f"{AUTO_CREATE} is true: any client that asks for a topic creates it, with the brokers' defaults. Topics "
            "appear that no manifest names, a topic that was deleted on purpose can return, and a topic of a manifest "
            "can exist before it is created as declared",
            f"set {AUTO_CREATE}=false on the brokers, then here",
        )


def _setting(cluster: ClusterSpec, name: str) -> Origin:
    return Origin(cluster.source, ("spec", "brokerConfig", name))


def warnings(spec: TopicSpec) -> Iterator[Complaint]:
    """What works but should be known: names that Kafka has deprecated."""
    release = spec.cluster.release or NEWEST
    for key in configs.DEPRECATED & spec.config.keys():
        if message := configs.deprecation(key, release):
            yield _at(origin(spec, "config", key), f"{_named(key)}: {message}")


def key_step(key: str) -> str:
    """The last step of a path to a config: the key itself if that is what is wrong, else its value."""
    return key if key in configs.CONFIGS else Key(key)


def config_problem(cluster: ClusterSpec, key: str, text: str) -> tuple[str, str] | None:
    """What is wrong with one config value on a cluster, and what to do; None if nothing.

    A key that Kafka does not know is fine if ``allowUnknownConfigs`` has a pattern for it; its value is not judged.
    """
    return _config_problem(key, text, cluster.release or NEWEST, cluster.allow_unknown_configs)


@lru_cache(maxsize=_MEMORY)
def _config_problem(key: str, text: str, release: Release, vendors: tuple[str, ...]) -> tuple[str, str] | None:
    if key not in configs.CONFIGS:
        if fits(key, vendors):
            return None
        return _unknown(key)
    if not configs.known(key, release):
        since = version(configs.CONFIGS[key].since)
        return (
            f"{key}: Kafka knows it since {since}, but kafkaVersion is {version(release)}",
            "leave the line out",
        )
    wrong = configs.check(key, text, release) or configs.stricter(key, text)
    return (f"{key}: {wrong}", "") if wrong else None


DECLARE = "set kafkaVersion in the Cluster, or give --kafka-version"
"""What to do where a config may be unknown to a cluster whose release nobody declared."""


def too_new(cluster: ClusterSpec, key: str, at_least: Release) -> str:
    """Why ``key`` may be unknown to a cluster whose release nobody declared, and which is certain to be ``at_least``
    one; empty if it is not.
    """
    if cluster.release is not None or key not in configs.CONFIGS or configs.known(key, at_least):
        return ""
    since, seen = version(configs.CONFIGS[key].since), version(at_least)
    return f"{key}: Kafka knows it since {since}; of this cluster only {seen} or later is certain"


class ConfigFault(NamedTuple):
    """One reason why Kafka would refuse a map of overrides: the key that it is about, and what is wrong, in words."""

    key: str
    message: str


def _named(key: str) -> str:
    """A config key as a message begins with it: it may be any text."""
    return shown(key, 255)


def _unknown(key: str, prefix: str = "") -> tuple[str, str]:
    """What to say of a key that neither Kafka nor the cluster knows; ``prefix`` stands before it where it was found."""
    guess = configs.suggest(key)
    hint = f"did you mean {prefix}{guess}?" if guess else VENDORS
    return f"{prefix}{_named(key)}: {_NO_SUCH}", hint


def _unknown_keys(spec: TopicSpec) -> Iterator[Complaint]:
    """Keys in ``ignore`` and ``withoutConfig`` that nobody knows: what is meant would quietly not be so."""
    cluster = spec.cluster
    for item in sorted(spec.ignore):
        key = item.removeprefix("config.")
        if key != item and not knows(cluster, key):
            yield _at(item_origin(spec, "ignore", item), *_unknown(key, "config."))
    for key in spec.without:
        if key not in cluster.default_config and not knows(cluster, key):
            yield _at(item_origin(spec, "withoutConfig", key), *_unknown(key))


def knows(cluster: ClusterSpec, key: str) -> bool:
    """Whether a config key is Kafka's, in whatever release, or one that the cluster allows beside them."""
    return key in configs.CONFIGS or fits(key, cluster.allow_unknown_configs)


def config_faults(
    config: Mapping[str, str], cluster: ClusterSpec, releases: tuple[Release, ...], settings: Mapping[str, str]
) -> Sequence[ConfigFault]:
    """Why Kafka would refuse a whole map of overrides, in any of ``releases``; keys that the cluster allows aside.

    Of several releases (none is declared) each judges only the keys that it knows.
    """
    found = {
        ConfigFault(key, f"{_named(key)}: {_NO_SUCH}")
        for key in config
        if key not in configs.CONFIGS and not fits(key, cluster.allow_unknown_configs)
    }
    for release in releases:
        for key, text in config.items():
            judged = key in configs.CONFIGS if len(releases) == 1 else configs.known(key, release)
            if judged and (message := configs.check(key, text, release)):
                found.add(ConfigFault(key, f"{_named(key)}: {message}"))
        found.update(ConfigFault(*conflict) for conflict in configs.conflicts(config, release, settings))
    return sorted(found)


def judging(cluster: ClusterSpec) -> ClusterSpec:
    """As much of a cluster as ``config_faults`` and ``risk`` ask about: its release, its vendors' keys, its brokers'
    settings.
    """
    return ClusterSpec(
        release=cluster.release,
        allow_unknown_configs=cluster.allow_unknown_configs,
        broker_config=configs.judging(cluster.broker_config),
    )


def remedy(faults: Sequence[ConfigFault], own: Collection[str]) -> str:
    """What to do about faults of a map of overrides as it would be written; ``own`` are the manifest's keys."""
    keys = sorted({fault.key for fault in faults})
    unknown = [key for key in keys if key not in configs.CONFIGS]
    ways = []
    if unknown:
        patterns = ", ".join(map(quoted, unknown))
        ways.append(
            f"if the brokers know {', '.join(unknown)}, set allowUnknownConfigs: [{patterns}] in the Cluster; "
            "if not, delete what they do not know with kafka-configs"
        )
    if mine := [key for key in keys if key in configs.CONFIGS and key in own]:
        ways.append(f"change {', '.join(mine)} in the manifest")
    if others := [key for key in keys if key in configs.CONFIGS and key not in own]:
        ways.append(f"give {', '.join(others)} in the manifest too, with a value that fits")
    return "; ".join(ways)


def version(release: Release) -> str:
    """A release as people write it: ``3.9``."""
    return f"{release[0]}.{release[1]}"


def min_isr_above(config: Mapping[str, str], width: int) -> bool:
    """Whether ``min.insync.replicas`` wants more replicas than ``width``: every write with ``acks=all`` would fail."""
    text = config.get("min.insync.replicas")
    return text is not None and _min_isr_wanted(text) > width


@lru_cache(maxsize=_MEMORY)
def _min_isr_wanted(text: str) -> int:
    """The number in a value of ``min.insync.replicas``; 0 if it cannot be read, which is another complaint."""
    wrong = configs.check("min.insync.replicas", text)
    return 0 if wrong else int(str(configs.parse("min.insync.replicas", text)))


def _size(spec: TopicSpec, known: bool) -> Iterator[Complaint]:
    if spec.absent:
        return
    for partition, message in explicit.problems(dict(enumerate(spec.assignment))) if spec.assignment else ():
        where = origin(spec, "replicaAssignment", partition)
        # In text, a list has no place of its own.
        about = (
            "" if where.path[-1] == partition or message.startswith("found different") else f"partition {partition}: "
        )
        yield _at(where, f"replicaAssignment: {about}{message}")
    source = spec.manifest.source
    for one in restated(spec):
        if one.given != one.listed:
            message = (
                f"{one.field}: found {one.given}, but replicaAssignment at {source.place(one.lists)} has {one.listed}"
            )
            yield _at(Origin(source, one.path), message, f"leave {one.field} out, or set it to {one.listed}")
    sizes = {"partitions": spec.create_partitions, "replicationFactor": spec.create_replication_factor}
    missing = [name for name, size in sizes.items() if known and not size]
    if missing:
        names = " and ".join(missing)
        yield _at(
            origin(spec),
            f"{spec.topic}: found no {names}, neither in the topic nor in the defaults of its cluster",
            "ZooKeeper does not know the brokers' defaults: say what you want, here or in the Cluster's defaults, or "
            f"what the brokers have, in its brokerConfig ({' and '.join(BROKER_SIZES[name] for name in missing)})",
        )


def _min_isr(spec: TopicSpec) -> Iterator[Complaint]:
    factor, key = spec.replication_factor, "min.insync.replicas"
    if factor is None or not min_isr_above(spec.config, factor):
        return
    found = f"{key}: found {spec.config[key]}"
    why = "with more in-sync replicas wanted than there are, every write with acks=all fails"
    if key in spec.inherited:
        # The default is good for other topics: what is wrong is that this one takes it.
        place = origin(spec, "replicaAssignment" if spec.assignment else "replicationFactor")
        found += " in the cluster's defaults"
        why += f"; withoutConfig: [{key}] leaves the default out"
    else:
        place = origin(spec, "config", key)
    yield _at(place, f"{found}, but {spec.topic} has replication factor {factor}", why)


def _at(where: Origin, message: str, hint: str = "", reason: Reason = Reason.INVALID_MANIFEST) -> Complaint:
    return Complaint(where.place() or Place("the cluster's defaults"), message, hint, reason.value)
