"""Run vector files (Kafka's behaviour as JSON) through the product's own functions.

``python tests/vectors/run.py [FILES...]``: each file is a JSON list (``.json``) or has one object per line
(``.jsonl``). Without files, the runner uses the copies beside this script, and the shared originals that exist and
differ. The last line is ``N passed, M failed``, and the exit code is 1 if anything failed or could not be read.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "operator")]

from topiarist.kafka.types import MAX_KAFKA_VERSION, KafkaVersion  # noqa: E402
from vectors import kinds  # noqa: E402
from vectors.properties import PlacementResult, first_violation  # noqa: E402

LOCAL_VECTORS = (HERE / "kafka-cases.json", HERE / "moves-cases.json")
SHARED_FOLDER = HERE.parent.parent.parent / "shared" / "golden"

EQUIVALENT_ERRORS = {
    "broker_not_available": {"broker_not_available", "invalid_replica_assignment"},
    "invalid_replication_factor": {"invalid_replication_factor", "too_few_brokers"},
}
"""Kafka has two errors for an expansion with an unknown broker; the vectors of moves have their own name for one."""

IGNORED_EXPECTATIONS = frozenset({"one_creator_may_get", "theirs", "their_copies", "equal"})
"""Expectations about a race between two writers, which no pure function can show, and other tools' results."""


class Outcome(NamedTuple):
    """The outcome of one vector; ``verdict`` is passed, failed or unsupported."""

    label: str
    name: str
    status: str
    message: str = ""


def main(arguments: Sequence[str]) -> int:
    """Run the files, print the report, return the exit code."""
    outcomes: list[Outcome] = []
    unreadable = 0
    for path in [Path(argument) for argument in arguments] or default_files():
        try:
            vectors = read_vectors(path)
        except (OSError, ValueError) as error:
            print(f"{path}: cannot be read: {error}")
            unreadable += 1
            continue
        print(f"{path}: {len(vectors)} vectors")
        outcomes += [run_vector(vector, index) for index, vector in enumerate(vectors)]
    for line in report_lines(outcomes):
        print(line)
    failed = sum(outcome.status == "failed" for outcome in outcomes)
    return 1 if failed or unreadable else 0


def default_files() -> list[Path]:
    """Return the copies beside this script, and the shared originals that exist and have other bytes."""
    originals = [(SHARED_FOLDER / path.name, path) for path in LOCAL_VECTORS]
    changed = [shared for shared, copy in originals if shared.exists() and shared.read_bytes() != copy.read_bytes()]
    return [*changed, *LOCAL_VECTORS]


def read_vectors(path: Path) -> list[Any]:
    """Return the vectors of a file, of any type.

    Raise ``ValueError`` if the file is not JSON, and ``OSError`` if it does not exist.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [_parse_json(line) for line in text.split("\n") if line.strip()]
    found = _parse_json(text)
    if not isinstance(found, list):
        raise ValueError("found something else than a JSON list of vectors")
    return found


def run_vector(vector: Any, index: int = 0) -> Outcome:
    """Run one vector.

    A malformed vector is a failed one: no content of a vector ends the run.
    """
    if not isinstance(vector, dict):
        return Outcome("odd", f"number {index}", "failed", f"found {type(vector).__name__}, wanted an object")
    name = str(vector.get("id", f"number {index}"))
    kind, given = str(vector.get("kind")), vector.get("input")
    operation = str(given.get("op", "")) if isinstance(given, dict) else ""
    label = f"{kind} {operation}".strip()
    if operation in kinds.UNSUPPORTED.get(kind, ()):
        return Outcome(label, name, "unsupported")
    try:
        why = _difference(kind, vector["input"], vector["expected"])
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
    return Outcome(label, name, "failed" if why else "passed", why)


def report_lines(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Return the report: each failure, the unsupported names, counts per kind, and the total at the end."""
    for outcome in outcomes:
        if outcome.status == "failed":
            yield f"FAILED {outcome.label} {outcome.name}: {outcome.message}"
    counts = Counter((outcome.label, outcome.status) for outcome in outcomes)
    for label in sorted({outcome.label for outcome in outcomes}):
        words = [f"{counts[label, verdict]} {verdict}" for verdict in ("passed", "failed", "unsupported")]
        yield f"{label}: {', '.join(words)}"
    aside = [f"{outcome.name} ({outcome.label})" for outcome in outcomes if outcome.status == "unsupported"]
    yield f"unsupported: {len(aside)}" + (f": {', '.join(aside)}" if aside else "")
    total = Counter(outcome.status for outcome in outcomes)
    yield f"{total['passed']} passed, {total['failed']} failed"


