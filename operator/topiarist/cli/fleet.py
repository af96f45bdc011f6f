"""The clusters of a run: a session each, their plans, and what became of them.

Clusters are read at the same time, and what is said of them is said in order of name. A cluster that cannot be read is
named and fails the run at its end; the others are still planned and applied.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TypeVar

from topiarist.adapters.zookeeper import ZooKeeperCluster
from topiarist.cli import terminal
from topiarist.cli.parallel import at_once, for_each
from topiarist.core.change import Plan
from topiarist.core.plan import Run
from topiarist.core.spec import ClusterSpec
from topiarist.core.units import count
from topiarist.desired import Desired
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.reconcile import Cluster, Inspected, survey, worst
from topiarist.settings import Settings

T = TypeVar("T")

AT_ONCE = 16
"""Clusters worked on at the same time. Near by, four would do; at a round trip of 20 ms sixteen take a quarter of the
time that one by one takes, and more gain nothing. So many that do not answer are waited for together.
"""

_SILENCE = 0.9
"""Seconds without a connection after which it is said what is being tried."""

_PATIENCE = 2.0
"""Seconds for the end of all sessions: where a server hangs it ends them by itself a little later."""


class Fleet:
    """Opens one session per cluster and closes them all at the end; with ``keep=False`` each as soon as it has been of
    use. ``error_code`` is ``DONE`` as long as none failed, ``failed`` has why others did, ``clusters`` those whose
    sessions are kept.
    """

    def __init__(self, specs: Mapping[str, ClusterSpec], settings: Settings, *, keep: bool = True) -> None:
        self._specs = specs
        self._settings = settings
        self._keep = keep
        self._open: list[ZooKeeperCluster] = []
        self.clusters: dict[str, ZooKeeperCluster] = {}
        self.error_code = Exit.DONE
        self.failed: dict[str, TopiaristError] = {}

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Whoever presses Ctrl-C now has no more patience, but what was done is done and has been said.
        with suppress(KeyboardInterrupt):
            at_once([cluster.close for cluster in self._open], _PATIENCE)

    def each(self, work: Callable[[str, ZooKeeperCluster], T]) -> dict[str, T]:
        """What ``work`` gives for every cluster that can be reached, by name; the others are named on stderr.

        ``work`` runs in several threads at a time.
        """
        return self._gathered(lambda name: self._in_session(name, work), AT_ONCE)

    def survey(self, desired: Desired, run: Run) -> list[Plan]:
        """The plan of every cluster that could be read, in order of name; the others are named on stderr."""

        def plan(name: str, cluster: Cluster) -> Plan:
            return survey(cluster, desired.clusters[name], desired.specs[name], run)

        plans = self._without_twins(list(self.looked_at(plan).values()))
        self._account(desired, plans)
        return plans

    def looked_at(self, work: Callable[[str, Inspected], T]) -> dict[str, T]:
        """As ``each``, with snapshots in place of the clusters if the run has them."""
        if not self._settings.snapshot:
            return self.each(work)
        from topiarist.cli.recorded import Recorded

        recorded = Recorded(self._settings)
        found = self._gathered(lambda name: work(name, recorded.cluster(self._specs[name])), 1)
        recorded.say_age()
        return found

    def _gathered(self, work: Callable[[str], T], most: int) -> dict[str, T]:
        found, self.failed = for_each(self._specs, work, most)
        for name, error in self.failed.items():
            self._fail(error, name)
        return found

    def _in_session(self, name: str, work: Callable[[str, ZooKeeperCluster], T]) -> T:
        cluster = self._connect(self._specs[name])
        self._open.append(cluster)
        result = work(name, cluster)
        if self._keep:
            self.clusters[name] = cluster
        else:
            self._open.remove(cluster)
            cluster.close()
        return result

    def _account(self, desired: Desired, plans: list[Plan]) -> None:
        """Say how many topics have no result, if any: each of the others has one, or its cluster would have failed."""
        planned = {plan.cluster for plan in plans}
        lost = sum(len(desired.specs[name]) for name in self._specs if name not in planned)
        if lost and len(self._specs) > 1:
            wanted = sum(len(desired.specs[name]) for name in self._specs)
            terminal.say(
                f"{len(planned)} of {count(len(self._specs), 'cluster')} planned;"
                f" without a result: {lost:,} of {count(wanted, 'topic')}"
            )

    def _fail(self, error: TopiaristError, cluster: str = "") -> None:
        self.error_code = worst((self.error_code, error.reason.exit))
        terminal.fail(error, cluster)

    def _without_twins(self, plans: list[Plan]) -> list[Plan]:
        """The plans but those whose connections lead to one cluster: which of them is meant, nobody here can know."""
        names: defaultdict[str, list[str]] = defaultdict(list)
        for plan in plans:
            names[plan.cluster_id].append(plan.cluster)
        for number, twins in names.items():
            if len(twins) > 1:
                self._fail(
                    TopiaristError(
                        Reason.WRONG_CLUSTER,
                        f"clusters {', '.join(twins)}: their addresses lead to one cluster, {number}; none is touched",
                        "mend the address of all but one, or take the other documents away",
                    )
                )
        return [plan for plan in plans if len(names[plan.cluster_id]) == 1]

    def _connect(self, spec: ClusterSpec) -> ZooKeeperCluster:
        """Open a session. Says where to if that takes a while, and where the address is from if it fails."""
        origin = self._origin(spec)
        words = terminal.plain_lines(f"connecting to {spec.connect.partition('/')[0]}, given by {origin}")
        notice = threading.Timer(_SILENCE, terminal.aside, (words,))
        notice.daemon = True
        if self._settings.verbosity >= 0:
            notice.start()
        try:
            return ZooKeeperCluster(
                spec.connect,
                owner=self._settings.owner,
                max_buffer=spec.max_buffer,
                connect_timeout=self._settings.connect_timeout,
                lock_timeout=self._settings.lock_timeout,
                credentials=spec.credentials,
            )
        except TopiaristError as error:
            if error.reason is Reason.UNREACHABLE and not error.hint:
                error.hint = f"the address was given by {origin}; {self._override()}"
            raise
        finally:
            notice.cancel()

    def _origin(self, spec: ClusterSpec) -> str:
        """Return what gave the address of a cluster: an option, a variable, or a document at its place."""
        if self._settings.zookeeper or spec.source is None:
            return self._settings.zookeeper_from
        return f"Cluster {spec.name} at {spec.source.place(('spec', 'zookeeper', 'connect'))}"

    def _override(self) -> str:
        """Return how to give another address in place of it."""
        if self._settings.zookeeper:
            given_by_option = self._settings.zookeeper_from == "--zookeeper"
            return "give another one there" if given_by_option else "--zookeeper HOST:PORT overrides it"
        return "--zookeeper HOST:PORT overrides it" if len(self._specs) == 1 else "correct it there"
