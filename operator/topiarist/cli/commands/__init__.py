"""One module for each command but `apply`."""
