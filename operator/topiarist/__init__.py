"""Reconcile the topics of Kafka clusters with manifests in git.

Topiarist merges manifests into specs, reads a cluster into a state, computes their difference as a plan,
and applies the plan. Four files give an overview: ``model/state.py`` (the actual state), ``model/spec.py`` (the desired
state), ``planning/planner.py`` (the difference) and ``reconcile.py`` (one reconciliation).
"""

__version__ = "0.1.0"
