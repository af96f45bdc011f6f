"""Tests of the questions to the brokers: their refusals become refusals of the plan, and nothing is written."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from support.builders import refusal_reasons, spec
from support.kafka.fake_cluster import answer_code, leave_out, lose_request, veto_topics
from support.kafka.write_bench import Bench
from topiarist.adapters.kafka_admin.write.writer import ask_brokers
from topiarist.cli.formats import format_plans
from topiarist.cli.settings import Settings
from topiarist.errors import Reason, TopiaristError
from topiarist.model.plan import AddPartitions, CreateTopic, Plan, TopicPlan, UpdateConfig
from topiarist.reconcile import withhold_vetoed_changes


class Validator:
    """A cluster with brokers in memory that are asked."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def ask_brokers(self, plan: Plan) -> object:
        """Ask the brokers in memory."""
        return ask_brokers(self._bench.session, plan)


def ask(bench: Bench, plan: Plan) -> dict[str, TopicPlan]:
    """Return the topics of the plan after the brokers were asked."""
    return {topic.topic: topic for topic in withhold_vetoed_changes(Validator(bench), plan).topics}  # type: ignore[arg-type]


def test_a_veto_withholds_the_change_and_shows_the_words_of_the_broker() -> None:
    """A creation that a policy refuses is a refusal of the plan; the other creation stays, and nothing was written."""
    bench = Bench()
    bench.cluster.vetoes.append(veto_topics(["bad"], 44, "the name must begin with a team"))
    topics = ask(bench, bench.plan(spec("bad"), spec("good")))
    assert refusal_reasons(topics["bad"]) == ["PolicyViolation"]
    (refusal,) = topics["bad"].refusals
    assert "the name must begin with a team" in refusal.message
    assert [type(change) for change in refusal.withheld] == [CreateTopic]
    assert topics["bad"].changes == ()
    assert topics["good"].changes
    assert bench.cluster.changes == []
    assert bench.cluster.sent == ["CreateTopics"]


def test_a_veto_of_configs_leaves_the_growth() -> None:
    """Configs and growth are asked about one by one; only what is refused is withheld."""
    bench = Bench()
    bench.cluster.add("a", (1, 2), retention_ms="1000000")
    bench.own("a")
    bench.cluster.on("IncrementalAlterConfigs", answer_code(40, "Invalid value"))
    plan = bench.plan(spec("a", partitions=2, replicationFactor=2, config={"retention.ms": 2000000}))
    topic = ask(bench, plan)["a"]
    assert [type(change) for change in topic.changes] == [AddPartitions]
    (refusal,) = topic.refusals
    assert (refusal.reason, refusal.field) == (Reason.CONFIG_INVALID, ("config", "retention.ms"))
    assert [type(change) for change in refusal.withheld] == [UpdateConfig]
    assert bench.cluster.changes == []


def test_a_missing_right_is_named() -> None:
    """A principal without the right sees it in the plan."""
    bench = Bench()
    bench.cluster.vetoes.append(veto_topics(["a"], 29))
    (refusal,) = ask(bench, bench.plan(spec("a")))["a"].refusals
    assert refusal.reason is Reason.NO_PERMISSION
    assert "Create on the topic" in refusal.message


@pytest.mark.parametrize("is_known", [True, False])
def test_replica_lists_that_the_brokers_refuse(is_known: bool) -> None:
    """Brokers that the plan knew are a change of the cluster since; only others are unknown brokers."""
    bench = Bench()
    bench.cluster.on("CreateTopics", answer_code(39, "broker 1 is not registered"))
    plan = bench.plan(spec("a"))
    plan = plan if is_known else replace(plan, brokers=())
    (refusal,) = ask(bench, plan)["a"].refusals
    assert refusal.reason is (Reason.STATE_CONFLICT if is_known else Reason.UNKNOWN_BROKERS)


def test_deletions_are_not_asked_about() -> None:
    """A deletion has no validation: it is never sent by a question."""
    bench = Bench()
    bench.cluster.add("old", (1, 2))
    bench.own("old")
    topics = ask(bench, bench.plan(spec("old", ensure="Absent")))
    assert topics["old"].changes
    assert bench.cluster.sent == []
    assert "old" in bench.cluster.topics


def test_a_topic_that_is_too_large_is_refused_without_a_question() -> None:
    """The limit of the controller is known beforehand."""
    bench = Bench()
    topics = ask(bench, bench.plan(spec("a", partitions=10_001, replicationFactor=1)))
    assert refusal_reasons(topics["a"]) == ["TooLarge"]
    assert bench.cluster.sent == []


def test_not_the_controller_is_asked_once_more() -> None:
    """A broker that is not the controller is no veto."""
    bench = Bench()
    bench.cluster.on("CreateTopics", answer_code(41))
    assert ask(bench, bench.plan(spec("a")))["a"].refusals == ()
    assert bench.session.calls["forget_controller"] == 1


def test_reviewers_see_the_words_of_the_brokers_in_every_format() -> None:
    """Text, Markdown, JSON and annotations have the reason and the message."""
    bench = Bench()
    bench.cluster.vetoes.append(veto_topics(["bad"], 44, "the name must begin with a team"))
    plan = withhold_vetoed_changes(Validator(bench), bench.plan(spec("bad"), spec("good")))  # type: ignore[arg-type]
    for form in ("text", "markdown", "json", "github"):
        shown = " ".join(format_plans([plan], Settings(), form).split())
        assert "PolicyViolation" in shown, form
        assert "the name must begin with a team" in shown, form
    assert plan.has_refusals


@pytest.mark.parametrize("fault", [lose_request, leave_out("a"), answer_code(7), answer_code(-1)])
def test_brokers_that_do_not_answer_are_an_error_and_no_consent(fault: object) -> None:
    """A plan is never shown as accepted by brokers that did not say so."""
    bench = Bench()
    bench.cluster.on("CreateTopics", fault)  # type: ignore[arg-type]
    with pytest.raises(TopiaristError, match="did not answer") as raised:
        ask(bench, bench.plan(spec("a")))
    assert raised.value.reason.retryable
