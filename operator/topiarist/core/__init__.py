"""The meaning of topiarist, pure: the standard library only; no input, output, clock, chance, environment or logging.

What enters are values (``state``, ``spec``), what leaves is a value (``plan``). Import order, which a linter checks:
``policy`` uses ``plan``, which uses ``assignment``, ``spec`` and ``configs``, which use ``state``.
"""
