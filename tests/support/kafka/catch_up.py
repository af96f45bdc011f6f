"""Waits until brokers in KRaft mode know what their controller has committed; any of them may be late by itself."""

from __future__ import annotations

from contextlib import closing, suppress

from support.waiting import wait_until
from topiarist.adapters.kafka_admin.connection.connection import Disconnected
from topiarist.adapters.kafka_admin.connection.session import Session
from topiarist.adapters.kafka_admin.read.capabilities import offers_quorum
from topiarist.adapters.kafka_admin.read.sync import read_quorum
from topiarist.errors import TopiaristError
from topiarist.model.access import KafkaAccess

_TIMEOUT_S = 60.0


def wait_until_current(bootstrap: str) -> None:
    """Return when each broker of these addresses that answers serves what is committed now.

    Returns at once in ZooKeeper mode, and without a controller.
    """
    for address in bootstrap.split(","):
        with suppress(TopiaristError, Disconnected), closing(Session(KafkaAccess(address), 5.0)) as session:
            broker = session.any_broker()
            if not offers_quorum(broker):
                return
            end = read_quorum(session, broker).high_watermark - 1
            wait_until(
                lambda: broker.read_versions().finalized_features_epoch >= end,  # noqa: B023
                f"broker at {address} to catch up",
                timeout=_TIMEOUT_S,
            )
