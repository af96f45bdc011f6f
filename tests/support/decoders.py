"""Every function that reads bytes of a znode: the fuzzer and the tests ask the same of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from topiarist.adapters import znodes

DECODERS: tuple[Callable[[bytes], Any], ...] = (
    znodes.decode_topic,
    znodes.decode_config,
    znodes.decode_record,
    znodes.decode_gate,
    znodes.decode_cluster_id,
    znodes.decode_controller,
    znodes.decode_controller_epoch,
    znodes.decode_feature_version,
    znodes.decode_migration_copied,
    znodes.decode_reassign,
    znodes.decode_partition_state,
    znodes.decode_moving,
    lambda raw: znodes.decode_broker(1, raw),
    lambda raw: znodes.grow_topic(raw, [(1, 2)]),
    lambda raw: znodes.change_config(raw, {"retention.ms": "1"}),
)
"""Topic, config, record and gate come first, the two that change what they read last."""
