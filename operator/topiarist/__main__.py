"""Entry point of ``python -m topiarist``."""

from topiarist.cli.main import main

main()
