"""Read-only data about topics: descriptions, lists, partition health, sources of values.

``cli`` calls this package for ``describe`` and ``list``.
"""
