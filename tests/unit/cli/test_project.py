"""The project file: which file a run finds, which values it gives, and which options win over it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest

from topiarist.cli import formats
from topiarist.cli.main import cli, run
from topiarist.cli.parameters import Project, UnusedFile, load_project
from topiarist.errors import InvalidManifests
from topiarist.schema import load

TOPIC = """apiVersion: topiarist.dev/v1
kind: Topic
metadata: {name: orders}
spec: {partitions: 1, replicationFactor: 1}
"""
CLUSTER = """apiVersion: topiarist.dev/v1
kind: Cluster
metadata: {name: demo}
spec: {zookeeper: {connect: zk1:2181}}
"""
ALL = "manifests: [topics]\nclusters: [clusters.yaml]\ncluster: demo\nowner: shop\nformat: json\n"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder: a repository with manifests, and a folder of a team."""
    for name in (".git", "topics", "teams/shop"):
        (tmp_path / "repo" / name).mkdir(parents=True)
    (tmp_path / "repo/topics/orders.yaml").write_text(TOPIC)
    (tmp_path / "repo/clusters.yaml").write_text(CLUSTER)
    monkeypatch.chdir(tmp_path / "repo")
    return tmp_path / "repo"


def params(name: str, *words: str) -> Mapping[str, Any]:
    """Return the parameters of a command line."""
    parent = click.Context(cli)
    command = cli.get_command(parent, name)
    assert command is not None
    return command.make_context(name, [*words], parent=parent).params


def inputs(name: str, *words: str) -> tuple[Any, ...]:
    """Return paths, clusters, platform, cluster, owner and format of a command line; None for an absent option."""
    found = params(name, *words)
    return tuple(found.get(each) for each in ("paths", "clusters", "platform", "cluster", "owner", "form"))


def found_file(given: str | None = None) -> str | None:
    """Return the project file of the working folder."""
    project = load_project(given)
    return project.file.name if isinstance(project, Project) else None


@pytest.mark.usefixtures("repository")
def test_without_a_file_nothing_changes() -> None:
    """No project file is no error, and gives no value."""
    assert found_file() is None
    assert inputs("plan") == ((), (), (), None, "default", "text")


def test_every_field_is_used(repository: Path) -> None:
    """Each field gives the value of its option."""
    (repository / "topiarist.yaml").write_text(ALL)
    assert inputs("plan") == (("topics",), ("clusters.yaml",), (), "demo", "shop", "json")


@pytest.mark.parametrize("name", ["validate", "render", "plan", "apply", "drift", "describe", "list", "upgrade-check"])
def test_commands_with_topics_use_all_paths(repository: Path, name: str) -> None:
    """Every command that reads Topics takes manifests and clusters from the file."""
    (repository / "topiarist.yaml").write_text(ALL)
    words = {"describe": ["orders"], "apply": ["--yes"]}
    assert inputs(name, *words.get(name, []))[:4] == (("topics",), ("clusters.yaml",), (), "demo")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("snapshot", []),
        ("export", ["--out", "x"]),
        ("freeze", ["--reason", "x"]),
        ("unfreeze", []),
        ("moves", []),
        ("moves clear", []),
        ("moves revert", ["report"]),
        ("move-records", []),
        ("nudge", ["orders"]),
        ("unmanage", ["orders"]),
        ("apply", ["--plan", "plan.json"]),
    ],
)
@pytest.mark.parametrize(
    ("fields", "clusters"),
    [
        ("manifests: [topics]\nclusters: [clusters.yaml]\n", ("clusters.yaml",)),
        ("manifests: [topics]\nplatform: [clusters.yaml]\n", ("clusters.yaml",)),
        ("manifests: [topics, clusters.yaml]\n", ("topics", "clusters.yaml")),
        ("owner: shop\n", ()),
    ],
)
def test_commands_without_topics_use_clusters_only(
    repository: Path, name: str, words: list[str], fields: str, clusters: tuple[str, ...]
) -> None:
    """A command that reads no Topics takes the clusters alone, so an invalid Topic does not stop it."""
    (repository / "topiarist.yaml").write_text(fields)
    assert inputs(name, *words)[1] == clusters
    assert not params(name, *words).get("paths")
    assert not params(name, *words).get("platform")


