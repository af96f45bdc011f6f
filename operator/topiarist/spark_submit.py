"""The entry script for ``spark-submit``: what stands behind it is what stands behind ``topiarist drift``.

It needs nothing but the package, and may lie anywhere: ``unzip -j topiarist-*.whl topiarist/spark_submit.py``.
"""

from __future__ import annotations

import sys

from topiarist.cli.main import run

if __name__ == "__main__":
    sys.exit(run(["drift", *sys.argv[1:]]))
