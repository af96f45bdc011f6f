"""The command line: one thin module per command. Parses, calls, prints; decides nothing.

``options`` has the flags and makes ``Settings`` of them, ``inputs`` turns paths into specs, ``terminal`` knows how to
talk to a person. Each command is imported only when it is called, so that ``--help`` answers at once.
"""
