"""Reading of saved plans: a plan is read back byte for byte with the same results, and every other file is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from support.builders import PROD_CLUSTER, RACKLESS_BROKERS, plan, replica_lists, spec, state, topic
from support.examples import examples
from support.memory_cluster import simulate
from support.strategies import PlanInput, make_plan_input, plan_inputs
from topiarist.adapters.saved_plans.decode import ReportMoves, parse_plan_file, parse_report
from topiarist.adapters.saved_plans.encode import compute_fingerprint, dumps, encode_plans
from topiarist.errors import Reason, TopiaristError
from topiarist.filters.chain import limit_moves
from topiarist.kafka.types import Broker, ClusterMode
from topiarist.model.moves import UNLIMITED, LeaderChange, MoveKind, MoveSettings, ReplicaMove
from topiarist.model.plan import ElectLeaders, Plan
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState, OwnershipRecord
from topiarist.planning.preconditions import check_plan
from topiarist.planning.risk import UNKEYED_GROWTH, assess_elections

many = examples(300)

SEEN = state(
    topic("clicks", replica_lists("12", "23"), "retention.ms", config={"retention.ms": "7", "segment.ms": "5"}),
    topic("gone", replica_lists("12")),
    topic("ours", replica_lists("12"), record=None),
)
WANTED = (
    spec("clicks", partitions=4, config={"retention.ms": 7, "segment.ms": 6, "cleanup.policy": "compact"}),
    spec("gone", ensure="Absent"),
    spec("orders", config={"retention.ms": 9}),
    spec("ours", partitions=1),
)
PLAN = plan(SEEN, *WANTED)


def written(*plans: Plan) -> bytes:
    return dumps(encode_plans(plans)).encode()


def signed(content: dict[str, Any]) -> bytes:
    """Return a document with a correct fingerprint, which anyone can compute."""
    return dumps({**content, "fingerprint": compute_fingerprint(content)}).encode()


def refusal(raw: bytes) -> TopiaristError:
    with pytest.raises(TopiaristError) as caught:
        parse_plan_file(raw, "plan.json")
    return caught.value


def perturbed(seen: ClusterState, seed: int) -> ClusterState:
    """Return the cluster after external changes to some of its topics, its brokers or its defaults."""
    random = Random(seed)
    other = make_plan_input(seed, 6, 0.25).state
    topics, records = dict(seen.topics), dict(seen.dangling_records)
    value: Any
    whole: dict[str, Any]
    for name, found in seen.topics.items():
        alien = other.topics.get(name, found)
        fields = {
            field: getattr(alien, field)
            for field in ("config", "replicas", "topic_id", "reassigning_partitions", "record")
        }
        field = random.choice([*fields, "identity", "unknown_fields", "gone", "nothing", "nothing"])
        if field == "gone":
            del topics[name]
            if found.record:
                records[name] = found.record
        elif field != "nothing":
            value = {**fields, "identity": "5", "unknown_fields": ("x",)}[field]
            whole = {"partition_ids": range(len(value))} if field == "replicas" else {}
            topics[name] = replace(found, **{field: value}, **whole)
    return replace(
        seen,
        topics=topics,
        dangling_records=records,
        brokers=random.choice((seen.brokers, other.brokers, tuple(Broker(each.id, "z") for each in seen.brokers))),
        broker_defaults=random.choice((seen.broker_defaults, {"log.cleaner.max.compaction.lag.ms": "10"})),
        min_version=random.choice(((2, 4), seen.min_version)),
        pending_deletions=random.choice((seen.pending_deletions, frozenset(topics))),
    )


@many
@given(plan_inputs())
def test_a_plan_comes_back_to_the_byte(world: PlanInput) -> None:
    """A plan that is written, read and written again has the same bytes, for any content."""
    raw = written(world.plan())
    assert written(*parse_plan_file(raw, "plan.json").plans) == raw


def test_growth_without_keys_comes_back() -> None:
    """Growth of a topic without keys is the one safe change with an explanation, and is read back with it."""
    made = plan(SEEN, spec("clicks", partitions=4, keyed=False))
    (kept,) = parse_plan_file(written(made), "plan.json").plans
    assert kept.topics[0].changes[0].assessment == UNKEYED_GROWTH


@many
@given(plan_inputs(), st.integers(0, 1 << 40))
def test_a_plan_that_comes_back_stands_as_the_one_that_was_made(world: PlanInput, seed: int) -> None:
    """The preconditions of a saved plan give the same results and messages as those of the original. This holds in the
    planned state, after the plan, and after external changes.
    """
    made = world.plan()
    (kept,) = parse_plan_file(written(made), "plan.json").plans
    for now in (world.state, simulate(world.state, made.topics), perturbed(world.state, seed)):
        expected = [(found.topic, stands) for found, stands in check_plan(made, now)]
        assert [(found.topic, stands) for found, stands in check_plan(kept, now)] == expected


@many
@given(plan_inputs())
def test_a_plan_that_comes_back_does_the_same(world: PlanInput) -> None:
    """A saved plan and the original plan lead to the same simulated cluster."""
    made = world.plan()
    (kept,) = parse_plan_file(written(made), "plan.json").plans
    assert simulate(world.state, kept.topics) == simulate(world.state, made.topics)


def test_a_plan_of_a_cluster_behind_its_brokers_comes_back() -> None:
    """Its way, its mode and a release of Kafka 4 are kept."""
    brokers = state(mode=ClusterMode.KRAFT, bypasses_brokers=False, known_configs={}, min_version=(4, 4))
    made = plan(brokers, spec(config={}, on=replace(PROD_CLUSTER, version=(4, 4))))
    (found,) = parse_plan_file(written(made), "plan.json").plans
    assert (found.bypasses_brokers, found.config_rules.mode, found.min_version) == (False, ClusterMode.KRAFT, (4, 4))
    assert found.config_rules.version == (4, 4)


def test_several_clusters_come_back_in_their_order() -> None:
    """A document with several plans returns one plan for each cluster, in order."""
    plans = (replace(PLAN, cluster="a"), replace(PLAN, cluster="b", cluster_id="OTHER"))
    assert [found.cluster for found in parse_plan_file(written(*plans), "plan.json").plans] == ["a", "b"]


def test_a_plan_without_clusters_is_a_plan() -> None:
    """A document without clusters is a valid saved plan."""
    assert parse_plan_file(written(), "plan.json").plans == ()


UNPLANNED = {"": Reason.UNREACHABLE, "us": Reason.WRONG_CLUSTER, "ap": Reason.UNREACHABLE}


def test_clusters_that_could_not_be_planned_come_back() -> None:
    """A document names the clusters without a plan in order, with their reasons; without them it has no such field."""
    content = encode_plans([PLAN], UNPLANNED)
    assert content["unplanned"] == [
        {"cluster": "", "reason": "Unreachable"},
        {"cluster": "ap", "reason": "Unreachable"},
        {"cluster": "us", "reason": "WrongCluster"},
    ]
    found = parse_plan_file(dumps(content).encode(), "plan.json")
    (kept,) = found.plans
    assert (kept.cluster, found.unplanned, found.fingerprint) == (PLAN.cluster, UNPLANNED, content["fingerprint"])
    assert "unplanned" not in encode_plans([PLAN])


@pytest.mark.parametrize(
    ("unplanned", "words"),
    [
        ([], "unplanned"),
        ([{"cluster": "us"}], "unplanned[0] does not match"),
        ([{"cluster": "us", "reason": "Unreachable", "message": "at b1"}], "unplanned[0] does not match"),
        ([{"cluster": "us", "reason": "Tired"}], "which this release of topiarist does not know"),
        ([{"cluster": PLAN.cluster, "reason": "Unreachable"}], "which is also in unplanned"),
        ([{"cluster": name, "reason": "Unreachable"} for name in ("b", "a")], "in another form"),
        ([{"cluster": "a", "reason": "Unreachable"}] * 2, "in another form"),
    ],
)
def test_forged_unplanned_clusters_are_refused(unplanned: list[dict[str, str]], words: str) -> None:
    """An empty list, an unknown reason, a planned cluster, and another order are refused with what is wrong."""
    content = {"formatVersion": 1, "clusters": encode_plans([PLAN])["clusters"], "unplanned": unplanned}
    assert words in refusal(signed(content)).message


@pytest.mark.slow
def test_every_edit_of_one_byte_is_refused() -> None:
    """A change of any single byte is refused with an error."""
    raw, random = written(PLAN), Random(7)
    for at in range(len(raw)):
        for other in {raw[at] ^ 1, raw[at] ^ 0x20, random.randrange(256)} - {raw[at]}:
            refusal(raw[:at] + bytes((other,)) + raw[at + 1 :])


@pytest.mark.parametrize("at", [0, 40, -1])
def test_every_cut_and_addition_is_refused(at: int) -> None:
    """A removed byte and an added blank are refused too."""
    raw = written(PLAN)
    refusal(raw[:at])
    refusal(raw[:at] + b" " + raw[at:])


NOT_A_PLAN = {
    "nothing": (b"", "is not a saved plan: found invalid JSON at column 1 (Expecting value)"),
    "no text": (b"\xff\xfe", "found the byte 0xff at byte 1, not UTF-8"),
    "a list": (b"[]", "is not a saved plan: wanted an object with formatVersion, clusters, fingerprint"),
    "another object": (b'{"clusters": []}', "is not a saved plan"),
    "no number": (b'{"formatVersion": NaN}', 'found the number "NaN"'),
    "a huge number": (b'{"formatVersion": ' + b"9" * 5000 + b"}", "wanted at most 64 bits"),
    "no format": (b'{"formatVersion": "1", "clusters": [], "fingerprint": ""}', 'found formatVersion "1"'),
    "an old format": (b'{"formatVersion": 0, "clusters": [], "fingerprint": ""}', 'found formatVersion "0"'),
    "no clusters": (signed({"formatVersion": 1, "clusters": 5}), "clusters does not match schemas/plan.json"),
}


@pytest.mark.parametrize(("raw", "words"), NOT_A_PLAN.values(), ids=NOT_A_PLAN.keys())
def test_what_is_no_plan(raw: bytes, words: str) -> None:
    """Each file that is not a plan is refused with the name of the file, the problem and a hint."""
    error = refusal(raw)
    assert error.reason is Reason.NOT_A_PLAN
    assert str(error).startswith("plan.json: ")
    assert words in str(error)
    assert "make a new plan" in error.hint


OTHER_PLANS = {
    "edited": (
        written(PLAN).replace(b'"retention.ms": "9"', b'"retention.ms": "1"'),
        Reason.PLAN_EDITED,
        "its fingerprint does not match its content",
    ),
    "laid out anew": (
        json.dumps(json.loads(written(PLAN))).encode(),
        Reason.PLAN_EDITED,
        "writes this content in another form",
    ),
    "newer": (
        b'{"formatVersion": 2, "clusters": {}, "fingerprint": {}}',
        Reason.PLAN_TOO_NEW,
        "has format version 2, and this release of topiarist reads up to 1",
    ),
}


@pytest.mark.parametrize(("raw", "reason", "words"), OTHER_PLANS.values(), ids=OTHER_PLANS)
def test_plans_that_this_release_did_not_write(raw: bytes, reason: Reason, words: str) -> None:
    """An edited plan, the same content in another layout, and a newer format each have their reason.

    A newer format is reported first, because content and fingerprint may have another meaning.
    """
    error = refusal(raw)
    assert error.reason is reason
    assert words in str(error)


Edit = Callable[[Any], Any]


def find(content: dict[str, Any], path: str) -> Any:
    """Return the value at a path that begins with the name of a topic, or is empty for that of the cluster."""
    cluster = content["clusters"][0]
    name, *steps = path.split("/")
    found = next((each for each in cluster["topics"] if each["topic"] == name), cluster)
    for step in steps:
        found = found[int(step) if isinstance(found, list) else step]
    return found


def on(path: str, act: Edit) -> Edit:
    """Return the edit of the value at a path."""
    return lambda content: act(find(content, path))


def put(path: str, **fields: Any) -> Edit:
    """Return the edit of fields of the object at a path."""
    return on(path, lambda found: found.update(fields))


def _collide(content: dict[str, Any]) -> None:
    find(content, "orders")["topic"] = "o.k"
    find(content, "ours")["topic"] = "o_k"


def _held(content: dict[str, Any]) -> None:
    """Add a refusal with a withheld growth by no partitions."""
    change = deepcopy(find(content, "clicks/changes/0"))
    change["after"]["newReplicas"] = []
    refusal = {"reason": "Frozen", "message": "", "field": [], "hint": "", "withheld": [change]}
    find(content, "clicks/refusals").append(refusal)


def _kafka_topic(content: dict[str, Any]) -> None:
    """Keep the raised topic alone, as one of Kafka's own."""
    raised = find(content, "raised")
    raised["topic"] = "__consumer_offsets"
    content["clusters"][0]["topics"] = [raised]


