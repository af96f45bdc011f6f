"""The settings of a run in one value, the checks of their values, and the listener that gets the messages of the run.

The command line builds the settings from options and environment, and callers of ``topiarist.api`` build them
themselves; nothing below reads options or environment. Both accept the same values: the callbacks of ``cli.options``
and ``check_settings`` call the same functions, which raise ``ValueError`` with the found and the wanted value.

The help of every command needs this module, so it imports little.

To add a setting of a run, and the option of it:

1. Add a field to ``RunSettings``, with its meaning in the docstring; one that planning reads is a field of
   ``Permissions`` in ``model/plan.py``. ``check_settings`` checks it by its type; a type that is new needs a row
   in ``_CHECKS``, a value with a form of its own one in ``_FURTHER_CHECKS``.
2. Add the option of the same name to a group of ``cli.options``, with a callback that calls the same check.
3. Run ``make golden`` and ``make generate``, which write the Python interface and ``docs/cli.md``. Run ``make check``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from topiarist.errors import Diagnostic, Reason, TopiaristError
from topiarist.kafka.types import KAFKA_VERSIONS, KafkaVersion, format_version, topic_name_problem
from topiarist.model.plan import (
    ALL_TOPICS,
    MAX_INFLIGHT_REPLICAS_PER_BROKER,
    Permissions,
    Risk,
    RiskApproval,
    RunOptions,
)
from topiarist.text import quote

if TYPE_CHECKING:
    from topiarist.desired.resolve import TopicSelection
    from topiarist.model.moves import MoveProgress
    from topiarist.model.outcome import Outcome
    from topiarist.model.plan import Plan, TopicPlan


# Messages and outcomes of a run: a listener gets them while the run works.
#
# Nothing in ``topiarist.runs`` prints or logs. The command line implements the listener with its terminal, and a caller
# of the interface may collect the messages.


class RunListener:
    """A receiver of the messages of a run; each method does nothing.

    Texts may contain characters of manifests and servers that a terminal interprets. Methods may be called from several
    threads. ``owns_process`` is true if the process does nothing beside the run. The run may then read standard input,
    and fork the process to parse many files on two processors.
    """

    owns_process = False

    def on_message(self, text: str, *, important: bool = False) -> None:
        """Receive a message of one or more lines; one that is not ``important`` may be left out."""

    def on_detail(self, text: str) -> None:
        """Receive a message of one line that only a verbose caller needs."""

    def on_pause(self, text: str) -> None:
        """Receive why the run makes no progress now: an address that does not answer yet, or a throttled cluster."""

    def on_error(self, error: TopiaristError, cluster: str = "") -> None:
        """Receive an error that does not end the run: that of one cluster, or of documents that are left out."""

    def on_warnings(self, warnings: Sequence[Diagnostic]) -> None:
        """Receive the warnings about manifests, sorted by location."""

    def on_outcome(self, plan: Plan, topic: TopicPlan, outcome: Outcome) -> None:
        """Receive the outcome of a topic of ``plan``."""

    def on_late_outcome(self, plan: Plan, topic: TopicPlan, outcome: Outcome) -> None:
        """Receive an outcome that replaces an earlier one: the run has waited for the controller."""

    def on_move_progress(self, plan: Plan, progress: MoveProgress) -> None:
        """Receive how far the moves and elections of ``plan`` are."""

    def on_cluster_finished(self, plan: Plan) -> None:
        """Receive that nothing more is sent to the cluster of ``plan``."""


SILENT = RunListener()
"""A listener that ignores all messages."""


class WrongSettings(TopiaristError):
    """An error (WrongUsage) of settings that are missing, or that exclude each other."""

    def __init__(self, message: str) -> None:
        super().__init__(Reason.WRONG_USAGE, message)


class RunSettings(Permissions, frozen=True):
    """The settings of one run; each has the name and the meaning of an option of ``topiarist apply``.

    Times are in seconds. ``paths`` are files and folders with manifests, ``clusters`` and ``platform`` those with
    Cluster documents. ``zookeeper`` is a connect string with chroot, ``bootstrap_servers`` a list of addresses of
    brokers, ``snapshot`` a file or folder; each is empty if not given, and at most one of the two addresses is given.
    ``kafka_version`` is major and minor: ``(3, 9)``. ``topic`` has patterns of names, ``selector`` is a label selector.
    ``adopt``, ``take_ownership`` and ``recreate`` have patterns of topics, and ``allow_risk`` the approvals of changes
    that may lose data. ``max_moves`` is a number of copied replicas; None is no limit. ``throttle`` is in bytes a
    second; 0 is unlimited, and None leaves it to the Cluster. ``evidence`` is a file or folder of earlier snapshots
    with usage, empty if not given; ``allow_in_use`` has exact names of topics that may be deleted although in use.
    """

    paths: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    cluster: str | None = None
    zookeeper: str = ""
    bootstrap_servers: str = ""
    snapshot: str = ""
    ask_brokers: bool = False
    kafka_version: KafkaVersion | None = None
    throttle: int | None = None
    platform: tuple[str, ...] = ()
    require_topics: bool = False
    topic: tuple[str, ...] = ()
    selector: str = ""
    partial: bool = False
    allow_risk: tuple[RiskApproval, ...] = ()
    connect_timeout: float = 10.0
    lock_timeout: float = 60.0
    wait: bool = False
    wait_timeout: float = 300.0
    no_wait: bool = False
    max_inflight_replicas: int = MAX_INFLIGHT_REPLICAS_PER_BROKER
    evidence: str = ""
    allow_in_use: tuple[str, ...] = ()

    @property
    def address_option(self) -> str:
        """The option of the address that the run was given, by itself or by its variable; empty if there is none."""
        return "--zookeeper" if self.zookeeper else "--bootstrap-servers" if self.bootstrap_servers else ""

    @property
    def address_source(self) -> str:
        """The name of the setting that gave the address, for messages; empty if there is none."""
        return self.address_option

    def allows_in_use(self, topic: str, _usage: object = None) -> bool:
        """Return whether a topic may be deleted although it is in use, or its use is not known."""
        return topic in self.allow_in_use

    @property
    def selection(self) -> TopicSelection:
        """The selection of topics; it has no text if all topics are selected."""
        from topiarist.desired.resolve import TopicSelection, parse_label_selector

        given = [f"--topic {pattern}" for pattern in self.topic]
        given += [f"--selector {self.selector}"] if self.selector else []
        return TopicSelection(self.topic, parse_label_selector(self.selector), " ".join(given))

    @property
    def run_options(self) -> RunOptions:
        """The options that planning needs."""
        permissions = {name: getattr(self, name) for name in Permissions.__struct_fields__}
        return RunOptions(**permissions, selection=self.selection.text)


_RELEASES = {format_version(version): version for version in KAFKA_VERSIONS}
RELEASES = f"{format_version(KAFKA_VERSIONS[0])} to {format_version(KAFKA_VERSIONS[-1])}"
"""The supported releases of Kafka, for help texts and messages."""

_WANTED_RELEASE = f"wanted a Kafka release from {RELEASES}"
_KAFKA_VERSION_REGEX = re.compile(r"([0-9]+[.][0-9]+)([.][0-9]+)?")
OWNER_REGEX = re.compile(r"[A-Za-z0-9._/-]{1,200}")
_TOPIC_PATTERN_REGEX = re.compile(r"[A-Za-z0-9._*?\[\]!-]+")
_HOST_AND_PORT = r"([^\s,:/\[\]]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}"
_BOOTSTRAP_SERVERS_REGEX = re.compile(f"{_HOST_AND_PORT}(,{_HOST_AND_PORT})*")

TIME_LIMITS = {"connect_timeout": (0.1, 600.0), "lock_timeout": (0.0, 3600.0), "wait_timeout": (0.0, 86_400.0)}
"""The lowest and the highest value of each time limit, in seconds."""

COUNT_LIMITS = {"max_moves": (1, 1_000_000_000), "max_inflight_replicas": (1, 1_000_000)}
"""The lowest and the highest value of each count."""


def parse_kafka_version(text: str) -> KafkaVersion:
    """Return the release in text such as ``3.9`` or ``3.9.2``, if topiarist supports it."""
    match = _KAFKA_VERSION_REGEX.fullmatch(text)
    release = _RELEASES.get(match[1]) if match else None
    if release is None:
        raise ValueError(f"found {quote(text)}, {_WANTED_RELEASE}")
    return release


def check_bootstrap_servers(text: str) -> None:
    """Raise ``ValueError`` unless the text is a list of addresses of brokers, each with its port, or empty."""
    if text and not _BOOTSTRAP_SERVERS_REGEX.fullmatch(text):
        raise ValueError(f"found {quote(text)}, wanted host:port,host:port without blanks")


def check_any_owner(owner: str) -> None:
    """Raise ``ValueError`` unless the text can be the owner of an ownership record."""
    if not OWNER_REGEX.fullmatch(owner):
        raise ValueError(f"found {quote(owner)}, wanted 1 to 200 letters, digits, . _ - /")


def check_owner(owner: str) -> None:
    """Raise ``ValueError`` unless a run that is no operator may write with this owner."""
    if owner.startswith("k8s/"):
        raise ValueError(f"found {quote(owner)}, but owners that begin with k8s/ are operators")
    check_any_owner(owner)


def check_selector(text: str) -> None:
    """Raise ``ValueError`` unless the text is a label selector."""
    from topiarist.desired.resolve import parse_label_selector

    parse_label_selector(text)


def check_pattern(value: str, option: str) -> None:
    """Raise ``ValueError`` for a pattern that can match no topic; ``option`` is its option, for the message.

    Such a value was probably meant for another option.
    """
    if value.startswith("-") or not _TOPIC_PATTERN_REGEX.fullmatch(value):
        raise ValueError(
            f"found {quote(value)}, wanted a topic name or a pattern such as 'orders.*'; for every topic: {option} '*'"
        )


def parse_risk_approval(text: str) -> RiskApproval:
    """Return the approval in text such as ``DataLoss=orders,clicks``; ``DataLoss`` alone is for all topics.

    Raises ``ValueError`` for an unknown risk, and for a name that no topic can have.
    """
    classes = {risk.label: risk for risk in Risk}
    label, equals, names = text.partition("=")
    if label not in classes:
        raise ValueError(f"found {quote(label)}, wanted one of {', '.join(classes)}")
    topics = tuple(names.split(",")) if equals else ALL_TOPICS
    if problem := next(filter(None, map(topic_name_problem, topics if equals else ())), ""):
        raise ValueError(f"{quote(text)}: {problem}; to mean every topic, write {label} without =")
    return RiskApproval(classes[label], topics)


def check_settings(settings: RunSettings, *, needs_paths: bool = False) -> None:
    """Raise ``TopiaristError`` (WrongUsage) with every setting that no option would accept, or that is missing."""
    if not isinstance(settings, RunSettings):
        raise TopiaristError(Reason.WRONG_USAGE, f"found {type(settings).__name__}, wanted RunSettings")
    problems = [*_find_problems(settings)] or [*_find_contradictions(settings)]
    if needs_paths and not settings.paths:
        problems.append("paths: give at least one file or folder with manifests")
    if problems:
        raise TopiaristError(Reason.WRONG_USAGE, "\n".join(problems), "correct the RunSettings of this run")


def _find_problems(settings: RunSettings) -> Iterator[str]:
    types = Permissions.__annotations__ | RunSettings.__annotations__
    for name in RunSettings.__struct_fields__:
        value = getattr(settings, name)
        if name in _OPTIONAL and value is None:
            continue
        try:
            _CHECKS[types[name]](name, value)
            if check := _FURTHER_CHECKS.get(name):
                for text in value if isinstance(value, tuple) else (value,):
                    check(text)
        except ValueError as error:
            yield f"{name}: {error}"


def _find_contradictions(settings: RunSettings) -> Iterator[str]:
    for first, second in (("bootstrap_servers", "zookeeper"), ("snapshot", "ask_brokers"), ("wait", "no_wait")):
        if getattr(settings, first) and getattr(settings, second):
            yield f"{first} and {second} exclude each other"


def _check_text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise ValueError(f"found {_describe(value)}, wanted text")
    if (value or name == "cluster") and not value.strip():
        raise ValueError("found an empty value: leave it out, or give it a value")


def _check_texts(name: str, value: Any) -> None:
    if not isinstance(value, tuple):
        raise ValueError(f"found {_describe(value)}, wanted a tuple of texts")
    for part in value:
        _check_text(name, part)
        if not part:
            raise ValueError("found an empty value: leave it out, or give it a value")


def _check_brokers(_name: str, value: Any) -> None:
    if not isinstance(value, frozenset) or not all(type(each) is int and 0 <= each < 10**9 for each in value):
        raise ValueError(f"found {_describe(value)}, wanted a frozenset of broker ids")


def _check_switch(_name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise ValueError(f"found {_describe(value)}, wanted True or False")


def _check_seconds(name: str, value: Any) -> None:
    low, high = TIME_LIMITS[name]
    if type(value) not in (int, float) or not low <= value <= high:
        raise ValueError(f"found {_describe(value)}, wanted {low:g} to {high:g} seconds")


def _check_count(name: str, value: Any) -> None:
    low, high = COUNT_LIMITS.get(name, (0, 2**63 - 1))
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"found {_describe(value)}, wanted a whole number from {low:,} to {high:,}")


def _check_version(_name: str, value: Any) -> None:
    is_pair = isinstance(value, tuple) and all(type(part) is int for part in value)
    if not is_pair or value not in KAFKA_VERSIONS:
        raise ValueError(f"found {_describe(value)}, {_WANTED_RELEASE} as two numbers, such as (3, 9)")


def _check_approvals(_name: str, value: Any) -> None:
    if not isinstance(value, tuple) or not all(isinstance(each, RiskApproval) for each in value):
        raise ValueError(f"found {_describe(value)}, wanted a tuple of RiskApproval, as approve_risk returns it")


def _check_no_stdin(path: str) -> None:
    if path == "-":
        raise ValueError("found -, wanted a file or a folder: standard input is not read")


def _describe(value: Any) -> str:
    return f"{type(value).__name__} {quote(str(value))}"


_OPTIONAL = ("cluster", "kafka_version", "max_moves", "throttle")
_CHECKS: dict[str, Callable[[str, Any], None]] = {
    "str": _check_text,
    "str | None": _check_text,
    "tuple[str, ...]": _check_texts,
    "frozenset[int]": _check_brokers,
    "bool": _check_switch,
    "float": _check_seconds,
    "int": _check_count,
    "int | None": _check_count,
    "KafkaVersion | None": _check_version,
    "tuple[RiskApproval, ...]": _check_approvals,
}
_FURTHER_CHECKS: dict[str, Callable[[str], object]] = {
    **dict.fromkeys(("paths", "clusters", "platform"), _check_no_stdin),
    "bootstrap_servers": check_bootstrap_servers,
    "owner": check_owner,
    "selector": check_selector,
    **{name: partial(check_pattern, option=name) for name in ("topic", "adopt", "take_ownership", "recreate")},
}
