"""Every folder of ``tests/examples`` against its golden files, character by character."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from acceptance.cases import (
    ZOOKEEPER,
    Case,
    create_clusters,
    find_cases,
    plan_json,
    render_plan,
    run_command,
    written_files,
)
from topiarist.adapters.devcluster.zookeeper_server import EmbeddedZooKeeper

GOLDEN = os.environ.get("TOPIARIST_GOLDEN") == "write"
CASES = find_cases()


def compare(path: Path, text: str) -> None:
    """Compare ``text`` with the golden file, or write it; an empty text has no file."""
    if GOLDEN:
        path.unlink(missing_ok=True)
        if text:
            path.write_text(text)
    found = path.read_text() if path.exists() else ""
    assert found == text, f"{path.parent.name} differs; if that is meant: make golden, and look at git diff"


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_example(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """The output of the case's commands equals ``expected.txt``, and its plan equals ``plan.json`` and ``plan.md``."""
    for name in [name for name in os.environ if name.startswith("TOPIARIST_")]:
        monkeypatch.delenv(name)
    address = ""
    with ExitStack() as stack:
        if case.state is not None:
            server: EmbeddedZooKeeper = request.getfixturevalue("zookeeper")
            address = server.connect
            connect = f"{address}/{case.name.replace('/', '-')}"
            settle = stack.enter_context(create_clusters(case.state, connect))
            if "clusters" not in case.state:
                monkeypatch.setenv("TOPIARIST_ZOOKEEPER", connect)
        monkeypatch.chdir(case.copy(tmp_path, address))
        if case.state is not None and case.manifests:
            compare(case.folder / "plan.json", plan_json(case.manifests))
            compare(case.folder / "plan.md", render_plan(case.manifests, "markdown"))
        pages = []
        for command in case.commands:
            pages.append(run_command(command))
            if case.state is not None and command.startswith("apply"):
                settle()
        pages += written_files(case.written)
    text = "\n".join(pages)
    compare(case.folder / "expected.txt", text.replace(address, ZOOKEEPER) if address else text)


def test_every_case_says_what_it_shows() -> None:
    """Every case has a one-sentence description, and no two are equal."""
    sentences = [case.about for case in CASES]
    assert all(sentence.endswith(".") and len(sentence) > 20 for sentence in sentences)
    assert len(set(sentences)) == len(sentences)


def test_there_are_enough_bad_inputs() -> None:
    """The golden files have at least forty invalid manifests with their whole message, and as many plans."""
    assert sum(case.name.startswith("bad/") for case in CASES) >= 40
    assert sum(case.name.startswith("plan/") for case in CASES) >= 25
