"""Groups of all types: the members that read a topic, what is not known of a group, and what is asked for again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from topiarist.adapters.kafka_admin.protocol import messages
from topiarist.adapters.kafka_admin.usage import groups as groups_module
from topiarist.adapters.kafka_admin.usage.groups import GroupReader, Groups, UsageRequests
from topiarist.model.usage import GroupType, UsageProblem
from unit.adapters.kafka_admin.scripted_session import LOST, FakeTime, ScriptedSession, reply
from unit.adapters.kafka_admin.test_usage_subscriptions import assignment, subscription

NOT_FOUND, LOADING, DENIED = 69, 14, 30


def listed(name: str, kind: str | None = "Classic", protocol: str = "consumer", state: str = "Stable") -> Any:
    """Return an entry of ListGroups."""
    return reply(group_id=name, group_type=kind, protocol_type=protocol, group_state=state)


def list_of(*groups: Any, code: int = 0) -> Any:
    """Return an answer to ListGroups."""
    return reply(error_code=code, groups=list(groups))


def offsets(**topics: Mapping[int, int]) -> Any:
    """Return offsets by topic and partition; -1 is no offset."""
    return [
        reply(
            name=name,
            partitions=[
                reply(partition_index=number, committed_offset=each, error_code=0) for number, each in values.items()
            ],
        )
        for name, values in topics.items()
    ]


class Described:
    """An answerer of ConsumerGroupDescribe without members; ``asked`` has the broker and the groups of each request."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, list[str]]] = []

    def __call__(self, broker: int, request: Any) -> Any:
        """Answer for each group."""
        self.asked.append((broker, [*request.group_ids]))
        return reply(groups=[reply(group_id=each, error_code=0, members=[]) for each in request.group_ids])


def answer_offsets(found: Mapping[str, Any]) -> Any:
    """Return an answerer of OffsetFetch in its newest form; without an entry a group has no offsets."""

    def answer(_broker: int, request: Any) -> Any:
        names = [each.group_id for each in request.groups]
        return reply(groups=[reply(group_id=each, error_code=0, topics=found.get(each, [])) for each in names])

    return answer


def read(script: Mapping[str, Any], brokers: tuple[int, ...] = (1,)) -> tuple[Groups, list[UsageProblem]]:
    """Return the groups and the problems; OffsetFetch answers without offsets unless the script has it."""
    session = ScriptedSession({"OffsetFetch": answer_offsets({}), **script})
    requests = UsageRequests(session)
    return GroupReader(requests, brokers).read(), requests.problems


def classic(name: str, *members: Any, state: str = "Stable", protocol: str = "consumer", code: int = 0) -> Any:
    """Return the description of a classic group."""
    return reply(
        groups=[reply(group_id=name, error_code=code, group_state=state, protocol_type=protocol, members=list(members))]
    )


def member(data: bytes, assigned: bytes = b"") -> Any:
    """Return a member of a classic group."""
    return reply(member_metadata=data, member_assignment=assigned)


def test_classic_members() -> None:
    """A member reads the topics of its subscription and of its assignment, each once."""
    members = [member(subscription("a", "b"), assignment(b=[0], c=[1])), member(subscription("a"))]
    found, problems = read({"ListGroups": list_of(listed("g")), "DescribeGroups": classic("g", *members)})
    assert found.groups["g"].members == {"a": 2, "b": 1, "c": 1}
    assert (found.groups["g"].type, found.groups["g"].is_opaque, found.groups["g"].is_read) == (
        GroupType.CLASSIC,
        False,
        True,
    )
    assert (found.listed_count, found.unread_count, found.answered, problems) == (1, 0, {1}, [])


@pytest.mark.parametrize(
    ("description", "is_opaque"),
    [
        (classic("g"), False),
        (classic("g", member(b"x"), protocol="connect"), False),
        (classic("g", member(b"x"), protocol="sr"), False),
        (classic("g", member(b"x"), protocol="other"), True),
        (classic("g", member(b"\0")), True),
    ],
)
def test_opaque_classic_groups(description: Any, is_opaque: bool) -> None:
    """A group is opaque if a member does not say what it reads, and not if its protocol reads no topics."""
    found, _ = read({"ListGroups": list_of(listed("g")), "DescribeGroups": description})
    assert found.groups["g"].is_opaque is is_opaque
    assert found.groups["g"].is_read


