"""The lanes of tests: what is chosen, what is red, what runs once more, and what a folder may cost."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from lanes import budgets, changes
from lanes.__main__ import main
from lanes.lane import CORE, NIGHT, WHOLE, Lane, Part, load_cost_speed, load_lanes

from support.checkout import ROOT

LANES = """
nothing = ["*.md"]
[lane.strict]
paths = ["tests"]
marks = "not night"
at_least = 1
touched_by = ["**"]
[lane.brokers]
paths = ["tests"]
reruns = true
at_least = 1
touched_by = ["**"]
[lane.many]
paths = ["tests"]
at_least = 100
touched_by = ["**"]
"""

PASSES = "def test_it(): pass\n"
FAILS = "def test_it(): assert 1 == 2, 'as planted'\n"
FAILS_ONCE = """
from pathlib import Path

def test_other(): pass

def test_it():
    once = Path(__file__).with_name("once")
    if not once.exists():
        once.touch()
        assert False, "as planted"
"""
SURVIVES = """
import subprocess

def test_it(): subprocess.Popen(["sleep", "600"], start_new_session=True)
"""


def run_lane(
    folder: Path, lane: str, files: Mapping[str, str], *options: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run a lane in a small repository with these files of tests."""
    shutil.copytree(
        ROOT / "tools" / "lanes",
        folder / "tools" / "lanes",
        ignore=shutil.ignore_patterns("__pycache__"),
        dirs_exist_ok=True,
    )
    files = {"lanes.toml": LANES, "conftest.py": 'pytest_plugins = ["lanes.recorder"]\n', **files}
    for name, text in files.items():
        (folder / "tests" / name).parent.mkdir(exist_ok=True)
        (folder / "tests" / name).write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\npythonpath = tools\nmarkers =\n  night\n")
    environment = {**os.environ, "PYTHONPATH": str(folder / "tools"), "TOPIARIST_CACHE": str(folder / "cache")}
    environment["WORKERS"] = "1"
    unset = ("PART", "TOPIARIST_SEED", "PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "TOPIARIST_RECORD")
    environment = {name: value for name, value in environment.items() if name not in unset}
    command = [sys.executable, "-P", "-m", "lanes", lane, *options]
    return subprocess.run(
        command, cwd=folder, env={**environment, **variables}, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.slow
def test_a_run_says_what_it_cost(tmp_path: Path) -> None:
    """The lane prints its tests, wall and processor time, and the dearest tests."""
    done = run_lane(tmp_path, "strict", {"test_one.py": PASSES})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "strict: 1 tests," in done.stdout
    assert "CPU s  tests/test_one.py::test_it" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lane", "files", "error"),
    [
        ("strict", {"test_one.py": FAILS}, ""),
        ("brokers", {"test_one.py": FAILS}, ""),
        ("strict", {"test_one.py": FAILS_ONCE}, ""),
        ("brokers", {}, "pytest ended with 5"),
        ("brokers", {"test_one.py": "import pytest\n@pytest.mark.skip\ndef test_it(): pass\n"}, "no test was run"),
        ("brokers", {"test_one.py": PASSES, "conftest.py": "raise SystemExit(3)\n"}, "pytest ended with"),
        ("brokers", {"test_one.py": PASSES, "conftest.py": ""}, "pytest ended with"),
        ("brokers", {"test_one.py": PASSES, "test_two.py": "import nothing_here\n"}, ""),
        ("many", {"test_one.py": PASSES}, "1 test run, at least 100 wanted"),
    ],
    ids=[
        *("a failure", "a failure in each run", "a race without reruns", "no tests", "only skipped tests"),
        *("an end before the tests", "no record", "a file that cannot be collected", "almost no tests"),
    ],
)
def test_what_is_no_success_is_red(tmp_path: Path, lane: str, files: Mapping[str, str], error: str) -> None:
    """A failure, no test, almost no test or an end without a record is red, whatever an earlier run has left."""
    stale = tmp_path / "cache" / "pytest" / lane / "v" / "cache" / "lastfailed"
    stale.parent.mkdir(parents=True)
    stale.write_text('{"tests/test_gone.py::test_it": true}')
    done = run_lane(tmp_path, lane, files)
    assert done.returncode != 0, done.stdout + done.stderr
    assert error in done.stderr
    assert "Traceback" not in done.stderr.replace(done.stdout, "")


@pytest.mark.slow
def test_tests_of_one_group_run_in_one_process(tmp_path: Path) -> None:
    """A fixture that is dear, such as a JVM of Spark, is made once: in the process of its group."""
    grouped = """
import os
from pathlib import Path

import pytest

@pytest.mark.xdist_group("dear")
@pytest.mark.parametrize("number", range(8))
def test_it(number):
    Path(__file__).with_name(f"pid-{os.getpid()}").touch()
"""
    done = run_lane(tmp_path, "strict", {"test_one.py": grouped}, WORKERS="3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "strict: 8 tests" in done.stdout
    assert "@dear" not in done.stdout.partition("CPU s:")[2]
    assert len([*(tmp_path / "tests").glob("pid-*")]) == 1


@pytest.mark.slow
def test_options_narrow_a_lane(tmp_path: Path) -> None:
    """The value of an option is no path: the folders of the lane stay, and a path replaces them."""
    files = {"test_one.py": PASSES, "test_two.py": PASSES}
    assert "strict: 1 tests" in run_lane(tmp_path, "strict", files, "-k", "test_two").stdout
    assert "strict: 1 tests" in run_lane(tmp_path, "strict", files, "tests/test_one.py::test_it").stdout
    assert "many: 2 tests" in run_lane(tmp_path, "many", files, "-k", "test_it").stdout


@pytest.mark.slow
def test_two_runs_at_once_do_not_meet(tmp_path: Path) -> None:
    """Two runs of one lane in one checkout, one of them red: each reports its own tests."""
    files = {"test_one.py": PASSES, "test_two.py": FAILS}
    run_lane(tmp_path, "strict", files, "--collect-only")
    with ThreadPoolExecutor() as pool:
        runs = pool.map(lambda name: run_lane(tmp_path, "strict", files, f"tests/{name}"), files)
    assert [(done.returncode, "strict: 1 tests" in done.stdout) for done in runs] == [(0, True), (1, True)]


@pytest.mark.slow
def test_a_race_is_kept_and_counted(tmp_path: Path) -> None:
    """A test that passes only when run again is green where reruns are allowed, with its trace and seed on record."""
    done = run_lane(tmp_path, "brokers", {"test_one.py": FAILS_ONCE}, TOPIARIST_SEED="7")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FLAKY: tests/test_one.py::test_it passed only when run again; 1 on record" in done.stderr
    (entry,) = (json.loads(line) for line in (tmp_path / "cache" / "lanes" / "flaky.jsonl").read_text().splitlines())
    assert (entry["lane"], entry["test"], entry["seed"]) == ("brokers", "tests/test_one.py::test_it", 7)
    assert "as planted" in entry["trace"]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted on Linux only")
def test_a_process_that_outlives_the_tests_is_red(tmp_path: Path) -> None:
    """A server that no test ends is named, and ended."""
    done = run_lane(tmp_path, "strict", {"test_one.py": SURVIVES}, TOPIARIST_ORPHANS_END_S="0.5")
    assert done.returncode != 0
    assert "a process outlives the tests" in done.stderr
    assert "sleep 600" in done.stderr


def _lane(**fields: Any) -> Lane:
    return Lane(**{"name": "x", "paths": ["tests"], "touched_by": ["operator/**"], "at_least": 1, **fields})


def test_a_part_is_an_expression_of_marks() -> None:
    """The whole lane leaves out the night, an area of the night is added, and the night has all."""
    lane = _lane(marks="slow or hypothesis", core="slow and core")
    assert Part(WHOLE).expression(lane) == "(slow or hypothesis) and not night"
    assert Part(CORE, ("crash",)).expression(lane) == "slow and core or night(area='crash')"
    assert Part(NIGHT).expression(lane) == "slow or hypothesis"
    assert Part(WHOLE).expression(_lane()) == "not night"
    assert Part(CORE).expression(_lane()) == "not night"


def test_a_change_of_a_text_runs_the_core_of_each_lane() -> None:
    """No code was changed: the lanes that no file touches run their core, and ``make test`` runs whole."""
    parts = changes.choose_parts(["CHANGELOG.md"])
    assert parts["test"] == Part(WHOLE)
    assert {parts[name].name for name in ("test-faults", "test-kafka", "test-kubernetes")} == {CORE}


@pytest.mark.parametrize("files", [None, ["Makefile"], ["README.md", "tests/support/waiting.py"], ["a-new-folder/x"]])
def test_what_is_unknown_runs_everything(files: list[str] | None) -> None:
    """Without a base, or with a file that no lane names, each lane runs whole with all areas of its night."""
    lanes = load_lanes()
    assert changes.choose_parts(files) == {name: Part(WHOLE, tuple(lane.night)) for name, lane in lanes.items()}


def test_what_has_no_time_is_left_to_the_night(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of everything runs the cores, then what fits in the order of the file; without a limit it runs whole."""
    monkeypatch.delenv("MINUTES", raising=False)
    lanes, wanted = load_lanes(), changes.choose_parts(None)
    assert all(part == Part(CORE if lanes[name].core else WHOLE) for name, part in changes.fit_parts(wanted, 0).items())
    assert changes.fit_parts(wanted, 1e6) == wanted == changes.parts_of_change(None)
    monkeypatch.setenv("MINUTES", "30")
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    fitting = changes.parts_of_change(None)
    assert {part.name for part in fitting.values()} == {CORE, WHOLE}
    assert sum(_cost(lanes[name], part) for name, part in fitting.items()) <= 30 * 60 * 2
    assert changes.parts_of_change(["charts/topiarist/values.yaml"])["test-kubernetes"].name == WHOLE


@pytest.mark.parametrize(("slowness", "factor"), [(None, 1.0), (1.0, 1.0), (0.7, 1.0), (0.5, 0.75), (3.0, 3.0)])
def test_costs_follow_the_speed_of_the_machine(
    monkeypatch: pytest.MonkeyPatch, slowness: float | None, factor: float
) -> None:
    """A quicker machine runs more, with a margin; a slower one runs less, and one that was not measured as recorded."""
    monkeypatch.setenv("SPEED_S", str(slowness * load_cost_speed()) if slowness else "")
    assert changes.cost_factor() == pytest.approx(factor)


def test_a_quick_machine_fills_its_minutes_and_no_more(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All lanes of a run make one choice: by the speed, it fills 25 of 30 minutes at most; the speed is printed."""
    lanes = load_lanes()
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setenv("MINUTES", "30")
    monkeypatch.setenv("TOPIARIST_BASE", "nothing")
    chosen = []
    for slowness in (0.4, 0.5, 0.6, 1.0, 3.0):
        monkeypatch.setenv("SPEED_S", str(slowness * load_cost_speed()))
        fitting = changes.parts_of_change(None)
        costs = sum(_cost(lanes[name], part) for name, part in fitting.items())
        assert costs * slowness <= 25 * 60 * 2 * 0.63 or slowness >= 1
        chosen.append(costs)
    assert chosen == sorted(chosen, reverse=True)
    assert chosen[0] > chosen[2] > chosen[4]
    assert main(["parts"]) == 0
    assert f"{load_cost_speed()} where costs were measured; they count 3.00 times" in capsys.readouterr().out
    assert main(["speed"]) == 0
    assert 0 < float(capsys.readouterr().out) < 10


def _cost(lane: Lane, part: Part) -> float:
    return lane.cost.get(part.name, 0.0) + sum(lane.cost[area] for area in part.areas)


def test_each_part_has_its_cost() -> None:
    """A part without a cost could not be left to the night; a cost without its part is outdated."""
    for name, lane in load_lanes().items():
        if name != "test-unit":  # a part of ``make test``
            assert {*lane.cost} == {WHOLE, *([CORE] if lane.core else []), *lane.night}, name


def test_a_change_of_the_operator_runs_the_api_server() -> None:
    """A file that a lane names runs this lane whole."""
    parts = changes.choose_parts(["charts/topiarist/values.yaml"])
    assert (parts["test-kubernetes"].name, parts["test-kafka"].name) == (WHOLE, CORE)


@pytest.mark.parametrize("name", [name for name in load_lanes() if name not in ("test", "test-unit")])
def test_a_lane_is_touched_by_what_its_tests_import(name: str) -> None:
    """A module of another folder of tests that a lane imports touches that lane, or all of them."""
    lane, tests = load_lanes()[name], ROOT / "tests"
    others = {path.name for path in tests.iterdir() if path.is_dir()}
    sources = _sources_of(lane)
    words = re.compile(r"^\s*(?:from|import) (\w+)\.", re.MULTILINE)
    imported = {word for source in sources for word in words.findall(source.read_text())} & others
    assert imported
    for folder in imported:
        part = changes.choose_parts([f"tests/{folder}/test_x.py"])[name]
        assert part.name == WHOLE, folder


def _sources_of(lane: Lane) -> list[Path]:
    excluded = [ROOT / path for path in lane.excluded]
    sources = [source for path in lane.paths for source in (ROOT / path).rglob("*.py")]
    return [source for source in sources if not any(path in source.parents for path in excluded)]


@pytest.mark.parametrize("name", [name for name in load_lanes() if name not in ("test", "test-unit")])
def test_each_area_of_the_night_has_its_files(name: str) -> None:
    """A mark with an area that the lane does not name would never run in CI; an area without a test is outdated."""
    lane = load_lanes()[name]
    areas = re.compile(r'\barea="(\w+)"')
    sources = [source for source in _sources_of(lane) if source != Path(__file__)]
    assert {area for source in sources for area in areas.findall(source.read_text())} == {*lane.night}


def test_an_unknown_base_is_no_base(monkeypatch: pytest.MonkeyPatch) -> None:
    """A base that git does not know runs everything, and is named."""
    monkeypatch.setenv("TOPIARIST_BASE", "0" * 40)
    files, origin = changes.changed_files()
    assert files is None
    assert "which git cannot compare" in origin


def test_each_lane_has_its_target_and_its_marks() -> None:
    """Each lane is a target of the Makefile, and each folder that a lane leaves out belongs to another lane."""
    lanes, makefile = load_lanes(), (ROOT / "Makefile").read_text()
    for name, lane in lanes.items():
        assert f"\n{name}: " in makefile, name
        for path in lane.excluded:
            assert [other.name for other in lanes.values() if path in other.paths], path


def test_a_whole_lane_has_a_budget_where_it_has_a_cost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lane that outgrew its cost is an error; a part of another lane, which has none, is compared by folder alone."""
    monkeypatch.setattr(budgets, "CACHE", tmp_path)
    (tmp_path / "lanes").mkdir()
    kept = json.dumps({"speed_s": budgets.read_budgets()["speed_s"], "folders": {}, "cpu_s": 112.0})
    (tmp_path / "lanes" / "x.json").write_text(kept)
    assert [*budgets.errors_of_last_run(_lane())] == []
    (error,) = budgets.errors_of_last_run(_lane(cost={WHOLE: 100}))
    assert error == "make x: 112 CPU s in all, 110 allowed"


def test_a_folder_that_outgrows_its_budget_is_an_error() -> None:
    """The time is compared at the speed of the machine; a folder without a budget is an error too."""
    stored = {"speed_s": 0.01, "folders": {"tests/unit/model": 10.0}}
    assert [*budgets.over_budget({"tests/unit/model": 19.0}, 0.02, stored)] == []
    (error,) = budgets.over_budget({"tests/unit/model": 21.0}, 0.02, stored)
    assert error.startswith("tests/unit/model: 21.0 CPU s, 20.0 allowed here (10 in budgets.json)")
    (error,) = budgets.over_budget({"tests/new": 0.1}, 0.01, stored)
    assert error.startswith("tests/new: no budget")
