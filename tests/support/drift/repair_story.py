"""A story from drift to repair on real clusters: a report, each way of ``--fix``, and a report without findings."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from support.cli.runs import document, run_topiarist
from support.drift.small_fleet import read_rows, read_summary
from topiarist.errors import Exit

MONTH, MINUTE = "2592000000", "60000"

TOPIC = """\
# {name}: the comments of a manifest stay where they are.
apiVersion: topiarist.dev/v1
kind: Topic
metadata:
  name: {name}
spec:
  clusters: [{clusters}]
  partitions: 2
  replicationFactor: 3
  config:
    retention.ms: 7d  # a week
"""

SetByHand = Callable[[str, str, str, str], None]
"""Sets a config of a topic as another client: cluster, topic, key and value."""


def tell_repair_story(folder: Path, clusters: Mapping[str, Mapping[str, Any]], set_by_hand: SetByHand) -> None:
    """Let a fleet drift, repair each finding in its way, and require that the next report has the accepted one alone.

    ``clusters`` has the spec of each Cluster document by name; their clusters have no other topic. ``folder`` is the
    current folder: a diff has the paths of files from there.
    """
    story = _Story(folder, clusters)
    for name in ("clicks", "orders", "users"):
        story.declare(name)
    story.commit("All is in step")
    story.run("apply", story.manifests, "--yes")
    story.report("before", "--exit-code")

    first = min(clusters)
    for name in clusters:
        set_by_hand(name, "clicks", "retention.ms", MONTH)
    set_by_hand(first, "orders", "retention.ms", MINUTE)
    set_by_hand(first, "users", "segment.bytes", "536870912")
    story.declare("payments")
    story.commit("A new topic")

    story.report("drifted", "--previous", folder / "before", "--exit-code", code=Exit.CHANGES)
    rows = [(row["cluster"], row["topic"], row["class"], row["severity"]) for row in read_rows(folder / "drifted")]
    expected = {
        *((name, "clicks", "config", "Medium") for name in clusters),
        (first, "orders", "config", "Critical"),
        (first, "users", "unmanaged", "Low"),
        *((name, "payments", "missing", "Critical") for name in clusters),
    }
    assert rows == sorted(expected), rows
    causes = read_summary(folder / "drifted")["causes"]
    assert causes["total"] == 4
    assert {one["topics"][0]: one["findings"] for one in causes["first"]} == {
        **{"clicks": len(clusters), "payments": len(clusters)},
        **{"orders": 1, "users": 1},
    }

    (clicks,) = [one["id"] for one in causes["first"] if one["topics"] == ["clicks"]]
    diff = story.run("drift", story.manifests, "--from", folder / "drifted", "--fix", "manifest", "--cause", clicks)
    story.git("apply", "-", given=diff)
    story.commit("The archive keeps clicks for a month")
    assert (story.manifests / "clicks.yaml").read_text() == story.text("clicks").replace("7d  #", "30d  #")

    accept = ("--topic", "users", "--author", "ada", "--until", "2999-12-31", "--reason", "PLAT-7")
    accepted = story.run("drift", story.manifests, "--from", folder / "drifted", "--fix", "accept", *accept)
    (story.manifests / "exceptions.yaml").write_text(accepted)
    story.commit("The segments of users are accepted")

    words = ("--from", folder / "drifted", "--fix", "plan", "--severity", "Critical", "--out", folder / "plan.json")
    story.run("drift", story.manifests, *words)
    story.run("apply", "--plan", folder / "plan.json", "--clusters", story.manifests / "clusters.yaml", "--yes")

    story.report("repaired", "--previous", folder / "drifted", "--exit-code")
    assert read_rows(folder / "repaired") == []
    assert [row["topic"] for row in read_rows(folder / "repaired", "accepted.jsonl")] == ["users"]
    summary = read_summary(folder / "repaired")
    assert summary["findings"]["resolved"] == 2 * len(clusters) + 1
    assert summary["causes"] == {"total": 0, "first": []}
    assert story.git("status", "--porcelain", story.manifests.name) == ""


class _Story:
    """Manifests in a repository of git, and runs of topiarist about them."""

    def __init__(self, folder: Path, clusters: Mapping[str, Mapping[str, Any]]) -> None:
        self._folder = folder
        self._names = ", ".join(clusters)
        self.manifests = folder / "manifests"
        self.manifests.mkdir()
        documents = [document("Cluster", name, **spec) for name, spec in clusters.items()]
        (self.manifests / "clusters.yaml").write_text("\n---\n".join(documents))
        self.git("init", "-q")

    def text(self, topic: str) -> str:
        """Return the first text of the manifest of a topic."""
        return TOPIC.format(name=topic, clusters=self._names)

    def declare(self, topic: str) -> None:
        """Write the manifest of a topic."""
        (self.manifests / f"{topic}.yaml").write_text(self.text(topic))

    def git(self, *words: str, given: str = "") -> str:
        """Run git in the folder of the story; return what it prints."""
        git = shutil.which("git")
        assert git
        options = ("-c", "user.name=ada", "-c", "user.email=ada@example.com")
        done = subprocess.run(
            [git, *options, *words], cwd=self._folder, input=given, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def commit(self, message: str) -> None:
        """Commit all manifests."""
        self.git("add", "-A", self.manifests.name)
        self.git("commit", "-q", "-m", message)

    def run(self, *words: str | Path, code: int = Exit.DONE) -> str:
        """Run topiarist; return what it prints."""
        said = run_topiarist(*words)
        assert said.code == code, f"{words}\n{said.out}\n{said.err}"
        return said.out

    def report(self, name: str, *words: str | Path, code: int = Exit.DONE) -> None:
        """Write a report of the live clusters."""
        self.run("drift", self.manifests, "--live", "--out", self._folder / name, *words, code=code)
