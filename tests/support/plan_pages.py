"""Plans of any size with every kind of change, refusal and notice, for tests and figures of the page of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from support.builders import CLUSTER_ID, RACKED_BROKERS, spec, spread_replicas, topic
from support.plans import KEY_REMAPPING_RISK, OWN_RECORD, RETENTION_CHANGE
from topiarist.errors import Reason
from topiarist.kafka.types import Broker
from topiarist.model.moves import LeaderChange, MoveKind, MoveSettings, ReplicaMove
from topiarist.model.plan import (
    AddPartitions,
    Change,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    Issue,
    Load,
    MoveReplicas,
    Plan,
    Risk,
    RiskAssessment,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.spec import LimitedResource, LimitUsage
from topiarist.model.state import WriteBlock
from topiarist.output.html.plan import format_plans

HELD = Issue(
    Reason.NOT_ADOPTED,
    "exists, has no ownership record, and differs from its spec",
    hint="to adopt and change it, pass --adopt=TOPIC, or --adopt='*' for all topics",
    withheld=(UpdateConfig((RETENTION_CHANGE,)),),
)
DEFAULTS = ConfigItem("min.insync.replicas", "1", "2", RiskAssessment(Risk.SAFE), inherited=True)
MOVED = RiskAssessment(Risk.DISRUPTIVE, "brokers copy 2 replicas")


def _moves(name: str, partitions: int) -> MoveReplicas:
    lists = spread_replicas(partitions)
    moved = tuple(
        ReplicaMove(name, at, before, (before[1], before[2], before[2] % 6 + 1), (MoveKind.RACKS, MoveKind.SPREAD))
        for at, before in enumerate(lists)
    )
    return MoveReplicas(moved, MOVED)


def _changes(name: str, number: int) -> tuple[Change, ...]:
    """Return the changes of a topic; the number chooses their kind."""
    match number % 10:
        case 0:
            return (CreateTopic(spread_replicas(6), {"cleanup.policy": "compact", "retention.ms": "604800000"}),)
        case 1:
            return (AddPartitions(6, (1, 2, 3), spread_replicas(6), KEY_REMAPPING_RISK),)
        case 2:
            return (_moves(name, 3),)
        case 3:
            return (UpdateConfig((RETENTION_CHANGE, ConfigItem("segment.bytes", None, "1073741824", DEFAULTS[3]))),)
        case 4:
            return (ElectLeaders((LeaderChange(0, 2, 1),), RiskAssessment(Risk.DISRUPTIVE, "clients reconnect")),)
        case 5:
            return (DeleteTopic(6, 18, RiskAssessment(Risk.DATA_LOSS, "all messages will be deleted")),)
        case 6:
            return (TakeOwnership(),)
        case 7:
            return (UpdateConfig((DEFAULTS, ConfigItem("flush.ms", "9000", None, DEFAULTS[3]))),)
        case 8:
            return (
                UpdateConfig((ConfigItem("max.message.bytes", "1048588", "2097152", KEY_REMAPPING_RISK),)),
                AddPartitions(3, (1, 2, 3), spread_replicas(3), KEY_REMAPPING_RISK),
            )
    return ()


def make_topic(name: str, number: int) -> TopicPlan:
    """Return the plan of a topic of any kind, by its number."""
    changes = _changes(name, number)
    exists = number % 10 not in (0,)
    notices = (Issue(Reason.UNMANAGED, "flush.ms is set by another client"),) if number % 20 == 3 else ()
    refusals = (HELD._replace(hint=HELD.hint.replace("TOPIC", name)),) if number % 10 == 9 else ()
    return TopicPlan(
        topic=name,
        before=topic(name) if exists else None,
        record_before=OWN_RECORD if exists else None,
        record_after=OWN_RECORD,
        changes=changes,
        refusals=refusals,
        notices=notices,
        observe_only=number % 40 == 13,
        spec=spec(name, positions={("spec", "partitions"): (9, 15)}),
    )


def make_plan(topics: int, cluster: str = "prod-eu", brokers: int = 6) -> Plan:
    """Return the plan of a cluster with this many topics to review."""
    names = [f"shop.{('orders', 'clicks', 'payments', 'audit')[at % 4]}.{at:05}" for at in range(topics)]
    return Plan(
        cluster=cluster,
        cluster_id=CLUSTER_ID,
        brokers=RACKED_BROKERS if brokers == 6 else tuple(Broker(at, f"rack-{at % 3}") for at in range(1, brokers + 1)),
        topics=tuple(make_topic(name, at) for at, name in enumerate(names)),
        unchanged=812,
        orphans=("legacy.imports", "legacy.exports"),
        warnings=("written to ZooKeeper directly: the brokers' topic and config policies are not checked",),
        load={broker: Load(100 + 7 * broker, 300 + 20 * broker) for broker in range(1, brokers + 1)},
        limits=(LimitUsage("team-limits", "team=shop", LimitedResource.PARTITIONS, 96, 108, 200),),
        drain_brokers=frozenset({1}),
        move_settings=MoveSettings(frozenset({MoveKind.DRAIN}), 50 << 20),
    )


def make_plans() -> list[Plan]:
    """Return two planned clusters, and one with a write block."""
    frozen = make_plan(20, "prod-us")
    block = WriteBlock(Reason.FROZEN, "frozen by ada: moving racks")
    held = tuple(
        replace(each, changes=(), refusals=(Issue(Reason.FROZEN, block.message, withheld=each.changes),))
        for each in frozen.topics
        if each.changes
    )
    return [make_plan(60), replace(frozen, topics=held, write_block=block), Plan("test", "id-of-test", unchanged=3)]


def make_hostile_plan(texts: Sequence[str]) -> Plan:
    """Return a plan with hostile names, values, messages, hints, files and warnings."""
    topics = []
    for text in texts:
        item = ConfigItem(f"x.{text}", text, f"{text}!", RiskAssessment(Risk.DISRUPTIVE, text))
        issue = Issue(Reason.POLICY_DENIED, text, ("config", text), text)
        changes = (UpdateConfig((item,)),)
        topics.append(TopicPlan(text, topic(text), OWN_RECORD, OWN_RECORD, changes, (issue,), (issue,)))
    return replace(make_plan(0, texts[0]), topics=tuple(topics), warnings=tuple(texts), orphans=tuple(texts))


def write_page(path: Path, plans: Sequence[Plan], failed: Sequence[str] = ()) -> Path:
    """Write the page of these plans and return its path."""
    path.write_text(format_plans(plans, failed, "/repo"))
    return path
