"""Facts of Kafka that do not depend on topiarist: configs, placement, topic names, number parsing.

All functions are pure. The package imports `text` and nothing else of topiarist.
"""
