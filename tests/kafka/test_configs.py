"""Config changes of topiarist, as real brokers take them up: at once, every valid value, no harm at their restart."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping

from kafka.config_samples import edge_values
from support.kafka.jars import NEWEST
from support.kafka.kafka_fixture import KafkaFixture
from topiarist.errors import Exit
from topiarist.kafka import config_rules, config_values
from topiarist.kafka.config_rules import is_min_isr_above
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.types import KafkaVersion

KEY = "max.message.bytes"
"""A config whose effect can be seen at once, on every leader: larger messages are refused."""

IN_TIME = 5.0
"""Seconds after which brokers should have followed; reported, while the tests wait longer: a machine may be busy."""

TOO_SMALL = {
    ("max.message.bytes", "0"): "RecordTooLargeException",
    ("segment.bytes", "14"): "RecordBatchTooLargeException",
}
"""Values that are valid and let no message through: what a producer is told."""

TOO_LATE = {
    ("message.timestamp.before.max.ms", "0"): "InvalidTimestampException",
    ("message.timestamp.after.max.ms", "0"): "InvalidTimestampException",
    ("message.timestamp.difference.max.ms", "0"): "InvalidTimestampException",
}
"""Values that let only those messages through that arrive within the millisecond."""


def release_of(bed: KafkaFixture) -> KafkaVersion:
    """The release as our table of configs has it."""
    major, minor = bed.kafka.version.split(".")
    return int(major), int(minor)


def test_brokers_follow_a_change_at_once(racked: KafkaFixture, report: Callable[[str], None]) -> None:
    """Set, changed, removed: every leader acts on the value, and Kafka's own tools show it; nothing is restarted."""
    leaders = [[broker] for broker in racked.kafka.racks]
    small, large = "s" * 150, "l" * 5000
    racked.declare({"followed": {"replicaAssignment": leaders}})
    racked.apply()
    racked.describe_in_sync(["followed"])
    pids = {broker: process.pid for broker, process in racked.kafka.brokers.items()}
    for what, value, taken, refused in (
        ("set", 300, small, large),
        ("changed", 100_000, large, ""),
        ("removed", None, large, ""),
    ):
        racked.declare({"followed": {"replicaAssignment": leaders, "config": {KEY: value} if value else {}}})
        racked.apply()
        seconds = followed(racked, None if value is None else str(value), taken, refused)
        judged = "" if seconds <= IN_TIME else f", wanted {IN_TIME:g}"
        report(f"Kafka {racked.kafka.release}: {what}, all leaders followed after {seconds:.2f} s{judged}")
        tool = racked.kafka.tool(
            *("kafka-configs", "--bootstrap-server", racked.kafka.bootstrap, "--describe"),
            *("--entity-type", "topics", "--entity-name", "followed"),
            release=NEWEST,
        )
        assert re.findall(rf"{KEY}=(\d+) ", tool.out) == ([str(value)] if value else []), tool
    assert {broker: process.pid for broker, process in racked.kafka.brokers.items()} == pids


def followed(bed: KafkaFixture, value: str | None, taken: str, refused: str) -> float:
    """Seconds until Kafka's API shows a value (None: the default) and all leaders take and refuse as they should."""
    begin, leaders = time.monotonic(), len(bed.kafka.racks)

    def as_it_should() -> bool:
        if bed.clients.overrides(["followed"])["followed"].get(KEY) != value:
            return False
        through = bed.clients.produce({"followed": leaders}, taken)["followed"]
        stopped = bed.clients.produce({"followed": leaders}, refused)["followed"] if refused else []
        return not any(isinstance(one, str) for one in through) and all(isinstance(one, str) for one in stopped)

    bed.kafka.wait(as_it_should, f"{KEY} to be {value} for all leaders")
    return time.monotonic() - begin


def edge_cases(release: KafkaVersion) -> dict[str, dict[str, str]]:
    """A map of overrides for each edge of each config of a release, if topiarist accepts it, by a topic's name."""
    found = {}
    for name, definition in TOPIC_CONFIGS.items():
        for number, text in enumerate(
            edge_values(definition, release) if config_rules.is_supported(name, release) else ()
        ):
            config = {name: text}
            if name.startswith("local.retention."):  # must not be more than what is kept in all
                config[name.removeprefix("local.")] = text if release < (3, 6) else "-1"
            if acceptable(config, release):
                found[f"{name}-{number}"] = config
    return found


def acceptable(config: Mapping[str, str], release: KafkaVersion) -> bool:
    """Whether topiarist would give these overrides to a topic of one replica."""
    wrong = [
        config_values.check_value(key, text, release) or config_values.check_manifest_value(key, text)
        for key, text in config.items()
    ]
    return not any(wrong) and not config_rules.find_conflicts(config, release) and not is_min_isr_above(config, 1)


def test_every_edge_is_taken_up_and_survives_a_restart(bare: KafkaFixture) -> None:
    """Each value at the edge of what topiarist accepts, given to a new topic and to one that is there: brokers host the
    topics, show the values, take messages (or say why not), and start again with all of them.
    """
    release, broker = release_of(bare), min(bare.kafka.racks)
    cases = edge_cases(release)
    place = {"replicaAssignment": [[broker]]}
    later = {f"later.{name}": config for name, config in cases.items()}
    everything = {f"new.{name}": config for name, config in cases.items()} | later
    bare.declare({name: dict(place) for name in later})
    bare.apply()
    bare.describe_in_sync(later)
    bare.declare({name: {**place, "config": config} for name, config in everything.items()})
    bare.apply("--allow-risk", "DataLoss")
    check_edges(bare, everything, "before")
    assert errors(bare, broker) == []
    bare.kafka.restart(broker)
    check_edges(bare, everything, "after")
    assert bare.run("plan", "--exit-code").code == Exit.DONE


def check_edges(bed: KafkaFixture, cases: Mapping[str, Mapping[str, str]], value: str) -> None:
    """All topics are hosted and show their values, and a message gets through wherever one can."""
    bed.describe_in_sync(cases)
    shown = {
        name: {key: config_values.canonical_text(key, text) for key, text in config.items()}
        for name, config in cases.items()
    }
    assert bed.clients.overrides(cases) == shown
    offsets = bed.clients.produce(dict.fromkeys(cases, 1), value)
    told = {name: str(offset).partition(":")[0] for name, (offset,) in offsets.items() if isinstance(offset, str)}
    must, may = (
        {name: errors[item] for name, config in cases.items() for item in config.items() if item in errors}
        for errors in (TOO_SMALL, TOO_LATE)
    )
    assert {name: error for name, error in told.items() if may.get(name) != error} == must


def errors(bed: KafkaFixture, broker: int) -> list[str]:
    """What a broker has logged as an error since it was last started, but for messages that it did not take."""
    lines = bed.kafka.brokers[broker].read_log().splitlines()
    return [line for line in lines if " ERROR " in line and "Error processing append operation" not in line][:10]
