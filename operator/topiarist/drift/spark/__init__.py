"""Drift reports by PySpark, for fleets that one process cannot hold. Only this package imports pyspark."""
