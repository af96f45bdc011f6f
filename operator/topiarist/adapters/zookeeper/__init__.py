"""The ports of `topiarist.ports` over a ZooKeeper-mode cluster."""
