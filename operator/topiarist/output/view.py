"""The view of a change and of an issue that all outputs share: text, Markdown, pages, annotations and statuses.

``view_changes`` is the only place that distinguishes the kinds of changes. An output lays the fields of a
``ChangeView`` out in its own way; a field that a change does not have is empty. Values are exact and not sanitized.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, repeat
from posixpath import join, normpath
from typing import Any, NamedTuple

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from topiarist.errors import FieldPath, Location, Reason, TopiaristError
from topiarist.kafka.types import Replicas, are_unplaced
from topiarist.model.moves import UNLIMITED, MoveKind, MoveType, ReplicaMove
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
    Nudge,
    Plan,
    ReleaseOwnership,
    Risk,
    RiskAssessment,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.spec import TopicSpec, ValueOrigin, find_origin
from topiarist.planning.risk import assess_lowering
from topiarist.text import format_count, humanize_bytes, list_first, to_camel_case

FROM_CLUSTER_DEFAULTS = "from the cluster's defaults"

CLUSTER_WIDE_REASONS = frozenset(
    {
        Reason.KRAFT_CONTROLLER,
        Reason.KRAFT_MIGRATION,
        Reason.NO_CONTROLLER,
        Reason.FROZEN,
        Reason.RECORDS_NOT_MOVED,
        Reason.MOVED_BACK,
        Reason.BUDGET_EXCEEDED,
        Reason.MOVES_LIMITED,
    }
)
"""Reasons about the cluster or the run rather than a topic: the header or a remark at the end explains them."""

WARNING_REASONS = frozenset({Reason.EXISTING_PROBLEM, Reason.MAY_NEED_PROTECTION})
"""Reasons of notices that are shown with their message, even if the topic has no block."""

_MAX_SUBJECTS = 3


class ChangeKind(NamedTuple):
    """A kind of changes: its name, its label in counts of topics, and the noun that is the subject of its risk."""

    name: str
    label: str
    subject: str


CHANGE_KINDS: Mapping[type[Change], ChangeKind] = {
    CreateTopic: ChangeKind("create", "to create", "creation"),
    AddPartitions: ChangeKind("grow", "to grow", "growth"),
    MoveReplicas: ChangeKind("move", "to move", "move"),
    UpdateConfig: ChangeKind("configure", "to configure", ""),
    ElectLeaders: ChangeKind("elect", "to elect", "election"),
    DeleteTopic: ChangeKind("delete", "to delete", "deletion"),
    ReleaseOwnership: ChangeKind("record", "to unmanage", "record"),
    Nudge: ChangeKind("nudge", "to nudge", "nudge"),
    TakeOwnership: ChangeKind("record", "", "record"),
}
"""The kinds of changes, in the order of counts.

