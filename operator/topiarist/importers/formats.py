"""The formats of other tools by name, and the import of their files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from topiarist.importers import jikkou, julie, kafka_gitops, strimzi, terraform, topicctl
from topiarist.importers.fields import ForeignDocument, LeftOut
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


class ImportResult(NamedTuple):
    """The documents of all topics, sorted by cluster and name, and what is left out, by place."""

    documents: list[dict[str, Any]]
    left_out: list[LeftOut]


def import_documents(name: str, documents: Iterable[ForeignDocument], cluster: str = "") -> ImportResult:
    """Import the documents of a format; ``cluster`` is that of topics that name none."""
    left_out: list[LeftOut] = []
    topics = [*FORMATS[name](documents, left_out)]
    return ImportResult(build_documents(topics, cluster), sorted(left_out))
