"""What the brokers would refuse of a plan: rights of moves, and remote storage; nothing is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from kafka.protocol.metadata.metadata import MetadataResponse
from msgspec.structs import replace

from support.builders import CLUSTER_ID, PROD_CLUSTER, plan, spec, state, topic
from support.kafka.fake_kafka import FakeKafka
from topiarist.adapters.kafka_admin.connection.connection import NO_ID
from topiarist.adapters.kafka_admin.protocol import messages
from topiarist.adapters.kafka_admin.read.topic_reader import (
    NO_MOVES_WITHOUT_RECORDS,
    find_refusals,
    read_allowed_operations,
)
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import UNLIMITED, LeaderChange, MoveKind, MoveSettings
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    CreateTopic,
    ElectLeaders,
    Issue,
    MoveReplicas,
    Plan,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.state import AllowedOperations
from topiarist.ports import MoveOptions
from unit.adapters.kafka_admin.scripted_session import LOST, ScriptedSession, reply

ALTER, DESCRIBE_CONFIGS, ALTER_CONFIGS = 7, 10, 11
ALL = frozenset({ALTER, DESCRIBE_CONFIGS, ALTER_CONFIGS})
NOT_SAID = None
Some = frozenset[int] | None
THROTTLED = replace(PROD_CLUSTER, moves=MoveSettings(frozenset(MoveKind), 1000), drain_brokers=frozenset({6}))
FREE = replace(THROTTLED, moves=MoveSettings(frozenset(MoveKind), UNLIMITED))
REMOTE = {"remote.storage.enable": "true"}


def allowed(on_cluster: Some = ALL, on_topic: Some = ALL) -> Any:
    """Return an answer to Metadata with the operations that the user may do, as it leaves a broker."""
    topic_answer = MetadataResponse.MetadataResponseTopic
    answer = MetadataResponse(
        throttle_time_ms=0,
        brokers=[],
        cluster_id=CLUSTER_ID,
        controller_id=1,
        topics=[
            topic_answer(
                error_code=0,
                name="orders",
                topic_id=NO_ID,
                is_internal=False,
                partitions=[],
                authorized_operations=on_topic,
            )
        ],
        authorized_operations=on_cluster,
    )
    return messages.MetadataResponse.decode(bytes(answer.encode(version=10)), version=10)


def refused(session: ScriptedSession, on: Any) -> Sequence[Issue]:
    """Return the refusals of the moves of ``orders`` away from broker 6."""
    moving = plan(state(topic("orders", ((1, 6), (2, 3)))), spec("orders", on, partitions=2), on=on)
    assert moving.topics[0].moves()
    return find_refusals(session, moving).get("orders", ())  # type: ignore[arg-type]


def lacks(what: str, *rights: str) -> list[tuple[str, str]]:
    """Return the message and the hint of a refusal; none without a right that is missing."""
    needed = ", ".join(f"the permission {each}" for each in rights)
    hint = "grant the permission: docs/connections.md lists those that moves need"
    return [(f"to {what} it needs {needed}", hint)] if rights else []


ON_CLUSTER = tuple(f"{each} on the cluster" for each in ("Alter", "DescribeConfigs", "AlterConfigs"))


@pytest.mark.parametrize(
    ("on_cluster", "on_topic", "free", "throttled"),
    [
        (ALL, ALL, (), ()),
        (NOT_SAID, NOT_SAID, (), ()),
        (ALL - {ALTER}, ALL, ON_CLUSTER[:1], ON_CLUSTER[:1]),
        (frozenset(), ALL, ON_CLUSTER[:1], ON_CLUSTER),
        (frozenset(), frozenset(), ON_CLUSTER[:1], (*ON_CLUSTER, "AlterConfigs on the topic")),
        (ALL - {ALTER_CONFIGS}, ALL, (), ON_CLUSTER[2:]),
        (ALL - {DESCRIBE_CONFIGS}, ALL, (), ON_CLUSTER[1:2]),
        (ALL, frozenset({ALTER}), (), ("AlterConfigs on the topic",)),
    ],
)
def test_a_move_needs_its_rights(
    on_cluster: Some, on_topic: Some, free: tuple[str, ...], throttled: tuple[str, ...]
) -> None:
    """Each right that a move lacks is named; those of throttles are needed only for one; silence denies nothing."""
    for on, wanted in ((FREE, lacks("move replicas", *free)), (THROTTLED, lacks("throttle the copies", *throttled))):
        issues = refused(ScriptedSession({"Metadata": allowed(on_cluster, on_topic)}), on)
        assert [(each.message, each.hint) for each in issues] == wanted
        for each in issues:
            assert (each.reason, each.field, [*map(type, each.withheld)]) == (Reason.NO_PERMISSION, (), [MoveReplicas])


def test_elections_need_a_right_of_their_own() -> None:
    """Their refusal withholds them alone."""
    election = ElectLeaders((LeaderChange(0, 2, 1),), SAFE_ASSESSMENT)
    electing = Plan("prod", "", topics=(TopicPlan("orders", changes=(election,)),))
    session: Any = ScriptedSession({"Metadata": allowed(frozenset())})
    ((message, hint),) = lacks("elect leaders", "Alter on the cluster")
    assert find_refusals(session, electing) == {"orders": [Issue(Reason.NO_PERMISSION, message, (), hint, (election,))]}


@pytest.mark.parametrize("may_move", [True, False])
def test_without_records_nothing_is_moved(may_move: bool) -> None:
    """The refusal withholds the moves alone and says what to do, whether or not the rights for them are there."""
    changed = spec("orders", FREE, partitions=2, config={"retention.ms": 5})
    moving = plan(state(topic("orders", ((1, 6), (2, 3)))), changed, on=FREE)
    session: Any = ScriptedSession({"Metadata": allowed(ALL if may_move else frozenset())})
    first, *denied = find_refusals(session, moving, keeps_records=False)["orders"]
    assert (first.reason, first.message) == (Reason.NOT_OFFERED, NO_MOVES_WITHOUT_RECORDS)
    assert first.hint == "move them with the service's own tool, or keep records"
    assert [type(change) for change in first.withheld] == [MoveReplicas]
    assert bool(denied) is not may_move


def test_a_question_about_rights_creates_no_topic() -> None:
    """Brokers create a topic that Metadata name unless they are told not to; the operations have to be asked for."""
    session = ScriptedSession({"Metadata": allowed()})
    refused(session, FREE)
    (request,) = (each.request for each in session.sent)
    assert [each.name for each in request.topics] == ["orders"]
    assert request.allow_auto_topic_creation is False
    assert request.include_cluster_authorized_operations is True
    assert request.include_topic_authorized_operations is True


def test_a_saved_plan_of_moves_that_are_not_offered() -> None:
    """A run refuses the moves before it writes a record or a throttle."""
    kafka = FakeKafka()
    moving = plan(state(topic("orders", ((1, 6), (2, 3)))), spec("orders", FREE, partitions=2), on=FREE)
    with pytest.raises(TopiaristError, match=r"do not offer AlterPartitionReassignments, .* move replicas") as caught:
        list(kafka.open().move(moving, MoveOptions(), lambda: False))
    assert caught.value.reason is Reason.NOT_OFFERED
    assert kafka.cluster.sent == []


def test_a_broken_connection_is_tried_again() -> None:
    """A lost answer is asked for again, and an old broker that cannot say denies nothing."""
    assert refused(ScriptedSession({"Metadata": [LOST, allowed(frozenset())]}), FREE)
    session = ScriptedSession({})
    session.versions = {"Metadata": 7}
    assert refused(session, THROTTLED) == ()


@pytest.mark.parametrize(
    ("code", "value", "is_refused"),
    [(0, "false", True), (0, "true", False), (31, None, False)],
    ids=["off", "on", "denied"],
)
def test_remote_storage_needs_brokers_that_have_it(code: int, value: str | None, is_refused: bool) -> None:
    """A creation and a change are refused without tiered storage; what may not be read refuses nothing."""
    configs = [reply(name="remote.log.storage.system.enable", value=value)] if value else []
    answer = reply(results=[reply(error_code=code, configs=configs)])
    metadata = reply(topics=[], brokers=[reply(node_id=1, rack=None)], controller_id=1, cluster_id=CLUSTER_ID)
    session = ScriptedSession({"Metadata": metadata, "DescribeConfigs": answer})
    on = replace(PROD_CLUSTER, broker_config={"remote.log.storage.system.enable": "true"})
    wanted = [
        spec("new", on, partitions=1, replicationFactor=1, config=REMOTE),
        spec("orders", on, config=REMOTE),
        spec("plain", on),
    ]
    issues = find_refusals(session, plan(state(topic("orders")), *wanted, on=on))  # type: ignore[arg-type]
    assert {name: [*map(type, issue.withheld)] for name, (issue,) in issues.items()} == (
        {"new": [CreateTopic], "orders": [UpdateConfig]} if is_refused else {}
    )
    for (issue,) in issues.values():
        assert (issue.reason, issue.field) == (Reason.CONFIG_INVALID, ("config", "remote.storage.enable"))
        assert (
            issue.message
            == "remote.storage.enable is true, and the brokers have remote.log.storage.system.enable=false"
        )
        assert issue.hint == "remove remote.storage.enable, or configure tiered storage on the brokers"
    (asked,) = (each.request.resources for each in session.sent if each.name == "DescribeConfigs")
    assert [(each.resource_type, each.resource_name, each.configuration_keys) for each in asked] == [
        (4, "1", ["remote.log.storage.system.enable"])
    ]
    off = [spec("orders", on, config={"remote.storage.enable": "false", "retention.ms": 5})]
    session.sent.clear()
    assert find_refusals(session, plan(state(topic("orders")), *off, on=on)) == {}  # type: ignore[arg-type]
    assert session.sent == []


@pytest.mark.parametrize(("code", "on_group"), [(0, {"Describe"}), (16, {"Describe"}), (69, {"Describe"}), (30, set())])
def test_the_operations_that_a_user_may_do(code: int, on_group: set[str]) -> None:
    """Numbers are names, also those of later versions are no error; a group that is elsewhere may be described."""
    groups = reply(groups=[reply(error_code=code)])
    session = ScriptedSession(
        {"Metadata": allowed(frozenset({5, 8, 9, 12}), frozenset({3, 10})), "DescribeGroups": groups}
    )
    found = read_allowed_operations(session)  # type: ignore[arg-type]
    assert (found.on_cluster, found.on_topics) == ({"Create", "Describe"}, {"orders": {"Read", "DescribeConfigs"}})
    assert found.on_group is not None
    assert {*found.on_group} == on_group
    assert (session.sent[0].version, session.sent[0].request.topics) == (10, None)
    assert session.sent[1].request.groups == ["topiarist"]  # whatever there is: no group of a user is named
    session.unsupported.add("DescribeGroups")
    session.versions = {"Metadata": 7}
    assert read_allowed_operations(session) == AllowedOperations(None, {}, None)  # type: ignore[arg-type]


def test_each_operation_has_its_number() -> None:
    """They are those of Kafka's ``AclOperation``; what a broker does not say is not known."""
    names = {3: "Read", 4: "Write", 5: "Create", 6: "Delete", 7: "Alter", 8: "Describe"}
    names |= {10: "DescribeConfigs", 11: "AlterConfigs"}
    for number in range(2, 14):
        session = ScriptedSession({"Metadata": allowed(frozenset({number}), None), "DescribeGroups": reply(groups=[])})
        found = read_allowed_operations(session)  # type: ignore[arg-type]
        assert found.on_cluster == ({names[number]} if number in names else set())
        assert found.on_topics == {"orders": None}


def test_a_plan_without_such_changes_asks_nothing() -> None:
    """No request is sent for changes that need no special right."""
    session = ScriptedSession({})
    assert find_refusals(session, plan(state(), spec("new", config={"retention.ms": 5}))) == {}  # type: ignore[arg-type]
    assert session.sent == []
