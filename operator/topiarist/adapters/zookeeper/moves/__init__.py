"""Moves of existing replicas: one checked transaction for each batch, the wait for it, and its throttles."""
