"""The command line. `main` has the list of commands; each command is a module of `commands`, or `apply`."""
