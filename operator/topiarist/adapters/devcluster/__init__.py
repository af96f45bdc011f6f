"""A ZooKeeper server with simulated brokers, behind `topiarist dev` and the demo."""
