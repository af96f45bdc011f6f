"""The clusters of a run: one session each, read in parallel, or snapshots in their place.

Commands use ``ClusterSessions`` to read, plan and write. Clusters are read in parallel (``map_parallel``), and results
are reported in order of name. A cluster that cannot be read is named on stderr and makes the run fail at its end; the
other clusters are still planned and applied. ``SnapshotSource`` replaces the sessions for ``--snapshot``.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import TypeVar

from topiarist.adapters.memory import MemoryCluster
from topiarist.adapters.snapshots.files import SnapshotFiles
from topiarist.adapters.zookeeper.cluster import ZooKeeperCluster
from topiarist.cli import terminal
from topiarist.cli.settings import Settings
from topiarist.desired.resolve import Desired
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.model.outcome import worst_exit_code
from topiarist.model.plan import Plan
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec
from topiarist.ports import Cluster, PartitionInspector
from topiarist.reconcile import read_and_plan
from topiarist.text import format_count, humanize_duration

T = TypeVar("T")

MAX_PARALLEL_CLUSTERS = 16
"""Maximum number of clusters that are read in parallel.

At short distances four are enough. At a round trip of 20 ms, sixteen take a quarter of the time that one at a time
takes, and more gain nothing. As many unreachable clusters share one connect timeout.
"""

_CONNECT_NOTICE_DELAY_S = 0.9
"""Seconds without a connection before the attempted address is logged."""

_CLOSE_TIMEOUT_S = 2.0
"""Seconds to close all sessions.

If a server hangs, it ends the sessions by itself a little later.
"""


class ClusterSessions:
    """A context manager that opens one session per cluster and closes all of them at the end.

    With ``keep_open=False`` a session is closed as soon as its work is done. ``error_code`` is ``DONE`` while no
    cluster has failed. ``errors`` holds the error of each failed cluster, ``clusters`` the clusters with an open
    session, both by name.
    """

    def __init__(self, specs: Mapping[str, ClusterSpec], settings: Settings, *, keep_open: bool = True) -> None:
        self._specs = specs
        self._settings = settings
        self._keep_open = keep_open
        self._open_clusters: list[ZooKeeperCluster] = []
        self.clusters: dict[str, ZooKeeperCluster] = {}
        self.error_code = Exit.DONE
        self.errors: dict[str, TopiaristError] = {}

    def __enter__(self) -> ClusterSessions:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Ctrl-C during closing only skips the closing: the work is done and reported.
        with suppress(KeyboardInterrupt):
            run_all([cluster.close for cluster in self._open_clusters], _CLOSE_TIMEOUT_S)

    def map_sessions(self, work: Callable[[str, ZooKeeperCluster], T]) -> dict[str, T]:
        """Return the result of ``work`` for each reachable cluster, by name.

        ``work`` runs in several threads. Clusters that cannot be reached are named on stderr.
        """
        return self._collect_results(lambda name: self._run_in_session(name, work), MAX_PARALLEL_CLUSTERS)

    def read_and_plan(self, desired: Desired, run: RunOptions) -> list[Plan]:
        """Return the plan of each readable cluster, in order of name.

        Clusters that cannot be read are named on stderr.
        """

        def plan(name: str, cluster: Cluster) -> Plan:
            return read_and_plan(cluster, desired.clusters[name], desired.specs[name], run)

        plans = self._drop_duplicate_cluster_ids(list(self.map_clusters(plan).values()))
        self._report_missing_results(desired, plans)
        return plans

    def map_clusters(self, work: Callable[[str, PartitionInspector], T]) -> dict[str, T]:
        """Like ``map_sessions``, but with snapshots in place of the clusters if the run has them."""
        if not self._settings.snapshot:
            return self.map_sessions(work)
        snapshots = SnapshotSource(self._settings)
        results = self._collect_results(lambda name: work(name, snapshots.read_cluster(self._specs[name])), 1)
        snapshots.log_age()
        return results

    def _collect_results(self, work: Callable[[str], T], most: int) -> dict[str, T]:
        results, self.errors = map_parallel(self._specs, work, most)
        for name, error in self.errors.items():
            self._record_error(error, name)
        return results

    def _run_in_session(self, name: str, work: Callable[[str, ZooKeeperCluster], T]) -> T:
        cluster = self._connect(self._specs[name])
        self._open_clusters.append(cluster)
        result = work(name, cluster)
        if self._keep_open:
            self.clusters[name] = cluster
        else:
            self._open_clusters.remove(cluster)
            cluster.close()
        return result

    def _report_missing_results(self, desired: Desired, plans: list[Plan]) -> None:
        """Log how many topics have no plan, if any and if the run has several clusters.

        Every planned cluster has a result for each of its topics, so only clusters without a plan are counted.
        """
        planned = {plan.cluster for plan in plans}
        missing = sum(len(desired.specs[name]) for name in self._specs if name not in planned)
        if missing and len(self._specs) > 1:
            total = sum(len(desired.specs[name]) for name in self._specs)
            terminal.log(
                f"{len(planned)} of {format_count(len(self._specs), 'cluster')} planned;"
                f" without a result: {missing:,} of {format_count(total, 'topic')}"
            )

    def _record_error(self, error: TopiaristError, cluster: str = "") -> None:
        self.error_code = worst_exit_code((self.error_code, error.reason.exit_code))
        terminal.print_error(error, cluster)

    def _drop_duplicate_cluster_ids(self, plans: list[Plan]) -> list[Plan]:
        """Drop all plans that share a cluster id, and report them.

        Their addresses lead to one cluster, and the right ``Cluster`` document cannot be determined.
        """
        names: defaultdict[str, list[str]] = defaultdict(list)
        for plan in plans:
            names[plan.cluster_id].append(plan.cluster)
        for same_id, twins in names.items():
            if len(twins) > 1:
                self._record_error(
                    TopiaristError(
                        Reason.WRONG_CLUSTER,
                        f"clusters {', '.join(twins)}: their addresses lead to one cluster, {same_id}; none is touched",
                        "mend the address of all but one, or take the other documents away",
                    )
                )
        return [plan for plan in plans if len(names[plan.cluster_id]) == 1]

    def _connect(self, spec: ClusterSpec) -> ZooKeeperCluster:
        """Open a session.

        Logs the address if connecting takes long, and adds the origin of the address to an ``Unreachable`` error.
        """
        origin = self._describe_address_source(spec)
        text = terminal.sanitize_lines(f"connecting to {spec.connect.partition('/')[0]}, given by {origin}")
        notice = threading.Timer(_CONNECT_NOTICE_DELAY_S, terminal.log_over_progress, (text,))
        notice.daemon = True
        if self._settings.verbosity >= 0:
            notice.start()
        try:
            return ZooKeeperCluster(
                spec.connect,
                owner=self._settings.owner,
                jute_max_buffer=spec.jute_max_buffer,
                connect_timeout=self._settings.connect_timeout,
                lock_timeout=self._settings.lock_timeout,
                credentials=spec.credentials,
            )
        except TopiaristError as error:
            if error.reason is Reason.UNREACHABLE and not error.hint:
                error.hint = f"the address was given by {origin}; {self._describe_override()}"
            raise
        finally:
            notice.cancel()

    def _describe_address_source(self, spec: ClusterSpec) -> str:
        """Return the source of a cluster's address: an option, a variable, or a document."""
        if self._settings.zookeeper or spec.source is None:
            return self._settings.zookeeper_from
        return f"Cluster {spec.name} at {spec.source.locate(('spec', 'zookeeper', 'connect'))}"

    def _describe_override(self) -> str:
        """Return how to give another address in place of it."""
        if self._settings.zookeeper:
            given_by_option = self._settings.zookeeper_from == "--zookeeper"
            return "give another one there" if given_by_option else "--zookeeper HOST:PORT overrides it"
        return "--zookeeper HOST:PORT overrides it" if len(self._specs) == 1 else "correct it there"


