"""Facts of Kafka that hold without topiarist: configs, placement, topic names, number parsing.

Every function here maps values to values. The package imports `text` and nothing else of topiarist.
"""
