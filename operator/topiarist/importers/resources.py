"""Resources of Kubernetes and Jikkou: single, in lists, with the fields that servers and other tools set in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from topiarist.importers.fields import Fields, ForeignDocument, LeftOut
from topiarist.schema.identity import IMPORTERS
from topiarist.schema.load import API_GROUP
from topiarist.text import LOOKS_LIKE_TEMPLATE

TOPIC_KIND = "KafkaTopic"

_SERVER_SET = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "finalizers",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
)
_LIST_SET = (*_SERVER_SET, "continue", "remainingItemCount")
_BOOKKEEPING = (
    "argocd.argoproj.io/instance",
    "argocd.argoproj.io/tracking-id",
    "helm.toolkit.fluxcd.io/*",
    "jikkou.io/changes-count",
    "jikkou.io/generated",
    "jikkou.io/items-count",
    "jikkou.io/managed-by-location",
    "kafka.jikkou.io/cluster-id",
    "kafka.jikkou.io/topic-id",
    "kubectl.kubernetes.io/last-applied-configuration",
    "kustomize.toolkit.fluxcd.io/name",
    "kustomize.toolkit.fluxcd.io/namespace",
    "meta.helm.sh/*",
)
"""Labels and annotations that a tool sets by itself; on another resource they would be wrong."""

_DOMAINS = ("strimzi.io", "jikkou.io")
"""Domains of labels and annotations with a meaning for the tool that topics come from."""


class Metadata(NamedTuple):
    """The metadata of a resource; ``marks`` are the labels and annotations with a meaning for the importer."""

    name: str
    namespace: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    marks: Mapping[str, str]
    is_deleted: bool


def find_resources(
    documents: Iterable[ForeignDocument], left_out: list[LeftOut], group: str
) -> Iterator[tuple[str, Fields]]:
    """Yield the kind and the fields of each resource; items of lists are resources as documents are.

    Topics of another API group than ``group`` are left out and named.
    """
    for document in documents:
        if isinstance(document.body, list):
            for index, body in enumerate(document.body):
                yield from _unwrap(Fields(document, left_out, body, (index,)), group)
        else:
            yield from _unwrap(Fields(document, left_out), group)


def _unwrap(top: Fields, group: str) -> Iterator[tuple[str, Fields]]:
    kind, version = top.take_text("kind"), top.take_text("apiVersion")
    if not (kind.endswith("List") and "items" in top):
        if not _refuse_other(top, kind, version, group):
            yield kind, top
        return
    for item in top.take_list("items"):
        own = item.take_text("kind") or kind.removesuffix("List")
        if not _refuse_other(item, own, item.take_text("apiVersion") or version, group):
            yield own, item
    metadata = top.take_fields("metadata")
    metadata.pass_over(*_LIST_SET)
    metadata.finish("the metadata of a list have no effect on its topics")
    top.finish()


def _refuse_other(top: Fields, kind: str, version: str, group: str) -> bool:
    reason = describe_other(kind, version, group)
    if reason:
        top.refuse(reason)
    return bool(reason)


def describe_other(kind: str, version: str, group: str = "") -> str:
    """Return what a resource is if it is no topic of API group ``group`` but one of another; else empty text."""
    found = version.partition("/")[0]
    if kind == "Template":
        return f"{LOOKS_LIKE_TEMPLATE} (kind Template): render it first (oc process)"
    if "Topic" not in kind or not found or found == group:
        return ""
    if found == API_GROUP:
        return f"a {kind} of {found}, which needs no import"
    if found in IMPORTERS:
        return f"a {kind} of {found}: import it as {IMPORTERS[found]}"
    return f"a {kind} of {found}, which is not imported"


def take_metadata(top: Fields, honoured: Iterable[str]) -> Metadata:
    """Return the metadata of a resource; count what servers set, name marks that are not ``honoured``."""
    top.pass_over("status")
    metadata = top.take_fields("metadata")
    metadata.pass_over(*_SERVER_SET)
    sections: dict[str, dict[str, str]] = {}
    marks: dict[str, str] = {}
    for section in ("labels", "annotations"):
        texts = sections[section] = metadata.take_texts(section)
        inner = metadata.take_fields(section)
        for key, text in [*texts.items()]:
            if any(fnmatchcase(key, pattern) for pattern in _BOOKKEEPING):
                inner.pass_over(key)
            elif key in honoured:
                marks[key] = text
            elif key.partition("/")[0].endswith(_DOMAINS):
                inner.leave_out(key, "a mark of another tool, which topiarist does not know")
            else:
                continue
            del texts[key]
    metadata.leave_out("deletionTimestamp", "the resource is being deleted, so its topic is not imported")
    found = Metadata(
        metadata.take_text("name"),
        metadata.take_text("namespace"),
        **sections,
        marks=marks,
        is_deleted="deletionTimestamp" in metadata,
    )
    metadata.finish()
    return found
