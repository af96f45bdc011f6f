"""What several tests need: a proxy that understands ZooKeeper's frames, and a reader that shares no code with us."""