def test_named_clusters_are_all_clusters_of_a_freeze(repository: Path) -> None:
    """A user who names clusters freezes these, and none of the project file."""
    (repository / "topiarist.yaml").write_text(ALL)
    assert inputs("freeze", "other.yaml", "--reason", "x")[:2] == (("other.yaml",), ())
    assert inputs("freeze", "--clusters", "other.yaml", "--reason", "x")[:2] == ((), ("other.yaml",))


@pytest.mark.parametrize("name", ["import", "operator", "explain", "dev", "completion"])
def test_other_commands_use_no_project_file(repository: Path, name: str) -> None:
    """A broken project file stops no command that has no use for it."""
    (repository / "topiarist.yaml").write_text("broken: [")
    words = {
        "import": ["topicctl", "topics"],
        "operator": ["--owner", "k8s/x"],
        "explain": ["Frozen"],
        "completion": ["bash"],
    }
    assert params(name, *words.get(name, [])).get("cluster") in (None, "")


def test_arguments_and_options_win(repository: Path) -> None:
    """A value from the command line replaces that of the file, and no other value."""
    (repository / "topiarist.yaml").write_text(ALL)
    (repository / "other").mkdir()
    assert inputs("plan", "other") == (("other",), ("clusters.yaml",), (), "demo", "shop", "json")
    assert inputs("plan", "--owner=default", "--format=text")[3:] == ("demo", "default", "text")
    assert inputs("plan", "--cluster", "eu", "--clusters", "other")[:4] == (("topics",), ("other",), (), "eu")