def _difference(kind: str, given: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Return the difference between the product's results and the expected ones; empty if they are equal."""
    if not expected:
        return "nothing is expected of it"
    times = 0
    for seen in kinds.run(kind, given, _release(given)):
        times += 1
        if why := _mismatch(expected, seen):
            return why
    return "" if times else "nothing came of it"


def _mismatch(expected: Mapping[str, Any], seen: Mapping[str, Any]) -> str:
    if "error" in expected or "error" in seen:
        words = EQUIVALENT_ERRORS.get(str(seen.get("error")), {seen.get("error")})
        shown = f"expected {_format_value(expected)}, seen {seen.get('error', 'no error')}"
        return "" if expected.get("error") in words else shown
    for name, want in expected.items():
        if name in IGNORED_EXPECTATIONS:
            continue
        why = _property_mismatch(want, seen) if name == "property" else _field_mismatch(name, want, seen)
        if why:
            return why
    return ""


def _property_mismatch(wanted: Mapping[str, Any], seen: Mapping[str, Any]) -> str:
    placed, before = seen.get("placed"), seen.get("before")
    if not isinstance(placed, PlacementResult):
        return "it has no placement that could have properties"
    own = {name: _hashable(value) for name, value in wanted.items() if name not in ("after_create", "after_expand")}
    if "after_create" in wanted:
        if not isinstance(before, PlacementResult):
            return "there was no creation before"
        if why := first_violation(wanted["after_create"], before):
            return f"after the creation, {why}"
    return first_violation({**own, **wanted.get("after_expand", {})}, placed)


def _field_mismatch(name: str, want: Any, seen: Mapping[str, Any]) -> str:
    if name not in seen:
        return f"expected {name} {_format_value(want)}, of which nothing is seen"
    have = seen[name]
    if name == "effective":
        have = {key: have.get(key) for key in want}
    if name == "replica_sets":
        want = {key: sorted(value) for key, value in want.items()}
    return "" if _is_equal_json(want, have) else f"expected {name} {_format_value(want)}, seen {_format_value(have)}"


def _is_equal_json(want: Any, have: Any) -> bool:
    """Compare JSON values, where true is not 1; a number may be expected where a text is found."""
    if isinstance(want, dict) and isinstance(have, dict):
        return want.keys() == have.keys() and all(_is_equal_json(want[key], have[key]) for key in want)
    if isinstance(want, list) and isinstance(have, list):
        return len(want) == len(have) and all(map(_is_equal_json, want, have))
    if isinstance(want, bool) or isinstance(have, bool):
        return want is have or str(want).lower() == have
    if isinstance(want, str) and isinstance(have, list):
        return sorted(want.split(",")) == have
    if isinstance(have, str) and isinstance(want, int | Decimal):
        return str(want) == have
    if isinstance(have, float) and isinstance(want, int | Decimal):
        return float(want) == have
    return bool(want == have)


def _release(given: Mapping[str, Any]) -> KafkaVersion:
    """Return the Kafka release of a vector; the newest with ZooKeeper if the vector has none."""
    numbers = re.findall(r"[0-9]+", str(given.get("kafka", given.get("release", ""))))
    return (int(numbers[0]), int(numbers[1])) if len(numbers) > 1 else MAX_KAFKA_VERSION


def _parse_json(text: str) -> Any:
    return json.loads(text, parse_float=Decimal, parse_int=_parse_integer)


def _parse_integer(digits: str) -> object:
    return int(digits) if len(digits) < 4000 else Decimal(digits)


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _format_value(value: object) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 400 else f"{text[:400]}..."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
