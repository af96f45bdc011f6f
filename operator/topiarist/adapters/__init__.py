"""Everything outside the process: ZooKeeper, files, the CEL library.

Adapters do not import each other.
"""
