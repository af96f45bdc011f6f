"""Checks that need no plan: equality of a topic with its spec, placement of its replicas, and clusters with each other.

``compare`` and ``task`` call them for every topic, so they are fast and hold little.
"""
