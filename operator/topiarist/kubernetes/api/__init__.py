"""The Kubernetes API: client, resources, Lease, access review, clock."""
