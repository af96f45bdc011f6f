"""M21, M23, M24, M32, M33, M36 and M39: plans of moves that the cluster, the file or the budget contradicts."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from faults.conftest import FaultStatistics
from support.zookeeper import moves as scene
from support.zookeeper.moves import (
    DRAINING,
    LISTS,
    RECORD,
    REQUEST,
    SETTINGS,
    MovingCluster,
    OnceInFlight,
    moving_cluster,
    outcome_of,
)
from topiarist.adapters.devcluster import seed
from topiarist.adapters.devcluster.seed import Topic
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.saved_plans.decode import parse_plan_file
from topiarist.adapters.saved_plans.encode import compute_fingerprint, dumps, encode_plans
from topiarist.errors import Reason, TopiaristError
from topiarist.filters.chain import enforce_budgets
from topiarist.kafka.types import Broker, KafkaVersion
from topiarist.model.outcome import Result
from topiarist.model.plan import AddPartitions, Plan
from topiarist.model.spec import Budgets

pytestmark = pytest.mark.timeout(300)


def test_m21_growth_and_moves_of_one_topic(moving: MovingCluster) -> None:
    """The moves come first; growth is held back with that reason, and made by the next run."""
    spec = scene.topic(partitions=8)
    plan = moving.plan(spec)
    assert not any(isinstance(change, AddPartitions) for change in plan.topics[0].changes)
    assert Reason.AFTER_MOVES in {refusal.reason for refusal in plan.topics[0].refusals}
    moving.apply(plan)
    assert moving.problems(plan) == []
    grown = moving.plan(spec)
    assert [type(change) for change in grown.topics[0].changes] == [AddPartitions]
    assert outcome_of(moving.apply(grown)).result is Result.DONE
    assert len(moving.lists()) == 8


def test_m23_unknown_fields_of_a_topic(moving: MovingCluster) -> None:
    """The controller would drop them: refused in the plan, and a conflict if they appear afterwards."""
    plan = moving.plan()
    moving.change("/brokers/topics/orders", vendor={"tier": 1})
    (refusal,) = moving.plan().topics[0].refusals
    assert refusal.reason is Reason.UNKNOWN_FIELDS
    assert outcome_of(moving.apply(plan)).result is Result.CONFLICT
    assert moving.read("/brokers/topics/orders")["vendor"] == {"tier": 1}
    assert moving.client.exists(REQUEST) is None


def test_m23_a_hole_in_the_partition_ids(moving: MovingCluster) -> None:
    """Refused in the plan, and a conflict if it appears afterwards."""
    plan = moving.plan()
    partitions = moving.read("/brokers/topics/orders")["partitions"]
    moving.change("/brokers/topics/orders", partitions={key: partitions[key] for key in partitions if key != "1"})
    assert Reason.PARTITIONS_MALFORMED in {refusal.reason for refusal in moving.plan().topics[0].refusals}
    outcome = outcome_of(moving.apply(plan))
    assert (outcome.result, outcome.message) == (Result.CONFLICT, "partition 1 existed, and does not exist now")
    assert moving.client.exists(REQUEST) is None


def test_m23_the_topic_id_is_kept(moving: MovingCluster) -> None:
    """Topiarist writes no topic znode: what the controller writes has the id of before."""
    identity = moving.read("/brokers/topics/orders")["topic_id"]
    assert outcome_of(moving.apply(moving.plan())).result is Result.DONE
    assert moving.read("/brokers/topics/orders")["topic_id"] == identity


@pytest.mark.parametrize(("release", "version"), [((2, 4), 1), ((2, 4), 2), ((2, 8), 3), ((3, 9), 3)])
def test_m39_topics_of_old_controllers(zookeeper: EmbeddedZooKeeper, release: KafkaVersion, version: int) -> None:
    """Topic znodes of version 1, 2 and 3, with and without an id: the same lists."""
    on = replace(DRAINING, version=release)
    with moving_cluster(zookeeper.connect, version=release) as kafka:
        if version == 1:
            partitions = kafka.read("/brokers/topics/orders")["partitions"]
            kafka.client.set("/brokers/topics/orders", seed.as_json({"version": 1, "partitions": partitions}))
        assert kafka.read("/brokers/topics/orders")["version"] == version
        plan = kafka.plan(on=on)
        assert outcome_of(kafka.apply(plan)).result is Result.DONE
        assert kafka.problems(plan) == []
    with moving_cluster(zookeeper.connect) as newest:
        assert scene.moves_by_topic(newest.plan()) == scene.moves_by_topic(plan)


def test_m24_a_plan_that_was_not_edited(moving: MovingCluster) -> None:
    """A saved plan is read back with its moves, and is carried out."""
    saved = moving.plan()
    (plan,) = parse_plan_file(dumps(encode_plans((saved,))).encode(), "plan.json").plans
    assert scene.moves_by_topic(plan) == scene.moves_by_topic(saved)
    assert outcome_of(moving.apply(plan)).result is Result.DONE
    assert moving.problems(saved) == []


def duplicate(after: list[int]) -> list[int]:
    """Name a broker twice."""
    return [after[0], after[0]]


def empty(_: list[int]) -> list[int]:
    """Name no broker."""
    return []


def negative(after: list[int]) -> list[int]:
    """Name a broker with a negative id."""
    return [after[0], -5]


def unknown(after: list[int]) -> list[int]:
    """Name a broker that the plan does not know."""
    return [9, after[1]]


@pytest.mark.parametrize("edit", [duplicate, empty, negative, unknown])
def test_m24_an_edited_plan_with_an_impossible_list(
    moving: MovingCluster, edit: Callable[[list[int]], list[int]]
) -> None:
    """The file is refused before anything is sent, although its fingerprint fits."""
    content = json.loads(dumps(encode_plans((moving.plan(),))))
    move = moves_in(content)[0]
    move["after"] = edit(move["after"])
    with pytest.raises(TopiaristError) as caught:
        parse_plan_file(signed(content), "plan.json")
    assert "edited" in str(caught.value) or "partition 0" in str(caught.value) or "schema" in str(caught.value)


def test_m24_a_plan_with_an_unknown_broker(moving: MovingCluster) -> None:
    """A target that the plan did not know is a conflict, also if it is registered by now; nothing is sent."""
    plan = moving.plan()
    target = plan.topics[0].moves()[0].added[0]
    known = tuple(broker for broker in plan.brokers if broker.id != target)
    outcome = outcome_of(moving.apply(replace(plan, brokers=known)))
    assert outcome.result is Result.CONFLICT
    assert f"broker {target}, a target, was not registered when the plan was made" in outcome.message
    assert moving.lists() == LISTS
    assert moving.client.exists(RECORD) is None


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"version":1}'])
def test_m24_an_edited_record_of_a_batch(moving: MovingCluster, data: bytes) -> None:
    """It says which throttles are topiarist's, so nothing is moved before a user has looked at it."""
    plan = moving.plan()
    assert outcome_of(moving.apply(plan)).result is Result.DONE
    moving.client.create(RECORD, data)
    report = moving.apply(plan)
    assert report.error is not None
    assert report.error.reason is Reason.UNREADABLE
    assert RECORD in str(report.error)
    assert moving.client.get(RECORD)[0] == data


