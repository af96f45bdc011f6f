"""Explicit replica lists: Kafka's checks to the letter, our stricter ones, and the form of Kafka's command line."""

from __future__ import annotations

import pytest

from topiarist.kafka.explicit_assignment import check_create, check_expand, find_errors, parse_cli_assignment
from topiarist.kafka.placement import AssignmentError
from topiarist.kafka.types import Broker, Replicas

THREE = tuple(Broker(number) for number in range(3))


@pytest.mark.parametrize(
    "lists",
    [
        {0: (0, 1), 1: (1, 2)},
        {0: (77, 78)},  # brokers that are not there
        {0: ()},  # an empty list
        {-1: (1, 2), 1: (1, 2), 2: (1, 2)},  # a hole, hidden by the sum
    ],
)
def test_what_kafka_lets_pass(lists: dict[int, Replicas]) -> None:
    """Kafka accepts these on a create, good or not."""
    check_create(lists)


@pytest.mark.parametrize(
    ("lists", "words"),
    [
        ({}, "found no partitions"),
        ({0: (0, 1), 1: (0,)}, "found different numbers of replicas (1 in partition 1, 2 in partition 0)"),
        ({0: (1, 1)}, "partition 0: found 1 twice in [1, 1]"),
        ({1: (0,), 2: (1,)}, "found partitions 1, 2, wanted 0 to 1 without a hole"),
        ({-1: (0,), 1: (0,), 2: (0,), 4: (0,)}, "found partitions -1, 1, 2, 4"),
    ],
)
def test_what_kafka_refuses_on_a_create(lists: dict[int, Replicas], words: str) -> None:
    """Different widths, a broker twice, ids with a hole that the sum shows."""
    with pytest.raises(AssignmentError) as caught:
        check_create(lists)
    assert caught.value.kind == "invalid_replica_assignment"
    assert words in str(caught.value)


def test_good_lists_for_an_expansion_come_back() -> None:
    """One list for each new partition, as wide as partition 0, is taken as it is."""
    assert check_expand(THREE, {0: (0, 1)}, [(1, 2), (2, 0)], 3) == ((1, 2), (2, 0))


@pytest.mark.parametrize(
    ("existing", "lists", "total", "kind"),
    [
        ({1: (0,)}, [(1,)], 2, "admin_operation"),
        ({0: (0,)}, [(1,)], 1, "invalid_partitions"),
        ({0: (0,)}, [], 2, "invalid_replica_assignment"),
        ({0: (0,)}, [(1,), (2,)], 2, "invalid_replica_assignment"),
        ({0: (0,)}, [()], 2, "invalid_replica_assignment"),
        ({0: (0, 1)}, [(1, 1)], 2, "invalid_replica_assignment"),
        ({0: (0, 1)}, [(1,)], 2, "invalid_replica_assignment"),
        ({0: (0, 1)}, [(1, 9)], 2, "broker_not_available"),
    ],
)
def test_what_kafka_refuses_on_an_expansion(
    existing: dict[int, Replicas], lists: list[Replicas], total: int, kind: str
) -> None:
    """The partition count, the number of lists, then each list: empty, repeated, unknown or of another width."""
    with pytest.raises(AssignmentError) as caught:
        check_expand(THREE, existing, lists, total)
    assert caught.value.kind == kind


def test_a_partly_racked_cluster_cannot_expand_even_explicitly() -> None:
    """Kafka looks at the racks before anything else."""
    with pytest.raises(AssignmentError, match="without a rack") as caught:
        check_expand([Broker(0, "a"), Broker(1)], {0: (0,)}, [(1,)], 2)
    assert caught.value.kind == "admin_operation"


def test_our_own_checks_name_everything_at_once() -> None:
    """Each fault of each partition is named, the ones that Kafka lets pass among them."""
    lists: dict[int, Replicas] = {0: (0, 1), 1: (), 2: (2, 2), 3: (0, -1), 5: (0, 9)}
    widths = "found different numbers of replicas (0 in partition 1, 2 in partition 0), wanted one number"
    assert list(find_errors(lists, registered={0, 1, 2})) == [
        (0, f"{widths} for all partitions"),
        (0, "found partitions 0, 1, 2, 3, 5, wanted 0 to 4 without a hole"),
        (1, "found an empty replica list, wanted one or more broker ids"),
        (2, "found broker 2 twice, wanted each broker once"),
        (3, "found broker id -1, wanted 0 or more"),
        (5, "found broker 9, which is not registered"),
    ]


def test_our_own_checks_let_good_lists_pass() -> None:
    """Good lists have no problems; unknown brokers are none where nobody says which are registered."""
    assert not list(find_errors({0: (0, 1), 1: (1, 0)}, registered={0, 1}))
    assert not list(find_errors({0: (77,)}))
    assert not list(find_errors({}))


@pytest.mark.parametrize(
    ("text", "lists"),
    [
        ("1:2:3,2:3:1", ((1, 2, 3), (2, 3, 1))),
        ("5", ((5,),)),
        (" 1 : 2 , 2 : 1 ", ((1, 2), (2, 1))),
        ("1:2,", ((1, 2),)),
        ("1:2:", ((1, 2),)),
        ("+1", ((1,),)),
        (",", ()),
    ],
)
def test_the_command_lines_form_is_read(text: str, lists: tuple[Replicas, ...]) -> None:
    """Commas between partitions, colons between replicas, and the freedoms of Kafka's own parser."""
    assert parse_cli_assignment(text) == lists


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("", "illegal_argument", 'partition 0: found "", wanted a whole number'),
        ("1:x", "illegal_argument", 'partition 0: found "x", wanted a whole number'),
        ("1,,2", "illegal_argument", 'partition 1: found ""'),
        ("1:2147483648", "illegal_argument", "wanted -2147483648 to 2147483647"),
        ("5:5", "illegal_argument", "partition 0: found broker 5 twice"),
        ("5:4:3,2:1", "admin_operation", "partition 1: found 2 replicas, wanted 3 as in partition 0"),
    ],
)
def test_what_the_command_lines_form_refuses(text: str, kind: str, words: str) -> None:
    """What is no number, a broker twice, lists of different width: with the partition."""
    with pytest.raises(AssignmentError) as caught:
        parse_cli_assignment(text)
    assert caught.value.kind == kind
    assert words in str(caught.value)
