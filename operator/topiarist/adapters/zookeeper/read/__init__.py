"""Bulk reads: the metadata of the cluster, its topics, partition states, progress of the controller."""