def test_a_rebalancing_group_is_asked_for_again(clock: FakeTime) -> None:
    """Only a consumer group with members that have no subscription yet; a stable answer clears the doubt."""
    answers = [classic("g", member(b"")), classic("g", member(subscription("a")))]
    found, _ = read({"ListGroups": list_of(listed("g")), "DescribeGroups": answers})
    assert found.groups["g"].members == {"a": 1}
    assert not found.groups["g"].is_opaque
    assert len(clock.slept) == 1
    clock.slept.clear()
    read({"ListGroups": list_of(listed("g")), "DescribeGroups": classic("g", member(b"x"), protocol="other")})
    assert clock.slept == []


def test_a_dead_group_of_a_newer_type() -> None:
    """A group that is dead to the old request and is listed a second time is of a newer type, so it is opaque."""
    dead = classic("g", state="Dead")
    found, _ = read({"ListGroups": list_of(listed("g")), "DescribeGroups": dead})
    assert found.groups["g"].is_opaque
    found, _ = read({"ListGroups": [list_of(listed("g")), list_of()], "DescribeGroups": dead})
    assert not found.groups["g"].is_opaque
    gone = classic("g", code=NOT_FOUND)
    found, problems = read({"ListGroups": list_of(listed("g")), "DescribeGroups": gone})
    assert found.groups["g"].is_opaque
    assert problems == []


def assigned(**topics: list[int]) -> Any:
    """Return an assignment of the newer types."""
    return reply(topic_partitions=[reply(topic_name=name, partitions=ids) for name, ids in topics.items()])


def consumer(*names: str, now: Any = None, target: Any = None, regex: str = "") -> Any:
    """Return a member of a consumer group of the new protocol."""
    return reply(
        subscribed_topic_names=list(names),
        subscribed_topic_regex=regex,
        assignment=now or assigned(),
        target_assignment=target or assigned(),
    )


def described(*members: Any, code: int = 0, name: str = "g", **more: Any) -> Any:
    """Return the description of a group of a newer type."""
    return reply(groups=[reply(group_id=name, error_code=code, members=list(members), **more)])


@pytest.mark.parametrize(
    ("members", "topics", "is_opaque"),
    [
        ([consumer("a", now=assigned(b=[0], idle=[]), target=assigned(c=[1]))], {"a": 1, "b": 1, "c": 1}, False),
        ([consumer("a"), consumer("a", "b")], {"a": 2, "b": 1}, False),
        ([consumer(regex="x.*")], {}, True),
        ([consumer(regex="x.*", now=assigned(x1=[0]))], {"x1": 1}, False),
        ([consumer()], {}, False),
        ([consumer(regex="x.*"), consumer("a")], {"a": 1}, True),
    ],
)
def test_consumer_groups(members: list[Any], topics: Mapping[str, int], is_opaque: bool) -> None:
    """A member reads its names and assignments; a pattern without a topic yet is not known."""
    script = {"ListGroups": list_of(listed("g", "Consumer")), "ConsumerGroupDescribe": described(*members)}
    group = read(script)[0].groups["g"]
    assert (group.type, dict(group.members), group.is_opaque) == (GroupType.CONSUMER, topics, is_opaque)


def test_share_groups() -> None:
    """Members have names and assignments, and the start offsets count as offsets."""
    partitions = [
        reply(partition_index=0, start_offset=5, error_code=0),
        reply(partition_index=1, start_offset=-1, error_code=0),
        reply(partition_index=2, start_offset=8, error_code=3),
        reply(partition_index=3, start_offset=0, error_code=0),
    ]
    topics = [reply(topic_name="a", partitions=partitions)]
    members = [reply(subscribed_topic_names=["a"], assignment=assigned(b=[0]))]
    script = {
        "ListGroups": list_of(listed("g", "Share", "share")),
        "ShareGroupDescribe": described(*members),
        "DescribeShareGroupOffsets": reply(groups=[reply(group_id="g", error_code=0, topics=topics)]),
    }
    found, problems = read(script)
    group = found.groups["g"]
    assert (group.type, dict(group.members), group.offsets) == (GroupType.SHARE, {"a": 1, "b": 1}, {"a": {0: 5, 3: 0}})
    assert problems == []


def test_streams_groups() -> None:
    """Each member may read every source, repartition and changelog topic."""
    part = reply(
        source_topics=["a"],
        repartition_source_topics=[reply(name="r")],
        state_changelog_topics=[reply(name="c")],
    )
    script = {
        "ListGroups": list_of(listed("g", "Streams", "streams")),
        "StreamsGroupDescribe": [
            described(reply(), reply(), topology=reply(subtopologies=[part])),
        ],
    }
    group = read(script)[0].groups["g"]
    assert (group.type, dict(group.members), group.is_opaque) == (GroupType.STREAMS, {"a": 2, "r": 2, "c": 2}, False)
    for topology, members, is_opaque in ((None, [reply()], True), (reply(subtopologies=None), [], False)):
        script["StreamsGroupDescribe"] = [described(*members, topology=topology)]
        assert read(script)[0].groups["g"].is_opaque is is_opaque


