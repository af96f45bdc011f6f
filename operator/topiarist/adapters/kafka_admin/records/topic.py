"""The topic of records: found, made when a run first writes, and checked before each use.

A commit is answered with success even if the topic was deleted meanwhile, and a topic of the same name may be made by
any client: so its id is compared before and after, and ``meta`` names the id that the records were written in.

Apache Kafka makes the topic as it is asked for. A service may refuse replica lists, or configs, or a factor, or do what
it likes with them. What it refuses is found out by requests that are validated only, so that nothing is left behind;
what it makes otherwise is used as it is, if it keeps the records.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import UNSET

from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import (
    Disconnected,
    Message,
    UnsupportedRequest,
    decode_topic_id,
    encode_topic_id,
)
from topiarist.adapters.kafka_admin.protocol.messages import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from topiarist.adapters.kafka_admin.records import transactions
from topiarist.adapters.kafka_admin.records.codec import Meta, Records
from topiarist.adapters.kafka_admin.records.transactions import MAX_BATCH_BYTES, Clock, RecordsSession
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Replicas
from topiarist.model.access import DEFAULT_RECORDS_TOPIC, RecordsTopic
from topiarist.text import format_count

CREATE_TIMEOUT_MS = 10_000
MIN_IN_SYNC = 2
"""Replicas that every commit reaches, if there are that many."""

MAX_MESSAGE_BYTES = 2 * MAX_BATCH_BYTES
"""The limit of one batch; a single record may be larger than ``MAX_BATCH_BYTES``."""

HINT_NO_RECORDS = (
    "if this cluster can keep no records, write spec.kafka.records: None in its Cluster: then there is no lock and no"
    " owner (docs/why-trust-it.md)"
)

_TOPIC_EXISTS, _TOPIC_RESOURCE = 36, 2
_HINT_NO_IDS = "topiarist needs brokers with topic ids: version 2.8 or later, also in inter.broker.protocol.version"
_CLEANUP_POLICY, _COMPACT, _MIN_IN_SYNC = "cleanup.policy", "compact", "min.insync.replicas"

_REFUSALS = frozenset({37, 38, 39, 40, 42, 44})
"""Codes of a creation that is refused for its sizes, lists or configs, or by a policy: another may be accepted."""


class FoundTopic(NamedTuple):
    """The ids of the cluster and of the topic, as text."""

    cluster_id: str
    topic_id: str


def find_topic(session: RecordsSession, topic: RecordsTopic) -> FoundTopic | None:
    """Return the topic; None if there is none. Raises ``TopiaristError``.

    Some services make more partitions than one, whatever is asked for. All records are in partition 0, and decide
    whether the topic is topiarist's.
    """
    answer = session.read_metadata([topic.name])
    found = next((each for each in answer.topics if each.name == topic.name), None)
    code = found.error_code if found else error_codes.UNKNOWN_TOPIC_OR_PARTITION
    if code == error_codes.UNKNOWN_TOPIC_OR_PARTITION:
        return None
    # Without a leader the topic exists, with its id.
    if code not in (error_codes.NONE, error_codes.LEADER_NOT_AVAILABLE) or found is None:
        raise session.error_of(code, f"cannot read {topic.name}", f"Describe on the topic {topic.name}")
    if not found.partitions:
        message = f"{topic.name} has no partitions, wanted partition 0"
        raise TopiaristError(Reason.RECORDS_LOST, message, "delete it if nothing else uses it")
    if not (topic_id := encode_topic_id(found.topic_id)):
        message = f"the brokers give {topic.name} no topic id, without which its records cannot be trusted"
        raise TopiaristError(Reason.PREREQUISITE_MISSING, message, _HINT_NO_IDS)
    return FoundTopic(answer.cluster_id or "", topic_id)


def require_compaction(session: RecordsSession, topic: RecordsTopic) -> None:
    """Raise ``RecordsLost`` if Kafka deletes old records of the topic."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    wanted = resource(resource_type=_TOPIC_RESOURCE, resource_name=topic.name, configuration_keys=[_CLEANUP_POLICY])
    request = DescribeConfigsRequest(resources=[wanted])
    answer = session.any_broker().call(request)
    result = next(iter(answer.results), None)
    if result is None:
        raise TopiaristError(Reason.UNREADABLE, f"the answer of the brokers does not have the configs of {topic.name}")
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


