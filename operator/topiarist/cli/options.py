"""The flags, each once, with their environment twins; and ``Settings`` made of them."""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable
from textwrap import wrap
from typing import Any, TypeVar

import click

from topiarist.core.backlog import AHEAD
from topiarist.core.change import Risk
from topiarist.core.policy import Allowance
from topiarist.core.state import Release
from topiarist.core.values import quoted
from topiarist.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

OWNER = re.compile(r"[A-Za-z0-9._/-]{1,200}")
MOST_WORDS = 300
RELEASE = re.compile(r"([23])[.]([0-9])([.][0-9]+)?")


class Command(click.Command):
    """A command whose help says which of its options have a twin in the environment.

    ``--adopt`` may stand alone: it takes a pattern with ``=`` only, never the next word.
    """

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options, then one sentence on the environment: a variable beside each would take half of the page."""
        super().format_options(ctx, formatter)
        options = [param for param in self.params if isinstance(param, click.Option)]
        twins = [option for option in options if option.envvar]
        if twins:
            others = ", ".join(max(option.opts, key=len) for option in options if not option.envvar)
            words = f"Each option but {others} can be given in the environment too, as {twins[-1].envvar} for "
            words += f"{twins[-1].opts[0]}."
            formatter.write_paragraph()
            for line in wrap(words, formatter.width - 2, break_on_hyphens=False):
                formatter.write(f"  {line}\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read a bare ``--adopt`` as ``--adopt=*``."""
        return super().parse_args(ctx, ["--adopt=*" if arg == "--adopt" else arg for arg in args])


def _release(_ctx: click.Context, _param: click.Parameter, value: str | None) -> Release | None:
    if value is None:
        return None
    match = RELEASE.fullmatch(value)
    release = (int(match[1]), int(match[2])) if match else (0, 0)
    if not (2, 4) <= release <= (3, 9):
        raise click.BadParameter(f"found {quoted(value)}, wanted a Kafka release from 2.4 to 3.9")
    return release


