"""Everything outside the process: clusters, files, the CEL library.

Adapters do not import each other.
"""
