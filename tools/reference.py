"""Generator of the reference tables in pages, from ``schemas/`` and from the code.

Usage: ``python tools/reference.py`` writes the pages; ``python tools/reference.py --check`` only reports stale pages,
and exits with 1 if there are any. It rewrites the text between ``<!-- generated: NAME -->`` and ``<!-- end -->``, and
leaves the rest of a page as it is.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import api_reference
import chart_files
import cli_reference
import fault_matrix
import guarantees
import interleaving_tables
import operator_campaigns
import service_matrix
from release import wheels

from topiarist.kafka.config_table import MAX_BY_TYPE, TOPIC_CONFIGS, ConfigDef
from topiarist.kafka.types import MIN_KAFKA_VERSION
from topiarist.kubernetes.metrics import Metrics
from topiarist.model.policy import CHANGE_VARIABLES, TOPIC_VARIABLES
from topiarist.planning.risk import RISK_TABLE as RISKS
from topiarist.planning.risk import ChangeRisk, NumberRisks, WordRisks
from topiarist.schema.load import Field, FieldTable, Schema

ROOT = Path(__file__).resolve().parent.parent

PART_PATTERN = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows as a Markdown table that ends with a newline."""
    lines = [list(head), ["---"] * len(head), *(list(row) for row in rows)]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def load_schema(name: str) -> Schema:
    """Return a schema of ``schemas/``."""
    document: Schema = json.loads((ROOT / "schemas" / f"{name}.json").read_text(encoding="utf-8"))
    return document


COMMON_FIELDS = ("apiVersion", "kind", "metadata", "status")
"""The fields that all kinds of documents have; the table of ``Topic`` explains them."""


def is_repeated_source(field: Field) -> bool:
    """Return whether a field is the file or Secret of a certificate or key, described before for another one."""
    return field.meaning.startswith("As `") and field.path.endswith((".file", ".secretKeyRef"))


def schema_part(document: Schema, head: str = "field", left_out: Container[str] = ()) -> str:
    """Return the fields of a manifest's schema, or all values of the chart's; the sources of secrets only once.

    ``left_out`` are fields that are omitted with all below them.
    """
    fields = FieldTable(document, linked=False).list_fields(document)
    rows = (
        (f"`{field.path}`", field.kind, field.meaning)
        for field in fields
        if not is_repeated_source(field) and field.path.partition(".")[0] not in left_out
    )
    return table((head, "takes", "meaning"), rows)


def document_part(document: Schema, left_out: Container[str] = ()) -> str:
    """Return the schema of a document: one table for the document and for each of its definitions."""
    table_text = _field_table(FieldTable(document, linked=True), document)
    return f"\n### document\n\n{document['description']}\n\n{table_text}" + definitions_part(document, left_out)


def format_part(name: str, left_out: Collection[str] = ()) -> str:
    """Return the schema of a document on the page of all formats: headings and links to them begin with its name."""
    text = document_part(load_schema(name), left_out).replace("\n### ", f"\n### {name}: ")
    own = {heading.lower() for heading in load_schema(name)["definitions"].keys() - set(left_out)}
    return re.sub(r"\]\(#(\w+)\)", lambda link: f"](#{name}-{link[1]})" if link[1] in own else link[0], text)


def definitions_part(document: Schema, left_out: Container[str] = ()) -> str:
    """Return the definitions of a schema: one table for each, such as the kinds of rows of a snapshot."""
    return "\n" + "\n".join(_definitions(document, FieldTable(document, linked=True), left_out)) + "\n"


def describe_part() -> str:
    """Return the schema of a description; definitions that equal those of the plan become links to these."""
    shared = load_schema("plan")["definitions"]
    return format_part(
        "describe",
        {name for name, schema in load_schema("describe")["definitions"].items() if shared.get(name) == schema},
    )


def drift_part() -> str:
    """Return the schema of a drift report: one table for each kind of row and each part of the summary.

    The classes of findings have their own part (``drift_class_part``).
    """
    document = load_schema("drift")
    del document["definitions"]["class"]["enumDescriptions"]
    return definitions_part(document, {"class"}).replace("](#class)", "](../drift-reference.md#classes)")


def drift_class_part() -> str:
    """Return the classes of findings, from the schema."""
    kind = load_schema("drift")["definitions"]["class"]
    words = zip(kind["enum"], kind["enumDescriptions"], strict=True)
    return table(("class", "meaning"), ((f"`{word}`", meaning) for word, meaning in words))


