"""topiarist's config changes on real brokers: immediate effect, every valid value, and a restart without errors."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping

from brokers.config_samples import edge_values
from support.kafka.jars import NEWEST
from support.kafka.kafka_fixture import KafkaFixture
from topiarist.errors import Exit
from topiarist.kafka import config_rules, config_values
from topiarist.kafka.config_rules import is_min_isr_above
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.types import MIN_ISR_CAPPED_SINCE, KafkaVersion

KEY = "max.message.bytes"
"""A config with an immediate, visible effect on every leader: larger messages are refused."""

IN_TIME = 5.0
"""Seconds within which brokers should follow; the figure is reported, and the tests wait longer on a busy machine."""

TOO_SMALL = {
    ("max.message.bytes", "0"): "RecordTooLargeException",
    ("segment.bytes", "14"): "RecordBatchTooLargeException",
}
"""Valid values that let no message through, with the producer's error."""

TOO_LATE = {
    ("message.timestamp.before.max.ms", "0"): "InvalidTimestampException",
    ("message.timestamp.after.max.ms", "0"): "InvalidTimestampException",
    ("message.timestamp.difference.max.ms", "0"): "InvalidTimestampException",
}
"""Valid values that accept only messages that arrive within the same millisecond, with the producer's error."""


def release_of(bed: KafkaFixture) -> KafkaVersion:
    """Return the release in the form of the config table."""
    major, minor = bed.kafka.version.split(".")
    return int(major), int(minor)


def test_brokers_follow_a_change_at_once(racked: KafkaFixture, report: Callable[[str], None]) -> None:
    """A config that is set, changed or removed takes effect on every leader without a restart, and Kafka's own tools
    show it.
    """
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


def test_one_replica_is_enough_for_one_since_3_7(bare: KafkaFixture) -> None:
    """Brokers that cap the minimum by the number of replicas take writes that older ones refuse."""
    config = {"min.insync.replicas": "2"}
    assert bare.clients.create({"alone": ((1,),)}, config) == {}
    written = bare.clients.produce({"alone": 1}, "v")["alone"]
    capped = release_of(bare) >= MIN_ISR_CAPPED_SINCE
    assert (written == [0]) is capped, written
    assert bool(is_min_isr_above(config, 1, release_of(bare))) is not capped


def followed(bed: KafkaFixture, value: str | None, taken: str, refused: str) -> float:
    """Return the seconds until Kafka's API shows a value (None: the default) and all leaders accept and refuse messages
    accordingly.
    """
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
    """Return a map of overrides for each limit of each config that topiarist accepts in a release, by topic name."""
    found = {}
    for name, definition in TOPIC_CONFIGS.items():
        for number, text in enumerate(
            edge_values(definition, release) if config_rules.is_supported(name, release) else ()
        ):
            config = {name: text}
            if name.startswith("local.retention."):  # must not exceed the total retention
                config[name.removeprefix("local.")] = text if release < (3, 6) else "-1"
            if acceptable(config, release):
                found[f"{name}-{number}"] = config
    return found


def acceptable(config: Mapping[str, str], release: KafkaVersion) -> bool:
    """Return True if topiarist accepts these overrides for a topic with one replica."""
    wrong = [
        config_values.check_value(key, text, release) or config_values.check_manifest_value(key, text)
        for key, text in config.items()
    ]
    return not any(wrong) and not config_rules.find_conflicts(config, release) and not is_min_isr_above(config, 1)


def test_every_edge_is_taken_up_and_survives_a_restart(bare: KafkaFixture) -> None:
    """Brokers accept each limit value that topiarist accepts, for new and for existing topics, and restart with them.

    They host the topics, show the values, and accept messages or refuse them with the expected error.
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
    """Assert that all topics are hosted and show their values, and that messages succeed except for the known
    errors.
    """
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
    """Return errors in a broker's log since its last start, without those about refused messages."""
    lines = bed.kafka.brokers[broker].read_log().splitlines()
    return [line for line in lines if " ERROR " in line and "Error processing append operation" not in line][:10]
