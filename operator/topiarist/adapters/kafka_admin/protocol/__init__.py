"""Kafka's own protocol: the messages that topiarist sends and gets, and batches of records."""
