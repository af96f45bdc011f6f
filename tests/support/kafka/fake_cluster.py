"""Brokers in memory that answer Admin requests as a KRaft controller does, at the level of one connection.

Requests and answers pass through the encoder and the decoder of the protocol, so that only fields that reach a broker
count. A fault is a function that runs instead of, or around, one request.
"""

from __future__ import annotations

import uuid
from base64 import urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import pytest
from kafka.protocol.admin import (
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteTopicsResponse,
    IncrementalAlterConfigsResponse,
)

from support.kafka import controller_checks as checks
from support.kafka.controller_checks import ACCEPTED, Verdict
from support.kafka.releases import NEWEST, RELEASES, Offering
from topiarist.adapters.kafka_admin.connection.connection import NO_ID, Disconnected, Message
from topiarist.adapters.kafka_admin.read import sync
from topiarist.adapters.kafka_admin.write import chunks, writer
from topiarist.kafka.types import Broker, Replicas


@dataclass(frozen=True)
class FakeTopic:
    """A topic of the brokers in memory."""

    id: uuid.UUID
    replicas: tuple[Replicas, ...]
    config: dict[str, str] = field(default_factory=dict)

    @property
    def id_text(self) -> str:
        """Return the id in Kafka's own text form."""
        return urlsafe_b64encode(self.id.bytes).decode().rstrip("=")


_DELETE = 1
_OVER_QUOTA = checks.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded."


class Lists(Enum):
    """What brokers do with the replica lists of a request."""

    OBEYED = "as Kafka"
    IGNORED = "they place replicas as they like, and look at no list"
    REFUSED = "a policy refuses them"


Fault = Callable[["FakeCluster", Message], Message]
"""A replacement of one request: it returns the answer, or raises ``Disconnected``."""

Veto = Callable[[str, Any], tuple[int, str] | None]
"""A check of one element by topic name: it returns an error code and a message, or None."""


