"""The usage of topics on real brokers: every kind of reader, and what must not look like a topic without readers.

Members of groups are Kafka's own consumers. The clusters have one replica of the committed offsets, so that a broker
that is away takes its groups along.
"""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from brokers.shared_clusters import PASSWORD
from brokers.topiarist_runs import run_in_process
from support.builders import topic_spec
from support.cli.runs import document
from support.kafka.acls import Acl, create_acls
from support.kafka.clients import Clients
from support.kafka.kafka_fixture import KafkaFixture
from support.kafka.kraft import KraftCluster
from support.kafka.kraft_fixture import KraftFixture
from support.kafka.more_messages import load_request
from support.kafka.programs import Program
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.protocol.messages import FindCoordinatorRequest
from topiarist.adapters.kafka_admin.usage.reader import KafkaUsageReader
from topiarist.adapters.open_cluster import open_cluster, open_usage_reader
from topiarist.deletion_guard import DeletionGuard, filter_usage
from topiarist.errors import Exit, Location, Reason
from topiarist.model.access import KafkaAccess, SaslMechanism, SaslPassword, SecretReference
from topiarist.model.outcome import Result
from topiarist.model.plan import RunOptions
from topiarist.model.spec import ClusterSpec
from topiarist.model.usage import GroupType, UsageRead
from topiarist.planning.planner import make_plan
from topiarist.ports import WriteControl
from topiarist.reconcile import apply_plan


class World:
    """A cluster with its clients, and a folder with manifests of it."""

    def __init__(self, kafka: KraftCluster, clients: Clients, folder: Path) -> None:
        self.kafka, self.clients, self.folder = kafka, clients, folder
        self.spec = ClusterSpec("prod", kafka=KafkaAccess(kafka.bootstrap))
        self.manifests = folder / "all.yaml"

    def read(self, *topics: str) -> UsageRead:
        """Return the usage of topics."""
        with KafkaUsageReader(KafkaAccess(self.kafka.bootstrap)) as reader:
            found = reader.read(topics)
            names = {name for name, _ in reader.requests}
        assert not names & {"FindCoordinator", "Fetch", "JoinGroup", "CreateTopics"}
        return found

    def create(self, topics: Mapping[str, Sequence[Sequence[int]]]) -> None:
        """Create topics, and wait until the broker that the reader asks has learned of them."""
        assert self.clients.create(topics) == {}
        self.wait_for(lambda found: topics.keys() <= found.topics.keys(), *topics)

    def wait_for(self, condition: Callable[[UsageRead], bool], *topics: str) -> UsageRead:
        """Return the usage of topics once a condition holds: a group needs some seconds to assign."""
        found: list[UsageRead] = []

        def look() -> bool:
            found[:] = [self.read(*topics)]
            return condition(found[0])

        self.kafka.wait(look, f"usage of {topics}")
        return found[0]

    def declare(self, *topics: str, **cluster: Any) -> None:
        """Write manifests of the cluster and of topics that are to be deleted."""
        documents = [document("Cluster", "prod", kafka={"bootstrapServers": self.kafka.bootstrap}, **cluster)]
        documents += [document("Topic", name, ensure="Absent") for name in topics]
        self.manifests.write_text("\n---\n".join(documents))

    def run(self, command: str, *words: str, code: int = Exit.DONE) -> str:
        """Run a command over the manifests, and return what it printed."""
        said = run_in_process(command, str(self.manifests), *words)
        assert said.code == code, said
        return said.out + said.err


@pytest.fixture(scope="session")
def newest_clients() -> Iterator[Program]:
    """Start the clients of Kafka 4.4, which know all kinds of groups."""
    with Program("Clients", "4.4.0") as program:
        yield program


@pytest.fixture
def world(kraft: KraftFixture, newest_clients: Program) -> World:
    """Return the shared cluster with the newest clients."""
    return World(kraft.kafka, Clients(newest_clients, kraft.kafka.bootstrap), kraft.folder)


def members_of(read: UsageRead, topic: str) -> dict[str, tuple[GroupType, int]]:
    """Return type and members of the groups of a topic."""
    return {group.group: (group.type, group.members) for group in read.topics[topic].groups}


def test_a_cluster_without_groups_stays_without_their_topic(kraft: KraftFixture) -> None:
    """Reading creates no topic of committed offsets, and without groups the list is complete."""
    assert kraft.clients.create({"t": ((1,),)}) == {}
    kraft.wait_for_topic("t")
    with KafkaUsageReader(KafkaAccess(kraft.kafka.bootstrap)) as reader:
        for _ in range(2):
            found = reader.read()
            assert found.evidence.knows_readers
            assert found.evidence.retention_minutes == 10_080
            assert set(found.topics) == {"t"}
    assert kraft.clients.describe(["__consumer_offsets"]) == {"__consumer_offsets": None}


