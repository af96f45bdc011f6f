"""Settings of a caller in Python: every value that no option accepts is an error that names the setting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from topiarist.api import approve_risk
from topiarist.errors import Reason, TopiaristError
from topiarist.model.plan import Risk, RiskApproval
from topiarist.runs.settings import RunSettings, check_settings

INVALID: list[tuple[dict[str, Any], str]] = [
    ({"paths": "topics"}, 'paths: found str "topics", wanted a tuple of texts'),
    ({"paths": ["topics"]}, "wanted a tuple of texts"),
    ({"paths": (Path("topics"),)}, 'PosixPath "topics", wanted text'),
    ({"paths": ("-",)}, "paths: found -, wanted a file or a folder: standard input is not read"),
    ({"platform": ("",)}, "platform: found an empty value"),
    ({"clusters": (" ",)}, "clusters: found an empty value"),
    ({"cluster": ""}, "cluster: found an empty value"),
    ({"cluster": 3}, "wanted text"),
    ({"zookeeper": " "}, "zookeeper: found an empty value"),
    ({"bootstrap_servers": "b1"}, 'bootstrap_servers: found "b1", wanted host:port,host:port'),
    ({"kafka_version": "3.9"}, "wanted a Kafka release from 2.4 to 4.4 as two numbers, such as (3, 9)"),
    ({"kafka_version": (1, 0)}, "wanted a Kafka release"),
    ({"owner": "k8s/ops"}, 'owner: found "k8s/ops", but owners that begin with k8s/ are operators'),
    ({"owner": ""}, "owner: found"),
    ({"adopt": ("--partial",)}, 'adopt: found "--partial", wanted a topic name or a pattern'),
    ({"topic": ("a b",)}, "wanted a topic name or a pattern such as 'orders.*'; for every topic: topic '*'"),
    ({"selector": "team in shop"}, "selector: "),
    ({"without_brokers": {1}}, "wanted a frozenset of broker ids"),
    ({"drain_brokers": frozenset({-1})}, "wanted a frozenset of broker ids"),
    ({"partial": 1}, 'partial: found int "1", wanted True or False'),
    ({"max_moves": 0}, "wanted a whole number from 1 to 1,000,000,000"),
    ({"max_moves": True}, "wanted a whole number"),
    ({"throttle": -1}, "wanted a whole number from 0"),
    ({"allow_risk": ("DataLoss",)}, "wanted a tuple of RiskApproval, as approve_risk returns it"),
    ({"lock_timeout": float("nan")}, "wanted 0 to 3600 seconds"),
    ({"connect_timeout": 0}, "wanted 0.1 to 600 seconds"),
    ({"bootstrap_servers": "b1:1", "zookeeper": "zk1"}, "bootstrap_servers and zookeeper exclude each other"),
    ({"snapshot": "s", "ask_brokers": True}, "snapshot and ask_brokers exclude each other"),
    ({"wait": True, "no_wait": True}, "wait and no_wait exclude each other"),
]


@pytest.mark.parametrize(("given", "message"), INVALID, ids=[f"{given}" for given, _ in INVALID])
def test_an_invalid_setting_is_named(given: dict[str, Any], message: str) -> None:
    """The error has the setting, the found and the wanted value."""
    with pytest.raises(TopiaristError) as raised:
        check_settings(RunSettings(**given))
    assert raised.value.reason is Reason.WRONG_USAGE
    assert message in str(raised.value)


def test_all_problems_come_at_once() -> None:
    """Each problem has a line."""
    with pytest.raises(TopiaristError, match=r"paths: .*\nwait_timeout: .*\nowner: "):
        check_settings(RunSettings(paths="x", owner="a b", wait_timeout=-1))  # type: ignore[arg-type]


def test_the_defaults_and_good_values_pass() -> None:
    """Every field has a check, and unset fields are valid."""
    check_settings(RunSettings())
    check_settings(
        RunSettings(
            ("topics",),
            cluster="prod",
            kafka_version=(3, 9),
            throttle=0,
            max_moves=1,
            selector="team=shop",
            without_brokers=frozenset({0}),
            allow_risk=(approve_risk(Risk.DATA_LOSS, ["clicks"]),),
            lock_timeout=0,
        )
    )


def test_other_values_are_no_settings() -> None:
    """A caller that passes a folder in place of settings gets an error of topiarist."""
    with pytest.raises(TopiaristError, match="found str, wanted RunSettings"):
        check_settings("topics")  # type: ignore[arg-type]


def test_an_approval_names_its_topics() -> None:
    """All topics are approved by ``*`` alone, and never by an empty list or by a text."""
    assert approve_risk(Risk.DATA_LOSS, ["a", "b"]) == RiskApproval(Risk.DATA_LOSS, ("a", "b"))
    assert approve_risk(Risk.DATA_LOSS, ("*",)) == RiskApproval(Risk.DATA_LOSS, ("*",))
    for topics in ([], "orders", ["a", "*"], ["a,b "], [""], [None]):
        with pytest.raises(TopiaristError) as raised:
            approve_risk(Risk.DATA_LOSS, topics)  # type: ignore[arg-type]
        assert raised.value.reason is Reason.WRONG_USAGE
