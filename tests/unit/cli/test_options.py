"""Empty values: no empty value lifts a restriction or extends the permissions of a run.

An empty value usually is an unset variable of a script. Every option, variable and field that can be empty is in one of
the tables of this module.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import click
import pytest

from support.builders import document, manifest
from topiarist.cli import options
from topiarist.cli.main import COMMANDS, cli, run
from topiarist.desired import parse
from topiarist.errors import Exit
from topiarist.kubernetes.cache import may_declare
from topiarist.model.plan import Risk, RiskApproval
from topiarist.schema import check

# Options with patterns of topic names: each needs a value, and rejects other options and paths as values.

OPTIONS = ("--adopt", "--take-ownership", "--recreate")
TOPIC = (
    "{apiVersion: topiarist.dev/v1, kind: Topic, metadata: {name: orders}, spec: {partitions: 1, replicationFactor: 1}}"
)

each = pytest.mark.parametrize("option", OPTIONS)


@each
@pytest.mark.parametrize(
    "word", ["--yes", "-q", "--adopt", "--zookeeper=zk:2181", "topics/", "./topics", "a b", "orders,clicks"]
)
def test_a_word_that_is_no_pattern(option: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An option or a path as the pattern is a usage error, so that neither is lost."""
    assert run(["plan", "topics", option, word]) == Exit.USAGE
    said = capsys.readouterr().err
    assert f"Invalid value for '{option}'" in said
    assert f"""wanted a topic name or a pattern such as 'orders.*'; for every topic: {option} '*'""" in said


