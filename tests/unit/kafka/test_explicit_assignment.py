"""Explicit replica lists: one check finds every error of every list, including errors that Kafka accepts."""

from __future__ import annotations

from topiarist.kafka.types import Replicas, find_assignment_errors


def test_all_errors_are_found_at_once() -> None:
    """One check finds each error of each partition, including errors that Kafka accepts."""
    lists: dict[int, Replicas] = {0: (0, 1), 1: (), 2: (2, 2), 3: (0, -1), 5: (0, 9)}
    widths = "found different numbers of replicas (0 in partition 1, 2 in partition 0), wanted one number"
    assert list(find_assignment_errors(lists, registered={0, 1, 2})) == [
        (0, f"{widths} for all partitions"),
        (0, "found partitions 0, 1, 2, 3, 5, wanted 0 to 4 without a hole"),
        (1, "found an empty replica list, wanted one or more broker ids"),
        (2, "found broker 2 twice, wanted each broker once"),
        (3, "found broker id -1, wanted 0 or more"),
        (5, "found broker 9, which is not registered"),
    ]


def test_valid_lists_have_no_errors() -> None:
    """Valid lists have no errors, and unknown brokers are no errors if the registered brokers are unknown."""
    assert not list(find_assignment_errors({0: (0, 1), 1: (1, 0)}, registered={0, 1}))
    assert not list(find_assignment_errors({0: (77,)}))
    assert not list(find_assignment_errors({}))