def test_members_of_every_kind_are_readers(world: World) -> None:
    """Classic, consumer and share groups, and one that subscribes to a pattern, are found with their members."""
    names = ("u-classic", "u-next", "u-share", "u-pattern", "u-idle")
    world.create(dict.fromkeys(names, ((1,), (2,))))
    with (
        world.clients.member("g-classic", ["u-classic"]),
        world.clients.member("g-next", ["u-next"], protocol="consumer"),
        world.clients.member("g-share", ["u-share"], protocol="share"),
        world.clients.member("g-pattern", pattern="u-pat.*", protocol="consumer"),
    ):
        read = world.wait_for(lambda found: bool(found.topics["u-pattern"].member_count), *names)
        assert members_of(read, "u-classic") == {"g-classic": (GroupType.CLASSIC, 1)}
        assert members_of(read, "u-next") == {"g-next": (GroupType.CONSUMER, 1)}
        assert members_of(read, "u-share") == {"g-share": (GroupType.SHARE, 1)}
        assert members_of(read, "u-pattern") == {"g-pattern": (GroupType.CONSUMER, 1)}
        assert members_of(read, "u-idle") == {}
        assert read.evidence.knows_readers


def test_a_snapshot_knows_what_was_written_and_read_since_the_last_one(world: World) -> None:
    """The second snapshot folds the first: a write and a commit are used, a quiet topic is not seen, ids are kept."""
    names = ("s-written", "s-read", "s-quiet")
    world.create(dict.fromkeys(names, ((1,),)))
    world.clients.produce(dict.fromkeys(names, 1), "x" * 500)
    world.clients.consume_as_group("batch", ["s-read"])
    world.declare()
    out = ["--out", str(world.folder / "snapshots"), "--evidence"]
    world.run("snapshot", *out)
    time.sleep(1.1)  # a snapshot has times in whole seconds
    world.clients.produce({"s-written": 1, "s-read": 1}, "y")
    world.clients.consume_as_group("batch", ["s-read"])
    said = world.run("snapshot", *out)
    assert "in use" in said
    rows = [json.loads(line) for line in (world.folder / "snapshots" / "prod.jsonl").read_text().splitlines()]
    assert rows[0]["formatVersion"] == 2
    assert rows[0]["evidence"]["groupsComplete"] is True
    usage = {row["topic"]: row for row in rows if row["kind"] == "usage"}
    assert usage["s-written"]["written"]["state"] == "Used"
    assert (usage["s-read"]["read"]["state"], usage["s-read"]["read"]["why"]) == ("Used", ["Committed"])
    assert usage["s-quiet"]["written"]["state"] == usage["s-quiet"]["read"]["state"] == "NotSeen"
    assert usage["s-quiet"]["ends"] == [1]
    assert usage["s-quiet"]["bytes"][0] > 500
    assert [group["id"] for group in usage["s-read"]["groups"]] == ["batch"]
    text = (world.folder / "snapshots" / "prod.jsonl").read_text()
    assert "127.0.0.1" not in text
    assert "consumer-batch" not in text  # the default client id


def test_a_snapshot_that_is_not_older_is_refused(world: World) -> None:
    """A fold over two reads of one second, or backwards, would prove a rest that no time has passed for."""
    world.declare()
    out = ["--out", str(world.folder / "snapshots"), "--evidence"]
    world.run("snapshot", *out)
    path = world.folder / "snapshots" / "prod.jsonl"
    head, *rest = path.read_text().splitlines()
    row = json.loads(head)
    row["evidence"]["readAt"] = "2999-01-01T00:00:00Z"
    path.write_text("\n".join([json.dumps(row), *rest]) + "\n")
    assert "is not older than this read" in world.run("snapshot", *out, code=Exit.ERROR)
    world.run("snapshot", *out, "--previous", "none")


