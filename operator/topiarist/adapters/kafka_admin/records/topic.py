"""The topic of records: made when a run first writes, and checked before each use.

A commit is answered with success even if the topic was deleted meanwhile, and a topic of the same name may be made by
any client: so its id is compared before and after, and ``meta`` names the id that the records were written in.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafka.protocol.admin.configs import DescribeConfigsRequest
from kafka.protocol.admin.topics import CreateTopicsRequest

from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import Message, encode_topic_id
from topiarist.adapters.kafka_admin.records import constants
from topiarist.adapters.kafka_admin.records.constants import Clock
from topiarist.adapters.kafka_admin.records.transactions import RecordsSession
from topiarist.adapters.kafka_admin.records.values import Meta, Records
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Replicas
from topiarist.model.access import RecordsTopic

CREATE_TIMEOUT_MS = 10_000
MIN_IN_SYNC = 2
"""Replicas that every commit reaches, if there are that many."""

MAX_MESSAGE_BYTES = 2 * constants.MAX_BATCH_BYTES
"""The limit of one batch; a single record may be larger than ``MAX_BATCH_BYTES``."""

_TOPIC_EXISTS, _TOPIC_RESOURCE = 36, 2
_HINT_NO_IDS = "topiarist needs brokers with topic ids: version 2.8 or later, also in inter.broker.protocol.version"
_CLEANUP_POLICY, _COMPACT = "cleanup.policy", "compact"


class FoundTopic(NamedTuple):
    """The ids of the cluster and of the topic, as text."""

    cluster_id: str
    topic_id: str


def find_topic(session: RecordsSession, topic: RecordsTopic) -> FoundTopic | None:
    """Return the topic; None if there is none. Raises ``TopiaristError``."""
    answer = session.read_metadata([topic.name])
    found = next((each for each in answer.topics if each.name == topic.name), None)
    code = found.error_code if found else error_codes.UNKNOWN_TOPIC_OR_PARTITION
    if code == error_codes.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    # Without a leader the topic exists, with its id.
    if code not in (error_codes.NONE, error_codes.LEADER_NOT_AVAILABLE) or found is None:
        raise session.error_of(code, f"cannot read {topic.name}", f"Describe on the topic {topic.name}")
    if len(found.partitions) != 1:
        message = f"{topic.name} has {len(found.partitions):,} partitions, wanted 1: topiarist did not create it"
        raise TopiaristError(Reason.RECORDS_LOST, message, "delete it if nothing else uses it")
    if not (topic_id := encode_topic_id(found.topic_id)):
        message = f"the brokers give {topic.name} no topic id, without which its records cannot be trusted"
        raise TopiaristError(Reason.PREREQUISITE_MISSING, message, _HINT_NO_IDS)
    return FoundTopic(answer.cluster_id or "", topic_id)


def require_compaction(session: RecordsSession, topic: RecordsTopic) -> None:
    """Raise ``RecordsLost`` if Kafka deletes old records of the topic."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    wanted = resource(resource_type=_TOPIC_RESOURCE, resource_name=topic.name, configuration_keys=[_CLEANUP_POLICY])
    request = DescribeConfigsRequest(resources=[wanted], include_synonyms=False, include_documentation=False)
    answer = session.any_broker().call(request)
    result = answer.results[0]
    if result.error_code:
        raise session.error_of(
            result.error_code, f"cannot read the configs of {topic.name}", f"DescribeConfigs on the topic {topic.name}"
        )
    value = next((each.value for each in result.configs if each.name == _CLEANUP_POLICY), None)
    if value != _COMPACT:
        message = f"{topic.name} has {_CLEANUP_POLICY}={value}, wanted {_COMPACT}: Kafka deletes records of topiarist"
        raise TopiaristError(Reason.RECORDS_LOST, message, f"set {_CLEANUP_POLICY}={_COMPACT}, and check the records")


