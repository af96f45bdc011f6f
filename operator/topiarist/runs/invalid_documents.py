"""Documents that are left out of a run because they are invalid, so that the rest of the manifests can be used.

``runs.inputs`` calls it for ``drift``: a report of a fleet without one manifest is worth more than no report. All other
commands stop at the first invalid document, because they write or check.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from topiarist.adapters.manifests.loader import InvalidDocument, Loaded, find_documents
from topiarist.errors import Diagnostic, InvalidManifests
from topiarist.model.spec import ClusterSpec, Manifest, topic_name


class ValidDocuments(Struct):
    """The topics and clusters of a run without the invalid ones.

    ``invalid_clusters`` are the names of Cluster documents that were left out, ``invalid`` all documents that were.
    """

    topics: Sequence[Manifest]
    clusters: Mapping[str, ClusterSpec]
    invalid_clusters: frozenset[str]
    invalid: Sequence[InvalidDocument] = ()

    @property
    def unassigned_topics(self) -> frozenset[str]:
        """Return the topics that name no cluster and may be meant for an invalid one."""
        if not self.invalid_clusters:
            return frozenset()
        return frozenset(
            topic_name(each)
            for each in self.topics
            if "clusters" not in each.spec and "clusterSelector" not in each.spec
        )


def select_valid_documents(
    loaded: Loaded,
    clusters: Mapping[str, ClusterSpec],
    cluster_errors: Iterable[Diagnostic],
    find_errors: Callable[[ValidDocuments], Iterable[Diagnostic]],
) -> ValidDocuments:
    """Return the documents without those that have errors, alone or together with others.

    ``find_errors`` validates documents together. Raises ``InvalidManifests`` with every error if no Cluster document is
    left, or for an error that is in no document.
    """
    names = frozenset(name for kind, name in loaded.invalid_documents if kind == "Cluster")
    topics = [manifest for manifest in loaded.manifests if manifest.kind == "Topic"]
    valid = ValidDocuments(topics, clusters, names - clusters.keys())
    errors = {*loaded.errors, *cluster_errors}
    left_out = dict(_find_by_source(loaded, errors))
    while found := {*find_errors(valid)}:
        errors |= found
        documents = dict(_find_by_source(loaded, found))
        remaining = [each for each in valid.topics if id(each.source) not in documents]
        kept = {name: each for name, each in valid.clusters.items() if id(each.source) not in documents}
        if len(remaining) == len(valid.topics) and len(kept) == len(valid.clusters):
            raise InvalidManifests([*errors], loaded.suppressed_count)
        valid.invalid_clusters |= valid.clusters.keys() - kept.keys()
        valid.topics, valid.clusters = remaining, kept
        left_out |= documents
    if valid.invalid_clusters and not {*valid.clusters} - {""}:
        raise InvalidManifests([*errors], loaded.suppressed_count)
    valid.invalid = _add_errors([*loaded.invalid_parts, *left_out.values()], sorted(errors))
    return valid


def _find_by_source(loaded: Loaded, errors: Iterable[Diagnostic]) -> Iterable[tuple[int, InvalidDocument]]:
    """Yield the documents that have the errors, with the identity of their sources."""
    found = find_documents(loaded.manifests, [error.location for error in errors])
    return ((id(manifest.source), document) for manifest, document in found)


def _add_errors(documents: Sequence[InvalidDocument], errors: Iterable[Diagnostic]) -> list[InvalidDocument]:
    """Return the documents with their errors; an error outside all documents gets one of its own.

    A document has no error if its file has more errors than are shown.
    """
    by_document: dict[int, list[Diagnostic]] = {index: [] for index in range(len(documents))}
    others: list[InvalidDocument] = []
    for error in errors:
        index = next((at for at, each in enumerate(documents) if each.contains(error.location)), None)
        if index is None:
            others.append(InvalidDocument(error.location, error.location.line, errors=(error,)))
        else:
            by_document[index].append(error)
    found = [documents[index]._replace(errors=tuple(many)) for index, many in by_document.items()]
    return sorted([*found, *others], key=lambda each: each.place)
