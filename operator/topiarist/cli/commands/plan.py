"""The commands that check manifests: ``topiarist validate``, ``render`` and ``plan``.

They send no write. With ``--out``, ``plan`` saves the plans for ``apply --plan`` and ``apply --reviewed``.
"""

from __future__ import annotations

from typing import Any

import click

from topiarist.cli import formats, options, terminal
from topiarist.errors import Exit, InvalidManifests
from topiarist.text import format_count

# The ``topiarist validate`` command: check manifests without a cluster.


@click.command(
    "validate",
    cls=options.TopicCommand,
    epilog="""\b
Examples:
  topiarist validate topics/
  topiarist validate topics/ --clusters clusters.yaml
  git diff -z --name-only --diff-filter=d main -- '*.yaml' | xargs -0r topiarist validate
  topiarist validate topics/ --format sarif >topiarist.sarif
  topiarist validate - < orders.yaml
""",
)
@options.manifests
@options.require_topics
@options.format_option(["text", *formats.DIAGNOSTIC_FORMATS])
def validate_command(form: str, **values: Any) -> None:
    """Check manifests: syntax, schema, names, config values, and rules between fields.

    Prints all errors, each with file, line and column, and ends with exit code 1 if there are any. Connects to nothing.
    A topic may name a cluster without a Cluster document: that is an error with --platform or --clusters, else a
    warning, and the checks that need the document are skipped.
    """
    from topiarist.runs.inputs import load_manifests

    settings = options.build_settings(values)
    try:
        desired = load_manifests(settings, terminal.TerminalListener(settings), offline=True).desired
    except InvalidManifests as error:
        if form == "text":
            raise
        terminal.print_result(formats.format_diagnostics(form, error.errors, error.warnings, error.suppressed_count))
        raise click.exceptions.Exit(int(error.reason.exit_code)) from None
    if form != "text":
        terminal.print_result(formats.format_diagnostics(form, (), desired.warnings))
    elif settings.verbosity >= 0:
        terminal.log(f"{format_count(desired.validated_count, 'topic')} valid")


# The ``topiarist render`` command: print the specs after defaults and overrides are merged.


@click.command(
    "render",
    cls=options.TopicCommand,
    epilog="""\b
Examples:
  topiarist render topics/ --clusters clusters.yaml
  topiarist render topics/ --cluster prod-eu
  topiarist render topics/ --format backstage --owner-label team >catalog-info.yaml
""",
)
@options.manifests
@options.format_option(formats.RENDER_FORMATS)
@options.responsible
def render_command(form: str, owner_label: str, codeowners: str, **values: Any) -> None:
    """Print one manifest per topic and cluster, with defaults and overrides merged.

    With --format backstage, print entities of Backstage's catalog. Their owners need --owner-label or --codeowners.
    """
    from topiarist.adapters.manifests import yaml_text as dump
    from topiarist.runs.inputs import load_manifests

    if form == "backstage" and not owner_label and not codeowners:
        raise click.UsageError("--format backstage needs --owner-label or --codeowners: each entity has an owner")
    if form == "text" and (owner_label or codeowners):
        raise click.UsageError("--owner-label and --codeowners are for --format backstage")
    settings = options.build_settings(values)
    desired = load_manifests(settings, terminal.TerminalListener(settings), offline=True, with_policies=False).desired
    documents = formats.RENDER_FORMATS[form](formats.Rendered(desired, owner_label, codeowners))
    terminal.print_result(dump.dump_documents(documents))


@click.command(
    "plan",
    cls=options.TopicCommand,
    epilog="""\b
Examples:
  topiarist plan topics/ --clusters clusters.yaml
  topiarist plan topics/ --bootstrap-servers localhost:9092
  topiarist plan topics/ --cluster eu --format json | jq '.clusters[0].topics'
  topiarist plan topics/ --topic 'orders.*' --selector team=shop
  topiarist plan topics/ --out plan.json
  topiarist plan topics/ --format markdown --page plan.html --junit plan.xml >comment.md
  topiarist plan topics/ --clusters clusters.yaml --snapshot snapshots
  topiarist plan topics/ --exit-code || echo "something is pending"

\b
Exit codes: 0 planned; 1 error; 2 usage error.
With --exit-code also: 3 changes are pending; 4 there are only refusals.
""",
)
@options.manifests
@options.selection
@options.require_topics
@options.connection
@options.snapshot
@options.ask_brokers
@options.in_use
@options.planning
@options.summary
@options.format_option(formats.PLAN_FORMATS)
@options.out
@options.page
@options.junit
@options.option(
    "--exit-code", is_flag=True, help="End with exit code 3 if changes are pending, 4 if there are only refusals."
)
def command(form: str, out: str | None, page: str | None, junit: str | None, exit_code: bool, **values: Any) -> None:
    """Show the changes that apply would make, each with the values before and after and its risk.

    Reads every cluster once and writes nothing. Read-only credentials are enough.
    """
    from topiarist.runs.inputs import load_manifests
    from topiarist.runs.sessions import ClusterSessions

    settings = options.build_settings(values)
    listener = terminal.TerminalListener(settings)
    if settings.summary and form != "text":
        raise click.UsageError("--summary cannot be combined with --format: it is for text output")
    if settings.ask_brokers and settings.snapshot:
        raise click.UsageError("--ask-brokers cannot be combined with --snapshot: a snapshot has no brokers")
    if settings.evidence and settings.snapshot:
        raise click.UsageError("--evidence cannot be combined with --snapshot: a snapshot has its own usage")
    options.require_separate_files(settings, {"--out": out, "--page": page, "--junit": junit})
    try:
        inputs = load_manifests(settings, listener)
    except InvalidManifests as error:
        found = error.errors, error.warnings, error.suppressed_count
        if form in formats.COMMENT_FORMATS:
            # Reviewers do not see stderr, so print the errors to stdout in the format of the comment.
            terminal.print_result(formats.format_diagnostics(form, *found))
        if junit is not None:
            _write(junit, formats.format_diagnostics("junit", *found))
        raise
    with ClusterSessions(inputs.desired.targeted_clusters, settings, listener, keep_open=False) as fleet:
        plans = [
            inputs.filter_plan(plan, settings) for plan in fleet.read_and_plan(inputs.desired, settings.run_options)
        ]
    code = fleet.error_code
    if out is not None and (plans or code is Exit.DONE):
        _write(out, formats.encode_plan_file(plans, fleet.errors))
    for file, also in ((page, "html"), (junit, "junit")):
        if file is not None:
            _write(file, formats.format_plans(plans, settings, also, errors=fleet.errors))
    terminal.print_result(
        formats.format_plans(plans, settings, form, errors=fleet.errors, foreign_count=inputs.foreign_count)
    )
    if code is Exit.DONE and exit_code:
        if any(plan.has_changes for plan in plans):
            code = Exit.CHANGES
        elif any(plan.has_refusals for plan in plans):
            code = Exit.REFUSED
    raise click.exceptions.Exit(int(code))


def _write(file: str, text: str) -> None:
    from topiarist.adapters.atomic_files import write_file  # not above: most plans write no file

    write_file(file, text)
