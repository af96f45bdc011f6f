"""Topiarist keeps the topics of ZooKeeper-mode Kafka clusters in the shape that git says they have.

Manifests become specs, a cluster's ZooKeeper becomes state, their difference becomes a plan, and applying the plan
makes exactly that difference happen. A reader needs four files to have the whole in mind: ``model/state.py`` (what is),
``model/spec.py`` (what should be), ``planning/planner.py`` (the difference) and ``reconcile.py`` (one pass).
"""

__version__ = "0.1.0"
