"""The model of Admin requests that the explorer uses, and real brokers: equal answers, and equal topics afterwards."""

from __future__ import annotations

import random
from typing import Any

from interleavings.kafka.product_run import encode_request
from interleavings.kafka.world import AdminRequest, Budget, Topic, World, carry_out, topic_id
from support.kafka.kraft_fixture import KraftFixture
from topiarist.adapters.kafka_admin.connection.connection import decode_topic_id
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.protocol.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
)
from topiarist.adapters.kafka_admin.read.topic_reader import TopicReader
from topiarist.adapters.kafka_admin.write.requests import Kind, read_answer
from topiarist.model.access import KafkaAccess
from topiarist.model.state import TopicState

_STEPS = 120
_NAMES = ("model-a", "model-b")
_KINDS = {"create": Kind.CREATE, "configure": Kind.CONFIGURE, "grow": Kind.GROW, "delete": Kind.DELETE}


def test_the_model_answers_admin_requests_as_brokers_do(kraft: KraftFixture) -> None:
    """Random creations, configs, growth with wrong totals, and deletions of current and earlier ids, with a seed."""
    session, chance = Session(KafkaAccess(kraft.kafka.bootstrap_of("PLAINTEXT")), 10.0), random.Random(4)
    world, ids, seen = World((), (), (), Budget()), dict[str, str](), set[tuple[str, int]]()
    try:
        for _ in range(_STEPS):
            request = _choose(world, chance)
            message = _build(request, ids)
            assert encode_request(message)[0] == request.kind
            names = [ids[name] if request.kind == "delete" else name for name, _ in request.items]
            found = read_answer(_KINDS[request.kind], session.controller().call(message), names)
            world, results = carry_out(world, request)
            assert [found.elements[name].code for name in names] == [code for _, code, _ in results], request
            for name, code, number in results:
                seen.add((request.kind, code))
                if number:
                    topic = world.topic(name)
                    assert topic is not None
                    created = found.elements[name].created
                    assert created is not None
                    wanted = dict(request.items)[name]
                    assert (created.partitions, created.replication_factor) == (len(wanted[0]), len(wanted[0][0]))
                    assert dict(wanted[1]).items() <= created.config.items()
                    ids[topic_id(topic)] = created.topic_id
            looked = TopicReader(session).look(_NAMES).topics
            for name in _NAMES:
                topic, state = world.topic(name), looked[name]
                if topic is None:
                    assert state is None
                    continue
                assert isinstance(state, TopicState)
                assert (state.replicas, dict(state.config), state.topic_id) == (
                    topic.replicas,
                    dict(topic.config),
                    ids[topic_id(topic)],
                )
    finally:
        session.close()
        kraft.clients.delete([name for name in _NAMES if world.topic(name)])
    assert seen == {
        ("create", 0),
        ("create", 36),
        ("configure", 0),
        ("configure", 3),
        ("grow", 0),
        ("grow", 3),
        ("grow", 37),
        ("grow", 39),
        ("delete", 0),
        ("delete", 100),
    }


def _choose(world: World, chance: random.Random) -> AdminRequest:
    kind, name = chance.choice([*_KINDS]), chance.choice(_NAMES)
    topic = world.topic(name)
    match kind:
        case "create":
            replicas = tuple((chance.choice((1, 2, 3)),) for _ in range(chance.randint(1, 2)))
            return AdminRequest(kind, ((name, (replicas, (("retention.ms", str(chance.randint(1, 9))),))),))
        case "configure":
            value = chance.choice((None, str(chance.randint(1, 9))))
            return AdminRequest(kind, ((name, (("retention.ms", value),)),))
        case "grow":
            total = chance.randint(1, 5)
            count = max(1, total - (len(topic.replicas) if topic else 0) + chance.choice((0, 0, 1)))
            return AdminRequest(kind, ((name, (total, ((1,),) * count)),))
    numbers = range(1, world.next_number)
    if not numbers:
        return _choose(world, chance)
    return AdminRequest("delete", ((topic_id(Topic(chance.choice(numbers), ())), None),))


def _build(request: AdminRequest, ids: dict[str, str]) -> Any:
    """Return the request as a message of the protocol; ``ids`` has the brokers' ids by those of the model."""
    ((name, wanted),) = request.items
    match request.kind:
        case "create":
            created = CreateTopicsRequest.CreatableTopic
            topic = created(
                name=name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    created.CreatableReplicaAssignment(partition_index=index, broker_ids=list(each))
                    for index, each in enumerate(wanted[0])
                ],
                configs=[created.CreatableTopicConfig(name=key, value=value) for key, value in wanted[1]],
            )
            return CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=False)
        case "grow":
            grown = CreatePartitionsRequest.CreatePartitionsTopic
            lists = [grown.CreatePartitionsAssignment(broker_ids=list(each)) for each in wanted[1]]
            topic = grown(name=name, count=wanted[0], assignments=lists)
            return CreatePartitionsRequest(topics=[topic], timeout_ms=10_000, validate_only=False)
        case "configure":
            resource = IncrementalAlterConfigsRequest.AlterConfigsResource
            configs = [
                resource.AlterableConfig(name=key, config_operation=1 if value is None else 0, value=value)
                for key, value in wanted
            ]
            changed = resource(resource_type=2, resource_name=name, configs=configs)
            return IncrementalAlterConfigsRequest(resources=[changed], validate_only=False)
    deleted = DeleteTopicsRequest.DeleteTopicState(name=None, topic_id=decode_topic_id(ids[name]))
    return DeleteTopicsRequest(topics=[deleted], timeout_ms=10_000)