def _owner(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    if not OWNER.fullmatch(value) or value.startswith("k8s/"):
        raise click.BadParameter(
            f"found {quoted(value)}, wanted 1 to 200 letters, digits, . _ - /, and not k8s/ at the beginning "
            "(the operator's)"
        )
    return value


def _any_owner(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    if not OWNER.fullmatch(value):
        raise click.BadParameter(f"found {quoted(value)}, wanted 1 to 200 letters, digits, . _ - /")
    return value


def _brokers(_ctx: click.Context, _param: click.Parameter, value: str | None) -> frozenset[int]:
    words = [word.strip() for word in value.split(",")] if value else []
    if wrong := [word for word in words if not re.fullmatch(r"[0-9]{1,9}", word)]:
        raise click.BadParameter(f"found {quoted(wrong[0])}, wanted broker ids: 1,2,3")
    return frozenset(map(int, words))


def _risks(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[Allowance, ...]:
    found = []
    classes = {risk.word: risk for risk in Risk}
    for value in values:
        word, _, topics = value.partition("=")
        if word not in classes:
            raise click.BadParameter(f"found {quoted(word)}, wanted one of {', '.join(classes)}")
        found.append(Allowance(classes[word], frozenset(filter(None, topics.split(",")))))
    return tuple(found)


def _line(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    if not value.strip() or not value.isprintable() or len(value) > MOST_WORDS:
        raise click.BadParameter(f"found {quoted(value)}, wanted one line of text, at most {MOST_WORDS} characters")
    return value.strip()


def _user() -> str:
    """The name of whoever runs this; empty, which no option takes, if the system has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _option(*names: str, **settings: Any) -> Callable[[F], F]:
    """An option whose environment twin is its long name."""
    long = next(name for name in names if name.startswith("--")).split("/")[0]
    variable = "TOPIARIST_" + long.removeprefix("--").upper().replace("-", "_")
    return click.option(*names, envvar=variable, show_envvar=False, **settings)


def _group(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    def add(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return add


paths = click.argument("paths", nargs=-1, type=click.Path(), metavar="[PATH]...")
_clusters = _option(
    "--clusters", multiple=True, type=click.Path(), metavar="FILE", help="More manifests, of kind Cluster."
)
volume = _group(
    click.option("-q", "--quiet", is_flag=True, help="Only the product, no remarks."),
    click.option("-v", "--verbose", count=True, help="Say more: every replica list, every notice."),
)

manifests = _group(
    paths,
    _clusters,
    _option("--platform", multiple=True, type=click.Path(), metavar="PATH", help="Clusters, policies: only from here."),
    _option("--cluster", metavar="NAME", help="Only this cluster; topics of the others are counted."),
    _option("--kafka-version", callback=_release, metavar="X.Y", help="The brokers' release, 2.4 to 3.9."),
    volume,
)

clusters = _group(_clusters, _option("--cluster", metavar="NAME", help="Only this cluster."))
"""Where clusters are found by a command that is not about topics in manifests; ``paths`` may be beside it."""

connection = _group(
    _option("--zookeeper", default="", metavar="CONNECT", help="host:port,host:port/chroot of the only cluster."),
    _option(
        "--connect-timeout",
        type=click.FloatRange(0.1, 600),
        default=10.0,
        metavar="S",
        show_default=True,
        help="Seconds to wait for ZooKeeper.",
    ),
)

recorded = _group(
    _option(
        "--snapshot",
        default="",
        type=click.Path(),
        metavar="PATH",
        help="Take a snapshot (a file, or a folder of them) for the cluster and connect to nothing.",
    ),
)

owner = _option(
    "--owner", default="default", callback=_owner, show_default=True, help="Who this run is, in the records."
)

any_owner = _option(
    "--owner",
    default="default",
    callback=_any_owner,
    show_default=True,
    help="Whose records count as ours; k8s/NAMESPACE/RELEASE is an operator.",
)
"""For a command that writes to no cluster: it may look with an operator's eyes."""

ownership = _group(
    owner,
    _option("--take-ownership", is_flag=True, help="Take over topics of other owners."),
)

planning = _group(
    ownership,
    _option(
        "--adopt", multiple=True, metavar="[=PATTERN]", help="Take over topics that exist and differ: all, or by name."
    ),
    _option("--recreate", is_flag=True, help="Create again what others have deleted."),
    _option("--partial", is_flag=True, help="Do what a budget does not count; with --plan, what still stands."),
    _option("--without-brokers", callback=_brokers, metavar="ID,...", help="These brokers get no new replicas."),
    _option(
        "--allow-unknown-brokers", is_flag=True, help="Accept replicaAssignment to brokers that are not registered."
    ),
)

lock_timeout = _option(
    "--lock-timeout",
    type=click.FloatRange(0, 3600),
    default=60.0,
    metavar="S",
    show_default=True,
    help="Seconds to wait for another run to end.",
)

waiting = _group(
    _option("--wait", is_flag=True, help="Wait until the controller has taken new partitions over, or deleted topics."),
    _option(
        "--wait-timeout",
        type=click.FloatRange(0, 86_400),
        default=300.0,
        metavar="S",
        show_default=True,
        help="With --wait: seconds without any progress, then it is given up.",
    ),
    _option(
        "--wait-ahead",
        type=click.IntRange(1, 1_000_000),
        default=AHEAD,
        metavar="N",
        show_default=True,
        help="With --wait: replicas per broker sent ahead of the controller.",
    ),
)

freezing = _group(
    _option("--by", default=_user, callback=_line, metavar="NAME", help="Who does it. Default: your user name."),
    click.option("--force", is_flag=True, help="Also if somebody else has frozen the cluster."),
)

applying = _group(
    _option(
        "--allow-risk",
        multiple=True,
        callback=_risks,
        metavar="CLASS[=TOPIC,...]",
        help="Do what may lose data (DataLoss): everywhere, or for these topics.",
    ),
    lock_timeout,
    click.option("-y", "--yes", is_flag=True, help="Do not ask. What may lose data still needs --allow-risk."),
)


reason = click.option(
    "--reason", required=True, callback=_line, metavar="TEXT", help="Why: every run that is refused shows it."
)

kept = _group(
    click.option(
        "--plan", "plan_file", type=click.Path(), metavar="FILE", help="Do what plan --out wrote, without manifests."
    ),
    click.option(
        "--reviewed", type=click.Path(), metavar="FILE", help="Plan anew, and do only what this plan has too."
    ),
    click.option("--report", type=click.Path(), metavar="FILE", help="Add a line for each topic, as it happens."),
)


def settings(values: dict[str, Any]) -> Settings:
    """The settings of a run, from the parameters that click hands to a command."""
    quiet, verbose = values.pop("quiet", False), values.pop("verbose", 0)
    known = {name: value for name, value in values.items() if name in Settings.__dataclass_fields__}
    return Settings(**known, verbosity=-1 if quiet else verbose)
