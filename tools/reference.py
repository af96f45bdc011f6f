"""Writes the reference parts of pages: fields from ``schemas/``, topic configs and modules from the code itself.

Usage: ``python tools/reference.py`` writes; ``python tools/reference.py --check`` only says what is out of step, and
then ends with 1. A part stands between ``<!-- generated: NAME -->`` and ``<!-- end -->``; all else in a page is written
by hand.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "operator"))

import chart_files  # noqa: E402
import fault_matrix  # noqa: E402

from topiarist.core.configdefs import LIMITS  # noqa: E402
from topiarist.core.configs import CONFIGS, ConfigDef  # noqa: E402
from topiarist.core.facts import CHANGE, TOPIC  # noqa: E402
from topiarist.core.risktable import TABLE as RISKS  # noqa: E402
from topiarist.core.risktable import Cost, Numeric, Words  # noqa: E402
from topiarist.core.spec import OLDEST  # noqa: E402
from topiarist.kubernetes.metrics import Metrics  # noqa: E402

PART = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
LARGEST = 2**31 - 1
SAID_ELSEWHERE = {"config"}
"""Definitions whose keys have a table of their own."""

Schema = Mapping[str, Any]


class Field(NamedTuple):
    """A row of a reference: where the field stands, what it takes, what it means."""

    path: str
    kind: str
    meaning: str


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows as a Markdown table, ending with a newline."""
    lines = [list(head), ["---"] * len(head), *(list(row) for row in rows)]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


class Fields:
    """The fields of one schema; a definition that has been shown is afterwards only referred to."""

    def __init__(self, document: Schema, linked: bool) -> None:
        self._definitions: Mapping[str, Schema] = document.get("definitions", {})
        self._linked = linked
        self._shown: dict[str, str] = {}

    def below(self, schema: Schema, prefix: str = "") -> Iterator[Field]:
        """The fields of an object, depth first."""
        for name, inner in schema.get("properties", {}).items():
            path = f"{prefix}{name}"
            required = name in schema.get("required", ())
            yield from self._field(path, inner, ", required" if required and not self._linked else "")

    def _field(self, path: str, schema: Schema, remark: str) -> Iterator[Field]:
        name = reference(schema)
        if name in self._shown:
            yield Field(path, self._kind(schema) + remark, f"As `{self._shown[name]}`.")
            return
        if name and not self._linked:
            self._shown[name] = path
            schema = self._definitions[name]
        yield Field(path, self._kind(schema) + remark, self._meaning(schema))
        if name in SAID_ELSEWHERE:
            return
        items = schema.get("items", {})
        yield from self.below(items if self._linked else self._resolved(items), f"{path}[].")
        for option in (schema, *schema.get("oneOf", ())):
            yield from self.below(option, f"{path}.")

    def _resolved(self, schema: Schema) -> Schema:
        name = reference(schema)
        return self._definitions[name] if name else schema

    def _meaning(self, schema: Schema) -> str:
        schema = self._resolved(schema)
        words = zip(schema.get("enum", ()), schema.get("enumDescriptions", ()), strict=False)
        parts = [schema.get("description", ""), *(f"`{word}`: {meaning}" for word, meaning in words)]
        if schema.get("default", "") != "":
            parts.append(f"Default: `{plain(schema['default'])}`.")
        return " ".join(filter(None, parts))

    def _kind(self, schema: Schema) -> str:
        """What a field takes, in words."""
        name = reference(schema)
        if name and self._linked:
            return f"[{name}](#{name.lower()})"
        schema = self._resolved(schema)
        options = schema.get("oneOf", ())
        if options:
            return " or ".join(sorted(map(self._kind, options), key="null".__eq__))
        if "enum" in schema and len(schema["enum"]) <= 8:
            return " or ".join(f"`{word}`" for word in schema["enum"])
        if "enum" in schema:
            return f"`{schema['enum'][0]}` to `{schema['enum'][-1]}`"
        return self._plain_kind(schema)

    def _plain_kind(self, schema: Schema) -> str:
        kind = schema.get("type", "")
        if isinstance(kind, list):
            lists = {"array": self._plain_kind({**schema, "type": "array"})} if "array" in kind else {}
            return " or ".join(dict.fromkeys({**WORDS, **lists}[one] for one in kind))
        if kind == "array":
            return f"list of {self._kind(schema['items'])}"
        values = schema.get("additionalProperties")
        if kind == "object" and isinstance(values, Mapping):
            return f"map to {self._kind(values)}"
        return WORDS[kind] + bounds(schema)


