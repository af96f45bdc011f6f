"""The meaning of samples of usage: over time, for a deletion, and in bytes for a change."""
