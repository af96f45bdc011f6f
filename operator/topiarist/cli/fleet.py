"""The clusters of a run: a session each, their plans, and what became of them.

A cluster that cannot be read is named and fails the run at its end; the others are still planned and applied.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import ExitStack
from types import TracebackType

from topiarist.adapters.zookeeper import ZooKeeperCluster
from topiarist.cli import terminal
from topiarist.core.change import Plan
from topiarist.core.plan import Run
from topiarist.core.spec import ClusterSpec
from topiarist.desired import Desired
from topiarist.errors import Exit, Reason, TopiaristError
from topiarist.reconcile import survey, worst
from topiarist.settings import Settings


class Fleet:
    """Opens one session per cluster and closes them all at the end. ``error_code`` is ``DONE`` as long as none
    failed.
    """

    def __init__(self, desired: Desired, settings: Settings) -> None:
        self._desired = desired
        self._settings = settings
        self._stack = ExitStack()
        self.clusters: dict[str, ZooKeeperCluster] = {}
        self.run = Run(
            owner=settings.owner,
            take_ownership=settings.take_ownership,
            adopt=settings.adopt,
            recreate=settings.recreate,
            without_brokers=settings.without_brokers,
            allow_unknown_brokers=settings.allow_unknown_brokers,
        )
        self.error_code = Exit.DONE

    def __enter__(self) -> Fleet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def survey(self) -> list[Plan]:
        """The plan of every cluster that could be read, in order of name; the others are named on stderr."""
        plans: list[Plan] = []
        for name, spec in sorted(self._desired.clusters.items()):
            if not self._desired.specs[name]:
                continue  # no topic is meant for it: no reason to connect
            try:
                cluster = self._stack.enter_context(self._connect(spec))
                plans.append(survey(cluster, spec, self._desired.specs[name], self.run))
            except TopiaristError as error:
                self.error_code = worst((self.error_code, error.reason.exit))
                terminal.fail(error, about=f"cluster {name}" if name else "")
            else:
                self.clusters[name] = cluster
        return self._without_twins(plans)

    def _without_twins(self, plans: list[Plan]) -> list[Plan]:
        """The plans but those whose connections lead to one cluster: which of them is meant, nobody here can know."""
        names: defaultdict[str, list[str]] = defaultdict(list)
        for plan in plans:
            names[plan.cluster_id].append(plan.cluster)
        for number, twins in names.items():
            if len(twins) > 1:
                self.error_code = worst((self.error_code, Reason.WRONG_CLUSTER.exit))
                terminal.fail(
                    TopiaristError(
                        Reason.WRONG_CLUSTER,
                        f"clusters {', '.join(twins)}: their addresses lead to one cluster, {number}; none is touched",
                        "mend the address of all but one, or take the other documents away",
                    )
                )
        return [plan for plan in plans if len(names[plan.cluster_id]) == 1]

    def _connect(self, spec: ClusterSpec) -> ZooKeeperCluster:
        return ZooKeeperCluster(
            spec.connect,
            owner=self._settings.owner,
            max_buffer=spec.max_buffer,
            connect_timeout=self._settings.connect_timeout,
            lock_timeout=self._settings.lock_timeout,
        )
