"""Command-line options with their environment variables, and the ``Settings`` built from them.

Each option is defined once here, and the commands combine the groups they need (``manifests``, ``connection``,
``planning``, ...). The callbacks check values before a command starts. ``build_settings`` turns click's parameters into
a ``Settings`` value.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Callable, Sequence
from functools import partial
from textwrap import wrap
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from topiarist.cli.settings import Settings
from topiarist.kafka.names import topic_name_problem
from topiarist.kafka.types import MAX_KAFKA_VERSION, MIN_KAFKA_VERSION, KafkaVersion, format_version
from topiarist.model.plan import Risk
from topiarist.model.run_options import ALL_TOPICS, MAX_INFLIGHT_REPLICAS_PER_BROKER, RiskApproval
from topiarist.text import quote

F = TypeVar("F", bound=Callable[..., Any])

TOPIC_PATTERN_REGEX = re.compile(r"[A-Za-z0-9._*?\[\]!-]+")
OWNER_REGEX = re.compile(r"[A-Za-z0-9._/-]{1,200}")
MAX_TEXT_LENGTH = 300
KAFKA_VERSION_REGEX = re.compile(r"([23])[.]([0-9])([.][0-9]+)?")


class NonBlankOption(click.Option):
    """An option that accepts no blank value from the command line or the environment.

    A blank value usually comes from an unset variable. Without this check it would lift a restriction: ``--cluster ""``
    would mean every cluster, ``--without-brokers ""`` no broker.
    """

    def resolve_envvar_value(self, ctx: click.Context) -> str | None:
        """Read the variable; raise ``click.UsageError`` if it is set and blank."""
        blank = isinstance(self.envvar, str) and not os.environ.get(self.envvar, "-").strip()
        if blank and not ctx.resilient_parsing:
            raise click.UsageError(f"{self.envvar} is set, but empty: unset it, or give it a value", ctx)
        return super().resolve_envvar_value(ctx)

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Convert the value to the option's type.

        Raises ``click.BadParameter`` if the value, or an element of it, is blank.
        """
        given = self.name and ctx.get_parameter_source(self.name) in _EXPLICIT_SOURCES
        if given and any(isinstance(part, str) and not part.strip() for part in _as_sequence(value)):
            raise click.BadParameter("found an empty value: leave the option out, or give it a value", ctx, self)
        return super().type_cast_value(ctx, value)


class NonBlankArgument(click.Argument):
    """An argument that accepts no blank value."""

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Convert the values to the argument's type; raise ``click.BadParameter`` if one is blank."""
        if any(isinstance(part, str) and not part.strip() for part in _as_sequence(value)):
            raise click.BadParameter("found an empty value: leave it out, or give it a value", ctx, self)
        return super().type_cast_value(ctx, value)


option = partial(click.option, cls=NonBlankOption)
argument = partial(click.argument, cls=NonBlankArgument)

_EXPLICIT_SOURCES = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)


def _as_sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (tuple, list)) else (value,)


class Command(click.Command):
    """A command that names in its help the options without an environment variable."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, then one sentence about environment variables.

        A variable beside each option would double the length of the help page.
        """
        super().format_options(ctx, formatter)
        options = [param for param in self.params if isinstance(param, click.Option)]
        twins = [each for each in options if each.envvar]
        if twins:
            excluded = ", ".join(max(each.opts, key=len) for each in options if not each.envvar)
            sentence = f"Each option but {excluded} can be given in the environment too, as {twins[-1].envvar} for "
            sentence += f"{twins[-1].opts[0]}."
            formatter.write_paragraph()
            for line in wrap(sentence, formatter.width - 2, break_on_hyphens=False):
                formatter.write(f"  {line}\n")


def _parse_kafka_version(_ctx: click.Context, _param: click.Parameter, value: str | None) -> KafkaVersion | None:
    if value is None:
        return None
    match = KAFKA_VERSION_REGEX.fullmatch(value)
    release = (int(match[1]), int(match[2])) if match else (0, 0)
    if not MIN_KAFKA_VERSION <= release <= MAX_KAFKA_VERSION:
        oldest, newest = format_version(MIN_KAFKA_VERSION), format_version(MAX_KAFKA_VERSION)
        raise click.BadParameter(f"found {quote(value)}, wanted a Kafka release from {oldest} to {newest}")
    return release


