"""Decides how moves are carried out: batches, the checks before each, throttles, and the cause of a stall.

Adapters read the cluster and call these functions with values; nothing here reads or writes.
"""
