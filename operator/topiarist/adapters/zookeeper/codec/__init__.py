"""Znode paths and contents, as pure functions between bytes and values. No kazoo."""
