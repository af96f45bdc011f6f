"""Our table of topic configs against Kafka's own parser, of the very release: every config, whatever a text may be.

Kafka says three things: whether its admin code refuses a map of overrides, whether a broker throws that loads it (then
it does not start again), and how it shows the values. Differences are listed here with their reason; there is no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

import pytest

from kafka.config_samples import all_candidate_values
from support.kafka.clients import ConfigCheck, ConfigParser
from support.kafka.kafka_fixture import KafkaFixture
from topiarist.kafka import config_rules, config_values
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.types import KafkaVersion
from topiarist.model.spec import ClusterSpec

LISTED = ("4.0-IV0", "4.0-IV1")
"""Kafka 3.9 lists versions of what was to become 4.0; ours end with the release. It is deprecated and ignored."""

STARRED = ("*,", "*,1:2", ",*")
"""Brokers of 2.4 look for the star in the first item, later ones in all together; in a manifest it stands alone."""

SMALLEST = "4.9e-324"
"""The smallest fraction that Java knows, which it shows with one digit more than it takes to tell it from others."""

ON, OFF = ({"remote.log.storage.system.enable": text} for text in ("true", "false"))


@pytest.fixture(scope="module")
def version(release: str) -> KafkaVersion:
    """The release as our table has it."""
    major, minor, _ = release.split(".")
    return int(major), int(minor)


@pytest.fixture(scope="module")
def judged(parser: ConfigParser, version: KafkaVersion) -> dict[tuple[str, str], ConfigCheck]:
    """What Kafka says of every text of every config that the release knows."""
    cases = [
        (name, text)
        for name in TOPIC_CONFIGS
        if config_rules.is_supported(name, version)
        for text in all_candidate_values(TOPIC_CONFIGS[name], version)
    ]
    return dict(zip(cases, parser.check([{name: text} for name, text in cases]), strict=True))


def test_the_names_are_those_of_the_release(parser: ConfigParser, version: KafkaVersion) -> None:
    """No more and no fewer."""
    assert {name for name in TOPIC_CONFIGS if config_rules.is_supported(name, version)} == parser.names()


def test_every_text_means_the_same(judged: Mapping[tuple[str, str], ConfigCheck], version: KafkaVersion) -> None:
    """What we read is what Kafka reads, and what it refuses we refuse; values are shown in the same form."""
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
    """Whether this is a difference that we know, and that no manifest can bring about."""
    return (
        (name == "message.format.version" and text in LISTED and version >= (3, 9))
        or (name.endswith(".throttled.replicas") and text in STARRED and version < (2, 8))
        or (name == "min.cleanable.dirty.ratio" and text == SMALLEST)
    )


def test_what_a_manifest_may_hold_harms_no_broker(
    judged: Mapping[tuple[str, str], ConfigCheck], version: KafkaVersion
) -> None:
    """Topiarist is stricter than Kafka at places, never laxer."""
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
    """Overrides that bear on each other: all combinations of a few values, and of their absence."""
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
    """Overrides that bear on each other: what we accept Kafka takes and loads, the rest it does not."""
    cases = list(maps(version))
    differences = []
    for config, kafka in zip(cases, parser.check(cases, tiered=tiered), strict=True):
        ours = config_rules.find_conflicts(config, version, ON if tiered else OFF)
        if bool(ours) != bool(kafka.refusal or kafka.load_error):
            differences.append((config, ours, kafka.refusal, kafka.load_error))
    assert differences == []


def test_brokers_say_what_their_parser_says(bare: KafkaFixture, judged: Mapping[tuple[str, str], ConfigCheck]) -> None:
    """Asked over the wire to create topics with these configs, brokers refuse the same: the parser is the right one."""
    names = {f"asked-{number}": case for number, case in enumerate(judged)}
    found = bare.clients.validate_create({topic: dict([case]) for topic, case in names.items()})
    differences = {
        case: (judged[case], found.get(topic))
        for topic, case in names.items()
        if bool(judged[case].refusal or judged[case].load_error) != (topic in found)
    }
    assert differences == {}
