"""The difference between desired and actual state, as a `Plan`. All functions are pure."""
