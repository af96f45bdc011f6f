"""Read the throttles of brokers: the rates at which they copy replicas that a topic lists as throttled."""

from __future__ import annotations

from collections.abc import Mapping

from topiarist.adapters.zookeeper.codec import paths, topics
from topiarist.adapters.zookeeper.codec.strict_json import ZnodeError
from topiarist.adapters.zookeeper.connection.session import Session
from topiarist.adapters.zookeeper.read.bulk_read import ReadFailure, Znode, read_children, read_znodes, sync
from topiarist.errors import Reason, TopiaristError
from topiarist.kafka.config_table import RATE_CONFIGS


def read_broker_throttles(session: Session) -> Mapping[str, Mapping[str, str]]:
    """Return the rates of each entity (``brokers/5``, ``brokers/<default>``) that has one.

    A config that brokers cannot read has none. Raises ``TopiaristError`` (NoPermission).
    """
    sync(session)
    (names,) = read_children(session, [paths.BROKER_CONFIGS])
    if names is ReadFailure.DENIED:
        raise TopiaristError(Reason.NO_PERMISSION, f"no permission to read {paths.BROKER_CONFIGS}")
    entities = [] if isinstance(names, ReadFailure) else [f"brokers/{name}" for name in sorted(names)]
    found = {}
    for entity, node in zip(entities, read_znodes(session, map(paths.entity_config_path, entities)), strict=True):
        if node is ReadFailure.DENIED:
            raise TopiaristError(Reason.NO_PERMISSION, f"no permission to read {paths.entity_config_path(entity)}")
        if isinstance(node, Znode) and (rates := _decode_rates(node.data)):
            found[entity] = rates
    return found


def _decode_rates(raw: bytes) -> Mapping[str, str]:
    try:
        config = topics.decode_config(raw)
    except ZnodeError:
        return {}
    return {key: config[key] for key in RATE_CONFIGS if key in config}