def map_parallel(
    names: Iterable[str], work: Callable[[str], T], max_parallel: int
) -> tuple[dict[str, T], dict[str, TopiaristError]]:
    """Return the result of ``work`` for each name and the error for each failed name, both in order of name.

    At most ``max_parallel`` names are worked on at a time, in daemon threads. Any exception except ``TopiaristError``
    is raised here, as is Ctrl-C: then no further work is started, and running work is not awaited.
    """
    waiting = deque(names)
    total = len(waiting)
    ended: SimpleQueue[tuple[str, Callable[[], T]]] = SimpleQueue()

    def run() -> None:
        with suppress(IndexError):
            while True:
                name = waiting.popleft()
                ended.put((name, _capture_outcome(work, name)))

    # Not concurrent.futures: Python waits for its threads at exit, so Ctrl-C would wait for a server that hangs.
    for _ in range(min(max_parallel, total)):
        threading.Thread(target=run, name="cluster", daemon=True).start()
    results: dict[str, T] = {}
    errors: dict[str, TopiaristError] = {}
    try:
        for name, outcome in (ended.get() for _ in range(total)):
            try:
                results[name] = outcome()
            except TopiaristError as error:
                errors[name] = error
    finally:
        waiting.clear()
    return dict(sorted(results.items())), dict(sorted(errors.items()))


def _capture_outcome(work: Callable[[str], T], name: str) -> Callable[[], T]:
    """Run the work; return a function that returns its result or raises its exception."""
    try:
        result = work(name)
    except BaseException as error:
        raised = error

        def fail() -> T:
            raise raised

        return fail
    return lambda: result


def run_all(works: Iterable[Callable[[], object]], timeout: float) -> None:
    """Run all works in parallel, and wait for them at most ``timeout`` seconds."""
    threads = [threading.Thread(target=work, name="closing", daemon=True) for work in works]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + timeout
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


class SnapshotSource:
    """The snapshots of a run.

    Raises ``SnapshotUnusable`` if there are none at the path.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._snapshots = SnapshotFiles(Path(settings.snapshot))

    def read_cluster(self, spec: ClusterSpec) -> MemoryCluster:
        """Return the cluster as the snapshot holds it; raises what ``SnapshotFiles.read`` raises."""
        return MemoryCluster(self._snapshots.read(spec))

    def log_age(self) -> None:
        """Log the age of the oldest snapshot that was read."""
        if self._snapshots.taken_at and self._settings.verbosity >= 0:
            oldest = min(self._snapshots.taken_at.values())
            age = humanize_duration(max(int((datetime.now(UTC) - oldest).total_seconds()), 0) * 1000)
            prefix = "the oldest " if len(self._snapshots.taken_at) > 1 else ""
            text = f"planned from {self._settings.snapshot}: {prefix}taken {oldest:%Y-%m-%dT%H:%M:%SZ}, {age} ago"
            terminal.log(terminal.sanitize_lines(text))
