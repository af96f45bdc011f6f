"""A ZooKeeper server that can be restarted with its data."""

from __future__ import annotations

from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper


class RestartableZooKeeper(EmbeddedZooKeeper):
    """An embedded ZooKeeper server that keeps its port and its data over ``kill``."""

    def restart(self) -> None:
        """Kill the server, and start it again on the same port with the same data."""
        self.kill()
        assert self._launch(self.port), f"another process uses port {self.port}"
