"""Lists of topics: the document, the table that fits a terminal, and the summary of an export."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import CLUSTER_ID, DocumentSource, PositionedSource, spec, state, topic
from topiarist.desired.export import ExportResult
from topiarist.errors import Reason, TopiaristError
from topiarist.inspection.check import (
    Advice,
    AffectedTopic,
    ClusterCheck,
    UpgradeEffect,
    UpgradeFinding,
    UpgradeReport,
    check_state,
)
from topiarist.inspection.health import IssueType
from topiarist.inspection.list import TopicFlag, TopicList, TopicRow
from topiarist.model.access import KafkaAccess, ZooKeeperAccess
from topiarist.model.spec import ClusterSpec, ValueOrigin
from topiarist.model.state import APACHE_KAFKA, UNKNOWN, AllowedOperations, ClusterState, ReadError, Support, WriteBlock
from topiarist.model.usage import GroupType, GroupUsage, Side, TopicSample, TopicUsage, UsageState
from topiarist.output import list as listing
from topiarist.output.list import (
    encode_checks,
    encode_lists,
    encode_reports,
    format_checks,
    format_lists,
    format_reports,
    format_summary,
)
from topiarist.output.text.layout import BOLD, BOLD_RED, DIM, GREEN, YELLOW, TextLayout

EU = ClusterSpec(name="eu")
ROW = TopicRow(
    "orders",
    replace(spec("orders", EU, replicationFactor=3, positions={}), profile_labels={"tier": "gold"}),
    12,
    {3: 12},
    "default",
    {"retention.ms": "5"},
    (TopicFlag.UNEQUAL_REPLICAS, TopicFlag.DORMANT),
    {IssueType.OFFLINE: 1, IssueType.UNDER_REPLICATED: 4},
    True,
)
ENCODED: dict[str, Any] = {
    "topic": "orders",
    "partitions": 12,
    "replicationFactor": 3,
    "replicaCounts": {"3": 12},
    "owner": "default",
    "document": {
        "name": "orders",
        "namespace": "",
        "labels": {"tier": "gold"},
        "location": {"file": "topics/orders.yaml", "line": 1, "column": 1},
    },
    "config": {"retention.ms": "5"},
    "states": ["Dormant", "Offline", "UnderReplicated", "UnequalReplicas"],
    "statesKnown": True,
    "offline": 1,
    "underReplicated": 4,
}
USAGE = TopicUsage(
    TopicSample(sizes=(40, 2), groups=(GroupUsage("a", GroupType.CLASSIC, members=2),), more_groups=3),
    Side(UsageState.USED, 1, 60, 120),
    Side(UsageState.NOT_SEEN),
    bytes_per_day=7,
)


def _encode(row: TopicRow) -> dict[str, Any]:
    (only,) = encode_lists([TopicList(EU, state(), (row,), 1, True)])["clusters"][0]["topics"]
    return dict(only)


def test_each_field_of_a_row_is_encoded() -> None:
    """All that a row knows is in the document, with labels of profiles too."""
    assert _encode(ROW) == ENCODED


def test_what_is_not_known_is_null() -> None:
    """Mixed or no replicas have no factor, unknown states no numbers, and no owner and manifest are null."""
    bare = replace(ROW, spec=None, owner="", partitions_by_replicas={3: 10, 2: 2}, states_known=False)
    unknown = {"replicationFactor": None, "replicaCounts": {"2": 2, "3": 10}, "owner": None, "document": None}
    assert _encode(bare) == ENCODED | unknown | {"statesKnown": False, "offline": None, "underReplicated": None}
    for counts in ({}, {0: 12}):
        assert _encode(replace(ROW, partitions_by_replicas=counts))["replicationFactor"] is None
    well = _encode(replace(ROW, issues={}))
    assert (well["offline"], well["underReplicated"]) == (0, 0)


def test_usage_is_there_if_it_was_read() -> None:
    """Times are in UTC, and null where no use was seen."""
    assert _encode(replace(ROW, usage=USAGE))["usage"] == {
        "written": {"state": "Used", "lastSeen": "1970-01-01T00:01:00Z", "observedSince": "1970-01-01T00:02:00Z"},
        "read": {"state": "NotSeen", "lastSeen": None, "observedSince": None},
        "groups": 4,
        "members": 2,
        "bytes": 42,
        "bytesPerDay": 7,
    }


def test_each_cluster_has_its_own_list() -> None:
    """A cluster has its names, the number of its topics and its warnings, also without a selected topic."""
    seen = state(cluster_id="7sYk", chroot="/kafka", warnings=("a broker is offline",))
    assert encode_lists([TopicList(EU, seen, (), 9, True)]) == {
        "formatVersion": 1,
        "clusters": [
            {
                "name": "eu",
                "clusterId": "7sYk",
                "chroot": "/kafka",
                "present": 9,
                "topics": [],
                "warnings": ["a broker is offline"],
            }
        ],
    }


WELL = TopicRow("well", None, 12, {3: 12}, "default", {}, (TopicFlag.HEALTHY,), {}, True)
ROWS = (
    replace(WELL, spec=spec("well", EU, replicationFactor=3, positions={}), config={"a": "b", "c": "d"}),
    replace(
        WELL,
        topic="off",
        partitions_by_replicas={2: 1, 3: 11},
        owner="",
        flags=(TopicFlag.UNEQUAL_REPLICAS, TopicFlag.UNOWNED, TopicFlag.UNDECLARED),
        issues={IssueType.OFFLINE: 1, IssueType.UNDER_REPLICATED: 4},
    ),
    TopicRow("gone", spec("gone", EU, replicationFactor=3, positions={}), flags=(TopicFlag.MISSING,)),
    replace(WELL, topic="quiet", flags=(TopicFlag.DORMANT, TopicFlag.MALFORMED_PARTITIONS)),
    replace(WELL, topic="new", flags=(TopicFlag.UNKNOWN,), states_known=False),
)
TEXT = """\
eu   cluster 7sYk
  warning: a broker is offline
  topic  partitions  replicas  owner    state                                            manifest              config
  well           12         3  default  healthy                                          topics/well.yaml:1:1  a=b, c=d
  off            12       2-3  -        unequal replicas, 1 offline, 4 under-replicated  -                     -
  gone            -         -  -        missing                                          topics/gone.yaml:1:1  -
  quiet          12         3  default  dormant, malformed partitions                    -                     -
  new            12         3  default  unknown                                          -                     -
