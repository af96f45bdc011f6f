"""The story that each cell of the matrix of services tells: every command, each write twice, and a reader beside it.

A cell is a server with a ``Cluster`` document. The story reads, creates a topic, adopts another one, adds partitions,
changes a config and deletes. Each step ends in ``works`` or in a reason. Whatever the server denies, the story checks:

- no command ends in a traceback, and each failure names its reason;
- a failure that happens again does not advise to run again;
- ``done`` is what another client reads afterwards, and after a refusal that client reads what it read before;
- a second apply writes nothing;
- after all writes, whatever became of them, every command that only reads works as before.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from services.servers import Inspected, Inspector
from support.cli.runs import RunResult, document, run_topiarist
from topiarist.cli import terminal
from topiarist.errors import Exit, Reason, TopiaristError

WORKS = "works"

RUN_AGAIN = re.compile(r"\brun (again|the same command again)\b")
NOTHING_WRITTEN = re.compile(r"\bnothing (was|is) (written|changed)\b")

BEFORE, AFTER, RETENTION = "86400000", "172800000", "retention.ms"


class Cell(NamedTuple):
    """A row of ``cells.toml``, which explains the fields.

    ``hidden`` has the newest version that is offered by API key; None: the request is not offered. ``rules`` are more
    differences of an emulated server: ``emulator/words.go`` has their form.
    """

    title: str
    how: str
    server: str = ""
    mode: str = ""
    rules: Sequence[str] = ()
    hidden: Mapping[int, int | None] = {}
    kafka: Mapping[str, Any] = {}
    factor: int = 3
    configured: bool = True
    page: bool = True
    section: str = ""


def load_cells() -> dict[str, Cell]:
    """Read the cells by name; a cell without a mode has the mode of its name."""
    table = tomllib.loads(Path(__file__).with_name("cells.toml").read_text(encoding="utf-8"))
    cells = {name: Cell(**{"mode": name, **fields}) for name, fields in table["cell"].items()}
    for name, request in table["hidden"].items():
        for newest in (None, *request["newest"]):
            title = f"without {name}" if newest is None else f"{name} up to version {newest}"
            hidden = {request["key"]: newest}
            cells[title] = Cell(title, "real", "kafka", hidden=hidden, page=False)
    several = dict(table["several"])
    for error, answered in table["answered"].items():
        for name, key in answered["requests"].items():
            several[f"{name} that is offered, and answers {error}"] = [f"{key}={answered['code']}"]
    for title, rules in several.items():
        cells[title] = Cell(title, "emulated", "emulator", "apache-kafka", rules, page=False)
    return cells


CELLS = load_cells()


@dataclass
class Story:
    """One cell and its results.

    ``cluster`` is the spec of its ``Cluster`` document, ``existing`` and ``new`` are names of topics. ``folder`` is for
    manifests. ``catch_up`` returns when the brokers know what was changed.
    """

    cell: Cell
    cluster: Mapping[str, Any]
    inspector: Inspector
    folder: Path
    existing: str = "orders"
    new: str = "payments"
    catch_up: Callable[[], None] = lambda: None
    results: dict[str, str] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)
    _errors: list[Reason] = field(default_factory=list)

    def tell(self) -> None:
        """Run all steps; raise ``AssertionError`` for a promise that does not hold."""
        self.inspector.create(self.existing, 3, self.cell.factor)
        reads = self._read_all("")
        self._write("adopt", self.existing, {})
        before = BEFORE if self.cell.configured else ""
        self._write("create", self.new, self._spec(partitions=3, retention=before))
        if self.new in self._topics():
            self._write("grow", self.new, self._spec(partitions=5, retention=before))
            grown = self._topics()[self.new].size[0]
            self._write("config", self.new, self._spec(partitions=grown, retention=AFTER))
            self._write("delete", self.new, {"ensure": "Absent"})
        after = self._read_all("after ")
        assert after == reads, {name: self.messages.get(f"after {name}") for name in after}

    def _spec(self, partitions: int, retention: str = "") -> dict[str, Any]:
        config = {"config": {RETENTION: int(retention)}} if retention else {}
        return {"partitions": partitions, "replicationFactor": self.cell.factor, **config}

    def _declare(self, new: Mapping[str, Any]) -> None:
        """Write the manifests: the cluster, the existing topic, and the spec of the new one, if it has any."""
        topics = {self.existing: self._spec(partitions=3), **({self.new: new} if new else {})}
        documents = [document("Cluster", "service", **self.cluster)]
        documents += [document("Topic", name, clusters=["service"], **spec) for name, spec in topics.items()]
        (self.folder / "all.yaml").write_text("\n---\n".join(documents))

    def _topics(self) -> dict[str, Inspected]:
        """Return the topics of this story, as the inspector reads them."""
        self.catch_up()
        return {name: topic for name, topic in self.inspector.read().items() if name in (self.existing, self.new)}

    # Commands that only read.

    def _read_all(self, prefix: str) -> dict[str, str]:
        """Run each command that only reads; return the results."""
        self._declare({})
        manifests = self.folder / "all.yaml"
        commands: dict[str, Sequence[str | Path]] = {
            "check": ("check", manifests),
            "list": ("list", manifests),
            "plan": ("plan", manifests),
            "describe": ("describe", self.existing, "--clusters", manifests),
            "export": ("export", manifests, "--out", self.folder / f"{prefix}export"),
            "snapshot": ("snapshot", manifests, "--out", self.folder / f"{prefix}snapshot"),
        }
        before = self._topics()
        results = {}
        for name, words in commands.items():
            said = self._run(*words)
            results[name] = WORKS if said.code == Exit.DONE else self._reason_of(said)
            if results[name] != WORKS:
                self.messages[f"{prefix}{name}"] = flatten(said)
                self._check_advice(said, self._run(*words))
        after = self._topics()
        assert after == before, f"a command that only reads has written: {before} -> {after}"
        self.results |= {f"{prefix}{name}": result for name, result in results.items() if not prefix}
        return results

    # Writes.

    def _write(self, step: str, topic: str, new: Mapping[str, Any]) -> None:
        """Apply manifests, compare what was reported of a topic with what the inspector reads, and apply them again."""
        self._declare(new)
        before = self._topics()
        said, row = self._apply(topic)
        after = self._topics()
        result = self.results[step] = self._result_of(said, row)
        if result == WORKS:
            self._check_done(new or self._spec(partitions=3), row, after.get(topic))
            self._check_placement(row, after.get(topic))
        else:
            self.messages[step] = flatten(said)
            self._check_not_done(said, row, before.get(topic) == after.get(topic))
        again, second = self._apply(topic)
        assert self._topics() == after, f"{step}: the second apply wrote: {again}"
        if result == WORKS:
            is_refused = (row and row["refusals"]) or self.results["adopt"] != WORKS
            assert again.code == Exit.DONE or is_refused, f"{step}: {again}"
            assert second is None or not second["changes"], f"{step}, again: {second}"
        elif self._result_of(again, second) == result:
            self._check_advice(said, again)

    def _apply(self, topic: str) -> tuple[RunResult, Mapping[str, Any] | None]:
        """Run ``apply``; return what it said, and the last line of its report about the topic."""
        report = self.folder / "report.jsonl"
        report.unlink(missing_ok=True)
        consent = ("--allow-risk", f"DataLoss={self.new}", f"--allow-in-use={self.new}") if topic == self.new else ()
        said = self._run("apply", self.folder / "all.yaml", "--yes", *consent, "--report", report)
        rows = [json.loads(line) for line in report.read_text().splitlines()] if report.exists() else []
        found = [row for row in rows if row.get("topic") == topic]
        if (
            rows
            and rows[-1]["row"] == "summary"
            and rows[-1]["errors"]
            and (not found or found[-1]["result"] != "done")
        ):
            return said, {"result": "skipped", "reason": rows[-1]["errors"][0], "changes": [], "refusals": []}
        return said, found[-1] if found else None

    def _result_of(self, said: RunResult, row: Mapping[str, Any] | None) -> str:
        if said.code == Exit.DONE and (row is None or row["result"] in ("done", "unchanged")):
            return WORKS
        if row and row["result"] == "done":
            return WORKS
        if row and row["reason"]:
            return str(row["reason"])
        if row and row["refusals"]:
            return str(row["refusals"][0]["reason"])
        return self._reason_of(said)

    def _check_not_done(self, said: RunResult, row: Mapping[str, Any] | None, is_unchanged: bool) -> None:
        """Assert that a topic which was refused or not reached is as before."""
        if not is_unchanged:
            assert not NOTHING_WRITTEN.search(flatten(said)), f"it was changed: {said}"
            assert row, said
            assert row["result"] not in ("refused", "skipped", "unchanged"), f"it was changed: {said}"

    def _check_done(self, spec: Mapping[str, Any], row: Mapping[str, Any] | None, found: Inspected | None) -> None:
        """Assert that another client reads what was reported as done, beside what was refused."""
        if spec.get("ensure") == "Absent":
            assert found is None, found
            return
        assert found is not None, f"done, and not there: {spec}"
        refused = {refusal["reason"] for refusal in (row["refusals"] if row else ())}
        factor = found.size[1] if "ReplicationFactorDiffers" in refused else spec["replicationFactor"]
        assert found.size == (spec["partitions"], factor), f"wanted {spec}, found {found}"
        wanted = {key: str(value) for key, value in spec.get("config", {}).items()}
        assert {key: found.config.get(key) for key in wanted} == wanted

    def _check_placement(self, row: Mapping[str, Any] | None, found: Inspected | None) -> None:
        """Assert that replica lists of the plan were carried out, but those that the brokers were to choose."""
        changes = {change["kind"]: change.get("after") or {} for change in (row["changes"] if row else ())}
        created, added = changes.get("CreateTopic", {}), changes.get("AddPartitions", {})
        planned = created.get("replicas") or added.get("newReplicas") or []
        if found and all(broker >= 0 for replicas in planned for broker in replicas):
            made = [list(replicas) for replicas in found.replicas[len(found.replicas) - len(planned) :]]
            assert made == planned, f"{row}, found {found}"

    # What holds for each run.

    def _run(self, *words: str | Path) -> RunResult:
        """Run a command; keep the reasons of the errors that it prints, which their texts do not have."""
        self._errors = []
        print_error = terminal.print_error

        def keep(error: TopiaristError, cluster: str = "") -> None:
            self._errors.append(error.reason)
            print_error(error, cluster)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(terminal, "print_error", keep)
            said = run_topiarist(*words)
        assert "Traceback" not in said.out + said.err, said.err
        assert said.code in {*Exit}, said
        return said

    def _reason_of(self, said: RunResult) -> str:
        """Return the reason of a run that failed as a whole."""
        assert self._errors, f"a failure without a reason: {said}"
        return str(self._errors[0])

    def _check_advice(self, first: RunResult, second: RunResult) -> None:
        if first.code == second.code:
            assert not RUN_AGAIN.search(flatten(second)), f"it failed twice, and the advice is to run again: {second}"


def flatten(said: RunResult) -> str:
    """Return the output of a run on one line."""
    return " ".join((said.out + said.err).split())
