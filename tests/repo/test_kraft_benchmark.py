"""The benchmark of clusters in KRaft mode: its cases, the files of its programs, and what counts as usable."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from benchmarks.kafka import kraft, kraft_contenders
from benchmarks.kafka.metadata import UnservedTopics
from benchmarks.kafka.side_by_side import CHANGED_TOPICS, TOPICS

KAFKA: Any = SimpleNamespace(bootstrap="b1:9092,b2:9092")


@pytest.mark.parametrize("sizes", [{}, {"creates": 20, "configs": 20, "growths": 20}, {"growths": 10}])
def test_each_case_changes_what_it_names(sizes: dict[str, int]) -> None:
    """A case differs from the one before in the topics that it names, and in nothing else."""
    cases = list(kraft.make_cases(sizes))
    assert [case.name for case in cases] == ["creates", "configs", "growths"]
    before: Any = {}
    for case, usual in zip(cases, (TOPICS, CHANGED_TOPICS, CHANGED_TOPICS), strict=True):
        differing = [name for name, spec in case.desired.items() if before.get(name) != spec]
        assert sorted(differing) == sorted(case.changed)
        assert len(case.changed) == sizes.get(case.name, usual)
        before = case.desired


def test_no_topic_is_like_another() -> None:
    """A reader that mixes up topics would find differences."""
    configs = [json.dumps(spec["config"]) for spec in kraft.make_topics(1000).values()]
    assert len(set(configs)) == len(configs)


def test_every_program_gets_the_same_topics(tmp_path: Path) -> None:
    """Partitions, replicas and configs are those of the case in the files of topicctl and of kdef."""
    desired = kraft.make_topics(3)
    kraft_contenders.write_all_inputs(KAFKA, tmp_path, desired)
    for name, spec in desired.items():
        topicctl = yaml.safe_load((tmp_path / "topicctl" / f"{name}.yaml").read_text())
        kdef = yaml.safe_load((tmp_path / "kdef" / f"{name}.yaml").read_text())
        for found, config in ((topicctl, "settings"), (kdef, "configs")):
            assert found["spec"][config] == spec["config"]
            assert found["meta" if config == "settings" else "metadata"]["name"] == name
            sizes = {key: found["spec"][key] for key in ("partitions", "replicationFactor")}
            assert sizes == {key: spec[key] for key in sizes}
    cluster = yaml.safe_load((tmp_path / "cluster.yaml").read_text())
    assert cluster["spec"]["bootstrapAddrs"] == ["b1:9092", "b2:9092"]


def test_a_program_that_cannot_be_built_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Go the other programs are measured, and the report says what is missing."""
    monkeypatch.setattr("shutil.which", lambda _: None)
    contenders, missing = kraft_contenders.make_contenders(20)
    assert [each.name for each in contenders] == ["topiarist", "batched Admin client", "Kafka's command line tools"]
    assert missing == {"topicctl": "go is not installed", "kdef": "go is not installed"}


class Broker:
    """A broker that serves some partitions, and counts the questions."""

    def __init__(self, *served: tuple[str, int]) -> None:
        self.served = set(served)
        self.asked = 0

    def find_served(self, topics: Any) -> set[tuple[str, int]]:
        """Return the partitions that are asked for and served here."""
        self.asked += 1
        return {(name, number) for name, number in self.served if number < topics.get(name, 0)}


def test_topics_are_usable_once_all_partitions_are_served() -> None:
    """Different brokers lead the partitions; topics that were served are not asked for again."""
    one, two = Broker(("a", 0)), Broker(("b", 0))
    unserved = UnservedTopics([one, two], {"a": 2, "b": 1})  # type: ignore[list-item]
    assert not unserved.poll()
    two.served.add(("a", 1))
    assert unserved.poll()
    asked = one.asked
    assert unserved.poll()
    assert one.asked == asked