ANOTHER_FORM = "writes this content in another form"
NO_VALID_RECORD = "a valid ownership record of the plan's owner"
OTHER_RECORD = "does not match the changes and the owner"
OTHER_KEYS = "keys that are not sorted or not set"
FORGED: dict[str, tuple[Edit, str]] = {
    "a path for a name": (put("clicks", topic="../../x"), 'found "/" in topic name'),
    "a dot": (put("clicks", topic=".."), "which Kafka reserves"),
    "a long name": (put("clicks", topic="a" * 250), "250 characters"),
    "the topic of the records": (put("clicks", topic="__topiarist"), "internal to Kafka or to topiarist"),
    "an internal topic": (put("clicks", topic="__consumer_offsets"), "internal to Kafka"),
    "a topic twice": (on("/topics", lambda topics: topics.insert(0, topics[0])), "topics that are duplicate"),
    "names that collide": (_collide, "which Kafka does not allow"),
    "a cluster twice": (lambda content: content["clusters"].append(find(content, "")), "clusters that are duplicate"),
    "two plans for one cluster": (
        lambda content: content["clusters"].append({**find(content, ""), "name": "z"}),
        "two plans for one cluster id",
    ),
    "a cluster's name of two lines": (
        put("", name="prod\nApplied: 9 done."),
        "clusters[0].name does not match schemas/plan.json",
    ),
    "a broker twice": (on("/brokers", lambda brokers: brokers.append(brokers[0])), "brokers that are duplicate"),
    "a negative id": (
        put("orders/changes/0/after", replicas=[[-2, 2]]),
        "topics[2].changes[0] does not match schemas/plan.json",
    ),
    "brokers that the cluster is to choose in part": (
        put("orders/changes/0/after", replicas=[[-1, 2]]),
        "found replica lists that name brokers in part",
    ),
    "an id beyond an int": (put("orders/changes/0/after", replicas=[[1 << 31]]), "wanted at most 2147483647"),
    "a replica twice": (put("orders/changes/0/after", replicas=[[1, 1]]), "found broker 1 twice"),
    "lists of different width": (
        put("orders/changes/0/after", replicas=[[1], [1, 2]]),
        "different numbers of replicas",
    ),
    "no partitions": (put("orders/changes/0/after", replicas=[]), "no partitions"),
    "an empty list": (put("orders/changes/0/after", replicas=[[]]), "empty replica list"),
    "a control character": (put("orders/changes/0/after", config={"retention.ms": "\x1b"}), "control character"),
    "a control character in a key": (put("orders/changes/0/after", config={"a\nb": "1"}), "control character"),
    "a control character in a key that changes": (
        put("clicks/changes/1/config/0", key="\x1b"),
        'config "\\x1b": found a control character',
    ),
    "a risky creation": (put("orders/changes/0", risk="DataLoss"), "found the risk DataLoss"),
    "no new partitions": (put("clicks/changes/0/after", newReplicas=[]), "no partitions"),
    "partitions of another width": (put("clicks/changes/0/after", newReplicas=[[1]] * 2), "another number of replicas"),
    "a wrong total": (put("clicks/changes/0/after", partitions=9), ANOTHER_FORM),
    "held growth by nothing": (_held, 'topic "clicks": found no partitions'),
    "a risky adoption": (put("ours/changes/0", risk="DataLoss"), "found the risk DataLoss"),
    "a safe change with a reason": (
        put("clicks/changes/1/config/1", risk="Safe", explanation="all is well"),
        "found the risk Safe",
    ),
    "safe growth": (put("clicks/changes/0", risk="Safe", explanation=""), "found the risk Safe"),
    "safe growth with keys": (
        put("clicks/changes/0", risk="Safe", explanation=UNKEYED_GROWTH.explanation),
        "found the risk Safe",
    ),
    "a key that does not change": (
        put("clicks/changes/1/config/0", before="compact"),
        "found equal values before and after",
    ),
    "keys that are not in order": (
        on("clicks/changes/1/config", list.reverse),
        "config keys that are duplicate or not sorted",
    ),
    "no keys": (put("clicks/changes/1", config=[]), "topics[0].changes[1] does not match schemas/plan.json"),
    "a safe deletion": (put("gone/changes/0", risk="Safe", explanation=""), "a deletion with another risk"),
    "a deletion of what is not ours": (put("gone/record/before", owner="team"), NO_VALID_RECORD),
    "a deletion without a record that counts": (put("gone/record", beforeValid=False), NO_VALID_RECORD),
    "a deletion of what was deleted": (put("gone/record/before", absent=True), NO_VALID_RECORD),
    "a record that counts and is absent": (
        put("clicks/record", before=None),
        "a valid ownership record before the changes that is absent",
    ),
    "another owner's record": (put("orders/record/after", owner="team"), OTHER_RECORD),
    "no record": (put("orders/record", after=None), OTHER_RECORD),
    "a tombstone for a living topic": (put("orders/record/after", absent=True), OTHER_RECORD),
    "a record of keys nobody set": (put("orders/record/after", config=["a"]), OTHER_KEYS),
    "a record of keys that are not in order": (on("clicks/record/after/config", list.reverse), OTHER_KEYS),
    "a record of a key that nobody saw": (
        put("clicks", retainedConfig={}),
        'a value of "retention.ms" that does not match the changes',
    ),
    "a record that remembers another value than is set": (
        put("clicks/record/after/applied/config", **{"retention.ms": "8"}),
        'a value of "retention.ms" that does not match the changes',
    ),
    "a record that remembers a key that it does not list": (
        put("clicks/record/after/applied/config", **{"flush.ms": "7"}),
        'a value of "flush.ms" that does not match the changes',
    ),
    "a record that remembers a key that is set and that it does not list": (
        put("clicks/record/after", config=["retention.ms", "segment.ms"]),
        'a value of "cleanup.policy" that does not match the changes',
    ),
    "a record of a key that is removed": (put("clicks/changes/1/config/1", after=None), OTHER_KEYS),
    "a creation of what exists": (put("orders", identity="7"), "found the creation of a topic that exists"),
    "a change to what does not": (put("ours", identity=None), "or a change of a topic that does not exist"),
    "creation and adoption": (
        lambda content: find(content, "orders/changes").append(find(content, "ours/changes/0")),
        "found changes that exclude each other: CreateTopic, TakeOwnership",
    ),
    "an unknown kind": (put("ours/changes/0", kind="Explode"), "topics[3].changes[0] does not match schemas/plan.json"),
    "an unknown reason": (put("", writeBlock={"reason": "Tired", "message": ""}), 'found the reason "Tired"'),
    "an unknown release": (put("/configRules", kafkaVersion="2.0"), "found Kafka release 2.0"),
    "no records, and one": (put("", keepsRecords=False), "found an ownership record in a plan without records"),
    "records that are kept": (put("", keepsRecords=True), "does not match schemas/plan.json"),
    "a setting that no rule reads": (put("/configRules", brokerConfig={"ssl.key.password": "x"}), ANOTHER_FORM),
    "another risk of the topic": (put("orders", risk="Disruptive"), ANOTHER_FORM),
}

