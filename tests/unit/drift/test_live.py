"""Live clusters as inputs: what is read, and what a report says of a cluster that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest

from support import states
from topiarist.adapters.memory import MemoryCluster
from topiarist.drift import live
from topiarist.drift.live import ConnectOptions, read_live_cluster
from topiarist.errors import Reason, TopiaristError
from topiarist.model.spec import ClusterSpec

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
STATE = states.cluster(states.topic("orders"))


@pytest.mark.parametrize(
    ("cluster_id", "error", "problem"),
    [
        ("", None, ""),
        (states.CLUSTER_ID, None, ""),
        ("another", None, "could not be read (WrongCluster)"),
        (
            "",
            TopiaristError(Reason.UNREACHABLE, "zk-1.example.com:2181 does not answer"),
            "could not be read (Unreachable)",
        ),
    ],
)
def test_a_cluster_is_read_or_has_the_reason_without_addresses(
    monkeypatch: pytest.MonkeyPatch, cluster_id: str, error: TopiaristError | None, problem: str
) -> None:
    """The report has only the reason, because it has many readers; the message is for the user of the command."""
    opened = list[tuple[str, str, float]]()
    closed = list[str]()

    @contextmanager
    def open_cluster(spec: ClusterSpec, *, owner: str, connect_timeout: float) -> Iterator[MemoryCluster]:
        opened.append((spec.name, owner, connect_timeout))
        if error:
            raise error
        try:
            yield MemoryCluster(STATE)
        finally:
            closed.append(spec.name)

    monkeypatch.setattr(live, "open_cluster", open_cluster)
    found, message = read_live_cluster(ClusterSpec("eu", cluster_id=cluster_id), ConnectOptions("me", 2.5), NOON)
    assert opened == [("eu", "me", 2.5)]
    assert closed == ([] if error else ["eu"])
    wanted = ("eu", None, None, problem) if problem else ("eu", NOON, STATE, "")
    assert (found.cluster, found.taken_at, found.state, found.problem) == wanted
    assert bool(message) is bool(problem)
    assert "example.com" not in found.problem
    assert ("zk-1.example.com:2181" in message) is bool(error)
