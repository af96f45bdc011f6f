"""A description of a topic: its document follows the schema, and its text has phase, partitions, values and changes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from msgspec.structs import replace

from support.builders import spec, state, topic
from support.examples import examples
from support.strategies import PlanInput, plan_inputs
from topiarist.adapters.saved_plans.encode import dumps
from topiarist.errors import Location, Reason
from topiarist.inspection.describe import (
    ActualSource,
    Description,
    DesiredSource,
    Explanation,
    ResolvedTopic,
    ValueSource,
    describe,
    resolve_topic,
    similar_names,
)
from topiarist.inspection.health import IN_PROGRESS, IssueType, Partition, PartitionIssue, Phase, TopicPhase
from topiarist.kafka.types import Broker, Replicas
from topiarist.model.moves import BatchRecord, OwnValue, ReplicaMove
from topiarist.model.plan import Issue, Plan, RunOptions, TopicPlan
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import (
    ClusterState,
    OwnershipRecord,
    PartitionState,
    ReadError,
    Reassignment,
    TopicInspection,
)
from topiarist.output import describe as describe_
from topiarist.output.describe import encode_descriptions, format_descriptions, format_explanation
from topiarist.output.text.layout import BOLD_RED, YELLOW, TextLayout
from topiarist.planning.planner import make_plan
from topiarist.schema import load

SCHEMA = load.load_schema("describe")
VALIDATOR = Draft7Validator(SCHEMA)


def inspected(state: ClusterState, name: str, seed: int) -> TopicInspection | None:
    """Return generated partition states of a topic, some missing and some invalid."""
    random, seen = Random(f"{seed}{name}"), state.topics.get(name)
    if random.random() < 0.2:
        return None
    lists = {0: (1, 2), 3: (2,)} if name in state.topic_errors else {}
    if seen:
        lists = dict(zip(seen.partition_ids, seen.replicas, strict=True))
    if random.random() < 0.1:
        lists = {}
    states = {
        one: PartitionState(
            random.choice((-2, -1, 1, 2, 9)), tuple(random.sample(range(1, 6), random.randint(0, 3))), 1, 2
        )
        for one in (*lists, 99)
        if random.random() < 0.8
    }
    odd = ReadError("/brokers/topics/x/partitions/\x1b[2J", "it is \u202e odd")
    return TopicInspection(
        seen.identity if seen else None,
        lists,
        states,
        partition_errors={one: odd for one in lists if one not in states and random.random() < 0.3},
        other_errors=(odd,) if random.random() < 0.2 else (),
        reassignments={one: Reassignment((1,), (2, 3)) for one in lists if random.random() < 0.1},
        requested_replicas={one: (5, 6) for one in lists if random.random() < 0.1},
        topic_id=seen.topic_id if seen else None,
    )


def describe_any(world: PlanInput, seed: int) -> Iterator[Description]:
    """Return descriptions of all topics that a cluster or manifest has, and of one that does not exist."""
    state, plan = world.state, world.plan()
    names = {
        *state.topics,
        *state.topic_errors,
        *state.dangling_records,
        *state.pending_deletions,
        *(one.topic for one in world.specs),
        "none",
    }
    for name in sorted(names):
        (what,) = resolve_topic(name, state, world.specs)
        given_plan: Plan | None = plan if seed % 3 else None
        found = inspected(state, what.topic, seed)
        yield describe(state, world.cluster, what, found, given_plan, world.run.owner)


@examples(150)
@given(plan_inputs(), st.integers(0, 1 << 30))
def test_every_description_is_of_the_schema_and_of_the_page(world: PlanInput, seed: int) -> None:
    """Any cluster content yields a valid ASCII document, and text without long lines or control characters."""
    found = list(describe_any(world, seed))
    text = dumps(encode_descriptions("x", found))
    VALIDATOR.validate(json.loads(text))
    assert text.isascii()
    assert text == dumps(encode_descriptions("x", list(describe_any(world, seed))))
    for page in (
        TextLayout(spare_width=0),
        TextLayout(width=140, verbose=True, spare_width=0),
        TextLayout(use_color=True, spare_width=0),
    ):
        for line in format_descriptions(found, page).split("\n"):
            assert page.use_color or (line.isprintable() and len(line) <= page.width), line


def test_the_words_of_the_schema_are_those_of_the_code() -> None:
    """The enums of phases, conditions, layers and holders equal those of the code, in the same order."""
    definitions = SCHEMA["definitions"]
    value = definitions["value"]["properties"]
    assert definitions["topic"]["properties"]["phase"]["enum"] == [phase.value for phase in Phase]
    assert definitions["condition"]["enum"] == [condition.value for condition in IssueType]
    assert definitions["topic"]["properties"]["conditions"]["propertyNames"]["enum"] == definitions["condition"]["enum"]
    assert value["desiredSource"]["oneOf"][1]["enum"] == [layer.value for layer in DesiredSource]
    assert value["actualSource"]["oneOf"][1]["enum"] == [holder.value for holder in ActualSource]


def test_a_word_means_the_topic_before_the_document() -> None:
    """A name selects the desired or actual topic of this name, else the document of this name, and both if two
    match.
    """
    renamed, plain = spec("orders", topicName="orders.v1"), spec("clicks")
    here = state(topic("orders"))
    assert resolve_topic("orders.v1", state(), [renamed]) == [ResolvedTopic("orders.v1", renamed)]
    assert resolve_topic("orders", state(), [renamed]) == [ResolvedTopic("orders.v1", renamed, by_document_name=True)]
    assert resolve_topic("orders", here, [renamed]) == [ResolvedTopic("orders")]
    assert resolve_topic("clicks", here, [renamed, plain]) == [ResolvedTopic("clicks", plain)]
    assert resolve_topic("none", here, [renamed]) == [ResolvedTopic("none")]
    twice = [spec("orders", topicName="a"), spec("orders", topicName="b")]
    assert [each.topic for each in resolve_topic("orders", state(), twice)] == ["a", "b"]


def test_close_names_are_found_among_all_that_is_known() -> None:
    """Suggestions come from topics, ownership records and manifests, the closest first, without distant names."""
    cluster_state = state(topic("orders.v1"), topic("payments"), topic("zebra"))
    assert similar_names("order.v1", cluster_state, [spec("orders.v2")]) == ["orders.v1", "orders.v2"]
    assert similar_names("xyz", cluster_state, []) == []


def test_a_topic_that_is_as_it_should_be_keeps_its_record() -> None:
    """A synced topic keeps its ownership record, even though its plan has no record."""
    wanted = spec("orders", replicationFactor=3, config={"flush.ms": 5})
    cluster_state = state(topic("orders", 3, "flush.ms", config={"flush.ms": "5"}))
    plan = make_plan(cluster_state, ClusterSpec(), [wanted], RunOptions())
    assert plan.topics == ()
    found = describe(cluster_state, ClusterSpec(), ResolvedTopic("orders", wanted), None, plan, "default")
    assert found.pending_plan
    assert found.pending_plan.is_empty
    assert found.pending_plan.record_after == cluster_state.topics["orders"].record


def test_the_controller_of_a_cluster_is_in_the_document() -> None:
    """A document has the controller with its epoch; a cluster without a controller has none."""
    for controller, expected in ((1, {"broker": 1, "epoch": 42}), (None, None)):
        cluster_state = state(topic("orders"), controller=controller)
        found = describe(cluster_state, ClusterSpec(), ResolvedTopic("orders"), None, None, "default")
        (encoded,) = encode_descriptions("orders", [found])["clusters"]
        assert encoded["controller"] == expected


def test_unknown_fields_of_a_topic_are_in_the_document() -> None:
    """The document names the fields that Kafka does not write; a topic that does not exist has none."""
    for topics, expected in (([topic("orders", unknown_fields=("b", "a"))], ["b", "a"]), ([], [])):
        found = describe(state(*topics), ClusterSpec(), ResolvedTopic("orders"), None, None, "default")
        (encoded,) = encode_descriptions("orders", [found])["clusters"]
        assert encoded["unknownFields"] == expected


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
    return format_descriptions([found], page or TextLayout()).split("\n")[2:]


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
    cluster_state = state(topic("orders", [(1, 2)] * partitions))
    ill = {f"p{one}": PartitionState(1, (1,)) for one in range(unwell)}
    lines = page_of(of(cluster_state, inspection(cluster_state, **ill)), TextLayout(verbose=verbose))
    counts = "all healthy" if not unwell else f"{partitions - unwell} healthy, {unwell} under-replicated"
    start = lines.index(f"  partitions       {partitions} x 2 replicas: {counts}")
    block = lines[start + 1 : lines.index("", start)]
    assert len([line for line in block if line[6:7].isdigit()]) == rows
    assert (block[-1] if ending else "") == ending
    assert ending or "-v" not in "".join(block)


def test_of_many_partitions_of_a_snapshot_none_is_called_well() -> None:
    """Partitions of a snapshot are not called healthy, because their states are unknown."""
    cluster_state = state(topic("orders", [(1, 2)] * 20, reassigning_partitions=(3,)))
    lines = page_of(of(cluster_state, None))
    assert "  partitions       20 x 2 replicas, 1 being reassigned, leaders and ISR are" in lines
    assert "      3            [1,2]     being reassigned" in lines
    assert "      ... the others (-v shows them)" in lines
    assert not any("healthy" in line for line in lines)


def test_where_there_is_no_room_beside_a_row_what_is_said_of_it_stands_beneath() -> None:
    """A remark that does not fit beside its row is on the next line, so long replica lists keep their columns."""
    ids = tuple(range(1001, 1007))
    cluster_state = state(topic("orders", [ids]), brokers=())
    lines = page_of(of(cluster_state, inspection(cluster_state, p0=PartitionState(1002, ids[1:]))))
    at = lines.index("      0            1002    [1001,1002,1003,1004,1005,1006]  [1002,1003,1004,1005,1006]")
    assert lines[at + 1].startswith("                   offline: leader 1002 is not registered; under-replicated:")


def test_all_values_of_the_manifest_are_there_on_a_verbose_page() -> None:
    """With ``-v`` the page has all values of the manifest, including topiarist's own defaults."""
    cluster_state = state(topic("orders"))
    found = of(cluster_state, inspection(cluster_state), partitions=3)
    assert not any("topiarist's default" in line for line in page_of(found))
    lines = page_of(found, TextLayout(verbose=True))
    assert "      ensure             Present  topiarist's default" in lines
    assert "      unmanagedConfig    Keep     topiarist's default" in lines