def test_variables_win(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value from the environment replaces that of the file."""
    (repository / "topiarist.yaml").write_text(ALL)
    for name, value in {"OWNER": "ops", "CLUSTER": "eu", "CLUSTERS": "other.yaml"}.items():
        monkeypatch.setenv(f"TOPIARIST_{name}", value)
    assert inputs("plan") == (("topics",), ("other.yaml",), (), "eu", "ops", "json")


def test_a_given_platform_is_the_only_one(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ``--platform``, neither platform nor clusters of the file have an effect, so a branch cannot add any."""
    (repository / "topiarist.yaml").write_text("manifests: [topics]\nclusters: [clusters.yaml]\n")
    assert inputs("plan", "--platform", "trusted")[:3] == (("topics",), (), ("trusted",))
    (repository / "topiarist.yaml").write_text("manifests: [topics]\nplatform: [clusters.yaml]\n")
    monkeypatch.setenv("TOPIARIST_PLATFORM", "trusted")
    assert inputs("plan")[:3] == (("topics",), (), ("trusted",))


def test_given_clusters_do_not_remove_a_platform(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``--clusters`` with a platform of the file is a usage error: the policies of the platform would be lost."""
    (repository / "topiarist.yaml").write_text("manifests: [topics]\nplatform: [clusters.yaml]\n")
    assert run(["plan", "--clusters", "clusters.yaml"]) == 2
    assert "cannot be combined with platform in topiarist.yaml:2:1" in capsys.readouterr().err


def test_the_project_file_knows_every_format_of_a_plan_and_of_errors() -> None:
    """The schema of the project file lists the formats of ``plan`` and ``validate``."""
    known = load.load_schema("project")["properties"]["format"]["enum"]
    assert {*known} == {*formats.PLAN_FORMATS, *formats.DIAGNOSTIC_FORMATS}


def test_a_format_that_a_command_lacks_is_left_out(repository: Path) -> None:
    """A command without the format, or with ``--summary``, prints text."""
    (repository / "topiarist.yaml").write_text("format: markdown\n")
    assert params("plan")["form"] == "markdown"
    assert params("list")["form"] == "text"
    assert params("plan", "--summary")["form"] == "text"


def test_the_demo_uses_no_project_file(repository: Path) -> None:
    """``drift --demo`` makes its own inputs."""
    (repository / "topiarist.yaml").write_text(ALL)
    assert inputs("drift", "--demo", "fleet")[:5] == ((), (), (), None, "default")


def test_a_folder_above_counts_and_paths_start_there(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nearest file counts; its paths are relative to its folder, whatever the working folder is."""
    (repository / "topiarist.yaml").write_text(ALL)
    monkeypatch.chdir(repository / "teams/shop")
    assert inputs("plan")[:2] == (("../../topics",), ("../../clusters.yaml",))
    (repository / "teams/topiarist.yaml").write_text("manifests: [./shop, ../topics]\n")
    assert inputs("plan")[:2] == ((".././shop", "../../topics"), ())
    assert found_file() == "../topiarist.yaml"


@pytest.mark.parametrize("is_file", [False, True], ids=["repository", "worktree"])
def test_the_search_ends_at_the_repository(repository: Path, monkeypatch: pytest.MonkeyPatch, is_file: bool) -> None:
    """A file above the folder with ``.git`` is not found; in a worktree, ``.git`` is a file."""
    (repository.parent / "topiarist.yaml").write_text("owner: above\n")
    if is_file:
        (repository / ".git").rmdir()
        (repository / ".git").write_text("gitdir: elsewhere\n")
    monkeypatch.chdir(repository / "teams")
    assert found_file() is None
    (repository / ".git").unlink() if is_file else (repository / ".git").rmdir()
    assert found_file() == "../../topiarist.yaml"


def test_an_empty_file_ends_the_search(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty file is valid, gives nothing, and hides the files above it."""
    (repository / "topiarist.yaml").write_text(ALL)
    (repository / "teams/topiarist.yaml").write_text("# nothing\n")
    monkeypatch.chdir(repository / "teams")
    assert found_file() == "topiarist.yaml"
    assert inputs("plan") == ((), (), (), None, "default", "text")


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("ownr: shop\n", ["topiarist.yaml:1:1: ownr: found an unknown field\n    did you mean owner?"]),
        ("a: 1\nb: 2\n", ["topiarist.yaml:1:1: a: found an unknown field", "topiarist.yaml:2:1: b: found an unknown"]),
        ("manifests: topics\n", ['topiarist.yaml:1:12: manifests: found "topics", wanted a list\n    write [topics]']),
        ("manifests: []\n", ["topiarist.yaml:1:1: manifests: found nothing in it, wanted at least 1 item"]),
        ("format: yaml\n", ["topiarist.yaml:1:9: format: found"]),
        ("owner: a b\n", ["topiarist.yaml:1:8: owner: found"]),
        ("owner: a\nowner: b\n", ["topiarist.yaml:2:1: found the field owner twice"]),
        ("owner: yes\n", ["topiarist.yaml:1:8: "]),
        ("owner: &a b\n", ["topiarist.yaml:1:8: "]),
        ("- topics\n", ["topiarist.yaml:1:1: found a list or text, wanted a mapping"]),
        ("owner: a\n---\nowner: b\n", ["topiarist.yaml:3:1: found a second document, wanted one"]),
        ("manifests: [a\nowner: b\n", ['topiarist.yaml:2:6: found no "," or "]" after an item']),
        ("platform: [a]\nclusters: [b]\n", ["topiarist.yaml:1:1: platform: found together with clusters"]),
    ],
)
def test_a_broken_file_stops_a_run(
    repository: Path, capsys: pytest.CaptureFixture[str], text: str, errors: list[str]
) -> None:
    """Every error of the file has its line and column, and the run ends with 1; ``--help`` still works."""
    (repository / "topiarist.yaml").write_text(text)
    with pytest.raises(InvalidManifests) as error:
        load_project()
    assert len(error.value.errors) == len(errors)
    assert all(str(found).startswith(wanted) for found, wanted in zip(error.value.errors, errors, strict=True))
    assert run(["validate", "topics"]) == 1
    assert "topiarist.yaml:" in capsys.readouterr().err
    assert run(["--help"]) == run(["plan", "--help"]) == 0
    assert "Project file, with an error:\ntopiarist.yaml:" in capsys.readouterr().out


def test_bytes_that_are_no_text(repository: Path) -> None:
    """A file that is not UTF-8 is an error with a location."""
    (repository / "topiarist.yaml").write_bytes(b"owner: \xff\n")
    with pytest.raises(InvalidManifests, match="not UTF-8"):
        load_project()


def test_a_path_must_exist_if_it_is_used(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A missing path is an error at its place in the file, unless an argument replaces it."""
    (repository / "topiarist.yaml").write_text("manifests:\n- topics\n- gone\n")
    assert run(["validate"]) == 1
    assert 'topiarist.yaml:3:3: error: manifests: found "gone", but there is no' in capsys.readouterr().err
    assert run(["validate", "topics"]) == 0


@pytest.mark.parametrize("path", ["/etc", "../above.yaml", "link.yaml"])
def test_a_path_does_not_lead_out_of_the_repository(
    repository: Path, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    """The branch of a pull request must not make a run read other files; without a repository there is no limit."""
    (repository.parent / "above.yaml").write_text(TOPIC)
    (repository / "link.yaml").symlink_to("../above.yaml")
    (repository / "topiarist.yaml").write_text(f"manifests: [{path}]\n")
    assert run(["validate"]) == 1
    assert f'found "{path}", which leads out of the git repository {repository}' in capsys.readouterr().err
    (repository / ".git").rmdir()
    assert params("validate")["paths"] == (path,)


def test_a_project_file_that_gives_nothing_is_not_the_cause(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error of a run names the project file only if its values are a part of the run."""
    (repository / "topiarist.yaml").write_text("# nothing yet\n")
    assert run(["validate"]) == 2
    assert "--project none" not in capsys.readouterr().err


def test_a_name_of_standard_input_is_a_file(repository: Path) -> None:
    """A file with the name ``-`` is a file, and not standard input."""
    (repository / "-").write_text(TOPIC)
    (repository / "topiarist.yaml").write_text('manifests: ["-"]\n')
    assert params("validate")["paths"] == ("./-",)


def test_a_link_inside_the_repository_is_followed(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are relative to the folder of the link, so that teams can share one file."""
    (repository / "teams/shop/topics").mkdir()
    (repository / "shared.yaml").write_text("manifests: [topics]\n")
    (repository / "teams/shop/topiarist.yaml").symlink_to("../../shared.yaml")
    monkeypatch.chdir(repository / "teams/shop/topics")
    assert params("validate")["paths"] == ("../topics",)


@pytest.mark.parametrize("target", ["/etc/passwd", "../secret.yaml", "gone.yaml"])
def test_other_links_are_errors(repository: Path, capsys: pytest.CaptureFixture[str], target: str) -> None:
    """A link out of the repository is not read, because errors would show its text; a broken link is an error."""
    (repository.parent / "secret.yaml").write_text("password: hidden\n")
    (repository / "topiarist.yaml").symlink_to(target)
    assert run(["validate", "topics"]) == 1
    err = capsys.readouterr().err
    assert err.startswith("topiarist.yaml: error: ")
    assert "hidden" not in err
    assert "password" not in err


def test_what_is_no_file_is_an_error(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder or a pipe of that name is an error, and nothing waits for it."""
    (repository / "topiarist.yaml").mkdir()
    assert run(["validate", "topics"]) == 1
    assert "found a folder, wanted a project file" in capsys.readouterr().err
    (repository / "topiarist.yaml").rmdir()
    os.mkfifo(repository / "topiarist.yaml")
    assert run(["validate", "topics"]) == 1
    assert "found a pipe, wanted a regular file" in capsys.readouterr().err


def test_a_kubernetes_document_of_that_name_is_no_project_file(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is passed over with a message, and the search goes on above it."""
    (repository / "teams/topiarist.yaml").write_text(TOPIC)
    monkeypatch.chdir(repository / "teams")
    assert load_project() == UnusedFile("topiarist.yaml")
    assert run(["validate", "."]) == 0
    said = "topiarist.yaml: is a Kubernetes document, and not used as a project file\n"
    assert capsys.readouterr().err == f"{said}1 topic valid\n"
    assert run(["plan", "."]) != 0
    assert said in capsys.readouterr().err
    assert run(["plan", "--quiet", "."]) != 0
    assert said not in capsys.readouterr().err
    (repository / "topiarist.yaml").write_text(ALL)
    assert found_file() == "../topiarist.yaml"


def test_the_file_can_be_named(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--project`` names another file, with paths that start in its folder, or no file."""
    (repository / "topiarist.yaml").write_text(ALL)
    (repository / "teams/any.yaml").write_text("manifests: [shop]\n")
    assert params("validate", "--project", "teams/any.yaml")["paths"] == ("teams/shop",)
    assert params("validate", "--project", "none")["paths"] == ()
    monkeypatch.setenv("TOPIARIST_PROJECT", "none")
    assert params("validate")["paths"] == ()
    assert params("validate", "--project", "topiarist.yaml")["paths"] == ("topics",)
    assert "project_file" not in params("validate")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("gone.yaml", "cannot be read: no such file"),
        ("topics", "found a folder"),
        ("clusters.yaml", "found a manifest"),
    ],
)
@pytest.mark.usefixtures("repository")
def test_a_named_file_must_be_a_project_file(capsys: pytest.CaptureFixture[str], name: str, message: str) -> None:
    """A file that is absent, a folder, or a manifest is an error with its name."""
    assert run(["validate", "topics", "--project", name]) == 1
    assert capsys.readouterr().err.startswith(f"{name}: error: {message}")


def test_an_owner_that_a_command_refuses_has_its_place(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A value that only some commands take is an error of the file where a command refuses it."""
    (repository / "topiarist.yaml").write_text("owner: k8s/a\nmanifests: [topics]\n")
    assert params("drift")["owner"] == "k8s/a"
    assert run(["plan"]) == 1
    assert capsys.readouterr().err.startswith("topiarist.yaml:1:8: error: owner: found")


def test_users_see_which_file_is_used(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``-v`` logs the file and its fields, and ``topiarist --help`` has its name."""
    (repository / "topiarist.yaml").write_text(ALL)
    assert run(["validate", "-v", "--format", "text"]) == 0
    assert capsys.readouterr().err.startswith("project file: topiarist.yaml (manifests, clusters, cluster)\n")
    assert run(["--help"]) == 0
    assert capsys.readouterr().out.endswith("\nProject file: topiarist.yaml\n")


def test_the_file_is_no_manifest(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder with the project file is read without an error, and so is the path of the file."""
    (repository / "topiarist.yaml").write_text("manifests: [topics]\n")
    assert run(["validate", "."]) == 0
    assert run(["validate", "topiarist.yaml", "topics"]) == 0
    assert capsys.readouterr().err == "1 topic valid\n" * 2


def test_a_manifest_of_that_name_is_still_read(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No manifest is left out because of the name of its file, however it begins."""
    for text in (TOPIC, f"---\n{TOPIC}", f"# a comment\n\n{TOPIC}", '{"apiVersion": "topiarist.dev/v1"}'):
        (repository / "teams/topiarist.yaml").write_text(text.replace("orders", "clicks"))
        run(["validate", "teams", "-q"])
        assert "no Topic" not in capsys.readouterr().err
