"""The decoder of plan files: the JSON that ``encode`` writes, back into ``Plan`` values.

``apply --plan`` calls ``parse_plan_file``. A plan file is untrusted text, and a fingerprint only detects accidental
changes. So a file is accepted only if it is, to the byte, what topiarist writes for the decoded values, and if
``validate`` finds no value that topiarist would never plan. ``planning.preconditions`` then checks the plan against the
cluster, and ``filters.review`` removes changes.

The decoder runs after the schema check. A decoded ``TopicState`` holds only what the plan depends on: the topic's
identity, its ownership record, and the config keys that must keep their values.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from topiarist.adapters.saved_plans import validate
from topiarist.adapters.saved_plans.encode import FORMAT_VERSION, compute_fingerprint, dumps, encode_plans
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.types import (
    MAX_KAFKA_VERSION,
    MIN_KAFKA_VERSION,
    Broker,
    KafkaVersion,
    Replicas,
    format_version,
    parse_version,
)
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
    """Return the plans in a file of ``plan --out``, in the order of the file.

    ``name`` is the file name for messages. Raises only ``TopiaristError``: ``NotAPlan``, ``PlanTooNew`` or
    ``PlanEdited``.
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
    content = _parse_json(raw)
    _require_format(content)
    if compute_fingerprint(content) != content["fingerprint"]:
        _raise_error(Reason.PLAN_EDITED, "was edited after it was made: its fingerprint is that of another content")
    if error_text := load.first_error("plan", content):
        _raise_error(Reason.NOT_A_PLAN, f"is no plan of topiarist: {error_text}")
    try:
        plans = decode_plans(content)
    except UnknownValueError as error:
        _raise_error(Reason.NOT_A_PLAN, f"is no plan of topiarist: {error}")
    if error_text := validate.first_error(plans):
        _raise_error(Reason.NOT_A_PLAN, f"holds what topiarist never plans: {error_text}")
    if dumps(encode_plans(plans)).encode() != raw:
        _raise_error(Reason.PLAN_EDITED, "was edited after it was made: topiarist writes the same content otherwise")
    return plans


def _parse_json(raw: bytes) -> Any:
    """Parse JSON strictly: no duplicate keys, no fractions, no numbers beyond 64 bits."""
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
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("found a key twice in one object")
    return fields


def _parse_integer(digits: str) -> int:
    if len(digits) > 20 or abs(number := int(digits)) > _MAX_INTEGER:
        raise ValueError(f"found the number {printable(digits)}, wanted at most 64 bits")
    return number


def _reject_number(text: str) -> NoReturn:
    raise ValueError(f"found {printable(text)}, wanted whole numbers only")


def _require_format(content: Any) -> None:
    """Raise ``TopiaristError`` unless the content is a plan file of a format that this version reads."""
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
    """A value that this version does not know: a reason or a Kafka version."""


def decode_plans(document: Mapping[str, Any]) -> tuple[Plan, ...]:
    """Return the plans of a document, in its order.

    Raises ``UnknownValueError``.
    """
    return tuple(map(_decode_plan, document["clusters"]))


def _decode_plan(fields: Mapping[str, Any]) -> Plan:
    rules, write_block = fields["configRules"], fields["writeBlock"]
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
        write_block=WriteBlock(_decode_reason(write_block["reason"]), write_block["message"])
        if write_block
        else WriteBlock(),
        config_rules=ConfigRules(
            version=None if rules["kafkaVersion"] is None else _decode_version(rules["kafkaVersion"]),
            allow_unknown_configs=tuple(rules["allowUnknownConfigs"]),
            broker_config=rules["brokerConfig"],
        ).with_relevant_settings(),
        min_version=_decode_version(rules["releaseAtLeast"]),
    )


def _decode_version(text: str) -> KafkaVersion:
    version = parse_version(text)
    if not MIN_KAFKA_VERSION <= version <= MAX_KAFKA_VERSION:
        supported = f"{format_version(MIN_KAFKA_VERSION)} to {format_version(MAX_KAFKA_VERSION)}"
        raise UnknownValueError(f"found Kafka release {text}, wanted one from {supported}")
    return version


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
        config={key: text for key, text in fields["retainedConfig"].items() if text is not None},
        topic_id=fields["topicId"],
        record=record,
        record_valid=bool(fields["record"]["beforeValid"]),
    )


def _decode_record(fields: Mapping[str, Any] | None) -> OwnershipRecord | None:
    if fields is None:
        return None
    applied_fields = fields.get("applied")
    applied = applied_fields and AppliedSpec(
        applied_fields["partitions"], tuple(sorted(applied_fields["config"].items())), applied_fields["removeUnmanaged"]
    )
    return OwnershipRecord(fields["owner"], tuple(fields["config"]), fields["absent"], applied)


def _decode_change(fields: Mapping[str, Any]) -> Change:
    before, after, assessment = fields.get("before"), fields.get("after"), _decode_risk_assessment(fields)
    match fields["kind"], before, after:
        case "CreateTopic", None, {}:
            return CreateTopic(_decode_replica_lists(after["replicas"]), after["config"], assessment)
        case "AddPartitions", {}, {}:
            lists = _decode_replica_lists(after["newReplicas"])
            return AddPartitions(before["partitions"], tuple(before["firstReplicas"]), lists, assessment)
        case "UpdateConfig", _, _:
            return UpdateConfig(tuple(map(_decode_config_item, fields["config"])))
        case "DeleteTopic", {}, None:
            return DeleteTopic(before["partitions"], before["replicas"], assessment)
        case _:
            return TakeOwnership(assessment)


def _decode_replica_lists(lists: Sequence[Sequence[int]]) -> tuple[Replicas, ...]:
    return tuple(map(tuple, lists))


def _decode_config_item(fields: Mapping[str, Any]) -> ConfigItem:
    return ConfigItem(
        fields["key"], fields["before"], fields["after"], _decode_risk_assessment(fields), fields["inherited"]
    )


def _decode_risk_assessment(fields: Mapping[str, Any]) -> RiskAssessment:
    return RiskAssessment(_RISKS[fields["risk"]], fields["explanation"])


def _decode_issue(fields: Mapping[str, Any]) -> Issue:
    """Decode a refusal or a notice; only a refusal has a hint and withheld changes."""
    withheld = tuple(map(_decode_change, fields.get("withheld", ())))
    return Issue(
        _decode_reason(fields["reason"]), fields["message"], tuple(fields["field"]), fields.get("hint", ""), withheld
    )
