"""The clusters of a run: one session each, read in parallel, or snapshots in their place.

Commands and ``topiarist.api`` use ``ClusterSessions`` to read, plan and write. Clusters are read in parallel
(``map_parallel``), and results are reported in order of name. A cluster that cannot be read is reported to the listener
and makes the run fail at its end; the other clusters are still planned and applied.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from queue import SimpleQueue
from typing import TYPE_CHECKING, Self, TypeVar

from msgspec.structs import replace

from topiarist.adapters.open_cluster import open_cluster, open_usage_reader
from topiarist.desired.resolve import Desired
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.model.access import KafkaAccess
from topiarist.model.outcome import worst_exit_code
from topiarist.model.plan import Plan, RunOptions
from topiarist.model.spec import BOOTSTRAP_SERVERS, CONNECT, ClusterSpec
from topiarist.model.state import ClusterState
from topiarist.model.usage import UsageRead
from topiarist.ports import OpenCluster, PartitionInspector, WriteGuard, write_all
from topiarist.reconcile import plan_cluster, read_cluster, require_cluster_id, withhold_vetoed_changes
from topiarist.runs.settings import SILENT, RunListener, RunSettings
from topiarist.text import format_count, humanize_duration

if TYPE_CHECKING:
    from topiarist.deletion_guard import DeletionGuard


# Reads the usage of topics of one cluster in a run: for a snapshot, and before deletions.
#
# A reader is opened beside the session of the cluster, since a cluster that is written through ZooKeeper has brokers
# too. ``snapshot --evidence`` calls ``read_with_usage``.


def read_with_usage(
    state: ClusterState, spec: ClusterSpec, connect_timeout: float, previous: ClusterState | None
) -> ClusterState:
    """Return the state with the usage of all topics, folded with that of ``previous``.

    Raises ``TopiaristError``: ``WrongUsage`` without an address of brokers, an error if the brokers cannot be reached,
    ``WrongCluster`` if they are those of another cluster, and ``SnapshotUnusable`` if ``previous`` is of another
    cluster, or newer than this read.
    """
    from topiarist.usage import add_usage

    reader = open_usage_reader(spec, connect_timeout=connect_timeout)
    if reader is None:
        raise TopiaristError(
            Reason.WRONG_USAGE,
            f"--evidence asks the brokers, and Cluster {spec.name or 'without a name'} has no address of them",
            "add kafka: {bootstrapServers: host1:9092,host2:9092}; with via: ZooKeeper it is used for this alone",
        )
    with reader:
        require_cluster_id(state.cluster_id, reader.read_cluster_id(), "the cluster of the topics")
        read = reader.read()
    if previous is not None:
        _require_earlier(previous, state, read)
    return add_usage(state, read, previous, spec)


def _require_earlier(previous: ClusterState, state: ClusterState, read: UsageRead) -> None:
    if previous.cluster_id != state.cluster_id:
        message = f"the earlier snapshot is of cluster {previous.cluster_id}, and this is {state.cluster_id}"
        raise TopiaristError(
            Reason.SNAPSHOT_UNUSABLE, message, "give --previous FILE of this cluster, or --previous none"
        )
    if previous.evidence and previous.evidence.read_at >= read.evidence.read_at:
        raise TopiaristError(
            Reason.SNAPSHOT_UNUSABLE,
            "the earlier snapshot is not older than this read",
            "check the clocks of the machines that take snapshots; --previous none begins the observation anew",
        )


T = TypeVar("T")

PlanSource = Callable[[str, PartitionInspector, ClusterState], Plan]
"""Makes the plan of a cluster from its name, its session and its state: from manifests, or of a plan file."""

MAX_PARALLEL_CLUSTERS = 16
"""Maximum number of clusters that are read in parallel.

At short distances four are enough. At a round trip of 20 ms, sixteen take a quarter of the time that one at a time
takes, and more gain nothing. As many unreachable clusters share one connect timeout.
"""

_CONNECT_NOTICE_DELAY_S = 0.9
"""Seconds without a connection before the attempted address is reported."""

CLOSE_TIMEOUT_S = 2.0
"""Seconds to close all sessions.

