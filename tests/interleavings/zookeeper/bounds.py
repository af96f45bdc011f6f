"""The bounds: scenarios small enough to explore whole, each for one question, and larger ones that combine them.

``SMALL`` are explored by ``make test``, all of them by ``make interleave``. ``docs/internals/interleavings.json`` has
the counts of each; ``finds.toml`` explains each find.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interleavings.replay import RunSpec
from interleavings.zookeeper.world import Budget, Scenario, declare, make_run
from topiarist.model.moves import BatchLimits
from topiarist.model.plan import encode_value
from topiarist.model.state import AppliedSpec, OwnershipRecord

_Topics = Mapping[str, tuple[int, Mapping[str, str], OwnershipRecord | None]]

_Action = tuple[str, str, Any]

_RECORD = OwnershipRecord("default", ("retention.ms",))
_APPLIED = AppliedSpec(2, (("retention.ms", encode_value("9000")),))
_LONG = {"retention.ms": "604800000"}

_BASE = {"a": (2, {"retention.ms": "5000"}, _RECORD)}
_OWNED = {"a": (2, _LONG, _RECORD)}
_OWNED_ONE = {"a": (1, _LONG, _RECORD)}
_DRIFTED = {"a": (2, _LONG, OwnershipRecord("default", ("retention.ms",), applied=_APPLIED))}
_FOUND_ONE: _Topics = {"a": (1, {}, None)}
_FOUND: _Topics = {"a": (2, _LONG, None)}

_ONE = make_run(declare("a", 3, {"retention.ms": "9000"}))
_ONE_MORE = make_run(declare("a", 4, {"retention.ms": "7000"}))
_TWO = make_run(declare("a", 3, {"retention.ms": "9000"}), declare("b", 1, {"retention.ms": "1000"}))
_TWO_MORE = make_run(declare("a", 4, {"retention.ms": "7000"}), declare("b", 2, {"retention.ms": "2000"}))
_GROW = make_run(declare("a", 3, _LONG))
_CONFIGURE = make_run(declare("a", 2, {"retention.ms": "9000"}))
_REMOVE = make_run(declare("a", None))
_ADOPT = make_run(declare("a", 2, {"retention.ms": "9000"}), adopt=("a",))
_CREATE = make_run(declare("b", 2, {"retention.ms": "1000"}))
_CREATE_MORE = make_run(declare("b", 3, {"retention.ms": "1000"}))

_DELETE = ("delete", "a", 0)
_RECREATE: _Action = ("create", "a", {})
_RECREATE_WITH_ID: _Action = ("create with id", "a", {})
_SET = ("configure", "a", {"retention.ms": "1"})
_SET_UNKNOWN = ("configure", "a", {"x.y": "1"})
_COMPACT = ("configure", "a", {"cleanup.policy": "compact"})
_ADD = ("grow", "a", 3)
_CLIENT = (_DELETE, _RECREATE, _SET, _SET_UNKNOWN, _ADD)
_PEOPLE = ("freeze", "migrate", "unlock", "resign", "broker", "own")

_QUIET = Budget()
_DROP_AND_CRASH = Budget(drops=1, crashes=1)


def _client(actions: int, *, drops: int = 0, crashes: int = 0) -> Budget:
    return Budget(drops, crashes, client_actions=actions)


_RAISE = make_run(declare("a", 1, _LONG, factor=2))
_LOWER = make_run(declare("a", 1, _LONG, factor=1))
_GROW_ONE = make_run(declare("a", 2, _LONG))
_RAISE_ONE_BY_ONE = make_run(declare("a", 2, _LONG, factor=2), batch=BatchLimits(partitions=1))
_LOWER_ONE_BY_ONE = make_run(declare("a", 2, _LONG, factor=1), batch=BatchLimits(partitions=1))


def _moving(*runs: RunSpec, budget: Budget = _QUIET, topics: _Topics = _OWNED_ONE, **options: Any) -> Scenario:
    return Scenario(runs, topics, budget, names=("a",), moves=True, **options)


SMALL = {
    "moves: a raise": _moving(_RAISE, budget=Budget(drops=1)),
    "moves: a reduction": _moving(_LOWER, budget=Budget(crashes=1), width=2),
    "moves: unlock": _moving(_RAISE, budget=Budget(operator_actions=1), operator_actions=("unlock",)),
    "moves: two batches": _moving(_RAISE_ONE_BY_ONE, topics=_OWNED),
    "moves: a failover": _moving(_RAISE, budget=Budget(failovers=1)),
    "one run": Scenario((_ONE,), _BASE, Budget(2, 1, 1)),
    "one run, single reads": Scenario((_ONE,), _BASE, Budget(drops=1), multiread=False),
    "drift, lost answers": Scenario((_CONFIGURE,), _DRIFTED, Budget(drops=2)),
    "two equal runs": Scenario((_TWO, _TWO), _BASE),
    "two different runs": Scenario((_TWO, _TWO_MORE), _BASE),
    "two creations": Scenario((_CREATE, _CREATE_MORE), {}, Budget(drops=1)),
    "deletion and growth": Scenario((_REMOVE, _GROW), _OWNED, Budget(drops=1)),
    "growth, another policy": Scenario((_GROW,), _OWNED, _client(1), (_COMPACT,)),
    "growth, another client": Scenario((_GROW,), _OWNED, _client(2), _CLIENT),
    "config, another client": Scenario((_CONFIGURE,), _OWNED, _client(2), _CLIENT),
    "adoption, recreated": Scenario((_ADOPT,), _FOUND, _client(2), (_DELETE, _RECREATE)),
    "growth, recreated": Scenario((_GROW,), _OWNED_ONE, _client(2), (_DELETE, _RECREATE_WITH_ID)),
    "config, recreated": Scenario((_CONFIGURE,), _OWNED_ONE, _client(2), (_DELETE, _RECREATE_WITH_ID)),
    "deletion, recreated with id": Scenario((_REMOVE,), _OWNED_ONE, _client(2), (_DELETE, _RECREATE_WITH_ID)),
    "adoption, recreated with id": Scenario((_ADOPT,), _FOUND_ONE, _client(2), (_DELETE, _RECREATE_WITH_ID)),
    "two equal runs, unlock": Scenario(
        (_ONE, _ONE), _BASE, Budget(drops=1, operator_actions=1), operator_actions=("unlock",)
    ),
    "deletion, recreated": Scenario((_REMOVE,), _OWNED, _client(2), (_DELETE, _RECREATE, _ADD)),
    "creation, another creator": Scenario((_CREATE,), {}, _client(1, drops=1), (("create", "b", {}),)),
    "requested reassignment": Scenario(
        (_GROW,), _OWNED, Budget(operator_actions=1), operator_actions=("reassign",), requested="b"
    ),
    **{
        f"two runs, {kind}": Scenario(
            (_ONE, _ONE_MORE), _BASE, Budget(drops=1, operator_actions=1), operator_actions=(kind,)
        )
        for kind in _PEOPLE
    },
}
"""The bounds of ``make test``, by name."""

LARGE = {
    "moves: deletion by another client": _moving(_RAISE, budget=_client(1), client_actions=(_DELETE,)),
    "moves: another request": _moving(_RAISE, budget=Budget(operator_actions=1), operator_actions=("move",)),
    "moves: a raise, faults": _moving(_RAISE, budget=Budget(1, 1, 1)),
    "moves: a raise and a growth": _moving(_RAISE, _GROW_ONE),
    "moves: two batches, a lost answer": _moving(_RAISE_ONE_BY_ONE, budget=Budget(drops=1), topics=_OWNED),
    "moves: two batches, a crash": _moving(_RAISE_ONE_BY_ONE, budget=Budget(crashes=1), topics=_OWNED),
    "moves: two batches, a failover": _moving(_RAISE_ONE_BY_ONE, budget=Budget(failovers=1), topics=_OWNED),
    "moves: two batches of reductions": _moving(
        _LOWER_ONE_BY_ONE, budget=Budget(drops=1, crashes=1), topics=_OWNED, width=2
    ),
    "moves: two batches, unlock": _moving(
        _RAISE_ONE_BY_ONE, budget=Budget(operator_actions=1), topics=_OWNED, operator_actions=("unlock",)
    ),
    "moves: two batches, freeze": _moving(
        _RAISE_ONE_BY_ONE, budget=Budget(operator_actions=1), topics=_OWNED, operator_actions=("freeze",)
    ),
    "moves: freeze": _moving(_RAISE, budget=Budget(operator_actions=1), operator_actions=("freeze",)),
    "moves: resign": _moving(_RAISE, budget=Budget(operator_actions=1), operator_actions=("resign",)),
    "moves: migrate": _moving(_RAISE, budget=Budget(operator_actions=1), operator_actions=("migrate",)),
    "two equal runs, faults": Scenario((_TWO, _TWO), _BASE, _DROP_AND_CRASH),
    "two different runs, faults": Scenario((_TWO, _TWO_MORE), _BASE, Budget(1, 1, 1)),
    "deletion and growth, faults": Scenario((_REMOVE, _GROW), _OWNED, _client(1, drops=1, crashes=1), (_SET,)),
    "one run, another client": Scenario((_ONE,), _BASE, _client(3), _CLIENT),
    "two runs, another client": Scenario((_ONE, _ONE_MORE), _BASE, _client(1, drops=1, crashes=1), _CLIENT),
    **{
        f"two different runs, {action[0]} {index}": Scenario((_TWO, _TWO_MORE), _BASE, _client(1), (action,))
        for index, action in enumerate(_CLIENT, 1)
        if action is not _RECREATE
    },
    **{
        f"two different runs, {kind}": Scenario(
            (_TWO, _TWO_MORE), _BASE, Budget(drops=1, operator_actions=1), operator_actions=(kind,)
        )
        for kind in _PEOPLE
    },
}
"""The further bounds of ``make interleave``, by name."""

ALL = {**SMALL, **LARGE}
