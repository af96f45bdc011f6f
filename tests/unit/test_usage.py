"""The usage of topics: samples folded over time, judged for deletions, and in words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from topiarist.model.moves import ReplicaMove
from topiarist.model.plan import SAFE_ASSESSMENT, AddPartitions, ConfigItem, DeleteTopic, MoveReplicas, UpdateConfig
from topiarist.model.usage import (
    DAY_S,
    CurvePoint,
    DeletionCheck,
    Evidence,
    GroupType,
    Side,
    TopicSample,
    TopicUsage,
    UsageSettings,
    UsageState,
)
from topiarist.usage import (
    MAX_CURVE_POINTS,
    ByteBounds,
    DeletionVerdict,
    TopicFacts,
    TopicGroup,
    add_groups,
    count_groups,
    describe_change,
    describe_missing,
    describe_users,
    estimate_copied_bytes,
    estimate_cut,
    fold_group_id,
    fold_usage,
    is_dormant,
    judge_deletion,
    worse_state,
)

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


NOW = 1_763_800_000
MIB = 1 << 20
SAMPLE = TopicSample("id", (100, 50), (10, 0), (4 * MIB, 2 * MIB), 18 * MIB, (NOW * 1000 - 5, None), (NOW * 1000, None))
UNSEEN = Side(UsageState.NOT_SEEN, observed_since=NOW - 42 * DAY_S, why=("NoGroup",))
QUIET = TopicUsage(SAMPLE, UNSEEN, UNSEEN)
WRITTEN = Side(UsageState.USED, NOW - 7200, NOW - 3600, NOW - 42 * DAY_S, ("Grew",))
REFUSE, REQUIRE = UsageSettings(), UsageSettings(DeletionCheck.REQUIRE_NOT_SEEN)


@pytest.mark.parametrize(
    ("usage", "refuse", "require"),
    [
        (QUIET, DeletionVerdict.ALLOWED, DeletionVerdict.ALLOWED),
        (replace(QUIET, written=WRITTEN), DeletionVerdict.IN_USE, DeletionVerdict.IN_USE),
        (replace(QUIET, read=WRITTEN), DeletionVerdict.IN_USE, DeletionVerdict.IN_USE),
        (replace(QUIET, read=Side()), DeletionVerdict.UNKNOWN, DeletionVerdict.UNKNOWN),
        (
            replace(QUIET, read=UNSEEN._replace(observed_since=NOW - 34 * DAY_S)),
            DeletionVerdict.ALLOWED,
            DeletionVerdict.UNKNOWN,
        ),
        (None, DeletionVerdict.UNKNOWN, DeletionVerdict.UNKNOWN),
    ],
)
def test_what_is_not_known_is_not_out_of_use(
    usage: TopicUsage | None, refuse: DeletionVerdict, require: DeletionVerdict
) -> None:
    """A use within a day is a use. Without proof the verdict is unknown, and a window has to be whole."""
    assert judge_deletion(usage, NOW, REFUSE) is refuse
    assert judge_deletion(usage, NOW, REQUIRE) is require
    assert judge_deletion(usage, NOW, UsageSettings(DeletionCheck.IGNORE)) is DeletionVerdict.ALLOWED


def test_a_member_is_a_use_whatever_else_is_known() -> None:
    """A member of a group, subscribed or assigned, refuses the deletion."""
    member = add_groups(SAMPLE, [TopicGroup("billing", GroupType.SHARE, 1, {})])
    assert judge_deletion(TopicUsage(member), NOW, REFUSE) is DeletionVerdict.IN_USE


def test_a_topic_is_used_if_one_side_is() -> None:
    """One used side makes the topic used, and one unknown side makes it unknown."""
    assert worse_state(QUIET) is UsageState.NOT_SEEN
    assert worse_state(replace(QUIET, read=Side())) is UsageState.UNKNOWN
    assert worse_state(replace(QUIET, written=WRITTEN, read=Side())) is UsageState.USED


def test_a_deletion_says_what_is_lost_and_to_whom() -> None:
    """Bytes, offsets and groups are named; without a group the text says what cannot be seen."""
    deletion = DeleteTopic(2, 6, SAFE_ASSESSMENT)
    groups = [TopicGroup("billing", GroupType.CLASSIC, 3, {0: 90}), TopicGroup("audit", GroupType.CLASSIC, 0, {0: 5})]
    used = TopicUsage(add_groups(SAMPLE, groups), WRITTEN, WRITTEN._replace(why=("Members",)))
    assert describe_change(deletion, used, NOW) == (
        "deletes 18 MiB in all replicas (6 MiB of data, 140 offsets, the oldest record claims 2025-11-22);"
        " written between 2025-11-22 06:26 and 2025-11-22 07:26;"
        " read by 2 groups: billing (3 members, 10 behind), audit (no members, offsets committed, 95 behind)"
    )
    single = TopicUsage(replace(SAMPLE, begins=(0, 0), ends=(1, 0)))
    assert "MiB of data, 1 offset, " in describe_change(deletion, single, NOW)
    assert describe_users(QUIET, NOW) == (
        "no write seen since 2025-10-11 (42 days); no reading group since 2025-10-11 (42 days);"
        " readers without a group cannot be seen"
    )
    assert "its readers are unknown (a group does not say what it reads)" in describe_users(
        replace(QUIET, read=Side(why=("Opaque",))), NOW
    )


def test_ids_of_groups_move_no_cursor_and_have_an_end() -> None:
    """An id of a group is untrusted text of any length."""
    evil = TopicUsage(
        add_groups(SAMPLE, [TopicGroup("\x1b[2J" + "x" * 30_000, GroupType.CLASSIC, 1, {})]), read=WRITTEN
    )
    text = describe_users(evil, NOW)
    assert text.isprintable()
    assert len(text) < 300


@pytest.mark.parametrize(
    ("group", "folded"),
    [
        ("console-consumer-48213", "console-consumer-*"),
        ("etl-6f1d2c1e-93a1-4b3e-9d53-0a8f2b1c7d11", "etl-*"),
        ("6f1d2c1e-93a1-4b3e-9d53-0a8f2b1c7d11", "*"),
        ("orders-2024", "orders-2024"),
    ],
)
def test_ids_that_are_new_in_each_run_are_folded(group: str, folded: str) -> None:
    """Only ids of known forms are folded."""
    assert fold_group_id(group) == folded


def test_counted_groups_have_no_ids_and_keep_their_digest() -> None:
    """A snapshot for strangers has the number of groups, and still shows progress."""
    sample = add_groups(SAMPLE, [TopicGroup("secret", GroupType.CLASSIC, 0, {0: 5})])
    counted = count_groups(sample)
    assert (counted.groups, counted.more_groups) == ((), 1)
    assert counted.groups_digest == sample.groups_digest
    assert "secret" not in repr(counted)
    assert (
        add_groups(SAMPLE, [TopicGroup("secret", GroupType.CLASSIC, 0, {0: 6})]).groups_digest != sample.groups_digest
    )


def test_copied_bytes_are_those_of_the_added_replicas() -> None:
    """A move copies the leader's bytes for each added broker; an unknown size leaves the sum unknown."""
    moves = (ReplicaMove("t", 0, (1,), (2, 3)), ReplicaMove("t", 1, (1, 2), (2, 1)))
    assert estimate_copied_bytes(moves, SAMPLE) == 8 * MIB
    assert estimate_copied_bytes(moves, replace(SAMPLE, sizes=(None, 1))) is None
    assert describe_change(MoveReplicas(moves, SAFE_ASSESSMENT), QUIET, NOW) == "copies about 8 MiB"


