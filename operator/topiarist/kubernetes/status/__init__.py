"""Output of the operator to the API server: statuses, conditions, Events, finalizers."""
