"""The figures of ``docs/internals/operator-campaigns.md``, from the records of ``make campaign`` and ``make soak-day``.

``python tools/operator_campaigns.py RECORD`` copies a record without unknown alarms to
``docs/internals/operator-campaigns.json`` or ``docs/internals/soak-day.json``, and ``make generate``
makes the page from them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from topiarist.text import format_count

ROOT = Path(__file__).resolve().parent.parent
RECORD, DAY = ROOT / "docs" / "internals" / "operator-campaigns.json", ROOT / "docs" / "internals" / "soak-day.json"


def campaign_part() -> str:
    """Return the generated part of the page: cases and alarms by pattern, states by kind, remaining alarms."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    patterns, sequences, positions = record["patterns"], record["sequences"], record["positions"]
    cases = sum(each["cases"] for each in patterns.values())
    text = f"\nThe run of {record['date']}: {record['seconds']} s. {len(record['workloads'])} workloads with "
    text += f"{positions['writes']:,} writes and {positions['events']:,} events, {cases:,} cases.\n\n"
    text += "| pattern | cases | alarms | seconds |\n| --- | --- | --- | --- |\n"
    for name, each in patterns.items():
        text += f"| {name} | {each['cases']:,} | {each['alarms']:,} | {each['seconds']} |\n"
    text += f"\nWorkloads: {', '.join(record['workloads'])}.\n"
    verdicts = sorted({verdict for each in sequences.values() for verdict in each["states"]})
    text += f"\n| kind | properties | with accepted states | {' | '.join(verdicts)} | alarms | seconds |\n"
    text += "| --- " * (5 + len(verdicts)) + "|\n"
    for kind, each in sequences.items():
        counts = " | ".join(f"{each['states'].get(verdict, 0):,}" for verdict in verdicts)
        text += f"| {kind} | {each['properties']} | {each['accepted']} | {counts} "
        text += f"| {each['alarms']} | {each['seconds']} |\n"
    text += "\nAlarms that remain:\n\n" if record["remaining"] else "\nNo alarm remains.\n"
    remaining = (f"- {reason} ({format_count(count, 'case')})\n" for reason, count in record["remaining"].items())
    return text + "".join(remaining) + "\n"


def day_part() -> str:
    """Return the generated part about a day: changes, writes, Topics that are not ready, and memory by quarter."""
    record = json.loads(DAY.read_text(encoding="utf-8"))
    kinds = sorted({kind for each in record["quarters"] for kind in each["changes"]})
    text = f"\nThe run of {record['date']}: {record['seconds']:,} s, {format_count(record['alarms'], 'alarm')}.\n\n"
    text += f"| quarter | Topics | {' | '.join(f'changes: {kind}' for kind in kinds)} | writes of the operator "
    text += "| Topics that are not ready, as their specs ask for | bytes for each Topic |\n"
    text += "| --- " * (5 + len(kinds)) + "|\n"
    for number, each in enumerate(record["quarters"], start=1):
        counts = " | ".join(f"{each['changes'].get(kind, 0):,}" for kind in kinds)
        reasons = ", ".join(f"{count} `{reason}`" for reason, count in sorted(each["not_ready"].items()))
        text += f"| {number} | {each['topics']:,} | {counts} | {each['writes']:,} | {reasons} "
        text += f"| {each['bytes_per_topic']:,} |\n"
    return text + "\n"


def main(arguments: list[str]) -> int:
    """Copy a record to its file in ``docs``; return the exit code."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    text = Path(arguments[0]).read_text(encoding="utf-8")
    record = json.loads(text)
    if unknown := record["alarms" if "quarters" in record else "unknownAlarms"]:
        print(f"the run has {unknown} alarms that are neither corrected nor named", file=sys.stderr)
        return 1
    (DAY if "quarters" in record else RECORD).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