WORDS = {
    "string": "text",
    "object": "map",
    "integer": "number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
}


def reference(schema: Schema) -> str:
    """The name of the definition that a schema refers to, or empty."""
    return str(schema.get("$ref", "")).rpartition("/")[2]


def plain(value: Any) -> str:
    """A value as a manifest would have it."""
    return value if isinstance(value, str) else json.dumps(value)


def bounds(schema: Schema) -> str:
    """The bounds of a number, or nothing if there are none that a person would meet."""
    low, high = schema.get("minimum"), schema.get("maximum")
    if high is not None and high != LARGEST:
        return f", {low} to {high}"
    return f", from {low}" if low is not None else ""


def schema_part(name: str) -> str:
    """All fields of a manifest's schema."""
    document = json.loads((ROOT / "schemas" / f"{name}.json").read_text(encoding="utf-8"))
    rows = ((f"`{field.path}`", field.kind, field.meaning) for field in Fields(document, linked=False).below(document))
    return table(("field", "takes", "meaning"), rows)


def chart_part() -> str:
    """All values of the chart."""
    document = json.loads(chart_files.SCHEMA.read_text(encoding="utf-8"))
    rows = ((f"`{field.path}`", field.kind, field.meaning) for field in Fields(document, linked=False).below(document))
    return table(("value", "takes", "meaning"), rows)


def plan_part() -> str:
    """The plan's schema: one table for the document and for each of its definitions."""
    document = json.loads((ROOT / "schemas" / "plan.json").read_text(encoding="utf-8"))
    fields = Fields(document, linked=True)
    parts = [f"### document\n\n{document['description']}\n\n{_plan_table(fields, document)}"]
    return "\n" + "\n".join([*parts, *_definitions(document, fields)]) + "\n"


def describe_part() -> str:
    """The schema of a description: one table for the document and for each definition; changes are those of a plan."""
    document = json.loads((ROOT / "schemas" / "describe.json").read_text(encoding="utf-8"))
    shared = json.loads((ROOT / "schemas" / "plan.json").read_text(encoding="utf-8"))["definitions"]
    own = {name: schema for name, schema in document["definitions"].items() if shared.get(name) != schema}
    fields = Fields(document, linked=True)
    parts = [f"### document\n\n{document['description']}\n\n{_plan_table(fields, document)}"]
    parts += _definitions({"definitions": own}, fields)
    text = "\n" + "\n".join(parts) + "\n"
    return re.sub(r"\]\(#([a-z]+)\)", lambda link: link[0] if link[1] in own else f"](plan-format.md#{link[1]})", text)


def list_part() -> str:
    """The schema of a list: one table for the document and for each definition."""
    document = json.loads((ROOT / "schemas" / "list.json").read_text(encoding="utf-8"))
    fields = Fields(document, linked=True)
    parts = [f"### document\n\n{document['description']}\n\n{_plan_table(fields, document)}"]
    return "\n" + "\n".join([*parts, *_definitions(document, fields)]) + "\n"


def snapshot_part() -> str:
    """The snapshot's schema: one table for each kind of row."""
    document = json.loads((ROOT / "schemas" / "snapshot.json").read_text(encoding="utf-8"))
    return "\n" + "\n".join(_definitions(document, Fields(document, linked=True))) + "\n"


