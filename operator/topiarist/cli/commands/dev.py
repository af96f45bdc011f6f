"""The ``topiarist dev`` command: run a playground cluster until Ctrl-C.

ZooKeeper is real (``EmbeddedZooKeeper``); ``adapters.devcluster`` simulates the brokers and the controller.
"""

from __future__ import annotations

import re
import signal
import tempfile
import threading
from pathlib import Path

import click

from topiarist.adapters.atomic_files import write_folder
from topiarist.adapters.devcluster import demo, seed
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper
from topiarist.cli import options, terminal
from topiarist.text import quote

_WELCOME_TEXT = """
A cluster to play with is up:   {connect}

  ZooKeeper is real. Kafka is not: this command plays the brokers (six, in three racks) and the controller's part. It
  gives topics their ids and partition states, and carries out deletion marks. Nothing can be produced or consumed.
  There are three topics already. Manifests to try, yours to edit: {manifests}
  Their Cluster, {name}, has this address, and the id of this cluster, which is another one each time.

Five commands to try, in another terminal:

  topiarist validate {manifests}
  topiarist plan {manifests}
  topiarist apply {manifests}
  topiarist apply {manifests} --adopt=clicks
  topiarist plan {manifests} --format json

Ctrl-C ends it; nothing is kept.
"""

_NAME_REGEX = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _check_name(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Return a cluster name that a document may have; raise ``click.BadParameter`` for any other."""
    if not _NAME_REGEX.fullmatch(value):
        wanted = "1 to 63 small letters, digits and -, with a letter or digit at both ends"
        raise click.BadParameter(f"found {quote(value)}, wanted {wanted}")
    return value


@click.command(
    "dev",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist dev
  topiarist dev --manifests ./try-it
  topiarist dev --name local --port 2181
""",
)
@options.option(
    "--manifests",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where to put the sample manifests; must not exist. Default: a folder that goes at the end.",
)
@options.option(
    "--name", default=demo.CLUSTER_NAME, callback=_check_name, show_default=True, help="Name of the Cluster."
)
@options.option("--port", type=click.IntRange(1, 65_535), metavar="PORT", help="Of ZooKeeper. Default: a free one.")
def command(manifests: Path | None, name: str, port: int | None) -> None:
    """Run a playground: a real ZooKeeper on this machine, seeded like a Kafka cluster, with sample manifests.

    Needs Java 17 or later, and PySpark, whose jars hold the ZooKeeper: the extra drift.
    """
    if manifests is not None and manifests.exists():
        raise click.UsageError(f"{manifests} exists already: name a folder that does not")
    with tempfile.TemporaryDirectory(prefix="topiarist-dev-") as temporary, EmbeddedZooKeeper(port=port) as server:
        folder, cluster_id = manifests or Path(temporary, "manifests"), seed.new_topic_id()
        with demo.run_cluster(f"{server.connect}/kafka", cluster_id) as cluster:
            write_folder(folder, demo.render_manifests(name, cluster.connect, cluster_id))
            terminal.print_result(_WELCOME_TEXT.format(connect=cluster.connect, manifests=folder, name=name))
            _wait_for_signal()
    terminal.log("ended; nothing is left")


def _wait_for_signal() -> None:
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    ended.wait()