"""
TOTALS = (
    "4 of 9 topics, 1 missing, 1 with offline partitions, 1 under-replicated, 1 with unequal replicas, "
    "1 with malformed partitions, 1 without owner, 1 undeclared, 1 dormant, 1 with unknown state.\n"
)


def _listed(*rows: TopicRow, count: int = 0, manifests_given: bool = True) -> TopicList:
    cluster_state = state(cluster_id="7sYk", warnings=("a broker is offline",))
    return TopicList(EU, cluster_state, rows, count or len(rows), manifests_given)


def test_a_table_has_a_line_for_each_topic() -> None:
    """Columns are as wide as their widest cell, numbers are on the right, and totals count each state."""
    assert format_lists([_listed(*ROWS, count=9)], TextLayout()) == TEXT + TOTALS


def test_many_numbers_of_replicas_are_a_range() -> None:
    """The column has the smallest and the largest number of replicas of the partitions."""
    listed = _listed(replace(WELL, partitions_by_replicas={1: 1, 2: 2, 4: 9}))
    row = format_lists([listed], TextLayout()).splitlines()[3]
    assert row.split()[:3] == ["well", "12", "1-4"]


def test_without_manifests_there_is_no_column_for_them() -> None:
    """No column is empty in each line; the clusters are divided by an empty line, and none at all is no text."""
    one = _listed(WELL, manifests_given=False)
    text = format_lists([one, one], TextLayout())
    assert text == (
        """\
eu   cluster 7sYk
  warning: a broker is offline
  topic  partitions  replicas  owner    state    config
  well           12         3  default  healthy  -
1 topic.