def test_the_deletion_of_a_topic_in_use_is_refused_by_plan_and_apply(world: World) -> None:
    """A member refuses the deletion; the exact name of the topic allows it, and no pattern does."""
    world.create({"d-used": ((1,),), "d-free": ((2,),)})
    world.declare("d-used", "d-free")
    take = ["--adopt", "d-*", "--take-ownership", "d-*"]
    adopt = [document("Topic", name, partitions=1, replicationFactor=1) for name in ("d-used", "d-free")]
    (world.folder / "adopt.yaml").write_text("\n---\n".join([world.manifests.read_text().split("\n---\n")[0], *adopt]))
    assert run_in_process("apply", str(world.folder / "adopt.yaml"), "--yes", *take).code == Exit.DONE
    with world.clients.member("payments", ["d-used"]):
        world.wait_for(lambda found: bool(found.topics["d-used"].member_count), "d-used")
        said = world.run("plan")
        assert "TopicInUse" in said
        assert "payments (1 member)" in " ".join(said.split())
        approve = ["--yes", "--allow-risk", "DataLoss"]
        world.run("apply", *approve, code=Exit.REFUSED)
        found = world.clients.describe(["d-used", "d-free"])
        assert found["d-used"] is not None
        assert found["d-free"] is None
        assert "wanted the exact name" in world.run("apply", *approve, "--allow-in-use", "d-*", code=Exit.USAGE)
        world.run("apply", *approve, "--allow-in-use", "d-used")
        world.kafka.wait(lambda: world.clients.describe(["d-used"])["d-used"] is None, "deletion")


def test_a_consumer_that_joins_after_the_plan_stops_the_deletion(world: World) -> None:
    """The topic is looked at again directly before its deletion, and a record that was written stops it too."""
    for name in ("j-member", "j-written"):
        world.create({name: ((1,),)})
    with open_cluster(world.spec, owner="default") as port:
        state = port.read()
        specs = [topic_spec(name, partitions=1, replicationFactor=1) for name in ("j-member", "j-written")]
        options = RunOptions(adopt=("*",))
        adopted = apply_plan(port, make_plan(state, world.spec, specs, options), stop=lambda: False)
        assert {outcome.result for outcome in adopted.outcomes} == {Result.DONE}
        absent = [topic_spec(name, ensure="Absent") for name in ("j-member", "j-written")]
        state = port.read()
        guard = DeletionGuard(world.spec, lambda: open_usage_reader(world.spec))
        plan = filter_usage(guard.add_usage(make_plan(state, world.spec, absent, options), state), world.spec.evidence)
        assert not plan.has_refusals
        with world.clients.member("late", ["j-member"]):
            world.clients.produce({"j-written": 1}, "late")
            world.wait_for(lambda found: bool(found.topics["j-member"].member_count), "j-member")
            time.sleep(5.1)  # a look is used for five seconds
            report = apply_plan(port, plan, stop=lambda: False, control=WriteControl(None, guard.check))
        found = {outcome.topic: outcome for outcome in report.outcomes}
        assert {each.reason for each in found.values()} == {Reason.TOPIC_IN_USE}
        assert "late (1 member)" in found["j-member"].message
        assert "written between" in found["j-written"].message
        assert set(port.read().topics) >= {"j-member", "j-written"}


