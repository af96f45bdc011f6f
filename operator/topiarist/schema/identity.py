"""Identity of a document: its ``apiVersion`` and ``kind``, which say for which program it is meant.

``check`` asks whether a document is meant for topiarist, also with a wrong ``apiVersion`` or ``kind``, and
``adapters.manifests.loader`` asks for the errors of all other documents.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher, get_close_matches
from functools import lru_cache
from typing import Any

from topiarist.errors import FieldKey, FieldPath, SchemaError
from topiarist.schema import check, load
from topiarist.schema.explain import find_field, fold
from topiarist.text import quote

_GROUP_WORD = load.API_GROUP.partition(".")[0]
_PLURALS = {"policies": "Policy", "driftpolicies": "DriftPolicy"} | {
    f"{kind.lower()}s": kind for kind in load.MANIFEST_KINDS
}
_OTHER_OWNERS = frozenset({"kyverno.io"})
"""API groups with a kind and fields of the same names as topiarist's."""

_TOPIC_KINDS = ("KafkaTopic", "KafkaTopicList")
IMPORTERS = {
    "kafka.banzaicloud.io": "koperator",
    "kafka.jikkou.io": "jikkou",
    "kafka.strimzi.io": "strimzi",
    "platform.confluent.io": "cfk",
}
"""The formats of ``topiarist import`` for the API groups of topics of other tools."""

_WITHOUT_API_VERSION = (
    ({"asyncapi"}, "asyncapi"),
    ({"context", "projects"}, "julie"),
    ({"meta", "spec"}, "topicctl"),
    ({"topics"}, "kafka-gitops"),
)
"""Fields of the files of other tools that have no ``apiVersion``, and the format of the importer."""


def is_meant_for_topiarist(body: Mapping[str, Any]) -> bool:
    """Return whether a document has topiarist's API group, nearly, or a kind and a field of topiarist's."""
    version = body.get("apiVersion")
    return isinstance(version, str) and (_is_near_group(version[: check.MAX_COMPARED_CHARS]) or _has_own_kind(body))


def identity_errors(body: Mapping[str, Any]) -> list[SchemaError]:
    """Return the errors of ``apiVersion`` and ``kind`` of a document that is meant for topiarist."""
    version, kind = body.get("apiVersion"), body.get("kind")
    errors = []
    if version != load.API_VERSION:
        errors.append(_version_error(version, kind))
    elif kind is None:
        choices = " or kind: ".join(load.MANIFEST_KINDS)
        errors.append(_missing_field_error(body, "kind", "found no kind, wanted one", f"add kind: {choices}"))
    if kind is not None and kind not in load.MANIFEST_KINDS:
        message = f"kind: {check.describe_found(kind)}, wanted {check.join_with_or(load.MANIFEST_KINDS)}"
        errors.append(SchemaError(("kind",), message, _kind_hint(body)))
    return errors


def _version_error(version: object, kind: object) -> SchemaError:
    found, wanted = check.describe_found(version), f"wanted {load.API_VERSION}"
    if not isinstance(version, str) or version.startswith(f"{load.API_GROUP}/"):
        return SchemaError(("apiVersion",), f"apiVersion: {found}, {wanted}")
    hint = f"did you mean {load.API_VERSION}?"
    if not _is_near_group(version[: check.MAX_COMPARED_CHARS]):
        found = f"{found} with kind {quote(str(kind))}"
        hint += " A document of another tool belongs outside of the given paths"
    return SchemaError(("apiVersion",), f"apiVersion: {found}, {wanted}", hint)


