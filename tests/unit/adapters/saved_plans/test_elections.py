"""Elections in a saved plan: they come back to the byte, and impossible ones are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from support.builders import plan, spec, state, topic
from topiarist.adapters.saved_plans.decode import parse_plan_file
from topiarist.adapters.saved_plans.encode import compute_fingerprint, dumps, encode_plans
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import LeaderChange
from topiarist.model.plan import ElectLeaders, Plan
from topiarist.planning.risk import assess_elections

PARTITIONS = (LeaderChange(0, 2, 1), LeaderChange(2, 4, 3))
CHANGE = ElectLeaders(PARTITIONS, assess_elections(PARTITIONS))
Forgery = Callable[[dict[str, Any]], None]


def with_election(found: Plan) -> Plan:
    """Return the plan of one topic with an election as its last change."""
    (planned,) = found.topics
    return replace(found, topics=(replace(planned, changes=(*planned.changes, CHANGE)),))


PLAN = with_election(plan(state(topic()), spec(partitions=4, config={"retention.ms": 7})))


def test_an_election_comes_back() -> None:
    """The partitions with both leaders are in the document, and written again it has the same bytes."""
    content = encode_plans([PLAN])
    assert content["clusters"][0]["topics"][0]["changes"][-1] == {
        "kind": "ElectLeaders",
        "risk": "Disruptive",
        "explanation": "leaders of 2 partitions change",
        "partitions": [{"partition": 0, "before": 2, "after": 1}, {"partition": 2, "before": 4, "after": 3}],
    }
    (kept,) = parse_plan_file(dumps(content).encode(), "plan.json")
    assert kept.topics[0].elections() == PARTITIONS
    assert dumps(encode_plans([kept])) == dumps(content)


def _change(content: dict[str, Any]) -> Any:
    return content["clusters"][0]["topics"][0]["changes"][-1]


def _put(field: str, value: Any) -> Forgery:
    return lambda content: _change(content).update({field: value})


def _first(content: dict[str, Any]) -> None:
    changes = content["clusters"][0]["topics"][0]["changes"]
    changes.insert(0, changes.pop())


FORGED: dict[str, tuple[Forgery, str]] = {
    "no partitions": (_put("partitions", []), "is not a saved plan"),
    "a partition twice": (
        _put("partitions", [{"partition": 0, "before": 2, "after": 1}] * 2),
        "partitions that are duplicate or not sorted",
    ),
    "not sorted": (
        _put("partitions", [{"partition": at, "before": 2, "after": 1} for at in (2, 0)]),
        "partitions that are duplicate or not sorted",
    ),
    "equal leaders": (
        _put("partitions", [{"partition": at, "before": 1, "after": 1} for at in (0, 2)]),
        "partition 0: found equal leaders before and after",
    ),
    "a negative broker": (_put("partitions", [{"partition": 0, "before": -1, "after": 1}]), "is not a saved plan"),
    "a smaller risk": (_put("risk", "Safe"), "found an election with another risk or explanation"),
    "fewer than it says": (
        _put("explanation", "leaders of 1 partition change"),
        "found an election with another risk or explanation",
    ),
    "before the other changes": (_first, "found changes that exclude each other: ElectLeaders, AddPartitions"),
}


@pytest.mark.parametrize(("forge", "words"), FORGED.values(), ids=FORGED.keys())
def test_impossible_elections_are_refused(forge: Forgery, words: str) -> None:
    """An edited plan with a correct fingerprint is refused before anything is sent."""
    content = json.loads(dumps(encode_plans([PLAN])))
    forge(content)
    signed = dumps({**content, "fingerprint": compute_fingerprint(content)}).encode()
    with pytest.raises(TopiaristError) as caught:
        parse_plan_file(signed, "plan.json")
    assert caught.value.reason is Reason.NOT_A_PLAN
    assert words in str(caught.value)
