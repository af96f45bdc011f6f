"""Read-only answers about topics: `describe`, `list`, health of partitions, sources of values."""
