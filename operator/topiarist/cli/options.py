"""Command-line options with their environment variables, and the ``Settings`` built from them.

Each option is defined once here, and the commands combine the groups they need (``manifests``, ``connection``,
``planning``, ...). The callbacks check values before a command starts. ``build_settings`` turns click's parameters into
a ``Settings`` value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from topiarist.cli.parameters import (
    ClusterCommand,
    Command,
    NonBlankArgument,
    NonBlankOption,
    TopicCommand,
    complete_cluster,
    complete_topic,
)
from topiarist.cli.terminal import Settings
from topiarist.kafka.types import KafkaVersion, topic_name_problem
from topiarist.model.plan import MAX_INFLIGHT_REPLICAS_PER_BROKER, RiskApproval
from topiarist.runs import settings as run_settings
from topiarist.text import quote

__all__ = ["ClusterCommand", "Command", "NonBlankArgument", "NonBlankOption", "TopicCommand"]

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

MAX_TEXT_LENGTH = 300
THROTTLE_REGEX = re.compile(r"[1-9][0-9]{0,8}(KiB|MiB|GiB)|Unlimited")


option = partial(click.option, cls=NonBlankOption)
argument = partial(click.argument, cls=NonBlankArgument)


def _convert(parse: Callable[[str], T], value: str) -> T:
    """Return the parsed value; raise ``click.BadParameter`` if the parser raises ``ValueError``."""
    try:
        return parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def parse_kafka_version(_ctx: click.Context, _param: click.Parameter, value: str | None) -> KafkaVersion | None:
    """Return a supported Kafka version; raise ``click.BadParameter`` for other text."""
    return None if value is None else _convert(run_settings.parse_kafka_version, value)


def _checked_by(check: Callable[[str], object]) -> Callable[[click.Context, click.Parameter, str], str]:
    """Return a callback that accepts a text unless ``check`` raises ``ValueError``."""

    def callback(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
        _convert(check, value)
        return value

    return callback


def _parse_brokers(_ctx: click.Context, _param: click.Parameter, value: str | None) -> frozenset[int]:
    parts = [] if value is None else [part.strip() for part in value.split(",")]
    if invalid := [part for part in parts if not re.fullmatch(r"[0-9]{1,9}", part)]:
        raise click.BadParameter(f"found {quote(invalid[0])}, wanted broker ids: 1,2,3")
    return frozenset(map(int, parts))


def _parse_throttle(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    if not THROTTLE_REGEX.fullmatch(value):
        raise click.BadParameter(f"found {quote(value)}, wanted a rate in whole KiB, MiB or GiB, or Unlimited")
    from topiarist.desired.parse import parse_throttle

    return parse_throttle(value)


def _parse_risk_approvals(
    _ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]
) -> tuple[RiskApproval, ...]:
    return tuple(_convert(run_settings.parse_risk_approval, value) for value in values)


def _check_patterns(_ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return patterns of topic names; raise ``click.BadParameter`` for one that can match no topic.

    Such a value was probably meant for another option.
    """
    for value in values:
        _convert(lambda text: run_settings.check_pattern(text, param.opts[0]), value)
    return values


