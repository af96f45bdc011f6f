"""The Kubernetes operator as a process. Not in the table of commands yet: it is being built."""

from __future__ import annotations

from pathlib import Path

import click

from topiarist.cli import options

_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@click.command("operator", cls=options.Command)
@click.option("--namespace", metavar="NAME", help="The operator's own namespace, with Clusters, Policies and Secrets.")
@click.option("--release", metavar="NAME", default="topiarist", show_default=True, help="Part of the owner in records.")
@click.option(
    "--watch-namespace",
    "namespaces",
    multiple=True,
    metavar="NAME",
    help="A namespace whose Topics count; may be repeated. Without it those of all namespaces do.",
)
@click.option("--leader-election", is_flag=True, help="Work only while this process holds the Lease.")
@click.option("--listen", metavar="HOST:PORT", default="0.0.0.0:8080", show_default=True, help="Probes and metrics.")
@click.option("--period", type=float, default=60.0, show_default=True, help="Seconds between passes of a cluster.")
def command(
    namespace: str | None, release: str, namespaces: tuple[str, ...], leader_election: bool, listen: str, period: float
) -> None:
    """Make topics what the Topic resources of a Kubernetes cluster say, and keep them so.

    Clusters and Policies are read from the operator's own namespace, Topics from wherever a Cluster allows it.
    """
    from topiarist.kubernetes.main import Words, run

    home = namespace or (_NAMESPACE.read_text().strip() if _NAMESPACE.exists() else "")
    if not home:
        raise click.UsageError("outside a pod the operator's namespace has to be said: --namespace")
    host, _, port = listen.rpartition(":")
    if not port.isdigit():
        raise click.UsageError(f"--listen {listen}: wanted HOST:PORT, such as 0.0.0.0:8080")
    words = Words(home, release, namespaces, leader_election, host or "0.0.0.0", int(port), period)
    raise click.exceptions.Exit(run(words))
