"""``topiarist dev``: the playground, left running until Ctrl-C."""

from __future__ import annotations

import shutil
import signal
import tempfile
import threading
from importlib.resources import as_file, files
from pathlib import Path

import click

from topiarist.adapters import playground
from topiarist.adapters.embedded import EmbeddedZooKeeper
from topiarist.cli import options, terminal

_WORDS = """
A cluster to play with is up:   {connect}

  ZooKeeper is real. Kafka is not: this command plays the brokers (six, in three racks) and the controller's part. It
  gives topics their ids and partition states, and carries out deletion marks. Nothing can be produced or consumed.
  There are three topics already. Manifests to try, yours to edit: {manifests}

Five commands to try, in another terminal:

  topiarist validate {manifests}
  topiarist plan {manifests} --zookeeper {connect}
  topiarist apply {manifests} --zookeeper {connect}
  topiarist apply {manifests} --zookeeper {connect} --adopt
  topiarist plan {manifests} --zookeeper {connect} --format json

Ctrl-C ends it; nothing is kept.
"""


@click.command(
    "dev",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist dev
  topiarist dev --manifests ./try-it
""",
)
@click.option(
    "--manifests",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where to put the sample manifests; must not exist. Default: a folder that goes at the end.",
)
def command(manifests: Path | None) -> None:
    """Run a playground: a real ZooKeeper on this machine, seeded like a Kafka cluster, with sample manifests.

    Needs Java 17 or later, and PySpark, whose jars hold the ZooKeeper: pip install 'topiarist[drift]'.
    """
    if manifests is not None and manifests.exists():
        raise click.UsageError(f"{manifests} exists already: name a folder that does not")
    with tempfile.TemporaryDirectory(prefix="topiarist-dev-") as temporary, EmbeddedZooKeeper() as server:
        folder = manifests or Path(temporary, "manifests")
        with as_file(files("topiarist") / "demo") as samples:
            shutil.copytree(samples, folder)
        with playground.run(f"{server.connect}/kafka") as cluster:
            terminal.product(_WORDS.format(connect=cluster.connect, manifests=folder))
            _wait_for_signal()
    terminal.say("ended; nothing is left")


def _wait_for_signal() -> None:
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    ended.wait()
