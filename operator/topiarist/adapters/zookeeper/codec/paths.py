"""The paths of znodes, below the chroot.

A name becomes exactly one path component, or ``ZnodeError`` is raised.
"""

from __future__ import annotations

from topiarist.adapters.own_values import JsonError as ZnodeError
from topiarist.text import quote

CLUSTER_ID = "/cluster/id"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
MIGRATION = "/migration"
FEATURE = "/feature"
BROKER_IDS = "/brokers/ids"
TOPICS = "/brokers/topics"
TOPIC_CONFIGS = "/config/topics"
IP_CONFIGS = "/config/ips"
BROKER_CONFIGS = "/config/brokers"
BROKER_DEFAULTS = "/config/brokers/<default>"
CONFIG_CHANGES = "/config/changes"
CONFIG_CHANGE_PREFIX = "/config/changes/config_change_"
DELETION_REQUESTS = "/admin/delete_topics"
REASSIGNMENT_REQUEST = "/admin/reassign_partitions"
ELECTION_REQUEST = "/admin/preferred_replica_election"

REQUIRED_PATHS = (CLUSTER_ID, BROKER_IDS, TOPICS, TOPIC_CONFIGS)
"""Paths that every Kafka cluster has (contract 2)."""

TOPIARIST_ROOT = "/topiarist"
RECORDS = "/topiarist/topics"
FREEZE = "/topiarist/gate"
LOCK = "/topiarist/lock"
MOVES = "/topiarist/moves"
MOVED = "/topiarist/moved"


def topic_path(name: str) -> str:
    """Return the path of the topic's own znode: its assignment."""
    return f"{TOPICS}/{_validate_component(name)}"


def config_path(name: str) -> str:
    """Return the path of the topic's overrides."""
    return f"{TOPIC_CONFIGS}/{_validate_component(name)}"


def entity_config_path(entity: str) -> str:
    """Return the path of the overrides of ``topics/T`` or ``brokers/N``."""
    kind, _, name = entity.partition("/")
    return f"/config/{_validate_component(kind)}/{_validate_component(name)}"


def record_path(name: str) -> str:
    """Return the path of the topic's ownership record."""
    return f"{RECORDS}/{_validate_component(name)}"


def deletion_request_path(name: str) -> str:
    """Return the path of the deletion request that makes the controller delete the topic."""
    return f"{DELETION_REQUESTS}/{_validate_component(name)}"


def partitions_path(name: str) -> str:
    """Return the parent path of the partitions' znodes, which the controller creates."""
    return f"{topic_path(name)}/partitions"


def partition_state_path(name: str, partition: int) -> str:
    """Return the path of the state, which exists once the controller has initialized the partition."""
    return f"{partitions_path(name)}/{partition:d}/state"


def broker_path(broker: int) -> str:
    """Return the path of the broker's registration, which exists while the broker is online."""
    return f"{BROKER_IDS}/{broker:d}"


def is_znode_name(name: str) -> bool:
    """Return whether a name can be one path component."""
    return not ("/" in name or "\0" in name or name in ("", ".", ".."))


def _validate_component(name: str) -> str:
    if not is_znode_name(name):
        raise ZnodeError(f"{quote(name)} cannot be the name of a znode")
    return name
