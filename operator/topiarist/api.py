"""The Python interface: load manifests, read clusters, plan, apply, with the guards of the commands.

A run is described by ``RunSettings``, which has the options of ``topiarist apply`` under the same names. Every function
uses ``topiarist.runs``, as the command line does. Nothing here prints, logs, reads the environment, handles signals or
ends the process; every error is a ``TopiaristError`` with a reason, a message and a hint. docs/python.md has examples.

``runs.modes`` has the guards and the writes, as for the command line with ``--yes``; no person is asked, so risky
changes need approvals.

Only the names in ``__all__`` are public. They keep their meaning as long as ``PLAN_FORMAT_VERSION`` is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from topiarist.adapters.saved_plans.decode import parse_plan_file
from topiarist.adapters.saved_plans.encode import FORMAT_VERSION as PLAN_FORMAT_VERSION
from topiarist.adapters.saved_plans.encode import dumps, encode_plans
from topiarist.errors import Diagnostic, Exit, InvalidManifests, Location, Reason, TopiaristError
from topiarist.kafka.types import Broker
from topiarist.model.moves import LeaderChange, ReplicaMove
from topiarist.model.outcome import Outcome, ReconcileReport, Result, worst_exit_code
from topiarist.model.plan import (
    AddPartitions,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    Issue,
    MoveReplicas,
    Plan,
    Risk,
    RiskApproval,
    RiskAssessment,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.state import ClusterState, OwnershipRecord, TopicState
from topiarist.output.html import plan as html
from topiarist.output.markdown import plan as markdown
from topiarist.output.text import plan as text
from topiarist.output.text.layout import TextLayout
from topiarist.output.view import encode_error, encode_fields
from topiarist.runs import inputs, modes
from topiarist.runs.modes import ApplyManifests, ApplyReviewed, ApplySavedPlan, PlanFile, wait_for_controllers
from topiarist.runs.sessions import ClusterSessions
from topiarist.runs.settings import SILENT, RunListener, RunSettings, check_settings, parse_risk_approval

__all__ = [
    "PLAN_FORMAT_VERSION",
    "AddPartitions",
    "ApplyResult",
    "Broker",
    "ClusterState",
    "ClusterStates",
    "ConfigItem",
    "CreateTopic",
    "DeleteTopic",
    "Diagnostic",
    "ElectLeaders",
    "Exit",
    "InvalidManifests",
    "Issue",
    "LeaderChange",
    "Location",
    "Manifests",
    "MoveReplicas",
    "Outcome",
    "OwnershipRecord",
    "Plan",
    "Plans",
    "Reason",
    "ReconcileReport",
    "ReplicaMove",
    "Result",
    "Risk",
    "RiskApproval",
    "RiskAssessment",
    "RunListener",
    "RunSettings",
    "TakeOwnership",
    "TopiaristError",
    "TopicPlan",
    "TopicState",
    "UpdateConfig",
    "apply_manifests",
    "apply_plans",
    "approve_risk",
    "load_manifests",
    "make_plans",
    "parse_plans",
    "read_clusters",
]


class Manifests(Struct, frozen=True):
    """Valid manifests: the names of the topics of each cluster, sorted, and the warnings about the documents.

    The name of the cluster of an address without a Cluster document is empty.
    """

    topics: Mapping[str, tuple[str, ...]]
    warnings: tuple[Diagnostic, ...]


def load_manifests(settings: RunSettings, listener: RunListener = SILENT) -> Manifests:
    """Load and check the manifests of a run as ``topiarist validate`` does: together, without any cluster.

    Raises ``InvalidManifests`` with every error, or ``TopiaristError``.
    """
    check_settings(settings, needs_paths=True)
    desired = inputs.load_manifests(settings, listener, offline=True).desired
    return Manifests(
        {name: tuple(spec.topic for spec in desired.specs[name]) for name in sorted(desired.clusters)},
        tuple(desired.warnings),
    )


class ClusterStates(Struct, frozen=True):
    """The states of clusters by name, and the error of each cluster that could not be read."""

    states: Mapping[str, ClusterState]
    errors: Mapping[str, TopiaristError]


def read_clusters(settings: RunSettings, listener: RunListener = SILENT) -> ClusterStates:
    """Read the clusters of a run, or their snapshots; write nothing.

    The clusters are those of the Cluster documents in the paths, or that of the address. Topics are not read.

    Raises ``InvalidManifests`` with every error of the documents, or ``TopiaristError``. The error of one cluster is in
    the result.
    """
    check_settings(settings)
    specs = inputs.load_clusters(settings, listener)
    with ClusterSessions(specs, settings, listener, keep_open=False) as sessions:
        states = sessions.map_clusters(sessions.read)
    return ClusterStates(states, dict(sessions.errors))


class Plans(Struct, frozen=True):
    """The plans of a run, in order of the names of their clusters.

    ``errors`` has the error of each cluster that could not be planned, by name. It is empty unless ``make_plans`` was
    told to keep going.
    """

    plans: tuple[Plan, ...]
    errors: Mapping[str, TopiaristError] = field(default_factory=dict)

    @property
    def has_changes(self) -> bool:
        """Return whether applying the plans would write anything."""
        return any(plan.has_changes for plan in self.plans)

    @property
    def has_refusals(self) -> bool:
        """Return whether anything was refused."""
        return any(plan.has_refusals for plan in self.plans)

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 of the plans, in hex; equal plans have equal fingerprints."""
        return str(self._encode()["fingerprint"])

    def to_json(self) -> str:
        """Return the content of a plan file: ASCII text for ``apply_plans``, ``parse_plans`` and ``apply --plan``."""
        return dumps(self._encode())

    def _encode(self) -> dict[str, Any]:
        return encode_plans(self.plans, {name: error.reason for name, error in self.errors.items()})

    def to_text(self) -> str:
        """Return the plans as ``topiarist plan`` prints them, in 80 columns, without color."""
        return text.format_plans(self.plans, TextLayout())

    def to_html(self, root: str) -> str:
        """Return the plans as one HTML page; file locations are relative to the folder ``root``."""
        return html.format_plans(self.plans, sorted(self.errors), root)

    def to_markdown(self, root: str) -> str:
        """Return the comment of a pull request; file locations are relative to the folder ``root``."""
        return markdown.format_plans(self.plans, sorted(self.errors), root)


