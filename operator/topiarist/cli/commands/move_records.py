"""The ``topiarist move-records`` command: move ownership records from ZooKeeper to the topic of records.

``adapters.open_cluster`` does the work. A cluster takes part if its document has both sections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from topiarist.adapters.open_cluster import MovePreview, RecordsMove
from topiarist.cli import options, terminal
from topiarist.cli.terminal import Settings
from topiarist.errors import Diagnostic, Exit, InvalidManifests, Location
from topiarist.model.outcome import worst_exit_code
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import MovedRecords
from topiarist.runs.inputs import load_clusters
from topiarist.runs.sessions import CLOSE_TIMEOUT_S, MAX_PARALLEL_CLUSTERS, map_parallel, run_all
from topiarist.text import format_count, list_first, printable

T = TypeVar("T")

_MAX_SHOWN_TOPICS = 5


@click.command(
    "move-records",
    cls=options.ClusterCommand,
    epilog="""\b
Examples:
  topiarist move-records clusters.yaml --cluster eu
  topiarist move-records manifests --yes

\b
Exit codes: 0 moved, or moved before; 1 error; 2 usage error; 4 refused: a topic has
records of two owners, or brokers are between two steps of a migration to KRaft; 5 another
client opened ZooKeeper meanwhile.
""",
)
@options.paths
@options.clusters
@options.connect_timeout
@options.owner
@options.lock_timeout
@options.verbosity
@options.yes
def command(yes: bool, **values: Any) -> None:
    """Move ownership records from ZooKeeper to Kafka, so that runs continue through the brokers.

    For Cluster documents with both spec.zookeeper and spec.kafka. ZooKeeper is frozen first: from then on every run
    through it is refused. Then all records go to the topic __topiarist in one transaction. No topic is changed. An
    interrupted move is continued by the next call.
    """
    terminal.require_interactive(yes, "move-records")
    settings = options.build_settings(values)
    specs = _select_clusters(load_clusters(settings, terminal.TerminalListener(settings)), settings)
    moves = _Moves(specs, settings)
    try:
        previews = moves.map(specs, RecordsMove.preview)
        open_previews = {name: each for name, each in previews.items() if not _is_finished(each)}
        for name, preview in previews.items():
            terminal.print_result(_label_lines(name, _describe_preview(preview)))
        if open_previews and not yes:
            terminal.confirm(f"Move the records of {format_count(len(open_previews), 'cluster')}? Type yes")
        for name, result in moves.map(open_previews, RecordsMove.execute).items():
            word = "already moved" if result.repeated else "moved"
            done = f"{word}: {_count(result)}; runs through ZooKeeper are refused from now on, use via: Kafka"
            terminal.print_outcome(_label_lines(name, [done, *_describe_unmatched(result)]))
    except KeyboardInterrupt:
        terminal.log("interrupted: some records may not be moved yet; run the command again")
        raise click.exceptions.Exit(130) from None
    finally:
        moves.close()
    raise click.exceptions.Exit(int(moves.error_code))


def _select_clusters(specs: Mapping[str, ClusterSpec], settings: Settings) -> Mapping[str, ClusterSpec]:
    """Return the clusters with both sections; raise ``InvalidManifests`` if there is none."""
    chosen = {
        name: spec
        for name, spec in specs.items()
        if spec.kafka and spec.kafka.servers and spec.zookeeper and spec.zookeeper.connect
    }
    missing = [name for name in specs if name not in chosen]
    if not chosen:
        raise InvalidManifests([_make_section_error(name, specs[name]) for name in missing])
    if missing and settings.verbosity >= 0:
        terminal.log(f"ignored {format_count(len(missing), 'cluster')} without both spec.zookeeper and spec.kafka")
    return chosen


def _make_section_error(name: str, spec: ClusterSpec) -> Diagnostic:
    location = spec.source.locate(("spec",)) if spec.source else Location("<options>")
    return Diagnostic(
        location,
        f"Cluster {name}: wanted both spec.zookeeper and spec.kafka, to move records from the one to the other",
        "add the missing section; via says which of them runs use",
    )


class _Moves:
    """The moves of all clusters of a run, opened in parallel. Errors are printed; ``error_code`` is the worst one."""

    def __init__(self, specs: Mapping[str, ClusterSpec], settings: Settings) -> None:
        self.error_code = Exit.DONE
        self._specs = specs
        self._settings = settings
        self._open: dict[str, RecordsMove] = {}

    def map(self, names: Mapping[str, object], work: Callable[[RecordsMove], T]) -> Mapping[str, T]:
        """Return the result of ``work`` of each cluster without an error, by name."""

        def run(name: str) -> T:
            if name not in self._open:
                self._open[name] = RecordsMove(
                    self._specs[name],
                    owner=self._settings.owner,
                    connect_timeout=self._settings.connect_timeout,
                    lock_timeout=self._settings.lock_timeout,
                    on_notice=lambda text: terminal.log(_label_lines(name, [text])),
                )
            return work(self._open[name])

        results, errors = map_parallel(names, run, MAX_PARALLEL_CLUSTERS)
        for name, error in errors.items():
            terminal.print_error(error, name)
            self.error_code = worst_exit_code((self.error_code, error.reason.exit_code))
        return results

    def close(self) -> None:
        """End all sessions."""
        run_all([each.close for each in self._open.values()], CLOSE_TIMEOUT_S)


def _is_finished(preview: MovePreview) -> bool:
    return preview.result.repeated and preview.is_begun


def _label_lines(name: str, lines: Sequence[str]) -> str:
    first, *rest = lines
    return terminal.sanitize_lines("\n".join([f"{terminal.label_cluster(name)}{first}", *(f"    {x}" for x in rest)]))


def _describe_preview(preview: MovePreview) -> list[str]:
    result = preview.result
    if _is_finished(preview):
        return [f"already moved: {_count(result)}", *_describe_unmatched(result)]
    if result.repeated:
        return [f"already moved: {_count(result)}; ZooKeeper is to be frozen again", *_describe_unmatched(result)]
    continued = ", which is frozen already by a move that did not end" if preview.is_begun else ""
    freeze = preview.records.freeze
    kept = [f"the cluster stays {freeze}"] if freeze else []
    return [f"to move: {_count(result)}{continued}", *_describe_left(result), *kept]


def _count(result: MovedRecords) -> str:
    return f"{format_count(result.records, 'record')} from ZooKeeper ({result.chroot or '/'}) to Kafka"


def _describe_left(result: MovedRecords) -> list[str]:
    lines = []
    if result.stale:
        lines.append(f"left behind, of earlier topics of the same name: {_name_topics(result.stale)}")
    if result.kept:
        lines.append(f"left behind, the topic of records has a record already: {_name_topics(result.kept)}")
    return lines


def _describe_unmatched(result: MovedRecords) -> list[str]:
    if not result.unmatched:
        return []
    return [
        f"with a record in ZooKeeper only: {_name_topics(result.unmatched)}",
        "these were unmanaged after the move, or a run through ZooKeeper wrote them; apply --adopt takes them",
    ]


def _name_topics(names: Sequence[str]) -> str:
    return f"{format_count(len(names), 'topic')}: {list_first([*map(printable, names)], _MAX_SHOWN_TOPICS)}"
