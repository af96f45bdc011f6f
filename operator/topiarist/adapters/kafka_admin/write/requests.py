"""The Admin requests for the changes of topic plans, and what each element of their answers means.

Replica lists are explicit, unless the plan leaves the brokers to the cluster: then counts are sent. Growth names the
total count, so that the controller refuses it if the count is not that of the plan. Configs name the keys of the plan
alone. Deletions name the id of the topic; its name only where the brokers delete by name alone, and then the id is
compared directly before (``chunks``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import NamedTuple, TypeVar

from topiarist.adapters.kafka_admin.connection.connection import Message, decode_topic_id, encode_topic_id
from topiarist.adapters.kafka_admin.connection.error_codes import describe_error
from topiarist.adapters.kafka_admin.protocol.messages import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
)
from topiarist.adapters.kafka_admin.read.configs import TOPIC_RESOURCE
from topiarist.errors import Reason
from topiarist.kafka.types import are_unplaced
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import AddPartitions, ConfigItem, CreateTopic, TopicPlan, UpdateConfig

ADMIN_TIMEOUT_MS = 10_000
"""The time in ms that the brokers are asked to take at most. Without a controller they take up to 60 s all the same."""

_SET, _DELETE = 0, 1


def build_create_topics(creations: Mapping[str, CreateTopic], *, validate_only: bool = False) -> Message:
    """Return the request that creates these topics, by name."""
    topic = CreateTopicsRequest.CreatableTopic
    return CreateTopicsRequest(
        topics=[
            topic(
                name=name,
                num_partitions=len(creation.replicas) if is_unplaced else -1,
                replication_factor=len(creation.replicas[0]) if is_unplaced else -1,
                assignments=[
                    topic.CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
                    for index, replicas in enumerate(() if is_unplaced else creation.replicas)
                ],
                configs=[topic.CreatableTopicConfig(name=key, value=text) for key, text in creation.config.items()],
            )
            for name, creation in creations.items()
            for is_unplaced in [are_unplaced(creation.replicas)]
        ],
        timeout_ms=ADMIN_TIMEOUT_MS,
        validate_only=validate_only,
    )


def build_create_partitions(growths: Mapping[str, AddPartitions], *, validate_only: bool = False) -> Message:
    """Return the request that adds partitions to these topics, by name."""
    topic = CreatePartitionsRequest.CreatePartitionsTopic
    return CreatePartitionsRequest(
        topics=[
            topic(
                name=name,
                count=growth.total,
                assignments=None
                if are_unplaced(growth.replicas)
                else [topic.CreatePartitionsAssignment(broker_ids=list(replicas)) for replicas in growth.replicas],
            )
            for name, growth in growths.items()
        ],
        timeout_ms=ADMIN_TIMEOUT_MS,
        validate_only=validate_only,
    )


def build_alter_configs(
    changes: Mapping[str, Mapping[str, str | None]], *, resource_type: int = TOPIC_RESOURCE, validate_only: bool = False
) -> Message:
    """Return the request that sets config keys, or removes them (None), by topic or by broker id."""
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    return IncrementalAlterConfigsRequest(
        resources=[
            resource(
                resource_type=resource_type,
                resource_name=name,
                configs=[
                    resource.AlterableConfig(name=key, config_operation=_DELETE if value is None else _SET, value=value)
                    for key, value in values.items()
                ],
            )
            for name, values in changes.items()
        ],
        validate_only=validate_only,
    )


def build_delete_topics(topic_ids: Iterable[str]) -> Message:
    """Return the request that deletes topics by their ids, in Kafka's own text form."""
    topic = DeleteTopicsRequest.DeleteTopicState
    return DeleteTopicsRequest(
        topics=[topic(topic_id=decode_topic_id(each)) for each in topic_ids], timeout_ms=ADMIN_TIMEOUT_MS
    )


def build_delete_by_name(names: Iterable[str]) -> Message:
    """Return the request that deletes topics by their names, for brokers that take no ids."""
    return DeleteTopicsRequest(topic_names=list(names), timeout_ms=ADMIN_TIMEOUT_MS)


def creation_of(plan: TopicPlan) -> CreateTopic | None:
    """Return the creation of the topic; None if the plan has none."""
    return next((change for change in plan.changes if isinstance(change, CreateTopic)), None)


def growth_of(plan: TopicPlan) -> AddPartitions | None:
    """Return the growth of the topic; None if the plan has none."""
    return next((change for change in plan.changes if isinstance(change, AddPartitions)), None)


def config_items_of(plan: TopicPlan) -> tuple[ConfigItem, ...]:
    """Return the config keys that the plan changes; empty if it changes none."""
    return tuple(item for change in plan.changes if isinstance(change, UpdateConfig) for item in change.items)