If a server hangs, it ends the sessions by itself a little later.
"""


class ClusterSessions:
    """A context manager that opens one session per cluster and closes all of them at the end.

    With ``keep_open=False`` a session is closed as soon as its work is done. ``error_code`` is ``DONE`` while no
    cluster has failed. ``errors`` holds the error of each cluster without a result of the last work, ``clusters`` the
    clusters with an open session, both by name. ``failures`` has every error that was reported, with its cluster.
    """

    def __init__(
        self,
        specs: Mapping[str, ClusterSpec],
        settings: RunSettings,
        listener: RunListener = SILENT,
        *,
        keep_open: bool = True,
    ) -> None:
        self.specs = specs
        self._listener = listener
        self._settings = settings
        self._keep_open = keep_open
        self._open_clusters: list[OpenCluster] = []
        self.clusters: dict[str, OpenCluster] = {}
        self.error_code = Exit.DONE
        self.errors: dict[str, TopiaristError] = {}
        self.failures: list[tuple[str, TopiaristError]] = []
        self._guards: dict[str, DeletionGuard] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Ctrl-C during closing only skips the closing: the work is done and reported.
        with suppress(KeyboardInterrupt):
            run_all([cluster.close for cluster in self._open_clusters], CLOSE_TIMEOUT_S)

    def map_sessions(self, work: Callable[[str, OpenCluster], T]) -> dict[str, T]:
        """Return the result of ``work`` for each reachable cluster, by name.

        ``work`` runs in several threads. Clusters that cannot be reached are reported to the listener.
        """
        return self._collect_results(lambda name: self._run_session(name, work), MAX_PARALLEL_CLUSTERS)

    def stream_sessions(self, work: Callable[[str, OpenCluster], T]) -> Iterator[tuple[str, T | TopiaristError]]:
        """Like ``map_sessions``, but yield each result or error in order of name, for results that are large.

        At most ``MAX_PARALLEL_CLUSTERS`` results exist at a time, with the one that the caller uses.
        """
        for name, result in stream_parallel(
            sorted(self.specs), lambda name: self._run_session(name, work), MAX_PARALLEL_CLUSTERS
        ):
            if isinstance(result, TopiaristError):
                self.errors[name] = result
                self.fail(result, name)
            yield name, result

    def _run_session(self, name: str, work: Callable[[str, OpenCluster], T]) -> T:
        cluster = self._connect(self.specs[name])
        self._open_clusters.append(cluster)
        result = work(name, cluster)
        if self._keep_open:
            self.clusters[name] = cluster
        else:
            self._open_clusters.remove(cluster)
            cluster.close()
        return result

    def map_clusters(self, work: Callable[[str, PartitionInspector], T]) -> dict[str, T]:
        """Like ``map_sessions``, but with snapshots in place of the clusters if the run has them."""
        path = self._settings.snapshot
        if not path:
            return self.map_sessions(work)
        from pathlib import Path

        from topiarist.adapters.snapshots.files import SnapshotCluster, SnapshotFiles

        snapshots = SnapshotFiles(Path(path))
        results = self._collect_results(lambda name: work(name, SnapshotCluster(snapshots.read(self.specs[name]))), 1)
        if snapshots.taken_at:
            oldest = min(snapshots.taken_at.values())
            age = humanize_duration(max(int((datetime.now(UTC) - oldest).total_seconds()), 0) * 1000)
            prefix = "the oldest " if len(snapshots.taken_at) > 1 else ""
            text = f"read from {path}: {prefix}taken {oldest:%Y-%m-%dT%H:%M:%SZ}, {age} ago"
            self._listener.on_message(text)
        return results

    def make_plans(self, make: PlanSource) -> list[Plan]:
        """Return what ``make`` plans for each readable cluster, with the usage of its topics, in order of name.

        Clusters that cannot be read are reported to the listener.
        """

        def plan_and_ask(name: str, cluster: OpenCluster) -> Plan:
            return withhold_vetoed_changes(cluster, self.make_plan(name, cluster, make))

        # Snapshots have no brokers; the options exclude each other.
        if self._settings.ask_brokers:
            return list(self.map_sessions(plan_and_ask).values())
        return list(self.map_clusters(lambda name, cluster: self.make_plan(name, cluster, make)).values())

    def read(self, name: str, cluster: PartitionInspector) -> ClusterState:
        """Read one cluster. Raises ``WrongCluster`` if it is not the one that its document means."""
        return read_cluster(cluster, self.specs[name].cluster_id)

    def make_plan(self, name: str, cluster: PartitionInspector, make: PlanSource) -> Plan:
        """Read one cluster, and return what ``make`` plans for it, with the usage of its topics."""
        state = self.read(name, cluster)
        plan = make(name, cluster, state)
        return plan if self._settings.snapshot else self._add_usage(plan, state)

    def read_and_plan(self, desired: Desired, run: RunOptions) -> list[Plan]:
        """Return the plan of the specs of each readable cluster, in order of name.

        Clusters that cannot be read are reported to the listener. Plans that share a cluster id are dropped, with an
        error: the addresses lead to one cluster, and the right ``Cluster`` document cannot be determined.
        """

        def make(name: str, cluster: PartitionInspector, state: ClusterState) -> Plan:
            options = replace(run, unselected=desired.unselected.get(name, frozenset()))
            return plan_cluster(cluster, state, desired.clusters[name], desired.specs[name], options)

        plans = self.make_plans(make)
        names: defaultdict[str, list[str]] = defaultdict(list)
        for each in plans:
            names[each.cluster_id].append(each.cluster)
        for cluster_id, twins in names.items():
            if len(twins) > 1:
                message = f"clusters {', '.join(twins)}: their addresses lead to one cluster, {cluster_id}"
                hint = "nothing is written to it; correct the address of all but one, or remove the other documents"
                error = TopiaristError(Reason.WRONG_CLUSTER, message, hint)
                self.errors |= dict.fromkeys(twins, error)
                self.fail(error)
        plans = [plan for plan in plans if len(names[plan.cluster_id]) == 1]
        # Every planned cluster has a result for each of its topics, so only clusters without a plan are counted.
        missing = sum(len(desired.specs[name]) for name in self.specs.keys() - {plan.cluster for plan in plans})
        if missing and len(self.specs) > 1:
            total = sum(len(desired.specs[name]) for name in self.specs)
            self._listener.on_message(
                f"{len(plans)} of {format_count(len(self.specs), 'cluster')} planned;"
                f" without a result: {missing:,} of {format_count(total, 'topic')}",
                important=True,
            )
        return plans

    def _add_usage(self, plan: Plan, state: ClusterState) -> Plan:
        """Return the plan of a cluster with the usage of its topics; the brokers are asked about those it deletes."""
        spec, settings = self.specs[plan.cluster], self._settings
        if not plan.deletes_topics and not settings.evidence:
            return plan
        # Most plans delete nothing, and need none of these packages.
        from pathlib import Path

        from topiarist.adapters.snapshots.files import SnapshotFiles
        from topiarist.deletion_guard import DeletionGuard

        earlier = SnapshotFiles(Path(settings.evidence)).read(spec) if settings.evidence else None
        guard = self._guards[plan.cluster] = DeletionGuard(
            spec,
            lambda: open_usage_reader(spec, connect_timeout=settings.connect_timeout),
            earlier=earlier,
            is_allowed=settings.allows_in_use,
        )
        return guard.add_usage(plan, state)

    def guard_of(self, cluster: str) -> WriteGuard:
        """Return the guard of the deletions of a cluster's plan."""
        guard = self._guards.get(cluster)
        return guard.check if guard else write_all

    def _collect_results(self, work: Callable[[str], T], max_parallel: int) -> dict[str, T]:
        results, self.errors = map_parallel(self.specs, work, max_parallel)
        for name, error in self.errors.items():
            self.fail(error, name)
        return results

    def fail(self, error: TopiaristError, cluster: str = "") -> None:
        """Report an error that makes the run fail at its end; ``cluster`` is empty if it is not that of one cluster."""
        self.failures.append((cluster, error))
        self.error_code = worst_exit_code((self.error_code, error.reason.exit_code))
        self._listener.on_error(error, cluster)

    def _connect(self, spec: ClusterSpec) -> OpenCluster:
        """Open a session.

        Reports the address if connecting takes long, and adds the origin of the address to an ``Unreachable`` error.
        """
        settings = self._settings
        by_kafka = isinstance(spec.access, KafkaAccess)
        option, path = ("--bootstrap-servers", BOOTSTRAP_SERVERS) if by_kafka else ("--zookeeper", CONNECT)
        remedy = f"{option} HOST:PORT overrides it"
        if settings.address_option or spec.source is None:
            origin = settings.address_source
            if origin == option:
                remedy = "correct it there"
        else:
            origin = f"Cluster {spec.name} at {spec.source.locate(path)}"
            if len(self.specs) > 1:  # the option would apply to all clusters
                remedy = "correct it there"
        servers = spec.access.servers if spec.access else ""
        text = f"connecting to {servers}, given by {origin}"
        notice = threading.Timer(_CONNECT_NOTICE_DELAY_S, self._listener.on_pause, (text,))
        notice.daemon = True
        notice.start()
        try:
            return open_cluster(
                spec,
                owner=settings.owner,
                connect_timeout=settings.connect_timeout,
                lock_timeout=settings.lock_timeout,
                on_notice=lambda text: self._listener.on_message(
                    f"{spec.name}: {text}" if spec.name else text, important=True
                ),
            )
        except TopiaristError as error:
            if error.reason is Reason.UNREACHABLE and not error.hint:
                error.hint = f"the address was given by {origin}; {remedy}"
            raise
        finally:
            notice.cancel()


