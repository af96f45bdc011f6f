"""topiarist's table of topic configs against the parser of the same Kafka release: every config with many texts.

For each map of overrides Kafka reports three facts: whether its admin code refuses the map, whether a broker that loads
it fails (and does not start again), and how it shows the values. This file lists every difference with its reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import pytest

from brokers.config_samples import all_candidate_values
from support.kafka.clients import ConfigCheck, ConfigParser
from support.kafka.kafka_fixture import KafkaFixture
from topiarist.kafka import config_rules, config_values
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.types import KafkaVersion
from topiarist.model.spec import ClusterSpec

LISTED = ("4.0-IV0", "4.0-IV1")
"""Versions of the later 4.0 that Kafka 3.9 accepts; topiarist's list ends with the release. The config is deprecated
and ignored.
"""

STARRED = ("*,", "*,1:2", ",*")
"""Kafka 2.4 looks for the star in the first item only, later releases in all items; in a manifest the star must be
alone.
"""

SMALLEST = "4.9e-324"
"""The smallest fraction in Java, which Java prints with one digit more than necessary."""

ON, OFF = ({"remote.log.storage.system.enable": text} for text in ("true", "false"))


@pytest.fixture(scope="module")
def version(release: str) -> KafkaVersion:
    """Return the release in the form of the config table."""
    major, minor, _ = release.split(".")
    return int(major), int(minor)


@pytest.fixture(scope="module")
def judged(parser: ConfigParser, version: KafkaVersion) -> dict[tuple[str, str], ConfigCheck]:
    """Return Kafka's result for every text of every config that the release supports."""
    cases = [
        (name, text)
        for name in TOPIC_CONFIGS
        if config_rules.is_supported(name, version)
        for text in all_candidate_values(TOPIC_CONFIGS[name], version)
    ]
    return dict(zip(cases, parser.check([{name: text} for name, text in cases]), strict=True))


def test_the_names_are_those_of_the_release(parser: ConfigParser, version: KafkaVersion) -> None:
    """The config table has exactly the config names of the release."""
    assert {name for name in TOPIC_CONFIGS if config_rules.is_supported(name, version)} == parser.names()


def test_every_text_means_the_same(judged: Mapping[tuple[str, str], ConfigCheck], version: KafkaVersion) -> None:
    """topiarist and Kafka accept and refuse the same texts, and show accepted values in the same form."""
    differences: dict[tuple[str, str], object] = {}
    for (name, text), kafka in judged.items():
        ours = config_values.check_value(name, text, version)
        alone = config_rules.find_conflicts({name: text}, version, OFF)
        if explained(name, text, version):
            continue
        if bool(ours or alone) != bool(kafka.refusal or kafka.load_error):
            differences[name, text] = (ours, alone, kafka.refusal, kafka.load_error)
        elif not (ours or alone) and config_values.canonical_text(name, text) != kafka.values[name]:
            differences[name, text] = (config_values.canonical_text(name, text), kafka.values[name])
    assert differences == {}
    assert len(judged) > 5000


def explained(name: str, text: str, version: KafkaVersion) -> bool:
    """Return True for a known difference, which no manifest can cause."""
    return (
        (name == "message.format.version" and text in LISTED and version >= (3, 9))
        or (name.endswith(".throttled.replicas") and text in STARRED and version < (2, 8))
        or (name == "min.cleanable.dirty.ratio" and text == SMALLEST)
    )


def test_what_a_manifest_may_hold_harms_no_broker(
    judged: Mapping[tuple[str, str], ConfigCheck], version: KafkaVersion
) -> None:
    """topiarist refuses every value that Kafka refuses or fails to load."""
    cluster = ClusterSpec(version=version, broker_config=OFF)
    harmful = {
        (name, text): (kafka.refusal, kafka.load_error)
        for (name, text), kafka in judged.items()
        if (kafka.refusal or kafka.load_error)
        and not cluster.config_rules.config_problem(name, text)
        and not config_rules.find_conflicts({name: text}, version, OFF)
    }
    assert harmful == {}


def maps(release: KafkaVersion) -> Iterator[dict[str, str]]:
    """Yield maps of related overrides: all combinations of a few values, including absent ones."""
    choices = (
        {"min.compaction.lag.ms": ("0", "5", "6"), "max.compaction.lag.ms": ("5", "1"), "cleanup.policy": ("compact",)},
        {
            "retention.ms": ("-1", "4", "5", "6"),
            "local.retention.ms": ("-2", "-1", "5"),
            "remote.storage.enable": ("true", "false"),
            "cleanup.policy": ("compact", "delete", "compact,delete"),
        },
        {
            "retention.bytes": ("-2", "-1", "4", "5", "6"),
            "local.retention.bytes": ("-2", "-1", "5"),
            "remote.storage.enable": ("true", "false"),
        },
        {
            "remote.log.copy.disable": ("true", "false"),
            "remote.log.delete.on.disable": ("true", "false"),
            "remote.storage.enable": ("true", "false"),
        },
    )
    for choice in choices:
        known = {name: values for name, values in choice.items() if config_rules.is_supported(name, release)}
        for combination in product(*((None, *values) for values in known.values())):
            yield {name: text for name, text in zip(known, combination, strict=True) if text is not None}


@pytest.mark.parametrize("tiered", [False, True], ids=["without-remote-storage", "with-remote-storage"])
def test_what_fits_together_does_so_for_kafka(parser: ConfigParser, version: KafkaVersion, tiered: bool) -> None:
    """topiarist accepts exactly those combinations of related overrides that Kafka accepts and loads."""
    cases = list(maps(version))
    differences = []
    for config, kafka in zip(cases, parser.check(cases, tiered=tiered), strict=True):
        ours = config_rules.find_conflicts(config, version, ON if tiered else OFF)
        if bool(ours) != bool(kafka.refusal or kafka.load_error):
            differences.append((config, ours, kafka.refusal, kafka.load_error))
    assert differences == []


@pytest.mark.night(area="releases")
def test_brokers_say_what_their_parser_says(bare: KafkaFixture, judged: Mapping[tuple[str, str], ConfigCheck]) -> None:
    """Brokers that receive the configs over the network refuse the same ones as the parser of these tests."""
    names = {f"asked-{number}": case for number, case in enumerate(judged)}
    found = bare.clients.validate_create({topic: dict([case]) for topic, case in names.items()})
    differences = {
        case: (judged[case], found.get(topic))
        for topic, case in names.items()
        if bool(judged[case].refusal or judged[case].load_error) != (topic in found)
    }
    assert differences == {}
