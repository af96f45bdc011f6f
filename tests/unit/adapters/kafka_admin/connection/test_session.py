"""The session: which broker is asked, what is looked up again, and for how long."""

from __future__ import annotations

from typing import Any

import pytest

from topiarist.adapters.kafka_admin.connection import session as session_module
from topiarist.adapters.kafka_admin.connection.authentication import RefusedByCluster
from topiarist.adapters.kafka_admin.connection.connection import Disconnected, translate_errors
from topiarist.adapters.kafka_admin.connection.connector import Address, UnknownHostError
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.protocol.messages import MetadataRequest
from topiarist.errors import Reason, TopiaristError
from topiarist.model.access import KafkaAccess
from unit.adapters.kafka_admin.scripted_session import LOST, FakeTime, metadata, partition, reply

BOOTSTRAP = "one:9092,two:9092"
REFUSED = TopiaristError(Reason.AUTHENTICATION_FAILED, "refused")


class Peer:
    """A connection to one address."""

    def __init__(self, network: Network, address: Address) -> None:
        self.network = network
        self.address = address
        self.is_open = True

    def version_of(self, request: Any, at_most: int | None = None) -> int:
        return self.network.version

    def call(self, request: Any, *, version: int | None = None, timeout: float | None = None) -> Any:
        name = request.name.removesuffix("Request")
        self.network.sent.append((self.address[0], name, request, timeout))
        found = self.network.script[name]
        answer = found.pop(0) if isinstance(found, list) and len(found) > 1 else found
        answer = answer[0] if isinstance(answer, list) else answer
        if isinstance(answer, Disconnected):
            self.is_open = False
            raise answer
        return answer

    def close(self) -> None:
        self.is_open = False


class Network:
    """All brokers: ``errors`` by host are raised when it is connected, ``opened`` has the connections."""

    def __init__(self) -> None:
        self.script: dict[str, Any] = {"Metadata": metadata({}, brokers=(1, 2, 3))}
        self.errors: dict[str, Exception] = {}
        self.opened: list[Peer] = []
        self.sent: list[tuple[str, str, Any, float | None]] = []
        self.version = 4
        self.checked = 0
        self.arguments: tuple[Any, ...] = ()

    def check_credentials(self) -> None:
        self.checked += 1

    def open(self, address: Address) -> Peer:
        if error := self.errors.get(address[0]):
            raise error
        self.opened.append(Peer(self, address))
        return self.opened[-1]

    def hosts(self) -> list[str]:
        """Return the hosts that were connected, in order."""
        return [each.address[0] for each in self.opened]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    """Replace the time of the session."""
    clock = FakeTime()
    monkeypatch.setattr(session_module, "time", clock)
    return clock


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    """Replace the connector."""
    network = Network()

    def make(access: Any, timeout: float, requests: Any, *, accepts_old_brokers: bool) -> Network:
        network.arguments = (access, timeout, requests, accepts_old_brokers)
        return network

    monkeypatch.setattr(session_module, "Connector", make)
    return network


@pytest.fixture
def session(network: Network) -> Session:
    """Return a session with two addresses."""
    assert not network.opened
    return Session(KafkaAccess(BOOTSTRAP), 3.0)


def test_the_credentials_are_checked_first(session: Session, network: Network) -> None:
    """Nothing is connected before; brokers before Kafka 2.8 are accepted on demand only."""
    assert (network.checked, network.opened) == (1, [])
    assert network.arguments == (session.access, 3.0, session.requests, False)
    Session(session.access, 3.0, accepts_old_brokers=True)
    assert network.arguments[3] is True
    assert session.hosts == BOOTSTRAP


def test_one_broker_is_read(session: Session, network: Network) -> None:
    """The first that answers serves all reads, as long as its connection is open."""
    network.errors["one"] = OSError(111, "refused")
    first = session.any_broker()
    network.errors.clear()
    assert session.any_broker() is first
    assert network.hosts() == ["two"]
    first.close()
    assert session.any_broker() is not first
    assert network.hosts() == ["two", "two"]


def test_further_brokers_are_tried(session: Session, network: Network) -> None:
    """The brokers of the last metadata are tried after the given addresses."""
    session.read_metadata()
    network.opened[0].close()
    network.errors = {host: Disconnected("gone", was_sent=False) for host in ("one", "two", "b1")}
    assert session.any_broker()
    assert network.hosts() == ["one", "b2"]


