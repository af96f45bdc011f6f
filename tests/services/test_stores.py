"""Drift reports from store to store without Spark, through fsspec: S3, Google Cloud Storage, Azure Blob Storage."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from services.servers import MissingToolError
from services.stores import Store, serve_azure, serve_gcs, serve_s3
from support.drift import drifted_fleet
from support.drift.drifted_fleet import DriftedFleet

Run = Callable[..., Sequence[str]]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> DriftedFleet:
    """Return a small fleet."""
    return drifted_fleet.make_fleet(tmp_path_factory.mktemp("fleet"), 6, 40, 2)


_night = pytest.mark.night(area="stores")


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(serve_s3, id="s3"),
        pytest.param(serve_gcs, id="gs", marks=_night),
        pytest.param(serve_azure, id="az", marks=_night),
    ],
)
def store(
    request: pytest.FixtureRequest, fleet: DriftedFleet, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    """Serve a store with the snapshots of the fleet; without its server the test is skipped, but fails in CI."""
    try:
        with request.param(tmp_path_factory.mktemp("store")) as store:
            store.upload(fleet.snapshots, "snapshots")
            yield store
    except MissingToolError as error:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(str(error))


@pytest.fixture
def run(fleet: DriftedFleet, store: Store) -> Run:
    """Return a function that reports from the store to the store, and returns the messages."""

    def run(out: str, *words: str, snapshots: str = "fleet/snapshots") -> Sequence[str]:
        command = [sys.executable, "-m", "topiarist", "drift", str(fleet.manifests), "-q"]
        command += ["--snapshots", f"{store.scheme}://{snapshots}", "--out", f"{store.scheme}://{out}", *words]
        done = subprocess.run(command, env=store.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 1, done.stderr  # a cluster of the fleet is not read
        return done.stderr.splitlines()

    return run


def test_a_process_and_a_pool_report_to_a_store(fleet: DriftedFleet, store: Store, run: Run, tmp_path: Path) -> None:
    """Both write the same report, which has an earlier one, and one history; nothing else is left in the store."""
    for jobs in ("1", "2"):
        for _ in range(2):
            history = f"{store.scheme}://fleet/history-{jobs}"
            assert run(f"fleet/pool-{jobs}", "--jobs", jobs, "--history", history) == []
        previous = f"{store.scheme}://fleet/pool-{jobs}"
        assert run(f"fleet/pool-{jobs}", "--jobs", jobs, "--previous", previous) == []
    found, second = (store.download(f"pool-{jobs}", tmp_path / jobs) for jobs in ("1", "2"))
    assert {*found} >= {"summary.json", "findings.jsonl", "report.html"}
    assert found["findings.jsonl"].count(b"\n") == len(fleet.expected)
    assert found == second
    for jobs in ("1", "2"):
        names = {*store.download(f"history-{jobs}", tmp_path / f"history-{jobs}")}
        assert {name.partition("/")[0] for name in names} == {"findings", "runs", "teams"}
        assert len([name for name in names if name.startswith("runs/")]) == 1
    assert store.list_names() == ["history-1", "history-2", "pool-1", "pool-2", "snapshots"]


@pytest.mark.parametrize("place", ["fleet/nothing", "no-such-bucket/snapshots"])
def test_a_folder_that_is_not_there_is_named(store: Store, run: Run, place: str) -> None:
    """A folder or a bucket that does not exist ends the run with one line."""
    (line,) = run("fleet/none", snapshots=place)
    assert f"{store.scheme}://{place}: there is no such file or folder" in line
