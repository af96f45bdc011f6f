"""The operator: reconciles Topic, Cluster and Policy resources."""