@pytest.mark.parametrize(
    ("errors", "reason", "message"),
    [
        (
            {"one": OSError(111, "refused"), "two": TimeoutError()},
            Reason.UNREACHABLE,
            f"cannot reach Kafka at {BOOTSTRAP}: one:9092: refused; two:9092: no answer in time",
        ),
        (
            {"one": Disconnected("closed", was_sent=True), "two": OSError("odd")},
            Reason.UNREACHABLE,
            f"cannot reach Kafka at {BOOTSTRAP}: one:9092: closed; two:9092: odd",
        ),
        ({"one": REFUSED, "two": OSError(111, "refused")}, Reason.AUTHENTICATION_FAILED, "refused"),
        ({"one": OSError(1, "x"), "two": REFUSED}, Reason.AUTHENTICATION_FAILED, "refused"),
        ({"one": REFUSED, "two": TopiaristError(Reason.NO_PERMISSION, "x")}, Reason.AUTHENTICATION_FAILED, "refused"),
    ],
)
def test_no_broker_answers(
    session: Session, network: Network, errors: dict[str, Exception], reason: Reason, message: str
) -> None:
    """The error names each address with its cause; a refusal counts more than a broker that is away."""
    network.errors = errors
    with pytest.raises(TopiaristError) as caught:
        session.any_broker()
    assert (caught.value.reason, caught.value.message) == (reason, message)


def test_a_refusal_of_one_broker(session: Session, network: Network) -> None:
    """Another one is tried, unless all brokers of the cluster would refuse the same."""
    network.errors["one"] = REFUSED
    assert session.any_broker().address[0] == "two"  # type: ignore[attr-defined]
    network.errors["two"] = RefusedByCluster(Reason.PREREQUISITE_MISSING, "old")
    network.opened[0].close()
    network.errors.pop("one")
    with pytest.raises(RefusedByCluster):
        session.any_broker()


def test_a_further_connection(session: Session, network: Network) -> None:
    """It goes to the same address; none is opened beside an unknown connection or at a failure; all are closed."""
    first = session.any_broker()
    lent: Any
    with session.lend_another(first) as lent:
        second = lent
        assert second is not first
        assert second.address == ("one", 9092)
        with session.lend_another(Peer(network, ("x", 1))) as lent:  # type: ignore[arg-type]
            assert lent is None
        for error in (OSError("x"), Disconnected("x", was_sent=False), REFUSED):
            network.errors["one"] = error
            with session.lend_another(first) as lent:
                assert lent is None
    session.close()
    assert not first.is_open
    assert not second.is_open
    again: Any = first
    again.is_open = second.is_open = True
    session.close()
    assert again.is_open  # both were forgotten
    assert second.is_open


def test_a_session_of_many_reads_opens_no_more_connections(session: Session, network: Network) -> None:
    """The next borrower gets the connection of the last one, two borrowers have two, and a broken one is replaced."""
    first = session.any_broker()
    for _ in range(10):
        with session.lend_another(first) as second, session.lend_another(first) as third:
            assert len({first, second, third}) == 3
    assert len(network.opened) == 3
    assert second is not None
    second.close()
    with session.lend_another(first) as again, session.lend_another(first) as another:
        assert second not in (again, another)
    assert len(network.opened) == 4


def test_a_read_is_repeated_once(session: Session, network: Network) -> None:
    """A second connection may read again; a second failure ends it."""
    answer = metadata({})
    network.script["Metadata"] = [LOST, answer]
    request = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    assert session.read(request) is answer
    assert len(network.sent) == 2
    assert network.hosts() == ["one", "one"]
    network.script["Metadata"] = LOST
    with pytest.raises(Disconnected):
        session.read(request)


