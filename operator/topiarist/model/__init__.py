"""Values that every other package shares: specs, states, plans, outcomes, progress.

The package imports `kafka`, `text` and `errors`. Questions about one value are methods or functions beside it.
"""
