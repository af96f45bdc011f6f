"""Reading a cluster through its brokers: never older than the controller's metadata when the read began."""
