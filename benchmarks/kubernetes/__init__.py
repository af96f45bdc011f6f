"""Figures of the Kubernetes operator, beside a real API server and a real ZooKeeper."""
