"""Topics of kafka-gitops: one state file, which may name a second file with the topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from topiarist.importers.fields import Fields, ForeignDocument, LeftOut
from topiarist.importers.topic import ImportedTopic


def import_topics(documents: Iterable[ForeignDocument], left_out: list[LeftOut]) -> Iterator[ImportedTopic]:
    """Yield the topics of state files; add to ``left_out`` what has no counterpart.

    The default of the replication factor holds for the topics of all given files, because the settings may be in
    another file than the topics.
    """
    tops = [Fields(document, left_out) for document in documents]
    default: int | None = None
    for top in tops:
        settings = top.take_fields("settings")
        topics, files = settings.take_fields("topics"), settings.take_fields("files")
        defaults = topics.take_fields("defaults")
        factor = defaults.take_count("replication")
        if default is not None and factor not in (None, default):
            defaults.leave_out("replication", f"another file has {default}")
        default = factor if default is None else default
        if "topics" in files:
            files.leave_out("topics", "give this file to the importer too, if it is not among the given ones")
        for fields in (defaults, topics, files, settings):
            fields.finish()
    for top in tops:
        topics = top.take_fields("topics")
        for name in topics:
            spec = topics.take_fields(name)
            factor = spec.take_count("replication")
            yield ImportedTopic(
                name,
                spec,
                partitions=spec.take_count("partitions"),
                replication_factor=factor if factor is not None else default,
                config=spec.take_config("configs"),
            )
            spec.finish()
        top.finish()