def foreign_document_error(body: Any) -> SchemaError | None:
    """Return the error of a document that is not meant for topiarist; None if other tools may have it beside.

    Topics of other tools are errors: a run would pass over topics that the user declares.
    """
    if not isinstance(body, dict):
        return SchemaError((), "found no mapping, wanted a document with apiVersion and kind")
    version, kind, items = body.get("apiVersion"), body.get("kind"), body.get("items")
    if not isinstance(version, str) or not version:
        form = find_form(body)
        hint = f"a topiarist document starts with apiVersion: {load.API_VERSION}"
        hint = f"{hint}; {_import_hint(form)}" if form else hint
        return _missing_field_error(body, "apiVersion", "found a document without apiVersion", hint)
    if kind in _TOPIC_KINDS:
        return _topic_error(("kind",), version, kind)
    if str(kind).endswith("List") and isinstance(items, list):
        found = [item for item in items if isinstance(item, dict)]
        if any(map(is_meant_for_topiarist, found)):
            message = f"found a {kind if kind == 'List' else quote(str(kind))} with topiarist documents"
            return SchemaError(("items",), f"{message}, wanted separate documents", "separate them with ---")
        for item in found:
            if item.get("kind") in _TOPIC_KINDS:
                return _topic_error(("items",), str(item.get("apiVersion")), item["kind"])
    return None


def find_form(body: Mapping[str, Any]) -> str:
    """Return the format of the importer for a document without ``apiVersion``; empty text if it is of none."""
    return next((form for fields, form in _WITHOUT_API_VERSION if fields <= body.keys()), "")


def close_kind(kind: object) -> str:
    """Return topiarist's kind that is meant: in another case, as a plural or misspelt; empty if there is none."""
    folded = str(kind)[: check.MAX_COMPARED_CHARS].lower()
    names = {each.lower(): each for each in load.MANIFEST_KINDS} | _PLURALS
    return next((names[name] for name in get_close_matches(folded, names, n=1, cutoff=0.8)), "")


def _topic_error(path: FieldPath, version: str, kind: str) -> SchemaError:
    form = IMPORTERS.get(version.partition("/")[0], "")
    hint = _import_hint(form) if form else f"write it as kind: Topic of apiVersion: {load.API_VERSION}"
    message = f"{path[0]}: found a {kind} of {quote(version)}, which topiarist does not apply"
    return SchemaError(path, message, f"{hint}, or keep it outside of the given paths")


def _import_hint(form: str) -> str:
    return f"to convert the file: topiarist import {form} FILE"


def _missing_field_error(body: Mapping[str, Any], name: str, message: str, hint: str) -> SchemaError:
    """Return the error of a field that the document lacks, at the key that is meant for it, if there is one."""
    for key in body.keys() - {name}:
        if SequenceMatcher(None, fold(key), name.lower()).ratio() > 0.8:
            return SchemaError((FieldKey(key),), f"{message}: {quote(key)} is another field", f"did you mean {name}?")
    return SchemaError((), message, hint)


def _kind_hint(body: Mapping[str, Any]) -> str:
    kind = body["kind"]
    if isinstance(body.get("items"), list):
        return "write its items as separate documents, with --- between them"
    if kind in _TOPIC_KINDS:
        return "did you mean Topic?"
    guess = close_kind(kind)
    return f"did you mean {guess}?" if guess else check.did_you_mean(kind, load.MANIFEST_KINDS)


@lru_cache(maxsize=1000)
def _is_near_group(version: str) -> bool:
    """Return whether an ``apiVersion`` has a part like ``topiarist``; cached, because versions repeat."""
    group = version.strip().partition("/")[0].lower()
    if SequenceMatcher(None, group, load.API_GROUP).ratio() > 0.8:
        return True
    words = (word for word in re.findall("[a-z0-9]+", version.lower()) if abs(len(word) - len(_GROUP_WORD)) <= 4)
    return any(SequenceMatcher(None, word, _GROUP_WORD).ratio() > 0.8 for word in words)


def _has_own_kind(body: Mapping[str, Any]) -> bool:
    """Return whether kind and spec are topiarist's.

    Other tools have a ``Cluster`` or a ``Policy`` too. Their API groups have a dot, and their fields other names.
    """
    kind, spec, group = body.get("kind"), body.get("spec"), str(body["apiVersion"]).partition("/")[0]
    if not isinstance(kind, str) or not (own := close_kind(kind)) or group in _OTHER_OWNERS:
        return False
    is_exact = kind.lower() == own.lower() or kind.lower() in _PLURALS
    if is_exact and ("." not in group or "kafka" in group or (own == "Topic" and not spec)):
        return True
    known = load.load_schema(own)["properties"]["spec"]["properties"]
    return isinstance(spec, dict) and any(find_field(name, known) for name in spec)
