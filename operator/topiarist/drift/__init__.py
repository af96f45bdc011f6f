"""Drift of a whole fleet: what every cluster holds, against what the manifests say, as one report.

``observing`` brings states, ``comparing`` makes findings of one cluster (by ``plan_topic``, through
``core.discrepancies``), ``history`` knows the report before, ``unevenness`` compares clusters with each other,
``tally`` counts, ``outputs`` writes, and ``report`` does all of it. Nothing here writes to a cluster.
"""
