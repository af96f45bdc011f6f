"""From paths to specs: reads the manifests, finds the clusters of the run, and stops it if anything is wrong.

Everything that needs no cluster happens here, before the first connection, and every complaint is reported at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import click

from topiarist import judging, schema
from topiarist.adapters import manifests
from topiarist.cli import platform, terminal
from topiarist.core.claims import cluster_map
from topiarist.core.names import fits
from topiarist.core.plan import EVERY
from topiarist.core.spec import ClusterSpec, Manifest
from topiarist.core.units import count
from topiarist.desired import Desired, hint_for, resolve
from topiarist.errors import Complaint, InvalidManifests
from topiarist.settings import Settings


def load(settings: Settings, *, offline: bool = False, ruled: bool = True) -> Desired:
    """The specs of a run; ``offline`` is for commands that need no cluster and take topics as they are.

    Policies count only if the specs are to be ``ruled`` by them.

    Says on stderr what was passed over. Raises ``InvalidManifests`` with every complaint, or ``click.UsageError``.
    """
    if not settings.paths:
        raise click.UsageError("name at least one file or folder with manifests, or - for standard input")
    loaded, clusters, doubles, only = _read(settings, offline)
    topics = [manifest for manifest in loaded.manifests if manifest.kind == "Topic"]
    broken = frozenset(name for kind, name in loaded.broken if kind == "Cluster")
    found = [schema.policy(manifest) for manifest in loaded.manifests if manifest.kind == "Policy"] if ruled else []
    strict = not offline or _all_known(settings, clusters)
    unchecked = "defaults and policies" if found else "defaults"
    desired = resolve(topics, clusters, only=only, strict=strict, broken=broken, unchecked=unchecked)
    if ruled:
        desired = judging.judged(desired, found, clusters, manifests.annotations_of, alone=offline)
    homeless = () if offline or settings.snapshot else _without_address(desired.wanted)
    absent = () if topics or loaded.broken else _no_topic(settings.paths)
    required = absent if settings.require_topics else ()
    unread = [warning for warning in loaded.warnings if warning.place not in {each.place for each in absent}]
    said = settings.verbosity >= 0
    if said and loaded.foreign:
        terminal.say(f"{count(loaded.foreign, 'document')} of other API groups passed over")
    if complaints := {*loaded.complaints, *doubles, *desired.complaints, *homeless, *required}:
        if said:
            terminal.warn(unread)
        raise InvalidManifests(list(complaints), loaded.more)
    desired = replace(desired, warnings=(*absent, *unread, *desired.warnings))
    if said and desired.passed_over:
        terminal.say(f"{count(desired.passed_over, 'topic')} not meant for {_these(desired)} passed over")
    if said:
        _remark_unmatched(desired, settings)
        terminal.warn(desired.warnings)
    return desired


def _no_topic(paths: Sequence[str]) -> tuple[Complaint, ...]:
    """Return the complaint about a run without any topic, at the first of its paths."""
    place = manifests.place_of(paths[0])
    where = "here" if len(paths) == 1 else f"in {count(len(paths), 'path')}"
    hint = f"wanted documents of apiVersion {schema.VERSION} and kind Topic, in a folder in *.yaml or *.yml"
    return (Complaint(place, f"found no Topic {where}: there is nothing to do", hint),)


def _all_known(settings: Settings, clusters: Mapping[str, ClusterSpec]) -> bool:
    """Return whether an option says which clusters there are, so that any other name is an error without a cluster too.

    Paths alone do not say it: a commit may change a topic and no ``Cluster`` document.
    """
    return bool(settings.platform or settings.clusters) and set(clusters) != {""}


def load_clusters(settings: Settings) -> Mapping[str, ClusterSpec]:
    """The clusters of a run that is about clusters and not about topics, by name: of the paths, or by ``--zookeeper``.

    Topics in the paths are passed over. Raises ``InvalidManifests`` with every complaint, or ``click.UsageError``.
    """
    loaded, clusters, doubles, only = _read(settings, offline=False)
    chosen = clusters if only is None else {only: clusters[only]}
    homeless = () if settings.snapshot else _without_address(chosen)
    if found := {*loaded.complaints, *doubles, *homeless}:
        raise InvalidManifests(list(found), loaded.more)
    if settings.verbosity >= 0:
        terminal.warn(loaded.warnings)
    return chosen


def load_if_given(settings: Settings, *, ruled: bool = True) -> Desired:
    """Return the specs of a run's manifests; without manifests, no specs for every cluster of the run.

    See ``load`` for ``ruled``. Says nothing on stderr: what there is to remark on a whole folder does not concern a
    command that only shows.
    """
    if settings.paths:
        return load(replace(settings, verbosity=-1), ruled=ruled)
    clusters = load_clusters(settings)
    return Desired(dict.fromkeys(clusters, ()), clusters)


def require_addresses(clusters: Mapping[str, ClusterSpec], settings: Settings) -> None:
    """Raise ``InvalidManifests`` with a complaint for each cluster whose document does not say where it is."""
    if not settings.snapshot and (found := list(_without_address(clusters))):
        raise InvalidManifests(found)


def _read(
    settings: Settings, offline: bool
) -> tuple[manifests.Loaded, Mapping[str, ClusterSpec], list[Complaint], str | None]:
    """What is in the paths, the clusters of the run by name, what is wrong with these, and the only one wanted."""
    stdin = sys.stdin.buffer if "-" in settings.paths else None
    loaded = platform.trusted(manifests.load((*settings.paths, *settings.clusters), stdin), settings)
    try:
        clusters, doubles = _clusters(loaded.manifests, settings, offline)
        return loaded, clusters, doubles, _only(settings, clusters)
    except click.UsageError:
        # A Cluster that is missed may be one of those that are wrong: what is wrong with them comes first.
        if loaded.complaints:
            raise InvalidManifests(loaded.complaints, loaded.more) from None
        raise


def _without_address(clusters: Mapping[str, ClusterSpec]) -> Iterator[Complaint]:
    """Clusters whose documents do not say where they are."""
    for name, cluster in clusters.items():
        if not cluster.connect and cluster.source is not None:
            yield Complaint(
                cluster.source.place(("metadata", "name")),
                f"Cluster {name}: found no spec.zookeeper.connect, wanted its address",
                "add zookeeper: {connect: host1:2181,host2:2181/chroot}, or give --zookeeper",
            )


def _clusters(
    found: tuple[Manifest, ...], settings: Settings, offline: bool
) -> tuple[Mapping[str, ClusterSpec], list[Complaint]]:
    """The clusters of the run by name, with what flags say of them."""
    documents = [schema.cluster_spec(manifest) for manifest in found if manifest.kind == "Cluster"]
    clusters, complaints = cluster_map(documents)
    if settings.zookeeper and len(clusters) > 1:
        names = ", ".join(sorted(clusters))
        raise click.UsageError(f"--zookeeper is the address of one cluster, and there are {len(clusters)}: {names}")
    if not clusters:
        if not settings.zookeeper and not settings.snapshot and not offline:
            raise click.UsageError("no cluster: add a Cluster document to the paths, or give --clusters or --zookeeper")
        clusters = {"": ClusterSpec()}
    if settings.zookeeper:
        clusters = {name: replace(spec, connect=settings.zookeeper) for name, spec in clusters.items()}
    if settings.kafka_version:
        clusters = {name: replace(spec, release=settings.kafka_version) for name, spec in clusters.items()}
    return clusters, complaints


def _only(settings: Settings, clusters: Mapping[str, ClusterSpec]) -> str | None:
    if settings.cluster is not None and settings.cluster not in clusters:
        hint = hint_for(settings.cluster, clusters)
        raise click.UsageError(f"--cluster {settings.cluster}: there is no such Cluster; {hint}")
    return settings.cluster


def _these(desired: Desired) -> str:
    """The clusters of the run, in words."""
    names = ", ".join(filter(None, desired.clusters))
    return f"cluster {names}" if len(desired.clusters) == 1 and names else names or "this cluster"


def _remark_unmatched(desired: Desired, settings: Settings) -> None:
    """Say which patterns of topics match none: a word that was meant as something else must not be lost."""
    topics = {spec.topic for specs in desired.specs.values() for spec in specs}
    given = {
        "--adopt": settings.adopt,
        "--take-ownership": settings.take_ownership,
        "--recreate": settings.recreate,
        "--allow-risk": [pattern for allowance in settings.allow_risk for pattern in allowance.topics],
    }
    for option, patterns in given.items():
        for pattern in dict.fromkeys(patterns):
            if pattern not in EVERY and not any(fits(topic, (pattern,)) for topic in topics):
                terminal.say(f"{option}: no topic of these manifests is called {pattern}")