def _check_names(_ctx: click.Context, _param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of topics; raise ``click.BadParameter`` for a pattern, or a name that no topic can have."""
    for value in values:
        if problem := topic_name_problem(value):
            raise click.BadParameter(f"found {quote(value)}, wanted the exact name of a topic: {problem}")
    return values


def _set_color(context: click.Context, _param: click.Parameter, value: str) -> None:
    context.color = {"always": True, "never": False}.get(value)


def _parse_line(_ctx: click.Context, _param: click.Parameter, value: str) -> str:
    if not value.strip() or not value.isprintable() or len(value) > MAX_TEXT_LENGTH:
        raise click.BadParameter(f"found {quote(value)}, wanted one line of text, at most {MAX_TEXT_LENGTH} characters")
    return value.strip()


def _user_name() -> str:
    """Return the name of the current user.

    Returns an empty string if the system has no name for the user; no option accepts an empty value.
    """
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _env_option(name: str, help_text: str, **settings: Any) -> Callable[[F], F]:
    """Return an option with an environment variable derived from its name."""
    variable = "TOPIARIST_" + name.removeprefix("--").upper().replace("-", "_")
    return option(name, help=help_text, envvar=variable, show_envvar=False, **settings)


def combine_options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    def add(function: F) -> F:
        for each in reversed(options):
            function = each(function)
        return function

    return add


def _pattern_option(name: str, help_text: str) -> Callable[[F], F]:
    help_text = f"{help_text} A name or a pattern; '*' for all."
    return _env_option(
        name, help_text, multiple=True, callback=_check_patterns, metavar="PATTERN", shell_complete=complete_topic
    )


class SecondsRange(click.FloatRange):
    """A time in seconds that is a number: no time ever passes "nan", and a wait until "inf" has no end."""

    name = "number of seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value. Raises ``click.BadParameter`` also for what is no finite number."""
        found = super().convert(value, param, ctx)
        if not isfinite(found):
            self.fail(f"found {found}, wanted a number of seconds", param, ctx)
        return found


def _seconds_option(name: str, default: float, help_text: str) -> Callable[[F], F]:
    kind = SecondsRange(*run_settings.TIME_LIMITS[name.removeprefix("--").replace("-", "_")])
    return _env_option(name, help_text, type=kind, default=default, metavar="SECONDS", show_default=True)


def format_option(formats: Iterable[str]) -> Callable[[F], F]:
    """Return the option ``--format``, passed to the command as ``form``."""
    return option(
        "--format", "form", type=click.Choice([*formats]), default="text", show_default=True, help="Output format."
    )


_file_option = partial(option, type=click.Path(), metavar="FILE")
_path_option = partial(_env_option, type=click.Path(), metavar="PATH")

paths = argument("paths", nargs=-1, type=click.Path(), metavar="[PATH]...")
_clusters_option = _path_option(
    "--clusters",
    "Read Cluster documents from this file or folder too. Can be repeated.",
    multiple=True,
    type=click.Path(allow_dash=True),
)
color = _env_option(
    "--color",
    "Color in text output; auto: on a terminal, unless NO_COLOR is set.",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    callback=_set_color,
    expose_value=False,
)

verbosity = combine_options(
    option("-q", "--quiet", is_flag=True, help="Print only the result, no messages. A plan has one line per topic."),
    option("-v", "--verbose", count=True, help="Print more detail, such as all replica lists and notices."),
    color,
)

kafka_version = _env_option(
    "--kafka-version",
    f"Kafka version of the brokers, {run_settings.RELEASES}. Overrides spec.kafkaVersion of the Cluster.",
    callback=parse_kafka_version,
    metavar="X.Y",
)

cluster_name = _env_option("--cluster", "Name of the new Cluster document. Default: by the address.", metavar="NAME")

manifests = combine_options(
    paths,
    _clusters_option,
    _path_option(
        "--platform",
        "Read Cluster and Policy documents only from this file or folder, and Topics only from the other paths.",
        multiple=True,
    ),
    _env_option(
        "--cluster",
        "Use only this cluster. Topics of other clusters are only counted.",
        metavar="NAME",
        shell_complete=complete_cluster,
    ),
    kafka_version,
    verbosity,
)

clusters = combine_options(
    _clusters_option,
    _env_option("--cluster", "Use only this cluster.", metavar="NAME", shell_complete=complete_cluster),
)
"""Options of commands that read clusters and no Topic manifests; may be combined with ``paths``."""

selection = combine_options(
    _pattern_option("--topic", "Select topics: all others are left out. Can be repeated."),
    _env_option(
        "--selector",
        "Select topics by labels of their manifests, such as team=shop,tier!=test.",
        default="",
        callback=_checked_by(run_settings.check_selector),
        metavar="LABELS",
    ),
)

require_topics = _env_option("--require-topics", "Fail with exit code 1 if the paths contain no Topic.", is_flag=True)

connect_timeout = _seconds_option("--connect-timeout", 10.0, "Time limit for connecting to a cluster.")

connection = combine_options(
    _env_option(
        "--bootstrap-servers",
        "Address of the cluster's brokers, as host:port,host:port. For runs with a single cluster.",
        default="",
        callback=_checked_by(run_settings.check_bootstrap_servers),
        metavar="SERVERS",
    ),
    _env_option(
        "--zookeeper",
        "Address of the cluster's ZooKeeper, as host:port,host:port/chroot, in place of --bootstrap-servers.",
        default="",
        metavar="CONNECT",
    ),
    connect_timeout,
)

summary = option("--summary", is_flag=True, help="Print only the summary of each plan.")

snapshot = _path_option(
    "--snapshot", "Read this snapshot (a file, or a folder of them) instead of connecting to the clusters.", default=""
)

ask_brokers = option(
    "--ask-brokers",
    is_flag=True,
    help="Ask the brokers whether they would refuse the changes (policies, permissions); not through ZooKeeper.",
)

_owner_option = partial(_env_option, "--owner", default="default", metavar="NAME", show_default=True)

owner = _owner_option(
    callback=_checked_by(run_settings.check_owner), help_text="Owner name of this run, as stored in ownership records."
)

any_owner = _owner_option(
    callback=_checked_by(run_settings.check_any_owner),
    help_text="Owner name in ownership records; that of an operator begins with k8s/.",
)
"""The ``--owner`` of commands that write to no cluster; it accepts an operator's owner (``k8s/...``) too."""

ownership = combine_options(
    owner, _pattern_option("--take-ownership", "Take ownership of topics that have another owner.")
)

planning = combine_options(
    ownership,
    _pattern_option("--adopt", "Adopt existing topics without an owner that differ from their manifests."),
    _pattern_option("--recreate", "Recreate topics that another client has deleted."),
    _env_option(
        "--partial",
        "Apply what an exceeded budget does not count; with --plan, apply the topics that have not changed.",
        is_flag=True,
    ),
    _env_option(
        "--without-brokers", "Place no new replicas on these brokers.", callback=_parse_brokers, metavar="ID,..."
    ),
    _env_option("--allow-unknown-brokers", "Allow brokers in replicaAssignment that are not registered.", is_flag=True),
    _env_option(
        "--drain-brokers",
        "Drain these brokers too, as spec.drainBrokers does. spec.moves of the Cluster must allow Drain.",
        callback=_parse_brokers,
        metavar="ID,...",
    ),
    _env_option(
        "--max-moves",
        "Copy at most this many replicas to other brokers: the first ones by topic and partition.",
        type=click.IntRange(*run_settings.COUNT_LIMITS["max_moves"]),
        metavar="N",
    ),
    _env_option(
        "--throttle",
        "Bytes a second that moves copy to each broker, and from each. Overrides spec.moves.throttle of the Cluster.",
        callback=_parse_throttle,
        metavar="50MiB|Unlimited",
    ),
)

lock_timeout = _seconds_option("--lock-timeout", 60.0, "Time limit for waiting until another run has ended.")

waiting = combine_options(
    _env_option("--wait", "Wait until the controller has initialized new partitions and deleted topics.", is_flag=True),
    _seconds_option("--wait-timeout", 300.0, "With --wait: fail after this time without any progress."),
    _env_option(
        "--max-inflight-replicas",
        "With --wait: limit of written replicas per broker that the controller has not initialized yet.",
        type=click.IntRange(*run_settings.COUNT_LIMITS["max_inflight_replicas"]),
        default=MAX_INFLIGHT_REPLICAS_PER_BROKER,
        metavar="N",
        show_default=True,
    ),
)

no_wait = _env_option(
    "--no-wait",
    "Send one batch of moves of replicas at most, and do not wait for it; run again for the next.",
    is_flag=True,
)

freezing = combine_options(
    _env_option(
        "--user",
        "Name of the user who freezes or unfreezes. Default: your user name.",
        default=_user_name,
        callback=_parse_line,
        metavar="NAME",
    ),
    option("--force", is_flag=True, help="Replace or remove a freeze of another user too."),
)

yes = option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")

applying = combine_options(
    _env_option(
        "--allow-risk",
        "Allow changes that may lose data (DataLoss): for the named topics, or for all.",
        multiple=True,
        callback=_parse_risk_approvals,
        metavar="CLASS[=TOPIC,...]",
    ),
    lock_timeout,
    option(
        "-y", "--yes", is_flag=True, help="Do not ask for confirmation. Changes that may lose data need --allow-risk."
    ),
)


reason = option(
    "--reason",
    required=True,
    callback=_parse_line,
    metavar="TEXT",
    help="Reason for the freeze. Every refused run shows it.",
)

evidence = _path_option(
    "--evidence",
    "Earlier snapshots with usage (a file, or a folder of them): what they say of the topics is added to the plan.",
    default="",
)

in_use = combine_options(
    evidence,
    _env_option(
        "--allow-in-use",
        "Delete this topic although it is in use. An exact name; can be repeated.",
        multiple=True,
        callback=_check_names,
        metavar="TOPIC",
        shell_complete=complete_topic,
    ),
)

saved_plan = combine_options(
    _file_option("--plan", "plan_file", help="Apply this plan of plan --out, and read no Topic manifests."),
    _file_option("--reviewed", help="Make a new plan, and apply only the changes that this saved plan contains too."),
    _file_option("--report", help="Append the outcome of each topic to this file, as one line of JSON."),
)


responsible = combine_options(
    option(
        "--owner-label",
        default="",
        metavar="LABEL",
        help="Label of Topics, or else of Clusters, with the responsible team.",
    ),
    _file_option(
        "--codeowners",
        default="",
        help="CODEOWNERS of GitHub, GitLab or Bitbucket, for manifests without that label.",
    ),
)


out = option(
    "--out", type=click.Path(), metavar="FILE", help="Save the plan to this file, for apply --plan or --reviewed."
)


page = option(
    "--page", type=click.Path(), metavar="FILE", help="Write the plan to this file as an HTML page too, for a browser."
)


junit = option(
    "--junit", type=click.Path(), metavar="FILE", help="Write the plan to this file as a JUnit report too, for CI."
)


def build_settings(values: dict[str, Any]) -> Settings:
    """Return the settings of a run, built from the parameters that click passes to a command.

    Raises ``click.UsageError`` if more than one address is given.
    """
    quiet, verbose = values.pop("quiet", False), values.pop("verbose", 0)
    fields = {name: value for name, value in values.items() if name in Settings.__struct_fields__}
    context = click.get_current_context(silent=True)
    given = {name: variable for name, variable in _ADDRESSES.items() if fields.get(name)}
    sources = [
        variable
        if context and context.get_parameter_source(name) is ParameterSource.ENVIRONMENT
        else f"--{name.replace('_', '-')}"
        for name, variable in given.items()
    ]
    if len(sources) > 1:
        raise click.UsageError(f"{' and '.join(sources)} exclude each other: give only one address")
    return Settings(**fields, address_from="".join(sources), verbosity=-1 if quiet else verbose)


def require_separate_files(settings: Settings, outputs: Mapping[str, str | None], *inputs: str | None) -> None:
    """Raise ``click.UsageError`` if a file of ``outputs``, by their options, is one of the others, or is an input.

    ``inputs`` are files beside those of ``settings``. In a folder of manifests, a file that would be one is an input.
    """
    from topiarist.adapters.manifests.files import SUFFIXES  # not above: the help of a command reads no manifests

    seen: dict[Path, str] = {}
    given = (*settings.paths, *settings.clusters, *settings.platform, settings.snapshot, settings.evidence, *inputs)
    for option_name, file in outputs.items():
        if not file:
            continue
        target = Path(file).resolve()
        for path in filter(None, given):
            source = Path(path).resolve()
            if target == source or (target.is_relative_to(source) and target.suffix in SUFFIXES):
                raise click.UsageError(
                    f"{option_name}: found {quote(file)}, an input by {quote(path)}: name another file"
                )
        if target in seen:
            raise click.UsageError(f"{option_name}: found {quote(file)}, as for {seen[target]}: name another file")
        seen[target] = option_name


_ADDRESSES = {"bootstrap_servers": "TOPIARIST_BOOTSTRAP_SERVERS", "zookeeper": "TOPIARIST_ZOOKEEPER"}
"""The parameters for an address, each with its variable."""
