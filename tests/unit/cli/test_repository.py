"""The forge of a repository and its CI configuration, and ``topiarist init`` without a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.checkout import ROOT
from topiarist.cli.main import run
from topiarist.cli.repository import FORGES, detect_forge, read_sample
from unit.cli.test_project import CLUSTER, TOPIC


def write_config(folder: Path, **remotes: str) -> None:
    """Write the config of a repository with these remotes."""
    folder.mkdir(parents=True, exist_ok=True)
    sections = (f'[remote "{name}"]\n\turl = {url}\n\tfetch = +refs/heads/*\n' for name, url in remotes.items())
    (folder / "config").write_text(
        "[core]\n\tbare = false\n" + "".join(sections) + '[branch "main"]\n\tremote = origin\n'
    )


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("git@github.com:acme/topics.git", "github"),
        ("https://github.com/acme/topics", "github"),
        ("ssh://user@GitHub.example.com/acme/topics.git", "github"),
        ("ssh://git@gitlab.example.com:2222/acme/topics.git", "gitlab"),
        ("ssh://git@gitlab.com/github/topics.git", "gitlab"),
        ("ssh://git.example.com/acme/gitlab.git", ""),
        ("/srv/git/github.git", ""),
        ("../github", ""),
    ],
)
def test_the_host_of_the_remote_shows_the_forge(tmp_path: Path, url: str, name: str) -> None:
    """Only the host counts, and not the path behind it."""
    write_config(tmp_path / ".git", origin=url)
    assert detect_forge(tmp_path)[0] == name


def test_origin_or_the_only_remote_counts(tmp_path: Path) -> None:
    """With several remotes, ``origin`` decides; without ``origin``, several show nothing."""
    write_config(tmp_path / ".git", mirror="https://github.com/a/b", origin="ssh://git@gitlab.com/a/b")
    assert detect_forge(tmp_path) == ("gitlab", "the remote at gitlab.com")
    write_config(tmp_path / ".git", mirror="https://github.com/a/b")
    assert detect_forge(tmp_path)[0] == "github"
    write_config(tmp_path / ".git", mirror="https://github.com/a/b", other="ssh://git@gitlab.com/a/b")
    assert detect_forge(tmp_path) == ("", "")


def test_files_show_the_forge_of_an_unknown_host(tmp_path: Path) -> None:
    """One of the two marks decides; both show nothing."""
    write_config(tmp_path / ".git", origin="ssh://git.example.com/a/b")
    assert detect_forge(tmp_path) == ("", "")
    (tmp_path / ".gitlab-ci.yml").touch()
    assert detect_forge(tmp_path) == ("gitlab", ".gitlab-ci.yml")
    (tmp_path / ".github").mkdir()
    assert detect_forge(tmp_path) == ("", "")
    (tmp_path / ".gitlab-ci.yml").unlink()
    assert detect_forge(tmp_path) == ("github", ".github")


def test_a_worktree_has_the_remotes_of_its_repository(tmp_path: Path) -> None:
    """In a worktree, ``.git`` is a file that names a folder, which names the folder with the config."""
    write_config(tmp_path / "main/.git", origin="https://github.com/a/b")
    (tmp_path / "main/.git/worktrees/tree").mkdir(parents=True)
    (tmp_path / "main/.git/worktrees/tree/commondir").write_text("../..\n")
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/.git").write_text("gitdir: ../main/.git/worktrees/tree\n")
    assert detect_forge(tmp_path / "tree")[0] == "github"


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"gitdir: gone\n", b"[remote"])
def test_an_unreadable_repository_shows_nothing(tmp_path: Path, content: bytes) -> None:
    """No repository, or one without a readable config, is no error."""
    assert detect_forge(tmp_path) == ("", "")
    (tmp_path / ".git").write_bytes(content)
    assert detect_forge(tmp_path) == ("", "")


@pytest.mark.parametrize("name", FORGES)
def test_a_sample_is_that_of_the_documentation(name: str) -> None:
    """Each sample is the file of ``docs/ci``, and its first line names the path that it is written to."""
    text = read_sample(FORGES[name])
    assert text == (ROOT / "docs" / "ci" / FORGES[name].sample).read_text()
    assert text.splitlines()[0].endswith(FORGES[name].path)


PROJECT = "# yaml-language-server: $schema=https://topiarist.dev/schemas/project.json\nmanifests:\n- topics\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder: a repository with no remote, and a folder of manifests."""
    for name in (".git", "shop/topics"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "shop/cluster.yaml").write_text(CLUSTER)
    (tmp_path / "shop/topics/orders.yaml").write_text(TOPIC)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> list[str]:
    """Return the paths of all files outside the folder of manifests."""
    found = (str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if not path.startswith("shop/"))


