"""Decides whether reviewed replica lists can be used in place of those of a new plan.

A plan file from a branch is not trusted, so its lists must be possible and plausible: the brokers are those of the
review, and no broker gets far more than a new plan would give it. ``review`` and ``move_review`` call this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from topiarist.kafka.types import Broker, Replicas
from topiarist.model.plan import Change, RiskAssessment

_MAX_LOAD_FACTOR = 2
"""Maximum load of a broker, as a multiple of the load planned now.

With fewer brokers at the review each broker got more replicas, but not a multiple.
"""


class BrokerSets(Struct, frozen=True):
    """The reviewed, the current and the excluded brokers.

    ``excluded`` brokers get no new replicas.
    """

    reviewed: Mapping[int, Broker]
    current: Mapping[int, Broker]
    excluded: Collection[int]

    def unavailable_reason(self, replicas: Iterable[Replicas]) -> str:
        """Return why reviewed replica lists cannot be used; empty if they can."""
        for broker in sorted({broker for brokers in replicas for broker in brokers}):
            if broker in self.excluded:
                return f"its reviewed replica lists name broker {broker}, which this run excludes from new replicas"
            if broker not in self.current:
                return f"its reviewed replica lists name broker {broker}, which is not registered"
            if self.reviewed.get(broker) != self.current[broker]:
                return (
                    f"its reviewed replica lists name broker {broker}, which was in another rack or not registered then"
                )
        return ""

    def implausible_reason(self, planned: Sequence[Replicas], reviewed: Sequence[Replicas]) -> str:
        """Return why no planner would make the reviewed lists; empty if one would.

        The reviewed lists are compared with the lists that the planner makes now; neither may have an empty list.
        """
        planned_racks, reviewed_racks = (
            min(len(set(map(self._find_rack, replicas))) for replicas in lists) for lists in (planned, reviewed)
        )
        if reviewed_racks < planned_racks:
            return "its reviewed replica lists keep a partition in fewer racks than the lists of a new plan"
        for verb, length in (("leads", 1), ("holds", None)):  # the first replica is the preferred leader
            (broker, count), (_, planned_count) = (
                Counter(broker for replicas in lists for broker in replicas[:length]).most_common(1)[0]
                for lists in (reviewed, planned)
            )
            if count > _MAX_LOAD_FACTOR * planned_count:
                return (
                    f"with its reviewed replica lists broker {broker} {verb} {count:,} of its partitions, "
                    f"with the lists of a new plan at most {planned_count:,}"
                )
        return ""

    def _find_rack(self, broker: int) -> object:
        # A replica that stays may be on a broker that is not registered, which counts as a rack of its own.
        return self.current[broker].rack if broker in self.current else broker


ReviewedChange = tuple[Change, str]
"""A part of a change, and the reason not to apply it; empty if it may be applied."""


def describe_risk_increase(reviewed: RiskAssessment, planned: RiskAssessment) -> str:
    """Return how a change is riskier than it was at the review; empty if it is not."""
    if planned.risk <= reviewed.risk:
        return ""
    return f"was reviewed as {reviewed.risk.label}, and is {planned.risk.label} now: {planned.explanation}"
