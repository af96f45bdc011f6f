"""Writes through Kafka's Admin requests: chunks of topics between intents and final records."""
