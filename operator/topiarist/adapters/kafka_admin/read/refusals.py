"""Read whether the brokers would refuse changes of a plan, as far as rights to read show it.

Moves need rights that other changes do not: without them a run would begin, write a record and throttles, and then move
nothing. Remote storage is a setting of the brokers that no topic shows. ``write/writer.py`` asks about the other
changes, for which it needs the rights to write. What the cluster cannot do at all is in its ``Capabilities``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from topiarist.adapters.kafka_admin.connection import error_codes
from topiarist.adapters.kafka_admin.connection.connection import NO_ID, Connection, UnsupportedRequest
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.protocol.messages import DescribeGroupsRequest, MetadataRequest
from topiarist.adapters.kafka_admin.read.configs import read_static_settings
from topiarist.adapters.kafka_admin.read.metadata import read_metadata
from topiarist.adapters.kafka_admin.read.topic_reader import read_again
from topiarist.errors import Reason
from topiarist.kafka.config_rules import REMOTE_STORAGE_SETTING
from topiarist.kafka.config_values import java_trim
from topiarist.model.plan import (
    Change,
    CreateTopic,
    ElectLeaders,
    Issue,
    MoveReplicas,
    Plan,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.state import AllowedOperations
from topiarist.planning.builder import is_throttled

_ALTER, _DESCRIBE, _DESCRIBE_CONFIGS, _ALTER_CONFIGS = "Alter", "Describe", "DescribeConfigs", "AlterConfigs"
_OPERATIONS = {3: "Read", 4: "Write", 5: "Create", 6: "Delete", 7: _ALTER, 8: _DESCRIBE} | {
    10: _DESCRIBE_CONFIGS,
    11: _ALTER_CONFIGS,
}
"""The operations that topiarist may need, by their numbers in Kafka's protocol."""

_NOT_SAID = -(1 << 31)
_SOME_GROUP = "topiarist"
_ALLOWED_CODES = frozenset({error_codes.NONE, *error_codes.LOOKUP_CODES, 69})
"""Codes of an answer about a group that the user may describe: it is elsewhere, or there is none of that name."""

_FIRST_VERSION, _LAST_VERSION = 8, 10
"""The versions of Metadata that have the allowed operations of the cluster and of topics."""

_REMOTE_STORAGE = "remote.storage.enable"
NO_MOVES_WITHOUT_RECORDS = (
    "replicas are not moved on a cluster without records (spec.kafka.records: None): the moves in flight and the"
    " throttles to put back are kept there"
)
_HINT_NO_MOVES = "move them with the service's own tool, or keep records"
_HINT_RIGHTS = "grant the permission: docs/connections.md lists those that moves need"


def find_refusals(session: Session, plan: Plan, *, keeps_records: bool = True) -> Mapping[str, Sequence[Issue]]:
    """Return by topic what the brokers would refuse, each with the changes that it withholds; write nothing.

    Without records no replicas are moved.

    Raises ``TopiaristError`` if the brokers do not answer. What they may not be asked is no refusal.
    """
    topics = [*plan.actionable_topics()]
    if not topics:
        return {}
    issues: dict[str, list[Issue]] = {}
    if not keeps_records:
        for topic in topics:
            if moves := tuple(change for change in topic.changes if isinstance(change, MoveReplicas)):
                issue = Issue(Reason.NOT_OFFERED, NO_MOVES_WITHOUT_RECORDS, (), _HINT_NO_MOVES, moves)
                issues.setdefault(topic.topic, []).append(issue)
    moved = [topic for topic in topics if topic.moves() or topic.elections()]
    if moved:
        allowed = read_again(lambda: _read_allowed(session.any_broker(), [topic.topic for topic in moved]))
        for topic in moved:
            issues.setdefault(topic.topic, []).extend(_find_denied(topic, allowed))
    remote = {
        topic.topic: changes
        for topic in topics
        if (changes := tuple(change for change in topic.changes if _gives_remote_storage(change)))
    }
    if remote and _has_no_remote_storage(session):
        message = f"{_REMOTE_STORAGE} is true, and the brokers have {REMOTE_STORAGE_SETTING}=false"
        hint = f"remove {_REMOTE_STORAGE}, or configure tiered storage on the brokers"
        for name, changes in remote.items():
            issue = Issue(Reason.CONFIG_INVALID, message, ("config", _REMOTE_STORAGE), hint, changes)
            issues.setdefault(name, []).append(issue)
    return {name: found for name, found in issues.items() if found}