# Moves that no planner makes (M24).

ON = replace(
    PROD_CLUSTER,
    moves=MoveSettings(frozenset({MoveKind.DRAIN, MoveKind.FACTOR, MoveKind.ASSIGNMENT}), UNLIMITED),
    drain_brokers=frozenset({4}),
)
SEEN_MOVES = state(
    topic("drained", replica_lists("41", "24")),
    topic("listed", replica_lists("12")),
    topic("raised", replica_lists("12", "23")),
    brokers=RACKLESS_BROKERS,
)


def make_plan(on: ClusterSpec = ON) -> Plan:
    """Return a plan with a drain, an explicit list and a raised factor."""
    return plan(
        SEEN_MOVES,
        spec("drained", on, partitions=2, replicationFactor=2),
        spec("listed", on, replicaAssignment=[[3, 1]]),
        spec("raised", on, partitions=2, replicationFactor=3, config={"retention.ms": 5}),
    )


MOVES_PLAN = make_plan()
DRAINED, RAISED = "drained/changes/0/moves/0", "raised/changes/0/moves/0"
NO_PLAN = "is not a saved plan"
OTHER_LEADER = "another preferred leader"
FORGED_MOVES: dict[str, tuple[Edit, str]] = {
    "a list with a broker twice": (put(DRAINED, after=[1, 1]), NO_PLAN),
    "no broker": (put(DRAINED, after=[]), NO_PLAN),
    "no broker before": (put(DRAINED, before=[]), NO_PLAN),
    "a negative broker": (put(DRAINED, after=[-1, 1]), NO_PLAN),
    "a negative partition": (put(DRAINED, partition=-1), NO_PLAN),
    "equal lists": (put(DRAINED, after=[4, 1]), "equal replica lists"),
    "a partition twice": (
        on("drained/changes/0/moves", lambda moves: moves.append(moves[-1])),
        "duplicate or not sorted",
    ),
    "no moves": (put("drained/changes/0", moves=[]), NO_PLAN),
    "no reason": (put(DRAINED, reasons=[]), NO_PLAN),
    "a move for an unknown reason": (put(DRAINED, reasons=["Whim"]), NO_PLAN),
    "reasons out of order": (put(DRAINED, reasons=["Racks", "Drain"]), "not in order"),
    "moves of a smaller risk": (put("drained/changes/0", risk="Safe", explanation=""), "another risk"),
    "two moves": (on("drained/changes", lambda changes: changes.append(changes[0])), "exclude each other"),
    "drained to fewer replicas": (put(DRAINED, after=[1]), "without the reason Factor"),
    "racks with a replica more": (put(DRAINED, after=[4, 1, 2], reasons=["Racks"]), "without the reason Factor"),
    "spread to fewer replicas": (put(DRAINED, after=[1], reasons=["Spread"]), "without the reason Factor"),
    "drained to another order": (put(DRAINED, after=[1, 4]), "another order of the same brokers"),
    "racks with another leader": (put(DRAINED, after=[2, 1], reasons=["Racks"]), OTHER_LEADER),
    "raised with another leader": (put(RAISED, after=[2, 1, 3]), OTHER_LEADER),
    "lowered to the second replica": (put(RAISED, after=[2]), OTHER_LEADER),
    "a Kafka topic with another factor": (_kafka_topic, "internal to Kafka"),
}

