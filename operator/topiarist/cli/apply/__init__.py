"""The `apply` command: its modes, the wait for the controller, the report file."""
