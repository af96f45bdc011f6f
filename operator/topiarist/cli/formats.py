"""Plans and errors in the output formats of ``plan`` and ``validate``.

The renderers are imported only when they are used, to keep the start of a command fast.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from topiarist.cli import terminal
from topiarist.cli.settings import Settings
from topiarist.errors import Diagnostic
from topiarist.model.plan import Plan

PLAN_FORMATS = ("text", "json", "markdown", "github", "html")


def format_plans(
    plans: Sequence[Plan],
    settings: Settings,
    form: str = "text",
    *,
    failed_clusters: Sequence[str] = (),
    applying: bool = False,
    foreign_count: int = 0,
) -> str:
    """Return the plans of a run in one of ``PLAN_FORMATS``.

    Text has one line per topic with ``-q``, and one line per plan with ``--summary``. JSON is empty if no cluster could
    be planned. ``failed_clusters`` could not be planned. The comment shows ``foreign_count``.
    """
    if form == "json":
        from topiarist.adapters.saved_plans.encode import dumps, encode_plans

        return dumps(encode_plans(plans)) if plans or not failed_clusters else ""
    if form == "markdown":
        from topiarist.output.markdown import plan as markdown

        return markdown.format_plans(plans, failed_clusters, str(Path.cwd()), foreign_count)
    if form == "github":
        from topiarist.output.ci import github

        return github.format_plans(plans, failed_clusters, str(Path.cwd()))
    if form == "html":
        return format_page(plans, failed_clusters)
    layout = terminal.make_layout(sys.stdout, settings)
    from topiarist.output.text import plan

    if settings.summary:
        return plan.format_summaries(plans, layout, applying=applying)
    if settings.verbosity < 0:
        return plan.format_topic_lines(plans, layout, applying=applying)
    return plan.format_plans(plans, layout, applying=applying)


def format_page(plans: Sequence[Plan], failed_clusters: Sequence[str]) -> str:
    """Return the plans of a run as one HTML page; ``failed_clusters`` could not be planned."""
    from topiarist.output.html import plan

    return plan.format_plans(plans, failed_clusters, str(Path.cwd()))


def format_diagnostics(
    form: str, errors: Sequence[Diagnostic], warnings: Sequence[Diagnostic] = (), suppressed_count: int = 0
) -> str:
    """Return errors, warnings and the number of suppressed errors as json, markdown, github or sarif."""
    root = str(Path.cwd())
    if form == "json":
        from topiarist.output import diagnostics

        return diagnostics.to_json(errors, warnings, suppressed_count=suppressed_count)
    if form == "markdown":
        from topiarist.output.markdown import plan as markdown

        return markdown.format_diagnostics(errors, suppressed_count, root)
    if form == "github":
        from topiarist.output.ci import github

        return github.format_diagnostics(errors, warnings, suppressed_count, root)
    from topiarist.output.ci.sarif import to_sarif

    return to_sarif(errors, warnings, suppressed_count=suppressed_count, root=root)