def test_a_folder_of_manifests_is_copied(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Topics and platform are separate afterwards, byte for byte, and the given folder stays."""
    assert run(["init", "shop"]) == 0
    assert files(folder) == ["platform/cluster.yaml", "topiarist.yaml", "topics/README.md", "topics/orders.yaml"]
    assert (folder / "topics/orders.yaml").read_text() == TOPIC
    assert (folder / "shop/topics/orders.yaml").exists()
    assert "the forge is unknown; --ci takes github, gitlab, atlantis" in capsys.readouterr().err
    assert run(["validate"]) == 0
    assert run(["init", "shop"]) == 0
    assert "nothing to write: all files exist" in capsys.readouterr().err


def test_existing_folders_are_used(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an address and a folder, the manifests in the working folder count; the Cluster may be absent."""
    (folder / "shop/topics").rename(folder / "topics")
    assert run(["init"]) == 0
    assert (folder / "topiarist.yaml").read_text() == PROJECT
    assert "found no Cluster document: add one in platform/" in capsys.readouterr().err
    (folder / "topiarist.yaml").unlink()
    (folder / "platform").mkdir()
    assert run(["init"]) == 0
    assert (folder / "topiarist.yaml").read_text() == f"{PROJECT}platform:\n- platform\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "found no folder topics/ here"),
        (["gone"], "found no folder gone"),
        (["shop/cluster.yaml"], "found no folder shop/cluster.yaml"),
        (["empty"], "found no Topic in empty"),
        (["shop", "--zookeeper", "zk1"], "give either FOLDER or --zookeeper"),
        (["mixed"], "all.yaml has Topics and other documents"),
        (["twice"], "two files of twice would be topics/a.yaml"),
    ],
)
def test_input_that_cannot_be_used_is_wrong_usage(
    folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    """The message names the folder or file, and nothing is written."""
    for name in ("empty", "mixed", "twice/topics"):
        (folder / name).mkdir(parents=True)
    (folder / "mixed/all.yaml").write_text(f"{TOPIC}---\n{CLUSTER}")
    (folder / "twice/a.yaml").write_text(TOPIC)
    (folder / "twice/topics/a.yaml").write_text(TOPIC.replace("orders", "clicks"))
    assert run(["init", *words]) == 2
    assert message in capsys.readouterr().err
    assert not (folder / "topiarist.yaml").exists()


def test_a_guide_of_the_user_stays(folder: Path) -> None:
    """A page beside the topics is no conflict, and is never replaced."""
    (folder / "topics").mkdir()
    (folder / "topics/README.md").write_text("# Our rules\n")
    assert run(["init", "shop"]) == 0
    assert (folder / "topics/README.md").read_text() == "# Our rules\n"


def test_an_invalid_manifest_is_not_copied(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its errors are those of ``validate``."""
    (folder / "shop/topics/orders.yaml").write_text(TOPIC.replace("partitions", "partitons"))
    assert run(["init", "shop"]) == 1
    assert "shop/topics/orders.yaml:4:8: error: spec.partitons: found an unknown field" in capsys.readouterr().err
    assert files(folder) == []


@pytest.mark.parametrize("is_link", [False, True])
@pytest.mark.parametrize("path", ["topiarist.yaml", "topics/orders.yaml", "platform/cluster.yaml"])
def test_no_file_is_replaced(folder: Path, capsys: pytest.CaptureFixture[str], path: str, is_link: bool) -> None:
    """A file with other content, or a broken link, stops the command before it writes any file."""
    (folder / path).parent.mkdir(exist_ok=True)
    if is_link:
        (folder / path).symlink_to("gone")
    else:
        (folder / path).write_text("# mine\n")
    assert run(["init", "shop"]) == 1
    err = capsys.readouterr().err
    assert "nothing was written, because init replaces no file" in err
    assert f"{path}: exists with other content" in err
    assert files(folder) == ([] if is_link else [path])
    assert is_link or (folder / path).read_text() == "# mine\n"


def test_other_topics_are_not_mixed_with_new_ones(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Manifests that are there already could declare the same topics."""
    (folder / "topics/old").mkdir(parents=True)
    (folder / "topics/old/a.yaml").write_text(TOPIC)
    assert run(["init", "shop"]) == 1
    assert "topics/: has other manifests, such as topics/old/a.yaml" in capsys.readouterr().err
    assert files(folder) == ["topics/old/a.yaml"]


def test_a_project_file_of_the_user_stays(folder: Path) -> None:
    """With nothing to copy, an existing project file is no conflict: the CI configuration is added."""
    (folder / "topiarist.yaml").write_text("manifests: [shop]\n")
    assert run(["init", "--ci", "github"]) == 0
    assert files(folder) == [".github/workflows/topics.yml", "topiarist.yaml"]
    assert (folder / "topiarist.yaml").read_text() == "manifests: [shop]\n"


def test_a_ci_file_of_the_user_stays(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A detected forge with a CI file gets no other one; the jobs to add can be printed."""
    (folder / ".gitlab-ci.yml").write_text("stages: []\n")
    assert run(["init", "shop"]) == 0
    assert ".gitlab-ci.yml exists and stays as it is: topiarist init --ci gitlab --dry-run" in capsys.readouterr().err
    assert run(["init", "--ci", "gitlab", "--dry-run"]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("==> .gitlab-ci.yml <==\n# Topics through merge requests")
    assert ".gitlab-ci.yml: exists with other content" in said.err
    assert (folder / ".gitlab-ci.yml").read_text() == "stages: []\n"


def test_a_ci_file_belongs_to_the_root(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below the root of a repository no CI file is written, and asking for one is a usage error."""
    (folder / ".github").mkdir()
    monkeypatch.chdir(folder / "shop")
    assert run(["init", "--ci", "github"]) == 2
    assert f"belongs to the root of the repository, {folder}" in capsys.readouterr().err
    assert run(["init"]) == 0
    assert "no CI configuration: a CI configuration belongs to" in capsys.readouterr().err
    assert (folder / "shop/topiarist.yaml").exists()
    assert files(folder) == []


def test_a_failed_write_says_how_far_it_came(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file in the place of a folder is an error, and the next call continues."""
    (folder / "topics").write_text("")
    assert run(["init", "shop"]) == 1
    err = capsys.readouterr().err
    assert "topics/orders.yaml: cannot be written" in err
    assert "written before it: 1 file; run the command again to continue" in err
    (folder / "topics").unlink()
    assert run(["init", "shop"]) == 0
    assert files(folder) == ["platform/cluster.yaml", "topiarist.yaml", "topics/README.md", "topics/orders.yaml"]