def _check_owner(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    if not OWNER_REGEX.fullmatch(value) or value.startswith("k8s/"):
        raise click.BadParameter(
            f"found {quote(value)}, wanted 1 to 200 letters, digits, . _ - /, and not k8s/ at the beginning "
            "(the operator's)"
        )
    return value


def _check_any_owner(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    if not OWNER_REGEX.fullmatch(value):
        raise click.BadParameter(f"found {quote(value)}, wanted 1 to 200 letters, digits, . _ - /")
    return value


def _parse_brokers(_ctx: click.Context, _param: click.Parameter, value: str | None) -> frozenset[int]:
    parts = [] if value is None else [part.strip() for part in value.split(",")]
    if invalid := [part for part in parts if not re.fullmatch(r"[0-9]{1,9}", part)]:
        raise click.BadParameter(f"found {quote(invalid[0])}, wanted broker ids: 1,2,3")
    return frozenset(map(int, parts))


def _parse_risk_approvals(
    _ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]
) -> tuple[RiskApproval, ...]:
    classes = {risk.label: risk for risk in Risk}
    approvals = []
    for value in values:
        label, equals, names = value.partition("=")
        if label not in classes:
            raise click.BadParameter(f"found {quote(label)}, wanted one of {', '.join(classes)}")
        topics = tuple(names.split(",")) if equals else ALL_TOPICS
        if problem := next(filter(None, map(topic_name_problem, topics if equals else ())), ""):
            raise click.BadParameter(f"{quote(value)}: {problem}; to mean every topic, write {label} without =")
        approvals.append(RiskApproval(classes[label], topics))
    return tuple(approvals)


def _check_patterns(_ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return patterns of topic names; raise ``click.BadParameter`` for one that can match no topic.

    Such a value was probably meant for another option.
    """
    for value in values:
        if value.startswith("-") or not TOPIC_PATTERN_REGEX.fullmatch(value):
            raise click.BadParameter(
                f"found {quote(value)}, wanted a topic name or a pattern such as 'orders.*'; for every topic: "
                f"{param.opts[0]} '*'"
            )
    return values


def _parse_line(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    if not value.strip() or not value.isprintable() or len(value) > MAX_TEXT_LENGTH:
        raise click.BadParameter(f"found {quote(value)}, wanted one line of text, at most {MAX_TEXT_LENGTH} characters")
    return value.strip()


def _user_name() -> str:
    """Return the name of the current user.

    Returns an empty string if the system has no name for the user; no option accepts an empty value.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _option_with_env(*names: str, **settings: Any) -> Callable[[F], F]:
    """Return an option with an environment variable derived from its long name."""
    long = next(name for name in names if name.startswith("--")).split("/")[0]
    variable = "TOPIARIST_" + long.removeprefix("--").upper().replace("-", "_")
    return option(*names, envvar=variable, show_envvar=False, **settings)


def _combine_options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    def add(function: F) -> F:
        for each in reversed(options):
            function = each(function)
        return function

    return add


paths = argument("paths", nargs=-1, type=click.Path(), metavar="[PATH]...")
_clusters_option = _option_with_env(
    "--clusters", multiple=True, type=click.Path(), metavar="FILE", help="More manifests, of kind Cluster."
)
verbosity = _combine_options(
    option("-q", "--quiet", is_flag=True, help="Only the product, no remarks; of a plan, one line a topic."),
    option("-v", "--verbose", count=True, help="Say more: every replica list, every notice."),
)

manifests = _combine_options(
    paths,
    _clusters_option,
    _option_with_env(
        "--platform", multiple=True, type=click.Path(), metavar="PATH", help="Clusters, policies: only from here."
    ),
    _option_with_env("--cluster", metavar="NAME", help="Only this cluster; topics of the others are counted."),
    _option_with_env(
        "--kafka-version", callback=_parse_kafka_version, metavar="X.Y", help="The brokers' release, 2.4 to 3.9."
    ),
    verbosity,
)

clusters = _combine_options(_clusters_option, _option_with_env("--cluster", metavar="NAME", help="Only this cluster."))
"""Options of commands that read clusters and no Topic manifests; may be combined with ``paths``."""

require_topics = _option_with_env("--require-topics", is_flag=True, help="End with 1 if the paths hold no Topic.")

connection = _combine_options(
    _option_with_env(
        "--zookeeper", default="", metavar="CONNECT", help="host:port,host:port/chroot of the only cluster."
    ),
    _option_with_env(
        "--connect-timeout",
        type=click.FloatRange(0.1, 600),
        default=10.0,
        metavar="S",
        show_default=True,
        help="Seconds to wait for ZooKeeper.",
    ),
)

summary = option("--summary", is_flag=True, help="Print only how each plan ends.")

snapshot = _combine_options(
    _option_with_env(
        "--snapshot",
        default="",
        type=click.Path(),
        metavar="PATH",
        help="Take a snapshot (a file, or a folder of them) for the cluster and connect to nothing.",
    ),
)

owner = _option_with_env(
    "--owner", default="default", callback=_check_owner, show_default=True, help="Who this run is, in the records."
)

any_owner = _option_with_env(
    "--owner",
    default="default",
    callback=_check_any_owner,
    show_default=True,
    help="Whose records count as ours; k8s/... is an operator.",
)
"""The ``--owner`` of commands that write to no cluster; it accepts an operator's owner (``k8s/...``) too."""

ownership = _combine_options(
    owner,
    _option_with_env(
        "--take-ownership",
        multiple=True,
        callback=_check_patterns,
        metavar="PATTERN",
        help="Take over topics of other owners: by name, or '*' for all.",
    ),
)

planning = _combine_options(
    ownership,
    _option_with_env(
        "--adopt",
        multiple=True,
        callback=_check_patterns,
        metavar="PATTERN",
        help="Take over topics that exist and differ: by name, or '*' for all.",
    ),
    _option_with_env(
        "--recreate",
        multiple=True,
        callback=_check_patterns,
        metavar="PATTERN",
        help="Recreate topics that another client has deleted: by name, or '*' for all.",
    ),
    _option_with_env(
        "--partial", is_flag=True, help="Do what a budget does not count; with --plan, what still stands."
    ),
    _option_with_env(
        "--without-brokers", callback=_parse_brokers, metavar="ID,...", help="These brokers get no new replicas."
    ),
    _option_with_env(
        "--allow-unknown-brokers", is_flag=True, help="Accept replicaAssignment to brokers that are not registered."
    ),
)

lock_timeout = _option_with_env(
    "--lock-timeout",
    type=click.FloatRange(0, 3600),
    default=60.0,
    metavar="S",
    show_default=True,
    help="Seconds to wait for another run to end.",
)

waiting = _combine_options(
    _option_with_env(
        "--wait", is_flag=True, help="Wait until the controller has taken new partitions over, or deleted topics."
    ),
    _option_with_env(
        "--wait-timeout",
        type=click.FloatRange(0, 86_400),
        default=300.0,
        metavar="S",
        show_default=True,
        help="With --wait: seconds without any progress, then it is given up.",
    ),
    _option_with_env(
        "--max-inflight-replicas",
        type=click.IntRange(1, 1_000_000),
        default=MAX_INFLIGHT_REPLICAS_PER_BROKER,
        metavar="N",
        show_default=True,
        help="With --wait: replicas per broker sent ahead of the controller.",
    ),
)

freezing = _combine_options(
    _option_with_env(
        "--user", default=_user_name, callback=_parse_line, metavar="NAME", help="Who does it. Default: your user name."
    ),
    option("--force", is_flag=True, help="Also if somebody else has frozen the cluster."),
)

applying = _combine_options(
    _option_with_env(
        "--allow-risk",
        multiple=True,
        callback=_parse_risk_approvals,
        metavar="CLASS[=TOPIC,...]",
        help="Do what may lose data (DataLoss): everywhere, or for these topics.",
    ),
    lock_timeout,
    option("-y", "--yes", is_flag=True, help="Do not ask. What may lose data still needs --allow-risk."),
)


reason = option(
    "--reason", required=True, callback=_parse_line, metavar="TEXT", help="Why: every run that is refused shows it."
)

saved_plan = _combine_options(
    option(
        "--plan", "plan_file", type=click.Path(), metavar="FILE", help="Do what plan --out wrote, without manifests."
    ),
    option("--reviewed", type=click.Path(), metavar="FILE", help="Plan anew, and do only what this plan has too."),
    option("--report", type=click.Path(), metavar="FILE", help="Add a line for each topic, as it happens."),
)


def build_settings(values: dict[str, Any]) -> Settings:
    """Return the settings of a run, built from the parameters that click passes to a command."""
    quiet, verbose = values.pop("quiet", False), values.pop("verbose", 0)
    fields = {name: value for name, value in values.items() if name in Settings.__dataclass_fields__}
    context = click.get_current_context(silent=True)
    if context and context.get_parameter_source("zookeeper") is ParameterSource.ENVIRONMENT:
        fields["zookeeper_from"] = "TOPIARIST_ZOOKEEPER"
    return Settings(**fields, verbosity=-1 if quiet else verbose)