# Elections that are impossible.

PARTITIONS = (LeaderChange(0, 2, 1), LeaderChange(2, 4, 3))
ELECTION = ElectLeaders(PARTITIONS, assess_elections(PARTITIONS))


def with_election(found: Plan) -> Plan:
    """Return the plan of one topic with an election as its last change."""
    (planned,) = found.topics
    return replace(found, topics=(replace(planned, changes=(*planned.changes, ELECTION)),))


ELECTION_PLAN = with_election(plan(state(topic()), spec(partitions=4, config={"retention.ms": 7})))


def elect(*leaders: tuple[int, int, int]) -> Edit:
    """Return the edit that elects leaders, each by its partition, the leader before and that after."""
    partitions = [{"partition": at, "before": before, "after": after} for at, before, after in leaders]
    return put("orders/changes/2", partitions=partitions)


OTHER_RISK = "found an election with another risk or explanation"
FORGED_ELECTIONS: dict[str, tuple[Edit, str]] = {
    "no elected partitions": (elect(), NO_PLAN),
    "an elected partition twice": (elect((0, 2, 1), (0, 2, 1)), "partitions that are duplicate or not sorted"),
    "not sorted": (elect((2, 2, 1), (0, 2, 1)), "partitions that are duplicate or not sorted"),
    "equal leaders": (elect((0, 1, 1), (2, 1, 1)), "partition 0: found equal leaders before and after"),
    "a negative leader": (elect((0, -1, 1)), NO_PLAN),
    "an election of a smaller risk": (put("orders/changes/2", risk="Safe"), OTHER_RISK),
    "fewer than it says": (put("orders/changes/2", explanation="leaders of 1 partition change"), OTHER_RISK),
    "before the other changes": (
        on("orders/changes", lambda changes: changes.insert(0, changes.pop())),
        "found changes that exclude each other: ElectLeaders, AddPartitions",
    ),
}
FORGERIES = {
    name: (made, *found)
    for made, forged in ((PLAN, FORGED), (MOVES_PLAN, FORGED_MOVES), (ELECTION_PLAN, FORGED_ELECTIONS))
    for name, found in forged.items()
}