def map_parallel(
    names: Iterable[str], work: Callable[[str], T], max_parallel: int
) -> tuple[dict[str, T], dict[str, TopiaristError]]:
    """Return the result of ``work`` for each name and the error for each failed name, both in order of name.

    At most ``max_parallel`` names are worked on at a time, in daemon threads. Any exception except ``TopiaristError``
    is raised here, as is Ctrl-C: then no further work is started, and running work is not awaited.
    """
    waiting = deque(names)
    total = len(waiting)
    ended: SimpleQueue[tuple[str, BaseException | None]] = SimpleQueue()
    results: dict[str, T] = {}
    errors: dict[str, TopiaristError] = {}

    def run() -> None:
        with suppress(IndexError):
            while True:
                name = waiting.popleft()
                try:
                    results[name] = work(name)
                    ended.put((name, None))
                except BaseException as error:  # reraised in the calling thread
                    ended.put((name, error))

    # Not concurrent.futures: Python waits for its threads at exit, so Ctrl-C would wait for a server that hangs.
    for _ in range(min(max_parallel, total)):
        threading.Thread(target=run, name="cluster", daemon=True).start()
    try:
        for _ in range(total):
            name, error = ended.get()
            if isinstance(error, TopiaristError):
                errors[name] = error
            elif error is not None:
                raise error
    finally:
        waiting.clear()
    return dict(sorted(results.items())), dict(sorted(errors.items()))


