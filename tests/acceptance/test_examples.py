"""Every folder of ``tests/examples`` against its golden files, character by character."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from acceptance.cases import (
    EXAMPLES,
    GOLDEN_FILES,
    ZOOKEEPER,
    Case,
    create_clusters,
    find_cases,
    find_stale_files,
    plan_json,
    read_all_forms,
    render_plan,
    run_command,
    written_files,
)
from acceptance.plan_forms import PrintedPlans, record_plans
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


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> list[PrintedPlans]:
    """Return a record of all plans that the commands of the test print."""
    for name in [name for name in os.environ if name.startswith("TOPIARIST_")]:
        monkeypatch.delenv(name)
    return record_plans(monkeypatch)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_example(
    case: Case,
    printed: list[PrintedPlans],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """The output of the case's commands equals ``expected.txt``; JSON and Markdown hold each plan that was printed."""
    address = ""
    with ExitStack() as stack:
        if case.has_state:
            server: EmbeddedZooKeeper = request.getfixturevalue("zookeeper")
            address = server.connect
            connect = f"{address}/{case.name.replace('/', '-')}"
            state = case.read_state()
            settle = stack.enter_context(create_clusters(state, connect))
            if "clusters" not in state:
                monkeypatch.setenv("TOPIARIST_ZOOKEEPER", connect)
        monkeypatch.chdir(case.copy(tmp_path, address))
        if case.has_all_forms:
            compare(case.folder / "plan.json", plan_json(case.manifests))
            compare(case.folder / "plan.md", render_plan(case.manifests, "markdown"))
        pages = []
        for command in case.commands:
            pages.append(run_command(command))
            if case.has_state and command.startswith("apply"):
                settle()
        pages += written_files(case.written)
        if case.has_state and case.manifests and not printed:
            # The commands print no plan, so one is made for the comparison, unless the manifests or the cluster fail.
            assert render_plan(case.manifests, "json") == "" or printed
    text = "\n".join(pages)
    compare(case.folder / "expected.txt", text.replace(address, ZOOKEEPER) if address else text)
    for plans in printed:
        plans.check()


def test_every_golden_file_has_a_case_that_writes_it() -> None:
    """A golden file of no case, or of a form that its case does not have, is an error; ``make golden`` deletes it."""
    for path in find_stale_files(EXAMPLES, CASES) if GOLDEN else ():
        path.unlink()
    assert find_stale_files(EXAMPLES, CASES) == [], "make golden deletes these files"
    assert read_all_forms().keys() <= {case.name for case in CASES if case.has_state and case.manifests}


def test_a_golden_file_without_a_writer_is_found(tmp_path: Path) -> None:
    """A golden file is stale in a folder without a case, and if its case does not have that form."""
    case = CASES[0]._replace(folder=tmp_path / "case", has_all_forms=False)
    for folder in (case.folder, tmp_path / "removed"):
        folder.mkdir()
        for name in GOLDEN_FILES:
            (folder / name).touch()
    stale = {path.relative_to(tmp_path).as_posix() for path in find_stale_files(tmp_path, [case])}
    assert stale == {"case/plan.json", "case/plan.md", *(f"removed/{name}" for name in GOLDEN_FILES)}
    assert find_stale_files(case.folder, [case._replace(has_all_forms=True)]) == []


def test_every_case_says_what_it_shows() -> None:
    """Every case has a one-sentence description, and no two are equal."""
    sentences = [sentence for case in CASES for sentence in case.about]
    assert all(sentence.endswith(".") and len(sentence) > 20 for sentence in sentences)
    assert len(set(sentences)) == len(sentences)


def test_every_input_of_many_small_cases_is_validated() -> None:
    """A folder of small cases has a sentence for each of its files and folders."""
    for case in CASES:
        inputs = {path.name for path in case.folder.iterdir()} - {"case.yaml", *GOLDEN_FILES}
        if len(case.about) > 1:
            assert case.commands == tuple(f"validate {name}" for name in sorted(inputs)), case.name


def test_there_are_enough_bad_inputs() -> None:
    """The golden files have at least forty invalid manifests with their whole message, and as many plans."""
    assert sum(len(case.commands) for case in CASES if case.name.startswith("bad/")) >= 40
    assert sum(case.name.startswith("plan/") for case in CASES) >= 25
