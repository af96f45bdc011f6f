"""The inputs of a run: manifests, clusters and policies, checked before the first connection.

``load_manifests``, ``load_clusters`` and ``load_if_given`` report all errors at once: they load the documents, resolve
them, and judge both. With ``--platform``, clusters and policies come only from its paths and topics only from the other
paths: a branch is not trusted, because it may bring another ``Cluster`` of a known name, a looser policy, or budgets
without a limit. Documents in the wrong place are ignored with a log line and are no error, so one repository may hold
both.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from topiarist.adapters.manifests import files, loader
from topiarist.adapters.manifests.loader import InvalidDocument, Loaded, find_documents, match_documents
from topiarist.desired import parse
from topiarist.desired.resolve import Desired, resolve, select_with_groups, unknown_cluster_hint
from topiarist.desired.shared_specs import duplicate_document_errors, index_clusters
from topiarist.errors import Diagnostic, InvalidManifests, Reason, TopiaristError
from topiarist.filters.chain import PlanFilter, PolicyResult, apply_filters, keep_all, limit_moves
from topiarist.filters.limits import NO_LIMITS, LimitFilter
from topiarist.kafka.types import LAST_ZOOKEEPER_VERSION, format_version, matches_any
from topiarist.model.access import KafkaAccess, Via, ZooKeeperAccess
from topiarist.model.plan import ALL_TOPICS, Plan
from topiarist.model.policy import Policy
from topiarist.model.spec import ClusterSpec, Manifest, has_labels, topic_name
from topiarist.runs.settings import SILENT, RunListener, RunSettings, WrongSettings
from topiarist.schema import load as load_
from topiarist.schema.check import did_you_mean
from topiarist.text import format_count, list_first, quote

if TYPE_CHECKING:
    from topiarist.drift.exceptions import DriftException
    from topiarist.drift.rules import SeverityRule


# Documents that are left out of a run because they are invalid, so that the rest of the manifests can be used.
#
# ``drift`` and the commands that only show do so, and end with exit code 1: a report of a fleet without one manifest is
# worth more than no report. All other commands stop at the first invalid document, because they write or check.


class Documents(Struct):
    """The documents of a run: those that count, and the errors of the others.

    ``invalid_clusters`` are the names of Cluster documents that do not count; empty text is one of unknown name.
    ``invalid`` are all documents that were left out.
    """

    loaded: Loaded
    topics: Sequence[Manifest]
    clusters: Mapping[str, ClusterSpec]
    invalid_clusters: frozenset[str]
    errors: set[Diagnostic]
    invalid: Sequence[InvalidDocument] = ()

    @classmethod
    def of(cls, loaded: Loaded, clusters: Mapping[str, ClusterSpec], errors: Iterable[Diagnostic]) -> Documents:
        """Return all documents that could be read; ``clusters`` are the clusters of the run, ``errors`` theirs."""
        topics = [manifest for manifest in loaded.manifests if manifest.kind == "Topic"]
        invalid = frozenset(name for kind, name in loaded.invalid_documents if kind == "Cluster")
        other_kinds = {*load_.MANIFEST_KINDS} - {"Cluster"}
        if clusters.keys() == {""} and any(part.kind not in other_kinds for part in loaded.invalid_parts):
            invalid |= {""}  # a part that cannot be read may be the missing Cluster
        return cls(loaded, topics, clusters, invalid, {*loaded.errors, *errors})

    @property
    def unassigned_topics(self) -> frozenset[str]:
        """Return the topics that name no cluster and may be meant for an invalid one."""
        if not self.invalid_clusters:
            return frozenset()
        return frozenset(
            topic_name(each)
            for each in self.topics
            if "clusters" not in each.spec and "clusterSelector" not in each.spec
        )

    def leave_out_invalid(
        self, resolve_documents: Callable[[], Desired], only_cluster: str | None, *, require_addresses: bool
    ) -> Desired:
        """Leave out the documents that have errors, alone or together with others; their errors are then ``invalid``.

        Returns what the documents that are left resolve to. Raises ``InvalidManifests`` with every error if no Cluster
        document is left, or not ``only_cluster``, or for an error that is in no document: nothing is known of a file
        that cannot be read.
        """
        if self.loaded.has_unread_files:
            raise _make_error(self.loaded, self.errors)
        self.invalid_clusters -= self.clusters.keys()
        left_out = dict(_find_by_source(self.loaded, self.errors))
        while True:
            if only_cluster is not None and only_cluster not in self.clusters:
                raise _make_error(self.loaded, self.errors)
            desired = resolve_documents()
            found = {*desired.errors}
            if require_addresses:
                found.update(_find_missing_addresses(desired.targeted_clusters))
            if not found:
                break
            self.errors |= found
            documents = dict(_find_by_source(self.loaded, found))
            topics = [each for each in self.topics if id(each.source) not in documents]
            kept = {name: each for name, each in self.clusters.items() if id(each.source) not in documents}
            if len(topics) == len(self.topics) and len(kept) == len(self.clusters):
                raise _make_error(self.loaded, self.errors)
            self.invalid_clusters |= self.clusters.keys() - kept.keys()
            self.topics, self.clusters = topics, kept
            left_out |= documents
        if self.invalid_clusters and not {*self.clusters} - {""}:
            raise _make_error(self.loaded, self.errors)
        self.invalid = _add_errors([*self.loaded.invalid_parts, *left_out.values()], sorted(self.errors))
        self.errors = set()
        return desired


def _make_error(loaded: Loaded, errors: Iterable[Diagnostic], warnings: Sequence[Diagnostic] = ()) -> InvalidManifests:
    """Return an error of the loaded documents, with the number of errors beyond those that are shown."""
    return InvalidManifests([*errors], loaded.suppressed_count, warnings)


def _find_by_source(loaded: Loaded, errors: Iterable[Diagnostic]) -> Iterable[tuple[int, InvalidDocument]]:
    """Yield the documents that have the errors, with the identity of their sources."""
    found = find_documents(loaded.manifests, [error.location for error in errors])
    return ((id(manifest.source), document) for manifest, document in found)


def _add_errors(documents: Sequence[InvalidDocument], errors: Sequence[Diagnostic]) -> list[InvalidDocument]:
    """Return the documents with their errors; an error outside all documents gets one of its own.

    A document has no error if its file has more errors than are shown.
    """
    by_document: dict[int, list[Diagnostic]] = {index: [] for index in range(len(documents))}
    others: list[InvalidDocument] = []
    for error, index in zip(errors, match_documents(documents, (each.location for each in errors)), strict=True):
        if index is None:
            others.append(InvalidDocument(error.location, error.location.line, errors=(error,)))
        else:
            by_document[index].append(error)
    found = [documents[index]._replace(errors=tuple(many)) for index, many in by_document.items()]
    return sorted([*found, *others], key=lambda each: each.place)


class RunInputs(Struct, frozen=True):
    """The loaded manifests of a run: the desired state, and the plan filter that its policies define.

    ``invalid_documents`` were left out, and ``unassigned_topics`` are topics with an unknown cluster for that reason.
    ``foreign_count`` counts the documents of other API groups, which are ignored.
    """

    desired: Desired
    policy_filter: PlanFilter = keep_all
    limits: LimitFilter = NO_LIMITS
    exceptions: Sequence[DriftException] = ()
    severity_rules: Sequence[SeverityRule] = ()
    invalid_documents: Sequence[InvalidDocument] = ()
    unassigned_topics: frozenset[str] = frozenset()
    foreign_count: int = 0

    @classmethod
    def without_topics(cls, clusters: Mapping[str, ClusterSpec]) -> RunInputs:
        """Return the inputs of a run over clusters that declares no topic."""
        return cls(Desired(dict.fromkeys(clusters, ()), clusters))

    def filter_plan(self, plan: Plan, settings: RunSettings, approve: PlanFilter = keep_all) -> Plan:
        """Return the plan without changes that the run does not allow."""
        spec = self.desired.clusters[plan.cluster]

        def approve_within_limits(plan: Plan) -> Plan:
            # Before the budgets: what the run leaves for the next one costs nothing.
            return self.limits.enforce(limit_moves(approve(plan), settings.max_moves))

        filtered = apply_filters(
            plan,
            spec.budgets,
            observed=lambda each: _filter_by_usage(each, spec, settings),
            policies=self.policy_filter,
            approve=approve_within_limits,
            partial=settings.partial,
        )
        return self.limits.show_usage(filtered)


def _filter_by_usage(plan: Plan, spec: ClusterSpec, settings: RunSettings) -> Plan:
    """Return the plan without deletions of topics in use that the run does not allow, as ``filter_usage`` does."""
    if not plan.usage and not plan.deletes_topics:
        return plan
    from topiarist.deletion_guard import filter_usage  # not above: most plans need none of what it imports

    return filter_usage(plan, spec.evidence, settings.allows_in_use)


def load_manifests(
    settings: RunSettings,
    listener: RunListener = SILENT,
    *,
    offline: bool = False,
    with_policies: bool = True,
    skip_invalid: bool = False,
) -> RunInputs:
    """Return the specs of a run, and the plan filter of its policies: load the documents, resolve them, judge both.

    With ``offline``, no cluster is needed and no address is required. Policies are evaluated only ``with_policies``.
    With ``skip_invalid``, invalid documents are left out, and their errors are reported and returned.

    ``listener`` gets the warnings, and which documents and topics are ignored. Raises ``InvalidManifests`` with every
    error, or ``WrongSettings``.
    """
    if not settings.paths:
        raise WrongSettings(
            "give at least one file or folder with manifests, or - for standard input; or name them in topiarist.yaml"
        )
    documents = _load(settings, listener, offline=offline)
    loaded = documents.loaded
    exceptions, rules = _parse_drift_documents(documents)
    policies = [parse.parse_policy(each) for each in loaded.manifests if with_policies and each.kind == "Policy"]

    def resolve_documents() -> Desired:
        return resolve(
            documents.topics,
            documents.clusters,
            only_cluster=settings.cluster,
            require_cluster_documents=not offline or _has_all_clusters(settings, documents.clusters),
            invalid_clusters=documents.invalid_clusters,
            unchecked_parts="defaults and policies" if policies else "defaults",
        )

    if skip_invalid:
        require_addresses = not settings.snapshot and not offline
        desired = documents.leave_out_invalid(resolve_documents, settings.cluster, require_addresses=require_addresses)
        if left_out := [error for document in documents.invalid for error in document.errors]:
            listener.on_error(_make_error(loaded, left_out))
    else:
        desired = resolve_documents()
    result = _evaluate_policies(policies, desired, documents, validate_only=offline)
    limits = LimitFilter(policies, desired)  # all topics count, also those that the run does not select
    found = [*_judge(documents, desired, settings, offline=offline)]
    found += [*_at(_Level.ERROR, result.errors), *_at(_Level.WARNING, result.warnings)]
    found += _judge_limits(limits) if offline else ()
    if offline or skip_invalid:  # other commands read no drift documents
        found += _at(_Level.WARNING, _find_unmatched_clusters(documents))
    _report_foreign(loaded, listener)
    errors = {each for level, each in found if level is _Level.ERROR}
    warnings = sorted({each for level, each in found if level is _Level.WARNING})
    if not errors:
        _report_ignored_topics(desired, settings, listener)
    listener.on_warnings(warnings)
    if errors:
        raise _make_error(loaded, errors, warnings)
    desired = replace(desired, warnings=tuple(warnings))
    if settings.selection.text:
        desired = _select_topics(desired, settings, listener)
    return RunInputs(
        desired,
        result.plan_filter,
        limits,
        exceptions,
        rules,
        documents.invalid,
        documents.unassigned_topics if skip_invalid else frozenset(),
        len(loaded.foreign),
    )


class _Level(Enum):
    """The weight of a diagnostic of the inputs."""

    ERROR = "error"
    WARNING = "warning"


_Judged = tuple[_Level, Diagnostic]


def _at(level: _Level, diagnostics: Iterable[Diagnostic]) -> Iterator[_Judged]:
    return ((level, each) for each in diagnostics)


def _judge(documents: Documents, desired: Desired, settings: RunSettings, *, offline: bool) -> Iterator[_Judged]:
    """Yield what is wrong in the documents of a run, alone and together."""
    yield from _at(_Level.ERROR, (*documents.errors, *desired.errors))
    yield from _at(_Level.WARNING, desired.warnings)
    if not offline and not settings.snapshot:
        yield from _at(_Level.ERROR, _find_missing_addresses(desired.targeted_clusters))
    place = None
    is_read = not documents.loaded.invalid_documents and (settings.require_topics or not documents.errors)
    if is_read and not documents.topics:
        no_topic = _make_no_topic_warning(settings.paths)
        place = no_topic.location
        yield (_Level.ERROR if settings.require_topics else _Level.WARNING), no_topic
    yield from _at(_Level.WARNING, (each for each in documents.loaded.warnings if each.location != place))


def _judge_limits(limits: LimitFilter) -> Iterator[_Judged]:
    for each in limits.find_declared_excess():
        yield (_Level.ERROR if each.reason == Reason.LIMIT_EXCEEDED.value else _Level.WARNING), each


def _report_foreign(loaded: loader.Loaded, listener: RunListener) -> None:
    if loaded.foreign:
        listener.on_message(f"ignored {format_count(len(loaded.foreign), 'document')} of other API groups")
    for document in loaded.foreign:
        listener.on_detail(f"ignored {document}")


def _has_all_clusters(settings: RunSettings, clusters: Mapping[str, ClusterSpec]) -> bool:
    """Return whether the given files define all clusters: paths alone may be a commit that changes only a topic."""
    return bool(settings.platform or settings.clusters) and set(clusters) != {""}


def _report_ignored_topics(desired: Desired, settings: RunSettings, listener: RunListener) -> None:
    """Report topics that are ignored, and patterns of options that match none."""
    if desired.skipped_count:
        names = list_first([*filter(None, desired.clusters)]) or "this cluster"
        listener.on_message(f"ignored {format_count(desired.skipped_count, 'topic')} for clusters other than {names}")
    report_unmatched_patterns(desired.topics, settings, listener)


def _parse_drift_documents(documents: Documents) -> tuple[Sequence[DriftException], Sequence[SeverityRule]]:
    """Return the exceptions and the severity rules of drift reports, and add their errors to those of the documents."""
    manifests = [each for each in documents.loaded.manifests if each.kind in ("DriftException", "DriftPolicy")]
    if not manifests:
        return (), ()
    from topiarist.drift.exceptions import parse_exceptions
    from topiarist.drift.rules import parse_rules

    exceptions, exception_errors = parse_exceptions(manifests)
    rules, rule_errors = parse_rules(manifests, documents.clusters.values())
    documents.errors.update(exception_errors, rule_errors, duplicate_document_errors(manifests))
    return exceptions, rules


def _find_unmatched_clusters(documents: Documents) -> Iterator[Diagnostic]:
    """Yield a warning for each pattern or selector of clusters in a document of drift reports that matches no cluster.

    The labels of an invalid cluster are unknown, so no selector is warned of beside one.
    """
    names = [*documents.clusters, *documents.invalid_clusters]
    for manifest in documents.loaded.manifests:
        for path, patterns in _find_cluster_patterns(manifest):
            for index, pattern in enumerate(patterns):
                if not any(matches_any(name, (pattern,)) for name in names):
                    message = f"clusters: found {quote(pattern)}, which matches no Cluster document"
                    yield Diagnostic(manifest.source.locate((*path, index)), message, did_you_mean(pattern, names))
        rules = manifest.spec["rules"] if manifest.kind == "DriftPolicy" and not documents.invalid_clusters else ()
        for index, rule in enumerate(rules):
            wanted = rule.get("clusterSelector", {}).get("matchLabels", {})
            if not any(has_labels(cluster.labels, wanted) for cluster in documents.clusters.values()):
                place = manifest.source.locate(("spec", "rules", index, "clusterSelector"))
                yield Diagnostic(place, "clusterSelector: no Cluster has these labels, so the rule has no effect")


def _find_cluster_patterns(manifest: Manifest) -> Iterator[tuple[tuple[str | int, ...], Sequence[str]]]:
    """Yield each list of clusters in a document of drift reports, with its path."""
    if manifest.kind == "DriftException":
        yield ("spec", "clusters"), manifest.spec.get("clusters", ())
    if manifest.kind == "DriftPolicy":
        for index, rule in enumerate(manifest.spec["rules"]):
            yield ("spec", "rules", index, "clusters"), rule.get("clusters", ())


def _evaluate_policies(
    policies: Sequence[Policy], desired: Desired, documents: Documents, *, validate_only: bool
) -> PolicyResult:
    if not policies:
        return PolicyResult()
    # A run without policies needs none of this; importing the CEL library takes 40 ms.
    from topiarist.adapters import cel
    from topiarist.filters.policies import PolicyEvaluator, evaluate_policies

    rule_evaluator = cel.CelRuleEvaluator(rule for policy in policies for rule in policy.rules)
    return evaluate_policies(
        desired,
        policies,
        documents.clusters,
        PolicyEvaluator(policies, loader.read_annotations, rule_evaluator),
        validate_only=validate_only,
        invalid_clusters=documents.invalid_clusters,
    )


def _make_no_topic_warning(paths: Sequence[str]) -> Diagnostic:
    """Return the warning about a run without any topic, at the first of its paths."""
    where = "here" if len(paths) == 1 else f"in {format_count(len(paths), 'path')}"
    hint = f"wanted documents of apiVersion {load_.API_VERSION} and kind Topic, in a folder in *.yaml or *.yml"
    return Diagnostic(files.file_location(paths[0]), f"found no Topic {where}: there is nothing to do", hint)


def load_clusters(settings: RunSettings, listener: RunListener = SILENT) -> Mapping[str, ClusterSpec]:
    """Return the clusters of a run without topics, by name: from the paths, or from an address option.

    Topics in the paths are ignored. Raises ``InvalidManifests`` with every error, or ``WrongSettings``.
    """
    documents = _load(settings, listener, offline=False)
    clusters = documents.clusters
    chosen = clusters if settings.cluster is None else {settings.cluster: clusters[settings.cluster]}
    missing_addresses = () if settings.snapshot else _find_missing_addresses(chosen)
    listener.on_warnings(documents.loaded.warnings)
    if errors := {*documents.errors, *missing_addresses}:
        raise _make_error(documents.loaded, errors)
    return chosen


def load_if_given(settings: RunSettings, listener: RunListener, *, with_policies: bool = True) -> RunInputs:
    """Return the specs of a run's manifests; without manifests, no specs for every cluster of the run.

    See ``load_manifests`` for ``with_policies``. Invalid documents are left out: the caller ends with exit code 1.
    ``listener`` gets nothing else about manifests of topics: warnings about a whole folder do not concern a command
    that only shows.
    """
    if not settings.paths:
        return RunInputs.without_topics(load_clusters(settings, listener))
    return load_manifests(settings, _ErrorListener(listener), with_policies=with_policies, skip_invalid=True)


class _ErrorListener(RunListener):
    """A listener that passes on only the errors."""

    def __init__(self, listener: RunListener) -> None:
        self.owns_process = listener.owns_process
        self._listener = listener

    def on_error(self, error: TopiaristError, cluster: str = "") -> None:
        self._listener.on_error(error, cluster)


def require_addresses(clusters: Mapping[str, ClusterSpec], settings: RunSettings) -> None:
    """Raise ``InvalidManifests`` with an error for each cluster without an address in its document."""
    if not settings.snapshot and (found := list(_find_missing_addresses(clusters))):
        raise InvalidManifests(found)


def _load(settings: RunSettings, listener: RunListener, *, offline: bool) -> Documents:
    """Return the documents of the paths, and the clusters of the run."""
    paths = (*settings.paths, *settings.clusters)
    stdin = sys.stdin.buffer if listener.owns_process and "-" in paths else None
    loaded = loader.load_manifests(paths, stdin, may_fork=listener.owns_process)
    loaded = load_with_platform(loaded, settings, listener)
    try:
        clusters, errors = _build_clusters(loaded.manifests, settings, offline)
    except WrongSettings:
        # The missing Cluster may be one of the invalid documents: report their errors first.
        if loaded.errors:
            raise _make_error(loaded, loaded.errors) from None
        raise
    return Documents.of(loaded, clusters, errors)


def _find_missing_addresses(clusters: Mapping[str, ClusterSpec]) -> Iterator[Diagnostic]:
    """Yield an error for each cluster without an address in its document."""
    by_kafka = "kafka: {bootstrapServers: host1:9092,host2:9092}", "--bootstrap-servers"
    by_zookeeper = "zookeeper: {connect: host1:2181,host2:2181/chroot}", "--zookeeper"
    for name, cluster in clusters.items():
        if (cluster.access and cluster.access.servers) or cluster.source is None:
            continue
        via = cluster.via or (Via.KAFKA if cluster.kafka else Via.ZOOKEEPER if cluster.zookeeper else None)
        fields = ["spec.kafka.bootstrapServers"] if via is not Via.ZOOKEEPER else []
        fields += ["spec.zookeeper.connect"] if via is not Via.KAFKA else []
        section, option = by_zookeeper if via is Via.ZOOKEEPER else by_kafka
        yield Diagnostic(
            cluster.source.locate(("metadata", "name")),
            f"Cluster {name}: found no {' and no '.join(fields)}, wanted its address",
            f"add {section}, or give {option}",
        )


def _with_address(spec: ClusterSpec, settings: RunSettings) -> ClusterSpec:
    """Return a cluster with the address of the run in place of its own; logins and TLS of that section are kept."""
    if settings.zookeeper:
        zookeeper = replace(spec.zookeeper or ZooKeeperAccess(), connect=settings.zookeeper)
        return replace(spec, zookeeper=zookeeper, via=Via.ZOOKEEPER)
    servers = settings.bootstrap_servers
    kafka = replace(spec.kafka, bootstrap_servers=servers) if spec.kafka else KafkaAccess(servers)
    return replace(spec, kafka=kafka, via=Via.KAFKA)


def _build_clusters(
    manifests: Sequence[Manifest], settings: RunSettings, offline: bool
) -> tuple[Mapping[str, ClusterSpec], Sequence[Diagnostic]]:
    """Return the clusters of the run by name, with the values of flags applied, and their errors.

    Raises ``WrongSettings`` if there is no cluster, if ``--cluster`` is not one of them, if an address is given for
    several, or a version that a cluster in ZooKeeper mode cannot have.
    """
    documents = [parse.parse_cluster_spec(manifest) for manifest in manifests if manifest.kind == "Cluster"]
    clusters, errors = index_clusters(documents)
    if settings.address_option and len(clusters) > 1:
        names = list_first(sorted(clusters))
        raise WrongSettings(f"{settings.address_option} is for a single cluster, found {len(clusters)}: {names}")
    if not clusters:
        if not settings.address_option and not settings.snapshot and not offline:
            raise WrongSettings(
                "found no cluster: add a Cluster document, or give --clusters, --bootstrap-servers or --zookeeper"
            )
        clusters = {"": ClusterSpec()}
    if settings.address_option:
        clusters = {name: _with_address(spec, settings) for name, spec in clusters.items()}
    if version := settings.kafka_version:
        if version > LAST_ZOOKEEPER_VERSION and any(
            isinstance(spec.access, ZooKeeperAccess) for spec in clusters.values()
        ):
            found, last = format_version(version), format_version(LAST_ZOOKEEPER_VERSION)
            raise WrongSettings(f"--kafka-version: found {found}, but ZooKeeper mode ends with Kafka {last}")
        clusters = {name: replace(spec, version=version) for name, spec in clusters.items()}
    if settings.throttle is not None:
        clusters = {
            name: replace(spec, moves=replace(spec.moves, throttle=settings.throttle))
            for name, spec in clusters.items()
        }
    if settings.cluster is not None and settings.cluster not in clusters:
        hint = unknown_cluster_hint(settings.cluster, clusters)
        raise WrongSettings(f"--cluster {settings.cluster}: there is no such Cluster; {hint}")
    return clusters, errors


def _select_topics(desired: Desired, settings: RunSettings, listener: RunListener) -> Desired:
    """Return the specs that the run selects, and report their number."""
    selection = settings.selection
    specs = {cluster: select_with_groups(selection, specs) for cluster, specs in desired.specs.items()}
    unselected = {
        cluster: frozenset(spec.topic for spec in all_specs).difference(spec.topic for spec in specs[cluster])
        for cluster, all_specs in desired.specs.items()
    }
    selected = len({spec.topic for each in specs.values() for spec in each})
    listener.on_message(f"{selection.text}: selected {selected:,} of {format_count(desired.validated_count, 'topic')}")
    if joined := {spec.topic for each in specs.values() for spec in each if not selection.matches(spec)}:
        listener.on_message(f"selected as well, because of their coPartitionGroup: {', '.join(sorted(joined))}")
    return replace(desired, specs=specs, unselected=unselected)


def report_unmatched_patterns(
    topics: Iterable[str], settings: RunSettings, listener: RunListener, source: str = "the manifests"
) -> None:
    """Report the topic patterns of options that match none of the ``topics`` of ``source``.

    Such a value was probably meant for another option and must not be lost.
    """
    given = {
        "--adopt": settings.adopt,
        "--take-ownership": settings.take_ownership,
        "--recreate": settings.recreate,
        "--topic": settings.topic,
        "--allow-in-use": settings.allow_in_use,
        "--allow-risk": [pattern for allowance in settings.allow_risk for pattern in allowance.topic_patterns],
    }
    if not any(pattern not in ALL_TOPICS for patterns in given.values() for pattern in patterns):
        return  # nearly always: the specs of a large fleet are millions, and each is made when it is asked for
    names = set(topics)
    for option, patterns in given.items():
        for pattern in dict.fromkeys(patterns):
            if pattern not in ALL_TOPICS and not any(matches_any(name, (pattern,)) for name in names):
                listener.on_message(f"{option}: no topic of {source} matches {pattern}")


def load_with_platform(loaded: loader.Loaded, settings: RunSettings, listener: RunListener = SILENT) -> loader.Loaded:
    """Return ``loaded`` combined with the documents of ``--platform``.

    Returns ``loaded`` itself if ``--platform`` is not given. Raises ``WrongSettings`` if its paths hold
    neither a ``Cluster`` nor a ``Policy``: then nothing would restrict the run.
    """
    if not settings.platform:
        return loaded
    if settings.clusters:
        raise WrongSettings("--clusters cannot be combined with --platform: give its files with --platform")
    platform = loader.load_manifests(settings.platform)
    platform_documents = [manifest for manifest in platform.manifests if manifest.kind != "Topic"]
    restricts = any(manifest.kind in ("Cluster", "Policy") for manifest in platform_documents)
    if not restricts and not platform.errors:
        raise WrongSettings("--platform: found no Cluster and no Policy: nothing would restrict this run")
    _report_ignored_documents(loaded.manifests, platform_documents, listener)
    return loader.Loaded(
        manifests=(*(manifest for manifest in loaded.manifests if manifest.kind == "Topic"), *platform_documents),
        errors=tuple(sorted({*loaded.errors, *platform.errors})),
        suppressed_count=loaded.suppressed_count + platform.suppressed_count,
        foreign=(*loaded.foreign, *platform.foreign),
        file_count=loaded.file_count + platform.file_count,
        invalid_documents=loaded.invalid_documents | platform.invalid_documents,
        warnings=tuple(sorted({*loaded.warnings, *platform.warnings})),
        invalid_parts=(*loaded.invalid_parts, *platform.invalid_parts),
        has_unread_files=loaded.has_unread_files or platform.has_unread_files,
    )


_MAX_SHOWN_DOCUMENTS = 3


def _report_ignored_documents(
    manifests: Sequence[Manifest], platform: Sequence[Manifest], listener: RunListener
) -> None:
    """Report the clusters and policies outside ``--platform``, which have no effect.

    A file that both groups of paths contain belongs to the platform.
    """
    platform_files = {os.path.realpath(manifest.source.locate().file) for manifest in platform}
    ignored = [
        manifest
        for manifest in manifests
        if manifest.kind != "Topic" and os.path.realpath(manifest.source.locate().file) not in platform_files
    ]
    if ignored:
        shown = [f"{each.kind} {each.name} ({each.source.locate()})" for each in ignored]
        listed = list_first(shown, _MAX_SHOWN_DOCUMENTS)
        listener.on_message(f"ignored {format_count(len(ignored), 'document')} outside --platform: {listed}")