The subjects of a config change are its keys. A change of the record alone is counted by its action.
"""


class PartitionRow(NamedTuple):
    """One partition of a change: its replicas before and after, or its leaders; ``before`` is empty if it is new."""

    partition: int
    before: Replicas
    after: Replicas


class PartitionTable(Struct, frozen=True):
    """The partitions of a change, as columns: there may be 100,000, and most outputs show only the first ones.

    ``label`` names the rows, ``title`` says more. ``before`` is empty for new partitions, ``kinds`` has the reasons of
    moves. ``has_leaders`` is true if the rows are leaders and not replica lists.
    """

    label: str
    title: str
    partitions: Sequence[int]
    before: Sequence[Replicas]
    after: Sequence[Replicas]
    kinds: Sequence[Sequence[MoveKind]] = ()
    has_leaders: bool = False

    @property
    def extends(self) -> bool:
        """Return whether the rows are new partitions beside existing ones."""
        return not self.before and self.partitions[0] > 0

    def list_rows(self, limit: int | None = None) -> Iterator[PartitionRow]:
        """Yield the rows, or the first ``limit`` of them."""
        return islice(map(PartitionRow, self.partitions, self.before or repeat(()), self.after), limit)


class ChangeView(Struct, frozen=True):
    """A change as outputs show it.

    ``summary`` has it in a few words, ``before`` and ``after`` its size. ``field`` is the path below the spec of the
    field that asks for it; empty for the topic as a whole. ``partitions`` are the partition counts before and after;
    None if the change does not set them. ``risks`` has each subject with its assessment, ``unshown_risks`` those that
    neither the summary nor the leaders show. ``cause``, ``cause_origin`` and ``new_leaders`` are those of moves;
    ``demotes_leaders`` is true if a leader stays as a follower.
    """

    kind: str
    assessment: RiskAssessment
    risks: Sequence[tuple[str, RiskAssessment]]
    unshown_risks: Sequence[tuple[str, RiskAssessment]]
    summary: str = ""
    before: str = ""
    after: str = ""
    field: FieldPath = ()
    partitions: tuple[int, int] | None = None
    table: PartitionTable | None = None
    config: tuple[ConfigItem, ...] = ()
    cause: str = ""
    cause_origin: ValueOrigin | None = None
    new_leaders: str = ""
    demotes_leaders: bool = False

    @property
    def is_creation(self) -> bool:
        """Return whether the topic is new: its config then has no values before, not those of the brokers."""
        return self.partitions is not None and not self.partitions[0]

    @property
    def overrides(self) -> tuple[ConfigItem, ...]:
        """Return the config keys of an existing topic, each with a risk of its own."""
        return () if self.is_creation else self.config

    @property
    def is_deletion(self) -> bool:
        """Return whether the topic is deleted with its messages."""
        return self.partitions is not None and not self.partitions[1]


class TopicView(NamedTuple):
    """The changes of a topic, with the sign and the action of all, and the action on the record that goes with them."""

    sign: str
    action: str
    record: str
    changes: Sequence[ChangeView]


class IssueView(Struct, frozen=True):
    """A refusal or a notice as outputs show it.

    ``is_held_back`` is true for a reason that is explained once for the cluster or the run. ``cause`` is the label of
    the rule or the field of the Cluster at ``cause_place``. ``changes`` are the withheld changes. Places are found when
    they are read, because a document is parsed again for them.
    """

    reason: Reason
    message: str
    hint: str
    is_held_back: bool
    cause: str
    changes: Sequence[ChangeView]
    field: FieldPath
    spec: TopicSpec | None
    cause_origin: ValueOrigin | None

    @property
    def place(self) -> Location | None:
        """Return the location of the topic's field; None without a manifest."""
        return locate(self.spec, *self.field)

    @property
    def cause_place(self) -> Location | None:
        """Return the location of the cause; None if the issue has no cause but the topic."""
        return self.cause_origin.locate() if self.cause_origin else None

    @property
    def summary(self) -> str:
        """Return the withheld changes in a few words."""
        return summarize(self.changes)

    @property
    def risk(self) -> Risk:
        """Return the highest risk of the withheld changes; ``Risk.SAFE`` if there are none."""
        return max((change.assessment.risk for change in self.changes), default=Risk.SAFE)


def view_changes(
    changes: Iterable[Change], spec: TopicSpec | None = None, partition_count: int = 0, record_action: str = ""
) -> list[ChangeView]:
    """Return the views of changes of one topic.

    ``spec`` is that of the topic, for the causes of moves. ``partition_count`` is its number of partitions, and
    ``record_action`` is the action on its record if nothing else changes; 0 and empty if they are not known.
    """
    views = (_view_change(change, spec, partition_count) for change in changes)
    return [view if view.summary else replace(view, summary=record_action or "record only") for view in views]


def view_topic(plan: TopicPlan) -> TopicView:
    """Return the view of the changes of a topic."""
    ownership_action = describe_ownership_action(plan)
    partition_count = len(plan.before.replicas) if plan.before else 0
    record_action = describe_record_only(ownership_action) if is_record_only(plan) else ""
    changes = view_changes(plan.changes, plan.spec, partition_count, record_action)
    action = summarize(changes)
    if plan.observe_only:
        return TopicView(".", f"observed, not applied: {action}", "", changes)
    signs = {_SIGNS.get(change.kind, "~") for change in changes}
    sign = next((sign for sign in "+-~" if sign in signs), "=")
    too = f"{ownership_action}: the ownership record is written too" if ownership_action else ""
    return TopicView(sign, action, "" if is_record_only(plan) else too, changes)


def view_issue(topic: TopicPlan, issue: Issue, *, is_shared: bool = False) -> IssueView:
    """Return the view of a refusal or a notice.

    The hint of one that several topics share has TOPIC in place of the topic's name.
    """
    return IssueView(
        issue.reason,
        issue.message,
        issue.hint.replace(f"={topic.topic}", "=TOPIC") if is_shared else issue.hint,
        is_held_back=issue.reason in CLUSTER_WIDE_REASONS,
        cause="rule" if issue.reason in (Reason.POLICY_DENIED, Reason.POLICY_WARNING) else "cluster",
        changes=view_changes(issue.withheld, topic.spec),
        field=issue.field,
        spec=topic.spec,
        cause_origin=issue.cause_origin,
    )


def label_notice(notice: Issue) -> str:
    """Return ``warning`` for a problem or a danger that no other line shows, else ``note``."""
    return "warning" if notice.reason in WARNING_REASONS else "note"