"""
        * 2
    ).removesuffix("\n")
    assert format_lists([], TextLayout()) == ""


LONG = replace(
    WELL,
    topic="shop.eu.payments.settlement-requests.v1",
    spec=spec("shop.eu.payments.settlement-requests.v1", EU, replicationFactor=3, positions={}),
    config={"retention.ms": "604800000", "cleanup.policy": "compact", "min.insync.replicas": "2"},
    issues={IssueType.OFFLINE: 1, IssueType.UNDER_REPLICATED: 4},
    flags=(),
)


def _table(layout: TextLayout, *rows: TopicRow) -> list[str]:
    """Return the lines of a table without the lines around it."""
    return [line for line in format_lists([_listed(*rows)], layout).splitlines()[2:] if line.startswith("  ")]


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (
            60,
            [
                "  topic          partitions  replicas  owner    state",
                "  shop....ts.v1          12         3  default  1 offline...",
                "  well                   12         3  default  healthy",
                "  manifest, config: columns are left out (-v shows all)",
            ],
        ),
        (
            120,
            [
                f"  topic{'':34}  partitions  replicas  owner    state{'':21}  manifest",
                f"  {LONG.topic}          12         3  default  1 offline, 4 under-repl...  topics/s...aml:1:1",
                f"  well{'':35}          12         3  default  healthy{'':19}  -",
                "  config: columns are left out (-v shows all)",
            ],
        ),
    ],
)
def test_a_table_fits_its_terminal(width: int, lines: list[str]) -> None:
    """Names are shortened in the middle, text at its end, and columns on the right are left out by name."""
    assert _table(TextLayout(width, spare_width=0), LONG, WELL) == lines
    assert _table(TextLayout(30, spare_width=width - 30), LONG, WELL) == lines


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (47, "  well           12         3  payment...m-team"),
        (48, "  well           12         3  pay...am  healthy"),
        (52, "  well           12         3  payme...team  healthy"),
    ],
)
def test_an_owner_is_shortened_before_a_state_is_left_out(width: int, line: str) -> None:
    """Eight columns are enough of an owner; room that is left makes it longer."""
    assert line in _table(TextLayout(width, spare_width=0), replace(WELL, owner="payments-platform-team"))


@given(width=st.integers(15, 300), spare=st.integers(0, 200))
def test_a_table_uses_a_terminal_whole(width: int, spare: int) -> None:
    """No line of a table is wider than the terminal; on one that is wide enough nothing is shortened."""
    lines = _table(TextLayout(width, spare_width=spare), LONG, *ROWS)
    whole = _table(TextLayout(), LONG, *ROWS)
    widest = max(map(len, whole))
    assert (lines == whole) if width + spare >= widest else max(map(len, lines)) <= width + spare


def test_a_program_gets_complete_cells() -> None:
    """Without a terminal, and with ``-v``, no cell is shortened and no column is left out, whatever the width."""
    for layout in (TextLayout(40), TextLayout(40, spare_width=0, verbose=True)):
        table = "\n".join(_table(layout, LONG))
        assert LONG.topic in table
        assert "retention.ms=604800000, cleanup.policy=compact, min.insync.replicas=2" in table


@pytest.mark.parametrize(
    ("row", "style"),
    [
        (WELL, ""),
        (ROWS[1], BOLD_RED),
        (ROWS[2], BOLD_RED),
        (replace(WELL, flags=(TopicFlag.UNREADABLE,)), BOLD_RED),
        (replace(WELL, flags=(TopicFlag.MARKED_FOR_DELETION,)), BOLD_RED),
        (replace(WELL, flags=(TopicFlag.UNEQUAL_REPLICAS,)), YELLOW),
        (replace(WELL, flags=(TopicFlag.MALFORMED_PARTITIONS,)), YELLOW),
        (replace(WELL, issues={IssueType.REASSIGNING: 1}), YELLOW),
        (replace(WELL, flags=(TopicFlag.DORMANT,)), ""),
    ],
)
def test_what_is_wrong_has_a_color(row: TopicRow, style: str) -> None:
    """Red is for topics that cannot be used, yellow for what needs a look, and no color for the others."""
    line = format_lists([_listed(row)], TextLayout(use_color=True)).splitlines()[3]
    assert line.startswith(f"\x1b[{style}m" if style else "  ")


EXPORTED = ClusterSpec(name="eu", version=(3, 9))
RESULT = ExportResult({}, 2)


def _summary(
    result: ExportResult = RESULT, cluster_state: ClusterState | None = None, on: ClusterSpec = EXPORTED
) -> str:
    return format_summary(result, cluster_state or state(), on, folder="topics", layout=TextLayout())


def test_what_is_left_out_has_its_reason() -> None:
    """Topics without a document, configs that are missing in one, and mixed replication have a line each."""
    found = replace(
        RESULT,
        omitted=(("gone", "is marked for deletion"),),
        unmanaged=(("a", "flush.ms is no number"), ("b", "flush.ms is no number")),
        mixed_replication=(("c", "1 of 2 partitions has 3 replicas"),),
    )
    assert _summary(found) == (
        "  left out         gone: is marked for deletion\n"
        "  unmanaged        2 topics: flush.ms is no number\n"
        "                   a, b\n"
        "  mixed            c: 1 of 2 partitions has 3 replicas\n"
        "\n"
        "Exported: 2 topics of cluster eu to topics, 1 left out."
    )
    assert _summary() == "Exported: 2 topics of cluster eu to topics."


def test_warnings_say_what_is_left_to_do() -> None:
    """A write block comes first; the version of a cluster is asked for if only its metadata shows it."""
    blocked = state(write_block=WriteBlock(Reason.FROZEN, "frozen by ada"), warnings=("a broker is offline",))
    assert _summary(cluster_state=blocked).splitlines()[:2] == [
        "  warning          frozen by ada; nothing is written to it",
        "  warning          a broker is offline",
    ]
    unknown, cluster_state = replace(EXPORTED, version=None), state(min_version=(2, 8))
    assert "  warning          set kafkaVersion in topics/cluster.yaml: the metadata shows" in _summary(
        cluster_state=cluster_state, on=unknown
    )
    assert "kafkaVersion" not in _summary(cluster_state=cluster_state)
    assert "kafkaVersion" not in _summary(
        cluster_state=cluster_state, on=replace(unknown, source=PositionedSource("eu.yaml"))
    )


OLD = "the brokers are old"
CHECK = check_state(
    ClusterSpec(name="eu", kafka=KafkaAccess("b:9092")),
    state(
        topic(),
        topic("clicks"),
        bypasses_brokers=False,
        known_configs=None,
        warnings=("a broker is offline", f"{OLD}: update them"),
        write_block=WriteBlock(Reason.FROZEN, "by ann"),
        capabilities=replace(
            APACHE_KAFKA,
            topic_ids=Support(False, OLD, lacks_right=True),
            replica_lists=UNKNOWN,
            moves=Support(None, "no answer"),
            compaction=Support(False, "no compaction"),
        ),
    ),
    AllowedOperations(frozenset({"Describe"}), {}, None),
)
_STYLES = {GREEN: "green", YELLOW: "yellow", BOLD_RED: "red", DIM: "dim", BOLD: "bold", "0": ""}


def _check_blocks(*checks: ClusterCheck) -> list[str]:
    """Return the blocks of a check between blank lines, with the names of styles in place of their codes."""
    shown = format_checks(checks, TextLayout(use_color=True))
    return re.sub(r"\x1b\[([0-9;]+)m", lambda found: f"<{_STYLES[found[1]]}>", shown).split("\n\n")


def test_a_check_has_a_block_for_each_question() -> None:
    """What the cluster is, what works, what is permitted, what else was seen, what to write, and the counts."""
    heading, works, permitted, others, advised, counts = _check_blocks(CHECK)
    assert heading.splitlines() == [
        f"<bold>eu   cluster {CLUSTER_ID}, through its brokers, 6 brokers, 2 topics<>",
        "  <red>write block<>      Frozen: by ann",
    ]
    assert works.splitlines()[:7] == [
        "  <yellow>no<>               topics have ids",
        f"                   why: {OLD}",
        "                   so: nothing is written: a later topic of a name could not be",
        "                   recognized",
        "  <green>yes<>              metadata is proved to be current",
        "  <green>yes<>              configs are read, with their sources",
        "  <green>yes<>              topics are created",
    ]
    assert "  <dim>not known<>        replicas are moved\n                   no answer\n" in works
    assert "replica lists of new topics are obeyed\n                   only a try shows it\n" in works
    assert permitted.splitlines()[-5:] == [
        "  <dim>not known<>        Write on TransactionalId topiarist: apply, freeze, unmanage,",
        "                   move-records",
        "                   no request shows it without a write",
        "  <dim>not known<>        Describe on Group *: usage of topics",
        "                   the brokers do not say",
    ]
    assert "  <green>permitted<>        Describe on Cluster: all runs" in permitted
    assert "  <yellow>denied<>           Alter on Cluster: moving replicas, electing leaders\n" in permitted
    assert others == "  <yellow>warning<>          a broker is offline"
    assert advised.splitlines() == [
        "  <dim>document<>         spec:",
        "                     # another cluster at this address then ends the run",
        f"                     clusterId: {CLUSTER_ID}",
        "                     kafka:",
        "                       # no compaction",
        "                       records: None",
        "                     # the release of the brokers, this or a later one: they were not asked for their configs",
        '                     kafkaVersion: "2.4"',
    ]
    assert counts == "<bold>13 work, 2 do not, 2 are not known.<>\n"


def test_a_check_of_a_cluster_where_all_works_has_no_other_block() -> None:
    """Nothing is denied, to be written or to be seen to; a count of none is left out."""
    done = ClusterSpec(name="", kafka=KafkaAccess("b:9092"), cluster_id=CLUSTER_ID)
    heading, works, counts = _check_blocks(
        check_state(done, state(bypasses_brokers=False, known_configs={}, capabilities=APACHE_KAFKA))
    )
    assert heading == f"<bold>cluster {CLUSTER_ID}, through its brokers, 6 brokers, 0 topics<>"
    assert {line.split()[0] for line in works.splitlines()} == {"<green>yes<>"}
    assert counts == "<bold>17 work.<>\n"


def test_a_field_that_contains_several_is_written_once() -> None:
    """Two fields below one stand below the same line, at any depth."""
    paths = [("kafka", "placement"), ("kafka", "records", "topic"), ("kafka", "records", "replicationFactor")]
    lines = [*listing._format_document([Advice(path, 1, "why") for path in paths])]
    assert [line for line in lines if "#" not in line] == [
        "spec:",
        "  kafka:",
        "    placement: 1",
        "    records:",
        "      topic: 1",
        "      replicationFactor: 1",
    ]


def test_a_cluster_that_cannot_be_checked_has_its_error() -> None:
    """With the reason and what to do; brokers and topics that were not read have no number."""
    error = TopiaristError(Reason.NO_PERMISSION, "cannot read the configs", "grant it")
    spec_of_way = ClusterSpec(name="eu", zookeeper=ZooKeeperAccess("z:2181"))
    check = ClusterCheck(spec_of_way, "ID", APACHE_KAFKA, error=error)
    (encoded,) = encode_checks([check])["clusters"]
    assert encoded["error"] == {"reason": "NoPermission", "message": "cannot read the configs", "hint": "grant it"}
    assert (encoded["mode"], encoded["topics"], encoded["writeBlock"]) == (None, None, None)
    heading, *_ = _check_blocks(check)
    assert heading.splitlines() == [
        "<bold>eu   cluster ID, through ZooKeeper<>",
        "  <dim>way<>              topiarist writes the metadata itself, as the controllers of",
        "                   Kafka 2.4 to 3.9 read it: nothing is missing, and no policy,",
        "                   ACL or quota of the brokers is checked",
        "  <red>not readable<>     NoPermission: cannot read the configs; grant it",
    ]
    bare = replace(check, error=TopiaristError(Reason.NO_PERMISSION, "cannot read the configs"))
    assert _check_blocks(bare)[0].endswith("NoPermission: cannot read the configs")


def test_each_field_of_a_check_is_encoded() -> None:
    """In the order of the text; effects are those of what is missing."""
    (found,) = encode_checks([CHECK])["clusters"]
    capabilities, permissions, advice = (found.pop(name) for name in ("capabilities", "permissions", "advice"))
    assert found == {
        "name": "eu",
        "clusterId": CLUSTER_ID,
        "via": "Kafka",
        "mode": "ZooKeeper",
        "brokers": 6,
        "topics": 2,
        "error": None,
        "writeBlock": {"reason": "Frozen", "message": "by ann"},
        "warnings": ["a broker is offline", f"{OLD}: update them"],
    }
    assert capabilities[:2] == [
        {
            "name": "topicIds",
            "meaning": "topics have ids",
            "given": False,
            "why": OLD,
            "lacksRight": True,
            "effect": "nothing is written: a later topic of a name could not be recognized",
        },
        {
            "name": "freshness",
            "meaning": "metadata is proved to be current",
            "given": True,
            "why": "",
            "lacksRight": False,
            "effect": "",
        },
    ]
    assert permissions[-1] == {
        "operation": "Describe",
        "resource": "Group *",
        "purpose": "usage of topics",
        "given": None,
        "why": "the brokers do not say",
    }
    assert advice[1] == {"field": "spec.kafka.records", "value": "None", "why": "no compaction"}


PLACE = ValueOrigin(DocumentSource("a.yaml", {}), ())
TOPICS = (AffectedTopic("a", "5", PLACE, True), AffectedTopic("b", None))
FINDING = UpgradeFinding(UpgradeEffect.DROPPED, "x.y", "is dropped", "use z", TOPICS, "1", None)


def test_each_field_of_a_report_is_encoded() -> None:
    """Findings keep their order, and topics that could not be read are sorted by name."""
    errors = {name: ReadError(f"/{name}", "no JSON") for name in "dc"}
    report = UpgradeReport(ClusterSpec("prod"), (4, 0), "7sYk", 12, (FINDING,), errors)
    document = encode_reports([report], (4, 0))
    assert [*document["clusters"][0]["unreadable"][0]] == ["topic", "path", "message"]
    assert document == {
        "formatVersion": 1,
        "target": "4.0",
        "clusters": [
            {
                "name": "prod",
                "clusterId": "7sYk",
                "topics": 12,
                "findings": [
                    {
                        "effect": UpgradeEffect.DROPPED.value,
                        "config": "x.y",
                        "message": "is dropped",
                        "hint": "use z",
                        "before": "1",
                        "after": None,
                        "topics": [
                            {
                                "topic": "a",
                                "value": "5",
                                "location": {"file": "a.yaml", "line": 1, "column": 1},
                                "inManifestOnly": True,
                            },
                            {"topic": "b", "value": None, "location": None, "inManifestOnly": False},
                        ],
                    }
                ],
                "unreadable": [
                    {"topic": "c", "path": "/c", "message": "no JSON"},
                    {"topic": "d", "path": "/d", "message": "no JSON"},
                ],
            }
        ],
    }


STOPS, DROPPED, DEFAULT = UpgradeEffect
SOME = (AffectedTopic("orders", "5", PLACE, True), AffectedTopic("b", "7"))
MANY = tuple(AffectedTopic(f"t{number:02}", None) for number in range(12))
REPORT = UpgradeReport(
    ClusterSpec("prod"),
    (4, 0),
    "7sYk",
    40,
    (
        UpgradeFinding(STOPS, "x.y", "is too small", "raise it", SOME),
        UpgradeFinding(DROPPED, "z", "is dropped", "use q", SOME[:1]),
        UpgradeFinding(DEFAULT, "d", "is another one", "set it", MANY),
    ),
    {name: ReadError(f"/{name}", "no JSON") for name in "dc"},
)
UPGRADE_TEXT = """\
prod   cluster 7sYk, to Kafka 4.0
  brokers do not start: x.y
    is too small
    raise it
      orders  5  a.yaml:1:1  (in the manifest only)
      b       7
  dropped: z
    is dropped
    use q
      orders  5  a.yaml:1:1  (in the manifest only)
  another default: d
    is another one
    set it
      t00
      t01
      t02
      t03
      t04
      t05
      t06
      t07
      t08
      t09
      and 2 more topics; -v shows all
  not checked: c: /c: no JSON
  not checked: d: /d: no JSON