def _definitions(document: Schema, fields: FieldTable, left_out: Container[str]) -> Iterator[str]:
    for name, schema in document["definitions"].items():
        if name in left_out:
            continue
        about = schema["description"]
        if "enum" in schema:
            about += " One of " + ", ".join(f"`{word}`" for word in schema["enum"]) + "."
        rows = f"\n{_field_table(fields, schema)}" if "properties" in schema else ""
        yield f"### {name}\n\n{about}\n{rows}"


def report_part() -> str:
    """Return the lines of a report: one table for each kind; changes and records link to those of the plan."""
    document = load_schema("report")
    fields = FieldTable(document, linked=True)
    parts = []
    for name in ("header", "topic", "move", "summary"):
        schema = document["definitions"][name]
        parts.append(f"### report: {name}\n\n{schema['description']}\n\n{_field_table(fields, schema)}")
    return "\n" + "\n".join(parts) + "\n"


def _field_table(fields: FieldTable, schema: Schema) -> str:
    rows = ((f"`{field.path}`", field.kind, field.meaning) for field in fields.list_fields(schema))
    return table(("field", "holds", "meaning"), rows)


def config_part() -> str:
    """Return all topic configs, from the table that checks them."""
    rows = (
        (
            f"`{definition.name}`",
            _values(definition),
            _default(definition),
            _since(definition),
            definition.description,
        )
        for definition in TOPIC_CONFIGS.values()
    )
    return table(("config", "values", "Kafka's default", "releases", "meaning"), rows)


def risk_part() -> str:
    """Return the risk and the effect of a change of each topic config, from the table that assesses it."""
    rows = (
        (f"`{key}`", when, f"`{cost.risk.label}`", f"`{cost.effect.value}`", _explanation(cost))
        for key, row in RISKS.items()
        for when, cost in (_numeric_risks(row) if isinstance(row, NumberRisks) else _enum_risks(row))
    )
    return table(("config", "becomes", "risk", "effect", "explanation"), rows)


def _numeric_risks(row: NumberRisks) -> Iterator[tuple[str, ChangeRisk]]:
    yield "lower" if row.decrease.min_factor == 1 else "a tenth or less", row.decrease
    yield "higher" if row.increase.min_factor == 1 else "tenfold or more", row.increase
    if row.unlimited:
        yield "without limit", row.unlimited


def _enum_risks(row: WordRisks) -> Iterator[tuple[str, ChangeRisk]]:
    yield from ((f"`{word}`", cost) for word, cost in row.by_word.items())
    if not row.by_word:
        yield "anything else", row.otherwise


def _explanation(cost: ChangeRisk) -> str:
    return cost.explanation.format(limit="the new value", before="the old value", after="the new value")


def cel_variable_part() -> str:
    """Return the variables of a policy's expressions, from the table that declares them to CEL: those that rules of
    both subjects have, and those of subject ``Change`` alone.
    """
    rows = {name: (f"`{name}`", fact.type.value, fact.description) for name, fact in CHANGE_VARIABLES.items()}
    head = ("name", "is", "meaning")
    both = table(head, (row for name, row in rows.items() if name in TOPIC_VARIABLES))
    change = table(head, (row for name, row in rows.items() if name not in TOPIC_VARIABLES))
    return f"\n{both}\nOnly with subject `Change`:\n\n{change}\n"


def metric_part() -> str:
    """Return the operator's metrics, from its registry, without those of every process.

    Reads private attributes, because the library has no public way to list labels.
    """
    rows = []
    for collector in Metrics().registry._collector_to_names:
        for family in collector.collect():
            labels = getattr(collector, "_labelnames", ()) or getattr(family, "_labelnames", ())
            name = f"`{family.name}{'_total' if family.type == 'counter' else ''}`"
            if not family.name.startswith("process_"):
                rows.append((name, family.type, ", ".join(f"`{label}`" for label in labels), family.documentation))
    return table(("metric", "type", "labels", "meaning"), sorted(rows))


def _values(definition: ConfigDef) -> str:
    if definition.valid_values:
        return ("any of " if definition.type == "words" else "") + ", ".join(
            f"`{word}`" for word in definition.valid_values
        )
    if definition.type not in (*MAX_BY_TYPE, "double"):
        return definition.type
    besides = f", or {definition.also_allowed}" if definition.also_allowed is not None else ""
    if definition.maximum is not None and definition.maximum not in MAX_BY_TYPE.values():
        return f"{definition.type}, {definition.minimum} to {definition.maximum}{besides}"
    if definition.earlier_minimum is not None:
        version, earlier = definition.earlier_minimum
        besides += f"; before {version[0]}.{version[1]} from {earlier}"
    return f"{definition.type}, {'any' if definition.minimum is None else f'from {definition.minimum}'}{besides}"