def locate(spec: TopicSpec | None, *field: str | int) -> Location | None:
    """Return the location of a field of a topic; None without a manifest."""
    return find_origin(spec, *field).locate() if spec else None


_SIGNS = {"create": "+", "delete": "-", "record": "="}


def _view_change(change: Change, spec: TopicSpec | None, partition_count: int) -> ChangeView:
    kind = CHANGE_KINDS[type(change)]
    risks = ((kind.subject, change.assessment),)
    view = ChangeView(kind.name, change.assessment, risks, risks)
    match change:
        case CreateTopic(replicas, config):
            widths = sorted({len(brokers) for brokers in replicas})
            width = format_count(widths[0], "replica") if len(widths) == 1 else f"{widths[0]} to {widths[-1]} replicas"
            size = f"{format_count(len(replicas), 'partition')} x {width}{_describe_placement(replicas)}"
            view = replace(
                view,
                summary=f"create {size}",
                before="no topic",
                after=size,
                partitions=(0, len(replicas)),
                table=_tabulate(PartitionTable("partitions", "partitions", range(len(replicas)), (), replicas)),
                config=tuple(ConfigItem(key, None, text, SAFE_ASSESSMENT) for key, text in config.items()),
            )
        case AddPartitions():
            before, total = change.before, change.total
            title = f"partitions {before:,} -> {total:,}"
            view = replace(
                view,
                summary=f"grow {before:,} -> {format_count(total, 'partition')}{_describe_placement(change.replicas)}",
                before=format_count(before, "partition"),
                after=format_count(total, "partition"),
                field=("partitions",),
                partitions=(before, total),
                table=_tabulate(PartitionTable("partitions", title, range(before, total), (), change.replicas)),
            )
        case MoveReplicas(moves):
            view = _view_moves(view, moves, spec, partition_count)
        case ElectLeaders(elected):
            table = PartitionTable(
                "leaders",
                "leaders",
                [each.partition for each in elected],
                [(each.before,) for each in elected],
                [(each.after,) for each in elected],
                has_leaders=True,
            )
            count = format_count(len(elected), "partition")
            view = replace(view, summary=f"elect the preferred leaders of {count}", table=table)
        case UpdateConfig(items):
            of_keys = [(item.key, item.assessment) for item in items]
            field = ("config", items[0].key) if len(items) == 1 else ()
            view = replace(view, summary="configure", field=field, config=items, risks=of_keys, unshown_risks=of_keys)
        case DeleteTopic(count, replica_count):
            size = format_count(count, "partition")
            view = replace(
                view,
                summary=f"delete {size} and all messages",
                before=f"{size}, {format_count(replica_count, 'replica')}",
                after="no topic, no messages",
                field=("ensure",),
                partitions=(count, 0),
            )
        case ReleaseOwnership():
            view = replace(view, summary="unmanage: only the ownership record is removed")
        case Nudge(missing):
            size = f"{format_count(len(missing), 'partition')} without a state"
            view = replace(view, summary=f"nudge: {size}", before=size, after="initialized by the controller")
    return view


def _describe_placement(replicas: Sequence[Replicas]) -> str:
    return ", placed by the brokers" if are_unplaced(replicas) else ""


def _tabulate(table: PartitionTable) -> PartitionTable | None:
    """Return the table; None if the cluster chooses the brokers: there is nothing to list."""
    return None if are_unplaced(table.after) else table


def _view_moves(
    view: ChangeView, moves: Sequence[ReplicaMove], spec: TopicSpec | None, partition_count: int
) -> ChangeView:
    groups = [(kind, found) for kind in MoveKind if (found := [move for move in moves if kind in move.kinds])]
    kinds = {kind for kind, _ in groups}
    names = ", ".join(f"{kind.value} ({len(found):,})" for kind, found in groups)
    field = (
        ("replicaAssignment",)
        if MoveKind.ASSIGNMENT in kinds
        else ("replicationFactor",)
        if MoveKind.FACTOR in kinds
        else ()
    )
    table = PartitionTable(
        "replicas",
        f"replicas: {names}",
        [move.partition for move in moves],
        [move.before for move in moves],
        [move.after for move in moves],
        [move.kinds for move in moves],
    )
    return replace(
        view,
        unshown_risks=[("move", assess_lowering(moves))],
        summary=summarize_moves(moves, partition_count),
        field=field,
        table=table,
        # Without a spec only the names are known: the plan was saved, or takes moves back.
        cause=_describe_causes(groups, spec) if spec else names,
        cause_origin=_find_move_origin(moves, spec),
        new_leaders=_describe_new_leaders(moves),
        demotes_leaders=any(move.before[0] in move.after[1:] for move in moves),
    )