# The answers to Admin requests, element by element, and the outcome that each error code means for its topic.
#
# An answer has one element for each topic of its request. An element with the id of a created topic is final: topic,
# configs and partitions are one atomic batch of metadata, and the element has counts and configs. Any other element
# without an error is not yet the outcome: the caller reads the topics afterwards, and what is there decides. An element
# that is missing, or that leaves open whether the change was made, is a doubt that the same read resolves; nothing is
# sent a second time for it.

Key = TypeVar("Key", str, tuple[str, int])


class Kind(str, Enum):
    """A kind of Admin request, with the right that it needs, as the ACLs of Kafka name it; in the order of sending."""

    DELETE = "Delete on the topic"
    CREATE = "Create on the topic or on the cluster"
    CONFIGURE = "AlterConfigs on the topic"
    GROW = "Alter on the topic"


class Certainty(Enum):
    """The certainty of a change after its answer, before the topic is read again."""

    ACCEPTED = "accepted"
    NOT_MADE = "not made"
    THROTTLED = "throttled"
    NOT_CONTROLLER = "not the controller"
    LATE = "may be made later"
    UNKNOWN = "unknown"


class CreatedTopic(NamedTuple):
    """A topic as the answer to its creation describes it, with the id that no later topic of its name has.

    ``partitions`` and ``replication_factor`` are None, and ``config`` is empty, if the answer does not have them.
    """

    topic_id: str
    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, str | None] = {}


class Element(NamedTuple):
    """The answer for one topic. ``code`` is None if the answer has no element for the topic.

    ``created`` is the topic that was created; None for all other requests, with an error, and without its id.
    """

    code: int | None
    message: str = ""
    created: CreatedTopic | None = None

    @property
    def certainty(self) -> Certainty:
        """Return what the element says about its change."""
        if self.code is None:
            return Certainty.UNKNOWN
        return _CERTAINTIES.get(self.code, Certainty.NOT_MADE)

    @property
    def is_denied(self) -> bool:
        """Return whether a right is missing."""
        return self.code in (TOPIC_AUTHORIZATION, CLUSTER_AUTHORIZATION)

    @property
    def words(self) -> str:
        """Return what the brokers answered."""
        return "no answer" if self.code is None else describe_error(self.code, self.message)


class Answer(NamedTuple):
    """The elements of one answer by name (by id text for deletions), and the time in ms that the broker asks for."""

    elements: dict[str, Element]
    throttle_time_ms: int


NONE, UNKNOWN_SERVER_ERROR, REQUEST_TIMED_OUT, NETWORK_EXCEPTION = 0, -1, 7, 13
UNKNOWN_TOPIC, INVALID_TOPIC, TOPIC_AUTHORIZATION, CLUSTER_AUTHORIZATION = 3, 17, 29, 31
TOPIC_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR, INVALID_ASSIGNMENT, INVALID_CONFIG = 36, 37, 38, 39, 40
NOT_CONTROLLER, POLICY_VIOLATION, REASSIGNMENT, DELETION_DISABLED, THROTTLED, UNKNOWN_ID = 41, 44, 60, 73, 89, 100
UNSUPPORTED_VERSION, INVALID_REQUEST = 35, 42

_CERTAINTIES = {
    NONE: Certainty.ACCEPTED,
    THROTTLED: Certainty.THROTTLED,
    NOT_CONTROLLER: Certainty.NOT_CONTROLLER,
    REQUEST_TIMED_OUT: Certainty.LATE,
    NETWORK_EXCEPTION: Certainty.LATE,
    UNKNOWN_SERVER_ERROR: Certainty.UNKNOWN,
}

_CONFLICTS = {
    UNKNOWN_TOPIC: "existed, and does not exist now",
    INVALID_TOPIC: "the brokers refuse its name now",
    TOPIC_EXISTS: "did not exist, and exists now",
    INVALID_PARTITIONS: "has another partition count now",
    INVALID_ASSIGNMENT: "the brokers refuse its replica lists now",
    UNKNOWN_ID: "was deleted, or deleted and recreated",
}
"""The changes since the plan, or since the last read, that an error code shows."""

_REFUSALS = {
    INVALID_CONFIG: Reason.CONFIG_INVALID,
    POLICY_VIOLATION: Reason.POLICY_VIOLATION,
    REASSIGNMENT: Reason.REASSIGNMENT_IN_PROGRESS,
    DELETION_DISABLED: Reason.DELETION_DISABLED,
    INVALID_REPLICATION_FACTOR: Reason.TOO_FEW_BROKERS,
    UNSUPPORTED_VERSION: Reason.NOT_OFFERED,
}

