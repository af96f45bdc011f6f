"""Snapshot files: recorded cluster states as JSON lines."""
