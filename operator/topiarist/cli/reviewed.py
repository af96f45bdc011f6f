"""``apply --reviewed``: plan from what was merged, and do what was reviewed too. A file from a branch adds nothing."""

from __future__ import annotations

from dataclasses import replace

from topiarist.cli import terminal
from topiarist.cli.fleet import Fleet
from topiarist.cli.forms import Manifests
from topiarist.cli.kept import opened, remark, require_known, require_same
from topiarist.core.change import Plan
from topiarist.core.review import allow_deletions, review, unneeded
from topiarist.errors import TopiaristError
from topiarist.reconcile import worst
from topiarist.settings import Settings


class Reviewed(Manifests):
    """Plan and do what a reviewed plan has too; that is the permission for what it holds, but for deletions."""

    name = "reviewed"

    def __init__(self, settings: Settings, path: str, unasked: bool) -> None:
        super().__init__(settings, unasked)
        plans, self.fingerprint = opened(path, settings.owner)
        self._reviewed = {plan.cluster: plan for plan in plans if settings.cluster in (None, plan.cluster)}
        require_known(self._reviewed, self.desired.clusters)

    def plans(self, fleet: Fleet) -> list[Plan]:
        """As they are planned now, without what was not reviewed; a cluster that is another one is left out."""
        found = []
        for plan in fleet.survey(self.desired, self.settings.run):
            try:
                if reviewed := self._reviewed.get(plan.cluster):
                    require_same(reviewed, plan.cluster_id, plan.location)
                    self._remark(plan, reviewed)
                found.append(self.allow(plan))
            except TopiaristError as error:
                fleet.error_code = worst((fleet.error_code, error.reason.exit))
                terminal.fail(error, plan.cluster)
        return found

    def permit(self, plan: Plan) -> Plan:
        """What was reviewed; without anybody to ask, deletions as far as the run's flags allow them."""
        reviewed = self._reviewed.get(plan.cluster) or replace(plan, topics=())
        allowed = review(plan, reviewed, self.settings.without_brokers)
        return allow_deletions(allowed, self.settings.allow_risk) if self.unasked else allowed

    def _remark(self, plan: Plan, reviewed: Plan) -> None:
        """Say what the reviewed plan has and nothing is to be done about any more."""
        declared = {spec.topic for spec in self.desired.specs[plan.cluster]}
        over = unneeded(plan, reviewed)
        for words, topics in (
            ("already done", [topic for topic in over if topic in declared]),
            ("reviewed, and not in the given paths", [topic for topic in over if topic not in declared]),
        ):
            if topics:
                self.remarks.append(remark(words, plan.cluster, topics))
