"""The severity rules of a platform: ``DriftPolicy`` documents that raise or lower the severity of findings.

A kind beside ``DriftException``, and not a part of the project file: the same loader checks it and names its lines, and
with ``--platform`` only the rules of the platform count, so that no branch lowers its own findings. ``runs.inputs``
parses the documents, ``drift.rows`` applies the rules to each row, in any process.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial

from msgspec import Struct

from topiarist.drift.findings import SEVERITY_RANK, FindingRow, FindingSelection, Severity
from topiarist.errors import Diagnostic
from topiarist.kafka.config_rules import describe_unknown_key
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.model.spec import ClusterSpec, Manifest
from topiarist.schema.load import load_schema
from topiarist.text import quote

KIND = "DriftPolicy"

_SEVERITIES = tuple(Severity)


class SeverityRule(Struct, frozen=True, eq=False):
    """A rule of a ``DriftPolicy``: the findings that it is for, and what becomes of their severity.

    ``cluster_labels`` are labels that the cluster of a finding must have. ``action`` is a field of ``severity`` in the
    document, ``value`` its severity, or the number of steps of ``raise`` and ``lower``.
    """

    policy: str
    name: str
    file: str
    line: int
    selection: FindingSelection
    cluster_labels: Mapping[str, str]
    action: str
    value: str | int

    def matches(self, row: FindingRow, labels: Mapping[str, str]) -> bool:
        """Return whether the rule is for a finding; ``labels`` are those of its cluster, empty without a cluster."""
        return self.cluster_labels.items() <= labels.items() and self.selection.matches(row)

    def decide(self, severity: Severity) -> Severity:
        """Return the severity of a finding that has this one by its effect."""
        rank = SEVERITY_RANK[severity.value]
        if isinstance(self.value, int):
            rank += self.value if self.action == "lower" else -self.value
            return _SEVERITIES[min(max(rank, 0), len(_SEVERITIES) - 1)]
        wanted = SEVERITY_RANK[self.value]
        bounds = {"atLeast": min(rank, wanted), "atMost": max(rank, wanted)}
        return _SEVERITIES[bounds.get(self.action, wanted)]


def apply_rules(row: FindingRow, rules: Sequence[SeverityRule], labels: Mapping[str, str]) -> None:
    """Let the first rule that is for a finding decide its severity; the row names a rule that has changed it."""
    rule = next((each for each in rules if each.matches(row, labels)), None)
    if rule is None:
        return
    before = row["severity"]
    row["severity"] = rule.decide(Severity(before)).value
    if row["severity"] != before:
        place = {"file": rule.file, "line": rule.line}
        row["severityRule"] = {"policy": rule.policy, "rule": rule.name, "from": before, **place}


def parse_rules(
    manifests: Iterable[Manifest], clusters: Collection[ClusterSpec]
) -> tuple[list[SeverityRule], list[Diagnostic]]:
    """Return the rules in order of file and line, and the errors that no schema finds.

    The errors are two rules of one name, and patterns of fields that no finding can have; a policy with errors has no
    rule. ``clusters`` are those of the run: they decide which keys of vendors are known.
    """
    rules, errors = list[SeverityRule](), list[Diagnostic]()
    for manifest in manifests:
        if manifest.kind == KIND:
            found = [*_find_errors(manifest, clusters)]
            errors += found
            rules += () if found else map(partial(_parse_rule, manifest), range(len(manifest.spec["rules"])))
    return sorted(rules, key=lambda each: (each.file, each.line)), errors


def _parse_rule(manifest: Manifest, index: int) -> SeverityRule:
    rule, place = manifest.spec["rules"][index], manifest.source.locate(("spec", "rules", index))
    action, value = next(iter(rule["severity"].items()))
    names = ("clusters", "topics", "classes", "fields")
    return SeverityRule(
        policy=manifest.full_name,
        name=rule["name"],
        file=place.file,
        line=place.line,
        selection=FindingSelection(**{name: tuple(rule.get(name, ())) for name in names}),
        cluster_labels=rule.get("clusterSelector", {}).get("matchLabels", {}),
        action=action,
        value=value,
    )


def _find_errors(manifest: Manifest, clusters: Collection[ClusterSpec]) -> Iterator[Diagnostic]:
    names = set[str]()
    for index, rule in enumerate(manifest.spec["rules"]):
        if rule["name"] in names:
            place = manifest.source.locate(("spec", "rules", index, "name"))
            yield Diagnostic(place, f"name: another rule of the policy is called {rule['name']}", "rename one of them")
        names.add(rule["name"])
        yield from _find_field_errors(manifest, index, rule.get("fields", ()), clusters)


def _find_field_errors(
    manifest: Manifest, index: int, patterns: Sequence[str], clusters: Collection[ClusterSpec]
) -> Iterator[Diagnostic]:
    fields = load_schema("Topic")["properties"]["spec"]["properties"]
    for number, pattern in enumerate(patterns):
        place = manifest.source.locate(("spec", "rules", index, "fields", number))
        first, _, key = pattern.partition(".")
        if not any(fnmatchcase(each, first) for each in fields):
            known = next((each for each in TOPIC_CONFIGS if fnmatchcase(each, pattern)), "")
            hint = f"did you mean config.{pattern}?" if known else "such as partitions or config.retention.ms"
            yield Diagnostic(place, f"fields: found {quote(pattern)}, wanted a field of findings", hint)
        elif first == "config" and key and not set("*?[") & set(key) and not _is_known(key, clusters):
            message, hint = describe_unknown_key(key, "config.")
            yield Diagnostic(place, f"fields: {message}", hint)


def _is_known(key: str, clusters: Collection[ClusterSpec]) -> bool:
    return key in TOPIC_CONFIGS or any(each.config_rules.is_known_key(key) for each in clusters)