def status_part() -> str:
    """What the operator writes: one table for each definition."""
    document = json.loads((ROOT / "schemas" / "status.json").read_text(encoding="utf-8"))
    return "\n" + "\n".join(_definitions(document, Fields(document, linked=True))) + "\n"


def drift_part() -> str:
    """A report's schema: one table for each kind of row and each part of the summary; classes stand elsewhere."""
    document = json.loads((ROOT / "schemas" / "drift.json").read_text(encoding="utf-8"))
    kind = document["definitions"]["class"]
    own = {name: schema for name, schema in document["definitions"].items() if schema is not kind}
    del kind["enumDescriptions"]
    text = "\n" + "\n".join(_definitions({"definitions": own}, Fields(document, linked=True))) + "\n"
    return text.replace("](#class)", "](#findings)")


def drift_class_part() -> str:
    """The classes of findings, from the schema."""
    kind = json.loads((ROOT / "schemas" / "drift.json").read_text(encoding="utf-8"))["definitions"]["class"]
    words = zip(kind["enum"], kind["enumDescriptions"], strict=True)
    return table(("class", "meaning"), ((f"`{word}`", meaning) for word, meaning in words))


def _definitions(document: Schema, fields: Fields) -> Iterator[str]:
    for name, schema in document["definitions"].items():
        about = schema["description"]
        if "enum" in schema:
            about += " One of " + ", ".join(f"`{word}`" for word in schema["enum"]) + "."
        rows = f"\n{_plan_table(fields, schema)}" if "properties" in schema else ""
        yield f"### {name}\n\n{about}\n{rows}"


def report_part() -> str:
    """The lines of a report: one table for each kind; changes and records are those of a plan."""
    document = json.loads((ROOT / "schemas" / "report.json").read_text(encoding="utf-8"))
    fields = Fields(document, linked=True)
    parts = []
    for name in ("header", "topic", "summary"):
        schema = document["definitions"][name]
        parts.append(f"### {name}\n\n{schema['description']}\n\n{_plan_table(fields, schema)}")
    return ("\n" + "\n".join(parts) + "\n").replace("](#", "](plan-format.md#")


def _plan_table(fields: Fields, schema: Schema) -> str:
    rows = ((f"`{field.path}`", field.kind, field.meaning) for field in fields.below(schema))
    return table(("field", "holds", "meaning"), rows)


def config_part() -> str:
    """All topic configs, from the table that judges them."""
    rows = (
        (f"`{one.name}`", _values(one), f"`{one.default}`" if one.default else "empty", _since(one), one.description)
        for one in CONFIGS.values()
    )
    return table(("config", "values", "Kafka's default", "releases", "meaning"), rows)


def risk_part() -> str:
    """What a change of each topic config may cost, from the table that judges it."""
    rows = (
        (f"`{key}`", when, f"`{cost.risk.word}`", _reason(cost))
        for key, row in RISKS.items()
        for when, cost in (_directions(row) if isinstance(row, Numeric) else _goals(row))
    )
    return table(("config", "becomes", "risk", "because"), rows)


def _directions(row: Numeric) -> Iterator[tuple[str, Cost]]:
    yield "lower" if row.lower.times == 1 else "a tenth or less", row.lower
    yield "higher" if row.higher.times == 1 else "tenfold or more", row.higher
    if row.endless:
        yield "without limit", row.endless


def _goals(row: Words) -> Iterator[tuple[str, Cost]]:
    yield from ((f"`{word}`", cost) for word, cost in row.to.items())
    if not row.to:
        yield "anything else", row.other


def _reason(cost: Cost) -> str:
    return cost.because.format(limit="the new value", before="the old value", after="the new value")


def fact_part() -> str:
    """What a policy's expressions may name, from the table that declares it to them."""
    rows = (
        (f"`{name}`", fact.kind.value, "Topic, Change" if name in TOPIC else "Change", fact.meaning)
        for name, fact in CHANGE.items()
    )
    return table(("name", "is", "subject", "meaning"), rows)


