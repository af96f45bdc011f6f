"""What to do about a finding, in the words of Kubernetes: flags of the command line are fields and annotations here."""

from __future__ import annotations

from topiarist.core.change import Finding
from topiarist.errors import Reason
from topiarist.kubernetes.details import found_and_wanted, old_and_new

_INSTEAD = {
    Reason.BROKERS_MISSING: "wait until it is back, or name it in excludeBrokers of the Cluster if it is gone for good",
    Reason.BUDGET_EXCEEDED: "ask for less, or raise it in spec.budgets of the Cluster; deletions count for 24 hours",
    Reason.NOT_ADOPTED: "a pattern in spec.adopt of the Cluster takes it over",
    Reason.UNKNOWN_BROKERS: "name brokers that the cluster has",
}
"""Where the command line would name a flag. Everything else reads the same in both."""


def told(finding: Finding) -> str:
    """Return a finding as a status and an Event say it: what was found, the fields that it holds back, what to do."""
    instead = _INSTEAD.get(finding.reason, finding.instead)
    return ": ".join(filter(None, (what(finding), instead)))


def what(finding: Finding) -> str:
    """Return what was found, without what to do about it, which depends on what is allowed already."""
    return f"{finding.message}{_held(finding)}"


def _held(finding: Finding) -> str:
    if finding.reason is Reason.DRIFT_DETECTED:
        words = found_and_wanted(finding.held)
        return f": {words}" if words else ""
    words = old_and_new(finding.held)
    return f" [{words}]" if words else ""
