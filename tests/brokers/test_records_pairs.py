"""Two of the real command at the same time on real brokers, each with topics of its own: one waits for the other."""

from __future__ import annotations

import pytest

from support.kafka.kraft_fixture import KraftFixture
from support.kafka.paired_runs import MAX_DELAY_S, Pairs, busy_processes, run_pairs
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.records.run import ClusterView, RecordsRun
from topiarist.model.access import KafkaAccess


@pytest.mark.core
def test_of_two_commands_at_the_same_time_one_waits(kraft: KraftFixture) -> None:
    """Three pairs with other delays: no run is taken over, all end well, and neither lock nor claim is left."""
    require_pairs(kraft, 3)


@pytest.mark.night(area="crash")
def test_of_two_commands_on_a_busy_machine_one_waits(kraft: KraftFixture) -> None:
    """The same with forty pairs beside two busy processes: any request of a run may take long."""
    with busy_processes(2):
        require_pairs(kraft, 40)


def require_pairs(kraft: KraftFixture, count: int) -> None:
    """Run pairs, and demand that none of their runs failed."""
    with Pairs(kraft.kafka.bootstrap, kraft.folder, topics=3) as pairs:
        assert [each.code for each in pairs.run(MAX_DELAY_S)] == [0, 0]  # creates the topics
        found = run_pairs(pairs, count)
    assert (found["pairs"], found["failed"], found["fenced"]) == (count, 0, 0), found
    session = Session(KafkaAccess(kraft.kafka.bootstrap), 10.0)
    try:
        records = RecordsRun(session, "default", ClusterView(dict.fromkeys)).read()
    finally:
        session.close()
    assert (records.lock.run, records.claims) == (None, ())
