"""``apply --reviewed`` on several clusters: the valid plans of the file, and their clusters."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.cli.runs import RunResult, run_topiarist, write_manifests
from support.zookeeper.proxy import Proxy
from support.zookeeper.simulated_kafka import SimulatedKafka

RELEASE = ("--kafka-version", "3.9")


class Review:
    """Three clusters with a planned topic, reached through ``proxy``, and a file with that plan."""

    def __init__(self, folder: Path, clusters: dict[str, SimulatedKafka], proxy: Proxy) -> None:
        self.clusters = clusters
        self.file = str(folder / "plan.json")
        self._folder = folder / "all"
        self._connects = {name: proxy.through(cluster.connect) for name, cluster in clusters.items()}
        self.merged = self.wants("orders")
        planned = run_topiarist("plan", self.merged, *RELEASE, "--out", self.file)
        assert planned.code == 0, planned.err
        proxy.reset()

    def wants(self, *topics: str, clusters: str = "abc") -> Path:
        """Replace the manifests of the folder by these."""
        shutil.rmtree(self._folder, ignore_errors=True)
        return write_manifests(self._folder, {name: self._connects[name] for name in clusters}, *topics)

    def applies(self, *words: str) -> RunResult:
        """Apply the merged manifests, limited to the reviewed file."""
        return run_topiarist("apply", self.merged, *RELEASE, "--reviewed", self.file, "--yes", *words)

    def have(self, topic: str) -> str:
        """Return the clusters that have a topic."""
        found = (name for name, each in self.clusters.items() if each.client.exists(f"/brokers/topics/{topic}"))
        return "".join(sorted(found))


@pytest.fixture
def review(tmp_path: Path, clusters: dict[str, SimulatedKafka], proxy: Proxy) -> Review:
    """A reviewed plan and the merged manifests."""
    return Review(tmp_path, clusters, proxy)


def test_all_that_was_reviewed_is_done(review: Review) -> None:
    """Each cluster gets the changes of its own plan."""
    assert (review.applies().code, review.have("orders")) == (0, "abc")


def test_a_cluster_that_nobody_knows_any_more(review: Review, proxy: Proxy) -> None:
    """A reviewed cluster without a document is an error before any connection."""
    review.wants("orders", clusters="ab")
    run = review.applies()
    assert run.code == 1
    assert "the plan is for cluster c, which is not a cluster of this run; it has a, b" in run.err
    assert proxy.requests["connect"] == 0


def test_a_run_for_one_cluster_leaves_the_plans_of_others_alone(review: Review) -> None:
    """A run for one cluster ignores the plans of other clusters, including clusters without a document."""
    review.wants("orders", clusters="ab")
    run = review.applies("--cluster", "a")
    assert (run.code, run.err) == (0, "")
    assert review.have("orders") == "a"


def test_a_cluster_that_was_not_reviewed_gets_nothing(review: Review) -> None:
    """A cluster document from the merge was not reviewed: each of its topics is refused, and the other clusters are
    done.
    """
    review.wants("orders", clusters="ab")
    assert run_topiarist("plan", review.merged, *RELEASE, "--out", review.file).code == 0
    review.wants("orders")
    run = review.applies()
    assert run.code == 5, run.err
    assert "NotReviewed" in run.out
    assert review.have("orders") == "ab"


def test_another_cluster_at_an_address_is_named_and_the_rest_is_done(review: Review) -> None:
    """Another cluster at the address was not reviewed: the run writes nothing there and fails."""
    review.clusters["b"].client.set("/cluster/id", b'{"version":"1","id":"another"}')
    run = review.applies()
    assert run.code == 1
    assert "error: cluster b: the plan was made for cluster b at /" in run.err
    assert "found cluster another at /" in run.err
    assert review.have("orders") == "ac"
