"""Earlier reports of a fleet: when a finding was first seen, and how long it took to repair.

``report`` and ``spark`` read and write them. ``runs`` reads one earlier report and decides what a history of all runs
keeps; ``parquet`` stores it in a local folder.
"""
