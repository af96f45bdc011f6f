"""Ask the brokers about the changes of a plan, with requests that are validated only.

The controller runs the same checks and the same policies as for a real request, without an effect and without a
quota. Deletions cannot be asked about: their request has no such option.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import islice

from msgspec.structs import replace

from topiarist.adapters.kafka_admin.connection.connection import Disconnected, UnsupportedRequest
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.write import chunks, requests
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import MAX_TOPIC_NAME_LENGTH, UNPLACED, Replicas, are_unplaced
from topiarist.model.outcome import Outcome
from topiarist.model.plan import AddPartitions, Change, CreateTopic, Issue, Plan, TopicPlan, UpdateConfig
from topiarist.model.state import GIVEN, UNKNOWN, Capabilities, Support

HINT = "change the manifest, or ask the administrators of the brokers"

_CHANGE_TYPES: Mapping[requests.Kind, type[Change]] = {
    requests.Kind.CREATE: CreateTopic,
    requests.Kind.CONFIGURE: UpdateConfig,
    requests.Kind.GROW: AddPartitions,
}


def ask_brokers(session: Session, plan: Plan) -> Mapping[str, Sequence[Issue]]:
    """Return the refusals of the brokers by topic, each with the changes that it withholds.

    Raises ``TopiaristError`` if the brokers do not answer for a topic.
    """
    issues: dict[str, list[Issue]] = {}
    asked = []
    for topic in plan.actionable_topics():
        if outcome := chunks.too_large_outcome(topic):
            issues[topic.topic] = [_build_issue(outcome, topic.changes)]
        elif not chunks.is_deletion(topic):
            asked.append(topic)
    known_brokers = plan.assumptions().brokers.keys()
    for chunk in chunks.split_chunks(asked):
        for kind, change_type in _CHANGE_TYPES.items():
            topics = {topic.topic: topic for topic in chunk if chunks.needs_request(topic, kind)}
            for name, element in _ask(session, kind, topics).items():
                topic = topics[name]
                if element.certainty is requests.Certainty.ACCEPTED:
                    continue
                if element.certainty is not requests.Certainty.NOT_MADE:
                    raise _no_answer(f"the answer about {name} is unknown: {element.message or 'no element'}")
                has_unknown = not topic.placed_brokers() <= known_brokers
                outcome = requests.not_made_outcome(name, element, kind, unknown_brokers=has_unknown)
                changes = [change for change in topic.changes if isinstance(change, change_type)]
                issues.setdefault(name, []).append(_build_issue(outcome, changes, _field(kind, topic)))
    return issues


def _ask(session: Session, kind: requests.Kind, topics: Mapping[str, TopicPlan]) -> Mapping[str, requests.Element]:
    """Return the answer for each topic. Raises ``TopiaristError`` if the brokers do not answer."""
    try:
        return _call(session, kind, topics) if topics else {}
    except Disconnected as error:
        raise _no_answer(str(error)) from error


def _call(session: Session, kind: requests.Kind, topics: Mapping[str, TopicPlan]) -> Mapping[str, requests.Element]:
    answer = _call_once(session, kind, topics)
    if any(element.certainty is requests.Certainty.NOT_CONTROLLER for element in answer.elements.values()):
        session.forget_controller()
        answer = _call_once(session, kind, topics)
    return answer.elements


def _call_once(session: Session, kind: requests.Kind, topics: Mapping[str, TopicPlan]) -> requests.Answer:
    connection, request = session.controller(), chunks.build_request(kind, topics, validate_only=True)
    return requests.read_answer(kind, connection.call(request, timeout=chunks.ANSWER_TIMEOUT_S), topics)


def _no_answer(why: str) -> TopiaristError:
    message = f"the brokers were asked about the plan, and did not answer: {why}"
    return TopiaristError(Reason.UNREACHABLE, message, "run the same command again; nothing was written")


def _build_issue(outcome: Outcome, changes: Sequence[Change], field: tuple[str, ...] = ()) -> Issue:
    reason = outcome.reason or Reason.WRITE_FAILED
    return Issue(reason, outcome.message, field=field, hint=HINT, withheld=tuple(changes))


def _field(kind: requests.Kind, topic: TopicPlan) -> tuple[str, ...]:
    if kind is requests.Kind.GROW:
        return ("partitions",)
    if kind is requests.Kind.CONFIGURE:
        items = requests.config_items_of(topic)
        return ("config", items[0].key) if len(items) == 1 else ("config",)
    return ()


# Find out whether the brokers carry out replica lists.
#
# Some refuse them, and some take them and place replicas as they like. A list with one broker twice tells the second
# kind from Kafka, which refuses such a list before it asks a policy. Only a topic that is refused with a list, and
# accepted without it, shows the first kind: any other refusal may concern the topic. What stays unknown, for lack of
# rights for example, is tried: lists are sent, and compared with what was made.

_MAX_ASKED = 5
"""The number of topics to ask about: one may be refused for reasons of its own."""

_PROBE_END = "-topiarist-dry-run"
"""The end of the name of a topic that is never made: only its replica list is asked about."""

_IGNORED = Support(False, "they ignore replica lists: they accept one that has the same broker twice")
_LIST_ERRORS = frozenset({requests.INVALID_ASSIGNMENT, requests.INVALID_REQUEST})


def find_list_support(session: Session, plan: Plan) -> Capabilities:
    """Return the capabilities of the plan with what a dry run shows about replica lists; write nothing.

    The brokers are asked only about lists that the plan has, and only if it is not known whether they carry them out.
    """
    found = plan.capabilities
    listed = [
        topic for topic in plan.actionable_topics() if (lists := topic.new_replicas()) and not are_unplaced(lists)
    ]
    with suppress(Disconnected, UnsupportedRequest):
        created = {
            each.topic: each for each in islice((each for each in listed if requests.creation_of(each)), _MAX_ASKED)
        }
        if created and found.replica_lists.is_given is None:
            found = replace(found, replica_lists=_ask_about_creations(session, created))
        grown = {each.topic: each for each in islice((each for each in listed if requests.growth_of(each)), _MAX_ASKED)}
        if grown and found.growth_lists.is_given is None:
            found = replace(found, growth_lists=_ask_about_growth(session, grown))
    return found


def _ask_about_creations(session: Session, topics: Mapping[str, TopicPlan]) -> Support:
    first, plan = next(iter(topics.items()))
    name = f"{first[: MAX_TOPIC_NAME_LENGTH - len(_PROBE_END)]}{_PROBE_END}"
    probe = TopicPlan(name, changes=(CreateTopic((_repeat(plan.new_replicas()[0]),), {}),))
    answer = dict(_call(session, requests.Kind.CREATE, {**topics, name: probe}))
    probed = answer.pop(name)
    if any(each.certainty is requests.Certainty.ACCEPTED for each in answer.values()):
        return _judge_probe(probed)
    return _ask_without_lists(session, requests.Kind.CREATE, topics, answer)


def _ask_about_growth(session: Session, topics: Mapping[str, TopicPlan]) -> Support:
    answer = _call(session, requests.Kind.GROW, {name: _with_lists(topic, _repeat) for name, topic in topics.items()})
    for each in answer.values():
        if each.certainty is requests.Certainty.ACCEPTED or each.code == requests.INVALID_ASSIGNMENT:
            return _judge_probe(each)
    return _ask_without_lists(session, requests.Kind.GROW, topics, answer)


def _judge_probe(element: requests.Element) -> Support:
    """Return what the answer to a list with one broker twice shows."""
    if element.certainty is requests.Certainty.ACCEPTED:
        return _IGNORED
    return GIVEN if element.code in _LIST_ERRORS else UNKNOWN


def _ask_without_lists(
    session: Session, kind: requests.Kind, topics: Mapping[str, TopicPlan], answer: Mapping[str, requests.Element]
) -> Support:
    """Return what the same request without lists shows about topics that were refused with them."""
    refused = {name: each for name, each in answer.items() if each.code is not None and not each.is_denied}
    plain = {name: _with_lists(topics[name], lambda each: (UNPLACED,) * len(each)) for name in refused}
    for name, element in (_call(session, kind, plain) if plain else {}).items():
        if element.certainty is requests.Certainty.ACCEPTED:
            return Support(
                False, f"they accept {name} without replica lists, and refuse it with them: {answer[name].words}"
            )
    return UNKNOWN


def _with_lists(topic: TopicPlan, convert: Callable[[Replicas], Replicas]) -> TopicPlan:
    """Return the plan with other replica lists."""
    changes = (
        replace(each, replicas=tuple(map(convert, each.replicas)))
        if isinstance(each, CreateTopic | AddPartitions)
        else each
        for each in topic.changes
    )
    return replace(topic, changes=tuple(changes))


def _repeat(replicas: Replicas) -> Replicas:
    return replicas[:1] * max(len(replicas), 2)