@pytest.mark.parametrize(
    ("entry", "kind"),
    [
        (listed("g", "consumer"), GroupType.CONSUMER),
        (listed("g", "Share", "share"), GroupType.SHARE),
        (listed("g", "Streams", "streams"), GroupType.STREAMS),
        (listed("g", "Later"), GroupType.CLASSIC),
        (listed("g", None, "share"), GroupType.SHARE),
        (listed("g", None, "streams"), GroupType.STREAMS),
        (listed("g", None, "consumer"), GroupType.CLASSIC),
        (listed("g", None, ""), GroupType.SIMPLE),
        (listed("g", "Classic", ""), GroupType.SIMPLE),
        (listed("g", "Consumer", ""), GroupType.CONSUMER),
    ],
)
def test_types(entry: Any, kind: GroupType) -> None:
    """A broker names the type, or an older one only the protocol; without a protocol a group has only offsets."""
    answers = {"DescribeGroups": classic("g"), "DescribeShareGroupOffsets": reply(groups=[])}
    newer = ("ConsumerGroupDescribe", "ShareGroupDescribe", "StreamsGroupDescribe")
    answers.update({name: described() for name in newer})
    assert read({"ListGroups": list_of(entry), **answers})[0].groups["g"].type is kind


@pytest.mark.parametrize("kind", ["Consumer", "Share", "Streams"])
def test_a_problem_names_the_request_of_the_type(kind: str) -> None:
    """A group of each newer type has a request of its own, which the evidence names if it is refused."""
    name = f"{kind}GroupDescribe"
    refused = reply(groups=[reply(group_id="g", error_code=30, members=[])])
    answers = {name: refused, "DescribeShareGroupOffsets": reply(groups=[])}
    found, problems = read({"ListGroups": list_of(listed("g", kind, kind.lower())), **answers})
    assert ([each.what for each in problems], found.unread_count) == ([name], 1)


def test_an_empty_group_is_not_described() -> None:
    """It has no members, only offsets."""
    script = {
        "ListGroups": list_of(listed("g", state="Empty")),
        "OffsetFetch": answer_offsets({"g": offsets(a={0: 3, 1: -1, 2: 0})}),
    }
    found, _ = read(script)
    assert found.groups["g"].offsets == {"a": {0: 3, 2: 0}}
    assert found.groups["g"].members == {}


def test_groups_that_appear_between_the_lists() -> None:
    """Groups are listed twice, and each one is described once."""
    first, second = list_of(listed("old", "Consumer")), list_of(listed("old", "Consumer"), listed("new", "Consumer"))
    describe = Described()
    found, _ = read({"ListGroups": [first, second], "ConsumerGroupDescribe": describe})
    assert describe.asked == [(1, ["old"]), (1, ["new"])]
    assert found.listed_count == 2


def test_each_group_is_described_by_its_coordinator() -> None:
    """The broker that lists a group is asked about it."""
    groups = {1: listed("g1", "Consumer"), 2: listed("g2", "Consumer")}
    describe = Described()
    read({"ListGroups": lambda broker, _: list_of(groups[broker]), "ConsumerGroupDescribe": describe}, (1, 2))
    assert describe.asked == [(1, ["g1"]), (2, ["g2"])]


@pytest.mark.parametrize(
    ("answers", "problems", "pauses"),
    [
        ([LOST], [UsageProblem("ListGroups", 1, 13)] * 2, 0),
        ([list_of(code=31)], [UsageProblem("ListGroups", 1, 31)] * 2, 0),
        ([list_of(code=LOADING)], [UsageProblem("ListGroups", 1, 14)] * 2, 4),
    ],
)
def test_a_broker_that_does_not_list_its_groups(
    answers: list[Any], problems: list[UsageProblem], pauses: int, clock: FakeTime
) -> None:
    """It has not answered; only a coordinator that is loading is asked again."""
    found, noted = read({"ListGroups": answers})
    assert (found.answered, noted, len(clock.slept)) == (set(), problems, pauses)


def test_a_coordinator_that_has_loaded() -> None:
    """The second answer counts."""
    found, problems = read({"ListGroups": [list_of(code=LOADING), list_of(listed("g", state="Empty"))]})
    assert ([*found.groups], found.answered, problems) == (["g"], {1}, [])


