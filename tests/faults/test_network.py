"""F18: a slow and a narrow network. It takes longer, and that is all."""

from __future__ import annotations

import pytest

from integration.scene import opened
from support import checker, plenty
from support.plenty import Mould
from support.proxy import Proxy
from support.wishes import planned, results
from topiarist.reconcile import Result

MEGABYTE = 1_000_000


@pytest.mark.parametrize(
    ("milliseconds", "rate"), [(1, 0), (20, 0), (200, 0), (0, MEGABYTE), (200, MEGABYTE)], ids=lambda value: str(value)
)
def test_f18_slow_and_narrow(mould: Mould, proxy: Proxy, milliseconds: int, rate: int) -> None:
    """Round trips of so many milliseconds, a connection of so many bytes a second: everything is done in order, once,
    and a second run writes nothing.
    """
    connect = mould.cast()
    before = checker.look(connect)
    proxy.delay, proxy.rate = milliseconds / 2000, rate
    with opened(proxy.through(connect)) as port:
        assert results(port, planned(port, *plenty.wishes())) == dict.fromkeys(plenty.NAMES, Result.DONE)
        writes = proxy.writes
        assert not planned(port, *plenty.wishes()).pending
        assert port._session.interruptions == 0
    assert writes == proxy.writes == len(plenty.NAMES) + 2
    assert list(plenty.harm(before, checker.look(connect))) == []
