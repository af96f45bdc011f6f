"""F29: the clock jumps by a day in both directions. No decision depends on it."""

from __future__ import annotations

import ast
import time
from itertools import cycle
from pathlib import Path

import pytest

import topiarist
from support.zookeeper import busy_cluster, write_checker
from support.zookeeper.busy_cluster import ClusterTemplate
from topiarist.cli.main import run

DAY = 86_400

SAYS_WHEN = {
    "adapters/kafka_admin/connection/token_endpoint.py",
    "adapters/kafka_admin/records/transactions.py",
    "adapters/kafka_admin/usage/reader.py",
    "cli/commands/drift.py",
    "cli/execute.py",
    "runs/sessions.py",
    "cli/formats.py",
    "cli/commands/snapshot.py",
    "kubernetes/client.py",
}
"""Where the time is written down, or said: how long a statement about topiarist holds, the records'
log, when usage was looked at, reports, the age of a snapshot,
when one was taken, and Kubernetes."""


def test_f29_a_clock_that_jumps(
    mould: ClusterTemplate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A day forward and a day back at each reading of the clock: the same plan byte for byte, the same znodes, the same
    exit code.
    """
    ended, plans = [], []
    for jumping in (False, True):
        connect, plan = mould.create_copy(), tmp_path / "plan.json"
        folder = busy_cluster.write_manifest_folder(tmp_path / "manifests", connect)
        codes = [run(["plan", str(folder), "--adopt=*", "--out", str(plan), "--exit-code"])]
        if jumping:
            plans.append(plan.read_bytes())
            jumps, now = cycle((0, DAY, -DAY, 7 * DAY)), time.time
            monkeypatch.setattr(time, "time", lambda jumps=jumps, now=now: now() + next(jumps))
            monkeypatch.setattr(time, "time_ns", lambda: int(time.time() * 10**9))
            assert abs(time.time() - time.time()) > DAY / 2
            codes = [run(["plan", str(folder), "--adopt=*", "--out", str(plan), "--exit-code"])]
            plans.append(plan.read_bytes())
        codes += [
            run(["apply", str(folder), *more, "--yes", "--allow-risk", "DataLoss"]) for more in (["--adopt=*"], [])
        ]
        capsys.readouterr()
        ended.append(
            (codes, {path: (node.data, node.version) for path, node in write_checker.read_nodes(connect).items()})
        )
    assert plans[0] == plans[1]
    assert ended[0] == ended[1]


def test_f29_nothing_else_looks_at_it() -> None:
    """The code reads the time of day only to write it for users."""
    package = Path(topiarist.__file__).parent
    found = set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in (
                "time.time", "time.time_ns", "datetime.now", "datetime.utcnow", "datetime.today", "time.localtime"
            ):  # fmt: skip
                found.add(str(path.relative_to(package)))
    assert {name for name in found if not name.startswith("adapters/devcluster/")} == SAYS_WHEN
