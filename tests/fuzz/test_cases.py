"""Former finds, seeds and mutated seeds: all satisfy the properties of their targets."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz.limits import MAX_INPUT_BYTES, TARGET_NAMES
from fuzz.mutations import mutate
from fuzz.targets import TARGETS

CASES = sorted((Path(__file__).parent / "cases").glob("*/*"))


@cache
def seeds(name: str) -> list[bytes]:
    return list(TARGETS[name].seeds())


def test_there_is_a_target_for_each_name() -> None:
    """The list of target names, which processes read without importing the targets, equals the targets."""
    assert tuple(TARGETS) == TARGET_NAMES


@pytest.mark.parametrize("case", CASES, ids=[f"{case.parent.name}-{case.name}" for case in CASES])
def test_a_find_stays_mended(case: Path) -> None:
    """The file of a former find satisfies all properties of its target."""
    TARGETS[case.parent.name].check(case.read_bytes())


@pytest.mark.parametrize("name", TARGET_NAMES)
def test_the_seeds_are_no_finds(name: str) -> None:
    """Each target has seeds, and the seeds satisfy its properties."""
    assert seeds(name)
    for seed in seeds(name):
        TARGETS[name].check(seed)


@pytest.mark.parametrize("name", TARGET_NAMES)
@given(data=st.data())
def test_what_is_near_a_seed_is_no_find(name: str, data: st.DataObject) -> None:
    """Seeds with parts replaced, doubled, moved and removed satisfy the properties; ``make fuzz`` runs longer."""

    def bytes_for(_found: bytes, _size: int) -> bytes:
        return data.draw(st.binary(max_size=8))

    seed = data.draw(st.sampled_from(seeds(name)))
    TARGETS[name].check(mutate(bytes_for, seed, MAX_INPUT_BYTES, data.draw(st.integers(0, 1 << 32))))
