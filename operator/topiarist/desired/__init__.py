"""Desired state: from documents to the topic specs of each cluster, and back to documents."""
