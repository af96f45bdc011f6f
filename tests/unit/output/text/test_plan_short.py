"""Short forms of plans: one line per topic, or the summary only."""

from __future__ import annotations

from msgspec.structs import replace

from support.builders import CLUSTER_ID, plan, spec, state, topic
from topiarist.errors import Reason
from topiarist.model.plan import Plan
from topiarist.model.state import WriteBlock
from topiarist.output.text.layout import TextLayout
from topiarist.output.text.plan import format_summaries, format_topic_lines

HEADER = f"prod   cluster {CLUSTER_ID}, 6 brokers in 3 racks, controller 1, epoch 42\n"
LOSSES = "1 change may lose data:{}\n    old\n"


def mixed() -> Plan:
    """Return a plan with topics that are created, deleted, grown and partly refused, refused, noticed, and
    unchanged.
    """
    seen = state(topic("old"), topic("clicks"), topic("theirs", record=None), topic("same"))
    wanted = [
        spec("orders"),
        spec("old", ensure="Absent"),
        spec("clicks", partitions=6, replicationFactor=3),
        spec("theirs", partitions=6),
        spec("same"),
    ]
    return plan(seen, *wanted)


def test_one_line_for_each_topic() -> None:
    """Each line has the action, the reason of a refusal and the risk, without values, lists and notices."""
    assert format_topic_lines([mixed()], TextLayout()) == (
        f"{HEADER}\n"
        "  ~ clicks         grow 3 -> 6 partitions; refused: ReplicationFactorDiffers  Disruptive\n"
        "  - old            delete 3 partitions and all messages  DataLoss\n"
        "  + orders         create 3 partitions x 2 replicas  Safe\n"
        "  ! theirs         refused: NotAdopted\n"
        "\n"
        "Plan: 1 to create, 1 to grow, 1 to delete, 2 refused, 1 unchanged.\n"
        "1 change may lose data: confirm it in apply, or pass to a run with --yes\n"
        "    --allow-risk DataLoss=old\n"
    )


def test_many_topics_have_a_line_each() -> None:
    """Text that a full plan shows once for many topics appears at each topic."""
    found = format_topic_lines(
        [plan(state(*(topic(f"t{n}", record=None) for n in range(9))), *map(spec, TS))], TextLayout()
    )
    assert [line.split()[:2] for line in found.splitlines() if line.startswith("  ")] == [["=", name] for name in TS]


TS = [f"t{number}" for number in range(9)]


def test_only_how_plans_end() -> None:
    """One plan has its usual summary; several have the names of their clusters and a total."""
    one, idle = mixed(), plan(state(topic("same")), spec("same"))
    end = "1 to create, 1 to grow, 1 to delete, 2 refused, 1 unchanged.\n"
    assert format_summaries([one], TextLayout(), applying=True) == f"Plan: {end}" + LOSSES.format("")
    assert format_summaries([one, replace(idle, cluster="test")], TextLayout(), applying=True) == (
        f"prod: {end}{LOSSES.format('')}"
        "test: no changes, 1 topic matches its manifest.\n"
        "\n"
        "All 2 clusters: 1 to create, 1 to grow, 1 to delete, 2 refused, 2 unchanged.\n"
    )
    assert format_summaries([], TextLayout()) == format_topic_lines([], TextLayout()) == ""


def test_a_closed_cluster_is_named() -> None:
    """A write block is in the header of the one form, and beside the summary in the other."""
    closed = replace(mixed(), write_block=WriteBlock(Reason.FROZEN, "the cluster is frozen: until noon"))
    assert "write block: Frozen" in format_topic_lines([closed], TextLayout())
    first = format_summaries([closed], TextLayout()).splitlines()[0]
    assert first == "prod: write block: Frozen: the cluster is frozen: until noon; nothing is written"


def test_names_that_a_terminal_would_obey_are_escaped() -> None:
    """Names with control characters are escaped in short forms too."""
    assert "\x1b" not in format_topic_lines([replace(mixed(), cluster="\x1b[2J")] * 2, TextLayout())
    assert "\x1b" not in format_summaries([replace(mixed(), cluster="\x1b[2J")] * 2, TextLayout())