@pytest.mark.parametrize(("made", "forge", "words"), FORGERIES.values(), ids=FORGERIES)
def test_what_topiarist_never_plans_is_refused(made: Plan, forge: Edit, words: str) -> None:
    """Names, lists, risks, records and combinations are checked, although the fingerprint is correct."""
    content = json.loads(written(made))
    forge(content)
    error = refusal(signed(content))
    assert error.reason is (Reason.PLAN_EDITED if words == ANOTHER_FORM else Reason.NOT_A_PLAN)
    assert words in str(error)


@pytest.mark.parametrize("made", [PLAN, MOVES_PLAN, ELECTION_PLAN], ids=["changes", "moves", "an election"])
def test_the_forged_plans_were_good_before(made: Plan) -> None:
    """Each forgery alone is the cause of its refusal."""
    raw = written(made)
    assert signed(json.loads(raw)) == raw
    assert written(*parse_plan_file(raw, "plan.json").plans) == raw


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def _walk(value: Any) -> list[tuple[Any, Any]]:
    """Return every container in a document with each of its keys."""
    pairs = (
        list(value.items()) if isinstance(value, dict) else list(enumerate(value)) if isinstance(value, list) else []
    )
    return [place for key, inner in pairs for place in ((value, key), *_walk(inner))]