class FakeCluster:
    """Three brokers and their topics.

    ``sent`` has the names of the Admin requests that arrived, and ``changes`` the topics that were changed, in order.
    ``faults`` are used up one after the other by the requests of a name. ``vetoes`` are asked for each element.
    ``stopped`` are the brokers that are registered and do not run. ``creation_lists`` and ``growth_lists`` say what
    becomes of replica lists, and new topics have ``factor`` replicas whatever is asked for, if it is set. ``reshape``
    is called with each topic that is to be created, before anything else: a service makes of it what it likes, or
    refuses it by a code and a message.
    """

    def __init__(self, *, brokers: Iterable[Broker] = (), release: str = NEWEST) -> None:
        self.release = RELEASES[release]
        self.stopped: set[int] = set()
        self.brokers = tuple(brokers) or tuple(Broker(each, f"rack{each}") for each in (1, 2, 3))
        self.topics: dict[str, FakeTopic] = {}
        self.sent: list[str] = []
        self.changes: list[tuple[str, str]] = []
        self.faults: dict[str, list[Fault]] = {}
        self.vetoes: list[Veto] = []
        self.reshape: Callable[[Any], Verdict] = lambda topic: ACCEPTED
        self.quota: int | None = None
        self.creation_lists = self.growth_lists = Lists.OBEYED
        self.factor: int | None = None
        self._next_id = 1

    def add(self, name: str, *replicas: Replicas, **config: str) -> FakeTopic:
        """Create a topic without a request; ``retention_ms`` is the key ``retention.ms``."""
        topic = FakeTopic(self._new_id(), replicas, {key.replace("_", "."): text for key, text in config.items()})
        self.topics[name] = topic
        return topic

    def change(self, name: str, **config: str) -> None:
        """Change configs without a request, as another client does."""
        topic = self.topics[name]
        changed = {key.replace("_", "."): text for key, text in config.items()}
        self.topics[name] = replace(topic, config={**topic.config, **changed})

    def on(self, request: str, *faults: Fault) -> None:
        """Add faults for the next requests of a name, such as ``CreateTopics``."""
        self.faults.setdefault(request, []).extend(faults)

    def call(self, request: Message) -> Message:
        """Carry out a request, or its next fault."""
        name = request.name.removesuffix("Request")
        self.sent.append(name)
        faults = self.faults.get(name)
        return faults.pop(0)(self, request) if faults else self.carry_out(request)

    def carry_out(self, request: Message) -> Message:
        """Carry out a request and return its answer."""
        match request.name.removesuffix("Request"):
            case "CreateTopics":
                answer = self._create(request)
            case "CreatePartitions":
                answer = self._grow(request)
            case "IncrementalAlterConfigs":
                answer = self._configure(request)
            case "DeleteTopics":
                answer = self._delete(request)
            case name:
                raise AssertionError(f"the brokers in memory do not know {name}")
        return answer

    def _create(self, request: Message) -> Message:
        reshaped = {topic.name: self.reshape(topic) for topic in request.topics}
        doubles = _doubles(topic.name for topic in request.topics)
        names = {*self.topics}
        is_large = sum(len(topic.assignments) for topic in request.topics) > checks.MAX_PARTITIONS
        element, results, throttle = CreateTopicsResponse.CreatableTopicResult, [], 0
        for topic in {each.name: each for each in request.topics}.values():
            lists = {each.partition_index: tuple(each.broker_ids) for each in topic.assignments}
            config = {each.name: each.value for each in topic.configs}
            code, message = self._veto(topic.name, topic)
            if not code:
                code, message = reshaped[topic.name]
            if not code and topic.name in doubles:
                code, message = checks.INVALID_REQUEST, "Duplicate topic name."
            elif not code and is_large:
                code, message = checks.POLICY_VIOLATION, "Excessively large number of partitions per request."
            elif not code:
                code, message = self._check_creation(topic, lists, config, names)
            made = self._make_lists(lists, topic)
            if not code and not request.validate_only and self._is_over_quota():
                (code, message), throttle = _OVER_QUOTA, 20
            topic_id = NO_ID if code else self._new_id()
            if not code and not request.validate_only:
                self.topics[topic.name] = FakeTopic(topic_id, made, config)
                self.changes.append(("create", topic.name))
            results.append(
                element(
                    name=topic.name,
                    topic_id=topic_id,
                    error_code=code,
                    error_message=message or None,
                    topic_config_error_code=0,
                    num_partitions=-1 if code else len(made),
                    replication_factor=-1 if code else len(made[0]),
                    configs=None if code else _describe_configs(config),
                )
            )
        return CreateTopicsResponse(throttle_time_ms=throttle, topics=results)

    def _check_creation(
        self, topic: Any, lists: dict[int, Replicas], config: dict[str, str], names: Collection[str]
    ) -> Verdict:
        verdict = checks.check_name(topic.name, names)
        if verdict == ACCEPTED:
            verdict = checks.check_configs(config, self.release.version)
        if verdict != ACCEPTED:
            return verdict
        if not lists:
            return checks.check_counts(topic.num_partitions, topic.replication_factor, len(self.brokers))
        if self.creation_lists is Lists.IGNORED:
            return ACCEPTED
        if (topic.num_partitions, topic.replication_factor) != (-1, -1):
            return (
                checks.INVALID_REQUEST,
                "A manual partition assignment was specified, but a number was not set to -1.",
            )
        if sorted(lists) != [*range(len(topic.assignments))]:
            message = "partitions should be a consecutive 0-based integer sequence"
            return checks.INVALID_REPLICA_ASSIGNMENT, message
        verdict = self._check_lists([lists[number] for number in sorted(lists)], len(lists[0]))
        if verdict == ACCEPTED and self.creation_lists is Lists.REFUSED:
            return checks.POLICY_VIOLATION, "Replica assignments are not allowed."
        return verdict

    def _make_lists(self, lists: dict[int, Replicas], topic: Any) -> tuple[Replicas, ...]:
        """Return the lists of a new topic, those of the request or those that the brokers choose."""
        count, width = (len(lists), len(lists[0])) if lists else (topic.num_partitions, topic.replication_factor)
        if lists and self.creation_lists is Lists.OBEYED and self.factor is None:
            return tuple(lists[each] for each in sorted(lists))
        return self._place(count, self.factor or width)

    def _place(self, count: int, width: int) -> tuple[Replicas, ...]:
        """Return lists that no plan of topiarist has: the brokers of a list are in descending order."""
        ids = [broker.id for broker in reversed(self.brokers)] * 2
        return tuple(tuple(sorted(ids[: max(width, 0)], reverse=True)) for _ in range(max(count, 0)))

    def _grow(self, request: Message) -> Message:
        doubles = _doubles(topic.name for topic in request.topics)
        element, results, throttle = CreatePartitionsResponse.CreatePartitionsTopicResult, [], 0
        for topic in {each.name: each for each in request.topics}.values():
            found = self.topics.get(topic.name)
            lists = tuple(tuple(each.broker_ids) for each in topic.assignments or ())
            code, message = self._veto(topic.name, topic)
            if not code and topic.name in doubles:
                code, message = checks.INVALID_REQUEST, "Duplicate topic name."
            elif not code:
                code, message = self._check_growth(topic, found, lists)
            if not code and not request.validate_only and self._is_over_quota():
                (code, message), throttle = _OVER_QUOTA, 20
            if not code and found and not request.validate_only:
                if not lists or self.growth_lists is Lists.IGNORED:
                    lists = self._place(topic.count - len(found.replicas), len(found.replicas[0]))
                self.topics[topic.name] = replace(found, replicas=found.replicas + lists)
                self.changes.append(("grow", topic.name))
            results.append(element(name=topic.name, error_code=code, error_message=message or None))
        return CreatePartitionsResponse(throttle_time_ms=throttle, results=results)

    def _check_growth(self, topic: Any, found: FakeTopic | None, lists: tuple[Replicas, ...]) -> Verdict:
        existing = found.replicas if found else None
        if self.growth_lists is Lists.REFUSED and lists:
            return checks.INVALID_REQUEST, "Custom partition assignments are not supported."
        if existing and (not lists or self.growth_lists is Lists.IGNORED):
            lists = self._place(topic.count - len(existing), len(existing[0]))
            return checks.check_growth(topic.name, existing, topic.count, lists)
        verdict = checks.check_growth(topic.name, existing, topic.count, lists)
        return self._check_lists(lists, len(existing[0])) if existing and verdict == ACCEPTED else verdict

    def _configure(self, request: Message) -> Message:
        doubles = _doubles(resource.resource_name for resource in request.resources)
        element, results = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse, []
        for resource in request.resources:
            name = resource.resource_name
            found = self.topics.get(name)
            config = dict(found.config) if found else {}
            code, message = self._veto(name, resource)
            if not code and (name in doubles or _doubles(each.name for each in resource.configs)):
                code, message = checks.INVALID_REQUEST, "Each resource must appear at most once, and each key in it."
            for each in resource.configs:
                if each.config_operation == _DELETE:
                    config.pop(each.name, None)
                elif each.value is None and not code:
                    code, message = checks.INVALID_REQUEST, f"Null value not supported for : {each.name}"
                else:
                    config[each.name] = each.value
            if not code:
                code, message = checks.check_configs(config, self.release.version)
            if not code and found is None:
                code, message = checks.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist."
            if not code and found and not request.validate_only:
                self.topics[name] = replace(found, config=config)
                self.changes.append(("configure", name))
            results.append(element(error_code=code, error_message=message or None, resource_type=2, resource_name=name))
        return IncrementalAlterConfigsResponse(throttle_time_ms=0, responses=results)

    def _delete(self, request: Message) -> Message:
        by_id = {topic.id: name for name, topic in self.topics.items()}
        asked = [(each.name, each.topic_id) for each in request.topics] or [
            (name, NO_ID) for name in request.topic_names
        ]
        doubles = _doubles(asked)
        element, results = DeleteTopicsResponse.DeletableTopicResult, []
        for named, topic_id in dict.fromkeys(asked):
            assert named is None or request.topic_names, "topiarist deletes by id where it can"
            name = by_id.get(topic_id) if named is None else named if named in self.topics else None
            code, message = self._veto(name, request) if name else ACCEPTED
            if (named, topic_id) in doubles:
                code, message = checks.INVALID_REQUEST, "Duplicate topic."
            elif not name:
                code, message = checks.UNKNOWN_TOPIC_ID, "This server does not host this topic ID."
                if named is not None:
                    code, message = checks.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic."
            if not code and name:
                del self.topics[name]
                self.changes.append(("delete", name))
            shown = named if code else name
            results.append(element(name=shown, topic_id=topic_id, error_code=code, error_message=message or None))
        return DeleteTopicsResponse(throttle_time_ms=0, responses=results)

    def _check_lists(self, lists: Sequence[Replicas], width: int) -> Verdict:
        return checks.check_lists(lists, {each.id for each in self.brokers}, width=width, fenced=self.stopped)

    def _veto(self, name: str, element: Any) -> Verdict:
        return next((veto for each in self.vetoes if (veto := each(name, element))), ACCEPTED)

    def _is_over_quota(self) -> bool:
        if self.quota is None:
            return False
        self.quota -= 1
        return self.quota < 0

    def _new_id(self) -> uuid.UUID:
        self._next_id += 1
        return uuid.UUID(int=self._next_id << 64)