def test_long_names_and_values_never_leave_the_page() -> None:
    """A name of 249 letters and a key and value longer than a line stay within a terminal, and are whole elsewhere."""
    name, key = "x" * 249, "vendor." + "k" * 90
    cluster_state = state(topic(name, config={key: "v" * 300, "flush.ms": "1"}))
    found = describe(cluster_state, EU, ResolvedTopic(name), inspection(cluster_state), None, "default")
    text = format_descriptions([found], TextLayout(spare_width=0))
    assert max(map(len, text.split("\n"))) <= 80
    assert {name, key, "v" * 160 + "..."} <= {*format_descriptions([found], TextLayout()).split()}
    assert "v" * 50 in text.replace("\n", "").replace(" ", "")
    assert "140 more characters" in " ".join(text.split())


def test_nothing_from_a_cluster_reaches_a_terminal_as_it_is() -> None:
    """Names, owners, values and errors of a cluster are escaped: they never control a terminal."""
    bad = "a\x1b[2J\u202eb\n"
    cluster_state = state(topic(bad, config={bad: bad}, owner=bad, unknown_fields=(bad,)), warnings=(bad,))
    found = replace(inspection(cluster_state), other_errors=(ReadError(bad, bad),))
    text = format_descriptions([describe(cluster_state, EU, ResolvedTopic(bad), found, None, "default")], TextLayout())
    assert all(line.isprintable() for line in text.split("\n"))
    assert "\\x1b[2J" in text


