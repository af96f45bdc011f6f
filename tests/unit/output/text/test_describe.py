"""The text of ``topiarist describe``: literal pages in 80 columns, with long lists shortened."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from support.states import cluster, spec, topic
from topiarist.errors import Reason
from topiarist.inspection.describe import Description, ResolvedTopic, describe
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import BatchRecord, ReplicaMove
from topiarist.model.run_options import RunOptions
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import (
    ClusterState,
    Freeze,
    PartitionState,
    ReadError,
    Reassignment,
    TopicInspection,
    WriteBlock,
)
from topiarist.output import describe as describe_
from topiarist.output.describe import format_descriptions
from topiarist.output.text.layout import TextLayout
from topiarist.planning.planner import make_plan
from topiarist.schema import load

EU = ClusterSpec(name="eu")


def inspection(state: ClusterState, **otherwise: PartitionState) -> TopicInspection:
    """Return partition states led by the first replica with a full ISR, except those given (``p3``)."""
    (seen,) = state.topics.values()
    states = {one: PartitionState(replicas[0], replicas) for one, replicas in enumerate(seen.replicas)}
    states |= {int(key[1:]): state for key, state in otherwise.items()}
    return TopicInspection(seen.identity, dict(enumerate(seen.replicas)), states, topic_id="IvlLS4OaQluDznKjP0kYgQ")


def of(state: ClusterState, found: TopicInspection | None, **wanted: Any) -> Description:
    """Return the description of ``orders``, with a manifest if fields of a manifest are given."""
    wish = spec("orders", EU, **wanted) if wanted else None
    plan = make_plan(state, EU, [wish], RunOptions()) if wish else None
    return describe(state, EU, ResolvedTopic("orders", wish), found, plan, "default")


def page_of(found: Description, page: TextLayout | None = None) -> list[str]:
    """Return the lines below the head."""
    return format_descriptions([found], page or TextLayout()).split("\n")[3:]


def test_a_topic_reads_from_its_life_to_what_is_pending() -> None:
    """The page has phase, partitions, values with their sources, and the block of the plan, in this order."""
    state = cluster(topic("orders", 2, config={"retention.ms": "1000", "flush.ms": "5"}, managed_keys=["retention.ms"]))
    found = of(state, inspection(state, p1=PartitionState(3, (3, 4))), partitions=3, config={"retention.ms": 2000})
    assert page_of(found) == [
        "  orders           initialized by the controller",
        "      topic id     IvlLS4OaQluDznKjP0kYgQ",
        "      document     Topic orders, topics/orders.yaml:1:1",
        "      record       owner default, manages retention.ms",
        "      replicas     placed by Kafka's algorithm from broker 1, shift 0",
        "",
        "  partitions       2 x 3 replicas: 1 healthy, 1 under-replicated, 1 not led by",
        "                   its preferred leader",
        "      id           leader  replicas  ISR",
        "      0            1       [1,2,3]   [1,2,3]",
        "      1            3       [2,3,4]   [3,4]    under-replicated: ISR lacks 2;",
        "                                              preferred leader: 2",
        "",
        "  values           configs that are not listed have the brokers' values",
        "      partitions         2                 on the cluster",
        "                         -> 3  topics/orders.yaml:1:1",
        "      replicationFactor  3                 topics/orders.yaml:1:1",
        "      flush.ms           5                 set by another client",
        "      retention.ms       1000  (1 second)  set by topiarist",
        "                         -> 2000  (2 seconds)  topics/orders.yaml:1:1",
        "",
        "  ~ orders         grow 2 -> 3 partitions, configure                  Disruptive",
        "      risk         growth: keys map to other partitions",
        "                   retention.ms: more is kept: up to 2 seconds",
        "      partitions   + 2 [3,4,5]",
        "      config       ~ retention.ms  1000 -> 2000  (1 second -> 2 seconds)",
        "",
    ]


@pytest.mark.parametrize(
    ("partitions", "unwell", "verbose", "rows", "ending"),
    [
        (16, 0, False, 16, ""),
        (17, 0, False, 0, "      (-v shows them)"),
        (17, 0, True, 17, ""),
        (100, 3, False, 3, "      ... the others are healthy (-v shows all)"),
        (100, 16, False, 16, "      ... the others are healthy (-v shows all)"),
        (100, 17, False, 15, "      ... 2 more with issues (-v shows them)"),
        (100, 100, False, 15, "      ... 85 more with issues (-v shows them)"),
        (100, 100, True, 100, ""),
    ],
)
def test_many_partitions_are_short(partitions: int, unwell: int, verbose: bool, rows: int, ending: str) -> None:
    """Many partitions are one line of counts, the unhealthy ones, and the number not shown; ``-v`` shows all."""
    state = cluster(topic("orders", [(1, 2)] * partitions))
    ill = {f"p{one}": PartitionState(1, (1,)) for one in range(unwell)}
    lines = page_of(of(state, inspection(state, **ill)), TextLayout(verbose=verbose))
    counts = "all healthy" if not unwell else f"{partitions - unwell} healthy, {unwell} under-replicated"
    start = lines.index(f"  partitions       {partitions} x 2 replicas: {counts}")
    block = lines[start + 1 : lines.index("", start)]
    assert len([line for line in block if line[6:7].isdigit()]) == rows
    assert (block[-1] if ending else "") == ending
    assert ending or "-v" not in "".join(block)


def test_of_many_partitions_of_a_snapshot_none_is_called_well() -> None:
    """Partitions of a snapshot are not called healthy, because their states are unknown."""
    state = cluster(topic("orders", [(1, 2)] * 20, reassigning_partitions=(3,)))
    lines = page_of(of(state, None))
    assert "  partitions       20 x 2 replicas, 1 being reassigned, leaders and ISR are" in lines
    assert "      3            [1,2]     being reassigned" in lines
    assert "      ... the others (-v shows them)" in lines
    assert not any("healthy" in line for line in lines)


def test_where_there_is_no_room_beside_a_row_what_is_said_of_it_stands_beneath() -> None:
    """A remark that does not fit beside its row is on the next line, so long replica lists keep their columns."""
    ids = tuple(range(1001, 1007))
    state = cluster(topic("orders", [ids]), brokers=())
    lines = page_of(of(state, inspection(state, p0=PartitionState(1002, ids[1:]))))
    at = lines.index("      0            1002    [1001,1002,1003,1004,1005,1006]  [1002,1003,1004,1005,1006]")
    assert lines[at + 1].startswith("                   offline: leader 1002 is not registered; under-replicated:")


def test_all_values_of_the_manifest_are_there_on_a_verbose_page() -> None:
    """With ``-v`` the page has all values of the manifest, including topiarist's own defaults."""
    state = cluster(topic("orders"))
    found = of(state, inspection(state), partitions=3)
    assert not any("topiarist's default" in line for line in page_of(found))
    lines = page_of(found, TextLayout(verbose=True))
    assert "      ensure             Present  topiarist's default" in lines
    assert "      unmanagedConfig    Keep     topiarist's default" in lines


