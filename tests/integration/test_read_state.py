"""Reads of a whole cluster from a real ZooKeeper, with and without MultiRead; invalid znodes are reported.

The expected values come from the test data, or from a reader that shares no code with the product.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from conftest import BROKERS
from integration.write_fixtures import InterceptingProxy
from support.waiting import wait_until
from support.zookeeper import write_checker
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka
from topiarist.adapters import own_values
from topiarist.adapters.devcluster.seed import Topic, topic_bytes
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.adapters.size_limits import list_sizes_of
from topiarist.adapters.zookeeper.codec import paths, topics
from topiarist.adapters.zookeeper.codec.topics import ZnodeDecoder, encode_config
from topiarist.adapters.zookeeper.connection.session import Session, open_session
from topiarist.adapters.zookeeper.read.bulk_read import (
    INITIAL_BATCH_READS,
    MAX_MULTIREADS_IN_FLIGHT,
    MAX_REPLY_BYTES,
    ReadFailure,
    Znode,
    read_znodes,
)
from topiarist.adapters.zookeeper.read.cluster_metadata import (
    decode_topic_state,
    read_metadata,
    read_reassignment_request,
    refresh_metadata,
)
from topiarist.adapters.zookeeper.read.state import read_state, read_topics
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import Broker
from topiarist.model.state import ClusterState, Freeze, OwnershipRecord

REPLICAS = ((1, 2, 3), (2, 3, 4))
READS = {"connect", "sync", "multiRead", "getData", "getChildren", "ping", "closeSession"}


@contextmanager
def opened(connect: str, *, multiread: bool | None = None) -> Iterator[Session]:
    """Open a session; with ``multiread`` False it treats the server as one without MultiRead and sends no probe."""
    with closing(open_session(connect, 10.0)) as session:
        session.supports_multiread = multiread
        yield session


def read(connect: str, *, multiread: bool | None = None) -> ClusterState:
    """Return the state of the cluster at ``connect``, read with a separate session."""
    with opened(connect, multiread=multiread) as session:
        return read_state(session, jute_max_buffer=1_048_575)


def put(client: KazooClient, path: str, data: bytes) -> None:
    """Write a znode, whether it exists or not."""
    if client.exists(path):
        client.set(path, data)
    else:
        client.create(path, data, makepath=True)


def put_topic(client: KazooClient, name: str, data: bytes) -> None:
    """Create the znode of a topic without a controller, for states that a playground would not survive."""
    put(client, paths.topic_path(name), data)


def connect_of(client: KazooClient) -> str:
    """Return the connect string of a client, with its chroot."""
    return ",".join(f"{host}:{port}" for host, port in client.hosts) + str(client.chroot)


@pytest.fixture
def still(chroot: str) -> Iterator[KazooClient]:
    """A client of a cluster without a running controller: its znodes do not change."""
    with SimulatedKafka(chroot, BROKERS):
        pass
    client = KazooClient(chroot)
    client.start()
    for broker in BROKERS:
        data = {"version": 5, "host": "h", "port": 1, "endpoints": ["PLAINTEXT://h:1"], "rack": broker.rack}
        put(client, paths.broker_path(broker.id), json.dumps(data).encode())
    put(client, paths.CONTROLLER, b'{"version":2,"brokerid":1,"timestamp":"1","kraftControllerEpoch":-1}')
    yield client
    client.stop()
    client.close()


def test_a_cluster_is_read_as_it_stands(cluster: SimulatedKafka) -> None:
    """Brokers, controller, topics, ids, configs and location equal those of an independent reader."""
    cluster.add_topics(Topic("orders", REPLICAS, {"retention.ms": "1000"}), Topic("clicks", ((4, 5),), {}))
    state = read(cluster.connect)
    tree = write_checker.read_nodes(cluster.connect)
    assert state.brokers == tuple(Broker(number, rack) for number, rack in enumerate("abcabc", start=1))
    assert state.cluster_id == json.loads(tree["/cluster/id"].data or b"")["id"]
    assert (state.controller, state.controller_epoch) == (1, int(tree["/controller_epoch"].data or b""))
    assert (state.write_block.reason, state.topic_errors, state.warnings) == (None, {}, ())
    assert state.chroot == "/" + cluster.connect.partition("/")[2]
    assert state.min_version == (3, 4)
    assert list(state.topics) == ["clicks", "orders"]
    for name, topic in state.topics.items():
        seen = write_checker.decode_topics(tree)[name]
        assert {str(p): list(r) for p, r in zip(topic.partition_ids, topic.replicas, strict=True)} == seen["partitions"]
        assert topic.topic_id == seen["topic_id"]
        assert topic.identity == str(tree[f"/brokers/topics/{name}"].czxid)
        assert topic.config == write_checker.decode_configs(tree)[name]
        assert (topic.record, topic.record_valid, topic.modified_externally) == (None, False, False)


@pytest.mark.slow
def test_without_multiread_the_same_is_read(cluster: SimulatedKafka) -> None:
    """Servers before and after 3.6 give the same state, also for more topics than fit in one request or window."""
    cluster.add_topics(*(Topic(f"topic-{number}", REPLICAS, {"retention.ms": f"{number}"}) for number in range(600)))
    state = read(cluster.connect, multiread=True)
    assert len(state.topics) == 600
    assert read(cluster.connect, multiread=False) == state


@pytest.mark.slow
def test_reading_writes_nothing_and_asks_little(cluster: SimulatedKafka, proxy: Proxy) -> None:
    """A read sends only reads, at most 250 per request, and the session counts them correctly."""
    cluster.add_topics(*(Topic(f"topic-{number}", REPLICAS, {}) for number in range(1000)))
    with opened(proxy.through(cluster.connect)) as session:
        assert len(read_state(session, jute_max_buffer=1).topics) == 1000
        assert set(proxy.requests) <= READS
        assert proxy.requests["multiRead"] <= 4 + 8 + 2000 // 250
        asked = READS - {"connect", "ping", "closeSession"}
        assert session.requests.total() == sum(proxy.requests[kind] for kind in asked)
    wait_until(lambda: proxy.requests["closeSession"], "the end of the session")
    assert proxy.writes == 0


def test_large_znodes_make_small_requests(still: KazooClient, proxy: Proxy) -> None:
    """After the first answers show the size of the znodes, a request reads no more than a megabyte."""
    large = topics.encode_topic([(1001, 1002, 1003)] * 4000)
    put_topic(still, "large", large)
    with opened(proxy.through(connect_of(still))) as session:
        read_metadata(session)
        proxy.reset()
        answers = read_znodes(session, [paths.topic_path("large")] * 500)
        assert [len(node.data) for node in answers if isinstance(node, Znode)] == [len(large)] * 500
    first = MAX_MULTIREADS_IN_FLIGHT * INITIAL_BATCH_READS
    assert proxy.requests["multiRead"] >= MAX_MULTIREADS_IN_FLIGHT + (500 - first) * len(large) // MAX_REPLY_BYTES


ODD = {
    "empty": b"",
    "not-json": b"{'version':1}",
    "trailing": b'{"version":2,"partitions":{"0":[1]}} x',
    "duplicate": b'{"version":2,"partitions":{"0":[1],"0":[2]}}',
    "newer": b'{"version":99,"partitions":{"0":[1]}}',
    "text-ids": b'{"version":2,"partitions":{"0":["1"]}}',
    "huge-id": b'{"version":2,"partitions":{"0":[99999999999]}}',
    "dashed-id": b'{"version":3,"partitions":{"0":[1]},"topic_id":"51fc94f6-2e40-467e-96d3-438ddad69e58"}',
}


@pytest.mark.parametrize("multiread", [True, False])
def test_odd_topics_are_named_and_the_others_read(still: KazooClient, multiread: bool) -> None:
    """Garbage in a topic, its config or its record is a fault of that topic, with path and reason, and of no other
    topic.
    """
    for name, data in ODD.items():
        put_topic(still, name, data)
    for name in ("fine", "odd-config", "odd-record"):
        put_topic(still, name, topics.encode_topic(REPLICAS))
    put(still, paths.config_path("odd-config"), b'{"version":1,"config":{"retention.ms":5}}')
    put(still, paths.record_path("odd-record"), b'{"version":1,"owner":"","config":[]}')
    state = read(connect_of(still), multiread=multiread)
    assert list(state.topics) == ["fine"]
    assert state.topics["fine"].config == {}
    assert state.topic_errors.keys() == ODD.keys() | {"odd-config", "odd-record"}
    assert {fault.path for name, fault in state.topic_errors.items() if name in ODD} == set(map(paths.topic_path, ODD))
    assert state.topic_errors["newer"].message == '"version" is 99, and topiarist supports at most 3'
    assert state.topic_errors["odd-config"] == (
        "/config/topics/odd-config",
        'the value of "retention.ms" must be text, not 5',
    )
    assert state.topic_errors["odd-record"].path == "/topiarist/topics/odd-record"


@pytest.mark.parametrize("multiread", [True, False])
def test_forbidden_topics_are_named_and_the_others_read(still: KazooClient, multiread: bool) -> None:
    """An unreadable znode of a topic is a fault of that topic; an unreadable znode of the cluster is an error with its
    path.
    """
    nobody = [make_acl("digest", "nobody:x", all=True)]
    put_topic(still, "open", topics.encode_topic(REPLICAS))
    put(still, paths.config_path("open"), encode_config({}))
    for name, path in (("closed", paths.topic_path("closed")), ("config", paths.config_path("config"))):
        put_topic(still, name, topics.encode_topic(REPLICAS))
        put(still, path, encode_config({}))
        still.set_acls(path, nobody)
    state = read(connect_of(still), multiread=multiread)
    assert list(state.topics) == ["open"]
    assert state.topic_errors["closed"] == ("/brokers/topics/closed", "no permission to read it")
    assert state.topic_errors["config"] == ("/config/topics/config", "no permission to read it")
    put(still, paths.BROKER_DEFAULTS, encode_config({}))
    still.set_acls(paths.BROKER_DEFAULTS, nobody)
    assert read(connect_of(still)).warnings == ("/config/brokers/<default>: no permission to read it",)
    still.set_acls(paths.CONTROLLER, nobody)
    still.set_acls(paths.TOPICS, nobody)
    with pytest.raises(TopiaristError, match="no permission to read /brokers/topics, /controller") as caught:
        read(connect_of(still))
    assert caught.value.reason is Reason.NO_PERMISSION


def test_records_count_only_for_the_topic_they_were_made_for(still: KazooClient) -> None:
    """A record is valid if it is not older than its topic; later changes are reported; a record without a topic is
    listed separately.
    """
    record = OwnershipRecord("default", ("retention.ms",))
    for name in ("stale", "adopted", "changed"):
        if name == "stale":
            put(still, paths.record_path(name), own_values.encode_record(record))
        put(still, paths.config_path(name), encode_config({"retention.ms": "1"}))
        put_topic(still, name, topics.encode_topic(REPLICAS))
        if name != "stale":
            put(still, paths.record_path(name), own_values.encode_record(record))
    put(still, paths.config_path("changed"), encode_config({"retention.ms": "2"}))
    put(still, paths.record_path("orphan"), own_values.encode_record(record))
    put(still, paths.record_path("tombstone"), own_values.encode_record(OwnershipRecord("k8s/a/b", deleted=True)))
    put(still, paths.record_path("garbage"), b"{}")
    state = read(connect_of(still))
    found = {
        name: (topic.record, topic.record_valid, topic.modified_externally) for name, topic in state.topics.items()
    }
    assert found == {
        "stale": (record, False, False),
        "adopted": (record, True, False),
        "changed": (record, True, True),
    }
    assert state.dangling_records == {"orphan": record, "tombstone": OwnershipRecord("k8s/a/b", deleted=True)}
    assert [warning.partition(" ")[0] for warning in state.warnings] == ["/topiarist/topics/garbage"]


def test_what_is_under_way_is_told(still: KazooClient) -> None:
    """The state has deletion requests, both kinds of reassignments, unknown fields, missing partitions and broker
    defaults.
    """
    moving = b'{"version":2,"partitions":{"0":[1,2],"1":[2]},"adding_replicas":{"1":[2]},"removing_replicas":{}}'
    put_topic(still, "moving", moving)
    put_topic(still, "vendor", b'{"version":2,"vendor":1,"partitions":{"1":[1],"4":[2]}}')
    put(still, paths.deletion_request_path("doomed"), b"")
    put(still, paths.BROKER_DEFAULTS, encode_config({"log.retention.ms": "5"}))
    request = '{"version":1,"partitions":[{"topic":"asked","partition":0,"replicas":[1]}]}'
    put(still, paths.REASSIGNMENT_REQUEST, request.encode())
    state = read(connect_of(still))
    assert state.topics["moving"].reassigning_partitions == (1,)
    assert (state.topics["vendor"].unknown_fields, state.topics["vendor"].has_contiguous_partitions) == (
        ("vendor",),
        False,
    )
    assert (state.pending_deletions, state.reassigning_topics) == (frozenset({"doomed"}), frozenset({"asked"}))
    assert state.broker_defaults == {"log.retention.ms": "5"}
    # Of a request that only the controller may understand, every topic that it could name counts.
    put(still, paths.REASSIGNMENT_REQUEST, request.replace("asked", "vendor").encode() + b" trailing")
    state = read(connect_of(still))
    assert state.reassigning_topics == {"vendor"}
    assert [warning.partition(" ")[0] for warning in state.warnings] == [paths.REASSIGNMENT_REQUEST]


def test_odd_brokers_count_as_missing(still: KazooClient) -> None:
    """An unreadable broker, or one without a numeric id, causes a warning and gets no replicas."""
    put(still, paths.broker_path(3), b'{"version":5}')
    put(still, f"{paths.BROKER_IDS}/x", b"{}")
    state = read(connect_of(still))
    assert [broker.id for broker in state.brokers] == [1, 2, 4, 5, 6]
    assert [warning.partition(" ")[0] for warning in state.warnings] == ["/brokers/ids/3", "/brokers/ids/x"]


def test_room_is_counted_as_a_java_client_receives_it(still: KazooClient) -> None:
    """The size limits count the lists in the bytes of a getChildren reply."""
    for name in ("a", "a-longer-name"):
        put_topic(still, name, topics.encode_topic(REPLICAS))
    for _ in range(3):
        still.create(paths.CONFIG_CHANGE_PREFIX, b"{}", sequence=True)
    with opened(connect_of(still)) as session:
        limits = read_state(session, jute_max_buffer=4_000_000).size_limits
    assert list_sizes_of(limits) == (4 + 4 + 1 + 4 + 13, 4 + 3 * 28, 4_000_000)


def _set(path: str, data: bytes) -> Callable[[KazooClient], object]:
    return lambda client: put(client, path, data)


GATES: dict[str, tuple[Callable[[KazooClient], object], Reason | None, str]] = {
    "kraft": (
        _set(paths.CONTROLLER, b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":5}'),
        Reason.KRAFT_CONTROLLER,
        "a KRaft controller (3000) is active",
    ),
    "migration": (
        _set(paths.MIGRATION, b'{"version":0,"kraft_metadata_offset":-1}'),
        Reason.KRAFT_MIGRATION,
        "a KRaft quorum has connected",
    ),
    "copied": (
        _set(paths.MIGRATION, b'{"version":0,"kraft_metadata_offset":7}'),
        Reason.KRAFT_MIGRATION,
        "its content has been copied to KRaft",
    ),
    "odd migration": (_set(paths.MIGRATION, b""), Reason.KRAFT_MIGRATION, "/migration exists"),
    "no controller": (lambda client: client.delete(paths.CONTROLLER), Reason.NO_CONTROLLER, "does not exist"),
    "no epoch": (lambda client: client.delete(paths.CONTROLLER_EPOCH), Reason.NO_CONTROLLER, "does not exist"),
    "frozen": (
        _set(paths.FREEZE, own_values.encode_freeze(Freeze("upgrade\x1b\n", "ada", "now"))),
        Reason.FROZEN,
        "the cluster is frozen by ada since now: upgrade\\x1b\\n",
    ),
    "frozen by nobody": (
        _set(paths.FREEZE, b'{"version":1,"state":"frozen"}'),
        Reason.FROZEN,
        "the cluster is frozen: no reason given",
    ),
    "odd gate": (
        _set(paths.FREEZE, b"frozen"),
        Reason.FROZEN,
        "/topiarist/gate cannot be read, which counts as frozen",
    ),
    "empty gate": (_set(paths.FREEZE, b""), Reason.FROZEN, "topiarist unfreeze fixes it: it is empty"),
    "frozen without controller": (
        lambda client: _set(paths.FREEZE, b'{"version":1,"state":"frozen"}')(client) or client.delete(paths.CONTROLLER),
        Reason.FROZEN,
        "the cluster is frozen",
    ),
    "open": (_set(paths.FREEZE, own_values.encode_freeze(None)), None, ""),
    "old controller": (_set(paths.CONTROLLER, b'{"version":1,"brokerid":1,"timestamp":"1"}'), None, ""),
}


@pytest.mark.parametrize("name", GATES)
def test_the_gate_tells_whether_writing_is_allowed(still: KazooClient, name: str) -> None:
    """Under KRaft, in a migration, without a controller or frozen, the cluster is readable and writes are blocked with
    the reason.
    """
    arrange, reason, words = GATES[name]
    arrange(still)
    put_topic(still, "orders", topics.encode_topic(REPLICAS))
    state = read(connect_of(still))
    assert state.write_block.reason is reason
    assert words in state.write_block.message
    assert list(state.topics) == ["orders"]


@pytest.mark.parametrize("path", [paths.CLUSTER_ID, paths.CONTROLLER, paths.CONTROLLER_EPOCH])
def test_what_all_depends_on_must_be_readable(still: KazooClient, path: str) -> None:
    """An invalid znode that the whole cluster depends on is an error with its path."""
    put(still, path, b"?")
    with pytest.raises(TopiaristError, match=f"{path} cannot be read") as caught:
        read(connect_of(still))
    assert caught.value.reason is Reason.UNREADABLE


def test_hints_at_the_release_are_taken(still: KazooClient) -> None:
    """The oldest possible release is derived from the znodes that each release was the first to write."""
    put(still, paths.CONTROLLER, b'{"version":1,"brokerid":1,"timestamp":"1"}')
    put(still, paths.FEATURE, b'{"version":2,"features":{},"status":1}')
    seen = [read(connect_of(still)).min_version]
    still.delete(paths.FEATURE)
    seen.append(read(connect_of(still)).min_version)
    still.delete(paths.IP_CONFIGS)
    seen.append(read(connect_of(still)).min_version)
    for broker in BROKERS:
        put(still, paths.broker_path(broker.id), b'{"version":4,"endpoints":[]}')
    seen.append(read(connect_of(still)).min_version)
    put(still, paths.FEATURE, b'{"version":1,"features":{},"status":1}')
    seen.append(read(connect_of(still)).min_version)
    still.delete(paths.FEATURE)
    put_topic(still, "orders", topic_bytes({str(at): list(ids) for at, ids in enumerate(REPLICAS)}, "A" * 22))
    seen.append(read(connect_of(still)).min_version)
    assert seen == [(3, 3), (2, 8), (2, 7), (2, 4), (2, 7), (2, 8)]


def between(meddler: InterceptingProxy, kind: str, moment: int, act: Callable[[], object]) -> None:
    """Act before the request of this kind with this number; earlier requests have their answers by then."""
    seen: list[str] = []

    def before(found: str) -> bool:
        if found == kind:
            seen.append(found)
            if len(seen) == moment + 1:
                answers = meddler.connections[-1].replies
                wait_until(lambda: answers[kind] >= moment, "the answers to the requests before")
                act()
        return True

    meddler.reset()
    meddler.may_forward = before


def test_a_takeover_in_the_middle_is_seen_or_fails_the_check_of_the_epoch(
    still: KazooClient, meddler: InterceptingProxy
) -> None:
    """With a controller failover between any two nodes of the head, a state without a write block never has the epoch
    of the new controller.
    """
    kraft = b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":5}'
    old = still.get(paths.CONTROLLER)[0]

    def take_over() -> None:
        both = still.transaction()
        both.set_data(paths.CONTROLLER, kraft)
        both.set_data(paths.CONTROLLER_EPOCH, b"7")
        both.commit()

    gates = set()
    with opened(meddler.through(connect_of(still)), multiread=False) as session:
        read_metadata(session)
        for moment in range(meddler.requests["getData"]):
            still.set(paths.CONTROLLER, old)
            between(meddler, "getData", moment, take_over)
            head = read_metadata(session)
            now = still.get(paths.CONTROLLER_EPOCH)[1].version
            assert still.get(paths.CONTROLLER)[0] == kraft, "nobody has taken over"
            assert head.write_block.reason or head.epoch_version != now, moment
            gates.add(head.write_block.reason)
    assert gates == {None, Reason.KRAFT_CONTROLLER}


def test_a_topic_that_is_made_in_the_middle_has_not_lost_its_topic(
    still: KazooClient, meddler: InterceptingProxy
) -> None:
    """With a creation between any two lists of the head, no record is read without the topic of the same
    transaction.
    """
    put(still, paths.RECORDS, b"")
    with opened(meddler.through(connect_of(still)), multiread=False) as session:
        read_metadata(session)
        for moment in range(meddler.requests["getChildren"]):

            def make(name: str = f"made-{moment}") -> None:
                both = still.transaction()
                both.create(paths.topic_path(name), topics.encode_topic(REPLICAS))
                both.create(paths.record_path(name), own_values.encode_record(OwnershipRecord("default")))
                both.commit()

            between(meddler, "getChildren", moment, make)
            head = read_metadata(session)
            assert still.exists(paths.record_path(f"made-{moment}"))
            assert {*head.record_names} <= {*head.topic_names}, moment


def test_a_server_that_lags_catches_up_before_it_is_read(still: KazooClient, meddler: InterceptingProxy) -> None:
    """A sync precedes every read of the cluster as a whole, the first and each later one."""
    seen: list[str] = []

    def note(kind: str) -> bool:
        seen.append(kind)
        return True

    with opened(meddler.through(connect_of(still)), multiread=True) as session:
        meddler.may_forward = note
        head = read_metadata(session)
        assert seen[:2] == ["sync", "multiRead"]
        seen.clear()
        refresh_metadata(session, head, [1, 2])
        assert seen == ["sync", "multiRead"]


def test_reassignments_that_may_not_be_read_are_no_absence_of_them(still: KazooClient) -> None:
    """Unreadable reassignments do not count as none: they may name a topic that is to grow."""
    put(still, paths.REASSIGNMENT_REQUEST, b'{"version":1,"partitions":[]}')
    with opened(connect_of(still)) as session:
        assert read_reassignment_request(session, ["orders"]).topics == frozenset()
        still.set_acls(paths.REASSIGNMENT_REQUEST, [make_acl("digest", "nobody:x", all=True)])
        with pytest.raises(TopiaristError, match="no permission to read /admin/reassign_partitions"):
            read_reassignment_request(session, ["orders"])


def test_what_is_read_again_is_as_it_is_now(still: KazooClient) -> None:
    """A refresh updates the requested brokers, the broker defaults and the start of a migration; the rest is
    unchanged.
    """
    put(still, paths.BROKER_DEFAULTS, encode_config({"log.retention.ms": "5"}))
    with opened(connect_of(still)) as session:
        head = read_metadata(session)
        assert refresh_metadata(session, head, [1, 2, 3]) == head
        for broker in (1, 2):
            found = json.loads(still.get(paths.broker_path(broker))[0])
            still.set(paths.broker_path(broker), json.dumps({**found, "rack": "elsewhere"}).encode())
        still.delete(paths.broker_path(3))
        still.delete(paths.broker_path(4))
        put(still, paths.broker_path(5), b"{}")
        put(still, paths.BROKER_DEFAULTS, encode_config({"log.retention.ms": "6"}))
        again = refresh_metadata(session, head, [1, 3, 5, 9])
        assert again.brokers == (Broker(1, "elsewhere"), *(each for each in head.brokers if each.id in (2, 4, 6)))
        assert again.broker_defaults == {"log.retention.ms": "6"}
        assert again.write_block == head.write_block
        still.delete(paths.BROKER_DEFAULTS)
        put(still, paths.MIGRATION, b'{"version":0,"kraft_metadata_offset":7}')
        again = refresh_metadata(session, head, [])
        assert (again.brokers, again.broker_defaults) == (head.brokers, {})
        assert again.write_block.reason is Reason.KRAFT_MIGRATION
        still.set_acls(paths.MIGRATION, [make_acl("digest", "nobody:x", all=True)])
        with pytest.raises(TopiaristError, match="no permission to read /migration"):
            refresh_metadata(session, head, [])


def test_a_missing_chroot_is_said_and_never_made(zookeeper: EmbeddedZooKeeper, proxy: Proxy) -> None:
    """A typo in the chroot is an error that names it; nothing is written."""
    with pytest.raises(TopiaristError, match="the chroot /no-such/kafka does not exist") as caught:
        read(f"{proxy.connect}/no-such/kafka")
    assert caught.value.reason is Reason.NOT_A_KAFKA_CLUSTER
    assert proxy.writes == 0
    assert write_checker.read_nodes(f"{zookeeper.connect}/no-such") == {}


def test_what_is_not_kafka_is_said(still: KazooClient, zookeeper: EmbeddedZooKeeper) -> None:
    """A ZooKeeper or chroot without Kafka's nodes is not a Kafka cluster; the error names the missing nodes."""
    with pytest.raises(TopiaristError, match=r"is not a Kafka cluster: .* has no /cluster/id, /brokers/ids"):
        read(zookeeper.connect)
    still.delete(paths.TOPIC_CONFIGS, recursive=True)
    with pytest.raises(TopiaristError, match=r"is not a Kafka cluster: .* has no /config/topics") as caught:
        read(connect_of(still))
    assert caught.value.reason is Reason.NOT_A_KAFKA_CLUSTER