def test_a_broker_by_its_id(session: Session, network: Network) -> None:
    """Its address comes from the metadata, which are read once."""
    assert session.broker(2).address == ("b2", 9092)  # type: ignore[attr-defined]
    assert session.broker(3).address == ("b3", 9092)  # type: ignore[attr-defined]
    assert [each[1] for each in network.sent] == ["Metadata"]
    assert network.sent[0][2].topics == []
    with pytest.raises(Disconnected, match="broker 9 is not registered") as caught:
        session.broker(9)
    assert not caught.value.was_sent


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (OSError(111, "refused"), "run again"),
        (Disconnected("refused", was_sent=True), "run again"),
        (UnknownHostError(0, "refused"), session_module.HINT_ADVERTISED),
    ],
)
def test_a_broker_that_cannot_be_reached(session: Session, network: Network, error: Exception, hint: str) -> None:
    """Nothing was sent; the next call asks for its address again. A name without an address needs another remedy."""
    network.errors["b2"] = error
    with pytest.raises(Disconnected, match="broker 2 cannot be reached: refused") as caught:
        session.broker(2)
    assert not caught.value.was_sent
    with pytest.raises(TopiaristError) as shown, translate_errors():
        session.broker(2)
    assert (caught.value.hint, shown.value.hint) == (hint, hint)
    network.errors.clear()
    session.broker(2)
    assert len(network.sent) == 3


def test_the_controller(session: Session, network: Network) -> None:
    """It is asked for once, until it is forgotten or cannot be reached."""
    assert session.controller().address[0] == "b3"  # type: ignore[attr-defined]
    session.controller()
    assert len(network.sent) == 1
    network.script["Metadata"] = metadata({}, controller=1)
    session.forget_controller()
    assert session.controller().address[0] == "b1"  # type: ignore[attr-defined]
    assert len(network.sent) == 2
    network.script["Metadata"] = metadata({}, controller=0, brokers=(0, 2))
    network.opened[-1].close()
    network.errors["b1"] = OSError(1, "away")
    assert session.controller().address[0] == "b0"  # type: ignore[attr-defined]


def test_no_controller(session: Session, network: Network, clock: FakeTime) -> None:
    """It is waited for, half a minute at most."""
    network.script["Metadata"] = [metadata({}, controller=-1), metadata({}, controller=2)]
    session.controller()
    assert clock.slept == [0.2]
    session.forget_controller()
    network.script["Metadata"] = metadata({}, controller=-1)
    clock.slept.clear()
    message = f"a controller of Kafka at {BOOTSTRAP} was not found within 30 s: the brokers name none"
    with pytest.raises(TopiaristError) as caught:
        session.controller()
    assert (caught.value.reason, caught.value.message) == (Reason.UNREACHABLE, message)
    assert sum(clock.slept) == pytest.approx(30, abs=0.21)
    network.script["Metadata"] = LOST
    with pytest.raises(TopiaristError, match="was not found within 30 s: the answer was lost"):
        session.controller()
    network.script["Metadata"] = metadata({}, controller=2)
    network.errors["b2"] = OSError(1, "away")
    with pytest.raises(TopiaristError, match="broker 2 cannot be reached: away"):
        Session(session.access, 3.0).controller()


def coordinator(code: int = 0, key: str = "id") -> Any:
    """Return an answer to FindCoordinator, which has the fields of both forms."""
    found = {"error_code": code, "error_message": "why", "node_id": 7, "host": "seven", "port": 1}
    return reply(coordinators=[reply(key="other", **found), reply(key=key, **found)], **found)


@pytest.mark.parametrize("version", [3, 4, 6])
def test_the_coordinator(session: Session, network: Network, version: int) -> None:
    """From version 4 on the request has a list of keys; the answer names its address."""
    network.version = version
    network.script["FindCoordinator"] = coordinator()
    found: Any = session.coordinator("id")
    assert found.address == ("seven", 1)
    request = network.sent[0][2]
    assert request.key_type == 1
    assert (request.coordinator_keys if version >= 4 else request.key) == (["id"] if version >= 4 else "id")


@pytest.mark.parametrize("answer", [*map(coordinator, (3, 5, 6, 14, 15, 16)), coordinator(key="else")])
def test_a_coordinator_that_is_not_there_yet(session: Session, network: Network, clock: FakeTime, answer: Any) -> None:
    """The lookup is repeated, for a minute at most."""
    network.script["FindCoordinator"] = [answer, coordinator()]
    session.coordinator("id")
    assert clock.slept == [0.2]
    network.script["FindCoordinator"] = answer
    session.forget_lookups()
    clock.slept.clear()
    with pytest.raises(TopiaristError, match="was not found within 60 s") as caught:
        session.coordinator("id")
    assert caught.value.reason is Reason.UNREACHABLE
    assert "the coordinator of the transactional id id of Kafka" in caught.value.message
    assert sum(clock.slept) == pytest.approx(60, abs=0.21)


