"""The severity rules of a platform: ``DriftPolicy`` documents that raise or lower the severity of findings.

A kind beside ``DriftException``, and not a part of the project file: the same loader checks it and names its lines, and
with ``--platform`` only the rules of the platform count, so that no branch lowers its own findings. ``runs.inputs``
parses the documents, ``drift.rows`` applies the rules to each row, in any process.

The owners of files by ``CODEOWNERS``, in the syntax of GitHub, which is that of Bitbucket, and of GitLab.

``drift.rows`` asks for the owners of a finding's manifest, with ``--codeowners``. The last pattern that matches counts.
GitLab's file is one below ``.gitlab``, or with a section: there the last pattern of each section counts, a section may
have default owners, a pattern without a slash at its start fits at any depth, one without a slash at its end fits no
folder, and ``!`` excludes a file from its section. Lines that the host ignores are ignored, and named.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase, translate
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct, convert

from topiarist.adapters.atomic_files import read_file
from topiarist.drift.findings import SEVERITY_RANK, FindingRow, FindingSelection, Severity
from topiarist.errors import Diagnostic, Reason, TopiaristError
from topiarist.kafka.config_rules import describe_unknown_key
from topiarist.kafka.config_table import TOPIC_CONFIGS
from topiarist.kafka.types import is_pattern
from topiarist.model.spec import ClusterSpec, Manifest
from topiarist.schema.load import load_schema
from topiarist.text import printable_path, quote

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
    return SeverityRule(
        policy=manifest.full_name,
        name=rule["name"],
        file=place.file,
        line=place.line,
        selection=convert(rule, FindingSelection),
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
        elif first == "config" and key and not is_pattern(key) and not _is_known(key, clusters):
            message, hint = describe_unknown_key(key, "config.")
            yield Diagnostic(place, f"fields: {message}", hint)


def _is_known(key: str, clusters: Collection[ClusterSpec]) -> bool:
    return key in TOPIC_CONFIGS or any(each.config_rules.is_known_key(key) for each in clusters)


_FOLDERS = (".github", ".gitlab", ".bitbucket", "docs")
"""The folders that may have the file; its patterns begin at their parent."""

_SECTION = re.compile(r"\^?\[(?P<name>[^\]]+)\](?:\[\d+\])?(?P<owners>(?:\s+\S+)*)\s*$")

_WORD = re.compile(r"(?:\\.|[^\s\\])+")

_OWNER = re.compile(r"@@?[\w.-]+(?:/[\w.-]+)*$|[^@\s]+@[^@\s]+$")

_CHOICE = re.compile(r":(?:random|least_busy)\(\d+\)$")
"""The number of members of a group that Bitbucket asks, after its name."""


class _Rule(NamedTuple):
    """A line with a pattern; no owners mean that its files have none."""

    section: str
    pattern: str
    owners: tuple[str, ...]
    excludes: bool = False


class Codeowners(Struct, frozen=True):
    """The owners of files below ``root``; names of files are relative to ``folder``. Both are absolute paths.

    ``ignored`` has a message for each line that the host ignores.
    """

    root: str
    folder: str
    rules: tuple[_Rule, ...]
    ignored: tuple[str, ...] = ()

    def find_owners(self, file: str) -> str:
        """Return the owners of a file, joined by commas; empty for a file without owners, or outside the root."""
        path = posixpath.relpath(posixpath.join(self.folder, file), self.root)
        if path.startswith("../"):
            return ""
        found: dict[str, tuple[str, ...]] = {}
        excluded = set[str]()
        for rule in self.rules:
            if re.match(rule.pattern, path):
                found[rule.section] = rule.owners
                excluded.update([rule.section] if rule.excludes else ())
        owners = (each for section, many in found.items() if section not in excluded for each in many)
        return ", ".join(dict.fromkeys(owners))


def load_codeowners(path: str) -> Codeowners:
    """Read the file. Raises ``Unreadable`` if it cannot be read, or is no text."""
    try:
        lines = read_file(path).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        message = f"{printable_path(path)}: found bytes that are no UTF-8, wanted CODEOWNERS"
        raise TopiaristError(Reason.UNREADABLE, message) from None
    where = Path.cwd() / path
    where = where.parent.resolve() / where.name
    is_gitlab = where.parent.name == ".gitlab" or any(map(_SECTION.match, lines))
    root = where.parent.parent if where.parent.name in _FOLDERS else where.parent
    ignored: list[str] = []
    rules = [*_parse_lines(lines, is_gitlab, ignored)]
    return Codeowners(
        str(root), str(Path.cwd().resolve()), tuple(rules), tuple(f"{printable_path(path)}:{each}" for each in ignored)
    )


def _parse_lines(lines: list[str], is_gitlab: bool, ignored: list[str]) -> Iterator[_Rule]:
    section, defaults = "", dict[str, tuple[str, ...]]()
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text[0] == "#":
            continue
        if is_gitlab and (head := _SECTION.match(text)):
            section = head["name"].strip().lower()
            defaults[section] = tuple(filter(_OWNER.match, _parse_owners(head["owners"].split())))
            continue
        pattern, *words = _WORD.findall(text)
        owners = _parse_owners(words)
        if wrong := _find_problem(pattern, owners, is_gitlab):
            ignored.append(f"{number}: ignored, as the host of the repository does: {wrong}")
            owners = tuple(filter(_OWNER.match, owners))
            if not is_gitlab or not owners:  # GitLab ignores only the owners that are none
                continue
        excludes = pattern[0] == "!"
        regex = _translate(pattern.removeprefix("!"), is_gitlab)
        yield _Rule(section, regex, owners or defaults.get(section, ()), excludes)


def _parse_owners(words: Sequence[str]) -> tuple[str, ...]:
    """Return the owners before a comment."""
    return tuple(_CHOICE.sub("", word) for word in takewhile(lambda word: word[0] != "#", words))


def _find_problem(pattern: str, owners: tuple[str, ...], is_gitlab: bool) -> str:
    if not is_gitlab and (pattern[0] == "!" or "[" in pattern):
        return f"found {quote(pattern)}; only GitLab knows ! and [ ] here"
    wrong = next((each for each in owners if not _OWNER.match(each)), "")
    return f"found {quote(wrong)}, wanted @NAME, @GROUP/TEAM or an address" if wrong else ""


_WILDCARDS: Mapping[str, str] = {"*": "[^/]*", "?": "[^/]"}


def _translate_part(part: str) -> str:
    """Return the regular expression of a character, a wildcard, or a set in brackets, which GitLab knows."""
    if len(part) > 1 and part[0] == "[":
        return "(?!/)" + translate(part)[len("(?s:") : -len(r")\Z")]
    return _WILDCARDS.get(part) or re.escape(part[-1])


def _translate(pattern: str, is_gitlab: bool) -> str:
    """Return the regular expression of a pattern, for paths relative to the root.

    A pattern of a folder fits all below it, in GitLab's syntax only with a slash at its end. One that ends with ``/*``
    fits the files directly in it, and in GitLab's syntax ``/**`` is the same.
    """
    body = pattern.strip("/")
    is_anchored = pattern[0] == "/" or (not is_gitlab and "/" in body)
    steps = []
    for step in body.split("/"):
        if step == "**":
            steps.append("(?:[^/]+/)*")
        else:
            parts = re.findall(r"\\.|\[[^\]]+\]|.", step)
            steps.append("".join(map(_translate_part, parts)) + "/")
    is_all_below = steps[-1] == "(?:[^/]+/)*"
    if is_all_below and is_gitlab and pattern[-1] != "/":
        steps[-1] = "[^/]*/"
    elif is_all_below:
        return ("" if is_anchored else "(?:.*/)?") + "".join(steps[:-1]) + "."
    regex = ("" if is_anchored else "(?:.*/)?") + "".join(steps).removesuffix("/")
    if pattern[-1] == "/":
        return f"{regex}/"
    is_shallow = is_gitlab or (is_anchored and steps[-1] == "[^/]*/")
    return f"{regex}$" if is_shallow else f"{regex}(?:/|$)"