class CreatedTopic(NamedTuple):
    """The topic after a creation. ``own_id`` is its id if this run has made it, else empty.

    ``notices`` say what the service refused, or made otherwise than asked for.
    """

    found: FoundTopic
    own_id: str = ""
    notices: tuple[str, ...] = ()


class _Form(NamedTuple):
    """The form of a creation: replica lists, or a number of replicas (-1: that of the service), and configs."""

    replicas: Replicas
    configs: Mapping[str, str]
    factor: int | None = None


class _Answer(NamedTuple):
    """The answer to a creation: its code with the message, and the sizes that were made (-1: not told)."""

    code: int
    message: str | None
    partitions: int
    factor: int


def create_topic(session: RecordsSession, topic: RecordsTopic, clock: Clock) -> CreatedTopic:
    """Create the topic unless it exists, and return it once the brokers know it. Raises ``TopiaristError``."""
    answer = session.read_metadata([topic.name])
    replicas = choose_replicas({each.node_id: each.rack or "" for each in answer.brokers}, topic.replication_factor)
    if not replicas:
        raise TopiaristError(Reason.UNREACHABLE, f"no broker is registered to hold {topic.name}", "run again")
    form = wanted = _Form(replicas, _wanted_configs(len(replicas)))
    made = _create(session, topic.name, form)
    if made.code in _REFUSALS:
        form = _find_accepted(session, topic.name, wanted, made)
        made = _create(session, topic.name, form)
    if made.code not in (error_codes.NONE, _TOPIC_EXISTS):
        raise _creation_error(session, topic.name, made)
    deadline = clock.now() + transactions.PATIENCE_S
    while (found := find_topic(session, topic)) is None:
        if clock.now() >= deadline:
            raise TopiaristError(Reason.UNREACHABLE, f"the brokers do not know the new topic {topic.name}", "run again")
        clock.sleep(transactions.RETRY_INTERVAL_S)
    if made.code == _TOPIC_EXISTS:
        return CreatedTopic(found)
    if 0 < made.factor < int(form.configs.get(_MIN_IN_SYNC, "1")):
        _set_min_in_sync(session, topic.name, made.factor)  # else no commit is ever taken
    return CreatedTopic(found, found.topic_id, tuple(_describe_differences(topic.name, wanted, form, made)))


def _find_accepted(session: RecordsSession, name: str, wanted: _Form, refused: _Answer) -> _Form:
    """Return the form nearest to ``wanted`` that the service accepts; write nothing. Raises ``TopiaristError``.

    Without ``cleanup.policy=compact`` there is no form. All other configs are asked for one by one.
    """
    needed = {_CLEANUP_POLICY: _COMPACT}
    for factor in (None, len(wanted.replicas), -1):
        form = _Form(wanted.replicas, needed, factor)
        if not _is_accepted(answer := _create(session, name, form, validate_only=True)):
            if answer.code not in _REFUSALS:
                raise _creation_error(session, name, answer)
            continue
        for key, value in wanted.configs.items():
            larger = form._replace(configs={**form.configs, key: value})
            if key not in needed and _is_accepted(_create(session, name, larger, validate_only=True)):
                form = larger
        return form
    raise _creation_error(session, name, refused)


def _is_accepted(answer: _Answer) -> bool:
    return answer.code in (error_codes.NONE, _TOPIC_EXISTS)


def _creation_error(session: RecordsSession, name: str, answer: _Answer) -> TopiaristError:
    right = f"Create on the topic {name}"
    error = transactions.as_refused_write(session.error_of(answer.code, f"cannot create {name}", right, answer.message))
    if answer.code in _REFUSALS or answer.code in error_codes.PERMANENT_CODES:
        return TopiaristError(error.reason, error.message, error.hint or HINT_NO_RECORDS)
    return error


