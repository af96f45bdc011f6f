"""The alarms of the campaigns that remain: what they concern, and why they are not corrected."""

from __future__ import annotations

from collections.abc import Mapping

from campaigns.patterns import Case, Pattern

CONSENT = (
    "A restarted operator that gets an old list writes the status of a Topic from before a consent, and the consent "
    "counts again. The user gave up the data of that change by the consent. An API server answers such a list with the "
    "newest state, so only a defective one causes it."
)

FINALIZER = (
    "A Topic without a Cluster needs no finalizer. If its Cluster is created, and the Topic is deleted before the "
    "operator has received the Cluster, a topic that is already owned stays in Kafka, although the Topic asks for its "
    "deletion. Nothing is lost."
)

REMAINING: Mapping[tuple[str, Pattern], str] = {
    ("consent to data loss", Pattern.RESTARTED): CONSENT,
    ("ownership", Pattern.LAGGING): FINALIZER,
    ("ownership", Pattern.UNOBSERVED): FINALIZER,
}
"""The reason of the alarms of a workload and a pattern."""


def remaining_reason(case: Case, alarms: list[str]) -> str:
    """Return why the alarms of a case remain; empty if they are not known."""
    reason = REMAINING.get((case.workload.name, case.pattern), "")
    kinds = {
        CONSENT: "extra destructive write: Write(topic='orders', kinds=('UpdateConfig',)",
        FINALIZER: "topic orders: ",
    }
    return reason if reason and all(alarm.startswith(kinds[reason]) for alarm in alarms) else ""
