"""Runs the contract suite of ``Cluster`` on real brokers in KRaft mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import ModuleType

import pytest

from brokers.kraft_contract_fixture import KraftClusterFixture, KraftContractCluster, extended
from contract import test_cluster_port, test_moves, test_progress_and_throttle
from contract.cluster_fixtures import ClusterFixture
from contract.test_moves import drained
from support.kafka.cleaning import SharedCluster
from support.kafka.kraft import KraftCluster
from support.kafka.programs import Program

__all__ = ["drained"]

SUITE: tuple[ModuleType, ...] = (test_cluster_port, test_moves, test_progress_and_throttle)


@pytest.fixture(scope="module")
def contract_cluster(shared_kraft: SharedCluster[KraftCluster], program: Program) -> Iterator[KraftContractCluster]:
    """Let the shared cluster have six brokers in three racks, for all tests of this file."""
    with shared_kraft.cleaned() as kafka:
        yield extended(kafka, program)


@pytest.fixture
def world(contract_cluster: KraftContractCluster) -> Iterator[ClusterFixture]:
    """Return the cluster without topics."""
    with ExitStack() as stack:
        stack.callback(contract_cluster.clean)
        yield KraftClusterFixture(contract_cluster, stack)


def _collect_suite() -> None:
    """Make the tests of the suite those of this module, with the fixtures of this module."""
    for module in SUITE:
        for name, value in vars(module).items():
            if name.startswith("test_"):
                assert name not in globals(), f"two tests of the suite are named {name}"
                globals()[name] = value


_collect_suite()