40 topics: 2 with values that stop brokers, 1 with dropped configs, 12 with another default.
"""


def test_findings_have_their_topics() -> None:
    """Each topic has its value and its place; a topic counts once for each effect in the totals."""
    assert format_reports([REPORT], TextLayout(), show_all=False) == UPGRADE_TEXT


def test_ten_topics_are_shown() -> None:
    """Of a finding with more than ten topics the others are counted, and ``-v`` shows them."""
    ten = replace(REPORT, findings=(replace(REPORT.findings[2], topics=MANY[:10]),))
    for report, counts in ((ten, (10, 10)), (replace(REPORT, findings=REPORT.findings[2:]), (10, 12))):
        texts = [format_reports([report], TextLayout(), show_all=show_all) for show_all in (False, True)]
        assert tuple(text.count("      t") for text in texts) == counts
        assert ["more topic" in text for text in texts] == [counts[0] < counts[1], False]


def test_a_cluster_without_findings() -> None:
    """Manifests alone have no id of a cluster, and reports of clusters are divided by an empty line."""
    bare = replace(REPORT, cluster=ClusterSpec(), cluster_id=None, topic_count=1, findings=(), unreadable={})
    text = "manifests only, to Kafka 4.0\n1 topic: nothing found.\n"
    assert format_reports([bare, bare], TextLayout(), show_all=False) == f"{text}\n{text}"
    assert format_reports([], TextLayout(), show_all=False) == ""
