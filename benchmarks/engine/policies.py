"""Policies: the time that 20 rules over 10,000 topics add to a whole ``topiarist plan`` without changes.

The gates hold on any machine: each rule is evaluated once for each topic, and the plan with rules takes at most a few
times as long as the plan without.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.common import RUNS, ProcessRun, run_process, summarize_runs
from benchmarks.engine import planning

_RULES = (
    "topic.partitions >= 3 && topic.partitions <= 48",
    "topic.replicationFactor == 3",
    "topic.replicationFactor % 2 == 1 && topic.partitions % 2 == 0",
    'topic.name.startsWith("team.")',
    'topic.name.matches("^[a-z0-9]+([.-][a-z0-9]+)*$")',
    "topic.name.size() < 100",
    'topic.labels.team == "payments"',
    'topic.labels[?"tier"].orValue("none") == "none"',
    'topic.annotations[?"description"].orValue("").contains("payments")',
    '"retention.ms" in topic.config',
    'int(topic.config["retention.ms"]) <= 30 * 24 * 3600 * 1000',
    'int(topic.config[?"retention.ms"].orValue("604800000")) > 3600000',
    'int(topic.config["min.insync.replicas"]) < topic.replicationFactor',
    'topic.config[?"unclean.leader.election.enable"].orValue("false") == "false"',
    'topic.config["cleanup.policy"] in ["delete", "compact"]',
    'int(topic.config["segment.bytes"]) >= 1048576',
    "topic.config.all(key, key.size() < 50)",
    '!topic.config.exists(key, key.startsWith("confluent."))',
    'cluster.kafkaVersion == "3.9"',
    '!topic.observed && topic.namespace == ""',
)
"""Typical rules: numbers, patterns, labels, text with a number, loops over a map."""

_COUNTING_SCRIPT = """\
import sys
from topiarist.adapters import cel
from topiarist.cli.main import run
evaluate, calls = cel._evaluate_expression, []
def count(*arguments):
    calls.append(1)
    return evaluate(*arguments)
cel._evaluate_expression = count
code = run({words!r})
print(code, len(calls))
"""


def _policy_document() -> str:
    """Return the Policy document as JSON, which is YAML."""
    rules = [{"name": f"r{number}", "expression": text, "message": "not kept"} for number, text in enumerate(_RULES)]
    head = {"apiVersion": "topiarist.dev/v1", "kind": "Policy", "metadata": {"name": "twenty"}}
    return json.dumps({**head, "spec": {"rules": rules}})


def _count_evaluations(command: list[str]) -> int:
    """Return the number of expressions that a plan evaluates, counted in a separate process."""
    script = _COUNTING_SCRIPT.format(words=command[3:])
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    code, found = output.splitlines()[-1].split()
    if code != "0":
        raise RuntimeError(f"the plan ended with {code}")
    return int(found)


def measure(count: int = 10_000) -> dict[str, Any]:
    """Measure whole processes with and without rules, in turn."""
    without: list[ProcessRun] = []
    ruled: list[ProcessRun] = []
    with planning.adopted_cluster(count) as (_, connect, folder):
        plain = planning.plan_command(folder, connect)
        rules = Path(folder).parent / f"{Path(folder).name}-rules.yaml"
        rules.write_text(_policy_document())
        try:
            guarded = [*plain, "--platform", str(rules)]
            run_process(guarded)
            for _ in range(RUNS):
                without.append(run_process(plain))
                ruled.append(run_process(guarded))
            evaluations = _count_evaluations(guarded)
        finally:
            rules.unlink()
    slow, fast = summarize_runs(ruled), summarize_runs(without)
    return {
        "topics": count,
        "rules": len(_RULES),
        "seconds": slow["seconds"],
        "seconds_without": fast["seconds"],
        "seconds_more": round(slow["seconds"] - fast["seconds"], 3),
        "cpu_seconds_more": round(slow["cpu_seconds"] - fast["cpu_seconds"], 3),
        "times_as_long": round(slow["cpu_seconds"] / fast["cpu_seconds"], 2),
        "peak_mib": slow["peak_mib"],
        "evaluations": evaluations,
    }


if __name__ == "__main__":
    print(json.dumps(measure(), indent=2))
