"""The Kafka fixture itself: its processes end with the test run, and brokers can be killed, suspended and restarted."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from support.kafka.kafka_fixture import KafkaFixture
from support.waiting import is_alive, wait_until

RUN = """
import sys
sys.path[:0] = sys.argv[1:]
from support.kafka.programs import Program
from support.kafka.jars import NEWEST
from support.kafka.zookeeper import ZooKeeper
server = ZooKeeper(NEWEST).start()
clients = Program("Clients", NEWEST)
print(server.pid, clients.pid, server.directory, clients.folder, flush=True)
sys.stdin.read()
"""


def test_everything_dies_with_the_test_run() -> None:
    """The servers and clients end when the test run is killed without a chance to clean up."""
    command = [sys.executable, "-c", RUN, *sys.path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        *pids, server, clients = run.stdout.readline().split()
        assert all(is_alive(int(pid)) for pid in pids)
        run.send_signal(signal.SIGKILL)
    wait_until(lambda: not any(is_alive(int(pid)) for pid in pids), "the processes to end")
    subprocess.run(["rm", "-r", server, clients], check=True)


@pytest.mark.night(area="fixtures")
def test_brokers_come_and_go(bare: KafkaFixture) -> None:
    """The cluster survives a killed controller, a suspended broker, a new broker with its own settings, and a restart
    of ZooKeeper.

    Afterwards all brokers serve requests.
    """
    bed = bare
    kafka = bed.kafka
    first = kafka.controller()
    others = {1, 2, 3} - {first}
    kafka.kill(first)
    kafka.wait(lambda: kafka.registered() == others, "the session of the killed broker to expire")
    kafka.wait(lambda: kafka.controller() in others, "another controller")
    kafka.start(first)
    kafka.start(4, rack="c", properties={"delete.topic.enable": "false"})
    assert kafka.registered() == {1, 2, 3, 4}
    kafka.wait(lambda: bed.clients.racks() == {1: None, 2: None, 3: None, 4: "c"}, "the brokers to know each other")
    kafka.pause(4)
    kafka.wait(lambda: kafka.registered() == {1, 2, 3}, "the session of the paused broker to expire")
    kafka.resume(4)
    kafka.wait(lambda: kafka.registered() == {1, 2, 3, 4}, "the paused broker to come back")
    kafka.zookeeper.restart()
    assert bed.clients.create({"here": ((1, 2, 4), (2, 4, 1))}) == {}
    found = bed.describe_in_sync(["here"])
    bed.write_messages({"here": found["here"].replicas}, "message")
    assert bed.clients.reassign({"here": {0: [4, 2]}}) == {}
    kafka.wait(lambda: bed.describe_in_sync(["here"])["here"].replicas == ((4, 2), (2, 4, 1)), "the move to be done")
    assert bed.read_messages({"here": found["here"].replicas}) == {"here": [["message"]] * 2}
    assert bed.clients.delete(["here"]) == {}
    kafka.wait(lambda: bed.clients.describe(["here"]) == {"here": None}, "the topic to go")
