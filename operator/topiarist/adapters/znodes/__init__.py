"""Kafka's znodes, and ours, as bytes: paths, decoders and encoders. No ZooKeeper client in here.

``zookeeper`` reads and writes them; the playground plays a broker with them. Reading is strict: one exception,
``ZnodeError``, says why a znode is not what Kafka would have written; the caller knows the path.
"""

from topiarist.adapters.znodes import paths
from topiarist.adapters.znodes.cluster import (
    BrokerNode,
    ControllerNode,
    decode_broker,
    decode_cluster_id,
    decode_controller,
    decode_controller_epoch,
    decode_feature_version,
    decode_migration_copied,
    decode_reassign,
)
from topiarist.adapters.znodes.configs import change_config, decode_config, encode_config
from topiarist.adapters.znodes.ours import (
    decode_gate,
    decode_record,
    encode_change_notification,
    encode_gate,
    encode_record,
    read_gate,
)
from topiarist.adapters.znodes.partitions import decode_moving, decode_partition_state
from topiarist.adapters.znodes.paths import (
    broker_path,
    config_path,
    deletion_path,
    partition_state_path,
    partitions_path,
    record_path,
    topic_path,
)
from topiarist.adapters.znodes.strict import MAX_ID, ZnodeError, parse_id
from topiarist.adapters.znodes.topics import (
    Pool,
    TopicNode,
    decode_topic,
    encode_topic,
    grow_topic,
    topic_id_bytes,
)

__all__ = [
    "MAX_ID",
    "BrokerNode",
    "ControllerNode",
    "Pool",
    "TopicNode",
    "ZnodeError",
    "broker_path",
    "change_config",
    "config_path",
    "decode_broker",
    "decode_cluster_id",
    "decode_config",
    "decode_controller",
    "decode_controller_epoch",
    "decode_feature_version",
    "decode_gate",
    "decode_migration_copied",
    "decode_moving",
    "decode_partition_state",
    "decode_reassign",
    "decode_record",
    "decode_topic",
    "deletion_path",
    "encode_change_notification",
    "encode_config",
    "encode_gate",
    "encode_record",
    "encode_topic",
    "grow_topic",
    "parse_id",
    "partition_state_path",
    "partitions_path",
    "paths",
    "read_gate",
    "record_path",
    "topic_id_bytes",
    "topic_path",
]
