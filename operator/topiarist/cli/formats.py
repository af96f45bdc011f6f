"""The output formats of plans and of errors: one table of each.

A new format is one module of ``output`` and one row here: commands take their ``--format`` from the tables. Renderers
are imported when they are used, to keep the start of a command fast.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from topiarist.cli import terminal
from topiarist.cli.settings import Settings
from topiarist.errors import Diagnostic
from topiarist.model.plan import Plan


class Shown(NamedTuple):
    """The plans of a run; ``failed_clusters`` could not be planned, ``foreign_count`` documents are of other tools."""

    plans: Sequence[Plan]
    settings: Settings
    failed_clusters: Sequence[str] = ()
    applying: bool = False
    foreign_count: int = 0


class Errors(NamedTuple):
    """The errors and warnings of manifests, and the number of errors that were left out."""

    errors: Sequence[Diagnostic]
    warnings: Sequence[Diagnostic] = ()
    suppressed_count: int = 0


def _plans_as_text(shown: Shown) -> str:
    """Return one line for each topic with ``-q``, and one for each plan with ``--summary``."""
    from topiarist.output.text import plan

    layout = terminal.make_layout(sys.stdout, shown.settings)
    if shown.settings.summary:
        return plan.format_summaries(shown.plans, layout, applying=shown.applying)
    if shown.settings.verbosity < 0:
        return plan.format_topic_lines(shown.plans, layout, applying=shown.applying)
    return plan.format_plans(shown.plans, layout, applying=shown.applying)


def _plans_as_json(shown: Shown) -> str:
    """Return the plan file; nothing if no cluster could be planned."""
    from topiarist.adapters.saved_plans.encode import dumps, encode_plans

    return dumps(encode_plans(shown.plans)) if shown.plans or not shown.failed_clusters else ""


def _plans_as_markdown(shown: Shown) -> str:
    from topiarist.output.markdown import plan

    return plan.format_plans(shown.plans, shown.failed_clusters, _root(), shown.foreign_count)


def _plans_for_github(shown: Shown) -> str:
    from topiarist.output import ci

    return ci.format_plans(shown.plans, shown.failed_clusters, _root())


def _plans_as_page(shown: Shown) -> str:
    from topiarist.output.html import plan

    return plan.format_plans(shown.plans, shown.failed_clusters, _root())


PLAN_FORMATS: Mapping[str, Callable[[Shown], str]] = {
    "text": _plans_as_text,
    "json": _plans_as_json,
    "markdown": _plans_as_markdown,
    "github": _plans_for_github,
    "html": _plans_as_page,
}
"""The formats of ``plan`` by name."""


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


DIAGNOSTIC_FORMATS: Mapping[str, Callable[[Errors], str]] = {
    "json": _errors_as_json,
    "markdown": _errors_as_markdown,
    "github": _errors_for_github,
    "sarif": _errors_as_sarif,
}
"""The formats of ``validate`` by name; as text, errors go to stderr."""

COMMENT_FORMATS = ("markdown", "github")
"""The formats in which ``plan`` prints errors to stdout too, because reviewers do not see stderr."""


def format_plans(plans: Sequence[Plan], settings: Settings, form: str = "text", **more: Any) -> str:
    """Return the plans of a run in one of ``PLAN_FORMATS``; ``more`` are fields of ``Shown``."""
    return PLAN_FORMATS[form](Shown(plans, settings, **more))


def format_diagnostics(form: str, *found: Any) -> str:
    """Return errors in one of ``DIAGNOSTIC_FORMATS``; ``found`` are the fields of ``Errors``."""
    return DIAGNOSTIC_FORMATS[form](Errors(*found))


def _root() -> str:
    return str(Path.cwd())