def test_single_topics_are_read_afresh(still: KazooClient) -> None:
    """A read of single topics returns present bytes, versions and deletion requests, also for missing topics, with the
    same decoder.
    """
    put_topic(still, "orders", topics.encode_topic(REPLICAS))
    still.set(
        paths.topic_path("orders"), topic_bytes({str(at): list(ids) for at, ids in enumerate(REPLICAS)}, "A" * 22)
    )
    put(still, paths.deletion_request_path("orders"), b"")
    put(still, paths.config_path("left"), encode_config({"a": "b"}))
    with opened(connect_of(still)) as session:
        nodes, request = read_topics(session, ["orders", "left"])
        assert request is ReadFailure.MISSING
        whole = read_state(session, jute_max_buffer=1)
    data, stat = still.get(paths.topic_path("orders"))
    assert nodes["orders"].topic == Znode(data, stat.czxid, stat.mzxid, stat.mtime, 1, 0)
    assert (nodes["orders"].config, nodes["orders"].record, nodes["orders"].marked_for_deletion) == (
        *[ReadFailure.MISSING] * 2,
        True,
    )
    assert nodes["left"].topic is ReadFailure.MISSING
    assert isinstance(nodes["left"].config, Znode)
    assert nodes["left"].marked_for_deletion is False
    assert decode_topic_state(nodes["orders"], ZnodeDecoder()) == whole.topics["orders"]
    assert decode_topic_state(nodes["left"], ZnodeDecoder()) is None
