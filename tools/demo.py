"""The demo of ``make demo``: topiarist's commands as a user types them, on a real ZooKeeper.

It starts and seeds the ZooKeeper, and ends everything it started, also on Ctrl-C. Every command really runs, in a
temporary folder, and its exit code is compared with the expected one, so that a wrong demo fails.
"""

from __future__ import annotations

import difflib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import FrameType

from topiarist.adapters.devcluster import simulated_kafka
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.errors import TopiaristError

MANIFESTS = Path(__file__).parent.parent / "manifests" / "demo"

INVALID_MANIFEST = """\
apiVersion: topiarist.dev/v1
kind: Topic
metadata:
  name: refunds
spec:
  partitions: 0
  config:
    retention.m: 86400000
    cleanup.policy: compress
    flush.ms: 1e3
"""


class Demo:
    """A demo in ``folder``, which holds the manifests, against the cluster at ``connect``."""

    def __init__(self, folder: Path, connect: str) -> None:
        self._folder = folder
        self._environment = {**os.environ, "TOPIARIST_ZOOKEEPER": connect}

    def run(self) -> None:
        """Run all steps of the demo."""
        print_remark(
            "The cluster has the topics payments, clicks and audit; git has manifests for orders, payments and clicks."
        )
        self.run_command("topiarist validate manifests")
        self.run_command("topiarist plan manifests")
        print_remark("orders is created, payments is adopted. clicks differs and has no owner: it is refused.")
        self.run_command("topiarist apply manifests --yes", code=4)
        print_remark("--adopt=clicks allows topiarist to own clicks and to change it.")
        self.run_command("topiarist apply manifests --yes --adopt=clicks")
        print_remark("The cluster now equals the manifests. A second run has no changes and writes nothing.")
        self.run_command("topiarist plan manifests")
        print_remark("Orders grow: more partitions, and two weeks of history.")
        orders = self._folder / "manifests" / "topics" / "orders.yaml"
        text = orders.read_text()
        self.edit_file(orders, text.replace("partitions: 6", "partitions: 12").replace("7d", "14d"))
        print_remark("The plan shows the replica lists that apply will write.")
        self.run_command("topiarist plan manifests")
        self.run_command("topiarist apply manifests --yes")
        print_remark("A manifest with errors: all are reported at once, each with its location.")
        self.edit_file(self._folder / "manifests" / "topics" / "refunds.yaml", INVALID_MANIFEST)
        self.run_command("topiarist validate manifests", code=1)

    def run_command(self, command: str, *, code: int = 0) -> None:
        """Print a command, run it, and end the demo if its exit code is not ``code``."""
        print(f"\n$ {command}", flush=True)
        words = [sys.executable, "-m", *shlex.split(command)]
        process = subprocess.Popen(words, cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL)
        try:
            exit_code = process.wait()
        except KeyboardInterrupt:
            process.wait()  # Ctrl-C has reached the command too: wait until it ends
            raise
        except SystemExit:
            process.terminate()
            process.wait()
            raise
        if exit_code != code:
            sys.exit(f"the demo expected exit code {code} here, found {exit_code}")

    def edit_file(self, file: Path, text: str) -> None:
        """Change a file and print the difference."""
        name = str(file.relative_to(self._folder))
        before = file.read_text().splitlines() if file.exists() else []
        file.write_text(text)
        print(f"\n$ $EDITOR {name}")
        for line in list(difflib.unified_diff(before, text.splitlines(), n=0, lineterm=""))[2:]:
            if not line.startswith("@@"):
                print(f"  {line}")


def print_remark(text: str) -> None:
    """Print a remark between two commands."""
    print(f"\n# {text}")


def _terminate(_number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + signal.SIGTERM)


def main() -> int:
    """Start and seed the cluster, run the demo, end everything; return the exit code."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        with (
            tempfile.TemporaryDirectory(prefix="topiarist-demo-") as folder,
            EmbeddedZooKeeper() as server,
            simulated_kafka.run_cluster(f"{server.connect}/kafka") as cluster,
        ):
            shutil.copytree(MANIFESTS, Path(folder, "manifests"))
            print("A real ZooKeeper is running, with six simulated brokers in three racks.")
            print(f"\n$ export TOPIARIST_ZOOKEEPER={cluster.connect}")
            Demo(Path(folder), cluster.connect).run()
    except TopiaristError as error:
        print(error, file=sys.stderr)
        return int(error.reason.exit_code)
    except KeyboardInterrupt:
        print("\ninterrupted; all started processes have ended", file=sys.stderr)
        return 128 + signal.SIGINT
    print("\nEnd of the demo: ZooKeeper and the simulated cluster have ended. `topiarist dev` starts them for you.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