@pytest.mark.parametrize(("code", "reason"), [(53, Reason.NO_PERMISSION), (42, Reason.UNREADABLE)])
def test_a_coordinator_that_is_refused(
    session: Session, network: Network, clock: FakeTime, code: int, reason: Reason
) -> None:
    """Any other code ends the lookup."""
    network.script["FindCoordinator"] = coordinator(code)
    with pytest.raises(TopiaristError, match="cannot find the coordinator of the transactional id") as caught:
        session.coordinator("id")
    assert caught.value.reason is reason
    assert ("lacks Describe on the transactional id id" in caught.value.message) is (code == 53)
    assert clock.slept == []


def test_lookups_are_kept(session: Session, network: Network, clock: FakeTime) -> None:
    """They are repeated when they are forgotten, when a broker is away, and a leader after some seconds."""
    answer = with_topic(led(0, 3))
    answer.brokers.append(reply(node_id=7, host="seven", port=1, rack=None))
    network.script |= {"FindCoordinator": coordinator(), "Metadata": answer}

    def look_up() -> list[str]:
        """Return the requests of both lookups."""
        network.sent.clear()
        session.coordinator("id")
        session.leader("t")
        return [name for _, name, _, _ in network.sent]

    both = ["FindCoordinator", "Metadata"]
    assert (look_up(), look_up()) == (both, [])
    session.forget_lookups()
    assert (look_up(), look_up()) == (both, [])
    clock.current += session_module.LEADER_AGE_S
    assert (look_up(), look_up()) == (["Metadata"], [])
    for peer in network.opened:
        peer.close()
    network.script |= {"Metadata": with_topic(led(0, 2))}
    network.errors = dict.fromkeys(("b3", "seven"), OSError(111, "refused"))
    with pytest.raises(TopiaristError, match="cannot be reached"):
        session.coordinator("id")
    found: Any = session.leader("t")
    assert found.address[0] == "b2"


def test_metadata_name_the_leaders(session: Session, network: Network) -> None:
    """A leader that an answer for its topic names is not looked up, and one that it does not name is."""
    network.script["Metadata"] = [with_topic(led(0, 3)), with_topic(led(0, -1)), with_topic(led(0, 2))]
    session.read_metadata(["t"])
    found: Any = session.leader("t")
    assert (found.address[0], len(network.sent)) == ("b3", 1)
    session.read_metadata(["t"])
    found = session.leader("t")
    assert (found.address[0], len(network.sent)) == ("b2", 3)


@pytest.mark.parametrize(("age", "is_asked"), [(-0.1, False), (0.0, True), (1.0, True)])
def test_the_age_of_a_leader_is_that_of_its_metadata(
    session: Session, network: Network, clock: FakeTime, age: float, is_asked: bool
) -> None:
    """A use of a leader does not make it newer, be it found by a lookup or by metadata that were read anyway."""
    network.script["Metadata"] = with_topic(led(0, 3))
    for find in (lambda: session.read_metadata(["t"]), lambda: session.leader("t")):
        session.forget_lookups()
        find()
        clock.current += session_module.LEADER_AGE_S / 2
        session.leader("t")
        clock.current += session_module.LEADER_AGE_S / 2 + age
        network.sent.clear()
        session.leader("t")
        assert [name for _, name, _, _ in network.sent] == ["Metadata"] * is_asked


def test_a_leader_that_cannot_be_reached_is_looked_up_at_once(
    session: Session, network: Network, clock: FakeTime
) -> None:
    """A kept leader that is away is asked for again while it is new, and the one that follows it is kept."""
    network.script["Metadata"] = with_topic(led(0, 3))
    session.leader("t")
    network.opened[-1].close()
    network.errors = {"b3": OSError(111, "refused")}
    network.script["Metadata"] = with_topic(led(0, 2))
    found: Any = session.leader("t")
    assert (found.address[0], clock.slept) == ("b2", [0.2])
    network.sent.clear()
    assert session.leader("t") is found
    assert network.sent == []


