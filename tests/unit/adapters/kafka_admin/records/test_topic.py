"""The topic of records: how it is found and created, and what a run refuses to write to."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from topiarist.adapters.kafka_admin.connection.connection import NO_ID, encode_topic_id
from topiarist.adapters.kafka_admin.protocol.messages import DeleteTopicsRequest, IncrementalAlterConfigsRequest
from topiarist.adapters.kafka_admin.records.codec import Lock, Meta, Records, TopicRecord
from topiarist.adapters.kafka_admin.records.topic import (
    HINT_NO_RECORDS,
    CreatedTopic,
    FoundTopic,
    _wanted_configs,
    build_meta,
    choose_replicas,
    create_topic,
    delete_topic,
    find_topic,
    lost_topic,
    require_compaction,
    require_own,
)
from topiarist.adapters.kafka_admin.records.transactions import Clock
from topiarist.adapters.own_values import encode_value
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import DEFAULT_RECORDS_TOPIC
from topiarist.model.state import OwnershipRecord, ReadError
from unit.adapters.kafka_admin.scripted_session import LOST, FakeTime, ScriptedSession, metadata, partition, reply

RECORDS_TOPIC = DEFAULT_RECORDS_TOPIC
TOPIC_ID = uuid.UUID(int=5)
FOUND = FoundTopic("cluster", encode_topic_id(TOPIC_ID))


def described(
    *partitions: Any, code: int = 0, name: str = RECORDS_TOPIC.name, topic_id: uuid.UUID = TOPIC_ID, **fields: Any
) -> Any:
    """Return an answer to Metadata with the topic."""
    answer = metadata({name: list(partitions)}, **fields)
    answer.topics[0].topic_id = topic_id
    answer.topics[0].error_code = code
    return answer


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (described(partition(0, 1)), FOUND),
        (described(partition(0, 1), code=5), FOUND),
        (described(partition(0, 1), partition(1, 1)), FOUND),
        (described(partition(0, 1), cluster_id=None), FoundTopic("", FOUND.topic_id)),
        (described(code=3), None),
        (metadata({}), None),
        (described(partition(0, 1), name="other"), None),
    ],
)
def test_the_topic_is_found(answer: Any, found: FoundTopic | None) -> None:
    """A topic without a leader exists, and one with more partitions; an unknown topic is none."""
    assert find_topic(ScriptedSession({"Metadata": answer}), RECORDS_TOPIC) == found


NAME = RECORDS_TOPIC.name
GRANT = "grant it with kafka-acls"


def error_of(call: Callable[[], object]) -> tuple[Reason, str, str]:
    """Return the reason, the message and the hint of the error that a call raises."""
    with pytest.raises(TopiaristError) as caught:
        call()
    return caught.value.reason, caught.value.message, caught.value.hint


READ, NO_ID_OF = f"cannot read {NAME}", f"the brokers give {NAME} no topic id, without which its records"
LACKS = f"User:ANONYMOUS lacks Describe on the topic {NAME} (TOPIC_AUTHORIZATION_FAILED)"
HINT_IDS = "topiarist needs brokers with topic ids: version 2.8 or later, also in inter.broker.protocol.version"


@pytest.mark.parametrize(
    ("answer", "reason", "message", "hint"),
    [
        (described(code=29), Reason.NO_PERMISSION, f"{READ}: {LACKS}", GRANT),
        (described(code=17), Reason.UNREADABLE, f"{READ}: INVALID_TOPIC_EXCEPTION (17)", ""),
        (described(partition(0, 1), code=6), Reason.UNREACHABLE, f"{READ}: NOT_LEADER_OR_FOLLOWER (6)", ""),
        (
            described(),
            Reason.RECORDS_LOST,
            f"{NAME} has no partitions, wanted partition 0",
            "delete it if nothing else uses it",
        ),
        (
            described(partition(0, 1), topic_id=NO_ID),
            Reason.PREREQUISITE_MISSING,
            f"{NO_ID_OF} cannot be trusted",
            HINT_IDS,
        ),
    ],
)
def test_another_topic_is_refused(answer: Any, reason: Reason, message: str, hint: str) -> None:
    """A topic that is hidden, unreadable, or has another shape."""
    session = ScriptedSession({"Metadata": answer})
    assert error_of(lambda: find_topic(session, RECORDS_TOPIC)) == (reason, message, hint)


def configs(value: str | None, code: int = 0) -> Any:
    """Return an answer to DescribeConfigs."""
    entries = [reply(name="other", value="compact"), reply(name="cleanup.policy", value=value)]
    return reply(results=[reply(error_code=code, configs=entries if value is not None else entries[:1])])


def test_a_compacted_topic() -> None:
    """The request asks for one key of the topic."""
    session = ScriptedSession({"DescribeConfigs": configs("compact")})
    require_compaction(session, RECORDS_TOPIC)
    (resource,) = session.sent[0].request.resources
    assert (resource.resource_type, resource.resource_name) == (2, RECORDS_TOPIC.name)
    assert resource.configuration_keys == ["cleanup.policy"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        *(
            (
                configs(policy),
                (
                    Reason.RECORDS_LOST,
                    f"{NAME} has cleanup.policy={policy}, wanted compact: Kafka deletes records of topiarist",
                    "set cleanup.policy=compact, and check the records",
                ),
            )
            for policy in ("delete", "compact,delete", None)
        ),
        (
            configs("compact", 29),
            (
                Reason.NO_PERMISSION,
                f"cannot read the configs of {NAME}: User:ANONYMOUS lacks DescribeConfigs on the topic {NAME}"
                " (TOPIC_AUTHORIZATION_FAILED)",
                GRANT,
            ),
        ),
        (reply(results=[]), (Reason.UNREADABLE, f"the answer of the brokers does not have the configs of {NAME}", "")),
    ],
)
def test_a_topic_that_may_lose_records(answer: Any, error: tuple[Reason, str, str]) -> None:
    """Only compaction alone keeps all records; what is not known to keep them is an error, too."""
    session = ScriptedSession({"DescribeConfigs": answer})
    assert error_of(lambda: require_compaction(session, RECORDS_TOPIC)) == error


class Creation:
    """The creation of the topic over a script, in virtual time."""

    def __init__(self, *answers: Any, code: int = 0, **fields: Any) -> None:
        self.clock = FakeTime()
        created = reply(topics=[reply(name=RECORDS_TOPIC.name, error_code=code, error_message="why")])
        self.session = ScriptedSession({"Metadata": [metadata({}, **fields), *answers], "CreateTopics": created})

    def run(self) -> FoundTopic:
        """Create the topic."""
        return self.create().found

    def create(self) -> CreatedTopic:
        """Create the topic; return also what this run has made."""
        clock = Clock(self.clock.now, self.clock.sleep, self.clock.random)
        return create_topic(self.session, RECORDS_TOPIC, clock)


@pytest.mark.parametrize(("code", "brokers"), [(0, (1, 2, 3)), (36, (1, 2, 3)), (0, (1,))])
def test_the_topic_is_created(code: int, brokers: tuple[int, ...]) -> None:
    """It is compacted, has one partition, and is returned once the brokers know it; another run may be faster.

    Commits need no second replica on a single broker.
    """
    creation = Creation(metadata({}), described(partition(0, 1)), code=code, brokers=brokers)
    assert creation.create() == (CreatedTopic(FOUND) if code else CreatedTopic(FOUND, FOUND.topic_id))
    assert len(creation.clock.slept) == 1
    (sent,) = (each for each in creation.session.sent if each.name == "CreateTopics")
    assert sent.broker == 3
    (wanted,) = sent.request.topics
    assert (wanted.name, [(each.partition_index, each.broker_ids) for each in wanted.assignments]) == (
        RECORDS_TOPIC.name,
        [(0, [*brokers])],
    )
    assert {each.name: each.value for each in wanted.configs} == {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "max.message.bytes": str(1 << 20),
        "message.timestamp.type": "LogAppendTime",
        "min.insync.replicas": "2" if len(brokers) > 1 else "1",
        "unclean.leader.election.enable": "false",
    }
    assert (sent.request.timeout_ms, sent.request.validate_only) == (10_000, False)


CREATE = f"cannot create {NAME}"
CREATE_LACKS = f"User:ANONYMOUS lacks Create on the topic {NAME} (TOPIC_AUTHORIZATION_FAILED)"
UNSUPPORTED = "the brokers do not support it (UNSUPPORTED_VERSION (35): why)"
REFUSED = {
    37: "INVALID_PARTITIONS",
    38: "INVALID_REPLICATION_FACTOR",
    39: "INVALID_REPLICA_ASSIGNMENT",
    40: "INVALID_CONFIG",
    42: "INVALID_REQUEST",
    44: "POLICY_VIOLATION",
    17: "INVALID_TOPIC_EXCEPTION",
}


@pytest.mark.parametrize(
    ("creation", "reason", "message", "hint"),
    [
        (Creation(code=29), Reason.NO_PERMISSION, f"{CREATE}: {CREATE_LACKS}", GRANT),
        *(
            (Creation(code=code), Reason.RECORDS_REFUSED, f"{CREATE}: {words} ({code}): why", HINT_NO_RECORDS)
            for code, words in REFUSED.items()
        ),
        (Creation(code=35), Reason.PREREQUISITE_MISSING, f"{CREATE}: {UNSUPPORTED}", HINT_NO_RECORDS),
        (Creation(code=41), Reason.UNREACHABLE, f"{CREATE}: NOT_CONTROLLER (41): why", ""),
        (Creation(brokers=()), Reason.UNREACHABLE, f"no broker is registered to hold {NAME}", "run again"),
        (Creation(metadata({})), Reason.UNREACHABLE, f"the brokers do not know the new topic {NAME}", "run again"),
    ],
)
def test_a_topic_that_cannot_be_created(creation: Creation, reason: Reason, message: str, hint: str) -> None:
    """The error names the right or the cause; after a minute the run waits no longer.

    A refusal that lasts has the way out; one that other brokers may not have has none.
    """
    assert error_of(creation.run) == (reason, message, hint)
    assert sum(creation.clock.slept) == (pytest.approx(60, abs=0.06) if "know" in message else 0)


def test_an_answer_that_does_not_have_the_topic() -> None:
    """Whether it was made is seen afterwards; no notice follows from sizes that were not told."""
    creation = Creation(described(partition(0, 1)))
    creation.session.script["CreateTopics"] = reply(topics=[])
    clock = Clock(creation.clock.now, creation.clock.sleep, creation.clock.random)
    assert create_topic(creation.session, RECORDS_TOPIC, clock) == CreatedTopic(FOUND, FOUND.topic_id)


@pytest.mark.parametrize(("made", "is_set"), [(1, True), (2, False), (-1, False), (0, False)])
def test_fewer_replicas_than_a_commit_needs(made: int, is_set: bool) -> None:
    """``min.insync.replicas`` is set to their number; a refusal of that ends the run."""
    creation = Creation(described(partition(0, 1)))
    answer = reply(name=NAME, error_code=0, error_message=None, num_partitions=1, replication_factor=made)
    creation.session.script["CreateTopics"] = reply(topics=[answer])
    creation.session.script["IncrementalAlterConfigs"] = reply(responses=[reply(error_code=0, error_message=None)])
    creation.run()
    sent = [each.request for each in creation.session.sent if each.name == "IncrementalAlterConfigs"]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    config = resource.AlterableConfig(name="min.insync.replicas", config_operation=0, value="1")
    wanted = resource(resource_type=2, resource_name=NAME, configs=[config])
    assert sent == [IncrementalAlterConfigsRequest(resources=[wanted], validate_only=False)] * is_set
    if is_set:
        creation.session.script["IncrementalAlterConfigs"] = reply(responses=[reply(error_code=44, error_message="no")])
        creation.session.script["Metadata"] = [metadata({}), described(partition(0, 1))]
        assert error_of(creation.run) == (
            Reason.RECORDS_REFUSED,
            f"cannot set min.insync.replicas=1 of {NAME}: POLICY_VIOLATION (44): no",
            "",
        )


@pytest.mark.parametrize(
    ("racks", "factor", "replicas"),
    [
        ({1: "", 2: "", 3: ""}, 3, (1, 2, 3)),
        ({3: "", 1: "", 2: ""}, 2, (1, 2)),
        ({1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}, 3, (1, 3, 5)),
        ({1: "a", 2: "a", 3: "b", 4: "b"}, 3, (1, 3, 2)),
        ({1: "a", 2: "a", 3: "a", 4: "b"}, 4, (1, 4, 2, 3)),
        ({1: "a"}, 3, (1,)),
        ({}, 3, ()),
    ],
)
def test_replicas(racks: dict[int, str], factor: int, replicas: tuple[int, ...]) -> None:
    """The replicas are on as many racks as possible, the lowest ids first."""
    assert choose_replicas(racks, factor) == replicas


# Services that refuse a part of the creation, or carry it out otherwise.

POLICY_VIOLATION = 44


class Service:
    """A service that refuses creations: ``refuse`` returns why, and is called with lists, factor and configs.

    ``factor`` and ``partitions`` are the sizes that it makes, whatever is asked for.
    """

    def __init__(
        self, refuse: Callable[[bool, int, set[str]], str], *, factor: int | None = None, partitions: int = 1
    ) -> None:
        self.refuse = refuse
        self.factor = factor
        self.partitions = partitions
        self.made: list[Any] = []
        self.asked = 0
        self.clock = FakeTime()
        self.session = ScriptedSession({"Metadata": self.describe, "CreateTopics": self.create})

    def describe(self, _broker: int, _request: Any) -> Any:
        """Return the topic if it was made."""
        made = (described(partition(0, 1)) for _ in self.made[:1])
        return next(made, metadata({}))

    def create(self, _broker: int, request: Any) -> Any:
        """Return the answer to a creation; make the topic unless it is refused, or validated only."""
        (wanted,) = request.topics
        self.asked += 1
        why = self.refuse(bool(wanted.assignments), wanted.replication_factor, {each.name for each in wanted.configs})
        if not (why or request.validate_only):
            self.made.append(wanted)
        count = len(wanted.assignments[0].broker_ids) if wanted.assignments else wanted.replication_factor
        sizes = {"num_partitions": self.partitions, "replication_factor": self.factor or count}
        code = POLICY_VIOLATION if why else 0
        return reply(topics=[reply(name=RECORDS_TOPIC.name, error_code=code, error_message=why, **sizes)])

    def run(self) -> CreatedTopic:
        """Create the topic of records."""
        clock = Clock(self.clock.now, self.clock.sleep, self.clock.random)
        return create_topic(self.session, RECORDS_TOPIC, clock)


SEVEN = {"cleanup.policy", "compression.type", "max.message.bytes", "message.timestamp.type"}
"""The configs of the topic that a service with a short list of its own takes."""


@pytest.mark.parametrize(
    ("service", "shape", "dropped", "notices"),
    [
        (Service(lambda lists, factor, keys: ""), (True, -1), set(), []),
        (Service(lambda lists, factor, keys: "no lists" if lists else ""), (False, 3), set(), []),
        (
            Service(lambda lists, factor, keys: "no lists" if lists else "" if factor == -1 else "our factor"),
            (False, -1),
            set(),
            [f"{NAME} has the number of replicas that the service decides, wanted 3"],
        ),
        (
            Service(lambda lists, factor, keys: "Not allowed to set config" if keys - SEVEN else ""),
            (True, -1),
            {"min.insync.replicas", "unclean.leader.election.enable"},
            [
                f"{NAME} was made without min.insync.replicas=2, unclean.leader.election.enable=false:"
                " the service refuses it"
            ],
        ),
        (
            Service(lambda lists, factor, keys: "no" if lists or keys - {"cleanup.policy"} else "", factor=1),
            (False, 3),
            {"compression.type", "max.message.bytes", "message.timestamp.type"}
            | {"min.insync.replicas", "unclean.leader.election.enable"},
            [
                f"{NAME} was made without min.insync.replicas=2, unclean.leader.election.enable=false,"
                " compression.type=uncompressed, max.message.bytes=1048576, message.timestamp.type=LogAppendTime:"
                " the service refuses it",
                f"{NAME} has 1 replica, wanted 3: the service decides that",
            ],
        ),
        (
            Service(lambda lists, factor, keys: "", partitions=10),
            (True, -1),
            set(),
            [f"{NAME} has 10 partitions, wanted 1: topiarist uses partition 0 alone"],
        ),
    ],
)
def test_a_service_makes_the_topic_as_it_can(
    service: Service, shape: tuple[bool, int], dropped: set[str], notices: list[str]
) -> None:
    """One topic is made, with all that the service takes; the notices say what it lacks, and the rest made nothing."""
    created = service.run()
    (made,) = service.made
    assert (created.found, created.own_id) == (FOUND, FOUND.topic_id)
    assert (bool(made.assignments), made.replication_factor) == shape
    assert made.num_partitions == (-1 if shape[0] else 1)
    assert {each.name for each in made.configs} == _wanted_configs(3).keys() - dropped
    assert [*created.notices] == notices
    assert service.asked <= 10


def test_a_service_that_accepts_one_request_is_asked_once() -> None:
    """Apache Kafka sees the one request that it saw before."""
    service = Service(lambda lists, factor, keys: "")
    service.run()
    assert service.asked == 1


def test_a_service_that_refuses_the_question() -> None:
    """A code that is about another thing than the form ends the search."""
    creation = Creation(described(partition(0, 1)))
    answers = [
        reply(topics=[reply(name=NAME, error_code=code, error_message="why")]) for code in (POLICY_VIOLATION, 29)
    ]
    creation.session.script["CreateTopics"] = answers
    with pytest.raises(
        TopiaristError, match=f"^cannot create {NAME}: User:ANONYMOUS lacks Create on the topic {NAME} "
    ) as caught:
        creation.run()
    assert (caught.value.reason, creation.session.names().count("CreateTopics")) == (Reason.NO_PERMISSION, 2)


def test_a_service_that_compacts_nothing() -> None:
    """No form is accepted: the error has the first refusal and the way out, and nothing was made."""
    service = Service(lambda lists, factor, keys: "no compaction" if "cleanup.policy" in keys else "")
    with pytest.raises(TopiaristError, match="no compaction") as caught:
        service.run()
    assert caught.value.hint == HINT_NO_RECORDS
    assert service.made == []


@pytest.mark.parametrize(("answer", "is_deleted"), [(0, True), (3, False), (41, False), (LOST, False)])
def test_the_deletion_of_a_topic(answer: Any, is_deleted: bool) -> None:
    """It names the id alone, so that no later topic is deleted."""
    answer = reply(responses=[reply(error_code=answer)]) if isinstance(answer, int) else answer
    session = ScriptedSession({"DeleteTopics": answer})
    assert delete_topic(session, FOUND.topic_id) is is_deleted
    wanted = DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=TOPIC_ID)
    assert [each.request for each in session.sent] == [DeleteTopicsRequest(topics=[wanted], timeout_ms=10_000)]
    session.unsupported = {"DeleteTopics"}
    assert not delete_topic(session, FOUND.topic_id)


META = Meta(FOUND.cluster_id, FOUND.topic_id)


@pytest.mark.parametrize(
    ("written", "asked", "is_own"),
    [
        ("topiarist", "topiarist", True),
        ("team-a", "team-a", True),
        ("topiarist", "team-a", False),
        ("team-a", "topiarist", False),
    ],
)
def test_records_of_another_transactional_id(written: str, asked: str, is_own: bool) -> None:
    """Two runs with different ones would not fence each other, so the first that writes decides."""
    meta = build_meta(FOUND, RECORDS_TOPIC._replace(transactional_id=written))
    topic = RECORDS_TOPIC._replace(transactional_id=asked)
    if is_own:
        require_own(Records(meta=meta), FOUND, topic)
        return
    assert error_of(lambda: require_own(Records(meta=meta), FOUND, topic)) == (
        Reason.RECORDS_LOST,
        f"the records in {NAME} are written with the transactional id {written}, this Cluster has {asked}: two such"
        " runs would not fence each other",
        f"give all documents of this cluster spec.kafka.records.transactionalId: {written}",
    )


@pytest.mark.parametrize(
    ("records", "origin"),
    [
        (Records(meta=META), ""),
        (Records(), ""),
        (Records(meta=replace(META, topic_id="OLD")), "cluster cluster, topic id OLD"),
        (Records(meta=replace(META, cluster_id="OTHER")), f"cluster OTHER, topic id {FOUND.topic_id}"),
        (Records(lock=Lock(number=1)), "an unknown place"),
        (Records(topics={"a": TopicRecord(OwnershipRecord("team"), "ID")}), "an unknown place"),
        (Records(errors={"a": ReadError("a", "bad")}), "an unknown place"),
    ],
)
def test_records_of_another_topic(records: Records, origin: str) -> None:
    """A copied or recreated topic is refused, with both places and what to do; an empty one is new."""
    if not origin:
        require_own(records, FOUND, RECORDS_TOPIC)
        return
    assert error_of(lambda: require_own(records, FOUND, RECORDS_TOPIC)) == (
        Reason.RECORDS_LOST,
        f"the records in {NAME} are of {origin}; this is cluster cluster, topic id {FOUND.topic_id}",
        "the topic was copied or recreated: restore the right one, or delete it to begin without records",
    )


@pytest.mark.parametrize(("found", "now"), [(None, "does not exist"), (FOUND, f"has the id {FOUND.topic_id} now")])
def test_a_topic_that_was_there_before(found: FoundTopic | None, now: str) -> None:
    """The error has both ids, and the ways to go on."""
    error = lost_topic(NAME, "OLD", found)
    assert (error.reason, error.message) == (
        Reason.RECORDS_LOST,
        f"the topic with the id OLD held the records of topiarist, and {NAME} {now}",
    )
    assert error.hint.startswith("restore it, or its name in spec.kafka.records.topic; to begin without its records,")
    assert "run again, or remove the annotation" in error.hint


def test_the_usual_transactional_id_is_not_written() -> None:
    """The bytes of earlier releases stay, and they refuse to read those of another id."""
    assert build_meta(FOUND, RECORDS_TOPIC) == META
    assert b"transactional" not in encode_value(META)
    assert b'"transactionalId":"x"' in encode_value(build_meta(FOUND, RECORDS_TOPIC._replace(transactional_id="x")))
