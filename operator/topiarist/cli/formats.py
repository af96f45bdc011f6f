"""Renderers of ``plan``, ``describe``, ``list`` and ``validate``, by output format.

The renderers for machines are imported only when they are used, to keep the start of a command fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from topiarist.cli import terminal
from topiarist.cli.settings import Settings
from topiarist.errors import Diagnostic
from topiarist.model.plan import Plan
from topiarist.output import diagnostics as errors_

if TYPE_CHECKING:
    from topiarist.inspection.describe import Description
    from topiarist.inspection.list import TopicList


def format_plans_as_text(plans: Sequence[Plan], settings: Settings, *, applying: bool = False) -> str:
    """Return plans as text: in full, with ``-q`` one line per topic, with ``--summary`` one line per plan."""
    from topiarist.output.text import plan

    page = terminal.make_layout(sys.stdout, settings)
    if settings.summary:
        return plan.format_summaries(plans, page, applying=applying)
    if settings.verbosity < 0:
        return plan.format_topic_lines(plans, page, applying=applying)
    return plan.format_plans(plans, page, applying=applying)


def _format_plans_text(plans: Sequence[Plan], _failed_clusters: Sequence[str], settings: Settings) -> str:
    return format_plans_as_text(plans, settings)


def _format_plans_json(plans: Sequence[Plan], failed_clusters: Sequence[str], _settings: Settings) -> str:
    """Return the plan document; an empty string if no cluster could be planned."""
    from topiarist.adapters.saved_plans.encode import dumps, encode_plans

    return dumps(encode_plans(plans)) if plans or not failed_clusters else ""


def _format_plans_markdown(plans: Sequence[Plan], failed_clusters: Sequence[str], _settings: Settings) -> str:
    from topiarist.output.markdown import plan as plan_

    return plan_.format_plans(plans, failed_clusters, str(Path.cwd()))


def _format_plans_github(plans: Sequence[Plan], failed_clusters: Sequence[str], _settings: Settings) -> str:
    from topiarist.output.ci import github

    return github.format_plans(plans, failed_clusters, str(Path.cwd()))


PLAN_FORMATS: Mapping[str, Callable[[Sequence[Plan], Sequence[str], Settings], str]] = {
    "text": _format_plans_text,
    "json": _format_plans_json,
    "markdown": _format_plans_markdown,
    "github": _format_plans_github,
}
"""Renderers of the plans of a run, and of the clusters that could not be planned, by format."""


def _format_descriptions_text(_topic: str, descriptions: Sequence[Description], settings: Settings) -> str:
    from topiarist.output.text import describe

    return describe.format_descriptions(descriptions, terminal.make_layout(sys.stdout, settings))


def _format_descriptions_json(topic: str, descriptions: Sequence[Description], _settings: Settings) -> str:
    from topiarist.adapters.saved_plans.encode import dumps
    from topiarist.output.json import describe as describe_

    return dumps(describe_.encode_descriptions(topic, descriptions))


DESCRIPTION_FORMATS: Mapping[str, Callable[[str, Sequence[Description], Settings], str]] = {
    "text": _format_descriptions_text,
    "json": _format_descriptions_json,
}
"""Renderers of the topic as requested and its description on each cluster, by format."""


def _format_lists_text(listings: Sequence[TopicList], settings: Settings) -> str:
    from topiarist.output.text import list

    return list.format_lists(
        listings, terminal.make_layout(sys.stdout, settings), truncate=sys.stdout.isatty() and settings.verbosity < 1
    )


def _format_lists_json(listings: Sequence[TopicList], _settings: Settings) -> str:
    from topiarist.adapters.saved_plans.encode import dumps
    from topiarist.output.json import list as list_

    return dumps(list_.encode_lists(listings))


LIST_FORMATS: Mapping[str, Callable[[Sequence[TopicList], Settings], str]] = {
    "text": _format_lists_text,
    "json": _format_lists_json,
}
"""Renderers of the topic lists of clusters, by format."""


Diagnostics = Sequence[Diagnostic]


def _format_diagnostics_json(errors: Diagnostics, warnings: Diagnostics, suppressed_count: int) -> str:
    return errors_.to_json(errors, warnings, suppressed_count=suppressed_count)


def _format_diagnostics_markdown(errors: Diagnostics, _warnings: Diagnostics, suppressed_count: int) -> str:
    from topiarist.output.markdown import plan as plan_

    return plan_.format_diagnostics(errors, suppressed_count, str(Path.cwd()))


def _format_diagnostics_github(errors: Diagnostics, warnings: Diagnostics, suppressed_count: int) -> str:
    from topiarist.output.ci import github

    return github.format_diagnostics(errors, warnings, suppressed_count, str(Path.cwd()))


def _format_diagnostics_sarif(errors: Diagnostics, warnings: Diagnostics, suppressed_count: int) -> str:
    from topiarist.output.ci.sarif import to_sarif

    return to_sarif(errors, warnings, suppressed_count=suppressed_count, root=str(Path.cwd()))


DIAGNOSTIC_FORMATS: Mapping[str, Callable[[Diagnostics, Diagnostics, int], str]] = {
    "json": _format_diagnostics_json,
    "markdown": _format_diagnostics_markdown,
    "github": _format_diagnostics_github,
    "sarif": _format_diagnostics_sarif,
}
"""Renderers of errors, warnings and the number of suppressed errors, by format; without text."""
