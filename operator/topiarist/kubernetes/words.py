"""What to do about a finding, in the words of Kubernetes: the flags of the command line are fields and annotations here."""

from __future__ import annotations

from topiarist.core.change import Finding
from topiarist.errors import Reason

_INSTEAD = {
    Reason.BROKERS_MISSING: "wait until it is back, or say that it is meant: excludeBrokers in the Cluster",
    Reason.BUDGET_EXCEEDED: "ask for less, or raise it in spec.budgets of the Cluster",
    Reason.DELETED_OUTSIDE: 'topiarist.dev/recreate: "true" on the Topic and allowRisk: [DataLoss] in the Cluster make it '
    "again; or delete the Topic to give it up",
    Reason.NOT_ADOPTED: "a pattern in spec.adopt of the Cluster takes it over",
    Reason.NOT_OWNED: 'leave it to its owner; or topiarist.dev/take-ownership: "true" on the Topic and allowRisk: [DataLoss] '
    "in the Cluster",
    Reason.UNKNOWN_BROKERS: "name brokers that the cluster has",
}
"""Where the command line would name a flag. Everything else reads the same in both."""


def told(finding: Finding) -> str:
    """A finding as a status and an event say it."""
    instead = _INSTEAD.get(finding.reason, finding.instead)
    return f"{finding.message}: {instead}" if instead else finding.message
