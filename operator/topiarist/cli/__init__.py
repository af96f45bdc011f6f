"""The command line. `main` lists the commands; each command is a module of `commands`, or `apply`."""