class FakeConnection(Offering):
    """A connection to the brokers in memory; it breaks as a socket does."""

    def __init__(self, cluster: FakeCluster) -> None:
        super().__init__(cluster.release, cluster.call)
        self.timeouts: list[float | None] = []

    def call(self, request: Message, *, version: int | None = None, timeout: float | None = None) -> Message:
        """Keep the timeout, and return the decoded answer."""
        self.timeouts.append(timeout)
        return super().call(request, version=version, timeout=timeout)


class FakeAdminSession:
    """The connections for Admin requests to the brokers in memory."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.connection = FakeConnection(cluster)
        self.calls: Counter[str] = Counter()

    def controller(self) -> Any:
        """Return the connection to the controller."""
        self.calls["controller"] += 1
        return self.connection

    def forget_controller(self) -> None:
        """Count the call."""
        self.calls["forget_controller"] += 1


def shorten_waits(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let the product wait ``seconds`` for what brokers in memory have done at once, or never do."""
    for name in ("ANSWER_TIMEOUT_S", "OLD_LOOK_S", "QUOTA_WAIT_S"):
        patch.setattr(chunks, name, seconds)
    patch.setattr(chunks, "_MIN_QUOTA_WAIT_MS", 10)
    patch.setattr(writer, "QUOTA_TIMEOUT_S", 0.5)
    patch.setattr(writer, "_LOOK_INTERVAL_S", seconds / 10)
    patch.setattr(sync, "LIST_SETTLE_S", 0.0)  # in memory nothing is shown before it is committed


