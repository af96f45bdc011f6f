"""Blocks of a plan as text: one topic, one change, one refusal, literally."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from support.builders import PositionedSource, spec, spread_replicas, topic
from support.plans import DATA_LOSS_RISK, OWN_RECORD, RETENTION_CHANGE, existing_topic_plan, plan, render_plan
from topiarist.errors import Reason
from topiarist.kafka.types import Broker
from topiarist.model.moves import MoveKind, ReplicaMove
from topiarist.model.plan import (
    SAFE_ASSESSMENT,
    ConfigItem,
    CreateTopic,
    DeleteTopic,
    Issue,
    MoveReplicas,
    Risk,
    RiskAssessment,
    TakeOwnership,
    TopicPlan,
    UpdateConfig,
)
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import OwnershipRecord
from topiarist.output.text.layout import TextLayout
from topiarist.output.text.plan import format_plans, format_topic_lines
from topiarist.output.view import group_risks


def test_a_creation_shows_every_replica_list_and_the_config() -> None:
    """A new topic shows its exact replica lists and its config with units, and that it is safe."""
    config = {"cleanup.policy": "compact", "retention.ms": "604800000"}
    create = CreateTopic(spread_replicas(12), config)
    assert render_plan(plan(TopicPlan("orders.v1", changes=(create,)))) == (
        "  + orders.v1      create 12 partitions x 3 replicas                        Safe\n"
        "      partitions    0 [1,2,3]   1 [2,3,4]   2 [3,4,5]   3 [4,5,6]\n"
        "                    4 [5,6,1]   5 [6,1,2]   6 [1,2,3]   7 [2,3,4]\n"
        "                    8 [3,4,5]   9 [4,5,6]  10 [5,6,1]  11 [6,1,2]\n"
        "      config       + cleanup.policy  compact\n"
        "                   + retention.ms    604800000  (7 days)\n"
        "\n"
        "  brokers          leaders           replicas\n"
        "      1 (rack a)   0 -> 2            0 -> 6\n"
        "      2 (rack b)   0 -> 2            0 -> 6\n"
        "      3 (rack c)   0 -> 2            0 -> 6\n"
        "      4 (rack a)   0 -> 2            0 -> 6\n"
        "      5 (rack b)   0 -> 2            0 -> 6\n"
        "      6 (rack c)   0 -> 2            0 -> 6\n"
        "\n"
        "Plan: 1 to create, 812 unchanged.\n"
    )


def test_config_shows_before_and_after_aligned_with_units() -> None:
    """Set, changed and removed keys have a sign each; every reason names its key and risk, the highest risk first."""
    segments = RiskAssessment(Risk.DISRUPTIVE, "many more files: memory and open files on the brokers")
    update = UpdateConfig(
        (
            ConfigItem("compression.type", None, "zstd", SAFE_ASSESSMENT),
            RETENTION_CHANGE,
            ConfigItem("segment.bytes", "1073741824", "10485760", segments),
            ConfigItem("segment.ms", "604800000", None, segments),
        )
    )
    assert render_plan(plan(existing_topic_plan("clicks", update))) == (
        "  ~ clicks         configure                                            DataLoss\n"
        "      risk         retention.ms: messages older than 1 hour will be     DataLoss\n"
        "                   deleted\n"
        "                   segment.bytes, segment.ms: many more files:        Disruptive\n"
        "                   memory and open files on the brokers\n"
        "      config       + compression.type  zstd\n"
        "                   ~ retention.ms      86400000 -> 3600000  (1 day -> 1 hour)\n"
        "                   ~ segment.bytes     1073741824 -> 10485760  (1 GiB -> 10 MiB)\n"
        "                   - segment.ms        604800000  (7 days) -> brokers' default\n"
        "\n"
        "Plan: 1 to configure, 812 unchanged.\n"
        "1 change may lose data: confirm it in apply, or pass to a run with --yes\n"
        "    --allow-risk DataLoss=clicks\n"
    )


def test_a_deletion_is_counted_and_named_at_the_end() -> None:
    """A deletion appears again at the end, among the changes with data loss."""
    delete = DeleteTopic(12, 36, RiskAssessment(Risk.DATA_LOSS, "all messages are deleted"))
    assert render_plan(plan(existing_topic_plan("old", delete))) == (
        "  - old            delete 12 partitions and all messages                DataLoss\n"
        "      risk         all messages are deleted\n"
        "\n"
        "Plan: 1 to delete, 812 unchanged.\n"
        "1 change may lose data: confirm it in apply, or pass to a run with --yes\n"
        "    --allow-risk DataLoss=old\n"
    )


def test_what_is_about_to_be_done_gets_no_advice_on_how_to_do_it() -> None:
    """In ``apply``, which has its approvals, the end of the plan names only changes with data loss."""
    delete = DeleteTopic(12, 36, RiskAssessment(Risk.DATA_LOSS, "all messages are deleted"))
    text = format_plans([plan(existing_topic_plan("old", delete))], TextLayout(), applying=True)
    assert text.endswith("\n1 change may lose data:\n    old\n")


def test_a_refusal_has_its_place_and_what_to_do() -> None:
    """A refusal has its message, line and column, reason, and fix."""
    finding = Issue(
        Reason.FEWER_PARTITIONS,
        "48 -> 12 partitions: Kafka cannot remove partitions",
        ("partitions",),
        "set partitions: 48, or create a new topic",
    )
    assert render_plan(plan(existing_topic_plan("audit", findings=(finding,)))) == (
        "  ! audit          refused: 48 -> 12 partitions: Kafka cannot remove partitions\n"
        "      at           topics/audit.yaml:9:15                        FewerPartitions\n"
        "      fix          set partitions: 48, or create a new topic\n"
        "\n"
        "Nothing can be applied: 1 refused, 812 unchanged.\n"
    )


def test_a_refusal_shows_what_it_holds_back() -> None:
    """The withheld change is below its refusal in the form of a planned change, with its risk and reason."""
    finding = Issue(
        Reason.NOT_ADOPTED, "exists already and differs", (), "--adopt=clicks", (UpdateConfig((RETENTION_CHANGE,)),)
    )
    assert render_plan(plan(existing_topic_plan("clicks", findings=(finding,)))) == (
        "  ! clicks         refused: exists already and differs\n"
        "      at           topics/clicks.yaml:1:1                             NotAdopted\n"
        "      fix          --adopt=clicks\n"
        "      held back    configure                                            DataLoss\n"
        "      risk         messages older than 1 hour will be deleted\n"
        "      config       ~ retention.ms  86400000 -> 3600000  (1 day -> 1 hour)\n"
        "\n"
        "Nothing can be applied: 1 refused, 812 unchanged.\n"
    )


def test_a_topic_says_what_its_changes_mean_for_its_users() -> None:
    """The usage of a topic is a field of its block."""
    found = replace(existing_topic_plan("clicks", UpdateConfig((RETENTION_CHANGE,))), usage=("read by 2 groups",))
    assert "      usage        read by 2 groups\n" in render_plan(plan(found))


def test_a_move_shows_its_lists_its_place_and_its_leaders() -> None:
    """The lists are shown as a whole, with the field that asks for them and what becomes of the leaders."""
    moves = tuple(
        ReplicaMove("orders", partition, before, after, (MoveKind.DRAIN,))
        for partition, before, after in ((0, (1, 2, 3), (4, 2, 3)), (1, (2, 3, 1), (3, 2, 4)))
    )
    change = MoveReplicas(moves, RiskAssessment(Risk.DISRUPTIVE, "brokers copy 2 replicas"))
    source = PositionedSource("clusters.yaml", {("spec", "drainBrokers"): (7, 3)})
    wanted = spec("orders", ClusterSpec("prod-eu", source=source, drain_brokers=frozenset({1})))
    text = render_plan(plan(replace(existing_topic_plan("orders", change), spec=wanted)))
    assert text.startswith(
        "  ~ orders         move 2 of 3 partitions, 2 copies                   Disruptive\n"
        "      because      broker 1 is drained (Cluster.spec.drainBrokers)\n"
        "      at           clusters.yaml:7:3\n"
        "      replicas     0 [1,2,3] -> [4,2,3]  1 [2,3,1] -> [3,2,4]\n"
        "      leaders      2 partitions get another preferred leader\n"
    )


@pytest.mark.parametrize(("count", "words"), [(4, "k0, k1, k2, k3"), (5, "k0, k1, k2 and 2 more")])
def test_subjects_of_a_risk_are_counted(count: int, words: str) -> None:
    """Four keys with one explanation are named; of more, three and the number of the others."""
    assert group_risks((f"k{number}", DATA_LOSS_RISK) for number in range(count)) == [(DATA_LOSS_RISK, words)]


def test_what_is_done_and_what_is_refused_of_one_topic_stand_together() -> None:
    """A topic with a change and a refusal shows one below the other, and counts as both."""
    finding = Issue(Reason.FEWER_PARTITIONS, "48 -> 12 partitions", ("partitions",))
    text = render_plan(plan(existing_topic_plan("clicks", UpdateConfig((RETENTION_CHANGE,)), findings=(finding,))))
    assert text.startswith("  ~ clicks         configure ")
    assert "(1 day -> 1 hour)\n  ! clicks         refused: 48 -> 12 partitions\n" in text
    assert "Plan: 1 to configure, 1 refused, 812 unchanged.\n" in text


def test_no_changes_is_said_plainly() -> None:
    """A plan without changes and notices is two lines."""
    assert render_plan(plan()) == "No changes: 812 topics match their manifests.\n"
    assert render_plan(plan(unchanged=1)) == "No changes: 1 topic matches its manifest.\n"
    assert render_plan(plan(unchanged=0)) == "No changes: no topics are declared.\n"


def test_nothing_planned_is_no_text() -> None:
    """Without clusters, the text is empty."""
    assert format_plans([], TextLayout()) == ""


def test_adoption_is_one_line_a_topic() -> None:
    """Adopting, taking ownership and correcting a record have different texts, in lines without empty lines between
    them.
    """
    topics = (
        TopicPlan("a", topic("a", record=None), None, OWN_RECORD, (TakeOwnership(),)),
        TopicPlan("b", topic("b", owner="team-b"), OwnershipRecord("team-b"), OWN_RECORD, (TakeOwnership(),)),
        TopicPlan("c", topic("c"), OWN_RECORD, OwnershipRecord("default", ("flush.ms",)), (TakeOwnership(),)),
    )
    assert render_plan(plan(*topics)) == (
        "  = a              adopt (ownership record only)                            Safe\n"
        "  = b              take ownership from team-b (ownership record only)       Safe\n"
        "  = c              update the ownership record                              Safe\n"
        "\n"
        "Plan: 2 to adopt, 1 record only, 812 unchanged.\n"
    )


def test_a_change_that_also_adopts_says_so() -> None:
    """A change that also adopts the topic shows the adoption, as part of the reviewed plan."""
    found = replace(
        existing_topic_plan("clicks", UpdateConfig((RETENTION_CHANGE,))),
        before=topic("clicks", record=None),
        record_before=None,
    )
    assert "      record       adopt: the ownership record is written too\n" in render_plan(plan(found))


def test_observed_topics_are_marked_and_not_counted_as_work() -> None:
    """A topic in mode ``Observe`` shows its changes, and that they are not applied."""
    found = replace(existing_topic_plan("watched", UpdateConfig((RETENTION_CHANGE,))), observe_only=True)
    text = render_plan(plan(found))
    assert text.startswith("  . watched        observed, not applied: configure                     DataLoss\n")
    assert text.endswith("\nNothing to apply: 1 observed, 812 unchanged.\n")


def test_the_record_of_an_observed_topic_is_no_news() -> None:
    """An observed topic that differs only in its ownership record counts as unchanged."""
    found = TopicPlan("watched", topic("watched", record=None), None, OWN_RECORD, (TakeOwnership(),), observe_only=True)
    assert render_plan(plan(found, unchanged=1)) == "No changes: 2 topics match their manifests.\n"


def test_long_values_are_shortened_unless_asked_for() -> None:
    """A value of thousands of characters is below its key: its beginning, or all of it with ``--verbose``."""
    item = ConfigItem(
        "leader.replication.throttled.replicas", None, ",".join(f"{i}:1" for i in range(500)), SAFE_ASSESSMENT
    )
    found = plan(existing_topic_plan("busy", UpdateConfig((item,))))
    assert "more characters" in render_plan(found)
    assert "more characters" not in render_plan(found, verbose=True)
    assert max(map(len, render_plan(found, verbose=True).splitlines())) <= 80


def test_long_names_have_lines_of_their_own() -> None:
    """A name of 249 characters keeps all its characters within the page, but for the option that is to be copied."""
    name = "x" * 249
    text = render_plan(plan(existing_topic_plan(name, UpdateConfig((RETENTION_CHANGE,)))))
    lines = text.splitlines()
    assert "".join(line.replace("~", "").strip() for line in lines[:4]) == name
    assert lines[4] == "                   configure                                            DataLoss"
    assert lines[-1] == f"    --allow-risk DataLoss={name}"
    assert max(map(len, lines[:-1])) <= 80


def test_names_stay_whole_for_programs() -> None:
    """Without a terminal a name of 249 characters is one word in each place of a plan, and so is a rack."""
    name, rack = "Q" * 249, "zone-" + "1" * 40
    topics = (
        existing_topic_plan(name, UpdateConfig((RETENTION_CHANGE,))),
        TopicPlan("new", changes=(CreateTopic(((1,),), {}),)),
    )
    found = replace(plan(*topics), cluster=name, orphans=(name,), brokers=(Broker(1, rack),))
    for show in (format_plans, format_topic_lines):
        text = show([found], TextLayout(verbose=True))
        assert text.count("Q") == text.count(name) * 249 > 249
    assert f"rack {rack}" in format_plans([found], TextLayout())
    assert f"rack zone-{'1' * 6}...{'1' * 10}" in format_plans([found], TextLayout(spare_width=0))


def test_names_of_usual_length_keep_actions_in_one_column() -> None:
    """Blocks of one plan align their actions beside the longest usual name."""
    text = render_plan(
        plan(
            existing_topic_plan("a", UpdateConfig((RETENTION_CHANGE,))),
            existing_topic_plan("shipments.returns.v1", UpdateConfig((RETENTION_CHANGE,))),
        )
    )
    columns = {line.index("configure") for line in text.splitlines() if line.startswith("  ~")}
    assert columns == {26}