_FAILURES = {NOT_CONTROLLER: Reason.NO_CONTROLLER, THROTTLED: Reason.THROTTLED}

_LIMIT_WORDS = ("excessively large",)
_DELETION_WORDS = "is marked for deletion"


_ELEMENTS: Mapping[Kind, Callable[[Message], Iterable[tuple[str, Message]]]] = {
    Kind.DELETE: lambda answer: ((encode_topic_id(each.topic_id), each) for each in answer.responses),
    Kind.CREATE: lambda answer: ((each.name, each) for each in answer.topics),
    Kind.CONFIGURE: lambda answer: ((each.resource_name, each) for each in answer.responses),
    Kind.GROW: lambda answer: ((each.name, each) for each in answer.results),
}
"""The elements of an answer, by the names of topics or by the ids in Kafka's text form."""


def read_answer(kind: Kind, answer: Message, asked: Iterable[str]) -> Answer:
    """Return the elements of an answer to a request of this kind for the names, or ids, that were asked for."""
    found = Answer(collect_elements(_ELEMENTS[kind](answer), asked), answer.throttle_time_ms)
    created: dict[str, list[Message]] = {}
    for each in answer.topics if kind is Kind.CREATE else ():
        created.setdefault(each.name, []).append(each)
    for name, element in found.elements.items() if created else ():
        if element.code == NONE and len({each.topic_id for each in created[name]}) == 1:
            found.elements[name] = element._replace(created=_describe_created(created[name][0]))
    return found


def _describe_created(found: Message) -> CreatedTopic | None:
    if not (topic_id := encode_topic_id(found.topic_id)):
        return None
    if found.num_partitions < 0 or found.replication_factor < 0 or found.configs is None:
        return CreatedTopic(topic_id)  # topiarist may not describe its configs, and then it may not know the counts
    config = {each.name: each.value for each in found.configs}
    return CreatedTopic(topic_id, found.num_partitions, found.replication_factor, config)


def collect_elements(pairs: Iterable[tuple[Key, Message]], asked: Iterable[Key]) -> dict[Key, Element]:
    """Return the element of each key that was asked for; without a code if the answer has none, or two that differ."""
    found: dict[Key, Element] = {}
    for key, each in pairs:
        element = Element(each.error_code, each.error_message or "")
        found[key] = element if key not in found or found[key].code == element.code else Element(None)
    return {key: found.get(key, Element(None)) for key in asked}


def not_made_outcome(topic: str, element: Element, kind: Kind, *, unknown_brokers: bool = False) -> Outcome:
    """Return the outcome of a change that an error code refused, and that the topic does not show.

    ``unknown_brokers`` is true if the plan places replicas on brokers that were not registered when it was made.
    """
    code, words = element.code, _broker_words(element)
    if code is None or element.certainty in (Certainty.UNKNOWN, Certainty.LATE):
        return unknown_outcome(topic, words)
    if element.is_denied:
        message = f"no permission: it needs {kind.value}; {words}"
        return Outcome(topic, Result.FAILED, Reason.NO_PERMISSION, message)
    if code == POLICY_VIOLATION and any(each in element.message.lower() for each in _LIMIT_WORDS):
        return Outcome(topic, Result.REFUSED, Reason.TOO_LARGE, words)  # a limit of the controller, and no policy
    if code == TOPIC_EXISTS and _DELETION_WORDS in element.message:
        # In ZooKeeper mode a topic that waits for an offline broker has its name, and brokers no longer show it.
        return Outcome(topic, Result.REFUSED, Reason.DELETION_IN_PROGRESS, words)
    if code in _REFUSALS:
        return Outcome(topic, Result.REFUSED, _REFUSALS[code], words)
    if code == INVALID_ASSIGNMENT and unknown_brokers:
        return Outcome(topic, Result.REFUSED, Reason.UNKNOWN_BROKERS, words)
    if code in _CONFLICTS:
        return Outcome(topic, Result.CONFLICT, Reason.STATE_CONFLICT, f"{_CONFLICTS[code]}: {words}")
    return Outcome(topic, Result.FAILED, _FAILURES.get(code, Reason.WRITE_FAILED), words)


def unknown_outcome(topic: str, why: str) -> Outcome:
    """Return the outcome of a change that may or may not be made; ``why`` completes the message."""
    message = f"whether the change was made is unknown ({why}); the next run reads it and completes it"
    return Outcome(topic, Result.UNKNOWN, Reason.OUTCOME_UNKNOWN, message)


def _broker_words(element: Element) -> str:
    if element.code is None:
        return "the brokers answered for other topics, and not for this one"
    if element.code == NONE:
        return "the brokers confirmed it"
    return f"the brokers answered {element.words}"
