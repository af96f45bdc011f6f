"""Entry script for ``spark-submit``; runs ``topiarist drift`` with the given arguments.

The script needs only the package and may lie in any folder: ``unzip -j topiarist-*.whl topiarist/spark_submit.py``.
"""

from __future__ import annotations

import sys

from topiarist.cli.main import run

if __name__ == "__main__":
    sys.exit(run(["drift", *sys.argv[1:]]))
