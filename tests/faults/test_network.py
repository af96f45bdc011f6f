"""F18: a slow and a narrow network only take longer."""

from __future__ import annotations

import pytest

from integration.write_fixtures import connect_cluster
from support.builders import apply_results, plan_specs
from support.zookeeper import busy_cluster, write_checker
from support.zookeeper.busy_cluster import ClusterTemplate
from support.zookeeper.proxy import Proxy
from topiarist.model.outcome import Result

MEGABYTE = 1_000_000


@pytest.mark.parametrize(
    ("milliseconds", "rate"), [(1, 0), (20, 0), (200, 0), (0, MEGABYTE), (200, MEGABYTE)], ids=lambda value: str(value)
)
def test_f18_slow_and_narrow(mould: ClusterTemplate, proxy: Proxy, milliseconds: int, rate: int) -> None:
    """Round trips of so many milliseconds, a connection of so many bytes per second: everything is done in order, once,
    and a second run writes nothing.
    """
    connect = mould.create_copy()
    before = write_checker.read_nodes(connect)
    proxy.delay, proxy.rate = milliseconds / 2000, rate
    with connect_cluster(proxy.through(connect)) as port:
        assert apply_results(port, plan_specs(port, *busy_cluster.desired_specs())) == dict.fromkeys(
            busy_cluster.NAMES, Result.DONE
        )
        writes = proxy.writes
        assert not plan_specs(port, *busy_cluster.desired_specs()).has_changes
        assert port._session.disconnects == 0
    assert writes == proxy.writes == len(busy_cluster.NAMES) + 2
    assert list(busy_cluster.find_damage(before, write_checker.read_nodes(connect))) == []
