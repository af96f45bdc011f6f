"""All functions that decode the bytes of a znode: the fuzzer and the tests check the same properties of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from topiarist.adapters import own_values
from topiarist.adapters.zookeeper.codec import topics, values
from topiarist.adapters.zookeeper.codec.topics import decode_config, replace_config

DECODERS: tuple[Callable[[bytes], Any], ...] = (
    topics.decode_topic,
    decode_config,
    own_values.decode_record,
    own_values.decode_freeze,
    values.decode_cluster_id,
    values.decode_controller,
    values.decode_controller_epoch,
    values.decode_feature_version,
    values.decode_migration_copied,
    values.decode_requested_reassignments,
    topics.decode_partition_state,
    lambda raw: values.decode_broker(1, raw),
    lambda raw: topics.add_partitions(raw, [(1, 2)]),
    lambda raw: replace_config(raw, {"retention.ms": "1"}),
)
"""Topic, config, record and gate come first, the two that change what they read last."""
