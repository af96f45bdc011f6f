"""Every example planned from a snapshot of its clusters: the plan equals the live one, byte by byte."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from acceptance.cases import Case, create_clusters, find_cases, run_command
from support.examples import slow_but
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

CASES = [case for case in find_cases() if case.has_state and case.manifests and not case.written]


def commands(case: Case) -> list[str]:
    """Return the plan commands of a case for its clusters, and some additional ones."""
    plain = re.compile(f"plan {re.escape(case.manifests)}( -.*)?")
    other = {"--snapshot", "--clusters", "--out"}
    found = [command for command in case.commands if plain.fullmatch(command) and other.isdisjoint(command.split())]
    return [*found, f"plan {case.manifests} --format json", f"plan {case.manifests} -v '--adopt=*' '--recreate=*'"]


def quietly(command: str, more: str = "") -> list[str]:
    """Return the lines of an output without the command itself and without the age of the snapshots."""
    said = run_command(f"{command} {more}").split("\n")[1:]
    return [line for line in said if line != "--- stderr" and not line.startswith("read from ")]


ONLY_LIVE = re.compile(r"\n {6}warning {6}min\.insync\.replicas is .*(\n {19}\S.*)*")
"""What a snapshot does not have: replicas in sync, and so the notice that a partition is below its minimum."""
OUT_OF_SYNC = {"plan/moves-below-min-isr", "plan/moves-below-min-isr-capped"}
"""The cases with this notice."""


def without_live(lines: list[str]) -> list[str]:
    """Return the lines of a plan, text or JSON, without notices of replicas in sync and the sum over them."""
    text = "\n".join(lines)
    if not text.startswith("{"):
        return ONLY_LIVE.sub("", text).split("\n")
    plan, end = text.rsplit("\n--- ", 1)
    document = json.loads(plan)
    for topic in [topic for cluster in document["clusters"] for topic in cluster["topics"]]:
        kept = [one for one in topic["notices"] if not one["message"].startswith("min.insync.replicas is ")]
        topic["notices"] = kept
    del document["fingerprint"]
    return f"{json.dumps(document, indent=2, ensure_ascii=False)}\n--- {end}".split("\n")


@pytest.mark.parametrize(
    "case", slow_but([case for case in CASES if case.has_all_forms], CASES), ids=[case.name for case in CASES]
)
def test_the_plan_from_a_snapshot_is_the_live_one(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zookeeper: EmbeddedZooKeeper
) -> None:
    """Output and exit code equal the live ones but for replicas in sync; for an unreadable cluster, the snapshot fails
    with the plan's message.
    """
    for name in [name for name in os.environ if name.startswith("TOPIARIST_")]:
        monkeypatch.delenv(name)
    own = case.name.replace("/", "-")
    connect = f"{zookeeper.connect}/recorded-{own}"
    folder = case.copy(tmp_path / "case", zookeeper.connect)
    for path in folder.rglob("clusters.yaml"):
        path.write_text(path.read_text().replace(f"/{own}", f"/recorded-{own}"))
    monkeypatch.chdir(folder)
    state = case.read_state()
    with create_clusters(state, connect):
        if "clusters" not in state:
            monkeypatch.setenv("TOPIARIST_ZOOKEEPER", connect)
        live = {command: quietly(command) for command in commands(case)}
        *said, ended, _ = quietly(f"snapshot {case.manifests}", "-q --out ../taken --connect-timeout 1")
    if ended != "--- exit 0":
        assert {*said} <= {line for words in live.values() for line in words}
        return
    for command, words in live.items():
        found = quietly(command, "--snapshot ../taken")
        if case.name in OUT_OF_SYNC:
            assert found != words
            found, words = without_live(found), without_live(words)
        assert found == words, command
