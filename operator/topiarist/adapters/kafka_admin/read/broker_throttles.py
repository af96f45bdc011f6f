"""Read the throttles of brokers: the rates at which they copy replicas that a topic lists as throttled."""

from __future__ import annotations

from collections.abc import Mapping

from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read.configs import read_broker_configs
from topiarist.adapters.kafka_admin.read.metadata import read_metadata
from topiarist.adapters.kafka_admin.read.topic_reader import read_again
from topiarist.kafka.config_table import RATE_CONFIGS

_DEFAULTS = "brokers/<default>"


def read_broker_throttles(session: Session) -> Mapping[str, Mapping[str, str]]:
    """Return the rates of each entity (``brokers/5``, ``brokers/<default>``) that has one.

    Raises ``TopiaristError``.
    """

    def read() -> Mapping[str, Mapping[str, str]]:
        connection = session.any_broker()
        ids = [str(broker.id) for broker in read_metadata(connection, []).brokers]
        return read_broker_configs(session, connection, [*ids, ""], RATE_CONFIGS)

    found = read_again(read)
    return {f"brokers/{entity}" if entity else _DEFAULTS: rates for entity, rates in found.items() if rates}
