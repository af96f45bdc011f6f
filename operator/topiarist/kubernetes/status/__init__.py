"""What the operator writes to the API: statuses, conditions, Events, finalizers."""
