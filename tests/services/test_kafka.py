"""Every command against real brokers that refuse replica lists, deny the cluster, or offer no longer some request."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from services.conftest import Recorder
from services.servers import Front, Inspector
from services.story import CELLS, Story
from support.kafka.acls import Acl, create_acls
from support.kafka.catch_up import wait_until_current
from support.kafka.jars import NEWEST
from support.kafka.kraft import ACLS, KafkaListener, KraftCluster, KraftOptions, plain_and_scram
from support.secret_scanner import register_secret

pytestmark = [pytest.mark.xdist_group("kafka"), pytest.mark.timeout(300), pytest.mark.usefixtures("soon")]

PASSWORD = register_secret("planted-Hedge39-services")
HIDDEN = [
    pytest.param(name, marks=() if {*cell.hidden.values()} == {None} else pytest.mark.night(area="versions"))
    for name, cell in CELLS.items()
    if cell.hidden
]

_numbers = count(1)


@pytest.fixture(scope="session")
def kafka() -> Iterator[KraftCluster]:
    """Start one node with an authorizer, a login and a policy; clients of the plain listener are the super user."""
    options = KraftOptions(
        controllers=0,
        properties={**ACLS, "create.topic.policy.class.name": "TopicPolicy"},
        listeners={"LOGIN": KafkaListener("SASL_PLAINTEXT", plain_and_scram({"limited": PASSWORD}))},
    )
    with KraftCluster(NEWEST, {1: "a"}, options) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def inspector(kafka: KraftCluster, emulator: Path) -> Iterator[Inspector]:  # noqa: ARG001 - it is built first
    """Return a client of the brokers themselves."""
    with Inspector(kafka.bootstrap) as inspector:
        yield inspector


class Room:
    """Names of one cell on the shared brokers; its topics are deleted at the end of the ``with`` block."""

    def __init__(self, kafka: KraftCluster, inspector: Inspector, folder: Path, prefix: str = "") -> None:
        number = next(_numbers)
        self._kafka, self._inspector, self._folder = kafka, inspector, folder
        self.records = f"{prefix or '__topiarist'}-{number}"
        self._existing, self._new = (f"{prefix or 'topic'}-{number}-{name}" for name in ("orders", "payments"))

    def tell(self, name: str, bootstrap: str, **kafka: Any) -> Story:
        """Run the story of a cell, and delete its topics; return the story."""
        spec = {"bootstrapServers": bootstrap, "records": {"topic": self.records, "replicationFactor": 1}, **kafka}
        story = Story(
            CELLS[name]._replace(factor=1),
            {"kafka": spec, "clusterId": self._kafka.cluster_id},
            self._inspector,
            self._folder,
            self._existing,
            self._new,
            lambda: wait_until_current(self._kafka.bootstrap),
        )
        try:
            story.tell()
        finally:
            self._inspector.delete(*{self.records, self._existing, self._new} & {*self._inspector.read()})
        return story


@pytest.mark.core
def test_brokers_with_all_rights(
    kafka: KraftCluster, inspector: Inspector, tmp_path: Path, record_cell: Recorder
) -> None:
    """Nothing is denied: each step works."""
    story = Room(kafka, inspector, tmp_path).tell("kafka", kafka.bootstrap)
    record_cell("kafka", story)
    assert {*story.results.values()} == {"works"}


def test_brokers_that_refuse_replica_lists(
    kafka: KraftCluster, inspector: Inspector, tmp_path: Path, record_cell: Recorder
) -> None:
    """A policy refuses creations with replica lists, that of the topic of records too."""
    story = Room(kafka, inspector, tmp_path, "unplaced").tell("kafka-unplaced", kafka.bootstrap)
    record_cell("kafka-unplaced", story)


def test_brokers_that_deny_the_cluster(
    kafka: KraftCluster,
    inspector: Inspector,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    record_cell: Recorder,
) -> None:
    """A user has all rights on topics, groups and transactional ids, and none on the cluster."""
    acls = [Acl("limited", ("All",), resource) for resource in ("Topic", "Group", "TransactionalId")]
    create_acls(kafka.bootstrap, acls)
    password = tmp_path_factory.mktemp("secrets") / "password"
    password.write_text(PASSWORD)
    login = {"mechanism": "PLAIN", "username": "limited", "password": {"file": str(password)}}
    story = Room(kafka, inspector, tmp_path).tell("kafka-cluster-denied", kafka.bootstrap_of("LOGIN"), sasl=login)
    record_cell("kafka-cluster-denied", story)


@pytest.mark.parametrize("name", HIDDEN)
def test_a_hidden_request(
    name: str, kafka: KraftCluster, inspector: Inspector, tmp_path: Path, record_cell: Recorder
) -> None:
    """Nothing that is not offered is sent, and each step ends in its outcome or in a reason."""
    with Front(kafka.bootstrap, CELLS[name].hidden) as front:
        story = Room(kafka, inspector, tmp_path).tell(name, front.bootstrap)
    assert front.wrongly_sent == []
    record_cell(name, story)
