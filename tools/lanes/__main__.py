"""Runs a lane of tests, and says what it cost: ``python -m lanes LANE [PYTEST OPTION...]``.

``PART`` in the environment is ``core``, ``whole`` (the default), ``night``, or ``changed``: what the change can touch.
Other commands:

``speed``     print the speed of this machine, for ``SPEED_S``
``parts``     print the part of each lane that the change can touch, and what is left to the night
``budgets``   compare the last whole runs of two lanes with ``tests/budgets.json``; ``--write`` stores new budgets
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from lanes import budgets, changes
from lanes.lane import (
    CACHE,
    CHANGED,
    CORE,
    NIGHT,
    ROOT,
    WHOLE,
    Lane,
    Part,
    Run,
    draw_seed,
    load_cost_speed,
    load_lanes,
    run_pytest,
    worker_count,
)
from lanes.recorder import measure_speed
from topiarist.text import format_count

_BUDGETED = ("test", "test-unit")
_RED, _NO_TESTS_FAILED, _SOME_TESTS_FAILED = 1, 0, 1


def main(words: Sequence[str]) -> int:
    """Run a command; return its exit code.

    Options of pytest narrow a lane, and paths replace its own; then the number of tests is not checked.
    """
    lanes = load_lanes()
    match words:
        case ["speed"]:
            print(f"{measure_speed():.5f}")
            return 0
        case ["parts"]:
            return _print_parts(lanes)
        case ["budgets"]:
            return _report([error for name in _BUDGETED for error in budgets.errors_of_last_run(lanes[name])])
        case ["budgets", "--write"]:
            budgets.write_budgets_of_last_run(lanes["test"])
            return 0
        case [name, *options] if name in lanes:
            return _run_lane(lanes[name], options)
    print(f"usage: python -m lanes {{{','.join([*lanes, 'speed', 'parts', 'budgets'])}}}", file=sys.stderr)
    return 2


def _run_lane(lane: Lane, options: Sequence[str]) -> int:
    part, seed = _chosen_part(lane), draw_seed()
    arguments = [f"--ignore={path}" for path in lane.excluded]
    arguments += ["-m", expression] if (expression := part.expression(lane)) else []
    arguments += ["-n", str(worker_count(lane)), "--dist", lane.dist, "-rsfE", *options]
    paths = [] if any((ROOT / word.partition("::")[0]).exists() for word in options) else lane.paths
    print(f"{lane.name}: {_describe(part)}, TOPIARIST_SEED={seed}", flush=True)
    run = run_pytest(lane, paths, arguments, seed=seed, night=part.name == NIGHT)
    _print_costs(lane, run)
    if part.name == WHOLE and not options and run.exit_code == _NO_TESTS_FAILED:
        budgets.keep_costs(lane, run)
    if errors := [*_errors(lane, part, run, narrowed=bool(options))]:
        return _report(errors)
    if run.exit_code == _SOME_TESTS_FAILED and lane.reruns:
        return _run_again(lane, run, seed)
    return run.exit_code


def _errors(lane: Lane, part: Part, run: Run, *, narrowed: bool) -> list[str]:
    """Return what is wrong with a run beside tests that failed."""
    errors = [f"{lane.name}: a process outlives the tests: {each}" for each in run.survivors]
    if run.exit_code not in (_NO_TESTS_FAILED, _SOME_TESTS_FAILED):
        errors.append(f"{lane.name}: pytest ended with {run.exit_code} and not after its tests")
    elif not run.executed:
        errors.append(f"{lane.name}: no test was run")
    elif part.name != CORE and not narrowed and run.executed < lane.at_least:
        tests = format_count(run.executed, "test")
        errors.append(f"{lane.name}: {tests} run, at least {lane.at_least} wanted: see tests/lanes.toml")
    if run.exit_code == _SOME_TESTS_FAILED and not run.failed:
        errors.append(f"{lane.name}: pytest failed, and no test did")
    return errors


def _run_again(lane: Lane, first: Run, seed: int) -> int:
    """Run exactly the tests that failed once more, alone; keep their names for the count of flaky tests."""
    tests = format_count(len(first.failed), "test")
    print(f"{lane.name}: {tests} failed: run once more, one after the other", flush=True)
    second = run_pytest(lane, first.failed, ["-n", "0"], seed=seed)
    missing = sorted({*first.failed} - {*second.outcomes})
    if second.exit_code == _NO_TESTS_FAILED and second.executed and not missing:
        _keep_flaky(lane, first, seed)
        return 0
    return _report([f"{lane.name}: {name}: was not run again" for name in missing]) or _RED


def _keep_flaky(lane: Lane, first: Run, seed: int) -> None:
    """Append the tests that failed first to the record of flaky tests, each with its trace and the seed."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    path = CACHE / "lanes" / "flaky.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as log:
        for test in first.failed:
            entry = {"time": now, "lane": lane.name, "test": test, "seed": seed, "trace": first.traces[test]}
            log.write(json.dumps(entry) + "\n")
    count = len(path.read_text(encoding="utf-8").splitlines())
    print(
        f"FLAKY: {', '.join(first.failed)} passed only when run again; {count} on record in {path.name}",
        file=sys.stderr,
    )


def _print_costs(lane: Lane, run: Run) -> None:
    of_tests = sum(run.cpu_of_tests.values())
    tests = format_count(run.executed, "test")
    print(f"\n{lane.name}: {tests}, {run.wall_s:.0f} s, {run.cpu_s:.0f} CPU s: {of_tests:.0f} in tests,", end="")
    print(f" {run.cpu_s - of_tests:.0f} in collection, workers, and servers of several tests")
    for name, seconds in run.dearest():
        print(f"  {seconds:7.1f} CPU s  {name}")
    sys.stdout.flush()


def _chosen_part(lane: Lane) -> Part:
    name = os.environ.get("PART") or WHOLE
    if name == CHANGED:
        return changes.parts_of_change(changes.changed_files()[0])[lane.name]
    if name not in (CORE, WHOLE, NIGHT):
        raise SystemExit(f"PART={name}: found no such part, wanted {CORE}, {WHOLE}, {NIGHT} or {CHANGED}")
    return Part(name)


def _print_parts(lanes: Mapping[str, Lane]) -> int:
    files, origin = changes.changed_files()
    wanted, parts = changes.choose_parts(files), changes.parts_of_change(files)
    changed = "unknown" if files is None else f"{format_count(len(files), 'file')} changed"
    print(f"base: {origin}; {changed}")
    speed = os.environ.get("SPEED_S") or "not measured"
    print(
        f"speed: {speed}, {load_cost_speed()} where costs were measured; they count {changes.cost_factor():.2f} times"
    )
    for name, part in parts.items():
        left = [*(["all but its core"] if part.name == CORE else []), *sorted({*lanes[name].night} - {*part.areas})]
        print(f"  {name}: {_describe(part)}; left to the night: {', '.join(left) or 'nothing'}")
        touched = [*([WHOLE] if part.name != wanted[name].name else []), *sorted({*wanted[name].areas} - {*part.areas})]
        if touched:
            print(f"    NO TIME, though the change can touch it: {', '.join(touched)}")
    return 0


def _describe(part: Part) -> str:
    return " and ".join([f"the {part.name}" if part.name == CORE else part.name, *part.areas])


def _report(errors: Sequence[str]) -> int:
    for error in errors:
        print(f"error: {error}", file=sys.stderr)
    return _RED if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
