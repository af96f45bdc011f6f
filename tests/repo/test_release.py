"""Releases: one version everywhere, the cut of the changelog, reproducible packages, and the files made from them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import helm_python
import jsonschema
import pytest
import yaml
from release import archives, build, bundle, catalog, changelog, formula, packages, repository, versions
from release.__main__ import main

from support.checkout import ROOT
from support.kubernetes.helm import documents_of_kind, only_document, render
from support.repo.packages import copy_sources
from topiarist import __version__

EPOCH = 1_700_000_000
CHANGES = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- Something.\n\n## [0.0.1] - 2025-01-02\n\n- First.\n"

pytestmark = pytest.mark.xdist_group("release")

needs_twine = pytest.mark.skipif(not (build.PACKAGES / "twine").is_dir(), reason="twine is not there: make test-slow")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A git repository with the files of this one that have the version or are packed, in one commit."""
    folder = tmp_path_factory.mktemp("checkout")
    copy_sources(folder)
    for name in (*versions.PLACES, "constraints.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "charts", folder / "charts", dirs_exist_ok=True)
    (folder / "CHANGELOG.md").write_text(CHANGES)
    repository.git(folder, "init", "--quiet", "--initial-branch", "main")
    for key, value in (("user.name", "a"), ("user.email", "a@example.com")):
        repository.git(folder, "config", key, value)
    (folder / ".gitignore").write_text("*.egg-info\n__pycache__\n")
    repository.git(folder, "add", ".")
    repository.git(folder, "commit", "--quiet", "--message", "All files")
    return folder


@pytest.fixture(scope="module")
def clone(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A scratch clone with the commit and the tag of version 9.8.7."""
    folder = tmp_path_factory.mktemp("clone") / "clone"
    repository.cut(checkout, "9.8.7", "2026-12-01", folder)
    return folder


@pytest.fixture(scope="module")
def built(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The source distribution and the wheel of that version."""
    tree, to = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("dist")
    repository.export(clone, "v9.8.7", tree)
    return packages.build_packages(tree, to, EPOCH)


def test_every_place_has_the_version() -> None:
    """Chart, image, pages and expected outputs have the version of the package."""
    assert list(versions.find_differences(ROOT)) == []


def test_no_place_is_forgotten() -> None:
    """Each file of the repository with the version near the name of the project is a known place."""
    listed = repository.git(
        ROOT, "grep", "-liIE", rf"(topiarist|version)[^0-9]{{0,40}}{re.escape(__version__)}"
    ).split()
    history = (
        "CHANGELOG.md",
        "docs/internals/README.md",
        "docs/internals/changed-words.md",
        "docs/comparison.md",
        "docs/glossary.md",
        "docs/README.md",
        "docs/internals/testing.md",
        "docs/upgrade.md",
    )
    found = {name for name in listed if not name.startswith(("tests/", "tools/")) and name not in history}
    assert {"Dockerfile", "README.md"} <= found <= set(versions.PLACES)


@pytest.mark.parametrize("text", ["1.2", "1.2.3rc1", "v1.2.3", "01.2.3", "1.2.3 ", ""])
def test_another_form_of_a_version_is_refused(text: str) -> None:
    """A version is three numbers: a form that package index, chart and tag all accept."""
    with pytest.raises(ValueError, match="wanted three numbers"):
        versions.parse_version(text)


def test_the_changelog_is_cut() -> None:
    """Unreleased changes become the section of the version, below an empty section for the next one."""
    cut = changelog.cut_section(CHANGES, "0.1.0", "2026-12-01")
    assert "## [Unreleased]\n\n## [0.1.0] - 2026-12-01\n\n### Added\n\n- Something.\n\n## [0.0.1]" in cut
    assert changelog.read_section(cut, "0.1.0") == "### Added\n\n- Something."
    assert changelog.read_section(cut, "0.0.1") == "- First."
    with pytest.raises(ValueError, match="found no change below"):
        changelog.cut_section(cut, "0.2.0", "2026-12-02")
    with pytest.raises(ValueError, match=r"a section of 0\.0\.1 already"):
        changelog.cut_section(CHANGES, "0.0.1", "2026-12-02")


@pytest.mark.slow
def test_a_version_is_a_commit_and_a_tag_in_a_clone(checkout: Path, clone: Path) -> None:
    """The cut changes every place and the changelog in one commit with a tag, and nothing in the checkout."""
    assert repository.read_tag(clone) == "9.8.7"
    assert list(versions.find_differences(clone)) == []
    assert versions.read_version(clone) == "9.8.7"
    changed = repository.git(clone, "diff", "--name-only", "HEAD~1").split()
    assert sorted(changed) == sorted([*versions.PLACES, "CHANGELOG.md"])
    assert "## [9.8.7] - 2026-12-01" in (clone / "CHANGELOG.md").read_text()
    assert repository.git(clone, "cat-file", "-t", "v9.8.7") == "tag"
    assert versions.read_version(checkout) == __version__
    assert repository.git(checkout, "status", "--porcelain") == ""
    with pytest.raises(ValueError, match="has no tag"):
        repository.read_tag(checkout)


@pytest.mark.slow
def test_a_version_is_cut_once(checkout: Path, clone: Path, tmp_path: Path) -> None:
    """The checkout takes over commit and tag; a lower version, changes and an existing tag are refused."""
    copy = tmp_path / "copy"
    repository.git(tmp_path, "clone", "--quiet", str(checkout), str(copy))
    with pytest.raises(ValueError, match="wanted at least"):
        repository.cut(copy, "0.0.9", "2026-12-01", tmp_path / "lower")
    repository.take_over(copy, clone, "9.8.7")
    assert repository.read_tag(copy) == "9.8.7"
    with pytest.raises(ValueError, match="there is a tag"):
        repository.cut(copy, "9.8.7", "2026-12-01", tmp_path / "again")
    (copy / "LICENSE").write_text("")
    with pytest.raises(ValueError, match="commit them first"):
        repository.cut(copy, "9.9.0", "2026-12-01", tmp_path / "changed")


def test_the_command_reports_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command ends with exit code 1 and the error, and leaves the folder for the files as it is."""
    assert main(["cut", "1.2", "--out", str(tmp_path)]) == 1
    assert capsys.readouterr().err == "error: found version '1.2', wanted three numbers such as 1.2.0\n"
    assert tmp_path.is_dir()


@pytest.mark.slow
def test_packages_are_reproducible(clone: Path, built: tuple[Path, Path], tmp_path: Path) -> None:
    """A build of the same tag has the same bytes, whatever the times and modes of its files are."""
    tree = tmp_path / "tree"
    repository.export(clone, "v9.8.7", tree)
    for path in tree.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(0o600)
            os.utime(path, (1, 1))
    (tmp_path / "dist").mkdir()
    for first, second in zip(built, packages.build_packages(tree, tmp_path / "dist", EPOCH), strict=True):
        assert first.name == second.name
        assert first.read_bytes() == second.read_bytes(), first.name


@pytest.mark.slow
def test_packages_have_the_version_and_no_owner(built: tuple[Path, Path]) -> None:
    """The names have the version; entries have the time of the commit and no name of an owner."""
    sdist, wheel = built
    assert (sdist.name, wheel.name) == ("topiarist-9.8.7.tar.gz", "topiarist-9.8.7-py3-none-any.whl")
    entries = archives.read_archive(sdist)
    assert "topiarist-9.8.7/PKG-INFO" in entries
    assert list(entries) == sorted(entries)
    assert {info.date_time[:3] for info in zipfile.ZipFile(wheel).infolist()} == {(2023, 11, 14)}
    assert wheel.stat().st_size < 2_000_000


@needs_twine
@pytest.mark.slow
def test_packages_pass_twine(built: tuple[Path, Path]) -> None:
    """The metadata of both packages passes ``twine check --strict``."""
    build.check_metadata(*built)


@needs_twine
@pytest.mark.slow
def test_a_tag_makes_the_files_of_a_release(tmp_path: Path) -> None:
    """In a clone at a scratch tag, ``make release-files`` makes and checks every file, and the wheel runs."""
    environment = {**os.environ, "PYTHONPATH": "tools", "TOPIARIST_CACHE": str(build.PACKAGES.parents[1])}
    command = [sys.executable, "-P", "-m", "release", "files", "--out", str(tmp_path / "dist")]
    # Not in ``tmp_path``: after each test it is searched for secrets, which the tests of the clone contain.
    with tempfile.TemporaryDirectory(prefix="topiarist-release-") as folder:
        source, tagged = Path(folder, "source"), Path(folder, "tagged")
        repository.git(ROOT, "clone", "--quiet", "--no-local", str(ROOT), str(source))
        repository.cut(source, "9.8.7", "2026-12-01", tagged)
        run = subprocess.run(command, cwd=tagged, env=environment, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    names = {path.name for path in (tmp_path / "dist").iterdir()}
    assert {"topiarist-9.8.7.tar.gz", "topiarist-9.8.7-py3-none-any.whl", "topiarist-9.8.7.tgz"} <= names
    assert {line.split()[1] for line in run.stdout.splitlines() if len(line.split()[0]) == 64} == names - {"SHA256SUMS"}


@pytest.mark.slow
def test_the_chart_is_an_archive_for_helm(tmp_path: Path) -> None:
    """Helm reads the packed chart, and renders the same documents as from the folder."""
    path = tmp_path / f"topiarist-{__version__}.tgz"
    archives.write_archive(path, archives.read_folder(ROOT / "charts" / "topiarist", "topiarist"), EPOCH)
    packed = helm_python.Chart.load_archive(path.read_bytes()).render({}, name="topiarist", namespace="kafka")
    texts = (text for name, text in sorted(packed.items()) if name.endswith(".yaml"))
    assert [one for text in texts for one in yaml.safe_load_all(text) if one] == render()


@pytest.mark.slow
def test_checksums_are_those_of_sha256sum(tmp_path: Path) -> None:
    """``sha256sum`` accepts the file of checksums."""
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    archives.write_checksums(tmp_path)
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "a: OK\nb: OK\n")


def test_the_formula_pins_what_the_command_needs() -> None:
    """The formula has the hash of the source distribution and the pins of the five dependencies, and no registry."""
    text = formula.render_formula(
        version="9.8.7",
        sha256="0" * 64,
        repository="OWNER/topiarist",
        description="Keeps topics",
        constraints=(ROOT / "constraints.txt").read_text(),
        roots={"click", "jsonschema-rs", "kazoo", "msgspec", "pyyaml"},
    )
    assert 'url "https://github.com/OWNER/topiarist/releases/download/v9.8.7/topiarist-9.8.7.tar.gz"' in text
    assert f'sha256 "{"0" * 64}"' in text
    pins = [line.split("==")[0].strip() for line in text.splitlines() if "==" in line and line.startswith("    ")]
    assert pins == ["click", "jsonschema-rs", "kazoo", "msgspec", "pyyaml"]
    assert 'shell_output("#{bin}/topiarist --version")' in text
    opened = sum(line.startswith(("class ", "  def ", "  test do")) for line in text.splitlines())
    assert sum(line.strip() == "end" for line in text.splitlines()) == opened


def test_the_catalog_names_the_schemas_of_the_site() -> None:
    """Each entry for SchemaStore has the address that the schema has itself; only the project file has a fixed name."""
    entries = json.loads(catalog.render_catalog(ROOT / "schemas"))["schemas"]
    assert [entry["url"] for entry in entries] == [
        f"https://topiarist.dev/schemas/{name}.json" for name in ("project", "topic", "cluster", "policy")
    ]
    assert [entry.get("fileMatch") for entry in entries] == [["topiarist.yaml"], None, None, None]
    assert all(entry["name"] and entry["description"] for entry in entries)


@pytest.fixture(scope="module")
def files() -> dict[str, bytes]:
    """The files of the bundle for the Operator Lifecycle Manager."""
    image = f"registry.example.com/topiarist:{__version__}"
    return bundle.build_bundle(ROOT, bundle.Release(__version__, image, "OWNER/topiarist", EPOCH))


@pytest.fixture(scope="module")
def service(files: dict[str, bytes]) -> dict[str, Any]:
    """The ClusterServiceVersion of the bundle."""
    document: dict[str, Any] = yaml.safe_load(files["manifests/topiarist.clusterserviceversion.yaml"])
    return document


@pytest.mark.slow
def test_the_bundle_has_its_layout(files: dict[str, bytes]) -> None:
    """Annotations and image labels are equal, name the folders of the bundle, and agree on channel and package."""
    annotations = yaml.safe_load(files["metadata/annotations.yaml"])["annotations"]
    dockerfile = files["bundle.Dockerfile"].decode().splitlines()
    labels = dict(line.removeprefix("LABEL ").split("=") for line in dockerfile if line.startswith("LABEL "))
    assert labels == annotations
    prefix = "operators.operatorframework.io.bundle."
    assert annotations[f"{prefix}mediatype.v1"] == "registry+v1"
    assert annotations[f"{prefix}package.v1"] == "topiarist"
    assert annotations[f"{prefix}channel.default.v1"] in annotations[f"{prefix}channels.v1"].split(",")
    for kind in ("manifests", "metadata"):
        assert any(name.startswith(annotations[f"{prefix}{kind}.v1"]) for name in files)


@pytest.mark.slow
def test_the_bundle_owns_the_definitions(files: dict[str, bytes], service: dict[str, Any]) -> None:
    """The owned kinds are the definitions of the bundle, which are those of ``manifests/crds``."""
    crds = {path.name: path.read_bytes() for path in (ROOT / "manifests" / "crds").glob("*.yaml")}
    assert {name.removeprefix("manifests/"): data for name, data in files.items() if "topiarist.dev" in name} == crds
    documents = [yaml.safe_load(data) for data in crds.values()]
    owned = service["spec"]["customresourcedefinitions"]["owned"]
    wanted = {
        (one["metadata"]["name"], version["name"], one["spec"]["names"]["kind"])
        for one in documents
        for version in one["spec"]["versions"]
    }
    assert {(one["name"], one["version"], one["kind"]) for one in owned} == wanted
    assert all(one["displayName"] and one["description"] for one in owned)


@pytest.mark.slow
def test_the_bundle_installs_what_the_chart_installs(service: dict[str, Any]) -> None:
    """Deployment and rights are those of the chart; the service account of both is the same."""
    image = f"registry.example.com/topiarist:{__version__}"
    chart = render({"image": {"repository": "registry.example.com/topiarist"}}, namespace="topiarist")
    install = service["spec"]["install"]
    assert install["strategy"] == "deployment"
    (deployment,) = install["spec"]["deployments"]
    assert deployment["spec"] == only_document(chart, "Deployment")["spec"]
    pod = deployment["spec"]["template"]["spec"]
    assert [container["image"] for container in pod["containers"]] == [image]
    roles = {one["metadata"]["name"]: one["rules"] for one in documents_of_kind(chart, "ClusterRole")}
    for key, rules in (
        ("clusterPermissions", roles["topiarist-topiarist"]),
        ("permissions", only_document(chart, "Role")["rules"]),
    ):
        assert install["spec"][key] == [{"serviceAccountName": pod["serviceAccountName"], "rules": rules}]


@pytest.mark.slow
def test_the_bundle_has_the_required_fields(service: dict[str, Any]) -> None:
    """The document has a name with its version, install modes for all four cases, and valid samples of its kinds."""
    metadata, spec = service["metadata"], service["spec"]
    assert (service["apiVersion"], service["kind"]) == ("operators.coreos.com/v1alpha1", "ClusterServiceVersion")
    assert (metadata["name"], spec["version"]) == (f"topiarist.v{__version__}", __version__)
    modes = {mode["type"]: mode["supported"] for mode in spec["installModes"]}
    assert modes == {"OwnNamespace": False, "SingleNamespace": False, "MultiNamespace": False, "AllNamespaces": True}
    assert spec["minKubeVersion"] == "1.33.0"
    assert metadata["annotations"]["createdAt"] == "2023-11-14T22:13:20Z"
    assert all(spec[key] for key in ("displayName", "description", "maturity", "keywords", "links", "provider"))
    samples = json.loads(metadata["annotations"]["alm-examples"])
    assert {sample["kind"] for sample in samples} == {"Cluster", "Topic", "Policy"}
    plurals = {"Cluster": "clusters", "Topic": "topics", "Policy": "policies"}
    for sample in samples:
        plural = plurals[sample["kind"]]
        crd = yaml.safe_load((ROOT / "manifests" / "crds" / f"{plural}.topiarist.dev.yaml").read_text())
        jsonschema.validate(sample, crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
