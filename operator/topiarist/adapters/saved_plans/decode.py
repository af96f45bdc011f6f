"""The decoder of plan files: the JSON that ``encode`` writes, back into ``Plan`` values; and of reports, for reverts.

``apply --plan`` calls ``parse_plan_file``. A plan file is untrusted text, and a fingerprint only detects accidental
changes. So a file is accepted only if it is, to the byte, what topiarist writes for the decoded values, and if it has
no value that topiarist would never plan. ``planning.preconditions`` then checks the plan against the cluster, and
``filters.review`` removes changes.

The decoder runs after the schema check. A decoded ``TopicState`` holds only what the plan depends on: the topic's
identity, its ownership record, and the config keys that must keep their values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct, convert

from topiarist.adapters.own_values import Int32, JsonError, ReplicaList, decode_json, record_of
from topiarist.adapters.saved_plans.encode import FORMAT_VERSION, compute_fingerprint, dumps, encode_plans
from topiarist.errors import REASONS, Reason, TopiaristError
from topiarist.kafka import types
from topiarist.kafka.config_rules import ConfigRules
from topiarist.model.access import DEFAULT_RECORDS_TOPIC, Via
from topiarist.model.moves import LeaderChange, MoveKind, ReplicaMove
from topiarist.model.outcome import Result
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
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
    config_after,
    matches_recorded_value,
)
from topiarist.model.spec import LimitedResource, LimitUsage
from topiarist.model.state import TopicState, WriteBlock
from topiarist.planning.risk import UNKEYED_GROWTH, assess_deletion, assess_elections, assess_moves
from topiarist.planning.without_specs import MovedTopic, merge_moves
from topiarist.schema import load
from topiarist.text import printable, quote

# Validation of decoded plans: values that the schema accepts but that topiarist never plans.
#
# The planner never makes such names, lists or combinations, but an edited plan file can hold them. The preconditions of
# a plan, and whether Kafka accepts the config of a topic as a whole, are checked at the cluster.

_VALID_COMBINATIONS = (
    *((), (CreateTopic,), (AddPartitions,), (UpdateConfig,), (AddPartitions, UpdateConfig)),
    *((MoveReplicas,), (MoveReplicas, UpdateConfig), (ElectLeaders,), (AddPartitions, ElectLeaders)),
    *((UpdateConfig, ElectLeaders), (AddPartitions, UpdateConfig, ElectLeaders)),
    *((DeleteTopic,), (TakeOwnership,)),
)
"""The combinations of changes that one topic can have, in order."""

_INTERNAL_TOPICS = types.INTERNAL_TOPICS | {DEFAULT_RECORDS_TOPIC.name}

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def first_error(plans: Sequence[Plan]) -> str:
    """Return the first value that topiarist never plans, with its location; empty if there is none."""
    if not _is_ascending([plan.cluster for plan in plans]):
        return "found clusters that are duplicate or not sorted by name"
    if len({plan.cluster_id for plan in plans}) < len(plans):
        return "found two plans for one cluster id"
    return next((f"cluster {quote(plan.cluster)}: {message}" for plan in plans for message in _plan_errors(plan)), "")


def _plan_errors(plan: Plan) -> Iterator[str]:
    if not _is_ascending([broker.id for broker in plan.brokers]):
        yield "found brokers that are duplicate or not sorted by id"
    if not _is_ascending([topic.topic for topic in plan.topics]):
        yield "found topics that are duplicate or not sorted by name"
    if len({types.metric_name(topic.topic) for topic in plan.topics}) < len(plan.topics):
        yield 'found two topic names that differ only in "." and "_", which Kafka does not allow'
    for topic in plan.topics:
        yield from (f"topic {quote(topic.topic)}: {message}" for message in _topic_errors(topic, plan))
    if any(types.are_unplaced(topic.new_replicas()) for topic in plan.topics) and (
        plan.bypasses_brokers or not plan.placed_by_brokers
    ):
        yield "found replicas without brokers, and no brokers that place them"


def _topic_errors(topic: TopicPlan, plan: Plan) -> Iterator[str]:
    if message := types.topic_name_problem(topic.topic):
        yield message
    if topic.before and topic.before.record_valid and topic.record_before is None:
        yield "found a valid ownership record before the changes that is absent"
    for change in (*topic.changes, *(change for refusal in topic.refusals for change in refusal.withheld)):
        yield from _change_errors(change)
    if topic.changes:
        yield from _combination_errors(topic)
        yield from _record_errors(topic, plan.owner) if plan.keeps_records else _kept_record_errors(topic)


def _combination_errors(topic: TopicPlan) -> Iterator[str]:
    kinds = tuple(map(type, topic.changes))
    if kinds not in _VALID_COMBINATIONS:
        yield f"found changes that exclude each other: {', '.join(kind.__name__ for kind in kinds)}"
    if (CreateTopic in kinds) != (topic.before is None):
        yield "found the creation of a topic that exists, or a change of a topic that does not exist"
    moved = {kind for move in topic.moves() for kind in move.kinds}
    is_repair = kinds == (MoveReplicas,) and moved <= {MoveKind.DRAIN, MoveKind.RACKS}
    if topic.topic in _INTERNAL_TOPICS and kinds not in ((TakeOwnership,), (ElectLeaders,)) and not is_repair:
        yield "found a change of a topic that is internal to Kafka or to topiarist"


def _kept_record_errors(topic: TopicPlan) -> Iterator[str]:
    """Yield an error if a topic of a cluster without records has one, or a change that needs one."""
    if topic.record_before or topic.record_after:
        yield "found an ownership record in a plan without records"
    if any(isinstance(change, TakeOwnership | MoveReplicas) for change in topic.changes):
        yield "found a change that needs records in a plan without records"


def _record_errors(topic: TopicPlan, owner: str) -> Iterator[str]:
    """Yield the errors of the record after the changes.

    The record belongs to the plan's owner and names keys that are then set. A deletion needs the owner's record before.
    """
    before, after = topic.before.valid_record if topic.before else None, topic.record_after
    deletes = any(isinstance(change, DeleteTopic) for change in topic.changes)
    config = topic.before.config if topic.before else {}
    for change in topic.changes:
        config = change.config if isinstance(change, CreateTopic) else config_after(config, [change])
    known_keys = {*config, *(before.config_keys if before else ())}
    if after is None or after.owner != owner or after.deleted != deletes:
        yield "found an ownership record after the changes that does not match the changes and the owner"
    elif not _is_ascending(after.config_keys) or not set(after.config_keys) <= known_keys:
        yield "found an ownership record after the changes with keys that are not sorted or not set"
    elif after.applied:
        applied_before = before.applied.config if before and before.applied else ()
        for key, value in after.applied.config:
            is_set = key in config and matches_recorded_value(key, value, config[key])
            if key not in after.config_keys or not (is_set or (key, value) in applied_before):
                found = f"a value of {quote(key)} that does not match the changes"
                yield f"found an ownership record after the changes with {found}"
    if deletes and (before is None or before.owner != owner or before.deleted):
        yield "found the deletion of a topic without a valid ownership record of the plan's owner"


def _change_errors(change: Change) -> Iterator[str]:
    match change:
        case CreateTopic(replicas, config, assessment):
            yield from _replica_list_errors(replicas)
            for key, text in config.items():
                yield from _control_character_errors(key, text)
            yield from _risk_errors(assessment, lowest=Risk.SAFE, highest=Risk.SAFE)
        case AddPartitions(first_replicas=first_replicas, replicas=replicas, assessment=assessment, keyed=keyed):
            yield from _replica_list_errors(replicas)
            if any(len(brokers) != len(first_replicas) for brokers in replicas):
                yield "found new partitions with another number of replicas than partition 0"
            if keyed or assessment != UNKEYED_GROWTH:
                yield from _risk_errors(assessment, lowest=Risk.DISRUPTIVE, highest=Risk.DATA_LOSS)
        case MoveReplicas(moves, assessment):
            yield from _move_errors(moves)
            if assessment != assess_moves(moves):
                yield "found moves with another risk or explanation than they have"
        case ElectLeaders(partitions, assessment):
            yield from _election_errors(partitions)
            if assessment != assess_elections(partitions):
                yield "found an election with another risk or explanation than it has"
        case UpdateConfig():
            yield from _config_item_errors(change)
        case DeleteTopic(partitions, replica_count, assessment):
            if assessment != assess_deletion(partitions, replica_count):
                yield "found a deletion with another risk or explanation than a deletion has"
        case TakeOwnership(assessment):
            yield from _risk_errors(assessment, lowest=Risk.SAFE, highest=Risk.SAFE)


def _move_errors(moves: Sequence[ReplicaMove]) -> Iterator[str]:
    if not moves or not _is_ascending([move.partition for move in moves]):
        yield "found no moves, or partitions that are duplicate or not sorted"
    kinds = [*MoveKind]
    for move in moves:
        where = f"partition {move.partition}"
        if move.before == move.after:
            yield f"{where}: found equal replica lists before and after"
        for replicas in (move.before, move.after):
            for _, message in types.find_assignment_errors({0: replicas}):
                yield f"{where}: {message}"
        if not move.kinds or not _is_ascending([kinds.index(kind) for kind in move.kinds]):
            yield f"{where}: found no reasons, or reasons that are duplicate or not in order"
        elif problem := _find_reason_problem(move):
            yield f"{where}: {problem}"


def _find_reason_problem(move: ReplicaMove) -> str:
    """Return why these reasons do not move a partition to this list, forward or back; empty if they may.

    A reason is also the permission that a move needs, so it must not be one that gives another result. The plan of
    ``moves revert`` has the reasons of the moves that it takes back, of several runs perhaps.
    """
    before, after, kinds = move.before, move.after, set(move.kinds)
    if len(before) != len(after) and kinds.isdisjoint({MoveKind.FACTOR, MoveKind.ASSIGNMENT}):
        return "found another number of replicas without the reason Factor or Assignment"
    if kinds <= {MoveKind.DRAIN, MoveKind.RACKS} and not move.added:
        return "found another order of the same brokers for a reason that replaces brokers"
    if kinds <= {MoveKind.RACKS, MoveKind.FACTOR} and before[0] != after[0]:
        return "found another preferred leader for a reason that keeps it"
    return ""


def _election_errors(partitions: Sequence[LeaderChange]) -> Iterator[str]:
    if not partitions or not _is_ascending([each.partition for each in partitions]):
        yield "found no partitions of an election, or partitions that are duplicate or not sorted"
    for each in partitions:
        if each.before == each.after:
            yield f"partition {each.partition}: found equal leaders before and after"


def _replica_list_errors(replicas: Sequence[types.Replicas]) -> Iterator[str]:
    if not replicas:
        yield "found no partitions in a change that adds partitions"
    if types.are_unplaced(replicas):
        if len(set(replicas)) > 1 or set(replicas[0]) != {types.UNPLACED}:
            yield "found replica lists that name brokers in part, or are of different length"
        return
    for partition, message in types.find_assignment_errors(dict(enumerate(replicas))):
        yield f"replica list {partition}: {message}"


def _config_item_errors(change: UpdateConfig) -> Iterator[str]:
    if not _is_ascending([item.key for item in change.items]):
        yield "found config keys that are duplicate or not sorted"
    for item in change.items:
        if item.before == item.after:
            yield f"config {quote(item.key)}: found equal values before and after"
        yield from _control_character_errors(item.key, item.after or "")
        yield from _risk_errors(item.assessment, lowest=Risk.SAFE, highest=Risk.DATA_LOSS)


def _control_character_errors(key: str, text: str) -> Iterator[str]:
    if not key.isprintable() or _CONTROL_CHARACTERS.search(text):
        yield f"config {quote(key)}: found a control character"


def _risk_errors(assessment: RiskAssessment, *, lowest: Risk, highest: Risk) -> Iterator[str]:
    if not lowest <= assessment.risk <= highest or (assessment.risk is Risk.SAFE and assessment != SAFE_ASSESSMENT):
        yield f"found the risk {assessment.risk.label} with an explanation, or for a change that cannot have it"


def _is_ascending(values: Sequence[Any]) -> bool:
    """Return whether values are in strictly ascending order."""
    return all(value < following for value, following in pairwise(values))


HINT_PLAN_AGAIN = "make a new plan: topiarist plan PATH --out FILE"
_REQUIRED_FIELDS = ("formatVersion", "clusters", "fingerprint")
_MAX_INTEGER = 2**63 - 1


class SavedPlans(NamedTuple):
    """The content of a plan file: its plans, in order, and the clusters that could not be planned, by name."""

    plans: tuple[Plan, ...]
    unplanned: Mapping[str, Reason]
    fingerprint: str


def parse_plan_file(raw: bytes, name: str) -> SavedPlans:
    """Return the content of a file of ``plan --out``.

    ``name`` is the file name for messages. Raises only ``TopiaristError``: ``NotAPlan``, ``PlanTooNew`` or
    ``PlanEdited``.
    """
    try:
        return _parse_plans(raw)
    except TopiaristError as error:
        raise TopiaristError(error.reason, f"{printable(name, 200)}: {error.message}", error.hint) from error
    except RecursionError:
        raise TopiaristError(
            Reason.NOT_A_PLAN, f"{printable(name, 200)}: is nested too deeply", HINT_PLAN_AGAIN
        ) from None


def _parse_plans(raw: bytes) -> SavedPlans:
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
    unplanned = {each["cluster"]: _decode_reason(each["reason"]) for each in content.get("unplanned", ())}
    error_text = first_error(plans)
    if both := [plan.cluster for plan in plans if plan.cluster in unplanned]:
        error_text = f"found a plan for cluster {quote(both[0])}, which is also in unplanned"
    if error_text:
        raise _not_a_plan_error(f"topiarist never plans this: {error_text}")
    if dumps(encode_plans(plans, unplanned)).encode() != raw:
        raise _edited_error("topiarist writes this content in another form")
    return SavedPlans(plans, unplanned, content["fingerprint"])


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


def _decode_plan(fields: Mapping[str, Any]) -> Plan:
    rules, write_block = fields["configRules"], fields["writeBlock"]
    return Plan(
        cluster=fields["name"],
        cluster_id=fields["clusterId"],
        chroot=fields["chroot"],
        bypasses_brokers=fields["via"] == Via.ZOOKEEPER.value,
        owner=fields["owner"],
        keeps_records=fields.get("keepsRecords", True),
        brokers=tuple(types.Broker(broker["id"], broker["rack"]) for broker in fields["brokers"]),
        topics=tuple(map(_decode_topic, fields["topics"])),
        unchanged=fields["unchanged"],
        orphans=tuple(fields["orphans"]),
        warnings=tuple(fields["warnings"]),
        implied=tuple(
            ImpliedTopic(each["topic"], each["partitions"], each["replicas"], each["maker"], each["purpose"])
            for each in fields.get("alsoCreates", ())
        ),
        placed_by_brokers=fields.get("placedByBrokers", ""),
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
            mode=types.ClusterMode(fields["mode"]),
        ).with_relevant_settings(),
        min_version=_decode_version(rules["releaseAtLeast"]),
    )


def _decode_version(text: str) -> types.KafkaVersion:
    version = types.parse_version(text)
    if not types.MIN_KAFKA_VERSION <= version <= types.MAX_KAFKA_VERSION:
        wanted = f"{types.format_version(types.MIN_KAFKA_VERSION)} to {types.format_version(types.MAX_KAFKA_VERSION)}"
        raise _not_a_plan_error(f"found Kafka release {text}, wanted {wanted}")
    return version


def _decode_reason(word: str) -> Reason:
    if word not in REASONS:
        raise _not_a_plan_error(f"found the reason {quote(word)}, which this release of topiarist does not know")
    return REASONS[word]


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


# Read the moved partitions in a report of ``apply --report``, for a plan that moves them back.
#
# A partition has a line when its move is done. A run that ended earlier has a line for the topic with all planned
# moves: a batch that it has sent may be done by now, so these count too.
#
# The lines of a run that was killed may end within a line: a line that is no JSON is counted and left out. A line that
# is JSON, and that topiarist never writes, is an error.

_HINT = "give the file of apply --report"


class MovedCluster(NamedTuple):
    """The moved topics of one cluster, by name, and Kafka's id of the cluster."""

    cluster_id: str
    topics: Mapping[str, MovedTopic]


