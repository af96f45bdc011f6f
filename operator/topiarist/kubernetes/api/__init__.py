"""The Kubernetes API: client, clock, resources, Lease, access review."""
