"""Filters on a `Plan`: each takes a plan and returns a plan in which fewer changes are allowed.

`chain` applies them in their one order.
"""