@pytest.mark.night(area="rights")
def test_missing_rights_do_not_look_like_a_topic_without_readers(
    world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A principal without Describe on the cluster gets an empty list without an error: nothing is known then."""
    password = tmp_path_factory.mktemp("usage") / "password"
    password.write_text(PASSWORD)
    kafka, clients = world.kafka, world.clients
    assert clients.create({"t": ((1,),)}) == {}

    def grant(acl: Acl) -> None:
        create_acls(kafka.bootstrap, [acl])

    login = SaslPassword(SaslMechanism("PLAIN"), "narrow", SecretReference(str(password), "", Location("c", 1, 1)))
    grant(Acl("narrow", ("Describe",), "Topic", "t"))
    with (
        clients.member("hidden", ["t"]),
        KafkaUsageReader(KafkaAccess(kafka.bootstrap_of("LOGIN"), login)) as reader,
    ):
        found = reader.read()
        assert (found.evidence.groups, found.evidence.groups_complete) == (0, False)
        assert found.topics["t"].sizes == (None,)
        assert found.topics["t"].ends == (0,)
        grant(Acl("narrow", ("Describe",), "Cluster"))
        kafka.wait(lambda: reader.read().evidence.groups == 1, "the right")
        found = reader.read()
        # Describe on the cluster lists the group, and Describe on the group is needed to see its members.
        assert (found.evidence.groups_complete, found.evidence.groups_unread) == (True, 1)
        assert not found.evidence.knows_readers
        grant(Acl("narrow", ("Describe",), "Group"))
        kafka.wait(lambda: bool(reader.read().topics["t"].member_count), "the members")
        # A consumer group (KIP-848) is described only to those that may see all of its topics.
        assert clients.create({"u": ((1,),)}) == {}
        with clients.member("both", ["t", "u"], protocol="consumer"):
            kafka.wait(lambda: reader.read().evidence.groups == 2, "the other group")
            assert reader.read().evidence.groups_unread == 1
            grant(Acl("narrow", ("Describe",), "Topic"))
            kafka.wait(lambda: reader.read().evidence.knows_readers, "the right")
            kafka.wait(lambda: "u" in reader.read().topics, "the topic")


@pytest.mark.night(area="crash")
def test_a_broker_that_is_away_takes_its_groups_along(world: World) -> None:
    """Every broker that is left answers without an error; the list is known to be incomplete all the same."""
    kafka, clients = world.kafka, world.clients
    assert clients.create({"t": ((1, 2),)}) == {}
    clients.produce({"t": 1}, "x")
    for number in range(8):
        clients.consume_as_group(f"group-{number}", ["t"])
    with KafkaUsageReader(KafkaAccess(kafka.bootstrap)) as reader:
        assert (reader.read().evidence.groups, reader.read().evidence.groups_complete) == (8, True)
        kafka.kill(2)
        kafka.wait(lambda: reader.read().evidence.brokers_asked == 2, "the broker to leave")
        evidence = reader.read().evidence
        assert evidence.groups < 8
        assert not evidence.groups_complete
        assert reader.read().topics["t"].all_bytes is None


def test_a_cluster_in_zookeeper_mode_is_read_beside_it(
    release: str, bare: KafkaFixture, newest_clients: Program
) -> None:
    """Old brokers too: topics through ZooKeeper, usage from the brokers; no newest time is asked of Kafka 2.4."""
    bed = bare
    clients = Clients(newest_clients, bed.kafka.bootstrap)
    assert clients.create({"t": ((1,), (2,)), "idle": ((2,),)}) == {}
    clients.produce({"t": 2}, "x" * 300)
    clients.consume_as_group("batch", ["t"])
    bed.declare({}, kafka={"bootstrapServers": bed.kafka.bootstrap}, via="ZooKeeper")
    out = bed.folder / "snapshots"
    with clients.member("app", ["t"]):
        said = bed.run("snapshot", "--evidence", "--out", str(out))
        assert said.code == Exit.DONE, said
    (path,) = out.glob("*.jsonl")
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    usage = {row["topic"]: row for row in rows if row["kind"] == "usage"}
    assert rows[0]["evidence"]["groupsComplete"] is True
    assert {(group["id"], group["members"]) for group in usage["t"]["groups"]} == {("app", 1), ("batch", 0)}
    assert usage["t"]["ends"] == [1, 1]
    assert (usage["t"]["newestAt"] == [None, None]) is (release == "2.4.1")
    assert None not in usage["t"]["oldestAt"]
    assert usage["idle"]["read"]["state"] == "NotSeen"


@contextmanager
def raw_member(world: World, group: str, protocol_type: str, metadata: bytes) -> Iterator[None]:
    """Be a member of a classic group with any bytes as its subscription, as other clients may be."""
    session = Session(KafkaAccess(world.kafka.bootstrap), 10.0)
    session.read_metadata([])
    join, sync, leave = map(load_request, ("JoinGroup", "SyncGroup", "LeaveGroup"))
    protocol = join.JoinGroupRequestProtocol(name="any", metadata=metadata)
    member = ""
    for _ in range(100):  # a coordinator may still load, and its first answer has the id to join with
        find = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        (found,) = session.any_broker().call(find, version=4).coordinators
        if found.error_code:
            time.sleep(0.2)
            continue
        connection = session.broker(found.node_id)
        joined = connection.call(
            join(
                group_id=group,
                session_timeout_ms=60_000,
                rebalance_timeout_ms=60_000,
                member_id=member,
                group_instance_id=None,
                protocol_type=protocol_type,
                protocols=[protocol],
            ),
            version=5,
        )
        member = joined.member_id
        if not joined.error_code:
            break
        time.sleep(0.2)
    assignment = sync.SyncGroupRequestAssignment(member_id=member, assignment=b"")
    synced = connection.call(
        sync(
            group_id=group,
            generation_id=joined.generation_id,
            member_id=member,
            group_instance_id=None,
            assignments=[assignment],
        ),
        version=3,
    )
    assert (joined.error_code, synced.error_code) == (0, 0)
    try:
        yield
    finally:
        connection.call(leave(group_id=group, member_id=member), version=2)
        session.close()


def test_members_that_do_not_say_what_they_read_leave_it_open(world: World) -> None:
    """Workers of Kafka Connect read nothing as this group. Other unreadable subscriptions make readers unknown."""
    world.create({"o-topic": ((1,),)})
    with raw_member(world, "connect-cluster", "connect", b"\0\1opaque"):
        assert world.read("o-topic").evidence.knows_readers
    with raw_member(world, "odd", "consumer", b"\0\1opaque"):
        evidence = world.read("o-topic").evidence
        assert (evidence.groups_opaque, evidence.knows_readers) == (1, False)
    with raw_member(world, "other", "vendor", b"\0\1opaque"):
        assert world.read("o-topic").evidence.groups_opaque == 1


def test_any_id_of_a_group_is_kept_and_shown_without_harm(world: World) -> None:
    """An id may have control characters, Markdown and 10,000 characters: a snapshot keeps it, a plan cuts it."""
    world.create({"i-topic": ((1,),)})
    evil = "\x1b[2J`</details>@all " + "x" * 10_000
    world.declare("i-topic")
    subscription = struct.pack(">hih", 0, 1, 7) + b"i-topic" + struct.pack(">i", -1)
    with raw_member(world, evil, "consumer", subscription):
        world.run("snapshot", "--evidence", "--out", str(world.folder))
        rows = [json.loads(line) for line in (world.folder / "prod.jsonl").read_text().splitlines()]
        (row,) = [row for row in rows if row["kind"] == "usage" and row["topic"] == "i-topic"]
        assert [(group["id"], group["members"]) for group in row["groups"]] == [(evil, 1)]
        assert "topiarist" not in json.dumps(row)  # the client id of this member
        world.declare("i-topic", evidence={"groups": "Counted"})
        world.run("snapshot", "--evidence", "--out", str(world.folder), "--previous", "none")
        assert "xxxx" not in (world.folder / "prod.jsonl").read_text()


def test_a_topic_between_two_snapshots_may_be_another_or_grow(world: World) -> None:
    """A recreated topic begins anew, added partitions are no write, and a look without usage ends the history."""
    names = ("b-again", "b-grown")
    world.create(dict.fromkeys(names, ((1,),)))
    world.clients.produce(dict.fromkeys(names, 1), "x")
    world.declare()
    out = ["--out", str(world.folder / "snapshots")]
    world.run("snapshot", *out, "--evidence")
    world.clients.delete(["b-again"])
    world.kafka.wait(lambda: world.clients.describe(["b-again"])["b-again"] is None, "deletion")
    world.create({"b-again": ((2,),)})
    world.clients.produce({"b-again": 1}, "x")
    world.clients.grow({"b-grown": 3})
    world.kafka.wait(lambda: None not in world.read("b-grown").topics["b-grown"].ends, "partitions")
    time.sleep(1.1)
    world.run("snapshot", *out, "--evidence")
    usage = usage_rows(world.folder / "snapshots" / "prod.jsonl")
    assert (usage["b-again"]["written"]["state"], usage["b-again"]["ends"]) == ("Unknown", [1])
    assert "Recreated" in usage["b-again"]["written"]["why"]
    assert (usage["b-grown"]["written"]["state"], usage["b-grown"]["ends"]) == ("NotSeen", [1, 0, 0])
    world.run("snapshot", *out)
    assert usage_rows(world.folder / "snapshots" / "prod.jsonl") == {}
    time.sleep(1.1)
    world.run("snapshot", *out, "--evidence")
    assert usage_rows(world.folder / "snapshots" / "prod.jsonl")["b-grown"]["written"]["state"] == "Unknown"


def test_a_look_that_takes_too_long_is_incomplete_and_no_error(world: World) -> None:
    """After the time limit nothing more is asked, and what is missing is not known."""
    world.create({"l-topic": ((1,),)})
    with KafkaUsageReader(KafkaAccess(world.kafka.bootstrap), time_limit=0.0) as reader:
        found = reader.read(["l-topic"])
    assert (found.evidence.brokers_answered, found.evidence.groups_complete) == (0, False)
    assert {problem.error for problem in found.evidence.problems} == {7}
    assert (found.topics["l-topic"].ends, found.topics["l-topic"].sizes) == ((None,), (None,))


def usage_rows(path: Path) -> dict[str, Any]:
    """Return the rows of usage in a snapshot, by topic."""
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return {row["topic"]: row for row in rows if row["kind"] == "usage"}
