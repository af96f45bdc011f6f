"""``python -m topiarist``: the command line, under its own name."""

from topiarist.cli.main import main

main()
