"""G11: the time of ``topiarist --help``, and the packages that ``plan`` must not import."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.cli import clusters
from benchmarks.common import RUNS, run_process, summarize_runs, topiarist_command

from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

UNWANTED_PACKAGES = ("pyspark", "kopf", "jsonschema", "cel_expr_python")

_PLAN_SCRIPT = """\
import sys
from topiarist.cli.main import run
code = run(["plan", {folder!r}, "--zookeeper", {connect!r}])
print(code, *[name for name in {unwanted!r} if name in sys.modules])
"""


def measure() -> dict[str, Any]:
    """Return the seconds of ``--help``, and the unwanted packages that a plan has imported (none)."""
    run_process(topiarist_command("--help"))
    figures = summarize_runs([run_process(topiarist_command("--help")) for _ in range(RUNS)])
    return {"help_seconds": figures["seconds"], "imported_by_plan": _imported_packages()}


def _imported_packages() -> list[str]:
    """Return the unwanted packages that are loaded after a plan with changes was printed."""
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedZooKeeper() as server,
        clusters.seeded_cluster(server, "starting", 10) as connect,
    ):
        clusters.write_manifests(Path(folder), 20)
        script = _PLAN_SCRIPT.format(folder=folder, connect=connect, unwanted=UNWANTED_PACKAGES)
        output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    code, *found = output.splitlines()[-1].split()
    if code != "0":
        raise RuntimeError(f"the plan ended with {code}")
    return found


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
