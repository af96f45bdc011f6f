"""Values that every other package shares: specs, states, plans, outcomes, progress.

The package imports `kafka`, `text` and `errors`. Functions that answer a question about one value are in the module of
the value.
"""
