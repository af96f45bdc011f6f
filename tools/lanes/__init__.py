"""Lanes: which tests run when, what they cost, and what runs once more. ``tests/lanes.toml`` has the lanes."""
