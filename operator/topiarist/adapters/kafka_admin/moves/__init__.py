"""Moves of replicas and elections of leaders through Kafka's own API."""