def summarize(changes: Iterable[ChangeView]) -> str:
    """Return changes in a few words: ``grow 6 -> 12 partitions, configure``."""
    return ", ".join(change.summary for change in changes)


def group_risks(assessments: Iterable[tuple[str, RiskAssessment]]) -> list[tuple[RiskAssessment, str]]:
    """Return each distinct assessment that has an explanation, with its subjects as text.

    The highest risk comes first.
    """
    subjects: dict[RiskAssessment, list[str]] = {}
    for subject, assessment in assessments:
        if assessment.explanation:
            subjects.setdefault(assessment, []).append(subject)
    grouped = []
    for assessment, names in sorted(subjects.items(), key=lambda group: -group[0].risk):
        # One more name is not longer than "and 1 more".
        most = _MAX_SUBJECTS + (len(names) == _MAX_SUBJECTS + 1)
        grouped.append((assessment, list_first(names, most)))
    return grouped


def is_record_only(topic: TopicPlan) -> bool:
    """Return whether only the ownership record is written, and nothing of Kafka's."""
    return bool(topic.changes) and all(isinstance(change, TakeOwnership) for change in topic.changes)


def describe_ownership_action(topic: TopicPlan) -> str:
    """Return the action on the ownership record of an existing topic.

    Empty if the owner stays the same, or if the topic or its new record does not exist.
    """
    before = topic.before.valid_record if topic.before else None
    if topic.before is None or topic.record_after is None:
        return ""
    if before is None:
        return "adopt"
    if topic.record_after and topic.record_after.owner != before.owner:
        return f"take ownership from {before.owner}"
    return ""


def describe_record_only(ownership_action: str) -> str:
    """Return the action of a topic with a change of its ownership record alone.

    ``ownership_action`` is a result of ``describe_ownership_action``.
    """
    return f"{ownership_action} (ownership record only)" if ownership_action else "update the ownership record"


def describe_implied(topic: ImpliedTopic) -> tuple[str, str]:
    """Return the size of a topic that the first apply makes without a manifest, and its maker and purpose."""
    size = f"create {format_count(topic.partitions, 'partition')} x {format_count(topic.replicas, 'replica')}"
    return size, f"{topic.maker}, once for a cluster, for {topic.purpose}"


def relative_path(file: str, root: str) -> str:
    """Return ``file`` relative to the folder ``root``, as in git; unchanged if outside ``root``.

    Comments, annotations and pages show it; a terminal shows locations as the user gave the paths.
    """
    path = normpath(join(root, file))
    return path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else file


def relative_location(location: Location, root: str) -> Location:
    """Return ``location`` with its file relative to the folder ``root``."""
    return location._replace(file=relative_path(location.file, root))


def encode_location(location: Location | None) -> dict[str, Any] | None:
    """Encode the location of a field for a JSON document; None if there is none."""
    return location._asdict() if location else None


def encode_error(error: TopiaristError | None) -> dict[str, str] | None:
    """Encode an error for a JSON document; None if there is none."""
    return {"reason": error.reason.value, "message": error.message, "hint": error.hint} if error else None


def encode_fields(value: object, *names: str) -> dict[str, Any]:
    """Return fields of a value for a JSON document, by their names in it: ``leader_epoch`` is ``leaderEpoch``.

    Enums become their values, tuples lists, locations mappings.
    """
    return {to_camel_case(name): _encode_field(getattr(value, name)) for name in names}


def _encode_field(value: object) -> object:
    if isinstance(value, Location):
        return encode_location(value)
    return [*map(_encode_field, value)] if isinstance(value, tuple) else to_builtins(value)


def summarize_moves(moves: Sequence[ReplicaMove], partition_count: int = 0) -> str:
    """Return moves in a few words: ``factor 2 -> 3, 6 partitions, 6 copies``.

    ``partition_count`` is the number of partitions of the topic; 0 if it is not known.
    """
    before, after = ({len(lists) for lists in each} for each in zip(*[move[2:4] for move in moves], strict=True))
    count = format_count(len(moves), "partition")
    if partition_count > len(moves):
        count = f"{len(moves):,} of {format_count(partition_count, 'partition')}"
    copies = sum(len(move.added) for move in moves)
    end = f", {_count_copies(copies)}" if copies else ""
    if len(after) == 1 and before.isdisjoint(after):
        return f"factor {' and '.join(map(str, sorted(before)))} -> {min(after)}, {count}{end}"
    return f"reorder the replicas of {count}" if _only_reorders(moves) else f"move {count}{end}"


