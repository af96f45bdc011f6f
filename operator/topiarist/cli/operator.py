"""``topiarist operator``: the Kubernetes operator as a process. All that it needs is imported when it begins."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from topiarist.cli import options
from topiarist.core.values import quoted

_ADDRESS = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:\[\]]*)):(?P<port>[0-9]{1,5})")
_LARGEST_PORT = 65_535

_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def _address(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, int]:
    """Host and port; without a host all addresses are meant."""
    found = _ADDRESS.fullmatch(value)
    if not found or int(found["port"]) > _LARGEST_PORT:
        wanted = "HOST:PORT, such as 127.0.0.1:8080, [::1]:8080 or :8080"
        raise click.BadParameter(f"found {quoted(value)}, wanted {wanted}")
    return found["ipv6"] or found["host"] or "", int(found["port"])


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
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=":8080",
    show_default=True,
    callback=_address,
    help="Where probes and metrics are; without a host on all addresses.",
)
@click.option(
    "--log-format", type=click.Choice(["json", "text"]), default="json", show_default=True, help="How lines are logged."
)
@click.option(
    "--period",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    help="Seconds between passes of a cluster.",
)
@click.option("--relist", type=click.FloatRange(min=1), default=300.0, hidden=True)
def command(namespace: str | None, namespaces: tuple[str, ...], listen: tuple[str, int], **words: Any) -> None:
    """Make topics what the Topic resources of a Kubernetes cluster say, and keep them so.

    Clusters and Policies are read from the operator's own namespace, Topics from wherever a Cluster allows it.
    """
    from topiarist.kubernetes.main import Words, run

    home = namespace or (_NAMESPACE.read_text().strip() if _NAMESPACE.exists() else "")
    if not home:
        raise click.UsageError("outside a pod the operator's namespace has to be said: --namespace")
    host, port = listen
    raise click.exceptions.Exit(run(Words(home, namespaces=namespaces, host=host, port=port, **words)))
