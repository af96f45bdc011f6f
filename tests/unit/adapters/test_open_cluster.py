"""Opening the cluster of a spec: the adapter gets every connection setting of the spec."""

from __future__ import annotations

from typing import Any

import pytest

from topiarist.adapters import open_cluster as module
from topiarist.model.credentials import Credentials
from topiarist.model.spec import ClusterSpec


def test_the_adapter_gets_all_connection_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Address, buffer size and credentials come from the spec, owner and timeouts from the run."""
    given: dict[str, Any] = {}
    monkeypatch.setattr(module, "ZooKeeperCluster", lambda connect, **rest: given.update(rest, connect=connect))
    spec = ClusterSpec(connect="zk:2181/kafka", jute_max_buffer=4_194_304, credentials=Credentials())
    module.open_cluster(spec, owner="ada", connect_timeout=3, lock_timeout=5)
    assert given == {
        "connect": "zk:2181/kafka",
        "owner": "ada",
        "jute_max_buffer": 4_194_304,
        "connect_timeout": 3,
        "lock_timeout": 5,
        "credentials": spec.credentials,
    }
