"""Checks of single settings, and of all settings of a caller in Python.

Options of the command line and ``topiarist.api`` accept the same values: the callbacks of ``cli.options`` and
``check_settings`` call the same functions. These raise ``ValueError`` with the found and the wanted value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from topiarist.desired.resolve import parse_label_selector
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.types import MAX_KAFKA_VERSION, MIN_KAFKA_VERSION, KafkaVersion, format_version, topic_name_problem
from topiarist.model.outcome import ALL_TOPICS, RiskApproval
from topiarist.model.plan import Risk
from topiarist.runs.settings import RunSettings
from topiarist.text import quote

OWNER_REGEX = re.compile(r"[A-Za-z0-9._/-]{1,200}")
_TOPIC_PATTERN_REGEX = re.compile(r"[A-Za-z0-9._*?\[\]!-]+")
_HOST_AND_PORT = r"([^\s,:/\[\]]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}"
_BOOTSTRAP_SERVERS_REGEX = re.compile(f"{_HOST_AND_PORT}(,{_HOST_AND_PORT})*")
_KAFKA_VERSION_REGEX = re.compile(r"([234])[.]([0-9])([.][0-9]+)?")

TIME_LIMITS = {"connect_timeout": (0.1, 600.0), "lock_timeout": (0.0, 3600.0), "wait_timeout": (0.0, 86_400.0)}
"""The lowest and the highest value of each time limit, in seconds."""

COUNT_LIMITS = {"max_moves": (1, 1_000_000_000), "max_inflight_replicas": (1, 1_000_000)}
"""The lowest and the highest value of each count."""


def parse_kafka_version(text: str) -> KafkaVersion:
    """Return the release in text such as ``3.9`` or ``3.9.2``, if topiarist supports it."""
    match = _KAFKA_VERSION_REGEX.fullmatch(text)
    release = (int(match[1]), int(match[2])) if match else (0, 0)
    if not MIN_KAFKA_VERSION <= release <= MAX_KAFKA_VERSION:
        raise ValueError(f"found {quote(text)}, {_WANTED_RELEASE}")
    return release


_WANTED_RELEASE = (
    f"wanted a Kafka release from {format_version(MIN_KAFKA_VERSION)} to {format_version(MAX_KAFKA_VERSION)}"
)


def check_bootstrap_servers(text: str) -> None:
    """Raise ``ValueError`` unless the text is a list of addresses of brokers, each with its port."""
    if not _BOOTSTRAP_SERVERS_REGEX.fullmatch(text):
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


def check_settings(settings: RunSettings) -> None:
    """Raise ``TopiaristError`` (WrongUsage) with every setting that no option would accept."""
    if not isinstance(settings, RunSettings):
        raise TopiaristError(Reason.WRONG_USAGE, f"found {type(settings).__name__}, wanted RunSettings")
    problems = [*_find_problems(settings)] or [*_find_contradictions(settings)]
    if problems:
        raise TopiaristError(Reason.WRONG_USAGE, "\n".join(problems), "correct the RunSettings of this run")


def _find_problems(settings: RunSettings) -> Iterator[str]:
    types = RunSettings.__annotations__
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
    is_pair = isinstance(value, tuple) and len(value) == 2 and all(type(part) is int for part in value)
    if not is_pair or not MIN_KAFKA_VERSION <= value <= MAX_KAFKA_VERSION:
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
    "bootstrap_servers": lambda text: check_bootstrap_servers(text) if text else None,
    "owner": check_owner,
    "selector": parse_label_selector,
    **{name: partial(check_pattern, option=name) for name in ("topic", "adopt", "take_ownership", "recreate")},
}