def cut(key: str, value: str, usage: TopicUsage = QUIET) -> ByteBounds | None:
    """Return the bounds of a cut with segments of 1 MiB."""
    return estimate_cut(ConfigItem(key, None, value, SAFE_ASSESSMENT), usage, NOW, str(MIB))


def test_a_size_limit_frees_whole_segments() -> None:
    """Of each partition, all but the limit, and up to one segment less."""
    assert cut("retention.bytes", str(MIB)) == ByteBounds(2 * MIB, 4 * MIB)
    assert cut("retention.bytes", "-1") == ByteBounds(0, 0)
    assert cut("retention.bytes", "many") is None
    assert cut("cleanup.policy", "compact") is None


def test_a_time_limit_is_bounded_by_the_sizes_before_and_after_it() -> None:
    """What was there before the limit is older; without samples around it all may be deleted, or nothing."""
    points = tuple(CurvePoint(NOW - days * DAY_S, 10, 100, size * MIB) for days, size in ((9, 3), (5, 5), (1, 6)))
    usage = replace(QUIET, curve=points)
    assert cut("retention.ms", str(7 * DAY_S * 1000), usage) == ByteBounds(1 * MIB, 5 * MIB)
    assert cut("retention.ms", str(7 * DAY_S * 1000)) == ByteBounds(0, 6 * MIB)
    moved = (*points[:2], points[2]._replace(begins=60))
    assert cut("retention.ms", str(7 * DAY_S * 1000), replace(QUIET, curve=moved)) == ByteBounds(0, 6 * MIB)
    item = ConfigItem("retention.ms", None, str(7 * DAY_S * 1000), SAFE_ASSESSMENT)
    text = describe_change(UpdateConfig((item,)), usage, NOW, str(MIB))
    assert text == "retention.ms deletes between 1 MiB and 5 MiB of 6 MiB"


def test_growth_says_what_stays_and_who_reads() -> None:
    """New partitions move no data."""
    text = describe_change(AddPartitions(2, (1,), ((1,),), SAFE_ASSESSMENT), QUIET, NOW)
    assert text.startswith("6 MiB stay in the old partitions; no write seen since")


@pytest.mark.parametrize(
    ("evidence", "text"),
    [
        (Evidence(NOW, 3, 3, 4, groups_complete=True), ""),
        (Evidence(NOW, 3, 2, 4), "1 of 3 brokers did not list their groups"),
        (
            Evidence(NOW, 3, 3, 4, groups_unread=1, groups_opaque=2, groups_complete=True),
            "1 of 4 groups could not be read, 2 groups without a readable subscription",
        ),
    ],
)
def test_what_is_missing_is_named(evidence: Evidence, text: str) -> None:
    """An incomplete read says which part is missing."""
    assert describe_missing(evidence) == text


def test_a_complete_list_without_the_right_is_not_complete() -> None:
    """Brokers list fewer groups without an error to a principal without the right."""
    assert "Describe on the cluster" in describe_missing(Evidence(NOW, 3, 3, 0))