def test_long_names_and_values_never_leave_the_page() -> None:
    """A name of 249 letters and a key and value longer than a line stay within a terminal, and are whole elsewhere."""
    name, key = "x" * 249, "vendor." + "k" * 90
    state = cluster(topic(name, config={key: "v" * 300, "flush.ms": "1"}))
    found = describe(state, EU, ResolvedTopic(name), inspection(state), None, "default")
    text = format_descriptions([found], TextLayout(spare_width=0))
    assert max(map(len, text.split("\n"))) <= 80
    assert {name, key, "v" * 160 + "..."} <= {*format_descriptions([found], TextLayout()).split()}
    assert "v" * 50 in text.replace("\n", "").replace(" ", "")
    assert "140 more characters" in " ".join(text.split())


def test_nothing_from_a_cluster_reaches_a_terminal_as_it_is() -> None:
    """Names, owners, values and errors of a cluster are escaped: they never control a terminal."""
    bad = "a\x1b[2J\u202eb\n"
    state = cluster(topic(bad, config={bad: bad}, owner=bad, unknown_fields=(bad,)), warnings=(bad,))
    found = replace(inspection(state), other_errors=(ReadError(bad, bad),))
    text = format_descriptions([describe(state, EU, ResolvedTopic(bad), found, None, "default")], TextLayout())
    assert all(line.isprintable() for line in text.split("\n"))
    assert "\\x1b[2J" in text


def test_a_closed_cluster_is_said_at_its_head() -> None:
    """The head shows user, reason and time of a freeze, and the topic is described as usual."""
    gate = WriteBlock(Reason.FROZEN, f"the cluster is {Freeze('incident', 'ada', '2026-01-31T12:00:00Z')}")
    state = cluster(topic("orders"), write_block=gate)
    text = format_descriptions([of(state, inspection(state))], TextLayout(width=140))
    assert (
        "write block: Frozen: the cluster is frozen by ada since 2026-01-31T12:00:00Z: incident; nothing is written"
        in text
    )
    assert "initialized by the controller" in text


