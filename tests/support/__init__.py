"""Support code of the tests: a proxy that parses ZooKeeper frames, and a reader that shares no code with topiarist."""
