"""The usage of a topic over time: what two samples prove, and what they leave open."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from topiarist.model.usage import (
    DAY_S,
    Evidence,
    GroupType,
    TopicSample,
    TopicUsage,
    UsageSettings,
    UsageState,
)
from topiarist.usage.fold import MAX_CURVE_POINTS, TopicFacts, TopicGroup, add_groups, fold_usage, is_dormant

START = 1_700_000_000
RETENTION_MINUTES = 7 * 24 * 60
FACTS = TopicFacts()
EMPTY = TopicSample("id", (5, 7), (0, 0), (100, 200), 900, (1, 1), (2, 2))


def evidence(at: int, **fields: object) -> Evidence:
    """Return evidence of a complete read."""
    complete = Evidence(at, 3, 3, 4, groups_complete=True, retention_minutes=RETENTION_MINUTES)
    return replace(complete, **fields)


def observe(*samples: tuple[int, TopicSample], facts: TopicFacts = FACTS, **fields: object) -> TopicUsage:
    """Return the usage after samples, each with its day."""
    usage, before_at = None, None
    for day, sample in samples:
        at = START + day * DAY_S
        usage = fold_usage(usage, before_at, sample, evidence(at, **fields), facts, UsageSettings())
        before_at = at
    assert usage
    return usage


def with_group(sample: TopicSample, members: int = 0, **offsets: int) -> TopicSample:
    """Return a sample with one group, its members and its offset of each partition."""
    numbers = {int(name.removeprefix("p")): offset for name, offset in offsets.items()}
    return add_groups(sample, [TopicGroup("billing", GroupType.CLASSIC, members, numbers)])


def test_one_sample_says_nothing_of_writes_and_looks_back_for_commits() -> None:
    """One sample proves no write; without any commit, no committing group has read as long as offsets are kept."""
    usage = observe((0, EMPTY))
    assert (usage.written.state, usage.written.why) == (UsageState.UNKNOWN, ("FirstSample",))
    assert usage.read.state is UsageState.NOT_SEEN
    assert usage.read.observed_since == START - 7 * DAY_S


def test_ends_that_grew_are_a_write_between_the_two_reads() -> None:
    """The write is bounded by the two reads, and stays known when nothing more is written."""
    usage = observe((0, EMPTY), (1, replace(EMPTY, ends=(5, 8))), (2, replace(EMPTY, ends=(5, 8))))
    assert usage.written.state is UsageState.USED
    assert (usage.written.after, usage.written.before) == (START, START + DAY_S)


def test_a_topic_is_dormant_after_the_window_and_not_before() -> None:
    """Every day one sample for 35 days: the topic is dormant from then on."""
    days = [(day, EMPTY) for day in range(36)]
    usage = observe(*days)
    assert is_dormant(usage, START + 35 * DAY_S, 35 * DAY_S)
    assert not is_dormant(observe(*days[:35]), START + 34 * DAY_S, 35 * DAY_S)


def test_a_gap_ends_the_observation_of_readers_and_not_of_writers() -> None:
    """Offsets that expired in a gap are not seen; end offsets add up over any time."""
    usage = observe((0, EMPTY), (30, EMPTY))
    assert usage.written.observed_since == START
    assert usage.read.observed_since == START + 23 * DAY_S


@pytest.mark.parametrize(
    ("fields", "facts", "why"),
    [
        ({"groups_complete": False}, TopicFacts(), "Incomplete"),
        ({"groups_unread": 1}, TopicFacts(), "Incomplete"),
        ({"groups_opaque": 1}, TopicFacts(), "Opaque"),
        ({}, TopicFacts(is_compacted=True), "Compacted"),
        ({}, TopicFacts(is_protected=True), "OtherSoftware"),
    ],
)
def test_readers_that_may_be_hidden_are_not_known(fields: dict[str, object], facts: TopicFacts, why: str) -> None:
    """A read that may lack groups says nothing of readers, and neither does a topic that is read without a group."""
    usage = observe((0, EMPTY), (1, EMPTY), facts=facts, **fields)
    assert (usage.read.state, usage.read.why, usage.read.observed_since) == (UsageState.UNKNOWN, (why,), None)


def test_an_incomplete_read_ends_the_observation() -> None:
    """After a read that may lack groups the observation begins anew with the next complete one."""
    whole, part = evidence(START), evidence(START + DAY_S, groups_complete=False)
    settings, facts = UsageSettings(), TopicFacts()
    first = fold_usage(None, None, EMPTY, whole, facts, settings)
    second = fold_usage(first, START, EMPTY, part, facts, settings)
    third = fold_usage(second, START + DAY_S, EMPTY, evidence(START + 20 * DAY_S), facts, settings)
    assert third.read.observed_since == START + 13 * DAY_S


def test_members_and_commits_are_readers() -> None:
    """A member reads now, also on an incomplete read; a commit that moved is a reader between the two reads."""
    now = observe((0, with_group(EMPTY, members=2)), groups_complete=False)
    assert (now.read.state, now.read.before, now.read.why) == (UsageState.USED, START, ("Members",))
    moved = observe((0, with_group(EMPTY, p0=3)), (1, with_group(EMPTY, p0=4)))
    assert (moved.read.state, moved.read.after, moved.read.before) == (UsageState.USED, START, START + DAY_S)


def test_commits_that_stand_are_a_trace_and_no_proof() -> None:
    """A reader at the end of an idle topic commits the same offset: nothing is known."""
    usage = observe((0, with_group(EMPTY, p0=5)), (1, with_group(EMPTY, p0=5)))
    assert (usage.read.state, usage.read.why) == (UsageState.UNKNOWN, ("OldCommits",))


def test_a_group_that_was_deleted_is_no_reader() -> None:
    """Offsets that expired or were deleted are no sign of a reader."""
    usage = observe((0, with_group(EMPTY, p0=5)), (1, EMPTY))
    assert usage.read.before is None


def test_a_recreated_topic_is_another_topic() -> None:
    """Nothing of the earlier topic counts for the new one, also with equal ends."""
    before = observe((0, EMPTY), (1, replace(EMPTY, ends=(9, 9))))
    usage = fold_usage(
        before, START + DAY_S, EMPTY, evidence(START + 2 * DAY_S), TopicFacts(is_same=False), UsageSettings()
    )
    assert (usage.written.state, usage.written.before) == (UsageState.UNKNOWN, None)
    assert "Recreated" in usage.written.why
    assert len(usage.curve) == 1


def test_lower_ends_count_as_a_write() -> None:
    """Ends that fell, after an unclean election for example, prove no rest."""
    usage = observe((0, EMPTY), (1, replace(EMPTY, ends=(4, 7))))
    assert (usage.written.state, usage.written.why) == (UsageState.USED, ("OffsetsLower",))


def test_partitions_that_were_added_count_from_then_on() -> None:
    """A record in a new partition was written since; an empty new partition was not."""
    grown = replace(EMPTY, ends=(5, 7, 0), begins=(0, 0, 0), sizes=(1, 1, 0), oldest=(1, 1, None), newest=(1, 1, None))
    assert observe((0, EMPTY), (1, grown)).written.before is None
    assert observe((0, EMPTY), (1, replace(grown, ends=(5, 7, 1)))).written.before == START + DAY_S


def test_an_unknown_end_is_not_a_quiet_topic() -> None:
    """A partition without a leader has no end: the observation of writes ends, and its last write stays known."""
    usage = observe((0, EMPTY), (1, replace(EMPTY, ends=(6, 7))), (2, replace(EMPTY, ends=(None, 7))))
    assert usage.written.observed_since is None
    assert usage.written.before == START + DAY_S


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=80))
def test_what_is_called_unseen_was_not_written(steps: list[tuple[int, int]]) -> None:
    """Whatever is written between daily samples, the days since which no write was seen have none."""
    total, last_write = 5, -1
    usage, before_at = None, None
    for day, (records, _) in enumerate(steps):
        total += records
        if records and day:
            last_write = day
        sample = replace(EMPTY, ends=(total, 7))
        usage = fold_usage(usage, before_at, sample, evidence(START + day * DAY_S), TopicFacts(), UsageSettings())
        before_at = START + day * DAY_S
    assert usage
    unseen = usage.written.unseen_since
    assert unseen is not None
    assert unseen >= START + last_write * DAY_S
    assert len(usage.curve) <= MAX_CURVE_POINTS
    assert usage.curve[-1].ends == total + 7
    assert [point.taken_at for point in usage.curve] == sorted({point.taken_at for point in usage.curve})


def test_the_rate_is_the_median_and_needs_a_day() -> None:
    """One day of observation gives a rate in bytes a day; a burst does not decide it."""
    steps = [(0, 1000), (1, 2000), (2, 3000), (3, 900_000), (4, 901_000)]
    samples = [(day, replace(EMPTY, ends=(size, 0), begins=(0, 0), sizes=(size, 0))) for day, size in steps]
    assert observe(samples[0]).bytes_per_day is None
    assert observe(*samples).bytes_per_day == 1000
