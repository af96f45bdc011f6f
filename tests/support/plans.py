"""Plans made by hand, for tests that are about how a plan is shown: no state is read and nothing is planned."""

from __future__ import annotations

from support.states import CLUSTER_ID, six_brokers, spec, topic
from topiarist.core.change import Change, ConfigItem, Finding, Plan, Risk, TopicPlan, Verdict
from topiarist.core.state import TopicRecord
from topiarist.render.page import Page
from topiarist.render.text import plans

HEADER = f"prod-eu   cluster {CLUSTER_ID}, 6 brokers in 3 racks,\n          controller 1 at epoch 42\n\n"
KEYS_MOVE = Verdict(Risk.DISRUPTIVE, "keys will map to other partitions")
LOSES = Verdict(Risk.DATA_LOSS, "messages older than 1 hour will be deleted")
HOUR = ConfigItem("retention.ms", "86400000", "3600000", LOSES)
OURS = TopicRecord("default")


def plan(*topics: TopicPlan, unchanged: int = 812) -> Plan:
    """A plan for six brokers that carry nothing yet."""
    return Plan(
        cluster="prod-eu",
        cluster_id=CLUSTER_ID,
        brokers=six_brokers(),
        topics=topics,
        unchanged=unchanged,
        controller=1,
        controller_epoch=42,
    )


def existing(name: str, *changes: Change, findings: tuple[Finding, ...] = ()) -> TopicPlan:
    """A topic of ours with these changes and refusals; its manifest is ``topics/NAME.yaml``."""
    return TopicPlan(
        topic=name,
        before=topic(name),
        record_before=OURS,
        record_after=OURS,
        changes=changes,
        refusals=findings,
        spec=spec(name, places={("spec", "partitions"): (9, 15)}),
    )


def shown(found: Plan, *, verbose: bool = False, width: int = 80) -> str:
    """The text of one plan below its header."""
    text = plans([found], Page(verbose=verbose, width=width))
    return text.removeprefix(HEADER)
