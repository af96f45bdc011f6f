"""The simulated Kafka of ``topiarist dev``, with control over its brokers and its controller."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from topiarist.adapters.devcluster import seed, simulated_kafka
from topiarist.kafka.types import Broker

_PAUSE_TIMEOUT_S = 30
"""Seconds in which the controller ends what was queued before a pause."""


class SimulatedKafka(simulated_kafka.SimulatedKafka):
    """A simulated cluster: tests start and stop its brokers, and elect or pause its controller."""

    def add_broker(self, broker: Broker) -> None:
        """Register a broker."""
        self.brokers[broker.id] = broker
        self.wait_idle()

    def remove_broker(self, broker: int) -> None:
        """Remove the registration of a broker, as if it was stopped."""
        del self.brokers[broker]
        self.client.delete(f"/brokers/ids/{broker}")
        self.wait_idle()

    def elect_controller(self, broker: int) -> None:
        """Make another broker the controller; the epoch is incremented."""
        self.run_and_wait(partial(self._replace_controller, broker))

    def reassign(self, topic: str, partition: int, target: Sequence[int] | None) -> None:
        """Reassign a partition as a request by the Admin API does; None cancels its reassignment."""
        self.run_and_wait(partial(self.reassignments.replace, topic, partition, target))

    @contextmanager
    def pause_controller(self) -> Iterator[None]:
        """Pause the controller inside the ``with``, as if it was stuck; afterwards it processes the backlog.

        What was queued before is processed first. Do not call ``wait_idle`` inside the ``with``: it would time out.
        """
        paused, resume = threading.Event(), threading.Event()

        def pause() -> None:
            paused.set()
            resume.wait()

        self._work_queue.put(pause)
        try:
            assert paused.wait(_PAUSE_TIMEOUT_S), "the simulated controller did not pause"
            yield
        finally:
            resume.set()

    def _replace_controller(self, broker: int) -> None:
        self.client.delete("/controller")
        self.reassignments.forget()
        self._epoch_and_version = seed.elect_controller(self.client, broker, self.version)
        self._sync_all()