def lose_answer(cluster: FakeCluster, request: Message) -> Message:
    """Carry out the request, and break the connection before the answer."""
    cluster.carry_out(request)
    raise Disconnected("the broker closed the connection", was_sent=True)


def lose_request(cluster: FakeCluster, request: Message) -> Message:  # noqa: ARG001
    """Break the connection after the request was sent, and never carry it out."""
    raise Disconnected("the broker closed the connection", was_sent=True)


def refuse_connection(cluster: FakeCluster, request: Message) -> Message:  # noqa: ARG001
    """Break the connection before the request was sent."""
    raise Disconnected("it was closed", was_sent=False)


def answer_code(code: int, message: str = "", *, with_effect: bool = False, throttle_ms: int = 0) -> Fault:
    """Return a fault that answers ``code`` for each element, with or without carrying out the request."""

    def fault(cluster: FakeCluster, request: Message) -> Message:
        if with_effect:
            cluster.carry_out(request)
        cluster.vetoes.insert(0, lambda name, element: (code, message))
        answer = cluster.carry_out(request)
        cluster.vetoes.pop(0)
        answer.throttle_time_ms = throttle_ms
        return answer

    return fault


def leave_out(*names: str, with_effect: bool = True) -> Fault:
    """Return a fault that leaves out the elements of some topics from an answer to CreateTopics."""

    def fault(cluster: FakeCluster, request: Message) -> Message:
        if not with_effect:
            request.topics = [each for each in request.topics if each.name not in names]
        answer = cluster.carry_out(request)
        answer.topics = [each for each in answer.topics if each.name not in names]
        return answer

    return fault


def veto_topics(names: Collection[str], code: int, message: str = "") -> Veto:
    """Return a veto of some topics."""
    return lambda name, element: (code, message) if name in names else None


def leave_out_ids(cluster: FakeCluster, request: Message) -> Message:
    """Carry out CreateTopics, and answer without the ids of the topics."""
    answer = cluster.carry_out(request)
    for each in answer.topics:
        each.topic_id = uuid.UUID(int=0)
    return answer


def _describe_configs(config: Mapping[str, str]) -> list[Any]:
    """Return the configs of a new topic as the answer to its creation has them, without the defaults of the brokers."""
    described = CreateTopicsResponse.CreatableTopicResult.CreatableTopicConfigs
    return [described(name=key, value=value, config_source=1) for key, value in config.items()]


def _doubles(names: Iterable[Any]) -> set[Any]:
    """Return the names that a request has more than once."""
    return {name for name, count in Counter(names).items() if count > 1}
