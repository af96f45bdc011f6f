"""The commands: each module has those that are read together, with their options; ``cli.main`` has the table."""
