"""Output for programs: `describe`, `list` and the report of an apply."""
