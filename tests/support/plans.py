"""Manually built plans for tests of the plan output, without a cluster state and without planning."""

from __future__ import annotations

from support.builders import CLUSTER_ID, RACKED_BROKERS, spec, topic
from topiarist.model.plan import Change, ConfigItem, Issue, Plan, Risk, RiskAssessment, TopicPlan
from topiarist.model.state import OwnershipRecord
from topiarist.output.text.layout import TextLayout
from topiarist.output.text.plan import format_plans

HEADER = f"prod-eu   cluster {CLUSTER_ID}, 6 brokers in 3 racks, controller 1, epoch 42\n\n"
KEY_REMAPPING_RISK = RiskAssessment(Risk.DISRUPTIVE, "keys map to other partitions")
DATA_LOSS_RISK = RiskAssessment(Risk.DATA_LOSS, "messages older than 1 hour will be deleted")
RETENTION_CHANGE = ConfigItem("retention.ms", "86400000", "3600000", DATA_LOSS_RISK)
OWN_RECORD = OwnershipRecord("default")


def plan(*topics: TopicPlan, unchanged: int = 812) -> Plan:
    """Return a plan for six brokers without replicas."""
    return Plan(
        cluster="prod-eu",
        cluster_id=CLUSTER_ID,
        brokers=RACKED_BROKERS,
        topics=topics,
        unchanged=unchanged,
        controller=1,
        controller_epoch=42,
    )


def existing_topic_plan(name: str, *changes: Change, findings: tuple[Issue, ...] = ()) -> TopicPlan:
    """Return the plan of an owned topic with these changes and refusals; its manifest is ``topics/NAME.yaml``."""
    return TopicPlan(
        topic=name,
        before=topic(name),
        record_before=OWN_RECORD,
        record_after=OWN_RECORD,
        changes=changes,
        refusals=findings,
        spec=spec(name, positions={("spec", "partitions"): (9, 15)}),
    )


def render_plan(shown_plan: Plan, *, verbose: bool = False, width: int = 80) -> str:
    """Return the text of one plan below its header, for a terminal of this width."""
    text = format_plans([shown_plan], TextLayout(verbose=verbose, width=width, spare_width=0))
    return text.removeprefix(HEADER)
