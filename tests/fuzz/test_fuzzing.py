"""The fuzzer's own parts, without atheris: storage of finds, and mutations of inputs."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

import pytest

from fuzz.harness import FuzzHarness
from fuzz.limits import MAX_INPUT_BYTES, REPEATED_INPUT_BYTES, TARGET_NAMES, cpu_limit_s
from fuzz.measurement import minimize
from fuzz.mutations import mutate, repeat_piece
from fuzz.run import prepare


def breaks(data: bytes) -> None:
    """A target with two faults, one of them no ``Exception``."""
    if b"bad" in data:
        raise ValueError(data)
    if b"worse" in data:
        raise KeyboardInterrupt


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in ("finds", "slow"):
        (tmp_path / part).mkdir()
    return tmp_path


def test_the_smallest_input_of_each_find_is_kept(folder: Path) -> None:
    """The harness keeps one input per place of a failure, the smallest, with its traceback, and continues."""
    trial = FuzzHarness(breaks, folder)
    for data in (b"fine", b"very bad", b"bad", b"too bad", b"worse"):
        trial(data)
    said = {path: path.read_text() for path in (folder / "finds").glob("*.txt")}
    assert sorted(path.with_suffix("").read_bytes() for path in said) == [b"bad", b"worse"]
    assert sorted(words.splitlines()[-1] for words in said.values()) == ["KeyboardInterrupt", "ValueError: b'bad'"]
    assert (folder / "slow" / "0").read_bytes() == b"fine"


def test_what_is_being_tried_stands_in_a_file(folder: Path) -> None:
    """The file has the present input for the case that the process crashes, and is empty after the input."""

    def current() -> bytes:
        raw = (folder / "current").read_bytes()
        return raw[8 : 8 + int.from_bytes(raw[:8], "big")]

    seen: list[bytes] = []
    trial = FuzzHarness(lambda _data: seen.append(current()), folder)
    trial(b"deadly")
    trial(b"x" * MAX_INPUT_BYTES)
    assert seen == [b"deadly", b"x" * MAX_INPUT_BYTES]
    assert current() == b""


def test_finds_are_made_smaller(folder: Path) -> None:
    """Finds are minimized with the same error at the same place, within the time limit."""
    FuzzHarness(breaks, folder)(b"a very bad thing")
    (find,) = (folder / "finds").glob("*.txt")
    assert minimize(b"a very bad thing", find.stem, breaks, float("inf")) == b"bad"
    assert minimize(b"a very bad thing", "OSError-elsewhere-1", breaks, float("inf")) == b"a very bad thing"
    assert minimize(b"a very bad thing", find.stem, breaks, 0.0) == b"a very bad thing"


def test_a_piece_is_repeated_until_an_input_is_large() -> None:
    """Any piece is repeated until the input is large, and in some inputs a number counts up."""
    made = [repeat_piece(b'{"a":[1],"b":[2],"c":[3]}', Random(seed)) for seed in range(50)]
    assert all(len(data) > REPEATED_INPUT_BYTES * 0.9 for data in made)
    assert any(b'"a":[1],"b":[7],' in data or b"[77]" in data for data in made)


def test_mutations_keep_the_form_of_some_and_the_size_of_all() -> None:
    """Many mutations are JSON, none stays unchanged for long, all respect the size, and each seed determines its
    result.
    """
    whole = b'{"a":[1,2,{"b":"c"}],"d":null}'
    made = [mutate(lambda found, _size: found + b"!", whole, 100, seed) for seed in range(300)]
    assert made == [mutate(lambda found, _size: found + b"!", whole, 100, seed) for seed in range(300)]
    assert len(set(made)) > 150
    assert max(map(len, made)) <= 100
    assert sum(map(_is_json, made)) > 100


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def test_what_is_allowed_grows_with_the_size() -> None:
    """The limit is one CPU second per MB plus a small constant."""
    assert cpu_limit_s(2_000_000) - cpu_limit_s(1_000_000) == pytest.approx(1.0)


@pytest.mark.parametrize("name", TARGET_NAMES)
def test_each_target_has_seeds(name: str, folder: Path) -> None:
    """A run prepares every target: its readers find something to mutate, and a dictionary, which may be empty."""
    (folder / "seeds").mkdir()
    prepare(name, folder, 0, 0)
    assert any((folder / "seeds").iterdir())
    assert (folder / "words").exists()