@many
@given(plan_inputs(), JSON, st.integers(0, 1 << 40))
def test_nothing_but_our_errors_leaves_the_reader(world: PlanInput, other: Any, seed: int) -> None:
    """A changed plan with a correct fingerprint gives a ``TopiaristError`` or is read back byte for byte."""
    content = json.loads(written(world.plan()))
    random, places = Random(seed), _walk(content["clusters"])
    for _ in range(random.randint(1, 3)):
        holder, key = random.choice(places)
        giver, from_key = random.choice(places)
        holder[key] = deepcopy(random.choice((other, giver[from_key])))
        places = _walk(content["clusters"]) or [(content, "clusters")]
    raw = signed(content)
    try:
        plans = parse_plan_file(raw, "plan.json").plans
    except TopiaristError:
        return
    assert written(*plans) == raw


@many
@given(st.binary(max_size=200))
def test_no_bytes_break_the_reader(raw: bytes) -> None:
    """Arbitrary bytes are refused with the reason ``NotAPlan``."""
    assert refusal(raw).reason is Reason.NOT_A_PLAN


def test_a_record_of_an_earlier_topic_comes_back() -> None:
    """A stale ownership record is stale in the plan that is read back."""
    seen = state(topic("orders", record=OwnershipRecord("default", ("a",)), record_valid=False))
    (kept,) = parse_plan_file(written(plan(seen, spec("orders"))), "plan.json").plans
    assert kept.topics[0].record_before == OwnershipRecord("default", ("a",))
    assert kept.topics[0].before is not None
    assert kept.topics[0].before.valid_record is None


