"""Plans the moves of existing replicas: which kinds apply to a topic, in which order, and why others are refused.

``planner`` computes where replicas go. ``execution`` decides, for an adapter, what may be sent and when it is done.
"""
