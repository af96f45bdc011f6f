"""The summary of an export: what is left out and why, and what the user still has to do."""

from __future__ import annotations

from msgspec.structs import replace

from support.states import PositionedSource, cluster
from topiarist.desired.export import ExportResult
from topiarist.errors import Reason
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import ClusterState, WriteBlock
from topiarist.output.list import format_summary
from topiarist.output.text.layout import TextLayout

EU = ClusterSpec(name="eu", version=(3, 9))
RESULT = ExportResult({}, 2)


def _summary(result: ExportResult = RESULT, state: ClusterState | None = None, on: ClusterSpec = EU) -> str:
    return format_summary(result, state or cluster(), on, folder="topics", layout=TextLayout())


def test_what_is_left_out_has_its_reason() -> None:
    """Topics without a document, configs that are missing in one, and mixed replication have a line each."""
    found = replace(
        RESULT,
        omitted=(("gone", "is marked for deletion"),),
        unmanaged=(("a", "flush.ms is no number"), ("b", "flush.ms is no number")),
        mixed_replication=(("c", "1 of 2 partitions has 3 replicas"),),
    )
    assert _summary(found) == (
        "  left out         gone: is marked for deletion\n"
        "  unmanaged        2 topics: flush.ms is no number\n"
        "                   a, b\n"
        "  mixed            c: 1 of 2 partitions has 3 replicas\n"
        "\n"
        "Exported: 2 topics of cluster eu to topics, 1 left out."
    )
    assert _summary() == "Exported: 2 topics of cluster eu to topics."


def test_warnings_say_what_is_left_to_do() -> None:
    """A write block comes first; the version of a cluster is asked for if only its metadata shows it."""
    blocked = cluster(write_block=WriteBlock(Reason.FROZEN, "frozen by ada"), warnings=("a broker is offline",))
    assert _summary(state=blocked).splitlines()[:2] == [
        "  warning          frozen by ada; nothing is written to it",
        "  warning          a broker is offline",
    ]
    unknown, state = replace(EU, version=None), cluster(min_version=(2, 8))
    assert "  warning          set kafkaVersion in topics/cluster.yaml: the metadata shows" in _summary(
        state=state, on=unknown
    )
    assert "kafkaVersion" not in _summary(state=state)
    assert "kafkaVersion" not in _summary(state=state, on=replace(unknown, source=PositionedSource("eu.yaml")))
