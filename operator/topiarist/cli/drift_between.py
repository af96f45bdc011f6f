"""Compare clusters with each other, without manifests: ``topiarist drift --between dev,stage,prod``.

Reads each cluster once, or its snapshot, and prints a matrix: a row for each field of each topic, a column for each
cluster. Of topics that ``--topic`` or ``--selector`` selects it has all values, else those that differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from topiarist.cli import terminal
from topiarist.cli.terminal import Settings
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.model.spec import ClusterSpec
from topiarist.text import format_count, quote

if TYPE_CHECKING:
    from topiarist.desired.resolve import Desired
    from topiarist.drift.cross_cluster import ValueRow


def compare_between(given: Any, settings: Settings) -> Exit:
    """Compare the clusters that ``--between`` names, print the matrix, and return the exit code of the command."""
    from topiarist.drift.cross_cluster import compare_values
    from topiarist.runs.inputs import require_addresses
    from topiarist.runs.sessions import ClusterSessions

    names = _parse_names(given)
    settings = replace(settings, snapshot="".join(given.snapshots))
    desired = _load(settings)
    clusters = {name: _find_cluster(name, desired) for name in names}
    require_addresses(clusters, settings)
    with ClusterSessions(clusters, settings, terminal.TerminalListener(settings), keep_open=False) as fleet:
        states = fleet.map_clusters(fleet.read)
    if fleet.errors or len(states) < len(names):
        return fleet.error_code
    is_selected = _make_selector(clusters, desired, settings)
    rows = [*compare_values({name: states[name] for name in names}, is_selected)]
    shown = rows if settings.selection.text else [row for row in rows if row.differs]
    terminal.print_result(BETWEEN_FORMATS[given.form](names, rows, shown))
    return Exit.CHANGES if given.exit_code and any(row.differs for row in rows) else Exit.DONE


def _parse_names(given: Any) -> list[str]:
    names = [name.strip() for name in given.between.split(",")]
    if len(names) < 2 or len({*names}) < len(names) or not all(names):
        message = f"--between: found {quote(given.between)}, wanted two or more clusters, each once, such as dev,prod"
        raise click.UsageError(message)
    if given.live == bool(given.snapshots) or len(given.snapshots) > 1:
        raise click.UsageError("with --between, give either --live or --snapshots, once")
    if any((given.out, given.previous, given.history, given.fix, given.fail_on)):
        message = "--between prints a comparison: give no --out, --previous, --history, --fix or --fail-on"
        raise click.UsageError(message)
    return names


def _load(settings: Settings) -> Desired | None:
    """Return what the manifests say; None if there are none, and snapshots are compared."""
    from topiarist.runs.inputs import load_if_given

    if settings.snapshot and not settings.paths and not settings.clusters:
        if settings.selector:
            raise click.UsageError("--selector selects by labels of manifests: give the files or folders with them")
        return None
    listener = terminal.TerminalListener(settings)
    return load_if_given(replace(settings, topic=(), selector=""), listener, with_policies=False).desired


def _find_cluster(name: str, desired: Desired | None) -> ClusterSpec:
    if desired is None:
        return ClusterSpec(name)
    if name not in desired.clusters:
        message = f"--between: found no Cluster document named {quote(name)}"
        raise TopiaristError(Reason.WRONG_USAGE, message, f"the documents are {', '.join(sorted(desired.clusters))}")
    return desired.clusters[name]


def _make_selector(
    clusters: Mapping[str, ClusterSpec], desired: Desired | None, settings: Settings
) -> Callable[[str], bool]:
    """Return whether a topic is compared; no software's own topics are."""
    from topiarist.kafka.types import matches_any

    selection = settings.selection
    specs = [spec for name in clusters for spec in desired.specs[name]] if desired else []
    labelled = {spec.topic for spec in specs if selection.matches(spec)}

    def is_selected(topic: str) -> bool:
        if any(cluster.internal_owner(topic) for cluster in clusters.values()):
            return False
        if selection.requirements:
            return topic in labelled
        return not selection.patterns or matches_any(topic, selection.patterns)

    return is_selected


def _count(rows: Sequence[ValueRow]) -> tuple[int, int, int]:
    """Return the numbers of topics, of topics that differ, and of values that differ."""
    differing = [row for row in rows if row.differs]
    return len({row.topic for row in rows}), len({row.topic for row in differing}), len(differing)


def _format_text(names: Sequence[str], rows: Sequence[ValueRow], shown: Sequence[ValueRow]) -> str:
    topics, differing, values = _count(rows)
    summary = f"{format_count(topics, 'topic')} on {', '.join(names)}: "
    differ = "differs" if differing == 1 else "differ"
    summary += f"{differing:,} {differ} in {format_count(values, 'value')}" if values else "all values are the same"
    lines = [[" ", "topic", "field", *names]]
    lines += [
        ["*" if row.differs else "", row.topic, row.field, *(_describe(row, name) for name in names)] for row in shown
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    table = ["  ".join(map(str.ljust, line, widths)).rstrip() for line in lines] if shown else []
    return terminal.sanitize_lines("\n".join([summary, *([""] if table else []), *table])) + "\n"


def _describe(row: ValueRow, name: str) -> str:
    from topiarist.drift.cross_cluster import TOPIC_FIELD
    from topiarist.output.text.layout import humanize_config_value

    if name not in row.values:
        return "-"
    value = row.values[name]
    if value is None:
        return "missing" if row.field == TOPIC_FIELD else "not set"
    words = humanize_config_value(row.field.removeprefix("config."), value)
    return f"{value} ({words})" if words else value


def _format_json(names: Sequence[str], rows: Sequence[ValueRow], shown: Sequence[ValueRow]) -> str:
    from topiarist.adapters.saved_plans.encode import dumps

    topics, differing, values = _count(rows)
    return dumps(
        {
            "formatVersion": 1,
            "clusters": [*names],
            "topics": topics,
            "topicsThatDiffer": differing,
            "valuesThatDiffer": values,
            "values": [row._asdict() for row in shown],
        }
    )


BETWEEN_FORMATS = {"text": _format_text, "json": _format_json}
"""The formats of ``drift --between`` by name."""
