"""The ``topiarist operator`` command: run the Kubernetes operator as a process.

The packages of the operator are imported only when the command is called.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from topiarist.cli import options
from topiarist.errors import missing_packages_error
from topiarist.runs import settings as run_settings
from topiarist.text import quote

_ADDRESS_REGEX = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+)\]|(?P<host>[^\s:\[\]]*)):(?P<port>[0-9]{1,5})")
_MAX_PORT = 65_535
_NAME_REGEX = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")

_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def _parse_address(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, int]:
    """Return host and port; the host is empty if all addresses are meant."""
    match = _ADDRESS_REGEX.fullmatch(value)
    if not match or int(match["port"]) > _MAX_PORT:
        wanted = "HOST:PORT, such as 127.0.0.1:8080, [::1]:8080 or :8080"
        raise click.BadParameter(f"found {quote(value)}, wanted {wanted}")
    return match["ipv6"] or match["host"] or "", int(match["port"])


def _check_owner(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    """Return an owner that starts with ``k8s/``, which no other command accepts for writes."""
    if value and not (value.startswith("k8s/") and run_settings.OWNER_REGEX.fullmatch(value)):
        wanted = "k8s/ and letters, digits, . _ - /, at most 200 in all"
        raise click.BadParameter(f"found {quote(value)}, wanted {wanted}")
    return value


def _check_names(
    _ctx: click.Context, _param: click.Parameter, value: str | tuple[str, ...] | None
) -> str | tuple[str, ...] | None:
    """Return one or several names that an API server accepts; it would call any other one missing."""
    for name in (value,) if isinstance(value, str) else value or ():
        if name and not _NAME_REGEX.fullmatch(name):
            raise click.BadParameter(f"found {quote(name)}, wanted a-z, 0-9, - and . only, as in names of Kubernetes")
    return value


@click.command("operator", cls=options.Command)
@options.option(
    "--namespace",
    metavar="NAME",
    callback=_check_names,
    help="Namespace of the operator, with Clusters, Policies and Secrets. Default: that of the pod.",
)
@options.option(
    "--release",
    metavar="NAME",
    default="topiarist",
    show_default=True,
    callback=_check_names,
    help="Last part of the default owner in ownership records.",
)
@options.option(
    "--owner",
    metavar="OWNER",
    default="",
    callback=_check_owner,
    help="Owner in ownership records. Default: k8s/ID/NAMESPACE/RELEASE, with the ID of the Kubernetes cluster.",
)
@options.option(
    "--class",
    "operator_class",
    metavar="NAME",
    default="",
    callback=_check_names,
    help="Reconcile only resources with this spec.class. Default: resources without a class.",
)
@options.option(
    "--watch-namespace",
    "namespaces",
    multiple=True,
    metavar="NAME",
    callback=_check_names,
    help="Read Topics of this namespace. Can be repeated. Default: all namespaces.",
)
@options.option("--leader-election", is_flag=True, help="Reconcile only while this process holds the Lease.")
@options.option(
    "--listen",
    metavar="HOST:PORT",
    default=":8080",
    show_default=True,
    callback=_parse_address,
    help="Address of probes and metrics. Without HOST: all addresses.",
)
@options.option(
    "--log-format", type=click.Choice(["json", "text"]), default="json", show_default=True, help="Format of the log."
)
@options.option(
    "--period",
    metavar="SECONDS",
    type=options.SecondsRange(min=1),
    default=60.0,
    show_default=True,
    help="Time between reconciliations of a cluster.",
)
@options.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    envvar="TOPIARIST_LOG_LEVEL",
    show_envvar=True,
    help="Lowest level that is logged.",
)
@options.option(
    "--lease-duration",
    metavar="SECONDS",
    type=click.IntRange(min=2),
    default=15,
    show_default=True,
    help="Time after which a Lease expires that is not renewed.",
)
@options.option(
    "--lease-renewal",
    metavar="SECONDS",
    type=options.SecondsRange(min=1),
    default=10.0,
    show_default=True,
    help="Time limit for the leader to renew its Lease. After it, the process ends.",
)
@options.option(
    "--lease-retry",
    metavar="SECONDS",
    type=options.SecondsRange(min=0.1),
    default=2.0,
    show_default=True,
    help="Time between two attempts to acquire or renew the Lease.",
)
def command(namespace: str | None, namespaces: tuple[str, ...], listen: tuple[str, int], **words: Any) -> None:
    """Run the Kubernetes operator: keep the topics of Kafka clusters as the Topic resources declare them.

    Clusters and Policies are read from the operator's own namespace, Topics from the namespaces that a Cluster allows.
    """
    try:
        from topiarist.kubernetes.main import OperatorOptions, run
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("topiarist"):
            raise
        raise missing_packages_error("operator", "topiarist operator") from error

    home = namespace or (_NAMESPACE_FILE.read_text().strip() if _NAMESPACE_FILE.exists() else "")
    if not home:
        raise click.UsageError("found no namespace, because this is not a pod: pass --namespace")
    if not words["lease_retry"] < words["lease_renewal"] < words["lease_duration"]:
        found = ", ".join(f"{words[f'lease_{name}']:g}" for name in ("retry", "renewal", "duration"))
        raise click.UsageError(f"found {found} s, wanted --lease-retry < --lease-renewal < --lease-duration")
    host, port = listen
    raise click.exceptions.Exit(run(OperatorOptions(home, namespaces=namespaces, host=host, port=port, **words)))
