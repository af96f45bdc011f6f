"""Earlier reports of a fleet: when a finding was first seen, and how long it took to repair.

``report`` and ``spark`` read and write them. ``previous`` reads one earlier report, ``runs`` decides what a history of
all runs keeps, and ``parquet`` stores it in a local folder.
"""