def _default(definition: ConfigDef) -> str:
    text = f"`{definition.default}`" if definition.default else "empty"
    if definition.earlier_default is None:
        return text
    version, earlier = definition.earlier_default
    return f"{text}; before {version[0]}.{version[1]} `{earlier}`"


def _since(definition: ConfigDef) -> str:
    parts = ["{}.{} and later".format(*definition.since)] if definition.since > MIN_KAFKA_VERSION else []
    if definition.deprecated:
        parts.append("deprecated since {}.{}".format(*definition.deprecated[0]))
    if definition.removed:
        parts.append("not in {}.{} and later".format(*definition.removed))
    parts += ["some patch releases of {}.{}".format(*version) for version in definition.partly_in]
    return ", ".join(parts) or "all"


def wheel_part() -> str:
    """Return the systems with wheels for the command and for each extra, with the day of the registry's answer."""
    head = ("system", "the command", *(f"`{extra}`" for extra in wheels.EXTRAS))
    return f"\n{table(head, wheels.rows())}\nAsked on {wheels.recorded_on()}.\n"


PARTS: Mapping[str, Callable[[], str]] = {
    "commands": cli_reference.commands_part,
    "topic-fields": lambda: schema_part(load_schema("topic")),
    "cluster-fields": lambda: schema_part(load_schema("cluster"), left_out=COMMON_FIELDS),
    "policy-fields": lambda: schema_part(load_schema("policy"), left_out=COMMON_FIELDS),
    "project-fields": lambda: schema_part(load_schema("project")),
    "exception-fields": lambda: schema_part(load_schema("driftexception")),
    "drift-policy-fields": lambda: schema_part(load_schema("driftpolicy")),
    "policy-facts": cel_variable_part,
    "configs": config_part,
    "risks": risk_part,
    "plan-fields": lambda: document_part(load_schema("plan")),
    "report-fields": report_part,
    "snapshot-fields": lambda: definitions_part(load_schema("snapshot")),
    "status-fields": lambda: definitions_part(load_schema("status")),
    "metrics": metric_part,
    "describe-fields": describe_part,
    "check-fields": lambda: format_part("check"),
    "list-fields": lambda: format_part("list"),
    "upgrade-check-fields": lambda: format_part("upgrade-check"),
    "moves-fields": lambda: document_part(load_schema("moves")),
    "drift-fields": drift_part,
    "drift-classes": drift_class_part,
    "chart-values": lambda: schema_part(json.loads(chart_files.SCHEMA.read_text(encoding="utf-8")), "value"),
    "faults": fault_matrix.matrix_part,
    "campaigns": operator_campaigns.campaign_part,
    "soak-day": operator_campaigns.day_part,
    "interleaving-bounds": interleaving_tables.bound_part,
    "interleaving-windows": interleaving_tables.window_part,
    "interleaving-faults": interleaving_tables.planted_part,
    "wheels": wheel_part,
    "services": lambda: table(("service", *service_matrix.HEAD), service_matrix.service_rows()),
    "service-differences": lambda: table(("difference", *service_matrix.HEAD), service_matrix.difference_rows()),
    "service-harmless": service_matrix.harmless_differences,
    "guarantees": lambda: table(guarantees.HEAD, guarantees.guarantee_rows()),
    "python-interface": api_reference.api_part,
}


def generate_page(text: str) -> str:
    """Return a page with all its generated parts rewritten; raise ``KeyError`` for an unknown part."""
    return PART_PATTERN.sub(lambda match: f"{match[1]}{PARTS[match[2]]()}{match[3]}", text)


def main(arguments: list[str]) -> int:
    """Write the pages, or with ``--check`` report stale pages; return the exit code."""
    if arguments not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    stale = 0
    for page in (*sorted((ROOT / "docs").rglob("*.md")), chart_files.CHART / "README.md"):
        text = page.read_text(encoding="utf-8")
        if (wanted := generate_page(text)) == text:
            continue
        stale += 1
        if arguments:
            print(f"{page.relative_to(ROOT)}: differs from code or schemas; run: make generate", file=sys.stderr)
        else:
            page.write_text(wanted, encoding="utf-8")
    return 1 if stale and arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
