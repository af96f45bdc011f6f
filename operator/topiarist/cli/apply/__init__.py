"""The `apply` command: its modes, waiting for the controller, the report file."""