def make_plans(settings: RunSettings, listener: RunListener = SILENT, *, keep_going: bool = False) -> Plans:
    """Plan the manifests of a run on their clusters, or on snapshots, without the changes that the run may not make.

    Policies are evaluated, and budgets and refusals count, as in ``topiarist plan``. Nothing is written.

    Raises ``InvalidManifests`` with every error of the manifests, or ``TopiaristError``. The error of one cluster is
    raised too, after all clusters were read; if ``keep_going``, it is in the result, with the plans of the others.
    """
    check_settings(settings, needs_paths=True)
    run = inputs.load_manifests(settings, listener)
    with ClusterSessions(run.desired.targeted_clusters, settings, listener, keep_open=False) as sessions:
        found = sessions.read_and_plan(run.desired, settings.run_options)
        plans = tuple(run.filter_plan(plan, settings) for plan in found)
    if sessions.failures and not keep_going:
        raise sessions.failures[0][1]
    return Plans(plans, dict(sessions.errors))


def parse_plans(content: str | bytes, name: str = "the plan") -> Plans:
    """Return the plans in JSON of ``Plans.to_json``; ``name`` is for messages.

    Raises ``TopiaristError``: ``NotAPlan``, ``PlanTooNew`` or ``PlanEdited``, also for a changed byte.
    """
    plans, unplanned, _ = parse_plan_file(to_bytes(content), name)
    return Plans(plans, {each: TopiaristError(reason, "could not be planned") for each, reason in unplanned.items()})


def to_bytes(content: str | bytes) -> bytes:
    """Return the content of a plan file as bytes; what is no ASCII text is no plan, and is refused as one."""
    return content.encode(errors="surrogatepass") if isinstance(content, str) else content


def approve_risk(risk: Risk, topics: Sequence[str]) -> RiskApproval:
    """Return the approval of a risk for the named topics, for ``RunSettings.allow_risk``; ``["*"]`` is for all topics.

    Raises ``TopiaristError`` (WrongUsage) without topics, and for a name that no topic can have.
    """
    if isinstance(topics, str) or not topics:
        raise TopiaristError(Reason.WRONG_USAGE, f"found topics {topics!r}, wanted a list of names, or ['*'] for all")
    try:
        return parse_risk_approval(risk.label if [*topics] == ["*"] else f"{risk.label}={','.join(topics)}")
    except (AttributeError, TypeError, ValueError) as error:
        raise TopiaristError(Reason.WRONG_USAGE, f"approval of a risk: {error}") from None


