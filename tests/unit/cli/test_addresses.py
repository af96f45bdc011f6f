"""The address of a run: ``--bootstrap-servers`` or ``--zookeeper``, and the sections of a Cluster document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from topiarist.cli.main import run
from topiarist.cli.terminal import Settings
from topiarist.errors import Exit, InvalidManifests, Reason, TopiaristError
from topiarist.model.access import KafkaAccess, SaslPassword, ZooKeeperAccess
from topiarist.model.spec import ClusterSpec
from topiarist.runs import sessions
from topiarist.runs.inputs import load_clusters

SERVERS, CONNECT = "b1:9092,[::1]:9092", "zk1:2181/kafka"
BY_OPTION = ["--bootstrap-servers", SERVERS], ["--zookeeper", CONNECT]
LOGIN = "sasl: {mechanism: PLAIN, username: ada, password: {env: TOPIARIST_PASSWORD}}"


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[ClusterSpec]:
    """Return the specs that a run opens; opening fails as for a server that does not answer."""
    specs: list[ClusterSpec] = []

    def fail(spec: ClusterSpec, **_: Any) -> None:
        specs.append(spec)
        raise TopiaristError(Reason.UNREACHABLE, "nobody answers")

    monkeypatch.setattr(sessions, "open_cluster", fail)
    return specs


def document(folder: Path, spec: str) -> str:
    """Write a Cluster document and return its path."""
    file = folder / "clusters.yaml"
    file.write_text(f"apiVersion: topiarist.dev/v1\nkind: Cluster\nmetadata: {{name: prod}}\nspec: {{{spec}}}\n")
    return str(file)


def test_each_option_is_a_way_to_a_cluster(opened: list[ClusterSpec]) -> None:
    """Without a document the address is all that there is."""
    for words in BY_OPTION:
        assert run(["list", *words]) == Reason.UNREACHABLE.exit_code
    assert [spec.access for spec in opened] == [KafkaAccess(SERVERS), ZooKeeperAccess(CONNECT)]


def test_each_variable_is_too(
    opened: list[ClusterSpec], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the variable that gave the address."""
    monkeypatch.setenv("TOPIARIST_BOOTSTRAP_SERVERS", SERVERS)
    assert run(["list"]) == Reason.UNREACHABLE.exit_code
    assert [spec.access for spec in opened] == [KafkaAccess(SERVERS)]
    assert "given by TOPIARIST_BOOTSTRAP_SERVERS; --bootstrap-servers HOST:PORT overrides it" in capsys.readouterr().err


@pytest.mark.parametrize("variable", ["TOPIARIST_BOOTSTRAP_SERVERS", "TOPIARIST_ZOOKEEPER"])
def test_two_addresses_exclude_each_other(
    opened: list[ClusterSpec], variable: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names where each of them was given."""
    assert run(["list", *BY_OPTION[0], *BY_OPTION[1]]) == Exit.USAGE
    assert "--bootstrap-servers and --zookeeper exclude each other: give only one" in capsys.readouterr().err
    monkeypatch.setenv(variable, SERVERS)
    assert run(["list", *BY_OPTION[variable != "TOPIARIST_ZOOKEEPER"]]) == Exit.USAGE
    said = capsys.readouterr().err
    assert variable in said
    assert "exclude each other" in said
    assert opened == []


@pytest.mark.parametrize("servers", ["b1", "b1:9092/kafka", "b1:9092, b2:9092", "b1:9092,", "b1:123456", "a b:1"])
def test_malformed_servers_are_a_usage_error(
    opened: list[ClusterSpec], servers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Addresses of brokers have a port, and no chroot."""
    assert run(["list", "--bootstrap-servers", servers]) == Exit.USAGE
    assert f'found "{servers}", wanted host:port,host:port' in capsys.readouterr().err
    assert opened == []


def test_an_option_replaces_the_address_and_keeps_the_login(opened: list[ClusterSpec], tmp_path: Path) -> None:
    """The section of the option is used, whatever ``via`` says, with its own login."""
    both = (
        f"via: ZooKeeper, kafka: {{bootstrapServers: 'b9:1', {LOGIN}}}, zookeeper: {{connect: zk9, maxBuffer: 99999}}"
    )
    for words in ([], *BY_OPTION):
        run(["list", "--clusters", document(tmp_path, both), *words])
    by_document, by_kafka, by_zookeeper = (spec.access for spec in opened)
    assert by_document == ZooKeeperAccess("zk9", 99_999)
    assert by_zookeeper == ZooKeeperAccess(CONNECT, 99_999)
    assert isinstance(by_kafka, KafkaAccess)
    assert by_kafka.bootstrap_servers == SERVERS
    assert isinstance(by_kafka.sasl, SaslPassword)


@pytest.mark.parametrize(
    ("spec", "place"),
    [("kafka: {bootstrapServers: 'b1:1'}", "4:34"), ("zookeeper: {connect: zk1}", "4:29")],
)
def test_an_unreachable_cluster_names_its_document(
    opened: list[ClusterSpec], spec: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error has the location of the address, and the option that overrides it."""
    path = document(tmp_path, spec)
    run(["list", path])
    option = "--bootstrap-servers" if opened[0].kafka else "--zookeeper"
    assert f"given by Cluster prod at {path}:{place}; {option} HOST:PORT overrides it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spec", "missing", "hint"),
    [
        ("", "spec.kafka.bootstrapServers and no spec.zookeeper.connect", "--bootstrap-servers"),
        (f"kafka: {{{LOGIN}}}", "spec.kafka.bootstrapServers", "--bootstrap-servers"),
        ("zookeeper: {maxBuffer: 99999}", "spec.zookeeper.connect", "--zookeeper"),
        ("via: Kafka, zookeeper: {connect: zk1}", "spec.kafka.bootstrapServers", "--bootstrap-servers"),
        ("via: ZooKeeper, kafka: {bootstrapServers: 'b1:1'}", "spec.zookeeper.connect", "--zookeeper"),
    ],
)
def test_a_missing_address_is_named(spec: str, missing: str, hint: str, tmp_path: Path) -> None:
    """The error names the field of the section that is used, or both if there is none."""
    with pytest.raises(InvalidManifests) as caught:
        load_clusters(Settings(clusters=(document(tmp_path, spec),)))
    (error,) = caught.value.errors
    assert error.message == f"Cluster prod: found no {missing}, wanted its address"
    assert error.hint.endswith(f", or give {hint}")


def test_an_address_is_for_a_single_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the option that was given."""
    two = Path(document(tmp_path, "zookeeper: {connect: zk1}"))
    two.write_text(f"{two.read_text()}---\n{two.read_text().replace('prod', 'test')}")
    for words in BY_OPTION:
        assert run(["list", str(two), *words]) == Exit.USAGE
        assert f"{words[0]} is for a single cluster, found 2: prod, test" in capsys.readouterr().err
