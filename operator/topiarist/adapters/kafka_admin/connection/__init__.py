"""Connections to brokers: one request at a time, TLS, SASL, error codes."""
