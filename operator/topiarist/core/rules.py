"""Rules between fields: what is wrong with a merged spec although every field by itself passes the schema.

``complaints`` runs over every spec of a run before anything is connected to; ``warnings`` has what is only worth a
word. Whether a cluster's *state* allows what a spec asks is the business of ``plan``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache

from topiarist.core import configs, explicit
from topiarist.core.names import name_problem
from topiarist.core.spec import NEWEST, ClusterSpec, Origin, TopicSpec, name_path, origin
from topiarist.core.state import Release
from topiarist.errors import Complaint, Key, Place

_Items = tuple[tuple[str, str], ...]
_MEMORY = 1 << 13
"""Judgements kept: topics of one cluster share few distinct values and few distinct maps of them."""


def complaints(spec: TopicSpec, *, known: bool = True) -> Iterator[Complaint]:
    """Everything wrong with one topic on one cluster, each at its place.

    ``known`` is false if there is no document of that cluster: what it could make right is then no complaint (sizes
    that its defaults may give, keys that it may allow).
    """
    if wrong := name_problem(spec.topic):
        yield Complaint(spec.manifest.source.place(name_path(spec.manifest)), wrong)
    yield from _size(spec, known)
    for key, text in spec.config.items():
        if (known or key in configs.CONFIGS) and (problem := config_problem(spec.cluster, key, text)):
            yield _at(origin(spec, "config", key_step(key)), *problem)
    for key, message in _conflicts(spec.config, spec.cluster.release or NEWEST, spec.cluster.broker_config):
        yield _at(origin(spec, "config", key), message)
    yield from _min_isr(spec)


def cluster_complaints(cluster: ClusterSpec) -> Iterator[Complaint]:
    """What is wrong with a cluster's own defaults, also where no topic uses them."""
    for key, text in cluster.default_config.items():
        if problem := config_problem(cluster, key, text):
            yield _at(Origin(cluster.source, ("spec", "defaults", "config", key_step(key))), *problem)


def warnings(spec: TopicSpec) -> Iterator[Complaint]:
    """What works but should be known: names that Kafka has deprecated."""
    release = spec.cluster.release or NEWEST
    for key in spec.config:
        if message := configs.deprecation(key, release):
            yield _at(origin(spec, "config", key), f"{key}: {message}")


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
        if _matches(key, vendors):
            return None
        guess = configs.suggest(key)
        hint = (
            f"did you mean {guess}?"
            if guess
            else "a vendor's own key needs a pattern in the Cluster's allowUnknownConfigs"
        )
        return f"{key}: Kafka has no such topic config", hint
    if not configs.known(key, release):
        since = version(configs.CONFIGS[key].since)
        return f"{key}: Kafka knows it since {since}, but kafkaVersion is {version(release)}", "leave the line out"
    wrong = configs.check(key, text, release) or configs.stricter(key, text)
    return (f"{key}: {wrong}", "") if wrong else None


def config_faults(
    config: Mapping[str, str], cluster: ClusterSpec, releases: tuple[Release, ...], settings: Mapping[str, str]
) -> Sequence[str]:
    """Why Kafka would refuse a whole map of overrides, in any of ``releases``; keys that the cluster allows aside.

    Of several releases (none is declared) each judges only the keys that it knows.
    """
    vendors = cluster.allow_unknown_configs
    return _config_faults(tuple(config.items()), releases, vendors, tuple(settings.items()))


@lru_cache(maxsize=_MEMORY)
def _config_faults(
    config: _Items, releases: tuple[Release, ...], vendors: tuple[str, ...], settings: _Items
) -> tuple[str, ...]:
    found = [
        f"{key}: Kafka has no such topic config"
        for key, _ in config
        if key not in configs.CONFIGS and not _matches(key, vendors)
    ]
    for release in releases:
        for key, text in config:
            judged = key in configs.CONFIGS if len(releases) == 1 else configs.known(key, release)
            if judged and (message := configs.check(key, text, release)):
                found.append(f"{key}: {message}")
        found += [message for _, message in configs.conflicts(dict(config), release, dict(settings))]
    return tuple(sorted(set(found)))


def _conflicts(config: Mapping[str, str], release: Release, settings: Mapping[str, str]) -> Sequence[tuple[str, str]]:
    return _conflicts_of(tuple(config.items()), release, tuple(settings.items()))


@lru_cache(maxsize=_MEMORY)
def _conflicts_of(config: _Items, release: Release, settings: _Items) -> Sequence[tuple[str, str]]:
    return tuple(configs.conflicts(dict(config), release, dict(settings)))


def _matches(key: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in patterns)


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
        yield _at(origin(spec, "replicaAssignment", partition), f"replicaAssignment: {message}")
    sizes = {"partitions": spec.create_partitions, "replicationFactor": spec.create_replication_factor}
    missing = [name for name, size in sizes.items() if known and not size]
    if missing:
        names = " and ".join(missing)
        yield _at(
            origin(spec),
            f"{spec.topic}: found no {names}, neither in the topic nor in the defaults of its cluster",
            "ZooKeeper does not know the brokers' defaults: say what you want, here or in the Cluster's defaults",
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


def _at(where: Origin, message: str, hint: str = "") -> Complaint:
    return Complaint(where.place() or Place("the cluster's defaults"), message, hint)
