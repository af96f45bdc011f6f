"""The commands for a user's own machine: ``topiarist dev``, a playground cluster, and ``topiarist completion``.

In the playground ZooKeeper is real (``EmbeddedZooKeeper``); ``adapters.devcluster`` simulates the brokers and the
controller.
"""

from __future__ import annotations

import re
from pathlib import Path

import click

from topiarist.cli import options, terminal
from topiarist.text import quote

# The ``topiarist completion`` command: print a shell's completion script.


@click.command(
    "completion",
    cls=options.Command,
    epilog="""\b
Examples:
  topiarist completion bash > /etc/bash_completion.d/topiarist
  eval "$(topiarist completion zsh)"
  topiarist completion fish > ~/.config/fish/completions/topiarist.fish
""",
)
@options.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print a completion script for a shell.

    The shell then completes commands, options, and the names of clusters and topics: from the manifests of the command
    line, or else below the current folder, never from a cluster.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    terminal.print_result(kind(context.find_root().command, {}, "topiarist", "_TOPIARIST_COMPLETE").source())


_WELCOME_TEXT = """
The test cluster is running at   {connect}

  ZooKeeper is real. Kafka is simulated: six brokers in three racks, and the controller, which assigns topic ids,
  initializes partitions, moves replicas and deletes topics. Nothing can be produced or consumed.
  The cluster has three topics. Sample manifests, which you can edit: {manifests}
  Their Cluster, {name}, has the address and the id of this cluster. The id is new each time.

Five commands to try, in another terminal:

  topiarist validate {manifests}
  topiarist plan {manifests}
  topiarist apply {manifests}
  topiarist apply {manifests} --adopt=clicks
  topiarist plan {manifests} --format json

To see replicas move, add two fields to the spec of the Cluster, and apply again:

  drainBrokers: [6]
  moves: {{allow: [Drain], throttle: 50MiB}}

Press Ctrl-C to stop the cluster; nothing is kept.
"""

_NAME_REGEX = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def _check_name(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Return a cluster name that a document may have; raise ``click.BadParameter`` for any other."""
    if not _NAME_REGEX.fullmatch(value):
        wanted = "1 to 63 lowercase letters, digits and -, starting and ending with a letter or digit"
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
    help="New folder for the sample manifests. Default: a folder that is removed at the end.",
)
@options.option("--name", default="demo", callback=_check_name, show_default=True, help="Name of the Cluster document.")
@options.option(
    "--port", type=click.IntRange(1, 65_535), metavar="PORT", help="Port of ZooKeeper. Default: any free port."
)
def command(manifests: Path | None, name: str, port: int | None) -> None:
    """Run a local test cluster until Ctrl-C: a real ZooKeeper with simulated brokers, topics and sample manifests.

    Needs Java 17 or later, and PySpark with ZooKeeper among its jars (the extra drift).
    """
    import signal
    import tempfile
    import threading

    from topiarist.adapters.atomic_files import write_folder
    from topiarist.adapters.devcluster import seed, simulated_kafka
    from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

    if manifests is not None and manifests.exists():
        raise click.UsageError(f"{manifests} already exists: give a folder that does not exist")
    with tempfile.TemporaryDirectory(prefix="topiarist-dev-") as temporary, EmbeddedZooKeeper(port=port) as server:
        folder, cluster_id = manifests or Path(temporary, "manifests"), seed.new_topic_id()
        with simulated_kafka.run_cluster(f"{server.connect}/kafka", cluster_id) as cluster:
            write_folder(folder, simulated_kafka.render_manifests(name, cluster.connect, cluster_id))
            terminal.print_result(_WELCOME_TEXT.format(connect=cluster.connect, manifests=folder, name=name))
            stopped = threading.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: stopped.set())
            stopped.wait()
    terminal.log("stopped; everything is removed")