class ReportMoves(NamedTuple):
    """The moved partitions of a report by cluster, and the numbers of the lines that are cut off."""

    clusters: Mapping[str, MovedCluster]
    cut_lines: tuple[int, ...]


def parse_report(data: bytes, path: str) -> ReportMoves:
    """Return the moves of all runs in a report; raise ``TopiaristError`` (Unreadable) if it is none."""
    cut_lines: list[int] = []
    found: dict[str, tuple[str, dict[str, MovedTopic]]] = {}
    has_header = False
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            fields = decode_json(line)
        except JsonError:
            cut_lines.append(number)
            continue
        try:
            has_header |= fields["row"] == "header" and fields["formatVersion"] == 1
            for move in _find_moves(fields):
                _add_move(found, fields, move)
        except (KeyError, TypeError, ValueError) as error:
            message = f"{path}, line {number}: is no line of a report"
            raise TopiaristError(Reason.UNREADABLE, message, _HINT) from error
    if not has_header:
        raise TopiaristError(Reason.UNREADABLE, f"{path}: found no header of a report", _HINT)
    clusters = {
        name: MovedCluster(
            cluster_id, {topic: moved._replace(moves=merge_moves(moved.moves)) for topic, moved in topics.items()}
        )
        for name, (cluster_id, topics) in found.items()
    }
    return ReportMoves(clusters, tuple(cut_lines))


