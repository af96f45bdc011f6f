"""Ask the brokers whether they would refuse the changes of a plan, with requests that are validated only.

The controller runs the same checks and the same policies as for a real request, without an effect and without a quota.
Deletions cannot be asked about: their request has no such option.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from topiarist.adapters.kafka_admin.connection.connection import Disconnected
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.write.answers import Answer, Certainty, Element, not_made_outcome
from topiarist.adapters.kafka_admin.write.chunk_requests import (
    ANSWER_TIMEOUT_S,
    Kind,
    build_request,
    needs_request,
    read_answer,
)
from topiarist.adapters.kafka_admin.write.chunks import is_deletion, split_chunks, too_large_outcome
from topiarist.adapters.kafka_admin.write.requests import config_items_of
from topiarist.errors import Reason, TopiaristError
from topiarist.model.outcome import Outcome
from topiarist.model.plan import AddPartitions, Change, CreateTopic, Issue, Plan, TopicPlan, UpdateConfig

HINT = "change the manifest, or ask the administrators of the brokers"

_CHANGE_TYPES: Mapping[Kind, type[Change]] = {
    Kind.CREATE: CreateTopic,
    Kind.CONFIGURE: UpdateConfig,
    Kind.GROW: AddPartitions,
}


def ask_brokers(session: Session, plan: Plan) -> Mapping[str, Sequence[Issue]]:
    """Return the refusals of the brokers by topic, each with the changes that it withholds.

    Raises ``TopiaristError`` if the brokers do not answer for a topic.
    """
    issues: dict[str, list[Issue]] = {}
    asked = []
    for topic in plan.actionable_topics():
        if outcome := too_large_outcome(topic):
            issues[topic.topic] = [_build_issue(outcome, topic.changes)]
        elif not is_deletion(topic):
            asked.append(topic)
    known_brokers = plan.assumptions().brokers.keys()
    for chunk in split_chunks(asked):
        for kind, change_type in _CHANGE_TYPES.items():
            topics = {topic.topic: topic for topic in chunk if needs_request(topic, kind)}
            for name, element in _ask(session, kind, topics).items():
                topic = topics[name]
                if element.certainty is Certainty.ACCEPTED:
                    continue
                if element.certainty is not Certainty.NOT_MADE:
                    raise _no_answer(f"the answer about {name} is unknown: {element.message or 'no element'}")
                has_unknown = not topic.placed_brokers() <= known_brokers
                outcome = not_made_outcome(name, element, kind.value, unknown_brokers=has_unknown)
                changes = [change for change in topic.changes if isinstance(change, change_type)]
                issues.setdefault(name, []).append(_build_issue(outcome, changes, _field(kind, topic)))
    return issues


def _ask(session: Session, kind: Kind, topics: Mapping[str, TopicPlan]) -> Mapping[str, Element]:
    if not topics:
        return {}
    answer = _call(session, kind, topics)
    if any(element.certainty is Certainty.NOT_CONTROLLER for element in answer.elements.values()):
        session.forget_controller()
        answer = _call(session, kind, topics)
    return answer.elements


def _call(session: Session, kind: Kind, topics: Mapping[str, TopicPlan]) -> Answer:
    try:
        connection, request = session.controller(), build_request(kind, topics, validate_only=True)
        return read_answer(kind, connection.call(request, timeout=ANSWER_TIMEOUT_S), topics)
    except Disconnected as error:
        raise _no_answer(str(error)) from error


def _no_answer(why: str) -> TopiaristError:
    message = f"the brokers were asked about the plan, and did not answer: {why}"
    return TopiaristError(Reason.UNREACHABLE, message, "run the same command again; nothing was written")


def _build_issue(outcome: Outcome, changes: Sequence[Change], field: tuple[str, ...] = ()) -> Issue:
    reason = outcome.reason or Reason.WRITE_FAILED
    return Issue(reason, outcome.message, field=field, hint=HINT, withheld=tuple(changes))


def _field(kind: Kind, topic: TopicPlan) -> tuple[str, ...]:
    if kind is Kind.GROW:
        return ("partitions",)
    if kind is Kind.CONFIGURE:
        items = config_items_of(topic)
        return ("config", items[0].key) if len(items) == 1 else ("config",)
    return ()
