"""Output for CI systems: GitHub workflow commands, SARIF."""