def test_the_topic_of_the_records_is_described_as_such() -> None:
    """Its missing record is no fault, and the note names its owner."""
    own = topic("__topiarist", record=None)
    found = describe(state(own), EU, ResolvedTopic("__topiarist", None), None, None, "default")
    lines = page_of(found)
    assert "      record       none: it has the records of all topics" in lines
    assert "      note         internal topic of topiarist: no manifest changes it" in lines


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
    cluster_state = state(
        topic("orders", **fields), reassigning_topics=frozenset() if fields else frozenset({"orders"})
    )
    assert [line for line in page_of(of(cluster_state, inspection(cluster_state))) if " note " in line] == [
        f"      note         {words}"
    ]


def test_colour_changes_no_layout() -> None:
    """Without colours, the lines are the same."""
    cluster_state = state(topic("orders", 2, config={"flush.ms": "5"}))
    found = of(
        cluster_state, inspection(cluster_state, p1=PartitionState(-1, (3,))), partitions=3, config={"flush.ms": 7}
    )
    coloured = format_descriptions([found], TextLayout(use_color=True))
    assert "\x1b[" in coloured
    for tone in ("32", "33", "1;31", "2", "1", "0"):
        coloured = coloured.replace(f"\x1b[{tone}m", "")
    assert coloured == format_descriptions([found], TextLayout())


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
    cluster_state = replace(state(topic("orders", replicas)), brokers=brokers)
    found = of(cluster_state, inspection(cluster_state))
    lines = page_of(found, TextLayout(width=200))
    assert f"      replicas     {words}" in lines
    made = describe_.encode_descriptions("orders", [found])["clusters"][0]["placement"]
    assert load.first_error("describe", describe_.encode_descriptions("orders", [found])) == ""
    assert (made is None) == ("do not follow" in words)


