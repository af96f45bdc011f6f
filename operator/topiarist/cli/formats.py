"""The output formats of all commands: one table for each kind of result, by the name of the format.

A new format is one module of ``output`` and one row here: each command takes its ``--format`` from a table, and an
unknown one is a usage error. A format of ``plan`` or ``validate`` is also a value of ``format`` in
``schemas/project.json``; ``make generate`` then writes the pages. Renderers are imported when they are used, to keep
the start of a command fast.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from topiarist.cli import terminal
from topiarist.cli.terminal import Settings
from topiarist.errors import Diagnostic, InvalidManifests, TopiaristError

if TYPE_CHECKING:
    from topiarist.desired.resolve import Desired
    from topiarist.inspection.check import ClusterCheck, UpgradeReport
    from topiarist.inspection.describe import Description, Explanation
    from topiarist.inspection.list import TopicList
    from topiarist.inspection.moves import MoveStatus
    from topiarist.kafka.types import KafkaVersion
    from topiarist.model.plan import Plan
    from topiarist.output.text.layout import TextLayout


class Shown(NamedTuple):
    """The plans of a run, and the error of each cluster that could not be planned, by name.

    ``foreign_count`` documents are of other tools.
    """

    plans: Sequence[Plan]
    settings: Settings
    errors: Mapping[str, TopiaristError] = {}
    applying: bool = False
    foreign_count: int = 0

    @property
    def failed_clusters(self) -> list[str]:
        """Return the names of the clusters that could not be planned."""
        return sorted(self.errors)


class Errors(NamedTuple):
    """The errors and warnings of manifests, and the number of errors that were left out."""

    errors: Sequence[Diagnostic]
    warnings: Sequence[Diagnostic] = ()
    suppressed_count: int = 0


def _plans_as_text(shown: Shown) -> str:
    """Return one line for each topic with ``-q``, and one for each plan with ``--summary``."""
    from topiarist.output.text import plan

    layout = _layout(shown.settings)
    if shown.settings.summary:
        return plan.format_summaries(shown.plans, layout, applying=shown.applying)
    if shown.settings.verbosity < 0:
        return plan.format_topic_lines(shown.plans, layout, applying=shown.applying)
    return plan.format_plans(shown.plans, layout, applying=shown.applying)


def _plans_as_json(shown: Shown) -> str:
    """Return the plan file; nothing if no cluster could be planned."""
    return encode_plan_file(shown.plans, shown.errors) if shown.plans or not shown.errors else ""


def encode_plan_file(plans: Sequence[Plan], errors: Mapping[str, TopiaristError]) -> str:
    """Return the content of a plan file; ``errors`` has the error of each cluster without a plan, by name."""
    from topiarist.adapters.saved_plans.encode import encode_plans

    return _dumps(encode_plans(plans, {name: error.reason for name, error in errors.items()}))


def _plans_as_markdown(shown: Shown) -> str:
    from topiarist.output.markdown import plan

    return plan.format_plans(shown.plans, shown.failed_clusters, _root(), shown.foreign_count)


def _plans_for_github(shown: Shown) -> str:
    from topiarist.output import ci

    return ci.format_plans(shown.plans, shown.failed_clusters, _root())


def _plans_as_page(shown: Shown) -> str:
    from topiarist.output.html import plan

    return plan.format_plans(shown.plans, shown.failed_clusters, _root())


def _plans_as_junit(shown: Shown) -> str:
    from topiarist.output.ci import plans_to_junit

    return plans_to_junit(shown.plans, shown.failed_clusters, _root())


PLAN_FORMATS: Mapping[str, Callable[[Shown], str]] = {
    "text": _plans_as_text,
    "json": _plans_as_json,
    "markdown": _plans_as_markdown,
    "github": _plans_for_github,
    "html": _plans_as_page,
    "junit": _plans_as_junit,
}
"""The formats of ``plan`` by name."""


class Rendered(NamedTuple):
    """The topics of all clusters, with the label of the responsible team and the path of ``CODEOWNERS``, or empty."""

    desired: Desired
    owner_label: str = ""
    codeowners: str = ""


def _specs_as_manifests(rendered: Rendered) -> list[dict[str, Any]]:
    from topiarist.desired.export import render_document

    return [render_document(spec) for specs in rendered.desired.specs.values() for spec in specs]


def _specs_as_backstage(rendered: Rendered) -> list[dict[str, Any]]:
    """Return an entity for each topic that is not to be absent.

    Raises ``InvalidManifests`` with each topic that has no owner.
    """
    from topiarist.adapters.manifests.loader import read_annotations
    from topiarist.desired import export
    from topiarist.drift.rows import RowCompleter, RowOptions
    from topiarist.drift.rules import load_codeowners

    desired, label, file = rendered
    codeowners = load_codeowners(file) if file else None
    for line in codeowners.ignored if codeowners else ():
        terminal.log(line)
    teams = RowCompleter(desired, RowOptions(owner_label=label, codeowners=codeowners))
    specs = [spec for found in desired.specs.values() for spec in found if not spec.absent]
    owners, errors = dict[str, str](), list[Diagnostic]()
    for spec in specs:
        try:
            owners[export.entity_key(spec)] = export.to_owner_reference(teams.find_responsible(spec))
        except ValueError as error:
            errors.append(Diagnostic(spec.manifest.source.locate(), f"{spec.topic}: {error}", _HINT_OWNER))
    if errors:
        raise InvalidManifests(errors)
    return export.build_entities(
        specs, owners, lambda spec: read_annotations(spec.manifest).get(export.DESCRIPTION_ANNOTATION, "")
    )


_HINT_OWNER = (
    "an entity of Backstage needs an owner: add the label of --owner-label, or a line to the file of --codeowners"
)

RENDER_FORMATS: Mapping[str, Callable[[Rendered], list[dict[str, Any]]]] = {
    "text": _specs_as_manifests,
    "backstage": _specs_as_backstage,
}
"""The formats of ``render`` by name: the documents that are printed as YAML."""


def _errors_as_json(found: Errors) -> str:
    from topiarist.output import ci

    return ci.to_json(found.errors, found.warnings, suppressed_count=found.suppressed_count)


def _errors_as_markdown(found: Errors) -> str:
    from topiarist.output.markdown import plan

    return plan.format_diagnostics(found.errors, found.suppressed_count, _root())


def _errors_for_github(found: Errors) -> str:
    from topiarist.output import ci

    return ci.format_diagnostics(found.errors, found.warnings, found.suppressed_count, _root())


def _errors_as_sarif(found: Errors) -> str:
    from topiarist.output.ci import to_sarif

    return to_sarif(found.errors, found.warnings, suppressed_count=found.suppressed_count, root=_root())


def _errors_as_junit(found: Errors) -> str:
    from topiarist.output.ci import diagnostics_to_junit

    return diagnostics_to_junit(found.errors, found.warnings, found.suppressed_count, _root())


DIAGNOSTIC_FORMATS: Mapping[str, Callable[[Errors], str]] = {
    "json": _errors_as_json,
    "markdown": _errors_as_markdown,
    "github": _errors_for_github,
    "sarif": _errors_as_sarif,
    "junit": _errors_as_junit,
}
"""The formats of ``validate`` by name; as text, errors go to stderr."""

COMMENT_FORMATS = ("markdown", "github", "junit")
"""The formats in which ``plan`` prints errors of manifests to stdout too, because reviewers do not see stderr."""


def format_plans(plans: Sequence[Plan], settings: Settings, form: str = "text", **more: Any) -> str:
    """Return the plans of a run in one of ``PLAN_FORMATS``; ``more`` are fields of ``Shown``."""
    return PLAN_FORMATS[form](Shown(plans, settings, **more))


def format_diagnostics(form: str, *found: Any) -> str:
    """Return errors in one of ``DIAGNOSTIC_FORMATS``; ``found`` are the fields of ``Errors``."""
    return DIAGNOSTIC_FORMATS[form](Errors(*found))


def _descriptions_as_text(_query: str, descriptions: Sequence[Description], settings: Settings) -> str:
    from topiarist.output.describe import format_descriptions

    return format_descriptions(descriptions, _layout(settings))


def _descriptions_as_json(query: str, descriptions: Sequence[Description], _settings: Settings) -> str:
    from topiarist.output.describe import encode_descriptions

    return _dumps(encode_descriptions(query, descriptions))


DESCRIPTION_FORMATS = {"text": _descriptions_as_text, "json": _descriptions_as_json}
"""The formats of ``describe`` by name."""


def _lists_as_text(listings: Sequence[TopicList], settings: Settings) -> str:
    from topiarist.output.list import format_lists

    return format_lists(listings, _layout(settings))


def _lists_as_json(listings: Sequence[TopicList], _settings: Settings) -> str:
    from topiarist.output.list import encode_lists

    return _dumps(encode_lists(listings))


LIST_FORMATS = {"text": _lists_as_text, "json": _lists_as_json}
"""The formats of ``list`` by name."""


def _checks_as_text(checks: Sequence[ClusterCheck], settings: Settings) -> str:
    from topiarist.output.list import format_checks

    return format_checks(checks, _layout(settings))


def _checks_as_json(checks: Sequence[ClusterCheck], _settings: Settings) -> str:
    from topiarist.output.list import encode_checks

    return _dumps(encode_checks(checks))


CHECK_FORMATS = {"text": _checks_as_text, "json": _checks_as_json}
"""The formats of ``check`` by name."""


def _moves_as_text(statuses: Sequence[MoveStatus], settings: Settings) -> str:
    from topiarist.output.moves import format_statuses

    return format_statuses(statuses, time.time_ns() // 1_000_000, _layout(settings))


def _moves_as_json(statuses: Sequence[MoveStatus], _settings: Settings) -> str:
    from topiarist.output.moves import encode_statuses

    return _dumps(encode_statuses(statuses))


MOVES_FORMATS = {"text": _moves_as_text, "json": _moves_as_json}
"""The formats of ``moves`` by name."""


def _upgrades_as_text(reports: Sequence[UpgradeReport], _target: KafkaVersion, settings: Settings) -> str:
    from topiarist.output.list import format_reports

    return format_reports(reports, _layout(settings), show_all=settings.verbosity > 0)


def _upgrades_as_json(reports: Sequence[UpgradeReport], target: KafkaVersion, _settings: Settings) -> str:
    from topiarist.output.list import encode_reports

    return _dumps(encode_reports(reports, target))


UPGRADE_FORMATS = {"text": _upgrades_as_text, "json": _upgrades_as_json}
"""The formats of ``upgrade-check`` by name."""


def _explanations_as_text(found: Sequence[Explanation]) -> str:
    from topiarist.output.describe import format_explanation

    return "\n".join(format_explanation(_layout(Settings()), each) for each in found)


def _explanations_as_json(found: Sequence[Explanation]) -> str:
    documents = [{"title": each.title, "meaning": each.meaning, "facts": dict(each.facts)} for each in found]
    return json.dumps(documents, indent=2, ensure_ascii=False) + "\n"


EXPLANATION_FORMATS = {"text": _explanations_as_text, "json": _explanations_as_json}
"""The formats of ``explain`` by name."""


def _layout(settings: Settings) -> TextLayout:
    return terminal.make_layout(sys.stdout, settings)


def _dumps(document: Mapping[str, Any]) -> str:
    from topiarist.adapters.saved_plans.encode import dumps

    return dumps(document)


def _root() -> str:
    return os.getcwd()  # noqa: PTH109 - pathlib is slow to import, and most runs need no path
