"""Output for comments on pull requests."""
