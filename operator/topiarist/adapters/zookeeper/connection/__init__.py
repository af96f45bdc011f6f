"""Sessions: connect strings, TLS, SASL, authentication, kazoo's input and output."""
