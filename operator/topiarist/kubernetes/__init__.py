"""The Kubernetes operator: the same pass as the command line's, for Topics and Clusters that are custom resources.

Level, not edge: an event only says that a cluster is to be looked at. ``resources`` reads bodies, ``store`` keeps what
the API server holds of ours, ``claims`` and ``tenancy`` say who may declare what. ``passes`` looks at one cluster:
specs, plan, what may be done, apply. ``conditions`` and ``statuses`` say what became of it, written only when it
changed. ``loop`` runs the passes, each cluster by itself; ``handlers`` listens to the API server, ``lease`` elects.
"""