def stream_parallel(
    names: Iterable[str], work: Callable[[str], T], max_results: int
) -> Iterator[tuple[str, T | TopiaristError]]:
    """Yield each name with its result or its error, in the given order.

    At most ``max_results`` results exist at a time: those in work, those that wait, and the one that the caller uses.
    The next work starts when the caller asks for the next result. Threads and other exceptions are as in
    ``map_parallel``, but an exception is raised in its place in the order.
    """
    waiting = iter(names)
    started: deque[tuple[str, SimpleQueue[T | BaseException]]] = deque()

    def run(name: str, answer: SimpleQueue[T | BaseException]) -> None:
        try:
            answer.put(work(name))
        except BaseException as error:  # reraised in the calling thread
            answer.put(error)

    def start(number: int) -> None:
        for name in islice(waiting, number):
            started.append((name, SimpleQueue()))
            threading.Thread(target=run, args=started[-1], name="cluster", daemon=True).start()

    start(max(max_results - 1, 1))
    while started:
        name, answer = started.popleft()
        result = answer.get()
        if isinstance(result, BaseException) and not isinstance(result, TopiaristError):
            raise result
        yield name, result
        start(1)


def run_all(works: Iterable[Callable[[], object]], timeout: float) -> None:
    """Run all works in parallel, and wait for them at most ``timeout`` seconds."""
    threads = [threading.Thread(target=work, name="closing", daemon=True) for work in works]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + timeout
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