@pytest.mark.parametrize(
    ("answers", "is_read", "problems"),
    [
        ([described(code=DENIED)], False, [UsageProblem("ConsumerGroupDescribe", 1, DENIED)]),
        ([described(code=LOADING), described(consumer("a"))], True, []),
        ([described(code=LOADING)], False, [UsageProblem("ConsumerGroupDescribe", 1, LOADING)]),
        ([reply(groups=[])], False, [UsageProblem("ConsumerGroupDescribe", 1, -1)]),
        ([LOST], False, [UsageProblem("ConsumerGroupDescribe", 1, 13)]),
        ([described(code=NOT_FOUND)], True, []),
    ],
)
def test_a_group_that_is_not_described(answers: list[Any], is_read: bool, problems: list[UsageProblem]) -> None:
    """A refusal leaves a group unread, a loading coordinator is asked again, a deleted group has no members.

    Offsets of a group that is not read are not asked for.
    """
    asked: list[int] = []

    def fetch(broker: int, request: Any) -> Any:
        asked.append(broker)
        return answer_offsets({})(broker, request)

    script = {"ListGroups": list_of(listed("g", "Consumer")), "ConsumerGroupDescribe": answers, "OffsetFetch": fetch}
    found, noted = read(script)
    assert asked == ([1] if is_read else [])
    assert found.groups["g"].is_read is is_read
    assert found.unread_count == (0 if is_read else 1)
    assert noted == problems


def offset_answers(*answers: Any) -> Mapping[str, Any]:
    """Return a script with one empty group and these answers to OffsetFetch."""
    return {"ListGroups": list_of(listed("g", state="Empty")), "OffsetFetch": list(answers)}


def fetched(code: int = 0, name: str = "g", partition_code: int = 0) -> Any:
    """Return an answer to OffsetFetch with one offset."""
    partitions = [reply(partition_index=0, committed_offset=4, error_code=partition_code)]
    return reply(groups=[reply(group_id=name, error_code=code, topics=[reply(name="a", partitions=partitions)])])


@pytest.mark.parametrize(
    ("answers", "is_read", "problems"),
    [
        ([fetched()], True, []),
        ([fetched(DENIED)], False, [UsageProblem("OffsetFetch", 1, DENIED)]),
        ([fetched(partition_code=DENIED)], False, [UsageProblem("OffsetFetch", 1, DENIED)]),
        ([fetched(LOADING), fetched()], True, []),
        ([fetched(LOADING)], False, [UsageProblem("OffsetFetch", 1, LOADING)]),
        ([fetched(name="other")], False, [UsageProblem("OffsetFetch", 1, -1)]),
        ([LOST], False, [UsageProblem("OffsetFetch", 1, 13)]),
    ],
)
def test_offsets_that_are_not_answered(answers: list[Any], is_read: bool, problems: list[UsageProblem]) -> None:
    """A group without an answer to its offsets is unread; a loading coordinator is asked again."""
    found, noted = read(offset_answers(*answers))
    group = found.groups["g"]
    assert (group.is_read, group.offsets, noted) == (is_read, {"a": {0: 4}} if is_read else {}, problems)
    assert found.unread_count == (0 if is_read else 1)


@pytest.mark.parametrize(("version", "groups"), [(7, [["g1"], ["g2"]]), (8, [["g1", "g2"]]), (10, [["g1", "g2"]])])
def test_many_groups_of_one_request(version: int, groups: list[list[str]]) -> None:
    """From version 8 on one request has many groups; before, each group has its own, without an id in the answer."""
    asked = []

    def answer(_broker: int, request: Any) -> Any:
        if version < 8:
            asked.append([request.group_id])
            assert request.topics is None
            return reply(error_code=0, topics=offsets(a={0: 1}))
        asked.append([each.group_id for each in request.groups])
        return reply(groups=[reply(group_id=each, error_code=0, topics=offsets(a={0: 1})) for each in asked[-1]])

    both = list_of(listed("g1", state="Empty"), listed("g2", state="Empty"))
    session = ScriptedSession({"ListGroups": both, "OffsetFetch": answer})
    session.versions["OffsetFetch"] = version
    found = GroupReader(UsageRequests(session), [1]).read()
    assert asked == groups
    assert {name: group.offsets for name, group in found.groups.items()} == {
        each: {"a": {0: 1}} for each in ("g1", "g2")
    }
    assert {each.version for each in session.sent if each.name == "OffsetFetch"} == {min(version, 9)}


