"""The records of topiarist in a compacted topic: transactions, the whole read, the lock, the freeze, intents."""
