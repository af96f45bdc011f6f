"""``make campaign``: run all campaigns on the operator, print each alarm, and write the figures.

Usage: ``python -m campaigns.run [RECORD]``. The exit code is 1 if there is an alarm that ``remaining`` does not name.
``tools/operator_campaigns.py`` makes ``docs/internals/operator-campaigns.md`` from the record.
"""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from typing import Any

from campaigns.patterns import Pattern, enumerate_cases, run_case, run_reference
from campaigns.record import write_record
from campaigns.remaining import remaining_reason
from campaigns.sequences import enumerate_sequences, run_sequence
from campaigns.workloads import WORKLOADS


def run_patterns(record: dict[str, Any]) -> int:
    """Run every case of every pattern; return the number of alarms that are not known."""
    cases, alarms, unknown = Counter[Pattern](), Counter[Pattern](), 0
    positions, seconds = Counter[str](), Counter[Pattern]()
    remaining: Counter[str] = Counter()
    for workload in WORKLOADS:
        reference = run_reference(workload)
        positions["writes"] += len(reference.writes)
        positions["events"] += reference.versions[-1]
        for case in enumerate_cases(workload, reference):
            begun = time.monotonic()
            found = run_case(case, reference)
            seconds[case.pattern] += time.monotonic() - begun  # type: ignore[assignment]
            cases[case.pattern] += 1
            if not found:
                continue
            alarms[case.pattern] += 1
            if reason := remaining_reason(case, found):
                remaining[reason] += 1
            else:
                unknown += 1
                print("\n".join((str(case), *(f"  {alarm:.1000}" for alarm in found))))
    record["workloads"] = [workload.name for workload in WORKLOADS]
    record["positions"] = dict(positions)
    record["patterns"] = {
        each.value: {"cases": cases[each], "alarms": alarms[each], "seconds": round(seconds[each], 1)}
        for each in Pattern
    }
    record["remaining"] = dict(remaining)
    return unknown


def run_sequences(record: dict[str, Any]) -> int:
    """Run the sequences of all properties; return the number of alarms."""
    record["sequences"], total = {}, 0
    for plural in ("topics", "clusters"):
        begun, states, alarms, properties, accepted = time.monotonic(), Counter[str](), 0, 0, 0
        for sequence in enumerate_sequences(plural):
            report = run_sequence(sequence)
            states += report.states
            properties += 1
            accepted += bool(report.accepted)
            alarms += len(report.alarms)
            print("".join(f"{alarm:.1000}\n" for alarm in report.alarms), end="")
        record["sequences"][plural] = {
            "properties": properties,
            "accepted": accepted,
            "states": dict(sorted(states.items())),
            "alarms": alarms,
            "seconds": round(time.monotonic() - begun, 1),
        }
        total += alarms
    return total


def main(arguments: list[str]) -> int:
    """Run all campaigns and write the record; return the exit code."""
    logging.disable(logging.WARNING)  # the faults of the campaigns are logged thousands of times
    figures: dict[str, Any] = {}
    begun = time.monotonic()
    figures["unknownAlarms"] = unknown = run_patterns(figures) + run_sequences(figures)
    write_record(figures, time.monotonic() - begun, arguments)
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