def test_moves_come_back() -> None:
    """Every list and reason is read back, also those that a limit of the run withholds."""
    for made in (MOVES_PLAN, limit_moves(MOVES_PLAN, 2)):
        (kept,) = parse_plan_file(written(made), "plan.json").plans
        assert [each.moves() for each in kept.topics] == [each.moves() for each in made.topics]
        assert written(kept) == written(made)


def test_the_pace_is_no_part_of_a_saved_plan() -> None:
    """Another throttle, batch size, or brokers drained by another means give the same file: they change no list."""
    other = replace(ON, moves=replace(ON.moves, throttle=1024, stall_after=5))
    assert written(make_plan(other)) == written(MOVES_PLAN)


def test_an_election_comes_back() -> None:
    """The partitions with both leaders are in the document, and are read back."""
    assert find(encode_plans([ELECTION_PLAN]), "orders/changes/2") == {
        "kind": "ElectLeaders",
        "risk": "Disruptive",
        "explanation": "leaders of 2 partitions change",
        "partitions": [{"partition": 0, "before": 2, "after": 1}, {"partition": 2, "before": 4, "after": 3}],
    }
    (kept,) = parse_plan_file(written(ELECTION_PLAN), "plan.json").plans
    assert kept.topics[0].elections() == PARTITIONS