def read_allowed_operations(session: Session) -> AllowedOperations:
    """Return the operations that the user may do, on all topics that the user may see. Raises ``TopiaristError``."""

    def read() -> AllowedOperations:
        connection = session.any_broker()
        return _read_allowed(connection, None)._replace(on_group=_read_allowed_on_group(connection))

    return read_again(read)


def _read_allowed_on_group(connection: Connection) -> Collection[str] | None:
    request = DescribeGroupsRequest(groups=[_SOME_GROUP], include_authorized_operations=False)
    try:
        codes = {each.error_code for each in connection.call(request).groups}
    except UnsupportedRequest:
        return None
    if codes <= error_codes.AUTHORIZATION_CODES:
        return ()
    return (_DESCRIBE,) if codes <= _ALLOWED_CODES else None


def _read_allowed(connection: Connection, names: Collection[str] | None) -> AllowedOperations:
    """Return the operations that are allowed on these topics (None: on all), without those on groups."""
    topic = MetadataRequest.MetadataRequestTopic
    request = MetadataRequest(
        topics=None if names is None else [topic(name=name, topic_id=NO_ID) for name in names],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=True,
        include_topic_authorized_operations=True,
    )
    version = connection.version_of(request, at_most=_LAST_VERSION)
    if version < _FIRST_VERSION:
        return AllowedOperations(None, {}, None)
    answer = connection.call(request, version=version)
    on_topics = {
        each.name: _decode_operations(each.topic_authorized_operations) for each in answer.topics if not each.error_code
    }
    return AllowedOperations(_decode_operations(answer.cluster_authorized_operations), on_topics, None)


def _decode_operations(bits: int) -> Collection[str] | None:
    """Return the names of allowed operations; None if the broker does not say."""
    return None if bits == _NOT_SAID else frozenset(name for number, name in _OPERATIONS.items() if bits >> number & 1)


def _find_denied(topic: TopicPlan, allowed: AllowedOperations) -> Iterator[Issue]:
    """Yield one refusal for the moves of a topic, and one for its elections."""
    for kind, verb in ((MoveReplicas, "move replicas"), (ElectLeaders, "elect leaders")):
        changes: list[Change] = [each for each in topic.changes if isinstance(each, kind)]
        if not changes:
            continue
        denied = [_describe_denied(_ALTER, "cluster")] if _is_denied(_ALTER, allowed.on_cluster) else []
        if is_throttled(topic, changes):
            verb = "throttle the copies"
            rights = (_DESCRIBE_CONFIGS, _ALTER_CONFIGS)
            denied += [_describe_denied(each, "cluster") for each in rights if _is_denied(each, allowed.on_cluster)]
            if _is_denied(_ALTER_CONFIGS, allowed.on_topics.get(topic.topic)):
                denied.append(_describe_denied(_ALTER_CONFIGS, "topic"))
        if denied:
            message = f"to {verb} it needs {', '.join(denied)}"
            yield Issue(Reason.NO_PERMISSION, message, (), _HINT_RIGHTS, tuple(changes))


def _is_denied(operation: str, allowed: Collection[str] | None) -> bool:
    """Return whether a set of allowed operations lacks one; a broker that does not say denies nothing."""
    return allowed is not None and operation not in allowed


def _describe_denied(operation: str, resource: str) -> str:
    return f"the right {operation} on the {resource}"


def _has_no_remote_storage(session: Session) -> bool:
    brokers = read_again(lambda: read_metadata(session.any_broker(), []).brokers)
    settings = read_again(lambda: read_static_settings(session, brokers[0].id, [REMOTE_STORAGE_SETTING]))
    return settings.get(REMOTE_STORAGE_SETTING) == "false"


def _gives_remote_storage(change: Change) -> bool:
    if isinstance(change, CreateTopic):
        return _is_true(change.config.get(_REMOTE_STORAGE))
    return isinstance(change, UpdateConfig) and any(
        item.key == _REMOTE_STORAGE and _is_true(item.after) for item in change.items
    )


def _is_true(text: str | None) -> bool:
    return java_trim(text or "").lower() == "true"