def moves_in(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the moves of a saved plan."""
    changes = [change for plan in content["clusters"] for topic in plan["topics"] for change in topic["changes"]]
    return [move for change in changes for move in change.get("moves", ())]


def signed(content: dict[str, Any]) -> bytes:
    """Return a saved plan with a correct fingerprint."""
    return dumps({**content, "fingerprint": compute_fingerprint(content)}).encode()


def test_m32_the_rack_of_a_target_changes_after_the_plan(moving: MovingCluster) -> None:
    """The topic is a conflict: the racks that its lists were made for are no more."""
    plan = moving.plan()
    target = plan.topics[0].moves()[0].added[0]
    moving.change(f"/brokers/ids/{target}", rack="z")
    outcome = outcome_of(moving.apply(plan))
    assert outcome.result is Result.CONFLICT
    assert f"broker {target} was in rack" in outcome.message
    assert moving.lists() == LISTS


def test_m32_it_changes_between_two_batches(moving: MovingCluster) -> None:
    """The batch in flight ends, and no further one of the topic is sent."""
    plan = moving.plan()
    targets = {broker for move in plan.topics[0].moves() for broker in move.added}
    moving.lag()

    def change() -> None:
        for target in targets:
            moving.change(f"/brokers/ids/{target}", rack="z")
        moving.catch_up()

    outcome = outcome_of(moving.apply(plan, on_progress=OnceInFlight(change)))
    assert outcome.result is Result.CONFLICT
    assert sum(old != new for old, new in zip(LISTS, moving.lists(), strict=True)) == SETTINGS.batch.partitions
    assert moving.leftovers() == []


def test_m33_a_broker_joins_between_plan_and_apply(moving: MovingCluster) -> None:
    """The lists of the plan stand; the new broker gets nothing."""
    plan = moving.plan()
    moving.kafka.add_broker(Broker(7, "a"))
    assert outcome_of(moving.apply(plan)).result is Result.DONE
    assert moving.problems(plan) == []
    assert not any(7 in replicas for replicas in moving.lists())


@pytest.mark.parametrize(("budget", "limit"), [("moved_replicas", 4), ("moved_partitions", 4)])
@pytest.mark.parametrize("partial", [False, True])
def test_m36_a_budget_that_the_moves_exceed(
    zookeeper: EmbeddedZooKeeper, budget: str, limit: int, partial: bool, tally: FaultStatistics
) -> None:
    """Nothing is sent; with ``--partial`` the changes that the budget does not count are made."""
    with moving_cluster(zookeeper.connect, Topic("orders", LISTS, {}), Topic("other", ((1, 2),), {})) as kafka:
        other = scene.topic("other", partitions=1, replicationFactor=2, config={"retention.ms": 5})
        plan = budgeted(kafka.plan(scene.topic(), other), partial, **{budget: limit})
        report = kafka.apply(plan)
        assert kafka.lists() == LISTS
        assert kafka.leftovers() == []
        assert [outcome.topic for outcome in report.outcomes] == (["other"] if partial else [])
        allowed = budgeted(kafka.plan(scene.topic(), other), partial, **{budget: limit + 1})
        assert outcome_of(kafka.apply(allowed)).result is Result.DONE
        tally.set_cases(2)


def budgeted(plan: Plan, partial: bool, **limits: Any) -> Plan:
    """Return the plan within budgets, as the command line does."""
    return enforce_budgets(plan, Budgets(**limits), partial=partial)
