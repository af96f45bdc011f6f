"""Plans that were kept in a file: the document of ``adapters.saved_plans.encode``, read back into the values that it
was made of.

A file is text from outside, whoever wrote it, and a fingerprint proves no more than that nobody changed it by mistake.
So a file counts only if it is, to the byte, what topiarist would write for the values that are read from it, and if
those are values that topiarist would plan: ``content`` has the values, ``sense`` says which of them no plan would have.
Before this stand a file's bytes, after it ``planning.preconditions`` (is the plan still true?) and ``filters.review``.

The values of a plan from its document: what ``adapters.saved_plans.encode`` does, the other way round.

The document has been found to be of its schema; whether its values make sense is the business of ``sense``. A topic as
it was before is known only as far as the plan rests on it: its identity, its record, and the keys that must stay.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from topiarist.adapters.saved_plans import validate
from topiarist.adapters.saved_plans.encode import FORMAT_VERSION, compute_fingerprint, dumps, encode_plans
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.types import MAX_KAFKA_VERSION, MIN_KAFKA_VERSION, Broker, KafkaVersion, Replicas
from topiarist.model.plan import (
    AddPartitions,
    Change,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    Issue,
    Plan,
    Risk,
    RiskAssessment,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.state import AppliedSpec, OwnershipRecord, TopicState, WriteBlock
from topiarist.schema import load
from topiarist.text import printable, quote

HINT_PLAN_AGAIN = "make it anew: topiarist plan PATH --out FILE"
_REQUIRED_FIELDS = ("formatVersion", "clusters", "fingerprint")
_MAX_INTEGER = 2**63 - 1


def parse_plan_file(raw: bytes, name: str) -> tuple[Plan, ...]:
    """The plans in a file that ``plan --out`` wrote, in its order; ``name`` is the file's, for messages.

    Raises ``TopiaristError`` and nothing else: ``NotAPlan``, ``PlanTooNew`` or ``PlanEdited``.
    """
    try:
        return _parse_plans(raw)
    except TopiaristError as error:
        raise TopiaristError(error.reason, f"{printable(name, 200)}: {error.args[0]}", error.hint) from error
    except RecursionError:
        raise TopiaristError(
            Reason.NOT_A_PLAN, f"{printable(name, 200)}: is nested too deep", HINT_PLAN_AGAIN
        ) from None


def _parse_plans(raw: bytes) -> tuple[Plan, ...]:
    found = _parse_json(raw)
    _require_format(found)
    if compute_fingerprint(found) != found["fingerprint"]:
        _raise_error(Reason.PLAN_EDITED, "was edited after it was made: its fingerprint is that of another content")
    if wrong := load.first_error("plan", found):
        _raise_error(Reason.NOT_A_PLAN, f"is no plan of topiarist: {wrong}")
    try:
        plans = decode_plans(found)
    except UnknownValueError as error:
        _raise_error(Reason.NOT_A_PLAN, f"is no plan of topiarist: {error}")
    if wrong := validate.first_error(plans):
        _raise_error(Reason.NOT_A_PLAN, f"holds what topiarist never plans: {wrong}")
    if dumps(encode_plans(plans)).encode() != raw:
        _raise_error(Reason.PLAN_EDITED, "was edited after it was made: topiarist writes the same content otherwise")
    return plans


def _parse_json(raw: bytes) -> Any:
    """The JSON in a file, read strictly: no key twice, no fractions, no numbers beyond 64 bits."""
    try:
        return json.loads(
            raw.decode(),
            object_pairs_hook=_reject_duplicate_keys,
            parse_int=_parse_integer,
            parse_float=_reject_number,
            parse_constant=_reject_number,
        )
    except UnicodeDecodeError as error:
        _raise_error(Reason.NOT_A_PLAN, f"is not JSON: byte {error.start + 1:,} is not UTF-8")
    except json.JSONDecodeError as error:
        _raise_error(Reason.NOT_A_PLAN, f"is not JSON: {error.msg} at line {error.lineno:,}, column {error.colno:,}")
    except ValueError as error:
        _raise_error(Reason.NOT_A_PLAN, f"is not JSON as plans have it: {error}")


def _reject_duplicate_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("found a key twice in one object")
    return found


def _parse_integer(digits: str) -> int:
    if len(digits) > 20 or abs(number := int(digits)) > _MAX_INTEGER:
        raise ValueError(f"found the number {printable(digits)}, wanted at most 64 bits")
    return number


def _reject_number(text: str) -> NoReturn:
    raise ValueError(f"found {printable(text)}, wanted whole numbers only")


def _require_format(content: Any) -> None:
    """Whether it is a document of ours at all, and of a format that this release reads."""
    if not isinstance(content, dict) or any(field not in content for field in _REQUIRED_FIELDS):
        _raise_error(Reason.NOT_A_PLAN, f"is no plan of topiarist: wanted an object with {', '.join(_REQUIRED_FIELDS)}")
    version = content["formatVersion"]
    if type(version) is not int or version < 1:
        _raise_error(Reason.NOT_A_PLAN, f"is no plan of topiarist: found formatVersion {quote(str(version))}")
    if version > FORMAT_VERSION:
        message = f"is of format {version}, and this release reads up to {FORMAT_VERSION}"
        raise TopiaristError(Reason.PLAN_TOO_NEW, message, "apply it with the release that made it, or a later one")


def _raise_error(reason: Reason, message: str) -> NoReturn:
    raise TopiaristError(reason, message, HINT_PLAN_AGAIN)


_RISKS = {risk.label: risk for risk in Risk}
_REASONS = {reason.value: reason for reason in Reason}


class UnknownValueError(ValueError):
    """A word from a list that is longer elsewhere: a reason, a release."""


def decode_plans(document: Mapping[str, Any]) -> tuple[Plan, ...]:
    """The plans of a document, in its order. Raises ``UnknownWordError``."""
    return tuple(map(_decode_plan, document["clusters"]))


def _decode_plan(fields: Mapping[str, Any]) -> Plan:
    rules, gate = fields["configRules"], fields["gate"]
    return Plan(
        cluster=fields["name"],
        cluster_id=fields["clusterId"],
        chroot=fields["chroot"],
        owner=fields["owner"],
        brokers=tuple(Broker(broker["id"], broker["rack"]) for broker in fields["brokers"]),
        topics=tuple(map(_decode_topic, fields["topics"])),
        unchanged=fields["unchanged"],
        orphans=tuple(fields["orphans"]),
        warnings=tuple(fields["warnings"]),
        write_block=WriteBlock(_decode_reason(gate["reason"]), gate["message"]) if gate else WriteBlock(),
        config_rules=ConfigRules(
            version=None if rules["kafkaVersion"] is None else _decode_version(rules["kafkaVersion"]),
            allow_unknown_configs=tuple(rules["allowUnknownConfigs"]),
            broker_config=rules["brokerConfig"],
        ).with_relevant_settings(),
        min_version=_decode_version(rules["releaseAtLeast"]),
    )


def _decode_version(text: str) -> KafkaVersion:
    major, minor = map(int, text.split("."))
    if not MIN_KAFKA_VERSION <= (major, minor) <= MAX_KAFKA_VERSION:
        raise UnknownValueError(f"found Kafka release {text}, wanted one from 2.4 to 3.9")
    return major, minor


def _decode_reason(word: str) -> Reason:
    if word not in _REASONS:
        raise UnknownValueError(f"found the reason {quote(word)}, which this release does not know")
    return _REASONS[word]


def _decode_topic(fields: Mapping[str, Any]) -> TopicPlan:
    record = _decode_record(fields["record"]["before"])
    return TopicPlan(
        topic=fields["topic"],
        before=None if fields["identity"] is None else _decode_state_before(fields, record),
        record_before=record,
        record_after=_decode_record(fields["record"]["after"]),
        changes=tuple(map(_decode_change, fields["changes"])),
        refusals=tuple(map(_decode_issue, fields["refusals"])),
        notices=tuple(map(_decode_issue, fields["notices"])),
        observe_only=fields["observed"],
    )


def _decode_state_before(fields: Mapping[str, Any], record: OwnershipRecord | None) -> TopicState:
    return TopicState(
        name=fields["topic"],
        identity=fields["identity"],
        replicas=(),
        config={key: text for key, text in fields["vouched"].items() if text is not None},
        topic_id=fields["topicId"],
        record=record,
        record_valid=bool(fields["record"]["beforeValid"]),
    )


def _decode_record(fields: Mapping[str, Any] | None) -> OwnershipRecord | None:
    if fields is None:
        return None
    was = fields.get("applied")
    applied = was and AppliedSpec(was["partitions"], tuple(sorted(was["config"].items())), was["removeUnmanaged"])
    return OwnershipRecord(fields["owner"], tuple(fields["config"]), fields["absent"], applied)


def _decode_change(fields: Mapping[str, Any]) -> Change:
    before, after, verdict = fields.get("before"), fields.get("after"), _decode_risk_assessment(fields)
    match fields["kind"], before, after:
        case "CreateTopic", None, {}:
            return CreateTopic(_decode_replica_lists(after["replicas"]), after["config"], verdict)
        case "AddPartitions", {}, {}:
            lists = _decode_replica_lists(after["newReplicas"])
            return AddPartitions(before["partitions"], tuple(before["firstReplicas"]), lists, verdict)
        case "UpdateConfig", _, _:
            return UpdateConfig(tuple(map(_decode_config_item, fields["config"])))
        case "DeleteTopic", {}, None:
            return DeleteTopic(before["partitions"], before["replicas"], verdict)
        case _:
            return TakeOwnership(verdict)


def _decode_replica_lists(lists: Sequence[Sequence[int]]) -> tuple[Replicas, ...]:
    return tuple(map(tuple, lists))


def _decode_config_item(fields: Mapping[str, Any]) -> ConfigItem:
    return ConfigItem(
        fields["key"], fields["before"], fields["after"], _decode_risk_assessment(fields), fields["inherited"]
    )


def _decode_risk_assessment(fields: Mapping[str, Any]) -> RiskAssessment:
    return RiskAssessment(_RISKS[fields["risk"]], fields["because"])


def _decode_issue(fields: Mapping[str, Any]) -> Issue:
    """A refusal or a notice; only refusals say what to do, and hold changes."""
    held = tuple(map(_decode_change, fields.get("held", ())))
    return Issue(
        _decode_reason(fields["reason"]), fields["message"], tuple(fields["field"]), fields.get("instead", ""), held
    )