# Moved partitions read from a report.

HEADER = {"row": "header", "formatVersion": 1}
MOVE = {"partition": 3, "before": [1, 2], "after": [4, 2], "reasons": ["Drain"]}
PLACE = {"cluster": "prod", "clusterId": "ID", "topic": "orders", "topicId": "A"}
LINE = {"row": "move", **PLACE, **MOVE, "batch": 1}
MOVED = ReplicaMove("orders", 3, (1, 2), (4, 2), (MoveKind.DRAIN,))


def _parse(*lines: dict[str, Any] | str) -> ReportMoves:
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    return parse_report(text.encode(), "report.jsonl")


def _pending(*moves: dict[str, Any], result: str = "pending") -> dict[str, Any]:
    changes = [{"kind": "UpdateConfig"}, {"kind": "MoveReplicas", "moves": [*moves]}]
    return {"row": "topic", **PLACE, "result": result, "changes": changes}


def test_lines_of_partitions_are_moves() -> None:
    """Moves are found by cluster and topic, with the ids of both."""
    found = _parse(HEADER, LINE, {"row": "summary"}).clusters["prod"]
    assert found.cluster_id == "ID"
    assert found.topics["orders"].topic_id == "A"
    assert found.topics["orders"].moves == (MOVED,)


@pytest.mark.parametrize(("result", "count"), [("pending", 1), ("refused", 0), ("skipped", 0)])
def test_planned_moves_of_an_unfinished_topic_count(result: str, count: int) -> None:
    """A batch that was sent may be done now; a topic without a sent batch has nothing to move back."""
    clusters = _parse(HEADER, _pending(MOVE, result=result)).clusters
    assert len(clusters) == count


def test_a_recreated_topic_starts_anew() -> None:
    """Moves of an earlier topic of the same name do not count."""
    later = {**LINE, "topicId": "B", "before": [4, 2], "after": [5, 2]}
    found = _parse(HEADER, LINE, HEADER, later).clusters["prod"].topics["orders"]
    assert (found.topic_id, [move.before for move in found.moves]) == ("B", [(4, 2)])


def test_cut_lines_are_counted() -> None:
    """A line that is no JSON is named by its number, and all others count."""
    found = _parse(HEADER, json.dumps(LINE)[:30], LINE)
    assert (found.cut_lines, len(found.clusters)) == ((2,), 1)


@pytest.mark.parametrize(
    "spoiled",
    [
        {"partition": -1},
        {"partition": True},
        {"before": []},
        {"before": [1, 1]},
        {"after": [1, 2]},
        {"after": "4"},
        {"reasons": []},
        {"reasons": ["Because"]},
        {"topicId": 5},
        {"cluster": None},
    ],
    ids=str,
)
def test_a_line_that_topiarist_never_writes_is_an_error(spoiled: dict[str, Any]) -> None:
    """The error names the file and the line."""
    with pytest.raises(TopiaristError, match=r"report[.]jsonl, line 2: is no line of a report") as caught:
        _parse(HEADER, {**LINE, **spoiled})
    assert caught.value.reason is Reason.UNREADABLE


def test_one_name_is_one_cluster() -> None:
    """Two clusters of one name in a report cannot be distinguished."""
    with pytest.raises(TopiaristError, match="line 3"):
        _parse(HEADER, LINE, {**LINE, "clusterId": "another"})


def test_a_report_begins_with_a_header() -> None:
    """Lines of JSON without a header of the known version are no report."""
    with pytest.raises(TopiaristError, match="found no header"):
        _parse(LINE)
    with pytest.raises(TopiaristError, match="found no header"):
        _parse({**HEADER, "formatVersion": 2})
