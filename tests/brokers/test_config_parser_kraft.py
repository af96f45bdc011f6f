"""topiarist's table of topic configs against the parser of Kafka releases without ZooKeeper mode: each config with many
texts.

The releases run no ZooKeeper, so that the tests of ``test_config_parser`` with brokers do not apply.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from brokers.config_samples import all_candidate_values
from support.kafka.clients import ConfigParser
from support.kafka.programs import Program
from topiarist.kafka import config_rules, config_values
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.types import ClusterMode, KafkaVersion

FIRST_WITHOUT_ZOOKEEPER = 4
"""The first major version without a ZooKeeper mode; ``test_config_parser`` has the others."""

INTERNAL = {"internal.segment.bytes"}
"""Configs that brokers do not show, for Kafka's own tests."""

SHOWN_OTHERWISE = {("cleanup.policy", "delete,delete"), ("min.cleanable.dirty.ratio", "4.9e-324")}
"""Values with the same meaning that a release shows in another form: a word once; the smallest fraction in Java."""


@pytest.fixture(scope="module")
def kraft_parser(kraft_release: str) -> Iterator[tuple[ConfigParser, KafkaVersion]]:
    """Start the parser of topic configs of a release, and return it with the version."""
    major, minor = map(int, kraft_release.split(".")[:2])
    if major < FIRST_WITHOUT_ZOOKEEPER:
        pytest.skip(f"the parser of Kafka {kraft_release} is tested in ZooKeeper mode")
    with Program("Configs", kraft_release) as program:
        yield ConfigParser(program), (major, minor)


def test_the_names_are_those_of_the_release(kraft_parser: tuple[ConfigParser, KafkaVersion]) -> None:
    """The config table has exactly the config names of the release, which are enough to find the version."""
    parser, version = kraft_parser
    names = parser.names() - INTERNAL
    assert {name for name in TOPIC_CONFIGS if config_rules.is_supported(name, version)} == names
    assert version in config_rules.find_possible_versions(names)


def test_every_text_means_the_same(kraft_parser: tuple[ConfigParser, KafkaVersion]) -> None:
    """topiarist and Kafka accept and refuse the same texts, and show accepted values in the same form.

    Remote storage on brokers without tiered storage is left to the controller, which refuses it.
    """
    parser, version = kraft_parser
    cases = [
        (name, text)
        for name in TOPIC_CONFIGS
        if config_rules.is_supported(name, version)
        for text in all_candidate_values(TOPIC_CONFIGS[name], version)
    ]
    differences: dict[tuple[str, str], object] = {}
    for (name, text), kafka in zip(cases, parser.check([{name: text} for name, text in cases]), strict=True):
        ours = config_values.check_value(name, text, version)
        alone = config_rules.find_conflicts({name: text}, version, {}, ClusterMode.KRAFT)
        is_refused = bool(kafka.refusal or kafka.load_error)
        if bool(ours or alone) != is_refused:
            if not (name == "remote.storage.enable" and is_refused and config_values.is_equivalent(name, text, "true")):
                differences[name, text] = (ours, alone, kafka.refusal, kafka.load_error)
        elif not is_refused and (name, text) not in SHOWN_OTHERWISE:
            shown = config_values.canonical_text(name, text)
            if shown != kafka.values[name]:
                differences[name, text] = (shown, kafka.values[name])
    assert differences == {}
    assert len(cases) > 5000
