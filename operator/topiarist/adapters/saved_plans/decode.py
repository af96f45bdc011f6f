"""The decoder of plan files: the JSON that ``encode`` writes, back into ``Plan`` values.

``apply --plan`` calls ``parse_plan_file``. A plan file is untrusted text, and a fingerprint only detects accidental
changes. So a file is accepted only if it is, to the byte, what topiarist writes for the decoded values, and if
``validate`` finds no value that topiarist would never plan. ``planning.preconditions`` then checks the plan against the
cluster, and ``filters.review`` removes changes.

The decoder runs after the schema check. A decoded ``TopicState`` holds only what the plan depends on: the topic's
identity, its ownership record, and the config keys that must keep their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topiarist.adapters.own_values import record_of
from topiarist.adapters.saved_plans import validate
from topiarist.adapters.saved_plans.encode import FORMAT_VERSION, compute_fingerprint, dumps, encode_plans
from topiarist.adapters.strict_json import JsonError, decode_json
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.config_rules import ConfigRules
from topiarist.kafka.types import (
    MAX_KAFKA_VERSION,
    MIN_KAFKA_VERSION,
    Broker,
    ClusterMode,
    KafkaVersion,
    format_version,
    parse_version,
)
from topiarist.model.access import Via
from topiarist.model.limits import LimitedResource, LimitUsage
from topiarist.model.moves import LeaderChange, MoveKind, ReplicaMove
from topiarist.model.plan import (
    AddPartitions,
    Change,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    ElectLeaders,
    ImpliedTopic,
    Issue,
    MoveReplicas,
    Plan,
    Risk,
    RiskAssessment,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.state import TopicState, WriteBlock
from topiarist.schema import load
from topiarist.text import printable, quote

HINT_PLAN_AGAIN = "make a new plan: topiarist plan PATH --out FILE"
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
            Reason.NOT_A_PLAN, f"{printable(name, 200)}: is nested too deeply", HINT_PLAN_AGAIN
        ) from None


def _parse_plans(raw: bytes) -> tuple[Plan, ...]:
    try:
        content = decode_json(raw, _parse_integer)
    except JsonError as error:
        raise _not_a_plan_error(str(error)) from error
    _require_format(content)
    if compute_fingerprint(content) != content["fingerprint"]:
        raise _edited_error("its fingerprint does not match its content")
    if error_text := load.first_error("plan", content):
        raise _not_a_plan_error(error_text)
    plans = tuple(map(_decode_plan, content["clusters"]))
    if error_text := validate.first_error(plans):
        raise _not_a_plan_error(f"topiarist never plans this: {error_text}")
    if dumps(encode_plans(plans)).encode() != raw:
        raise _edited_error("topiarist writes this content in another form")
    return plans


def _parse_integer(digits: str) -> int:
    if len(digits) > 20 or abs(number := int(digits)) > _MAX_INTEGER:
        raise JsonError(f"found the number {printable(digits)}, wanted at most 64 bits")
    return number


def _require_format(content: Any) -> None:
    """Raise ``TopiaristError`` unless the content is a plan file of a format that this version reads."""
    if not isinstance(content, dict) or any(field not in content for field in _REQUIRED_FIELDS):
        raise _not_a_plan_error(f"wanted an object with {', '.join(_REQUIRED_FIELDS)}")
    version = content["formatVersion"]
    if type(version) is not int or version < 1:
        raise _not_a_plan_error(f"found formatVersion {quote(str(version))}, wanted {FORMAT_VERSION}")
    if version > FORMAT_VERSION:
        message = f"has format version {version}, and this release of topiarist reads up to {FORMAT_VERSION}"
        raise TopiaristError(Reason.PLAN_TOO_NEW, message, "apply it with the release that wrote it, or a later one")


def _not_a_plan_error(message: str) -> TopiaristError:
    return TopiaristError(Reason.NOT_A_PLAN, f"is not a saved plan: {message}", HINT_PLAN_AGAIN)


def _edited_error(message: str) -> TopiaristError:
    return TopiaristError(Reason.PLAN_EDITED, f"was edited after topiarist wrote it: {message}", HINT_PLAN_AGAIN)


_RISKS = {risk.label: risk for risk in Risk}
_REASONS = {reason.value: reason for reason in Reason}


def _decode_plan(fields: Mapping[str, Any]) -> Plan:
    rules, write_block = fields["configRules"], fields["writeBlock"]
    return Plan(
        cluster=fields["name"],
        cluster_id=fields["clusterId"],
        chroot=fields["chroot"],
        bypasses_brokers=fields["via"] == Via.ZOOKEEPER.value,
        owner=fields["owner"],
        brokers=tuple(Broker(broker["id"], broker["rack"]) for broker in fields["brokers"]),
        topics=tuple(map(_decode_topic, fields["topics"])),
        unchanged=fields["unchanged"],
        orphans=tuple(fields["orphans"]),
        warnings=tuple(fields["warnings"]),
        implied=tuple(
            ImpliedTopic(each["topic"], each["partitions"], each["replicas"], each["maker"], each["purpose"])
            for each in fields.get("alsoCreates", ())
        ),
        limits=tuple(
            LimitUsage(**{**each, "resource": LimitedResource(each["resource"])}) for each in fields.get("limits", ())
        ),
        write_block=WriteBlock(_decode_reason(write_block["reason"]), write_block["message"])
        if write_block
        else WriteBlock(),
        config_rules=ConfigRules(
            version=None if rules["kafkaVersion"] is None else _decode_version(rules["kafkaVersion"]),
            allow_unknown_configs=tuple(rules["allowUnknownConfigs"]),
            broker_config=rules["brokerConfig"],
            mode=ClusterMode(fields["mode"]),
        ).with_relevant_settings(),
        min_version=_decode_version(rules["releaseAtLeast"]),
    )


def _decode_version(text: str) -> KafkaVersion:
    version = parse_version(text)
    if not MIN_KAFKA_VERSION <= version <= MAX_KAFKA_VERSION:
        wanted = f"{format_version(MIN_KAFKA_VERSION)} to {format_version(MAX_KAFKA_VERSION)}"
        raise _not_a_plan_error(f"found Kafka release {text}, wanted {wanted}")
    return version


def _decode_reason(word: str) -> Reason:
    if word not in _REASONS:
        raise _not_a_plan_error(f"found the reason {quote(word)}, which this release of topiarist does not know")
    return _REASONS[word]


def _decode_topic(fields: Mapping[str, Any]) -> TopicPlan:
    record_before, record_after = (
        each and record_of(each) for each in (fields["record"]["before"], fields["record"]["after"])
    )
    before = None
    if fields["identity"] is not None:
        before = TopicState(
            name=fields["topic"],
            identity=fields["identity"],
            replicas=(),
            config={key: text for key, text in fields["retainedConfig"].items() if text is not None},
            topic_id=fields["topicId"],
            record=record_before,
            record_valid=bool(fields["record"]["beforeValid"]),
        )
    return TopicPlan(
        topic=fields["topic"],
        before=before,
        record_before=record_before,
        record_after=record_after,
        changes=tuple(_decode_change(change, fields["topic"]) for change in fields["changes"]),
        refusals=tuple(_decode_issue(issue, fields["topic"]) for issue in fields["refusals"]),
        notices=tuple(_decode_issue(issue, fields["topic"]) for issue in fields["notices"]),
        observe_only=fields["observed"],
        co_partition_group=fields.get("coPartitionGroup", ""),
        usage=tuple(fields.get("usage", ())),
    )


def _decode_change(fields: Mapping[str, Any], topic: str) -> Change:
    before, after, assessment = fields.get("before"), fields.get("after"), _decode_risk_assessment(fields)
    match fields["kind"], before, after:
        case "CreateTopic", None, {}:
            return CreateTopic(tuple(map(tuple, after["replicas"])), after["config"], assessment)
        case "AddPartitions", {}, {}:
            new_replicas = tuple(map(tuple, after["newReplicas"]))
            first, keyed = tuple(before["firstReplicas"]), fields.get("keyed", True)
            return AddPartitions(before["partitions"], first, new_replicas, assessment, keyed)
        case "MoveReplicas", _, _:
            return MoveReplicas(tuple(_decode_move(move, topic) for move in fields["moves"]), assessment)
        case "ElectLeaders", _, _:
            return ElectLeaders(tuple(LeaderChange(**each) for each in fields["partitions"]), assessment)
        case "UpdateConfig", _, _:
            items = (
                ConfigItem(item["key"], item["before"], item["after"], _decode_risk_assessment(item), item["inherited"])
                for item in fields["config"]
            )
            return UpdateConfig(tuple(items))
        case "DeleteTopic", {}, None:
            return DeleteTopic(before["partitions"], before["replicas"], assessment)
        case _:
            return TakeOwnership(assessment)


def _decode_move(fields: Mapping[str, Any], topic: str) -> ReplicaMove:
    before, after = tuple(fields["before"]), tuple(fields["after"])
    return ReplicaMove(topic, fields["partition"], before, after, tuple(map(MoveKind, fields["reasons"])))


def _decode_risk_assessment(fields: Mapping[str, Any]) -> RiskAssessment:
    return RiskAssessment(_RISKS[fields["risk"]], fields["explanation"])


def _decode_issue(fields: Mapping[str, Any], topic: str) -> Issue:
    """Decode a refusal or a notice; only a refusal has a hint and withheld changes."""
    withheld = tuple(_decode_change(change, topic) for change in fields.get("withheld", ()))
    return Issue(
        _decode_reason(fields["reason"]), fields["message"], tuple(fields["field"]), fields.get("hint", ""), withheld
    )