class ApplyResult(Struct, frozen=True):
    """The outcome of an apply: a report for each planned cluster, in order of name.

    ``errors`` has the error of each cluster that could not be read or planned, by name. ``remarks`` are facts that the
    reports do not show, such as topics that needed no change any more. ``exit_code`` is that of ``topiarist apply``.
    """

    reports: tuple[ReconcileReport, ...]
    errors: Mapping[str, TopiaristError]
    remarks: tuple[str, ...]
    exit_code: Exit

    def require_done(self) -> None:
        """Raise the most important ``TopiaristError`` unless everything that was asked for is done.

        That is the error of a cluster, else a topic that failed, conflicted or was refused; the message counts them.
        """
        for error in (*self.errors.values(), *(report.error for report in self.reports)):
            if error:
                raise error
        if problems := self._find_problems():
            reason, message, hint = max(problems, key=lambda problem: _IMPORTANCE[problem[0].exit_code])
            more = f" (and {len(problems) - 1:,} more)" if len(problems) > 1 else ""
            raise TopiaristError(reason, f"{message}{more}", hint or "the reports of the result have the details")

    def _find_problems(self) -> list[tuple[Reason, str, str]]:
        """Return reason, message and hint of each topic that is not done."""
        found = []
        for report in self.reports:
            label = f"cluster {report.plan.cluster}: " if report.plan.cluster else ""
            for outcome in report.outcomes:
                if outcome.result not in (Result.DONE, Result.UNCHANGED):
                    reason = outcome.reason or Reason.NOT_SENT
                    text = f"{label}{outcome.topic}: {outcome.result.value}: {outcome.message or reason.value}"
                    found.append((reason, text, ""))
            for topic in report.plan.topics:
                for each in () if topic.observe_only else topic.refusals:
                    found.append((each.reason, f"{label}{topic.topic}: refused: {each.message}", each.hint))
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values, to pass on as JSON: exit code, outcomes, refusals, errors, remarks."""
        clusters = []
        for report in self.reports:
            outcomes = [encode_fields(each, "topic", "result", "reason", "message") for each in report.outcomes]
            refusals = [
                {"topic": topic.topic, **encode_fields(each, "reason", "message", "hint")}
                for topic in report.plan.topics
                if not topic.observe_only
                for each in topic.refusals
            ]
            name, error = report.plan.cluster, encode_error(report.error)
            clusters.append({"name": name, "outcomes": outcomes, "refusals": refusals, "error": error})
        return {
            "exitCode": int(self.exit_code),
            "clusters": clusters,
            "errors": {name: encode_error(error) for name, error in self.errors.items()},
            "remarks": list(self.remarks),
        }


_IMPORTANCE = {Exit.ERROR: 3, Exit.CONFLICT: 2, Exit.REFUSED: 1, Exit.USAGE: 0, Exit.CHANGES: 0, Exit.DONE: 0}


def _never() -> bool:
    return False


def apply_plans(
    settings: RunSettings, plans: Plans | str | bytes, listener: RunListener = SILENT, stop: Callable[[], bool] = _never
) -> ApplyResult:
    """Apply plans as they were made, as ``topiarist apply --plan`` does, and read no manifest of a topic.

    ``plans`` is the JSON of ``Plans.to_json``, or the value itself. ``settings`` has the Cluster documents or the
    address, and neither paths nor settings of planning. A changed byte, another owner or another cluster is an error.
    Each cluster is read again: what is done already is left alone, and after the first topic that has changed since
    nothing more is sent, unless ``partial``. Changes that may lose data need ``allow_risk``, as for manifests.

    ``stop`` returns whether to send nothing more. Raises ``TopiaristError`` before anything is sent; errors and
    refusals of single clusters and topics are in the result.
    """
    _check_for_apply(settings, needs_paths=False)
    if settings.paths or settings.selection.text:
        raise TopiaristError(Reason.WRONG_USAGE, "a plan is applied as saved: found paths, or a selection of topics")
    content = plans.to_json() if isinstance(plans, Plans) else plans
    mode = ApplySavedPlan(settings, PlanFile(to_bytes(content), "the plan"), listener, non_interactive=True)
    return _apply(mode, settings, listener, stop)


def apply_manifests(
    settings: RunSettings,
    listener: RunListener = SILENT,
    stop: Callable[[], bool] = _never,
    *,
    reviewed: Plans | str | bytes | None = None,
) -> ApplyResult:
    """Plan the manifests of a run and apply the plans, as ``topiarist apply --yes`` does.

    Changes that may lose data need ``allow_risk``. With ``reviewed``, the plans of a review, only changes that the
    review has too are applied.

    ``stop`` returns whether to send nothing more. Raises ``TopiaristError`` before anything is sent; errors and
    refusals of single clusters and topics are in the result.
    """
    _check_for_apply(settings, needs_paths=True)
    run = inputs.load_manifests(settings, listener)
    if reviewed is None:
        return _apply(ApplyManifests(settings, run, non_interactive=True), settings, listener, stop)
    content = reviewed.to_json() if isinstance(reviewed, Plans) else reviewed
    file = PlanFile(to_bytes(content), "the reviewed plan")
    return _apply(ApplyReviewed(settings, run, file, non_interactive=True), settings, listener, stop)


def _check_for_apply(settings: RunSettings, *, needs_paths: bool) -> None:
    check_settings(settings, needs_paths=needs_paths)
    if settings.snapshot or settings.ask_brokers:
        name = "snapshot" if settings.snapshot else "ask_brokers"
        raise TopiaristError(
            Reason.WRONG_USAGE, f"found {name}, which is for plans alone: a run writes to its clusters"
        )


def _apply(mode: ApplyManifests, settings: RunSettings, listener: RunListener, stop: Callable[[], bool]) -> ApplyResult:
    with ClusterSessions(mode.clusters, settings, listener) as sessions:
        plans = mode.make_plans(sessions)
        applied = modes.apply_plans(sessions, plans, settings, listener, stop, apply_one=mode.apply_plan)
        reports = applied.reports
        if settings.wait:
            reports = wait_for_controllers(applied.waits, reports, settings, stop, listener)
    code = worst_exit_code((sessions.error_code, *(report.exit_code for report in reports)))
    return ApplyResult(tuple(reports), dict(sessions.failures), tuple(mode.remarks), code)