def test_the_topic_of_the_records_is_described_as_such() -> None:
    """Its missing record is no fault, and the note names its owner."""
    own = topic("__topiarist", managed_keys=None)
    found = describe(cluster(own), EU, ResolvedTopic("__topiarist", None), None, None, "default")
    lines = page_of(found)
    assert "      record       none: it has the records of all topics" in lines
    assert "      note         internal topic of topiarist: no manifest changes it" in lines


def test_many_odd_znodes_are_counted() -> None:
    """The page shows the path and reason of the first unreadable znodes, and of all with ``-v``."""
    state = cluster(topic("orders", 9))
    faults = {one: ReadError(f"/partitions/{one}/state", "it is empty") for one in range(9)}
    found = replace(inspection(state), states={}, partition_errors=faults)
    assert [line for line in page_of(of(state, found)) if line.startswith("      read error")] == [
        *(f"      read error   /partitions/{one}/state: it is empty" for one in range(3)),
        "      read error   6 others (-v shows them)",
    ]
    assert sum(line.startswith("      read error") for line in page_of(of(state, found), TextLayout(verbose=True))) == 9


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"modified_externally": True}, "its config has changed since topiarist recorded it"),
        ({"unknown_fields": ("vendor",)}, "its entry has fields that Kafka does not write: vendor"),
        ({"replicas": [(1, 7)]}, "broker 7, with replicas of it, is not registered"),
        ({}, "a reassignment request names the topic"),
    ],
)
def test_what_else_is_odd_about_a_topic_is_noted(fields: dict[str, Any], words: str) -> None:
    """Each irregularity of a topic has a note of one line."""
    state = cluster(topic("orders", **fields), reassigning_topics=frozenset() if fields else frozenset({"orders"}))
    assert [line for line in page_of(of(state, inspection(state))) if " note " in line] == [
        f"      note         {words}"
    ]


def test_a_topic_of_nobody_has_no_record() -> None:
    """A topic without an owner is neither created nor adopted by topiarist."""
    state = cluster(topic("orders", managed_keys=None))
    lines = page_of(of(state, inspection(state)))
    assert "      record       none: topiarist neither created nor adopted the topic" in lines


def test_colour_changes_no_layout() -> None:
    """Without colours, the lines are the same."""
    state = cluster(topic("orders", 2, config={"flush.ms": "5"}))
    found = of(state, inspection(state, p1=PartitionState(-1, (3,))), partitions=3, config={"flush.ms": 7})
    coloured = format_descriptions([found], TextLayout(use_color=True))
    assert "\x1b[" in coloured
    for tone in ("32", "33", "1;31", "2", "1", "0"):
        coloured = coloured.replace(f"\x1b[{tone}m", "")
    assert coloured == format_descriptions([found], TextLayout())


def test_a_name_has_the_colour_of_its_phase() -> None:
    """A topic that exists is bold, and one that is marked for deletion red."""
    for state, code in (
        (cluster(topic("orders")), "1"),
        (cluster(topic("orders"), pending_deletions=("orders",)), "1;31"),
    ):
        text = format_descriptions([of(state, inspection(state))], TextLayout(use_color=True))
        assert f"  \x1b[{code}morders\x1b[0m" in text


def test_a_partition_of_a_deleted_topic_has_no_leader() -> None:
    """Both values that Kafka writes for no leader are shown alike."""
    state = cluster(topic("orders", [(1, 2)]))
    for leader in (-1, -2):
        lines = page_of(of(state, inspection(state, p0=PartitionState(leader, (1, 2)))))
        assert any(line.startswith("      0            none    [1,2]") for line in lines)


def test_a_topic_that_no_manifest_names_any_more_can_be_released() -> None:
    """The page names the command for an orphan, and not for a topic of another owner."""
    for owner, told in (("default", True), ("team", False)):
        state = cluster(topic("orders", owner=owner))
        none = make_plan(state, EU, [], RunOptions())
        found = describe(state, EU, ResolvedTopic("orders"), inspection(state), none, "default")
        text = " ".join(" ".join(page_of(found)).split())
        assert (
            "pending not in the given paths; to stop managing the topic, run topiarist unmanage orders" in text
        ) is told


def test_nothing_found_is_nothing_printed() -> None:
    """If no cluster could be read, the page is empty."""
    assert format_descriptions([], TextLayout()) == ""


