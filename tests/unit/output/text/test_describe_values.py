"""The table of values, of partitions and the notes of ``topiarist describe``: each source and each issue in words."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from support.states import cluster, spec, topic
from topiarist.errors import Location, Reason
from topiarist.inspection.describe import ActualSource, Description, DesiredSource, ResolvedTopic, ValueSource, describe
from topiarist.inspection.health import IN_PROGRESS, IssueType, Partition, PartitionIssue, Phase, TopicPhase
from topiarist.model.plan import Issue, TopicPlan
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState, OwnershipRecord, PartitionState, ReadError
from topiarist.output.describe import format_descriptions
from topiarist.output.text.layout import BOLD_RED, YELLOW, TextLayout

EU = ClusterSpec(name="eu")
PLACE = Location("topics/a.yaml", 4, 7)
WIDE = TextLayout(width=140)


def described(state: ClusterState | None = None, /, **fields: Any) -> Description:
    """Return the description of ``a`` with these fields; by default the topic exists with one partition."""
    found = describe(state or cluster(topic("a", [(1,)])), EU, ResolvedTopic("a"), None, None, "default")
    return replace(found, **fields)


def lines_of(found: Description, layout: TextLayout = WIDE) -> list[str]:
    """Return the lines of a description below the head of the cluster."""
    return format_descriptions([found], layout).splitlines()[2:]


def values_of(*values: ValueSource, layout: TextLayout = WIDE, **fields: Any) -> list[str]:
    """Return the lines of the table of values."""
    lines = lines_of(described(values=values, partitions=(), **fields), layout)
    start = next(at for at, line in enumerate(lines) if line.startswith("  values"))
    return lines[start : lines.index("", start)]


ON_TOPIC = ActualSource.TOPIC


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (ValueSource("partitions", actual="3", actual_source=ON_TOPIC), "3  on the cluster"),
        (ValueSource("config.x", actual="3", actual_source=ON_TOPIC), "3  set on the cluster"),
        (ValueSource("config.x", actual="3", actual_source=ON_TOPIC, in_record=True), "3  set by topiarist"),
        (ValueSource("config.x", actual_source=ActualSource.BROKERS), "not set  the brokers' value applies"),
        (
            ValueSource("config.x", actual="3", actual_source=ActualSource.DYNAMIC_DEFAULT, broker_setting="log.x"),
            "3  cluster-wide default, log.x",
        ),
        (
            ValueSource("config.x", actual="3", actual_source=ActualSource.BROKER_CONFIG, broker_setting="log.x"),
            "3  brokerConfig, log.x",
        ),
        (
            ValueSource(
                *("config.x", None, None, None, "3", ActualSource.BROKER_CONFIG, "log.x"), actual_location=PLACE
            ),
            "3  brokerConfig, log.x, topics/a.yaml:4:7",
        ),
        (
            ValueSource("config.x", "3", DesiredSource.MANIFEST, PLACE, "3", ON_TOPIC, in_record=True),
            "3  topics/a.yaml:4:7",
        ),
        (ValueSource("config.x", "3", DesiredSource.OVERRIDE, PLACE), "3  topics/a.yaml:4:7, override"),
        (ValueSource("config.x", "3", DesiredSource.PROFILE, PLACE), "3  topics/a.yaml:4:7, a profile of the Cluster"),
        (
            ValueSource("config.x", "3", DesiredSource.CLUSTER_DEFAULTS, PLACE),
            "3  topics/a.yaml:4:7, the Cluster's defaults",
        ),
        (ValueSource("config.x", "3", DesiredSource.CLUSTER_DEFAULTS), "3  the Cluster's defaults"),
        (
            ValueSource("replicationFactor", "3", DesiredSource.BROKER_CONFIG, PLACE),
            "3  topics/a.yaml:4:7, brokerConfig, default.replication.factor",
        ),
        (ValueSource("config.x", "", DesiredSource.MANIFEST, PLACE), '""  topics/a.yaml:4:7'),
        (ValueSource("config.x"), '""'),
        (
            ValueSource("config.retention.ms", actual="3600000", actual_source=ON_TOPIC),
            "3600000  (1 hour)  set on the cluster",
        ),
        (ValueSource("retention.ms", actual="3600000", actual_source=ON_TOPIC), "3600000  on the cluster"),
    ],
)
def test_a_value_has_its_source(value: ValueSource, line: str) -> None:
    """Behind a value stands who set it, or the place that asks for it; a value of a config has its unit."""
    (_, found) = values_of(value)
    assert found == f"      {value.field.removeprefix('config.')}  {line}"


@pytest.mark.parametrize(
    ("fields", "end"),
    [
        ({"differs": True}, "-> 4000  (4 seconds)  topics/a.yaml:4:7"),
        ({"differs": True, "ignored": True}, "-> 4000  (4 seconds)  topics/a.yaml:4:7, ignored"),
        ({}, ""),
        ({"differs": True, "desired": None}, ""),
        ({"differs": True, "actual_source": None}, ""),
    ],
)
def test_a_value_that_differs_has_the_desired_one_below(fields: dict[str, Any], end: str) -> None:
    """The desired value stands below the actual one with its place, if a plan would report a difference."""
    value = ValueSource("config.segment.ms", "4000", DesiredSource.MANIFEST, PLACE, "3000", ON_TOPIC)
    assert values_of(replace(value, **fields))[2:] == ([f"                  {end}".rstrip()] if end else [])


def test_a_value_of_others_is_named_if_the_manifest_has_none() -> None:
    """Beside a manifest that has no such key, a value was left by topiarist or set by another client."""
    resolved = ResolvedTopic("a", spec("a", EU))
    for in_record, words in ((True, "set by topiarist, no longer in the manifest"), (False, "set by another client")):
        value = ValueSource("config.x", actual="3", actual_source=ON_TOPIC, in_record=in_record)
        assert values_of(value, resolved=resolved)[1] == f"      x  3  {words}"
        absent = ResolvedTopic("a", spec("a", EU, ensure="Absent"))
        assert values_of(value, resolved=absent)[1].startswith(f"      x  3  set {'by top' if in_record else 'on the'}")


def test_the_head_of_the_values_says_which_they_are() -> None:
    """The values are those of the topic, those that can be read of a broken one, or those of the manifest."""
    desired = ValueSource("config.x", "3", DesiredSource.MANIFEST, PLACE)
    actual = ValueSource("partitions", actual="3", actual_source=ON_TOPIC)
    for state, values, words in (
        (cluster(topic("a")), (desired,), "configs that are not listed have the brokers' values"),
        (cluster(), (desired, actual), "those that can be read"),
        (cluster(), (desired,), "desired"),
    ):
        lines = lines_of(described(state, values=values))
        assert f"  values           {words}" in lines


def test_a_value_of_24_characters_makes_the_column_wide() -> None:
    """A longer value has no part in the width of the column, so that it does not move the sources of the others."""
    for length, blanks in ((24, 25), (25, 2)):
        first, second = (ValueSource(f"config.{key}", actual_source=ON_TOPIC) for key in "ab")
        lines = values_of(replace(first, actual="1"), replace(second, actual="v" * length))
        assert lines[1] == f"      a  1{' ' * blanks}set on the cluster"
        assert lines[2] == f"      b  {'v' * length}  set on the cluster"


def test_a_long_name_uses_the_whole_page() -> None:
    """A name that does not fit beside its phase is above it, broken at the end of a terminal only."""
    for length, parts in ((15, []), (16, [16]), (78, [78]), (79, [78, 1])):
        name = "n" * length
        found = describe(cluster(topic(name)), EU, ResolvedTopic(name), None, None, "default")
        lines = format_descriptions([found], TextLayout(spare_width=0)).splitlines()[3:]
        assert lines[: len(parts)] == [f"  {'n' * part}" for part in parts]
        phase = f"{'':19}exists; its partition states are not known"
        assert lines[len(parts)] == (phase if parts else f"  {name}{phase[length + 2 :]}")


def test_values_stand_in_columns() -> None:
    """Keys and short values have a column; a long value takes its source to the next line if there is no room."""
    values = [
        ValueSource("partitions", actual="3", actual_source=ON_TOPIC),
        ValueSource("config.cleanup.policy", actual="compact", actual_source=ON_TOPIC),
        ValueSource("config.x", actual="v" * 25, actual_source=ON_TOPIC),
    ]
    assert values_of(*values, layout=TextLayout())[1:] == [
        "      partitions      3        on the cluster",
        "      cleanup.policy  compact  set on the cluster",
        f"      x               {'v' * 25}  set on the cluster",
    ]
    long = ValueSource("config.x", actual="v" * 60, actual_source=ON_TOPIC)
    assert values_of(long, layout=TextLayout())[1:] == [f"      x  {'v' * 60}", "         set on the cluster"]
    key = ValueSource(f"config.{'k' * 40}", actual="3", actual_source=ON_TOPIC)
    assert values_of(values[0], key, layout=TextLayout())[1:] == [
        f"      partitions{' ' * 29}3  on the cluster",
        f"      {'k' * 40}",
        "          3  set on the cluster",
    ]


def partitions_of(*partitions: Partition, known: bool = True, layout: TextLayout = WIDE) -> list[str]:
    """Return the lines of the table of partitions."""
    lines = lines_of(described(partitions=partitions, states_known=known, values=()), layout)
    start = next(at for at, line in enumerate(lines) if line.startswith("  partitions"))
    return lines[start : lines.index("", start)]


LISTED = Partition(0, (1, 2), PartitionState(1, (1, 2)))
UNLISTED = Partition(7, (), PartitionState(1, (1,)), listed=False, issues=(PartitionIssue(IssueType.NOT_LISTED),))


def test_a_partition_has_its_leader_its_lists_and_its_issues() -> None:
    """A partition without a state has empty cells, and one that the topic does not list has no replicas."""
    stateless = Partition(10, (2, 1), issues=(PartitionIssue(IssueType.NOT_INITIALIZED, "no state"),))
    assert partitions_of(LISTED, stateless, UNLISTED) == [
        "  partitions       2 x 2 replicas: 1 healthy, 1 not listed by the topic, 1 not initialized",
        "      id           leader  replicas  ISR",
        "      0            1       [1,2]     [1,2]",
        "      10                   [2,1]            not initialized: no state",
        "      7            1       -         [1]    not listed by the topic",
    ]
    assert partitions_of(LISTED, known=False)[1:] == ["      id           replicas", "      0            [1,2]"]


@pytest.mark.parametrize(
    ("partitions", "known", "counts"),
    [
        ((LISTED,), True, "1 x 2 replicas: all healthy"),
        ((LISTED, replace(LISTED, replicas=(1,))), True, "2 x 1 to 2 replicas: all in sync"),
        ((LISTED, replace(LISTED, replicas=(1,))), False, "2 x 1 to 2 replicas, leaders and ISR are unknown"),
        ((UNLISTED,), True, "replica lists cannot be read, 1 not listed by the topic"),
        ((LISTED,) * 1200, True, "1,200 x 2 replicas: all healthy"),
    ],
)
def test_the_counts_of_partitions(partitions: tuple[Partition, ...], known: bool, counts: str) -> None:
    """The line of counts has the size, the healthy partitions and each issue."""
    assert partitions_of(*partitions, known=known)[0] == f"  partitions       {counts}"


@pytest.mark.parametrize("kind", IssueType)
def test_an_issue_that_stops_clients_is_red(kind: IssueType) -> None:
    """Red are partitions that cannot be read, written or found; other issues are yellow."""
    red = kind.value in {"Unreadable", "NotListed", "Offline", "UnderMinIsr"}
    found = partitions_of(
        replace(LISTED, issues=(PartitionIssue(kind, "why"),)), layout=TextLayout(width=140, use_color=True)
    )
    words = str(PartitionIssue(kind, "why"))
    assert found[-1].endswith(f"\x1b[{BOLD_RED if red else YELLOW}m{words}\x1b[0m")


@pytest.mark.parametrize(
    ("phase", "style"),
    [
        (Phase.MARKED_FOR_DELETION, "1;31"),
        (Phase.UNREADABLE, "1;31"),
        (Phase.DELETED_EXTERNALLY, "1;31"),
        (Phase.DELETION_DISABLED, "1;31"),
        (Phase.NOT_INITIALIZED, "33"),
        (Phase.PARTLY_INITIALIZED, "33"),
        (Phase.UNKNOWN, "2"),
        (Phase.INITIALIZED, "1"),
    ],
)
def test_a_phase_has_a_color(phase: Phase, style: str) -> None:
    """Red is for topics that are lost or on their way out, yellow for those that are not ready."""
    found = described(phase=TopicPhase(phase, "so", "that"))
    lines = lines_of(found, TextLayout(width=140, use_color=True))
    assert lines[0] == f"  \x1b[{style}ma\x1b[0m                so"
    assert lines[1] == "      \x1b[2mwaits for\x1b[0m    that"


RECORD = OwnershipRecord("default", ("flush.ms", "x"))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"record": None}, "none: topiarist neither created nor adopted the topic"),
        ({"record": RECORD, "record_valid": True}, "owner default, manages flush.ms, x"),
        ({"record": OwnershipRecord("default"), "record_valid": True}, "owner default, manages no config keys"),
        (
            {"record": OwnershipRecord("team"), "record_valid": True},
            "owner team (this run has owner default), manages no config keys",
        ),
        (
            {"record": RECORD, "record_valid": False},
            "owner default, stale: it belongs to an earlier topic of this name and is ignored",
        ),
        (
            {"record": replace(RECORD, deleted=True), "record_valid": True},
            "owner default, records the deletion of the topic",
        ),
    ],
)
def test_the_record_in_words(fields: dict[str, Any], words: str) -> None:
    """The line of the record has the owner, and whether the record counts and for which keys."""
    seen = replace(topic("a", [(1,)]), **fields)
    assert f"      record       {words}" in lines_of(described(cluster(seen)))


def test_without_a_topic_and_a_record_there_is_no_line_of_it() -> None:
    """A topic that does not exist has neither a record nor a placement, nor partitions."""
    lines = lines_of(described(cluster()))
    assert not any(line.startswith(("      record", "      replicas", "  partitions")) for line in lines)


def test_a_document_is_named_with_its_place() -> None:
    """The line of the document has its name and place, and the name in Kafka if another name was asked for."""
    wanted = spec("a", EU)
    for by_name, words in ((False, ""), (True, "; its topicName is a")):
        lines = lines_of(described(resolved=ResolvedTopic("a", wanted, by_name)))
        assert f"      document     Topic a, topics/a.yaml:1:1{words}" in lines


NOTICE = Issue(Reason.EXISTING_PROBLEM, "partition 0 has no leader")
UNMANAGED = Issue(Reason.UNMANAGED, "left alone")


@pytest.mark.parametrize(
    ("fields", "lines"),
    [
        ({}, ["no manifests were given"]),
        ({"manifests_given": True}, ["not in the given paths"]),
        (
            {"manifests_given": True, "is_orphan": True},
            ["not in the given paths; to stop managing the topic, run topiarist unmanage a"],
        ),
        ({"pending_plan": TopicPlan("a")}, ["nothing: the topic matches its manifest"]),
        ({"pending_plan": TopicPlan("a", notices=(UNMANAGED,))}, ["nothing: the topic matches its manifest"]),
        ({"pending_plan": TopicPlan("a", notices=(NOTICE,))}, ["nothing to do", NOTICE.message]),
        ({"phase": TopicPhase(Phase.UNKNOWN, "unknown")}, []),
    ],
)
def test_what_is_pending_in_words(fields: dict[str, Any], lines: list[str]) -> None:
    """Without changes the end says why: no manifest, no difference, or only notices."""
    found = lines_of(described(values=(), partitions=(), **fields))
    assert [line[19:] for line in found if line.startswith(("  pending", "  warning", "  note"))] == lines


def test_notices_of_unmanaged_keys_are_for_those_who_ask() -> None:
    """With ``-v`` also the keys that are left alone are below what is pending, as notes."""
    found = described(values=(), partitions=(), pending_plan=TopicPlan("a", notices=(UNMANAGED, NOTICE)))
    assert lines_of(found, TextLayout(width=140, verbose=True))[-3:] == [
        "  pending          nothing to do",
        "  note             left alone",
        f"  warning          {NOTICE.message}",
    ]


def test_four_read_errors_are_shown_whole() -> None:
    """Of five errors the first three are shown and the others are counted."""
    errors = tuple(ReadError(f"/{number}", "bad") for number in range(5))
    for count, shown in ((4, 4), (5, 3)):
        lines = [line for line in lines_of(described(read_errors=errors[:count])) if "read error" in line]
        assert lines[:shown] == [f"      read error   /{number}: bad" for number in range(shown)]
        assert lines[shown:] == ([] if count == 4 else ["      read error   2 others (-v shows them)"])


def test_sections_of_two_clusters_are_divided() -> None:
    """Each cluster has its own head, and an empty line divides what belongs to one topic."""
    text = format_descriptions([described(values=(), partitions=())] * 2, WIDE)
    half, rest = text[: len(text) // 2], text[len(text) // 2 :]
    assert rest == f"\n{half}"
    assert half.count("\n\n") == 2


def notes_of(seen: ClusterState, name: str = "a", on: ClusterSpec = EU, **fields: Any) -> list[str]:
    """Return the notes about a topic."""
    found = describe(seen, on, ResolvedTopic(name), None, None, "default")
    lines = lines_of(replace(found, values=(), **fields), TextLayout(width=300))
    return [line.removeprefix("      note         ") for line in lines if line.startswith("      note ")]


PROTECTED = "protected, because other software owns it: topiarist refuses growth, deletion and changes of cleanup"
UNEQUAL = topic("a", [(1, 2), (1,)])


def test_a_topic_of_other_software_is_noted() -> None:
    """Internal topics are noted whether they exist or not, a protected one if it exists."""
    on = ClusterSpec("eu", protected=("connect-*",))
    names = ("__consumer_offsets", "__topiarist", "connect-offsets")
    words = [
        "internal topic of Kafka: topiarist never changes it",
        "internal topic of topiarist: no manifest changes it",
        PROTECTED,
    ]
    assert [notes_of(cluster(topic(name)), name, on) for name in names] == [[each] for each in words]
    assert [notes_of(cluster(), name, on) for name in names] == [[words[0]], [words[1]], []]


def test_missing_brokers_and_odd_lists_are_noted() -> None:
    """Replicas on brokers that are not registered, and unequal numbers of replicas, each have a note."""
    away = cluster(topic("a", [(1, 7), (8, 7)]))
    (missing,) = notes_of(away)
    assert missing == "brokers 7, 8, with replicas of it, are not registered"
    deleted = TopicPhase(Phase.MARKED_FOR_DELETION, "marked")
    assert notes_of(away, phase=deleted) == []
    (unequal,) = notes_of(cluster(UNEQUAL))
    known = TopicPlan("a", notices=(Issue(Reason.EXISTING_PROBLEM, unequal),))
    assert notes_of(cluster(UNEQUAL), pending_plan=known) == []
    other = TopicPlan("a", notices=(Issue(Reason.EXISTING_PROBLEM, "other"),))
    assert notes_of(cluster(UNEQUAL), pending_plan=other) == [unequal]


@pytest.mark.parametrize(
    ("phase", "blocked_by", "bypasses", "noted"),
    [
        (Phase.NOT_INITIALIZED, IN_PROGRESS, True, True),
        (Phase.NOT_INITIALIZED, IN_PROGRESS, False, False),
        (Phase.NOT_INITIALIZED, "a broker", True, False),
        (Phase.MARKED_FOR_DELETION, IN_PROGRESS, True, False),
    ],
)
def test_a_topic_that_the_controller_missed_can_be_nudged(
    phase: Phase, blocked_by: str, bypasses: bool, noted: bool
) -> None:
    """The command is noted where topiarist writes to ZooKeeper itself and nothing else explains the wait."""
    state = cluster(topic("a", [(1,)]), bypasses_brokers=bypasses)
    words = "if this does not change, the controller missed the topic: run topiarist nudge a"
    assert notes_of(state, phase=TopicPhase(phase, "so", blocked_by)) == ([words] if noted else [])
