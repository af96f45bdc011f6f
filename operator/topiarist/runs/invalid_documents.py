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


class Documents(Struct):
    """The documents of a run: those that count, and the errors of the others.

    ``invalid_clusters`` are the names of Cluster documents that do not count, ``invalid`` all documents that were left
    out.
    """

    loaded: Loaded
    topics: Sequence[Manifest]
    clusters: Mapping[str, ClusterSpec]
    invalid_clusters: frozenset[str]
    errors: set[Diagnostic]
    invalid: Sequence[InvalidDocument] = ()

    @classmethod
    def of(cls, loaded: Loaded, clusters: Mapping[str, ClusterSpec], errors: Iterable[Diagnostic]) -> Documents:
        """Return all documents that could be read; ``clusters`` are the clusters of the run, ``errors`` theirs."""
        topics = [manifest for manifest in loaded.manifests if manifest.kind == "Topic"]
        invalid = frozenset(name for kind, name in loaded.invalid_documents if kind == "Cluster")
        return cls(loaded, topics, clusters, invalid, {*loaded.errors, *errors})

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

    def leave_out_invalid(self, find_errors: Callable[[], Iterable[Diagnostic]]) -> None:
        """Leave out the documents that have errors, alone or together with others; their errors are then ``invalid``.

        ``find_errors`` validates together the documents that are left. Raises ``InvalidManifests`` with every error if
        no Cluster document is left, or for an error that is in no document.
        """
        self.invalid_clusters -= self.clusters.keys()
        left_out = dict(_find_by_source(self.loaded, self.errors))
        while found := {*find_errors()}:
            self.errors |= found
            documents = dict(_find_by_source(self.loaded, found))
            topics = [each for each in self.topics if id(each.source) not in documents]
            kept = {name: each for name, each in self.clusters.items() if id(each.source) not in documents}
            if len(topics) == len(self.topics) and len(kept) == len(self.clusters):
                raise InvalidManifests([*self.errors], self.loaded.suppressed_count)
            self.invalid_clusters |= self.clusters.keys() - kept.keys()
            self.topics, self.clusters = topics, kept
            left_out |= documents
        if self.invalid_clusters and not {*self.clusters} - {""}:
            raise InvalidManifests([*self.errors], self.loaded.suppressed_count)
        self.invalid = _add_errors([*self.loaded.invalid_parts, *left_out.values()], sorted(self.errors))
        self.errors = set()


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
