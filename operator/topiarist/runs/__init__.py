"""Runs over clusters without a terminal: inputs, sessions, modes of apply, and the wait for controllers.

The command line and ``topiarist.api`` are the two ways to start a run. Both use this package, so that each guard exists
once. The package prints nothing, handles no signals, and reads neither options nor environment.
"""
