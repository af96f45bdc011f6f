"""One checked transaction for each topic, the lock, and the freeze znode."""
