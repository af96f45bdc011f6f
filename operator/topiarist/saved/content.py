"""The values of a plan from its document: what ``render.document`` does, the other way round.

The document has been found to be of its schema; whether its values make sense is the business of ``sense``. A topic as
it was before is known only as far as the plan rests on it: its identity, its record, and the keys that must stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from topiarist.core.change import (
    AddPartitions,
    Adopt,
    Change,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    Finding,
    Plan,
    Risk,
    TopicPlan,
    UpdateConfig,
    Verdict,
)
from topiarist.core.quoting import quoted
from topiarist.core.rules import judging
from topiarist.core.spec import NEWEST, OLDEST, ClusterSpec
from topiarist.core.state import Applied, Broker, Gate, Release, Replicas, TopicRecord, TopicState
from topiarist.errors import Reason

_RISKS = {risk.word: risk for risk in Risk}
_REASONS = {reason.value: reason for reason in Reason}


class UnknownWordError(ValueError):
    """A word from a list that is longer elsewhere: a reason, a release."""


def plans(document: Mapping[str, Any]) -> tuple[Plan, ...]:
    """The plans of a document, in its order. Raises ``UnknownWordError``."""
    return tuple(map(_plan, document["clusters"]))


def _plan(found: Mapping[str, Any]) -> Plan:
    rules, gate = found["configRules"], found["gate"]
    return Plan(
        cluster=found["name"],
        cluster_id=found["clusterId"],
        location=found["chroot"],
        owner=found["owner"],
        brokers=tuple(Broker(broker["id"], broker["rack"]) for broker in found["brokers"]),
        topics=tuple(map(_topic, found["topics"])),
        unchanged=found["unchanged"],
        orphans=tuple(found["orphans"]),
        warnings=tuple(found["warnings"]),
        gate=Gate(_reason(gate["reason"]), gate["message"]) if gate else Gate(),
        judging=judging(
            ClusterSpec(
                release=None if rules["kafkaVersion"] is None else _release(rules["kafkaVersion"]),
                allow_unknown_configs=tuple(rules["allowUnknownConfigs"]),
                broker_config=rules["brokerConfig"],
            )
        ),
        release_at_least=_release(rules["releaseAtLeast"]),
    )


def _release(text: str) -> Release:
    major, minor = map(int, text.split("."))
    if not OLDEST <= (major, minor) <= NEWEST:
        raise UnknownWordError(f"found Kafka release {text}, wanted one from 2.4 to 3.9")
    return major, minor


def _reason(word: str) -> Reason:
    if word not in _REASONS:
        raise UnknownWordError(f"found the reason {quoted(word)}, which this release does not know")
    return _REASONS[word]


def _topic(found: Mapping[str, Any]) -> TopicPlan:
    record = _record(found["record"]["before"])
    return TopicPlan(
        topic=found["topic"],
        before=None if found["identity"] is None else _before(found, record),
        record_before=record,
        record_after=_record(found["record"]["after"]),
        changes=tuple(map(_change, found["changes"])),
        refusals=tuple(map(_finding, found["refusals"])),
        notices=tuple(map(_finding, found["notices"])),
        observed=found["observed"],
    )


def _before(found: Mapping[str, Any], record: TopicRecord | None) -> TopicState:
    return TopicState(
        name=found["topic"],
        identity=found["identity"],
        replicas=(),
        config={key: text for key, text in found["vouched"].items() if text is not None},
        topic_id=found["topicId"],
        record=record,
        record_valid=bool(found["record"]["beforeValid"]),
    )


def _record(found: Mapping[str, Any] | None) -> TopicRecord | None:
    if found is None:
        return None
    was = found.get("applied")
    applied = was and Applied(was["partitions"], tuple(sorted(was["config"].items())), was["removeUnmanaged"])
    return TopicRecord(found["owner"], tuple(found["config"]), found["absent"], applied)


def _change(found: Mapping[str, Any]) -> Change:
    before, after, verdict = found.get("before"), found.get("after"), _verdict(found)
    match found["kind"], before, after:
        case "CreateTopic", None, {}:
            return CreateTopic(_lists(after["replicas"]), after["config"], verdict)
        case "AddPartitions", {}, {}:
            lists = _lists(after["newReplicas"])
            return AddPartitions(before["partitions"], tuple(before["firstReplicas"]), lists, verdict)
        case "UpdateConfig", _, _:
            return UpdateConfig(tuple(map(_item, found["config"])))
        case "DeleteTopic", {}, None:
            return DeleteTopic(before["partitions"], before["replicas"], verdict)
        case _:
            return Adopt(verdict)


def _lists(found: Sequence[Sequence[int]]) -> tuple[Replicas, ...]:
    return tuple(map(tuple, found))


def _item(found: Mapping[str, Any]) -> ConfigItem:
    return ConfigItem(found["key"], found["before"], found["after"], _verdict(found), found["inherited"])


def _verdict(found: Mapping[str, Any]) -> Verdict:
    return Verdict(_RISKS[found["risk"]], found["because"])


def _finding(found: Mapping[str, Any]) -> Finding:
    """A refusal or a notice; only refusals say what to do, and hold changes."""
    held = tuple(map(_change, found.get("held", ())))
    return Finding(_reason(found["reason"]), found["message"], tuple(found["field"]), found.get("instead", ""), held)
