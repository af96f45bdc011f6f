"""The oracle of the campaigns raises an alarm for each kind of harm, so that an empty list of alarms says something."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from unittest.mock import patch

import pytest

from campaigns.kafka_clusters import Write
from campaigns.oracle import FinalState, compare
from campaigns.patterns import Case, Pattern, enumerate_cases, run_case, run_reference
from campaigns.remaining import remaining_reason
from campaigns.workloads import WORKLOADS
from topiarist.kubernetes import approval, reconciler

GOOD = FinalState(
    {"orders": 3}, {"orders": ((1,),)}, {"topics/orders": ("Ready", True)}, frozenset({"orders"}), (), (), ()
)
DELETION = Write("orders", ("DeleteTopic",), True)


@pytest.mark.parametrize(
    ("change", "alarm"),
    [
        (lambda state: state._replace(topics={}), "topic orders: "),
        (lambda state: state._replace(topics={"orders": 6}), "topic orders: "),
        (lambda state: state._replace(resources={"topics/orders": ("Waiting", True)}), "topics/orders: "),
        (lambda state: state._replace(resources={"topics/orders": ("Ready", False)}), "topics/orders: "),
        (lambda state: state._replace(writes=(DELETION,)), "extra destructive write: "),
        (lambda state: state._replace(late_writes=("topics/orders/status",)), "a further pass writes: "),
        (lambda state: state._replace(failures=("KeyError()",)), "crash: "),
        (lambda state: state._replace(mistakes=("record of orders: 1 deletion",)), "mistake: record of orders: "),
    ],
)
def test_each_harm_is_an_alarm(change: Callable[[FinalState], FinalState], alarm: str) -> None:
    """A missing or different topic, another status or finalizer, a deletion, a late write, a crash, a mistake."""
    (found,) = compare(change(GOOD), GOOD)
    assert found.startswith(alarm)


def test_a_topic_that_was_never_created_may_be_missing() -> None:
    """If no resource declares it in the end, its resource was not observed; a deletion of it remains an alarm."""
    reference = GOOD._replace(declared=frozenset())
    assert [*compare(reference._replace(topics={}), reference)] == []
    created = reference._replace(topics={}, writes=(Write("orders", ("CreateTopic",), False),))
    assert [alarm[:13] for alarm in compare(created, reference)] == ["topic orders:"]


def test_repeated_writes_are_an_alarm_after_a_kill() -> None:
    """A write that is not destructive counts too, and so do other replica lists."""
    repeated = GOOD._replace(writes=(Write("orders", ("UpdateConfig",), False),), replicas={"orders": ((2,),)})
    found = [alarm.partition(":")[0] for alarm in compare(repeated, GOOD, repeats_nothing=True)]
    assert found == ["writes to Kafka", "replicas"]


@pytest.mark.parametrize(
    ("workload", "module", "function", "result", "mistakes"),
    [
        ("delete", reconciler, "_count_undeclared", lambda *_: 0, ["clusters/prod"]),
        ("delete", approval, "recent_deletions", lambda *_: (), ["clusters/prod"]),
        ("delete", approval, "write_memory", lambda plan, *_: plan, ["record of events", "record of orders"]),
        ("consent to data loss", approval, "write_memory", lambda plan, *_: plan, ["record of orders"]),
    ],
)
def test_a_false_number_or_consent_is_a_mistake(
    workload: str, module: ModuleType, function: str, result: Callable[..., object], mistakes: list[str]
) -> None:
    """Undeclared topics, deletions and used consents are compared with the run, so any run shows it."""
    (found,) = (each for each in WORKLOADS if each.name == workload)
    with patch.object(module, function, result):
        assert [each.partition(":")[0] for each in run_reference(found).final.mistakes] == mistakes


def test_alarms_remain_only_if_there_are_alarms_of_a_known_kind() -> None:
    """A case of a known kind without alarms, or with another alarm, has no reason."""
    (workload,) = (each for each in WORKLOADS if each.name == "ownership")
    case, known = Case(workload, Pattern.LAGGING, 1), "topic orders: found (3, [2, 2, 2]), wanted None"
    assert remaining_reason(case, [known])
    assert remaining_reason(case, []) == remaining_reason(case, [known, "crash: KeyError()"]) == ""


@pytest.mark.night(area="campaigns")
def test_without_the_check_of_the_view_an_old_view_deletes_a_topic() -> None:
    """The campaign finds the defect that the check was written for: it is not blind to it."""
    (workload,) = (each for each in WORKLOADS if each.name == "recreate the resource")
    reference = run_reference(workload)
    cases = [case for case in enumerate_cases(workload, reference) if case.pattern is Pattern.RESTARTED]
    with patch.object(approval, "check_current_topic", lambda *_: None):
        alarms = [alarm for case in cases for alarm in run_case(case, reference)]
    assert any(
        alarm.startswith("extra destructive write: Write(topic='orders', kinds=('DeleteTopic',)") for alarm in alarms
    )


def test_a_pass_that_fails_is_a_crash() -> None:
    """The work loop survives an unexpected exception and logs it; the campaign counts it."""
    reference = run_reference(WORKLOADS[0])
    with patch.object(reconciler, "plan_cluster", side_effect=ZeroDivisionError):
        (case, *_) = enumerate_cases(WORKLOADS[0], reference)
        alarms = run_case(case._replace(pattern=Pattern.LAGGING, position=1, begin=1, end=1), reference)
    assert "crash: ZeroDivisionError()" in alarms