def _count_copies(copies: int) -> str:
    return f"{copies:,} {'copy' if copies == 1 else 'copies'}"


def _only_reorders(moves: Iterable[ReplicaMove]) -> bool:
    return all(move.type is MoveType.REORDER for move in moves)


def _describe_causes(groups: Sequence[tuple[MoveKind, Sequence[ReplicaMove]]], spec: TopicSpec) -> str:
    """Return why replicas move: ``broker 5 is drained (Cluster.spec.drainBrokers)``.

    Several causes each have their number of partitions. Empty if a changed factor, which the summary has, is the only
    one.
    """
    if [kind for kind, _ in groups] == [MoveKind.FACTOR]:
        return ""
    texts = [(_describe_cause(kind, found, spec), len(found)) for kind, found in groups]
    if len(texts) == 1:
        return texts[0][0]
    return "; ".join(f"{text}: {format_count(count, 'partition')}" for text, count in texts)


def _describe_cause(kind: MoveKind, moves: Sequence[ReplicaMove], spec: TopicSpec) -> str:
    match kind:
        case MoveKind.DRAIN:
            return _describe_drain(moves, spec)
        case MoveKind.RACKS:
            return "replicas are in fewer racks than they could be"
        case MoveKind.FACTOR:
            return f"replicationFactor is {len(moves[0].after)}"
        case MoveKind.ASSIGNMENT:
            return f"replicaAssignment lists {'this order' if _only_reorders(moves) else 'these brokers'}"
        case MoveKind.SPREAD:
            return f"replicas or leaders are uneven (spread: {'One' if spec.spread_within_one else 'Kafka'})"
    return str(kind.value)


def _describe_drain(moves: Sequence[ReplicaMove], spec: TopicSpec) -> str:
    # A move that has other reasons too also removes replicas from brokers that are not drained.
    declared = spec.cluster.drain_brokers
    removed = {broker for move in moves for broker in move.removed}
    by_option = {broker for move in moves if move.kinds == (MoveKind.DRAIN,) for broker in move.removed} - declared
    texts = (
        _describe_drained(removed & declared, "Cluster.spec.drainBrokers"),
        _describe_drained(by_option, "--drain-brokers"),
    )
    return " and ".join(filter(None, texts))


def _describe_drained(brokers: Iterable[int], source: str) -> str:
    ids = [*map(str, sorted(brokers))]
    if not ids:
        return ""
    subject = f"broker {ids[0]} is" if len(ids) == 1 else f"brokers {', '.join(ids)} are"
    return f"{subject} drained ({source})"


def _find_move_origin(moves: Sequence[ReplicaMove], spec: TopicSpec | None) -> ValueOrigin | None:
    """Return the origin of the drained brokers that moves leave, since the topic's own document does not have them.

    None if the moves have other reasons, or if an option of the run names the brokers.
    """
    if spec is None or spec.cluster.source is None:
        return None
    removed = {broker for move in moves if MoveKind.DRAIN in move.kinds for broker in move.removed}
    is_declared = not removed.isdisjoint(spec.cluster.drain_brokers)
    return ValueOrigin(spec.cluster.source, ("spec", "drainBrokers")) if is_declared else None


def _describe_new_leaders(moves: Iterable[ReplicaMove]) -> str:
    """Return how many partitions get another preferred leader; empty if none does."""
    count = sum(move.before[0] != move.after[0] for move in moves)
    if not count:
        return ""
    return f"{format_count(count, 'partition')} get{'s' if count == 1 else ''} another preferred leader"


def describe_pace(plan: Plan) -> str:
    """Return the size and the pace of a plan's moves; empty if it moves nothing.

    ``12 partitions, 12 copies, 3 batches, at most 50 MiB/s a broker``.
    """
    moves = [move for topic in plan.actionable_topics() for move in topic.moves()]
    return ", ".join(_list_pace(plan, moves)) if moves else ""


def _list_pace(plan: Plan, moves: Sequence[ReplicaMove]) -> Iterator[str]:
    from topiarist.planning.moves.ledger import make_batches  # not above: most plans move nothing

    settings = plan.move_settings
    copies = sum(len(move.added) for move in moves)
    batches = len(make_batches(moves, settings.batch))
    yield format_count(len(moves), "partition")
    yield _count_copies(copies) if copies else "nothing is copied"
    yield f"{batches:,} batch{'' if batches == 1 else 'es'}"
    if copies and settings.throttle == UNLIMITED:
        yield "not throttled"
    elif copies and settings.throttle:
        yield f"at most {humanize_bytes(settings.throttle)}/s a broker"
