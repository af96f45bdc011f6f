"""The clusters of a run: a session each, their plans, and what became of them.

Clusters are read at the same time, and what is said of them is said in order of name. A cluster that cannot be read is
named and fails the run at its end; the others are still planned and applied.

The same work for many clusters at once, in threads that never keep the process from ending.

Not ``concurrent.futures``: at its end Python waits for those threads, and whoever presses Ctrl-C while a server does
not answer would wait for it too. Used by ``fleet``.

Clusters as snapshots have them: what ``plan`` and ``describe`` look at in place of sessions.
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
"""Clusters worked on at the same time. Near by, four would do; at a round trip of 20 ms sixteen take a quarter of the
time that one by one takes, and more gain nothing. So many that do not answer are waited for together.
"""

_CONNECT_NOTICE_DELAY_S = 0.9
"""Seconds without a connection after which it is said what is being tried."""

_CLOSE_TIMEOUT_S = 2.0
"""Seconds for the end of all sessions: where a server hangs it ends them by itself a little later."""


class ClusterSessions:
    """Opens one session per cluster and closes them all at the end; with ``keep=False`` each as soon as it has been of
    use. ``error_code`` is ``DONE`` as long as none failed, ``failed`` has why others did, ``clusters`` those whose
    sessions are kept.
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
        # Whoever presses Ctrl-C now has no more patience, but what was done is done and has been said.
        with suppress(KeyboardInterrupt):
            run_all([cluster.close for cluster in self._open_clusters], _CLOSE_TIMEOUT_S)

    def map_sessions(self, work: Callable[[str, ZooKeeperCluster], T]) -> dict[str, T]:
        """What ``work`` gives for every cluster that can be reached, by name; the others are named on stderr.

        ``work`` runs in several threads at a time.
        """
        return self._collect_results(lambda name: self._run_in_session(name, work), MAX_PARALLEL_CLUSTERS)

    def read_and_plan(self, desired: Desired, run: RunOptions) -> list[Plan]:
        """The plan of every cluster that could be read, in order of name; the others are named on stderr."""

        def plan(name: str, cluster: Cluster) -> Plan:
            return read_and_plan(cluster, desired.clusters[name], desired.specs[name], run)

        plans = self._drop_duplicate_cluster_ids(list(self.map_clusters(plan).values()))
        self._report_missing_results(desired, plans)
        return plans

    def map_clusters(self, work: Callable[[str, PartitionInspector], T]) -> dict[str, T]:
        """As ``each``, with snapshots in place of the clusters if the run has them."""
        if not self._settings.snapshot:
            return self.map_sessions(work)
        pass

        recorded = SnapshotSource(self._settings)
        found = self._collect_results(lambda name: work(name, recorded.read_cluster(self._specs[name])), 1)
        recorded.log_age()
        return found

    def _collect_results(self, work: Callable[[str], T], most: int) -> dict[str, T]:
        found, self.errors = map_parallel(self._specs, work, most)
        for name, error in self.errors.items():
            self._record_error(error, name)
        return found

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
        """Say how many topics have no result, if any: each of the others has one, or its cluster would have failed."""
        planned = {plan.cluster for plan in plans}
        lost = sum(len(desired.specs[name]) for name in self._specs if name not in planned)
        if lost and len(self._specs) > 1:
            wanted = sum(len(desired.specs[name]) for name in self._specs)
            terminal.log(
                f"{len(planned)} of {format_count(len(self._specs), 'cluster')} planned;"
                f" without a result: {lost:,} of {format_count(wanted, 'topic')}"
            )

    def _record_error(self, error: TopiaristError, cluster: str = "") -> None:
        self.error_code = worst_exit_code((self.error_code, error.reason.exit_code))
        terminal.print_error(error, cluster)

    def _drop_duplicate_cluster_ids(self, plans: list[Plan]) -> list[Plan]:
        """The plans but those whose connections lead to one cluster: which of them is meant, nobody here can know."""
        names: defaultdict[str, list[str]] = defaultdict(list)
        for plan in plans:
            names[plan.cluster_id].append(plan.cluster)
        for number, twins in names.items():
            if len(twins) > 1:
                self._record_error(
                    TopiaristError(
                        Reason.WRONG_CLUSTER,
                        f"clusters {', '.join(twins)}: their addresses lead to one cluster, {number}; none is touched",
                        "mend the address of all but one, or take the other documents away",
                    )
                )
        return [plan for plan in plans if len(names[plan.cluster_id]) == 1]

    def _connect(self, spec: ClusterSpec) -> ZooKeeperCluster:
        """Open a session. Says where to if that takes a while, and where the address is from if it fails."""
        origin = self._describe_address_source(spec)
        words = terminal.sanitize_lines(f"connecting to {spec.connect.partition('/')[0]}, given by {origin}")
        notice = threading.Timer(_CONNECT_NOTICE_DELAY_S, terminal.log_over_progress, (words,))
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
        """Return what gave the address of a cluster: an option, a variable, or a document at its place."""
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
    """What ``work`` gives for each name, and the errors of those for which it fails, both in order of name.

    ``max_parallel`` are worked on at a time. What it raises beside ``TopiaristError`` is raised here, as is Ctrl-C:
    then nothing more is begun, and what is under way is not waited for.
    """
    waiting = deque(names)
    started = len(waiting)
    ended: SimpleQueue[tuple[str, Callable[[], T]]] = SimpleQueue()

    def run() -> None:
        with suppress(IndexError):
            while True:
                name = waiting.popleft()
                ended.put((name, _capture_outcome(work, name)))

    for _ in range(min(max_parallel, started)):
        threading.Thread(target=run, name="cluster", daemon=True).start()
    found: dict[str, T] = {}
    failed: dict[str, TopiaristError] = {}
    try:
        for name, outcome in (ended.get() for _ in range(started)):
            try:
                found[name] = outcome()
            except TopiaristError as error:
                failed[name] = error
    finally:
        waiting.clear()
    return dict(sorted(found.items())), dict(sorted(failed.items()))


def _capture_outcome(work: Callable[[str], T], name: str) -> Callable[[], T]:
    """Do the work; gives a function that returns what it gave, or raises what it raised."""
    try:
        result = work(name)
    except BaseException as error:
        raised = error

        def fail() -> T:
            raise raised

        return fail
    return lambda: result


def run_all(works: Iterable[Callable[[], object]], timeout: float) -> None:
    """Do all of these at the same time, and wait for them no longer than ``timeout`` seconds."""
    threads = [threading.Thread(target=work, name="closing", daemon=True) for work in works]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + timeout
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


class SnapshotSource:
    """The snapshots of a run. Raises ``SnapshotUnusable`` if there are none at their path."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._snapshots = SnapshotFiles(Path(settings.snapshot))

    def read_cluster(self, spec: ClusterSpec) -> MemoryCluster:
        """The cluster as it was; raises what ``Snapshots.read`` raises."""
        return MemoryCluster(self._snapshots.read(spec))

    def log_age(self) -> None:
        """Say on stderr when the oldest of the snapshots was taken that were read."""
        if self._snapshots.taken_at and self._settings.verbosity >= 0:
            oldest = min(self._snapshots.taken_at.values())
            age = humanize_duration(max(int((datetime.now(UTC) - oldest).total_seconds()), 0) * 1000)
            which = "the oldest " if len(self._snapshots.taken_at) > 1 else ""
            words = f"planned from {self._settings.snapshot}: {which}taken {oldest:%Y-%m-%dT%H:%M:%SZ}, {age} ago"
            terminal.log(terminal.sanitize_lines(words))