def test_partitions_with_different_numbers_of_replicas() -> None:
    """Different replica counts are never called healthy, and appear once: in the plan, else as a note."""
    cluster_state = state(topic("orders", [(1, 2, 3), (2, 3, 4), (3,)]))
    words = "partitions have different numbers of replicas: 1 in partition 2, and 3 in the 2 others"
    found = of(cluster_state, inspection(cluster_state))
    text = "\n".join(page_of(found, TextLayout(width=200)))
    assert f"      note         {words}\n" in text
    assert "3 x 1 to 3 replicas: all in sync\n" in text
    assert describe_.encode_descriptions("orders", [found])["clusters"][0]["replicaCounts"] == {"1": 1, "3": 2}
    text = "\n".join(
        page_of(
            of(cluster_state, inspection(cluster_state), partitions=3, replicationFactor=None), TextLayout(width=200)
        )
    )
    assert text.count(words) == 1


def test_a_batch_of_topiarist_is_named() -> None:
    """A topic that the last batch moves has the batch, and each partition in flight its target."""
    batch = BatchRecord(
        "team", 2, 3, (ReplicaMove("orders", 0, (1, 2, 3), (4, 2, 3)), ReplicaMove("other", 1, (1,), (2,))), {}
    )
    cluster_state = state(topic("orders", 2), batch=batch)
    found = replace(
        inspection(cluster_state),
        reassignments={0: Reassignment((4,), (1,))},
        assignment={0: (4, 2, 3, 1), 1: (2, 3, 4)},
    )
    page = " ".join(" ".join(page_of(of(cluster_state, found), TextLayout(width=120))).split())
    assert "note batch 2 of 3 of moves by owner team moves partition 0" in page
    assert "being reassigned: to [4,2,3], adding 4, removing 1" in page
    assert "batch 2" not in " ".join(page_of(of(cluster_state, inspection(cluster_state))))