def test_the_requests_of_all_types() -> None:
    """Each type has its own request; nothing is asked about an empty group but its offsets, and no topic is named."""
    types = {"c": "Classic", "n": "Consumer", "s": "Share", "t": "Streams"}
    groups = [*(listed(name, kind, "x") for name, kind in types.items()), listed("e", "Consumer", state="Empty")]
    session = ScriptedSession(
        {
            "ListGroups": [list_of(*groups), list_of()],
            "DescribeGroups": classic("c"),
            "ConsumerGroupDescribe": described(name="n"),
            "ShareGroupDescribe": described(name="s"),
            "StreamsGroupDescribe": described(name="t"),
            "OffsetFetch": answer_offsets({}),
            "DescribeShareGroupOffsets": reply(groups=[reply(group_id="s", error_code=0, topics=[])]),
        }
    )
    GroupReader(UsageRequests(session), [1]).read()
    offsets_of = messages.OffsetFetchRequest.OffsetFetchRequestGroup
    starts_of = messages.DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
    assert [each.request for each in session.sent] == [
        messages.ListGroupsRequest(),
        messages.DescribeGroupsRequest(groups=["c"]),
        messages.ConsumerGroupDescribeRequest(group_ids=["n"]),
        messages.ShareGroupDescribeRequest(group_ids=["s"]),
        messages.StreamsGroupDescribeRequest(group_ids=["t"]),
        messages.OffsetFetchRequest(groups=[offsets_of(group_id=each, topics=None) for each in "cnte"]),
        messages.DescribeShareGroupOffsetsRequest(groups=[starts_of(group_id="s", topics=None)]),
        messages.ListGroupsRequest(),
    ]
    assert {each.broker for each in session.sent} == {1}


def test_only_groups_without_an_answer_are_asked_for_again() -> None:
    """The second request has the groups of a coordinator that is loading, and classic ones that rebalance."""
    asked: list[list[str]] = []

    def describe(_broker: int, request: Any) -> Any:
        asked.append([*request.group_ids])
        codes = {"a": LOADING if len(asked) == 1 else 0, "b": 0}
        return reply(groups=[reply(group_id=each, error_code=codes[each], members=[]) for each in request.group_ids])

    read({"ListGroups": list_of(listed("a", "Consumer"), listed("b", "Consumer")), "ConsumerGroupDescribe": describe})
    assert asked == [["a", "b"], ["a"]]
    asked.clear()

    def describe_classic(_broker: int, request: Any) -> Any:
        asked.append([*request.groups])
        data = {"a": b"" if len(asked) == 1 else subscription("t"), "b": subscription("t")}
        return reply(groups=[classic(each, member(data[each])).groups[0] for each in request.groups])

    found, _ = read({"ListGroups": list_of(listed("a"), listed("b")), "DescribeGroups": describe_classic})
    assert asked == [["a", "b"], ["a"]]
    assert {name: group.members for name, group in found.groups.items()} == {"a": {"t": 1}, "b": {"t": 1}}
    asked.clear()

    def fetch(_broker: int, request: Any) -> Any:
        asked.append([each.group_id for each in request.groups])
        codes = {"a": LOADING if len(asked) == 1 else 0, "b": 0}
        return reply(groups=[fetched(codes[name], name).groups[0] for name in asked[-1]])

    found, _ = read({"ListGroups": list_of(*(listed(each, state="Empty") for each in "ab")), "OffsetFetch": fetch})
    assert asked == [["a", "b"], ["a"]]
    assert {name: group.offsets for name, group in found.groups.items()} == {name: {"a": {0: 4}} for name in "ab"}


def test_large_requests_are_split() -> None:
    """A request has at most 100 groups."""
    names = [f"g{number:03}" for number in range(101)]
    describe = Described()
    read({"ListGroups": list_of(*(listed(each, "Consumer") for each in names)), "ConsumerGroupDescribe": describe})
    assert [len(asked) for _, asked in describe.asked] == [100, 1]


def test_more_groups_than_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The groups beyond the limit count as unread."""
    assert groups_module.MAX_GROUPS == 20_000
    monkeypatch.setattr(groups_module, "MAX_GROUPS", 2)
    found, _ = read({"ListGroups": list_of(*(listed(each, state="Empty") for each in "abc"))})
    assert ([*found.groups], found.listed_count, found.unread_count) == (["a", "b"], 3, 1)


def test_the_limit_of_groups_holds_for_both_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups that appear beyond the limit count as unread, too."""
    monkeypatch.setattr(groups_module, "MAX_GROUPS", 1)
    lists = [list_of(*(listed(each, state="Empty") for each in names)) for names in ("ab", "abcd")]
    found, _ = read({"ListGroups": lists})
    assert ([*found.groups], found.listed_count, found.unread_count) == (["a"], 4, 3)