def with_topic(*partitions: Any, code: int = 0, name: str = "t") -> Any:
    """Return metadata of four brokers with a topic."""
    answer = metadata({name: list(partitions)}, brokers=range(4))
    answer.topics[0].error_code = code
    return answer


def led(number: int, leader: int, code: int = 0) -> Any:
    """Return a partition with a leader and an error code."""
    found = partition(number, 1, 2, leader=leader)
    found.error_code = code
    return found


@pytest.mark.parametrize(
    ("answer", "host"),
    [
        (with_topic(led(1, 2), led(0, 3)), "b3"),
        (with_topic(led(0, 3, code=9)), "b3"),
        (with_topic(led(0, 3, code=5)), "b3"),
        (with_topic(led(0, 0)), "b0"),
    ],
)
def test_the_leader(session: Session, network: Network, answer: Any, host: str) -> None:
    """An error code of the partition does not matter if there is a leader; zero is the id of a broker."""
    network.script["Metadata"] = answer
    found: Any = session.leader("t")
    assert found.address[0] == host
    assert [each.name for each in network.sent[0][2].topics] == ["t"]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (with_topic(led(0, -1, code=5)), "LEADER_NOT_AVAILABLE (5)"),
        (with_topic(led(0, -1)), "LEADER_NOT_AVAILABLE (5)"),
        (with_topic(led(1, 1)), "UNKNOWN_TOPIC_OR_PARTITION (3)"),
        (with_topic(led(0, 2), code=3), "UNKNOWN_TOPIC_OR_PARTITION (3)"),
        (with_topic(led(0, 2), name="other"), "the answer does not have the topic"),
    ],
)
def test_a_leader_that_is_not_there_yet(
    session: Session, network: Network, clock: FakeTime, answer: Any, words: str
) -> None:
    """The lookup is repeated, with the cause at its end."""
    network.script["Metadata"] = answer
    with pytest.raises(TopiaristError) as caught:
        session.leader("t")
    message = f"the leader of partition 0 of t of Kafka at {BOOTSTRAP} was not found within 60 s: {words}"
    assert (caught.value.reason, caught.value.message) == (Reason.UNREACHABLE, message)
    assert clock.slept


def test_a_leader_that_is_refused(session: Session, network: Network) -> None:
    """A topic that is hidden, with the right that is missing."""
    network.script["Metadata"] = with_topic(code=29)
    with pytest.raises(TopiaristError, match="lacks Describe on the topic t") as caught:
        session.leader("t")
    assert caught.value.reason is Reason.NO_PERMISSION


@pytest.mark.parametrize(
    ("names", "answer"), [(None, with_topic(led(0, 3))), (["t"], with_topic(led(0, 3), code=29)), (["t"], metadata())]
)
def test_metadata_that_keep_no_leader(session: Session, network: Network, names: Any, answer: Any) -> None:
    """Those of all topics would fill the memory, and those of a topic with an error are no answer."""
    network.script["Metadata"] = [answer, with_topic(led(0, 2))]
    session.read_metadata(names)
    found: Any = session.leader("t")
    assert (found.address[0], len(network.sent)) == ("b2", 2)


@pytest.mark.parametrize("names", [None, [], ["a"], ["a", "b"]])
def test_what_metadata_ask_for(session: Session, network: Network, names: Any) -> None:
    """Names, all topics or none; a topic is never created."""
    session.read_metadata(names)
    request = network.sent[0][2]
    assert (None if request.topics is None else [each.name for each in request.topics]) == names
    assert all(each.topic_id.int == 0 for each in request.topics or ())
    assert request.allow_auto_topic_creation is False


def test_errors_name_the_principal(session: Session) -> None:
    """The error for a code has the right, and who topiarist is."""
    error = session.error_of(29, "cannot read", "Describe", "why")
    assert (error.reason, session.access.principal in error.message) == (Reason.NO_PERMISSION, True)
    assert "why" in session.error_of(35, "cannot read", "Describe", "why").message


@pytest.mark.parametrize(("age", "slept"), [(0.0, 0.25), (0.125, 0.125), (0.25, 0.0), (7.0, 0.0)])
def test_the_wait_after_a_change(session: Session, clock: FakeTime, age: float, slept: float) -> None:
    """It counts from the last change, which may be long ago."""
    session.changed_at = clock.current - age
    session.wait_after_change(0.25)
    assert sum(clock.slept) == slept
