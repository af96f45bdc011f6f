"""G10: the strict YAML parser compared with PyYAML's C loader, and the whole load of manifests from files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml
from benchmarks.cli.clusters import make_manifest
from benchmarks.common import make_memory_folder, measure_median, measure_seconds

from topiarist.adapters.manifests.loader import load_manifests
from topiarist.adapters.manifests.source import File
from topiarist.adapters.manifests.yaml_text import StrictParser

DOCUMENTS = 10_000


def measure() -> dict[str, Any]:
    """Return the figures of G10: seconds for 10,000 separate documents, and end to end from 10,000 files."""
    texts = [make_manifest(number).encode() for number in range(DOCUMENTS)]

    def strictly() -> list[object]:
        loader = StrictParser()
        return [body for text in texts for body, _ in loader.parse_documents(File("-", text))]

    assert strictly() == [yaml.load(text, yaml.CSafeLoader) for text in texts]
    fast = measure_median(lambda: measure_seconds(strictly))
    stock = measure_median(lambda: measure_seconds(lambda: [yaml.load(text, yaml.CSafeLoader) for text in texts]))
    with make_memory_folder() as folder:
        for number, text in enumerate(texts):
            (Path(folder) / f"{number:06d}.yaml").write_bytes(text)
        whole = measure_median(lambda: measure_seconds(lambda: load_manifests([folder])))
        assert len(load_manifests([folder]).manifests) == DOCUMENTS
    return {
        "goal": "G10",
        "documents": DOCUMENTS,
        "strict_seconds": round(fast, 3),
        "csafeloader_seconds": round(stock, 3),
        "times_faster": round(stock / fast, 2),
        "files_to_manifests_seconds": round(whole, 3),
        "gate": "strict_seconds < csafeloader_seconds",
        "holds": fast < stock,
    }


if __name__ == "__main__":
    json.dump(measure(), sys.stdout, indent=2)
    print()