FOUR = (Broker(1), Broker(2), Broker(3), Broker(4))


@pytest.mark.parametrize(
    ("racks", "replicas", "words"),
    [
        ("", [(2, 4), (3, 1), (4, 2)], "placed by Kafka's algorithm from broker 2, shift 1"),
        ("aabb", [(1, 3), (3, 2), (2, 4)], "placed by Kafka's algorithm from broker 1, shift 0"),
        ("aabb", [(1, 2), (2, 3), (3, 4)], "placed by Kafka's algorithm from broker 1, shift 0, racks ignored"),
        ("", [(1, 2), (2, 1), (1, 2)], "placed by Kafka's algorithm from broker 1, shift 0, over brokers 1, 2"),
        (
            "",
            [(1, 3), (3, 2), (2, 4), (4, 1), (1, 2), (3, 4)],
            "placed by Kafka's algorithm from broker 1, shift 0, over brokers in the order 1, 3, 2, 4",
        ),
        (
            "",
            [(3, 4), (4, 1), (1, 4)],
            "placed by Kafka's algorithm from broker 3, shift 0, expanded at partition 2",
        ),
        (
            "",
            [(2, 4), (3, 2), (2, 3), (1, 3), (2, 3)],
            "placed by Kafka's algorithm from broker 2, shift 1, expanded at partitions 1, 3, 4",
        ),
        (
            "",
            [(1, 2), (2, 3), (3, 4), (1, 4), (1, 3)],
            "lists differ from Kafka's placement (from broker 1, shift 0) in partition 3",
        ),
        (
            "",
            [(3, 4), (4, 1), (1, 2), (1, 4), (1, 3)],
            "lists differ from Kafka's placement (from broker 3, shift 0) in partitions 3, 4",
        ),
        ("", [(1, 2), (1, 2), (2, 1), (4, 2), (4, 1)], "lists do not follow Kafka's algorithm"),
    ],
)
def test_the_placement_in_words(racks: str, replicas: list[Replicas], words: str) -> None:
    """The page shows the source of the replica lists, their brokers, and the lists that deviate."""
    brokers = tuple(Broker(one.id, rack) for one, rack in zip(FOUR, racks, strict=True)) if racks else FOUR
    state = replace(cluster(topic("orders", replicas)), brokers=brokers)
    found = of(state, inspection(state))
    lines = page_of(found, TextLayout(width=200))
    assert f"      replicas     {words}" in lines
    made = describe_.encode_descriptions("orders", [found])["clusters"][0]["placement"]
    assert load.first_error("describe", describe_.encode_descriptions("orders", [found])) == ""
    assert (made is None) == ("do not follow" in words)


def test_partitions_with_different_numbers_of_replicas() -> None:
    """Different replica counts are never called healthy, and appear once: in the plan, else as a note."""
    state = cluster(topic("orders", [(1, 2, 3), (2, 3, 4), (3,)]))
    words = "partitions have different numbers of replicas: 1 in partition 2, and 3 in the 2 others"
    found = of(state, inspection(state))
    text = "\n".join(page_of(found, TextLayout(width=200)))
    assert f"      note         {words}\n" in text
    assert "3 x 1 to 3 replicas: all in sync\n" in text
    assert describe_.encode_descriptions("orders", [found])["clusters"][0]["replicaCounts"] == {"1": 1, "3": 2}
    text = "\n".join(page_of(of(state, inspection(state), partitions=3, replicationFactor=None), TextLayout(width=200)))
    assert text.count(words) == 1


def test_a_batch_of_topiarist_is_named() -> None:
    """A topic that the last batch moves has the batch, and each partition in flight its target."""
    batch = BatchRecord(
        "team", 2, 3, (ReplicaMove("orders", 0, (1, 2, 3), (4, 2, 3)), ReplicaMove("other", 1, (1,), (2,))), {}
    )
    state = cluster(topic("orders", 2), batch=batch)
    found = replace(
        inspection(state), reassignments={0: Reassignment((4,), (1,))}, assignment={0: (4, 2, 3, 1), 1: (2, 3, 4)}
    )
    page = " ".join(" ".join(page_of(of(state, found), TextLayout(width=120))).split())
    assert "note batch 2 of 3 of moves by owner team moves partition 0" in page
    assert "being reassigned: to [4,2,3], adding 4, removing 1" in page
    assert "batch 2" not in " ".join(page_of(of(state, inspection(state))))