def is_compacted(config: Mapping[str, str]) -> bool:
    """Return whether the overrides of the topic alone show that Kafka deletes no record of it."""
    return config.get(_CLEANUP_POLICY) == _COMPACT


def create_topic(session: RecordsSession, topic: RecordsTopic, clock: Clock) -> FoundTopic:
    """Create the topic unless it exists, and return it once the brokers know it. Raises ``TopiaristError``."""
    answer = session.read_metadata([topic.name])
    replicas = choose_replicas({each.node_id: each.rack or "" for each in answer.brokers}, topic.replication_factor)
    if not replicas:
        raise TopiaristError(Reason.UNREACHABLE, f"no broker is registered to hold {topic.name}", "run again")
    sent = session.controller().call(_create_request(topic.name, replicas))
    for each in sent.topics:
        if each.error_code not in (error_codes.NONE, _TOPIC_EXISTS):
            right = f"Create on the topic {topic.name}"
            raise session.error_of(each.error_code, f"cannot create {topic.name}", right, each.error_message)
    deadline = clock.now() + constants.PATIENCE_S
    while (found := find_topic(session, topic)) is None:
        if clock.now() >= deadline:
            raise TopiaristError(Reason.UNREACHABLE, f"the brokers do not know the new topic {topic.name}", "run again")
        clock.sleep(constants.RETRY_INTERVAL_S)
    return found


def choose_replicas(racks: Mapping[int, str], replication_factor: int) -> Replicas:
    """Return at most ``replication_factor`` brokers, over as many racks as possible, lowest ids first."""
    by_rack: dict[str, list[int]] = defaultdict(list)
    for broker in sorted(racks):
        by_rack[racks[broker]].append(broker)
    rounds: Sequence[list[int]] = sorted(by_rack.values())
    order = [each[turn] for turn in range(len(racks)) for each in rounds if turn < len(each)]
    return tuple(order[:replication_factor])


def require_own(records: Records, found: FoundTopic, name: str) -> None:
    """Raise ``RecordsLost`` if the records were written in another cluster or topic, or do not say where."""
    meta = records.meta
    if meta == Meta(found.cluster_id, found.topic_id):
        return
    if meta is None and not records.number and not records.topics and not records.errors:
        return  # a new topic
    origin = f"cluster {meta.cluster_id}, topic id {meta.topic_id}" if meta else "an unknown place"
    raise TopiaristError(
        Reason.RECORDS_LOST,
        f"the records in {name} are of {origin}; this is cluster {found.cluster_id}, topic id {found.topic_id}",
        "the topic was copied or recreated: restore the right one, or delete it to begin without records",
    )


def lost_topic(name: str, wanted: str, found: FoundTopic | None) -> TopiaristError:
    """Return the error for a topic that was deleted or recreated."""
    now = f"has the id {found.topic_id} now" if found else "does not exist"
    return TopiaristError(
        Reason.RECORDS_LOST,
        f"{name} with the id {wanted} held the records of topiarist, and {now}",
        "restore it; to begin without its records, run again, or remove the annotation topiarist.dev/records-topic-id "
        "from the Cluster",
    )


def _create_request(name: str, replicas: Replicas) -> Message:
    topic = CreateTopicsRequest.CreatableTopic
    configs = {
        _CLEANUP_POLICY: _COMPACT,
        "min.insync.replicas": str(min(MIN_IN_SYNC, len(replicas))),
        "unclean.leader.election.enable": "false",
        # The defaults of the brokers must not compress batches, refuse them for their size, or for the clock of a run.
        "compression.type": "uncompressed",
        "max.message.bytes": str(MAX_MESSAGE_BYTES),
        "message.timestamp.type": "LogAppendTime",
    }
    wanted = topic(
        name=name,
        num_partitions=-1,
        replication_factor=-1,
        assignments=[topic.CreatableReplicaAssignment(partition_index=0, broker_ids=list(replicas))],
        configs=[topic.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    return CreateTopicsRequest(topics=[wanted], timeout_ms=CREATE_TIMEOUT_MS, validate_only=False)
