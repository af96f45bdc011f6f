"""The alarms of the campaigns that remain: what they concern, and why they are not corrected."""

from __future__ import annotations

from collections.abc import Mapping

from campaigns.patterns import Case, Pattern

FINALIZER = (
    "A Topic without a Cluster needs no finalizer. If its Cluster is created, and the Topic is deleted before the "
    "operator has received the Cluster, a topic that is already owned stays in Kafka, although the Topic asks for its "
    "deletion. Nothing is lost."
)

REMAINING: Mapping[tuple[str, Pattern], str] = {
    ("ownership", Pattern.LAGGING): FINALIZER,
    ("ownership", Pattern.UNOBSERVED): FINALIZER,
}
"""The reason of the alarms of a workload and a pattern."""


def remaining_reason(case: Case, alarms: list[str]) -> str:
    """Return why the alarms of a case remain; empty if there are none, or not all of them are known."""
    reason = REMAINING.get((case.workload.name, case.pattern), "")
    return reason if alarms and all(alarm.startswith("topic orders: ") for alarm in alarms) else ""