def test_a_topic_in_flight_matches_its_manifest_when_the_batch_is_done() -> None:
    """A plan counts a batch in flight as done; the description says so, and who set the throttles of the batch."""
    key = "leader.replication.throttled.replicas"
    throttles = {"topics/orders": {key: OwnValue(None, "0:1")}}
    batch = BatchRecord("team", 1, 1, (ReplicaMove("orders", 0, (1,), (2,)),), throttles)
    cluster_state = state(topic("orders", [(2, 1)], config={key: "0:1"}), batch=batch)
    found = replace(inspection(cluster_state), reassignments={0: Reassignment((2,), (1,))})
    page = " ".join(" ".join(page_of(of(cluster_state, found, partitions=1), WIDE)).split())
    assert "pending nothing: the topic matches its manifest when the batch is done" in page
    resolved = ResolvedTopic("orders", spec("orders", EU))
    for actual, source in (("0:1", "set by topiarist, until its moves end"), ("0:2", "set by another client")):
        value = ValueSource(f"config.{key}", actual=actual, actual_source=ON_TOPIC)
        shown = replace(of(cluster_state, found), values=(value,), resolved=resolved)
        assert any(line.endswith(f"{actual}  {source}") for line in page_of(shown, WIDE))


PLACE = Location("topics/a.yaml", 4, 7)
WIDE = TextLayout(width=140)


def described(cluster_state: ClusterState | None = None, /, **fields: Any) -> Description:
    """Return the description of ``a`` with these fields; by default the topic exists with one partition."""
    found = describe(cluster_state or state(topic("a", [(1,)])), EU, ResolvedTopic("a"), None, None, "default")
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
    for cluster_state, values, words in (
        (state(topic("a")), (desired,), "configs that are not listed have the brokers' values"),
        (state(), (desired, actual), "those that can be read"),
        (state(), (desired,), "desired"),
    ):
        lines = lines_of(described(cluster_state, values=values))
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
        found = describe(state(topic(name)), EU, ResolvedTopic(name), None, None, "default")
        lines = format_descriptions([found], TextLayout(spare_width=0)).splitlines()[2:]
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
    assert f"      record       {words}" in lines_of(described(state(seen)))


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
    assert [notes_of(state(topic(name)), name, on) for name in names] == [[each] for each in words]
    assert [notes_of(state(), name, on) for name in names] == [[words[0]], [words[1]], []]


def test_missing_brokers_and_odd_lists_are_noted() -> None:
    """Replicas on brokers that are not registered, and unequal numbers of replicas, each have a note."""
    away = state(topic("a", [(1, 7), (8, 7)]))
    (missing,) = notes_of(away)
    assert missing == "brokers 7, 8, with replicas of it, are not registered"
    deleted = TopicPhase(Phase.MARKED_FOR_DELETION, "marked")
    assert notes_of(away, phase=deleted) == []
    (unequal,) = notes_of(state(UNEQUAL))
    known = TopicPlan("a", notices=(Issue(Reason.EXISTING_PROBLEM, unequal),))
    assert notes_of(state(UNEQUAL), pending_plan=known) == []
    other = TopicPlan("a", notices=(Issue(Reason.EXISTING_PROBLEM, "other"),))
    assert notes_of(state(UNEQUAL), pending_plan=other) == [unequal]


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
    cluster_state = state(topic("a", [(1,)]), bypasses_brokers=bypasses)
    words = "if this does not change, the controller missed the topic: run topiarist nudge a"
    assert notes_of(cluster_state, phase=TopicPhase(phase, "so", blocked_by)) == ([words] if noted else [])


def test_an_explanation_has_its_facts_in_two_columns() -> None:
    """The word is bold, its meaning is below it, and long facts are wrapped in their column."""
    found = Explanation(
        "Frozen", "the cluster is frozen", (("exit code", "3"), ("retry", "in a later run, " * 4 + "at once"))
    )
    assert format_explanation(TextLayout(use_color=True), found) == (
        "\x1b[1mFrozen\x1b[0m\n"
        "  the cluster is frozen\n"
        "  exit code  3\n"
        "  retry      in a later run, in a later run, in a later run,\n"
        "             in a later run, at once\n"
    )
    assert format_explanation(TextLayout(), Explanation("Frozen", "no facts")) == "Frozen\n  no facts\n"