def metric_part() -> str:
    """What the operator tells Prometheus, from its registry; the library has no public way to ask for labels."""
    rows = []
    for collector in Metrics().registry._collector_to_names:
        for family in collector.collect():
            labels = getattr(collector, "_labelnames", ()) or getattr(family, "_labelnames", ())
            name = f"`{family.name}{'_total' if family.type == 'counter' else ''}`"
            rows.append((name, family.type, ", ".join(f"`{label}`" for label in labels), family.documentation))
    return table(("metric", "type", "labels", "meaning"), sorted(rows))


def _values(one: ConfigDef) -> str:
    if one.words:
        return ("any of " if one.form == "words" else "") + ", ".join(f"`{word}`" for word in one.words)
    if one.form not in (*LIMITS, "double"):
        return one.form
    besides = f", or {one.besides}" if one.besides is not None else ""
    if one.maximum is not None and one.maximum not in LIMITS.values():
        return f"{one.form}, {one.minimum} to {one.maximum}{besides}"
    return f"{one.form}, {'any' if one.minimum is None else f'from {one.minimum}'}{besides}"


def _since(one: ConfigDef) -> str:
    parts = ["{}.{} and later".format(*one.since)] if one.since > OLDEST else []
    if one.deprecated:
        parts.append("deprecated since {}.{}".format(*one.deprecated[0]))
    return ", ".join(parts) or "all"


def module_part() -> str:
    """Every module with the first sentence of its docstring."""
    package = ROOT / "operator" / "topiarist"
    rows = []
    for file in sorted(package.rglob("*.py"), key=lambda file: (str(file.parent), file.name)):
        text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
        if text:
            name = str(file.relative_to(package)).removesuffix("__init__.py")
            rows.append((f"`{name or 'topiarist/'}`", _first_sentence(text)))
    return table(("module", "what it is for"), rows)


def _first_sentence(docstring: str) -> str:
    """Without what it says of papers that the reader of a page does not have."""
    paragraph = re.sub(
        r" \((contract|design)[^)]*\)|; contract [0-9., ]*[0-9]", "", " ".join(docstring.split("\n\n")[0].split())
    )
    return re.split(r"(?<=[.]) (?=[A-Z])", paragraph)[0].replace("``", "`")


PARTS: Mapping[str, Callable[[], str]] = {
    "topic-fields": lambda: schema_part("topic"),
    "cluster-fields": lambda: schema_part("cluster"),
    "policy-fields": lambda: schema_part("policy"),
    "policy-facts": fact_part,
    "configs": config_part,
    "risks": risk_part,
    "plan-fields": plan_part,
    "report-fields": report_part,
    "snapshot-fields": snapshot_part,
    "status-fields": status_part,
    "metrics": metric_part,
    "describe-fields": describe_part,
    "list-fields": list_part,
    "drift-fields": drift_part,
    "drift-classes": drift_class_part,
    "modules": module_part,
    "chart-values": chart_part,
    "faults": fault_matrix.part,
}


def generated(text: str) -> str:
    """A page with every generated part as it should be. Raises ``KeyError`` for a part that nobody knows."""
    return PART.sub(lambda match: f"{match[1]}{PARTS[match[2]]()}{match[3]}", text)


def main(arguments: list[str]) -> int:
    """Write the pages, or with ``--check`` complain about those that differ; returns the exit code."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    stale = 0
    for page in (*sorted((ROOT / "docs").glob("*.md")), chart_files.CHART / "README.md"):
        text = page.read_text(encoding="utf-8")
        if (wanted := generated(text)) == text:
            continue
        stale += 1
        if arguments:
            print(f"{page.relative_to(ROOT)}: out of step with code or schemas; run: make generate", file=sys.stderr)
        else:
            page.write_text(wanted, encoding="utf-8")
    return 1 if stale and arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
