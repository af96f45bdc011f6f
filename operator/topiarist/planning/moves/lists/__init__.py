"""Computes where replicas go: another factor, drained brokers, racks and an even spread.

Each function takes the replica lists of one topic (partition 0 first) and returns as many lists; none reads a clock or
a random number. ``replica_picker`` chooses single brokers.
"""