@each
def test_an_option_without_its_value(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An option without a pattern is a usage error, because it would name no topic."""
    assert run(["plan", "topics", option]) == Exit.USAGE
    assert f"Option '{option}' requires an argument" in capsys.readouterr().err


@each
def test_a_path_beside_an_option_is_not_lost(
    option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``--adopt orders`` beside a file of that name adopts the topic orders, and the path must be given separately."""
    monkeypatch.chdir(tmp_path)
    Path("orders").write_text(TOPIC)
    assert run(["plan", option, "orders", "--zookeeper", "127.0.0.1:1"]) == Exit.USAGE
    assert "give at least one file or folder" in capsys.readouterr().err


@pytest.mark.parametrize("words", [(option, "order") for option in OPTIONS] + [("--allow-risk", "DataLoss=order")])
def test_a_pattern_that_no_topic_has_is_said(
    words: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """stderr reports a pattern that matches no topic, before topiarist connects, and reports no matching pattern."""
    (tmp_path / "orders.yaml").write_text(TOPIC)
    command = ("apply", str(tmp_path), "--zookeeper", "127.0.0.1:1", "--connect-timeout", "0.1", "--yes")
    assert run([*command, *words]) == Exit.ERROR
    assert f"{words[0]}: no topic of the manifests matches order\n" in capsys.readouterr().err
    assert run([*command, words[0], f"{words[1]}s"]) == Exit.ERROR
    assert "no topic of the manifests" not in capsys.readouterr().err


REQUIRED = {
    "describe": ["orders"],
    "export": ["--out", "to"],
    "drift": ["--out", "to"],
    "moves revert": ["report.jsonl"],
    "nudge": ["orders"],
    "unmanage": ["orders"],
    "freeze": ["--reason", "why"],
    "completion": ["bash"],
    "explain": ["Frozen"],
    "import": ["topicctl", "topics"],
}
"""Required arguments and options of each command."""

BLANK = ("", " ", "\t")


def commands() -> Iterator[tuple[str, click.Command]]:
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        yield name, command


def valued() -> list[tuple[str, str]]:
    """Return every option of every command that takes a value."""
    return [
        (name, max(param.opts, key=len))
        for name, command in commands()
        for param in command.params
        if isinstance(param, click.Option) and not param.is_flag and not param.count
    ]


def variables() -> list[tuple[str, str]]:
    """Return every option of every command that has an environment variable, including flags."""
    return [
        (name, param.envvar)
        for name, command in commands()
        for param in command.params
        if isinstance(param, click.Option) and isinstance(param.envvar, str)
    ]


def test_every_option_and_argument_is_of_ours() -> None:
    """Every parameter has a class of topiarist, because the plain classes of click accept empty values."""
    for name, command in commands():
        for param in command.params:
            assert isinstance(param, (options.NonBlankOption, options.NonBlankArgument)), (name, param.name)


@pytest.mark.parametrize("name", COMMANDS)
def test_no_option_takes_an_empty_value(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty value of any option is a usage error, before topiarist reads or connects to anything."""
    for flag, value in product((flag for command, flag in valued() if command == name), BLANK):
        words = REQUIRED.get(name, [])
        assert run([name, f"{flag}={value}", *(words if flag not in words else ())]) == Exit.USAGE
        said = capsys.readouterr().err
        assert f"Invalid value for '{flag}'" in said or f"Invalid value for '-{flag[2]}'" in said, said


@pytest.mark.parametrize("name", COMMANDS)
def test_no_variable_takes_an_empty_value(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A variable with an empty value is a usage error that names the variable."""
    for variable, value in product((variable for command, variable in variables() if command == name), BLANK):
        with monkeypatch.context() as patch:
            patch.setenv(variable, value)
            assert run([name, *REQUIRED.get(name, ())]) == Exit.USAGE
        assert f"{variable} is set, but empty: unset it, or give it a value" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["plan", "validate", "render", "apply", "snapshot", "export", "drift", "describe"])
def test_no_path_is_empty(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty positional argument is a usage error, because it would be ignored or mean the current folder."""
    for value in BLANK:
        assert run([name, *REQUIRED.get(name, ()), value]) == Exit.USAGE
        assert "found an empty value" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_no_option_makes_a_file_with_the_name_of_a_stream(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A ``-`` is standard input or output; where an option takes neither, it is a usage error and no file."""
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    for param in command.params:
        if isinstance(param, click.Option) and isinstance(param.type, click.Path) and not param.type.allow_dash:
            flag = max(param.opts, key=len)
            words = REQUIRED.get(name, [])
            assert run([name, f"{flag}=-", *(words if flag not in words else ())]) == Exit.USAGE
            assert f"Invalid value for '{flag}': found \"-\", wanted a file or a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    "value", ["DataLoss=", "DataLoss=,", "DataLoss=a,,b", "DataLoss=a,", "DataLoss= ", "DataLoss=a b"]
)
def test_an_allowance_names_topics_or_all(
    value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty list and a list with an empty name are usage errors, also from the environment."""
    assert run(["apply", "topics", "--yes", "--allow-risk", value]) == Exit.USAGE
    assert "Invalid value for '--allow-risk'" in capsys.readouterr().err
    monkeypatch.setenv("TOPIARIST_ALLOW_RISK", value.replace("a b", "a,"))
    assert run(["apply", "topics", "--yes"]) == Exit.USAGE
    assert "Invalid value for 'TOPIARIST_ALLOW_RISK'" in capsys.readouterr().err


def test_an_allowance_without_topics_covers_none() -> None:
    """An allowance without a topic name covers no topic."""
    assert not RiskApproval(Risk.DATA_LOSS, ()).covers("orders")
    assert RiskApproval(Risk.DATA_LOSS, ("*",)).covers("orders")
    assert RiskApproval(Risk.DATA_LOSS, ("orders",)).covers("orders")
    assert not RiskApproval(Risk.DATA_LOSS, ("orders",)).covers("orders2")


NONE_OF_THEM = (
    *("--without-brokers=,", "--without-brokers=1,,2", "--without-brokers=1,"),
    *("--drain-brokers=5,", "--drain-brokers=-1", "--drain-brokers=5;6"),
)


@pytest.mark.parametrize("word", NONE_OF_THEM)
def test_a_list_of_brokers_has_no_empty_place(word: str) -> None:
    """A broker list with an empty entry is a usage error, because the missing broker would get replicas."""
    assert run(["plan", "topics", word]) == Exit.USAGE


@pytest.mark.parametrize("word", ["50", "0MiB", "50MB", "50 MiB", "-1MiB", "unlimited", "None", "1.5MiB"])
def test_a_throttle_has_a_unit(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A throttle is a rate as in a manifest; a number alone, or an unknown unit, is a usage error."""
    assert run(["apply", "topics", "--yes", "--throttle", word]) == Exit.USAGE
    assert "wanted a rate in whole KiB, MiB or GiB, or Unlimited" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["0", "-1", "many"])
def test_a_limit_of_moves_is_a_number_from_one(word: str) -> None:
    """``--max-moves 0`` would be a run that moves nothing and says that it is limited."""
    assert run(["plan", "topics", "--max-moves", word]) == Exit.USAGE


@pytest.mark.parametrize("words", [("--drain-brokers", "5"), ("--max-moves", "3")])
def test_a_saved_plan_is_neither_drained_nor_limited_later(
    words: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Options that decide what is moved are given when the plan is made; ``--throttle`` is pace and may be given."""
    assert run(["apply", "--plan", "absent.json", "--yes", *words]) == Exit.USAGE
    assert f"give {words[0]} when the plan is made" in capsys.readouterr().err
    assert run(["apply", "--plan", "absent.json", "--yes", "--throttle", "5MiB"]) == Exit.ERROR


RULES = [{"name": "small", "expression": "true", "message": "as small as that"}]

REFUSED = [
    document("Topic", clusters=[]),
    document("Topic", clusters=[""]),
    document("Topic", replicaAssignment=[]),
    document("Topic", replicaAssignment=[[]]),
    document("Topic", overrides=[{"clusters": [], "partitions": 3}]),
    document("Policy", rules=[]),
    document("Policy", rules=RULES, selector={}),
    document("Policy", rules=RULES, selector={"topics": []}),
    document("Policy", rules=RULES, selector={"topics": [""]}),
    document("Policy", rules=RULES, selector={"clusters": []}),
    document("Policy", rules=RULES, selector={"clusters": [""]}),
    document("Policy", rules=RULES, selector={"matchLabels": {}}),
    document("Policy", rules=RULES, selector={"clusterSelector": {}}),
    document("Policy", rules=RULES, selector={"clusterSelector": {"matchLabels": {}}}),
    document("Cluster", allowedTopics=[{"names": []}]),
    document("Cluster", allowedTopics=[{"namespaces": {"from": "Selector", "selector": {}}}]),
    document("Cluster", allowedTopics=[{"namespaces": {"from": "Selector", "selector": {"matchLabels": {}}}}]),
    document("Cluster", allowedTopics=[{"namespaces": {"from": "Selector", "selector": {"matchExpressions": []}}}]),
    document("Cluster", adopt=[""]),
    document("Cluster", protected=[""]),
    document("Cluster", allowUnknownConfigs=[""]),
    document("Cluster", zookeeper={"connect": ""}),
    document("Cluster", kafka={"bootstrapServers": ""}),
    document("Cluster", clusterId=""),
]
"""Empty fields that the schema refuses, because their meaning is ambiguous."""


@pytest.mark.parametrize("wrong", REFUSED, ids=lambda one: f"{one['kind']} {one['spec']}")
def test_an_empty_field_that_would_be_a_guess_is_refused(wrong: dict[str, Any]) -> None:
    """Each ambiguous empty field is an error of the schema."""
    assert list(check.check(wrong))


def test_a_list_without_entries_allows_nothing() -> None:
    """An empty list in a Cluster permits nothing: no adoption, no risk, no namespace, no unknown key."""
    empty = ("adopt", "allowRisk", "allowedTopics", "allowUnknownConfigs", "excludeBrokers")
    body = document("Cluster", "prod", **{field: list[str]() for field in empty})
    assert not list(check.check(body))
    spec = parse.parse_cluster_spec(manifest("prod", **body["spec"]))
    assert (spec.adopt, spec.allow_risk, spec.allowed_topics) == ((), frozenset(), ())
    assert (spec.allow_unknown_configs, spec.exclude_brokers) == ((), frozenset())
    assert not may_declare(spec.allowed_topics, "team", "orders", cluster_namespace="team", namespaces={"team": {}})


def test_a_rule_without_namespaces_is_for_the_own_one() -> None:
    """A rule without namespaces covers only the namespace of its own Cluster."""
    body = document("Cluster", allowedTopics=[{"namespaces": {}}])
    assert not list(check.check(body))
    rules = parse.parse_cluster_spec(manifest("prod", **body["spec"])).allowed_topics
    assert may_declare(rules, "team", "orders", cluster_namespace="team", namespaces={})
    assert not may_declare(rules, "other", "orders", cluster_namespace="team", namespaces={"other": {}})


SECONDS = [
    (name, option.opts[0])
    for name in COMMANDS
    for option in (cli.get_command(click.Context(cli), name) or cli).params
    if isinstance(option, click.Option) and option.metavar == "SECONDS" and isinstance(option.type, click.FloatRange)
]


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(("command", "option"), SECONDS)
def test_a_time_limit_is_a_finite_number(
    command: str, option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No wait would end at "nan": each comparison with it is false."""
    assert run([*command.split(), option, value]) == Exit.USAGE
    assert option in (said := capsys.readouterr().err)
    assert f"found {value}, wanted a number of seconds" in said or "is not in the range" in said


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("apply", "topics", "--yes", "--wait-timeout", "600"), "--wait-timeout is for --wait"),
        (("apply", "topics", "--yes", "--max-inflight-replicas", "9"), "--max-inflight-replicas is for --wait"),
        (("init", "topics", "--cluster", "prod"), "--cluster is for an export: give --bootstrap-servers"),
        (("upgrade-check", "topics", "--offline", "--zookeeper", "zk:2181"), "--zookeeper is not for --offline"),
        (("init", "topics", "--no-units"), "--units/--no-units is for an export: give --bootstrap-servers"),
    ],
)
def test_an_option_without_effect_is_a_usage_error(
    words: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An option that another one needs is not ignored: a run would not wait although its time limit is given."""
    assert run(list(words)) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("TOPIARIST_WAIT", "maybe", "'maybe' is not a valid boolean"),
        ("TOPIARIST_CONNECT_TIMEOUT", "abc", "'abc' is not a valid number of seconds"),
        ("TOPIARIST_DRAIN_BROKERS", "b1", 'found "b1", wanted broker ids'),
        ("TOPIARIST_SNAPSHOT", "-", 'found "-", wanted a file or a folder'),
    ],
)
def test_an_error_names_the_variable_that_gave_the_value(
    variable: str, value: str, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who did not give an option would search the command line for it."""
    monkeypatch.setenv(variable, value)
    assert run(["describe" if variable == "TOPIARIST_SNAPSHOT" else "apply", "topics"]) == 2
    assert f"Invalid value for '{variable}': {message}" in capsys.readouterr().err


def test_a_variable_without_effect_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A variable is set for all runs, also for those that do not wait."""
    monkeypatch.setenv("TOPIARIST_WAIT_TIMEOUT", "600")
    assert run(["apply", str(tmp_path), "--yes"]) == 2
    assert "found no cluster" in capsys.readouterr().err
