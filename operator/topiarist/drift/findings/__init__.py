"""Findings: what is reported of a topic, a cluster or a manifest, and the rows of the report that say so.

``compare`` makes them from plans, ``report`` from manifests. ``exceptions`` decides which of them are accepted.
"""
