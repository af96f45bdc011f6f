"""Drift reports: compare the topics of whole fleets with their manifests."""
