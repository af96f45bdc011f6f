"""From paths to specs: reads the manifests, finds the clusters of the run, and stops it if anything is wrong.

Everything that needs no cluster happens here, before the first connection, and every complaint is reported at once.

``--platform``: clusters and policies from a place that the other paths cannot override.

What a branch brings is not trusted: it may hold another ``Cluster`` of a known name, a looser policy, budgets without a
limit. So where ``--platform`` is given, a ``Cluster`` or ``Policy`` counts only there, and a topic only elsewhere. What
else lies around is passed over and named, not refused: one repository may hold both.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import click

from topiarist.adapters.manifests import files, loader
from topiarist.cli import terminal
from topiarist.cli.settings import Settings
from topiarist.desired import parse
from topiarist.desired.duplicates import index_clusters
from topiarist.desired.resolve import Desired, resolve, unknown_cluster_hint
from topiarist.errors import Diagnostic, InvalidManifests
from topiarist.filters.chain import apply_filters
from topiarist.filters.permissions import PlanFilter, keep_all
from topiarist.filters.policies import PolicyEvaluator, PolicyResult, evaluate_policies
from topiarist.kafka.names import matches_any
from topiarist.model.plan import Plan
from topiarist.model.policy import Policy
from topiarist.model.run_options import ALL_TOPICS
from topiarist.model.spec import ClusterSpec, Manifest
from topiarist.schema import load as load_
from topiarist.text import format_count


class RunInputs(NamedTuple):
    """The manifests of a run: what they ask for, and the filter that their policies are for its plans."""

    desired: Desired
    policy_filter: PlanFilter = keep_all

    def filter_plan(self, plan: Plan, settings: Settings, approve: PlanFilter = keep_all) -> Plan:
        """Return the plan without what the run may not do."""
        budgets = self.desired.clusters[plan.cluster].budgets
        return apply_filters(plan, budgets, policies=self.policy_filter, approve=approve, partial=settings.partial)


def load_manifests(settings: Settings, *, offline: bool = False, with_policies: bool = True) -> RunInputs:
    """The specs of a run; ``offline`` is for commands that need no cluster and take topics as they are.

    Policies count only if the specs are to be ``with_policies`` by them.

    Says on stderr what was passed over. Raises ``InvalidManifests`` with every complaint, or ``click.UsageError``.
    """
    if not settings.paths:
        raise click.UsageError("name at least one file or folder with manifests, or - for standard input")
    loaded, clusters, doubles, only = _read_manifests(settings, offline)
    topics = [manifest for manifest in loaded.manifests if manifest.kind == "Topic"]
    broken = frozenset(name for kind, name in loaded.invalid_documents if kind == "Cluster")
    found = (
        [parse.parse_policy(manifest) for manifest in loaded.manifests if manifest.kind == "Policy"]
        if with_policies
        else []
    )
    strict = not offline or _has_all_clusters(settings, clusters)
    unchecked = "defaults and policies" if found else "defaults"
    desired = resolve(
        topics,
        clusters,
        only_cluster=only,
        require_cluster_documents=strict,
        invalid_clusters=broken,
        unchecked_parts=unchecked,
    )
    result = _evaluate_policies(found, desired, clusters, validate_only=offline) if found else PolicyResult()
    complaints = {*loaded.errors, *doubles, *desired.errors, *result.errors}
    homeless = () if offline or settings.snapshot else _find_missing_addresses(desired.targeted_clusters)
    absent = () if topics or loaded.invalid_documents else _make_no_topic_errors(settings.paths)
    required = absent if settings.require_topics else ()
    unread = [warning for warning in loaded.warnings if warning.location not in {each.location for each in absent}]
    said = settings.verbosity >= 0
    if said and loaded.foreign_count:
        terminal.log(f"{format_count(loaded.foreign_count, 'document')} of other API groups passed over")
    if complaints := complaints | {*homeless, *required}:
        if said:
            terminal.print_warnings(unread)
        raise InvalidManifests(list(complaints), loaded.suppressed_count)
    warned = sorted({*desired.warnings, *result.warnings}) if found else desired.warnings
    desired = replace(desired, warnings=(*absent, *unread, *warned))
    if said and desired.skipped_count:
        terminal.log(
            f"{format_count(desired.skipped_count, 'topic')} not meant for {_describe_clusters(desired)} passed over"
        )
    if said:
        _log_unmatched_patterns(desired, settings)
        terminal.print_warnings(desired.warnings)
    return RunInputs(desired, result.plan_filter)


def _evaluate_policies(
    policies: Sequence[Policy], desired: Desired, clusters: Mapping[str, ClusterSpec], *, validate_only: bool
) -> PolicyResult:
    # The CEL library takes 40 ms to load: a run without policies does without it.
    from topiarist.adapters import cel

    court = cel.CelRuleEvaluator(rule for policy in policies for rule in policy.rules)
    return evaluate_policies(
        desired,
        policies,
        clusters,
        PolicyEvaluator(policies, loader.read_annotations, court),
        validate_only=validate_only,
    )


def _make_no_topic_errors(paths: Sequence[str]) -> tuple[Diagnostic, ...]:
    """Return the complaint about a run without any topic, at the first of its paths."""
    place = files.file_location(paths[0])
    where = "here" if len(paths) == 1 else f"in {format_count(len(paths), 'path')}"
    hint = f"wanted documents of apiVersion {load_.API_VERSION} and kind Topic, in a folder in *.yaml or *.yml"
    return (Diagnostic(place, f"found no Topic {where}: there is nothing to do", hint),)


def _has_all_clusters(settings: Settings, clusters: Mapping[str, ClusterSpec]) -> bool:
    """Return whether an option says which clusters there are, so that any other name is an error without a cluster too.

    Paths alone do not say it: a commit may change a topic and no ``Cluster`` document.
    """
    return bool(settings.platform or settings.clusters) and set(clusters) != {""}


def load_clusters(settings: Settings) -> Mapping[str, ClusterSpec]:
    """The clusters of a run that is about clusters and not about topics, by name: of the paths, or by ``--zookeeper``.

    Topics in the paths are passed over. Raises ``InvalidManifests`` with every complaint, or ``click.UsageError``.
    """
    loaded, clusters, doubles, only = _read_manifests(settings, offline=False)
    chosen = clusters if only is None else {only: clusters[only]}
    homeless = () if settings.snapshot else _find_missing_addresses(chosen)
    if found := {*loaded.errors, *doubles, *homeless}:
        raise InvalidManifests(list(found), loaded.suppressed_count)
    if settings.verbosity >= 0:
        terminal.print_warnings(loaded.warnings)
    return chosen


def load_if_given(settings: Settings, *, with_policies: bool = True) -> RunInputs:
    """Return the specs of a run's manifests; without manifests, no specs for every cluster of the run.

    See ``load`` for ``with_policies``. Says nothing on stderr: what there is to remark on a whole folder does not
    concern a command that only shows.
    """
    if settings.paths:
        return load_manifests(replace(settings, verbosity=-1), with_policies=with_policies)
    clusters = load_clusters(settings)
    return RunInputs(Desired(dict.fromkeys(clusters, ()), clusters))


def require_addresses(clusters: Mapping[str, ClusterSpec], settings: Settings) -> None:
    """Raise ``InvalidManifests`` with a complaint for each cluster whose document does not say where it is."""
    if not settings.snapshot and (found := list(_find_missing_addresses(clusters))):
        raise InvalidManifests(found)


def _read_manifests(
    settings: Settings, offline: bool
) -> tuple[loader.Loaded, Mapping[str, ClusterSpec], list[Diagnostic], str | None]:
    """What is in the paths, the clusters of the run by name, what is wrong with these, and the only one wanted."""
    stdin = sys.stdin.buffer if "-" in settings.paths else None
    loaded = load_with_platform(loader.load_manifests((*settings.paths, *settings.clusters), stdin), settings)
    try:
        clusters, doubles = _build_clusters(loaded.manifests, settings, offline)
        return loaded, clusters, doubles, _check_selected_cluster(settings, clusters)
    except click.UsageError:
        # A Cluster that is missed may be one of those that are wrong: what is wrong with them comes first.
        if loaded.errors:
            raise InvalidManifests(loaded.errors, loaded.suppressed_count) from None
        raise


def _find_missing_addresses(clusters: Mapping[str, ClusterSpec]) -> Iterator[Diagnostic]:
    """Clusters whose documents do not say where they are."""
    for name, cluster in clusters.items():
        if not cluster.connect and cluster.source is not None:
            yield Diagnostic(
                cluster.source.locate(("metadata", "name")),
                f"Cluster {name}: found no spec.zookeeper.connect, wanted its address",
                "add zookeeper: {connect: host1:2181,host2:2181/chroot}, or give --zookeeper",
            )


def _build_clusters(
    manifests: tuple[Manifest, ...], settings: Settings, offline: bool
) -> tuple[Mapping[str, ClusterSpec], list[Diagnostic]]:
    """The clusters of the run by name, with what flags say of them."""
    documents = [parse.parse_cluster_spec(manifest) for manifest in manifests if manifest.kind == "Cluster"]
    clusters, complaints = index_clusters(documents)
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
        clusters = {name: replace(spec, version=settings.kafka_version) for name, spec in clusters.items()}
    return clusters, complaints


def _check_selected_cluster(settings: Settings, clusters: Mapping[str, ClusterSpec]) -> str | None:
    if settings.cluster is not None and settings.cluster not in clusters:
        hint = unknown_cluster_hint(settings.cluster, clusters)
        raise click.UsageError(f"--cluster {settings.cluster}: there is no such Cluster; {hint}")
    return settings.cluster


def _describe_clusters(desired: Desired) -> str:
    """The clusters of the run, in words."""
    names = ", ".join(filter(None, desired.clusters))
    return f"cluster {names}" if len(desired.clusters) == 1 and names else names or "this cluster"


def _log_unmatched_patterns(desired: Desired, settings: Settings) -> None:
    """Say which patterns of topics match none: a word that was meant as something else must not be lost."""
    topics = {spec.topic for specs in desired.specs.values() for spec in specs}
    given = {
        "--adopt": settings.adopt,
        "--take-ownership": settings.take_ownership,
        "--recreate": settings.recreate,
        "--allow-risk": [pattern for allowance in settings.allow_risk for pattern in allowance.topic_patterns],
    }
    for option, patterns in given.items():
        for pattern in dict.fromkeys(patterns):
            if pattern not in ALL_TOPICS and not any(matches_any(topic, (pattern,)) for topic in topics):
                terminal.log(f"{option}: no topic of these manifests is called {pattern}")


_MAX_SHOWN_DOCUMENTS = 3


def load_with_platform(loaded: loader.Loaded, settings: Settings) -> loader.Loaded:
    """What counts of ``loaded`` and of ``--platform`` together; the same again if that is not given."""
    if not settings.platform:
        return loaded
    _check_platform_options(settings)
    platform = loader.load_manifests(settings.platform)
    given = tuple(filter(_is_platform_document, platform.manifests))
    if not given and not platform.errors:
        raise click.UsageError("--platform: found neither Cluster nor Policy there: nothing would guard this run")
    if settings.verbosity >= 0:
        _log_ignored_documents([*_find_ignored_documents(loaded.manifests, given)])
    return loader.Loaded(
        manifests=(*(manifest for manifest in loaded.manifests if not _is_platform_document(manifest)), *given),
        errors=tuple(sorted({*loaded.errors, *platform.errors})),
        suppressed_count=loaded.suppressed_count + platform.suppressed_count,
        foreign_count=loaded.foreign_count + platform.foreign_count,
        file_count=loaded.file_count + platform.file_count,
        invalid_documents=loaded.invalid_documents | platform.invalid_documents,
        warnings=tuple(sorted({*loaded.warnings, *platform.warnings})),
    )


def _check_platform_options(settings: Settings) -> None:
    if settings.clusters:
        raise click.UsageError("--clusters beside --platform: give its files with --platform")
    if "-" in settings.platform:
        raise click.UsageError("--platform: wanted a file or a folder, not standard input")


def _is_platform_document(manifest: Manifest) -> bool:
    return manifest.kind != "Topic"


def _find_ignored_documents(manifests: Sequence[Manifest], platform: Sequence[Manifest]) -> Iterator[Manifest]:
    """Documents that have no effect where they stand; a file that both paths lead to is the platform's."""
    known = {os.path.realpath(manifest.source.locate().file) for manifest in platform}
    for manifest in filter(_is_platform_document, manifests):
        if os.path.realpath(manifest.source.locate().file) not in known:
            yield manifest


def _log_ignored_documents(ignored: Sequence[Manifest]) -> None:
    if ignored:
        shown = [f"{each.kind} {each.name} ({each.source.locate()})" for each in ignored[:_MAX_SHOWN_DOCUMENTS]]
        rest = f" and {len(ignored) - _MAX_SHOWN_DOCUMENTS} more" if len(ignored) > _MAX_SHOWN_DOCUMENTS else ""
        words = f"{format_count(len(ignored), 'document')} outside --platform without effect: {', '.join(shown)}{rest}"
        terminal.log(terminal.sanitize_lines(words))
