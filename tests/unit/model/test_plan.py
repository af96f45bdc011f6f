"""The ownership record after a plan: the short way for what is as recorded gives what the long way gives."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from support.builders import topic_spec
from topiarist.model import plan
from topiarist.model.plan import encode_value, record_after
from topiarist.model.state import AppliedSpec, OwnershipRecord

LONG = ",".join(f"{number}:1" for number in range(100))
"""A value that a record stores as a digest."""

configs = st.dictionaries(
    st.sampled_from(["flush.ms", "retention.ms", "leader.replication.throttled.replicas"]),
    st.sampled_from(["1", "01", "2", LONG]),
)


@st.composite
def records(draw: st.DrawFn) -> OwnershipRecord | None:
    config = draw(configs)
    values = tuple((key, draw(st.sampled_from([text, encode_value(text)]))) for key, text in sorted(config.items()))
    keys = tuple(sorted({*config, *draw(st.sets(st.sampled_from(["flush.ms", "retention.bytes"])))}))
    applied = AppliedSpec(draw(st.sampled_from([None, 2, 3])), values, draw(st.booleans()))
    owner = draw(st.sampled_from(["default", "other"]))
    return draw(
        st.sampled_from(
            [None, OwnershipRecord(owner, keys), OwnershipRecord(owner, keys, draw(st.booleans()), applied)]
        )
    )


@given(
    st.fixed_dictionaries(
        {"config": configs, "unmanagedConfig": st.sampled_from(["Keep", "Remove"])},
        optional={"ignore": st.just(["config.flush.ms"]), "partitions": st.sampled_from([2, 3])},
    ),
    st.one_of(st.none(), configs),
    st.sampled_from([2, 3]),
    st.one_of(st.none(), records()),
    st.booleans(),
)
def test_both_ways_give_the_same_record(
    fields: dict[str, Any],
    other_config: dict[str, str] | None,
    partitions: int,
    record: OwnershipRecord | None,
    is_recorded: bool,
) -> None:
    """Without the short way nothing changes; a record of the spec itself is kept."""
    spec = topic_spec("orders", **fields)
    config = spec.config if other_config is None else other_config
    if is_recorded:
        record = record_after("default", spec, config, partitions, record)
    found = record_after("default", spec, config, partitions, record)
    with patch.object(plan, "is_recorded", lambda *_: False):
        assert found == record_after("default", spec, config, partitions, record)
    if is_recorded:
        assert found is record
