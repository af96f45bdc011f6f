"""The formats of other tools by name, and the import of their files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from topiarist.importers import jikkou, julie, kafka_gitops, strimzi, terraform, topicctl
from topiarist.importers.fields import Fields, ForeignDocument, LeftOut
from topiarist.importers.resources import describe_other
from topiarist.importers.topic import ImportedTopic, build_documents

Importer = Callable[[Iterable[ForeignDocument], list[LeftOut]], Iterator[ImportedTopic]]

FORMATS: Mapping[str, Importer] = {
    "jikkou": jikkou.import_topics,
    "julie": julie.import_topics,
    "kafka-gitops": kafka_gitops.import_topics,
    "strimzi": strimzi.import_topics,
    "terraform": terraform.import_topics,
    "topicctl": topicctl.import_topics,
}

_RESOURCES = ("jikkou", "strimzi")


class ImportResult(NamedTuple):
    """The documents of all topics, sorted by cluster and name, and what is left out, by place.

    ``passed_over`` are fields that no user has written: servers and tools set them.
    """

    documents: list[dict[str, Any]]
    left_out: list[LeftOut]
    passed_over: list[LeftOut]


def import_documents(name: str, documents: Iterable[ForeignDocument], cluster: str = "") -> ImportResult:
    """Import the documents of a format; ``cluster`` is that of topics that name none."""
    account: list[LeftOut] = []
    topics = [*FORMATS[name]([*_select_own(name, documents, account)], account)]
    built = build_documents(topics, cluster)
    named = sorted({*account})
    return ImportResult(
        built, [each for each in named if not each.is_expected], [each for each in named if each.is_expected]
    )


def _select_own(name: str, documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ForeignDocument]:
    """Yield documents without those that are topics of Kubernetes, where the format has another form."""
    for document in documents:
        body = document.body if isinstance(document.body, Mapping) and name not in _RESOURCES else {}
        if reason := describe_other(*(str(body.get(field, "")) for field in ("kind", "apiVersion"))):
            Fields(document, left_out).refuse(reason)
        else:
            yield document
