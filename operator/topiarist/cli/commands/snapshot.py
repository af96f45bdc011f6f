"""The ``topiarist snapshot`` command: write the state of clusters to files.

Reads each cluster once and sends no write. ``plan``, ``describe``, ``list`` and ``drift`` read the files in place of
the clusters. With ``--evidence`` a file has the usage of topics too (``runs.sessions``), and the newest file holds its
whole history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from topiarist.cli import options, terminal
from topiarist.text import format_count

if TYPE_CHECKING:
    from topiarist.model.spec import ClusterSpec
    from topiarist.model.state import ClusterState
    from topiarist.ports import OpenCluster

STDOUT, NO_PREVIOUS = "-", "none"


@click.command(
    "snapshot",
    cls=options.ClusterCommand,
    epilog="""\b
Examples:
  topiarist snapshot clusters.yaml --out snapshots
  topiarist snapshot --bootstrap-servers localhost:9092 > local.jsonl
  topiarist snapshot clusters.yaml --out snapshots --evidence
  topiarist plan topics/ --clusters clusters.yaml --snapshot snapshots

\b
Exit codes: 0 all clusters saved; 1 error; 2 usage error.
""",
)
@options.manifests
@options.connection
@options.option(
    "--out",
    default=STDOUT,
    type=click.Path(allow_dash=True),
    metavar="FOLDER",
    help="Folder for one file CLUSTER.jsonl per cluster. Default: standard output, for a single cluster.",
)
@options.option(
    "--evidence",
    "with_usage",
    is_flag=True,
    help="Also read who uses the topics and how large they are, and add what earlier snapshots say of it.",
)
@options.option(
    "--previous",
    type=click.Path(),
    metavar="PATH|none",
    help="With --evidence: the earlier snapshots, a file or a folder. Default: the files of --out that are replaced.",
)
def command(out: str, with_usage: bool, previous: str | None, **values: Any) -> None:
    """Save the state of clusters to files, so that plans can be made without a connection.

    Reads every cluster once and writes nothing to it. Each file is written completely or not at all. A cluster that
    cannot be read is reported and keeps its previous file, and the exit code is 1.
    """
    from datetime import UTC, datetime
    from pathlib import Path

    from topiarist.adapters.atomic_files import write_file
    from topiarist.adapters.snapshots.files import Snapshot, dump_snapshot, file_name
    from topiarist.runs.sessions import read_with_usage

    if previous is not None and not with_usage:
        raise click.UsageError("--previous is for --evidence")
    settings = options.build_settings(values)
    fleet = terminal.open_sessions(settings, keep_open=False)
    specs = fleet.specs
    if out == STDOUT and len(specs) > 1:
        raise click.UsageError(f"there are {len(specs)} clusters: add --out FOLDER, or choose one with --cluster")

    def write(name: str, cluster: OpenCluster) -> str:
        taken = datetime.now(UTC)
        state = fleet.read(name, cluster)
        if with_usage:
            state = read_with_usage(
                state, specs[name], settings.connect_timeout, _read_previous(specs[name], previous, out)
            )
        rows = dump_snapshot(Snapshot(name, taken, state))
        if out == STDOUT:
            return b"".join(rows).decode()
        path = Path(out, file_name(name))
        write_file(str(path), rows, make_parents=True)
        return f"{path}: {format_count(len(state.topics) + len(state.topic_errors), 'topic')}{_describe_usage(state)}"

    try:
        with fleet:
            written = fleet.map_sessions(write)
    except KeyboardInterrupt:
        if out == STDOUT:
            raise
        terminal.log("interrupted: some files may be new; each file is complete")
        raise click.exceptions.Exit(130) from None
    for text in written.values():
        if out == STDOUT:
            terminal.print_result(text)
        elif settings.verbosity >= 0:
            terminal.log(terminal.sanitize_lines(text))
    raise click.exceptions.Exit(int(fleet.error_code))


def _read_previous(spec: ClusterSpec, previous: str | None, out: str) -> ClusterState | None:
    """Return the state of the earlier snapshot of a cluster; None if there is none.

    A file that exists and cannot be used is an error: without it the observation would begin anew, unnoticed.
    """
    from pathlib import Path

    from topiarist.adapters.snapshots.files import SnapshotFiles, file_name, load_snapshot

    if previous == NO_PREVIOUS:
        return None
    if previous is not None:
        return SnapshotFiles(Path(previous)).read(spec)
    path = Path(out, file_name(spec.name))
    if out == STDOUT or not path.exists():
        return None
    return load_snapshot(path).state


def _describe_usage(state: ClusterState) -> str:
    """Return the number of topics of each state of use, and what is missing, as the end of a message."""
    from collections import Counter

    from topiarist.model.usage import UsageState
    from topiarist.usage import describe_missing, worse_state

    evidence = state.evidence
    if evidence is None:
        return ""
    states = Counter(worse_state(usage) for usage in state.usage.values())
    words = {UsageState.USED: "in use", UsageState.NOT_SEEN: "not seen in use", UsageState.UNKNOWN: "unknown"}
    counted = ", ".join(f"{states[state]:,} {words[state]}" for state in UsageState if states[state])
    missing = describe_missing(evidence)
    return f"; {counted or 'no usage'}" + (f" ({missing})" if missing else "")
