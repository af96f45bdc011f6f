"""What an intent stands for, from what its topic shows: every branch, and a property over all partial outcomes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from topiarist.adapters.kafka_admin.records.codec import (
    Intent,
    IntentKind,
    TopicRecord,
    build_partial_record,
    forget_intent,
    has_late_write,
    resolve,
)
from topiarist.kafka.types import Replicas
from topiarist.model.state import AppliedSpec, OwnershipRecord, ReadError, TopicState

LISTS: tuple[Replicas, ...] = ((1, 2), (2, 3))
AFTER = OwnershipRecord("team", ("k",), applied=AppliedSpec(2, (("k", "1"),), remove_unmanaged=True))
MADE = OwnershipRecord("team", ("k",), applied=AppliedSpec(None, (), remove_unmanaged=True))
"""``AFTER`` as an intent leaves it: the next plan completes it."""

BEFORE = OwnershipRecord("old", ("k", "gone"), applied=AppliedSpec(1, (("k", "0"),)))
DELETED = OwnershipRecord("team", deleted=True)
UNREADABLE = ReadError("topic a", "no permission")
CREATE = TopicRecord(None, None, Intent(IntentKind.CREATE, AFTER, LISTS, config={"k": "1"}))
GONE = CREATE._replace(intent=Intent(IntentKind.GONE, AFTER, LISTS, config={"k": "1"}))
RECREATE = CREATE._replace(record=DELETED)
CHANGE = TopicRecord(BEFORE, "id", Intent(IntentKind.CHANGE, AFTER, LISTS[1:], 1, {"k": "1", "gone": None}))
ADOPT = CHANGE._replace(record=None)
DELETE = TopicRecord(BEFORE, "id", Intent(IntentKind.DELETE, DELETED))


def topic(*replicas: Replicas, topic_id: str = "id", **config: str) -> TopicState:
    """Return a topic as the brokers show it."""
    return TopicState("a", topic_id, replicas, config, topic_id=topic_id)


@pytest.mark.parametrize(
    ("record", "shown", "expected"),
    [
        (CREATE, topic(*LISTS, topic_id="new", k="1"), TopicRecord(MADE, "new")),
        (CREATE, topic(*LISTS, topic_id="new", k="2"), None),
        (CREATE, topic(*LISTS, topic_id="new", k="1", more="2"), TopicRecord(MADE, "new")),
        (CREATE, topic((1, 2), topic_id="new", k="1"), None),
        (CREATE, topic((2, 1), (2, 3), topic_id="new", k="1"), None),
        (CREATE, topic(*LISTS, topic_id="new"), None),
        (RECREATE, topic((1, 2), topic_id="new", k="1"), TopicRecord(DELETED)),
        (GONE, topic(*LISTS, topic_id="late", k="1"), TopicRecord(MADE, "late")),
        (GONE, topic((3, 1), topic_id="other"), None),
        (CHANGE, topic(*LISTS, k="1"), TopicRecord(MADE, "id")),
        (CHANGE, topic((1, 2), k="0", gone="x"), TopicRecord(BEFORE, "id")),
        (CHANGE, topic((1, 2), k="1", gone="x"), TopicRecord(replace(MADE, config_keys=("gone", "k")), "id")),
        (CHANGE, topic((1, 2), k="1"), TopicRecord(MADE, "id")),
        (CHANGE, topic((1, 2), (3, 1), k="0", gone="x"), TopicRecord(BEFORE, "id")),
        (CHANGE, topic(*LISTS, k="1", topic_id="recreated"), TopicRecord(BEFORE, "id")),
        (CHANGE, None, TopicRecord(BEFORE, "id")),
        (ADOPT, topic((1, 2), k="0", gone="x"), None),
        (ADOPT, topic(*LISTS, k="1"), TopicRecord(MADE, "id")),
        (ADOPT, None, None),
        (DELETE, None, TopicRecord(DELETED)),
        (DELETE, topic((1, 2)), TopicRecord(BEFORE, "id")),
        (DELETE, topic((1, 2), topic_id="recreated"), TopicRecord(DELETED)),
        (DELETE._replace(intent=Intent(IntentKind.DELETE, None)), None, None),
        (TopicRecord(BEFORE, "id"), None, TopicRecord(BEFORE, "id")),
    ],
)
def test_a_topic_decides_what_its_intent_was(
    record: TopicRecord, shown: TopicState | None, expected: TopicRecord | None
) -> None:
    """Created equal or different, changed in whole, in part or not, recreated, deleted."""
    for has_waited in (False, True):
        assert resolve(record, shown, has_waited=has_waited) == expected


def test_a_creation_without_effect_is_given_up_in_two_steps() -> None:
    """Until no request can be carried out any more, its topic is recognized if it appears."""
    for record, before in ((CREATE, None), (RECREATE, TopicRecord(DELETED))):
        given_up = resolve(record, None, has_waited=False)
        assert given_up
        assert given_up.intent
        assert given_up.intent.kind is IntentKind.GONE
        assert forget_intent(given_up) == before
        assert resolve(given_up, None, has_waited=False) == given_up
        assert resolve(given_up, None, has_waited=True) == before
        assert resolve(record, None, has_waited=True) == before
        assert resolve(given_up, topic(*LISTS, topic_id="late", k="1"), has_waited=False) == TopicRecord(MADE, "late")


@pytest.mark.parametrize("record", [CREATE, GONE, CHANGE, DELETE])
def test_a_topic_that_cannot_be_read_keeps_its_intent(record: TopicRecord) -> None:
    """It is resolved by a run that can read it, and no run waits for it."""
    assert resolve(record, UNREADABLE, has_waited=True) == record
    assert not has_late_write(record, UNREADABLE)


@pytest.mark.parametrize(
    ("record", "shown", "expected"),
    [
        (CREATE, None, True),
        (CREATE, topic(*LISTS), False),
        (GONE, None, False),
        (CHANGE, topic((1, 2), k="0", gone="x"), True),
        (CHANGE, topic(*LISTS, k="1"), False),
        (CHANGE, None, False),
        (CHANGE, topic((1, 2), topic_id="recreated"), False),
        (DELETE, topic((1, 2)), True),
        (DELETE, None, False),
        (DELETE, topic((1, 2), topic_id="recreated"), False),
        (TopicRecord(BEFORE, "id"), None, False),
    ],
)
def test_a_run_waits_only_for_what_may_still_happen(
    record: TopicRecord, shown: TopicState | None, *, expected: bool
) -> None:
    """A name that is taken, a count that has changed, and an id that no topic has make a late request harmless."""
    assert has_late_write(record, shown) is expected


KEYS = ("a", "b", "c")
CONFIGS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(("1", "2")))


@given(
    config=CONFIGS,
    wanted=st.dictionaries(st.sampled_from(KEYS), st.none() | st.sampled_from(("3", "4"))),
    made=st.sets(st.sampled_from(KEYS)),
    grows=st.booleans(),
    is_owned=st.booleans(),
)
def test_a_partial_record_lists_only_what_is_set(
    config: dict[str, str], wanted: dict[str, str | None], made: set[str], *, grows: bool, is_owned: bool
) -> None:
    """Any subset of a change is there: each key of the record is set, each value that it has is the topic's."""
    before = OwnershipRecord("team", tuple(sorted(config)), applied=AppliedSpec(1, tuple(sorted(config.items()))))
    final = {key: text for key, text in {**config, **wanted}.items() if text is not None}
    after = OwnershipRecord("team", tuple(sorted(final)), applied=AppliedSpec(2, tuple(sorted(final.items()))))
    intent = Intent(IntentKind.CHANGE, after, ((2, 3),) if grows else (), 1, wanted)
    shown = dict(config)
    for key in made & wanted.keys():
        text = wanted[key]
        if text is None:
            shown.pop(key, None)
        else:
            shown[key] = text
    partial = build_partial_record(before if is_owned else None, intent, topic((1, 2), **shown))
    if partial is None:
        assert not is_owned
        return
    assert is_owned or any(shown.get(key) == text for key, text in wanted.items())
    assert set(partial.config_keys) <= shown.keys()
    assert partial.applied
    values = dict(partial.applied.config)
    assert values.keys() <= set(partial.config_keys)
    assert all(shown[key] == value for key, value in values.items())
    if is_owned:
        assert set(partial.config_keys) >= shown.keys() & config.keys()
        assert partial.applied.partitions == (1 if grows or partial == before else 2)
    if is_owned and not any(shown.get(key) == text for key, text in wanted.items()):
        assert partial == before


def test_every_order_of_two_requests_resolves_alike() -> None:
    """Configs first and growth first give records of the same keys when both are there."""
    shown = topic((1, 2))
    for order in itertools.permutations(("config", "growth")):
        replicas, config = shown.replicas, {"k": "0", "gone": "x"}
        for step in order:
            if step == "config":
                config = {"k": "1"}
            else:
                replicas = LISTS
        assert resolve(CHANGE, topic(*replicas, **config), has_waited=False) == TopicRecord(MADE, "id")
