"""The bounds through Kafka's own API: scenarios small enough to explore whole, each for one question."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from interleavings.kafka.world import Budget, Scenario
from interleavings.replay import RunSpec
from interleavings.zookeeper.world import declare, make_run
from topiarist.model.access import KafkaAccess
from topiarist.model.moves import BatchLimits
from topiarist.model.spec import ClusterSpec
from topiarist.model.state import OwnershipRecord

_RECORD = OwnershipRecord("default", ("retention.ms",))
_LONG = {"retention.ms": "604800000"}
_OWNED: Any = {"a": (((1,), (2,)), _LONG, _RECORD)}
_FOUND: Any = {"a": (((1,), (2,)), _LONG, None)}

_CREATE = make_run(declare("a", 1, {"retention.ms": "1000"}))
_CREATE_MORE = make_run(declare("a", 2, {"retention.ms": "2000"}))
_CONFIGURE = make_run(declare("a", 2, {"retention.ms": "9000"}))
_CONFIGURE_MORE = make_run(declare("a", 2, {"retention.ms": "7000"}))
_GROW = make_run(declare("a", 3, {"retention.ms": "9000"}))
_GROW_MORE = make_run(declare("a", 4, {"retention.ms": "7000"}))
_DELETE = make_run(declare("a", None))
_ADOPT = make_run(declare("a", 2, {"retention.ms": "9000"}), adopt=("a",))
_TWO = make_run(declare("a", 3, {"retention.ms": "9000"}), declare("b", 1, {"retention.ms": "1000"}))
_TWO_MORE = make_run(declare("a", 4, {"retention.ms": "7000"}), declare("b", 2, {"retention.ms": "2000"}))
_OTHER = make_run(declare("b", 1, {"retention.ms": "1000"}))
_FREEZE = make_run()
_OWNED_ONE: Any = {"a": (((1,),), _LONG, _RECORD)}
_RAISE = make_run(declare("a", 1, _LONG, factor=2))
_GROW_ONE = make_run(declare("a", 2, _LONG))
_RAISE_ONE_BY_ONE = make_run(declare("a", 2, _LONG, factor=2), batch=BatchLimits(partitions=1))


def _without_records(*runs: RunSpec) -> tuple[RunSpec, ...]:
    """Return runs on a cluster that keeps no records."""
    cluster = ClusterSpec(kafka=KafkaAccess("b1:9092", records=None))
    found = {id(run): replace(run, cluster=cluster) for run in runs}
    return tuple(found[id(run)] for run in runs)


_CLIENT = (
    ("delete", "a", None),
    ("create", "a", (((1,), (2,)), tuple(_LONG.items()))),
    ("configure", "a", (("retention.ms", "1"),)),
    ("grow", "a", 3),
)

_MOVING_CLIENT = (
    ("delete", "a", None),
    ("create", "a", (((1,), (2,)), tuple(_LONG.items()))),
    ("move", "a", (0, (2,))),
)

_CRASH, _STOP = Budget(crashes=1), Budget(stops=1)
_LOSS_AND_CRASH = Budget(losses=1, crashes=1)
_DELAY_AND_CRASH = Budget(delays=1, crashes=1)

SMALL = {
    "API: one run": Scenario((_TWO,), _OWNED, Budget(losses=2, crashes=1)),
    "API: two runs, other topics": Scenario((_CREATE, _OTHER), {}, _CRASH),
    "API: two creations": Scenario((_CREATE, _CREATE_MORE), {}),
    "API: two creations, a crash": Scenario((_CREATE, _CREATE_MORE), {}, _CRASH),
    "API: two creations, a stop": Scenario((_CREATE, _CREATE_MORE), {}, _STOP),
    "API: one creation, a delay": Scenario((_CREATE,), {}, _DELAY_AND_CRASH),
    "API: one creation, two runs, a delay": Scenario((_CREATE, _CREATE), {}, _DELAY_AND_CRASH),
    "API: two equal runs": Scenario((_GROW, _GROW), _OWNED, _CRASH),
    "API: two growths, a stop": Scenario((_GROW, _GROW_MORE), _OWNED, _STOP),
    "API: deletion and change": Scenario((_DELETE, _CONFIGURE), _OWNED, _CRASH),
    "API: growth, another client": Scenario((_GROW,), _OWNED, Budget(client_actions=2), client_actions=_CLIENT),
    "API: change, a move of another client": Scenario(
        (_CONFIGURE,), _OWNED, Budget(client_actions=2), client_actions=_MOVING_CLIENT
    ),
    "API: deletion, another client": Scenario((_DELETE,), _OWNED, Budget(client_actions=2), client_actions=_CLIENT),
    "API: adoption, another client": Scenario((_ADOPT,), _FOUND, Budget(client_actions=2), client_actions=_CLIENT),
    "API: a move": Scenario((_RAISE,), _OWNED_ONE, _LOSS_AND_CRASH),
    "API: a move, a stop": Scenario((_RAISE,), _OWNED_ONE, Budget(crashes=1, stops=1)),
    "API: a move, another client": Scenario(
        (_RAISE,), _OWNED_ONE, Budget(client_actions=1), client_actions=_MOVING_CLIENT
    ),
    "API: two moves": Scenario((_RAISE_ONE_BY_ONE,), _OWNED, _LOSS_AND_CRASH),
    "API: moves and a freeze": Scenario((_RAISE_ONE_BY_ONE, _FREEZE), _OWNED, freezes=(1,)),
    "API: no records, one run": Scenario(_without_records(_TWO), _FOUND, Budget(losses=2, crashes=1)),
    "API: no records, two creations": Scenario(_without_records(_CREATE, _CREATE_MORE), {}, _LOSS_AND_CRASH),
    "API: no records, two equal creations": Scenario(_without_records(_CREATE, _CREATE), {}, _LOSS_AND_CRASH),
    "API: no records, two growths": Scenario(_without_records(_GROW, _GROW_MORE), _FOUND, _LOSS_AND_CRASH),
    "API: no records, two changes": Scenario(_without_records(_CONFIGURE, _CONFIGURE_MORE), _FOUND, _CRASH),
    "API: no records, deletion and growth": Scenario(_without_records(_DELETE, _GROW), _FOUND, _CRASH),
    "API: no records, a creation, a delay": Scenario(_without_records(_CREATE, _CREATE), {}, _DELAY_AND_CRASH),
    "API: no records, another client": Scenario(
        _without_records(_GROW), _FOUND, Budget(client_actions=2), client_actions=_CLIENT
    ),
    "API: a freeze": Scenario((_GROW, _FREEZE), _OWNED, _LOSS_AND_CRASH, freezes=(1,)),
}

LARGE = {
    "API: no records, two different runs": Scenario(_without_records(_TWO, _TWO_MORE), _FOUND, _LOSS_AND_CRASH),
    "API: no records, two growths, everything": Scenario(
        _without_records(_GROW, _GROW_MORE), _FOUND, Budget(1, 1, 1, 1)
    ),
    "API: two moves, everything": Scenario((_RAISE_ONE_BY_ONE,), _OWNED, Budget(1, 1, 1, 1)),
    "API: a move and a growth": Scenario((_RAISE, _GROW_ONE), _OWNED_ONE),
    "API: two moves, another client": Scenario(
        (_RAISE_ONE_BY_ONE,), _OWNED, Budget(client_actions=2), client_actions=_MOVING_CLIENT
    ),
    "API: two growths, losses": Scenario((_GROW, _GROW_MORE), _OWNED, _LOSS_AND_CRASH),
    "API: two different runs": Scenario((_TWO, _TWO_MORE), _OWNED, _LOSS_AND_CRASH),
    "API: two different runs, a stop": Scenario((_TWO, _TWO_MORE), _OWNED, Budget(stops=1, crashes=1)),
    "API: two growths, everything": Scenario((_GROW, _GROW_MORE), _OWNED, Budget(1, 1, 1, 1)),
    "API: two creations, everything": Scenario((_CREATE, _CREATE_MORE), {}, Budget(1, 1, 1, 1)),
    "API: two growths, two stops": Scenario((_GROW, _GROW_MORE), _OWNED, Budget(stops=2, crashes=1)),
    "API: three runs": Scenario((_GROW, _GROW_MORE, _DELETE), _OWNED),
    "API: two runs, another client": Scenario(
        (_GROW, _GROW_MORE), _OWNED, Budget(crashes=1, client_actions=1), client_actions=_CLIENT
    ),
    "API: two changes, a delay": Scenario((_CONFIGURE, _CONFIGURE_MORE), _OWNED, _DELAY_AND_CRASH),
    "API: two creations, a delay": Scenario((_CREATE, _CREATE_MORE), {}, _DELAY_AND_CRASH),
    "API: deletion and growth, a delay": Scenario((_DELETE, _GROW), _OWNED, _DELAY_AND_CRASH),
}

ALL = {**SMALL, **LARGE}
