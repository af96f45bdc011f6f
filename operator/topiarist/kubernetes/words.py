"""What to do about a finding, in the words of Kubernetes: flags of the command line are fields and annotations here."""

from __future__ import annotations

from topiarist.core.change import Finding
from topiarist.errors import Reason
from topiarist.kubernetes import permission

_AGREED = 'topiarist.dev/{}: "true" on the Topic and allowRisk: [DataLoss] in the Cluster'

_INSTEAD = {
    Reason.BROKERS_MISSING: "wait until it is back, or name it in excludeBrokers of the Cluster if it is gone for good",
    Reason.BUDGET_EXCEEDED: "ask for less, or raise it in spec.budgets of the Cluster; deletions count for 24 hours",
    Reason.DELETED_OUTSIDE: f"{_AGREED.format(permission.RECREATE)} make it again; or delete the Topic to give it up",
    Reason.NOT_ADOPTED: "a pattern in spec.adopt of the Cluster takes it over",
    Reason.NOT_OWNED: f"leave it to its owner; {_AGREED.format(permission.TAKE_OWNERSHIP)} take it over",
    Reason.UNKNOWN_BROKERS: "name brokers that the cluster has",
}
"""Where the command line would name a flag. Everything else reads the same in both."""


def told(finding: Finding) -> str:
    """A finding as a status and an event say it."""
    instead = _INSTEAD.get(finding.reason, finding.instead)
    return f"{finding.message}: {instead}" if instead else finding.message