def _find_moves(fields: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """Return the moves of one line: that of a partition, or those of a topic that are not finished."""
    if fields["row"] == "move":
        return [fields]
    if fields["row"] != "topic" or fields["result"] != Result.PENDING.value:
        return []
    return [move for change in fields["changes"] if change["kind"] == "MoveReplicas" for move in change["moves"]]


class _Topic(Struct, rename="camel"):
    """The topic of a line."""

    cluster: str
    cluster_id: str
    topic: str
    topic_id: str | None


class _Move(Struct):
    """A move in a line."""

    partition: Int32
    before: ReplicaList
    after: ReplicaList
    reasons: Annotated[tuple[MoveKind, ...], Meta(min_length=1)]

    def __post_init__(self) -> None:
        if self.before == self.after or any(len(set(each)) < len(each) for each in (self.before, self.after)):
            raise ValueError("found no move")


def _add_move(
    found: dict[str, tuple[str, dict[str, MovedTopic]]], fields: Mapping[str, Any], move_fields: Mapping[str, Any]
) -> None:
    """Add a move of one line; raise ``ValueError`` if the line is malformed."""
    line, read = convert(fields, _Topic), convert(move_fields, _Move)
    move = ReplicaMove(line.topic, read.partition, tuple(read.before), tuple(read.after), read.reasons)
    known_id, topics = found.setdefault(line.cluster, (line.cluster_id, {}))
    if known_id != line.cluster_id:
        raise ValueError
    earlier = topics.get(line.topic)
    # A topic with another id was deleted and recreated between two runs.
    moves = earlier.moves if earlier and earlier.topic_id in (None, line.topic_id) else ()
    topics[line.topic] = MovedTopic(line.topic_id, (*moves, move))