def _set_min_in_sync(session: RecordsSession, name: str, count: int) -> None:
    """Set ``min.insync.replicas`` of a topic that has fewer replicas than asked for. Raises ``TopiaristError``."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    config = resource.AlterableConfig(name=_MIN_IN_SYNC, value=str(count))
    wanted = resource(resource_type=_TOPIC_RESOURCE, resource_name=name, configs=[config])
    answer = session.controller().call(IncrementalAlterConfigsRequest(resources=[wanted]))
    for each in answer.responses:
        if each.error_code:
            what, right = f"cannot set {_MIN_IN_SYNC}={count} of {name}", f"AlterConfigs on the topic {name}"
            raise transactions.as_refused_write(session.error_of(each.error_code, what, right, each.error_message))


def _describe_differences(name: str, wanted: _Form, sent: _Form, made: _Answer) -> Iterator[str]:
    if dropped := [f"{key}={value}" for key, value in wanted.configs.items() if key not in sent.configs]:
        yield f"{name} was made without {', '.join(dropped)}: the service refuses it"
    count = len(wanted.replicas)
    if made.factor not in (-1, count):
        yield f"{name} has {format_count(made.factor, 'replica')}, wanted {count}: the service decides that"
    elif made.factor == -1 and sent.factor == -1:
        yield f"{name} has the number of replicas that the service decides, wanted {count}"
    if made.partitions not in (-1, 1):
        yield f"{name} has {made.partitions:,} partitions, wanted 1: topiarist uses partition 0 alone"


def delete_topic(session: RecordsSession, topic_id: str) -> bool:
    """Delete a topic by its id, and return whether the brokers say that they did."""
    topic = DeleteTopicsRequest.DeleteTopicState
    wanted = topic(topic_id=decode_topic_id(topic_id))
    request = DeleteTopicsRequest(topics=[wanted], timeout_ms=CREATE_TIMEOUT_MS)
    try:
        connection = session.controller()
        answer = connection.call(request, version=connection.version_of(request))
    except (Disconnected, UnsupportedRequest):
        return False
    return [each.error_code for each in answer.responses] == [error_codes.NONE]


def choose_replicas(racks: Mapping[int, str], replication_factor: int) -> Replicas:
    """Return at most ``replication_factor`` brokers, over as many racks as possible, lowest ids first."""
    by_rack: dict[str, list[int]] = defaultdict(list)
    for broker in sorted(racks):
        by_rack[racks[broker]].append(broker)
    rounds: Sequence[list[int]] = sorted(by_rack.values())
    order = [each[turn] for turn in range(len(racks)) for each in rounds if turn < len(each)]
    return tuple(order[:replication_factor])


def require_own(records: Records, found: FoundTopic, topic: RecordsTopic) -> None:
    """Raise ``RecordsLost`` if the records were written in another cluster or topic, or do not say where.

    Also if they are written with another transactional id: runs with different ones do not fence each other.
    """
    meta, name = records.meta, topic.name
    if meta and (meta.cluster_id, meta.topic_id) == (found.cluster_id, found.topic_id):
        if (used := transactional_id_of(meta)) == topic.transactional_id:
            return
        raise TopiaristError(
            Reason.RECORDS_LOST,
            f"the records in {name} are written with the transactional id {used}, this Cluster has"
            f" {topic.transactional_id}: two such runs would not fence each other",
            f"give all documents of this cluster spec.kafka.records.transactionalId: {used}",
        )
    if meta is None and not records.number and not records.topics and not records.errors:
        return  # a new topic
    origin = f"cluster {meta.cluster_id}, topic id {meta.topic_id}" if meta else "an unknown place"
    raise TopiaristError(
        Reason.RECORDS_LOST,
        f"the records in {name} are of {origin}; this is cluster {found.cluster_id}, topic id {found.topic_id}",
        "the topic was copied or recreated: restore the right one, or delete it to begin without records",
    )


def find_records_topics(topics: Mapping[str, object]) -> list[str]:
    """Return the topics that topiarist made for its records: the usual one, and each with all configs of such a topic.

    ``topics`` have their overrides, or an error. A service that refuses or changes these configs hides the others.
    """
    needed = {key: value for key, value in _wanted_configs(1).items() if key != _MIN_IN_SYNC}.items()
    usual = DEFAULT_RECORDS_TOPIC.name
    return sorted(
        name
        for name, config in topics.items()
        if name == usual or (isinstance(config, Mapping) and needed <= config.items())
    )


def require_only(topic: RecordsTopic, found: Iterable[str]) -> None:
    """Raise ``RecordsLost`` if one of ``found`` is another topic of records; the topic itself has no records yet."""
    if message := describe_second_records(topic, found):
        raise TopiaristError(Reason.RECORDS_LOST, message)


def describe_second_records(topic: RecordsTopic, found: Iterable[str]) -> str:
    """Return why no records begin in a topic while others exist, and what to do; empty if there are no others."""
    if not (other := next((name for name in found if name != topic.name), "")):
        return ""
    is_usual = other == DEFAULT_RECORDS_TOPIC.name
    remedy = "Remove spec.kafka.records.topic" if is_usual else f"Set spec.kafka.records.topic: {other}"
    return (
        f"{topic.name} has no records of topiarist, and the cluster has the topic {other}: other runs may keep owners,"
        f" a lock and a freeze there, which no command moves. {remedy}; or delete {other}, if no run needs it"
    )


def build_meta(found: FoundTopic, topic: RecordsTopic) -> Meta:
    """Return what the records say of themselves; the transactional id only if it is not the usual one."""
    is_usual = topic.transactional_id == DEFAULT_RECORDS_TOPIC.transactional_id
    return Meta(found.cluster_id, found.topic_id, UNSET if is_usual else topic.transactional_id)


def transactional_id_of(meta: Meta) -> str:
    """Return the transactional id that records are written with."""
    return meta.transactional_id or DEFAULT_RECORDS_TOPIC.transactional_id


def lost_topic(name: str, wanted: str, found: FoundTopic | None) -> TopiaristError:
    """Return the error for a topic that was deleted or recreated."""
    now = f"has the id {found.topic_id} now" if found else "does not exist"
    return TopiaristError(
        Reason.RECORDS_LOST,
        f"the topic with the id {wanted} held the records of topiarist, and {name} {now}",
        "restore it, or its name in spec.kafka.records.topic; to begin without its records, run again, or remove the"
        " annotation topiarist.dev/records-topic-id from the Cluster",
    )


def _create(session: RecordsSession, name: str, form: _Form, *, validate_only: bool = False) -> _Answer:
    """Send a creation, and return its answer; raise ``TopiaristError`` if the answer does not have the topic."""
    sent = session.controller().call(_create_request(name, form, validate_only=validate_only))
    for each in sent.topics:
        sizes = each.num_partitions, each.replication_factor
        return _Answer(each.error_code, each.error_message, *sizes)
    return _Answer(error_codes.NONE, None, -1, -1)


def _wanted_configs(replica_count: int) -> dict[str, str]:
    """Return the configs of the topic; only the first is needed."""
    return {
        _CLEANUP_POLICY: _COMPACT,
        _MIN_IN_SYNC: str(min(MIN_IN_SYNC, replica_count)),
        "unclean.leader.election.enable": "false",
        # The defaults of the brokers must not compress batches, refuse them for their size, or for the clock of a run.
        "compression.type": "uncompressed",
        "max.message.bytes": str(MAX_MESSAGE_BYTES),
        "message.timestamp.type": "LogAppendTime",
    }


def _create_request(name: str, form: _Form, *, validate_only: bool) -> Message:
    topic = CreateTopicsRequest.CreatableTopic
    is_placed = form.factor is None
    lists = [topic.CreatableReplicaAssignment(broker_ids=list(form.replicas))] if is_placed else []
    wanted = topic(
        name=name,
        num_partitions=-1 if is_placed else 1,
        replication_factor=-1 if form.factor is None else form.factor,
        assignments=lists,
        configs=[topic.CreatableTopicConfig(name=key, value=value) for key, value in form.configs.items()],
    )
    return CreateTopicsRequest(topics=[wanted], timeout_ms=CREATE_TIMEOUT_MS, validate_only=validate_only)
