"""Loading of manifests from paths: files that are read or ignored, errors, and locations."""

from __future__ import annotations

import gzip
import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from unittest.mock import Mock

import pytest

from topiarist.adapters.manifests import diagnose, files, loader, source
from topiarist.adapters.manifests.loader import (
    InvalidDocument,
    Loaded,
    load_manifests,
    match_documents,
    read_annotations,
)
from topiarist.adapters.manifests.source import Document, File
from topiarist.adapters.manifests.yaml_text import StrictParser
from topiarist.errors import FieldKey, Location

SPEC = "spec: {partitions: 1, replicationFactor: 1}"
TOPIC = "apiVersion: topiarist.dev/v1\nkind: Topic\nmetadata: {name: %s}\n" + SPEC + "\n"
FOREIGN = "apiVersion: v1\nkind: ConfigMap\ndata: &x\n  y: yes\n  n: 010\n  n: ~\n  z: *x\n  t: !!str 1\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that is also the working directory, so that names are relative."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, text: str) -> None:
    """Write a file and create its parent folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def text(content: str) -> Loaded:
    """Return the manifests of a text on standard input."""
    return load_manifests(["-"], io.BytesIO(content.encode()))


def said(loaded: Loaded) -> list[str]:
    """Return the first line of each error."""
    return [str(diagnostic).partition("\n")[0] for diagnostic in loaded.errors]


def test_a_folder_means_its_yaml_files_at_any_depth_sorted(folder: Path) -> None:
    """A folder means its *.yaml and *.yml files at any depth, sorted; hidden files and other names are not read."""
    for name in ("b.yaml", "a/2.yml", "a/1.yaml", ".git/x.yaml", ".hidden.yaml", "a.txt", "README"):
        write(folder / "m" / name, TOPIC % f"t{name[0]}")
    loaded = load_manifests(["m"])
    assert [manifest.source.locate().file for manifest in loaded.manifests] == ["m/a/1.yaml", "m/a/2.yml", "m/b.yaml"]
    assert (loaded.file_count, loaded.errors) == (3, ())


@pytest.mark.parametrize(
    ("given", "shown"), [("m", "m/t.yaml"), ("./m/", "m/t.yaml"), (".", "m/t.yaml"), ("m/t.yaml", "m/t.yaml")]
)
def test_names_are_shown_as_they_were_given(folder: Path, given: str, shown: str) -> None:
    """The name of a file is relative if the given path is relative, and has no ./ prefix."""
    write(folder / "m/t.yaml", TOPIC % "t")
    assert load_manifests([given]).manifests[0].source.locate() == Location(shown, 1, 1)


def test_a_file_is_read_once(folder: Path) -> None:
    """A file that is reachable by several paths, symbolic links or hard links is read once."""
    write(folder / "m/t.yaml", TOPIC % "t")
    (folder / "m/again.yaml").symlink_to("t.yaml")
    os.link(folder / "m/t.yaml", folder / "m/hard.yaml")
    assert len(load_manifests(["m", "m/t.yaml", "."]).manifests) == 1


def test_a_mounted_config_map_is_read(folder: Path) -> None:
    """A mounted ConfigMap is read, with its links through a hidden link to a hidden folder below the root."""
    write(folder / "m/..2024/t.yaml", TOPIC % "t")
    (folder / "m/..data").symlink_to("..2024")
    (folder / "m/t.yaml").symlink_to("..data/t.yaml")
    loaded = load_manifests(["m"])
    assert [manifest.source.locate().file for manifest in loaded.manifests] == ["m/t.yaml"]


def test_no_link_leads_out(folder: Path) -> None:
    """Links to YAML files and folders outside the root are refused; links with other names are ignored.

    A given path may be a link.
    """
    write(folder / "out/t.yaml", TOPIC % "t")
    (folder / "m").mkdir()
    (folder / "m/file.yaml").symlink_to("../out/t.yaml")
    (folder / "m/folder").symlink_to("../out")
    (folder / "m/notes.txt").symlink_to("../out/t.yaml")
    (folder / "given").symlink_to("out")
    assert said(load_manifests(["m"])) == [
        "m/file.yaml: found a symbolic link to a target outside m",
        "m/folder: found a symbolic link to a target outside m",
    ]
    assert [manifest.source.locate().file for manifest in load_manifests(["given"]).manifests] == ["given/t.yaml"]


def test_circles_of_links_end(folder: Path) -> None:
    """A folder that contains a link to itself is read once; self-referencing and broken links are errors."""
    write(folder / "m/a/t.yaml", TOPIC % "t")
    (folder / "m/a/up").symlink_to("..")
    (folder / "m/self.yaml").symlink_to("self.yaml")
    (folder / "m/gone.yaml").symlink_to("nothing.yaml")
    loaded = load_manifests(["m"])
    assert len(loaded.manifests) == 1
    assert said(loaded) == [
        "m/gone.yaml: found a broken symbolic link",
        "m/self.yaml: cannot be read: too many levels of symbolic links",
    ]


def test_only_regular_files_are_opened(folder: Path) -> None:
    """A pipe or a device is an error and does not block the run, both below a folder and as a given path."""
    (folder / "m").mkdir()
    os.mkfifo(folder / "m/p.yaml")
    (folder / "m/d.yaml").mkdir()
    assert said(load_manifests(["m", "/dev/null", "m/p.yaml", "nowhere", "a\0b"])) == [
        "/dev/null: found a device, wanted a regular file",
        r"a\x00b: cannot be read: a name cannot contain a NUL character",
        "m/p.yaml: found a pipe, wanted a regular file",
        "m/p.yaml: found a pipe, wanted a regular file",
        "nowhere: cannot be read: no such file or directory",
    ]


def test_an_error_of_the_system_is_a_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An operating system error on one file is an error of that file; the other files are still read."""
    write(folder / "m/a.yaml", TOPIC % "a")
    write(folder / "m/b.yaml", TOPIC % "b")
    real = os.open

    def denied(path: str, flags: int, **more: int) -> int:
        if path == "a.yaml":
            raise PermissionError(13, "Permission denied")
        return real(path, flags, **more)

    monkeypatch.setattr(os, "open", denied)
    loaded = load_manifests(["m"])
    assert said(loaded) == ["m/a.yaml: cannot be read: permission denied"]
    assert [manifest.name for manifest in loaded.manifests] == ["b"]


def test_sizes_and_counts_are_limited(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that are too large, files beyond the file limit, and folders nested too deep are errors."""
    monkeypatch.setattr(files, "MAX_BYTES", 2**20)
    monkeypatch.setattr(files, "MAX_FILES", 2)
    monkeypatch.setattr(files, "MAX_FOLDER_DEPTH", 2)
    write(folder / "m/1.yaml", "#" * (2**20 + 1))
    write(folder / "m/a/b/c/t.yaml", TOPIC % "t")
    assert said(load_manifests(["m"])) == [
        "m/1.yaml: found more than 1 MiB",
        "m/a/b/c: found folders nested more than 2 levels deep",
    ]
    assert said(load_manifests(["-"], io.BytesIO(b"#" * (2**20 + 1)))) == ["<stdin>: found more than 1 MiB"]
    for name in "23":
        write(folder / f"m/{name}.yaml", TOPIC % f"t{name}")
    assert "m/3.yaml: found more than 2 files" in said(load_manifests(["m"]))


def test_a_name_that_cannot_be_printed_is_escaped(folder: Path) -> None:
    """Control characters in the name of a file are escaped, so that they cannot change the terminal output."""
    write(folder / "m/a\x1b[2J\n.yaml", "x")
    (folder / "m" / os.fsdecode(b"\xff.yaml")).write_text("x")
    assert {diagnostic.location.file for diagnostic in load_manifests(["m"]).errors} == {
        r"m/a\x1b[2J\n.yaml",
        r"m/\udcff.yaml",
    }


def test_a_path_that_holds_nothing_is_a_warning(folder: Path) -> None:
    """An empty folder, an empty file and a file with only comments each give a warning and no error. A path that was
    read before gives none.
    """
    (folder / "empty").mkdir()
    write(folder / "m/a.yaml", TOPIC % "a")
    write(folder / "m/b.yaml", "")
    write(folder / "m/c.yaml", "# nothing\n---\n---\n")
    write(folder / "m/d.yaml", FOREIGN)
    loaded = load_manifests(["empty", "m", "m/a.yaml", "m", "-"], io.BytesIO(b""))
    assert (loaded.errors, len(loaded.foreign)) == ((), 1)
    assert [str(warning).partition("\n")[0] for warning in loaded.warnings] == [
        "<stdin>: found no document",
        "empty: found no *.yaml and no *.yml in this folder",
        "m/b.yaml: found no document",
        "m/c.yaml: found no document",
    ]


SLIPS = ("a.YAML", "b.Yml", "c.ymal", "d.ylm", "e.yam", "f.yaml.txt", "g.yaml ", "h.yamll")
OTHERS = ("a.txt", "b.ml", "c.xml", "d.toml", "yaml", "yml", "e.html", "f.aml", ".g.YAML", "h.yaml.bak", "i.yang")


def test_a_name_that_looks_like_a_manifests_is_a_warning(folder: Path) -> None:
    """Files with a misspelt YAML suffix in a folder give a warning; files with other suffixes are ignored."""
    for name in (*SLIPS, *OTHERS):
        write(folder / "m" / name, TOPIC % "a")
    (folder / "m/link.YML").symlink_to("a.txt")
    loaded = load_manifests(["m"])
    assert [warning.location.file for warning in loaded.warnings] == [f"m/{name}" for name in (*SLIPS, "link.YML")]
    assert {warning.message for warning in loaded.warnings} == {
        "not read: topiarist reads only *.yaml and *.yml files of a folder"
    }
    assert (loaded.manifests, loaded.errors) == ((), ())
    assert [manifest.name for manifest in load_manifests(["m/a.YAML"]).manifests] == ["a"]


def test_a_manifest_in_json_is_a_warning(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only JSON files that begin like a manifest give a warning, and the number of opened files is limited."""
    write(folder / "m/a.json", '{"kind": "List", "items": [{"apiVersion": "topiarist.dev/v1", "kind": "Topic"}]}')
    write(folder / "m/b.json", '{"apiVersion": "v1", "description": "apiVersion: topiarist.dev/v1"}')
    write(folder / "m/c.JSON", '{"apiVersion" : "topiarist.dev/v1"}')
    os.mkfifo(folder / "m/d.json")
    (folder / "m/e.json").symlink_to("/dev/zero")
    assert [warning.location.file for warning in load_manifests(["m"]).warnings] == ["m/a.json", "m/c.JSON"]
    monkeypatch.setattr(files, "MAX_PEEKS", 1)
    assert [warning.location.file for warning in load_manifests(["m"]).warnings] == ["m/a.json"]


def test_documents_of_others_are_passed_over_and_counted() -> None:
    """Documents of another API group are skipped and counted; they may have anchors, aliases, tags and any scalars."""
    loaded = text(f"{FOREIGN}---\n{TOPIC % 'a'}---\n# nothing\n---\n{FOREIGN}")
    assert (loaded.errors, [manifest.name for manifest in loaded.manifests]) == ((), ["a"])
    assert [str(each) for each in loaded.foreign] == ["<stdin>:1:1: ConfigMap (v1)", "<stdin>:16:1: ConfigMap (v1)"]


@pytest.mark.parametrize(
    ("document", "diagnostic"),
    [
        ("x: 1", "<stdin>:1:1: found a document without apiVersion"),
        ("y: yes", "<stdin>:1:1: found a document without apiVersion"),
        ("[1]", "<stdin>:1:1: found no mapping, wanted a document with apiVersion and kind"),
        ("apiVersion: 1", "<stdin>:1:1: found a document without apiVersion"),
        ("apiVersion: topiarst.dev/v1", '<stdin>:1:13: apiVersion: found "topiarst.dev/v1", wanted topiarist.dev/v1'),
        (
            (TOPIC % "a").replace("topiarist.dev/", ""),
            '<stdin>:1:13: apiVersion: found "v1" with kind "Topic", wanted topiarist.dev/v1',
        ),
        (
            "apiVersion: kafka.strimzi.io/v1\nkind: KafkaTopic\na: &b yes",
            '<stdin>:2:7: kind: found a KafkaTopic of "kafka.strimzi.io/v1", which topiarist does not apply',
        ),
        ("apiVersion: topiarist.dev", '<stdin>:1:13: apiVersion: found "topiarist.dev", wanted topiarist.dev/v1'),
        ("apiVersion: topiarist.dev/v2", '<stdin>:1:13: apiVersion: found "topiarist.dev/v2", wanted topiarist.dev/v1'),
        ("apiVersion: topiarist.dev/v1", "<stdin>:1:1: found no kind, wanted one"),
        (
            "apiVersion: topiarist.dev/v1\nkind: Polic",
            '<stdin>:2:7: kind: found "Polic", wanted Topic, Cluster, Policy, DriftException or DriftPolicy',
        ),
        (
            "apiVersion: v1\nkind: List\nitems:\n- apiVersion: topiarist.dev/v1",
            "<stdin>:3:1: found a List with topiarist documents, wanted separate documents",
        ),
        (
            "apiVersion: v1\napiVersion: topiarist.dev/v1\nkind: Topic\nmetadata: {name: a}\n" + SPEC,
            "<stdin>:2:1: found the field apiVersion twice",
        ),
    ],
)
def test_what_may_be_meant_for_us_does_not_pass_as_a_stranger(document: str, diagnostic: str) -> None:
    """A document without an API group, or with a misspelt topiarist group, is an error and is not skipped silently."""
    loaded = text(document)
    assert (said(loaded), len(loaded.foreign), loaded.manifests) == ([diagnostic], 0, ())


def test_all_errors_at_once_each_with_its_place(folder: Path) -> None:
    """Syntax errors, ambiguous scalars and wrong fields of several files are reported together, sorted by location."""
    write(folder / "a.yaml", TOPIC % "A" + "  # no\n---\na: [1\n---\n" + TOPIC % "yes" + "---\nb: 'c\n")
    write(folder / "b.yaml", (TOPIC % "b").replace("1}", "012, config: {y: 1, retention.ms: , x: [1]}}"))
    write(folder / "c.yaml", TOPIC % "c")
    loaded = load_manifests(["."])
    assert [
        (diagnostic.location.file, diagnostic.location.line, diagnostic.location.column) for diagnostic in loaded.errors
    ] == [
        ("a.yaml", 3, 18),
        ("a.yaml", 8, 1),
        ("a.yaml", 11, 18),
        ("a.yaml", 14, 4),
        ("b.yaml", 4, 42),
        ("b.yaml", 4, 56),
        ("b.yaml", 4, 76),
        ("b.yaml", 4, 78),
    ]
    assert [manifest.name for manifest in loaded.manifests] == ["c"]


def test_a_error_about_a_scalar_is_the_only_one_about_it() -> None:
    """An ambiguous scalar gives one error, without a second error for text in place of a number."""
    loaded = text((TOPIC % "a").replace("replicationFactor: 1", "replicationFactor: 010"))
    assert [str(diagnostic) for diagnostic in loaded.errors] == [
        "<stdin>:4:42: found 010 without quotes, a number with a sign, a leading zero or underscores: "
        "YAML versions read it differently\n    write 10 or 8"
    ]


def test_places_with_other_line_ends(folder: Path) -> None:
    """Line numbers are the same with CRLF, and after a byte order mark, comments and earlier documents."""
    document = "\ufeff# comment\n---\n" + TOPIC % "a" + "---  # ö\n" + TOPIC % "b"
    write(folder / "t.yaml", document.replace("\n", "\r\n"))
    first, second = load_manifests(["t.yaml"]).manifests
    assert first.source.locate() == Location("t.yaml", 3, 1)
    assert first.source.locate(("metadata", "name")) == Location("t.yaml", 5, 18)
    assert second.source.locate(("metadata", "name")) == Location("t.yaml", 10, 18)


@pytest.mark.parametrize(
    ("path", "line", "column"),
    [
        ((), 2, 1),
        (("kind",), 3, 7),
        (("kind", "deeper"), 3, 7),
        (("metadata", "name"), 4, 18),
        (("metadata", FieldKey("name")), 4, 12),
        (("spec",), 5, 1),
        (("spec", "partitions"), 6, 15),
        (("spec", "nothing"), 5, 1),
        (("spec", "replicaAssignment"), 7, 3),
        (("spec", "replicaAssignment", 1, 0), 9, 9),
        (("spec", "replicaAssignment", 7), 7, 3),
        (("spec", "config", "ä.b"), 10, 17),
    ],
)
def test_every_path_has_a_place(path: tuple[str | int, ...], line: int, column: int) -> None:
    """Lines and columns count characters from 1, also after multi-byte characters."""
    document = (
        "---\napiVersion: topiarist.dev/v1\nkind: Topic\nmetadata: {name: t}\nspec:\n  partitions: 1\n"
        "  replicaAssignment:\n    - [1]\n    - - 2\n  config: {ä.b: ö}\n"
    )
    other = TOPIC % "é"
    sources = last_source(other + document)
    assert sources.locate(path) == Location("<stdin>", line + 4, column)


def last_source(content: str) -> Document:
    """Return the source of the last document of a text, valid or not."""
    *_, last = StrictParser().parse_documents(File("<stdin>", content.encode()))
    return last.source


def test_errors_of_a_file_are_limited_and_counted() -> None:
    """A file with very many errors gives the first hundred errors and the number of the other errors."""
    loaded = text("---\nx: 1\n" * 500)
    assert (len(loaded.errors), loaded.suppressed_count) == (source.MAX_ERRORS, 400)
    assert loaded.errors[-1].location.line == 200
    many = text((TOPIC % "a").replace("spec: {", "spec: {ignore: [" + "~," * 300 + "], "))
    assert (len(many.errors), many.suppressed_count) == (source.MAX_ERRORS, 200)


@pytest.mark.parametrize("pattern", [(loader, "_NAME_IN_TEXT"), (diagnose, "_STATEMENT")], ids=["names", "templates"])
def test_the_whole_text_is_searched_once_for_all_errors(
    pattern: tuple[ModuleType, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many parts of a file are unreadable, its names and a template in it are searched once."""
    module, name = pattern
    searches = Mock(wraps=getattr(module, name))
    monkeypatch.setattr(module, name, searches)
    loaded = text(f"---\nkind: Topic\n:\n  name: {name}\n" * 50)  # its own text: the names of the last are kept
    assert len(loaded.errors) == 50
    assert len(searches.mock_calls) == 1
    assert {part.topics for part in loaded.invalid_parts} == {frozenset({name})}


def test_a_place_belongs_to_the_document_of_its_line() -> None:
    """Each line of a document is its own, the first of two equal documents counts, and other lines have none."""
    places = [("a", 1, 3), ("a", 5, 9), ("b", 2, 2), ("a", 5, 9), ("c", 0, 0)]
    documents = [InvalidDocument(Location(file, first), last) for file, first, last in places]
    wanted = [Location("a", line) for line in range(11)] + [Location("b", 2), Location("c"), Location("d", 1)]
    expected = [None, 0, 0, 0, None, *[1] * 5, None, 2, 4, None]
    assert list(match_documents(documents, wanted)) == expected


def test_a_changed_file_does_not_matter(folder: Path) -> None:
    """Locations refer to the bytes that were read, also after the file was deleted."""
    write(folder / "t.yaml", TOPIC % "a")
    loaded = load_manifests(["t.yaml"])
    (folder / "t.yaml").unlink()
    assert loaded.manifests[0].source.locate(("spec", "partitions")) == Location("t.yaml", 4, 20)


@pytest.mark.parametrize(
    ("content", "diagnostic"),
    [
        (b"a: \xff", "<stdin>:1:4: found the byte 0xff, which is not UTF-8"),
        (b"\xef\xbb\xbfa: \xff", "<stdin>:1:4: found the byte 0xff, which is not UTF-8"),
        (b"a: b\n\xc3\xa4: \xed\xa0\x80", "<stdin>:2:4: found the byte 0xed, which is not UTF-8"),
        ("a: b".encode("utf-16"), "<stdin>:1:1: found UTF-16, wanted UTF-8"),
        ("a: b".encode("utf-16-le"), "<stdin>:1:1: found UTF-16, wanted UTF-8"),
        ("a: b".encode("utf-16-be"), "<stdin>:1:1: found UTF-16, wanted UTF-8"),
        (b"\0GITCRYPT\0\xe5\xff", "<stdin>:1:1: found an encrypted or compressed file, wanted YAML"),
        (gzip.compress(b"a: b", mtime=0), "<stdin>:1:1: found an encrypted or compressed file, wanted YAML"),
        (b"a: b\nc: \x00", "<stdin>:2:4: found the control character U+0000"),
        (b"a: b\n\tc: d", "<stdin>:2:1: found a tab as indentation"),
        (b"a: @b", '<stdin>:1:4: found "@", which cannot start a value'),
        (b"a: b: c", '<stdin>:1:5: found ":" where YAML allows none'),
        (b"a: *", "<stdin>:1:5: found & or * without a name after it"),
        (b"a: [1\nb: 2", '<stdin>:2:2: found no "," or "]" after an item (it starts on line 1)'),
        (b"a: 'b\nc: d", "<stdin>:1:4: found quotes that are not closed"),
        (b'a: "\\q"', "<stdin>:1:5: found an unknown escape sequence in double quotes"),
        (b"a:\n  - b\n c: d", "<stdin>:3:2: found 1 space before the field, and 2 in the line above it"),
        (b"%FOO\n---\na: b", "<stdin>:1:5: found a % directive"),
    ],
)
def test_what_is_no_yaml_is_said_in_plain_words(content: bytes, diagnostic: str) -> None:
    """A YAML syntax error has a location and a message that requires no knowledge of the YAML grammar."""
    assert said(load_manifests(["-"], io.BytesIO(content)))[0] == diagnostic


def test_characters_that_break_lines_for_some_readers_are_found_in_our_files_only() -> None:
    """U+2028 in a comment of a topiarist file is an error; foreign documents may contain it.

    Some readers end the comment at this character.
    """
    hidden = "# harmless \u2028spec: {}\n"
    message = "<stdin>:6:12: found the character U+2028, which YAML versions read differently"
    assert message in said(text(TOPIC % "a" + "---\n" + hidden))
    assert text(FOREIGN + "# harmless \u2028\n").errors == ()


@pytest.mark.parametrize("odd", ["", "# \u2028\n"])
def test_annotations_are_read_again(odd: str) -> None:
    """The loader reads the annotations of each document of a file, after the fast pass and after the thorough pass."""
    text = "---\n".join(
        f"{odd}apiVersion: topiarist.dev/v1\nkind: Topic\nmetadata:\n  name: {name}\n{more}spec: {{partitions: 1}}\n"
        for name, more in (("a", ""), ("b", '  annotations: {"why": "\u00fc: so"}\n'))
    )
    found = load_manifests(["-"], io.BytesIO(text.encode())).manifests
    assert [read_annotations(manifest) for manifest in found] == [{}, {"why": "\u00fc: so"}]


@pytest.mark.parametrize("metadata", ["metadata", '"meta\\x64ata"'])
def test_annotations_stand_in_metadata_alone(metadata: str) -> None:
    """Annotations are read from ``metadata`` only, at any position in the document and in any spelling of the key."""
    text = "spec: {partitions: 1, config: {retention.ms: 1}}\nkind: Topic\napiVersion: topiarist.dev/v1\n"
    text += metadata + ": {labels: {annotations: other}, annotations: {why: so}, name: a}\n"
    (found,) = load_manifests(["-"], io.BytesIO(text.encode())).manifests
    assert read_annotations(found) == {"why": "so"}


# Files that a forked process parses: the same result as without it, also if the process fails.

MIXED_TOPIC = """\
apiVersion: topiarist.dev/v1
kind: Topic
metadata:
  name: {name}
  labels: {{team: shop}}
spec:
  partitions: 3
  config: {{retention.ms: 7d, min.cleanable.dirty.ratio: 0.5}}
"""
CLUSTER = """\
apiVersion: topiarist.dev/v1
kind: Cluster
metadata: {name: eu}
spec: {zookeeper: {connect: "zk:2181"}}
"""
FILES = {
    "two": f"# é\n{MIXED_TOPIC.format(name='a')}---\n{MIXED_TOPIC.format(name='b')}",
    "cluster": CLUSTER,
    "invalid": MIXED_TOPIC.format(name="c").replace("partitions: 3", "partitions: 0"),
    "one-of-two-is-invalid": f"{MIXED_TOPIC.format(name='d')}---\n{MIXED_TOPIC.format(name='e')}  typo: 1\n",
    "ambiguous": MIXED_TOPIC.format(name="f").replace("7d", "yes"),
    "foreign": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n",
    "foreign-and-own": f"apiVersion: v1\nkind: ConfigMap\n---\n{MIXED_TOPIC.format(name='g')}",
    "empty": "",
    "comment": "# nothing\n",
    "no-yaml": "a: [",
    "no-text": "\udcff",
    "text": "just text\n",
    "topiarist": "manifests: [topics]\n",
    "unnamed": MIXED_TOPIC.format(name="h").replace("  name: h\n", ""),
    "plain": MIXED_TOPIC.format(name="z"),
}


@pytest.fixture
def mixed_folder(tmp_path: Path) -> Path:
    """Return a folder of files of every kind, four of each, so that both processes get some."""
    for number in range(4):
        for name, text in FILES.items():
            path = (
                tmp_path / f"{number}-{name}.yaml" if name != "topiarist" else tmp_path / f"{number}" / f"{name}.yaml"
            )
            path.parent.mkdir(exist_ok=True)
            changed = text.replace("name: ", f"name: t{number}") if name != "unnamed" else text
            path.write_bytes(changed.encode(errors="surrogateescape"))
    return tmp_path


def _describe(loaded: Loaded) -> object:
    """Return everything that was loaded, with the text and the place of each document instead of its source."""
    manifests = [
        (each[:-1], source.locate(("spec",)), source.file, source.start, source.end, source.line)
        for each in loaded.manifests
        if isinstance(source := each.source, Document)
    ]
    return manifests, loaded._replace(manifests=())


@pytest.fixture
def forks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Fork for any number of files; return a list that gets the numbers of files that a process parsed."""
    started: list[int] = []
    parse = loader.start_parsing

    def start(files: Sequence[File]) -> object:
        found = parse(files)
        started.extend([len(files)] if found else [])
        return found

    monkeypatch.setattr(loader, "MIN_FILES", 1)
    monkeypatch.setattr(loader, "start_parsing", start)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(threading, "active_count", lambda: 1)  # pytest's own threads hold no lock that the parser takes
    return started


def test_a_forked_process_changes_nothing(
    mixed_folder: Path, monkeypatch: pytest.MonkeyPatch, forks: list[int]
) -> None:
    """Manifests, errors, warnings and counts are the same in the same order, with their places."""
    forked = _describe(load_manifests([str(mixed_folder)], may_fork=True))
    assert forks == [28]
    monkeypatch.setattr(loader, "start_parsing", lambda files: None)
    assert forked == _describe(load_manifests([str(mixed_folder)], may_fork=True))
    assert len(load_manifests([str(mixed_folder)], may_fork=True).manifests) == 5 * 4 + 4


@pytest.mark.parametrize("way", ["killed", "raised", "ended", "interrupted", "no status"])
def test_files_of_a_process_that_fails_are_parsed_here(
    mixed_folder: Path, monkeypatch: pytest.MonkeyPatch, forks: list[int], way: str
) -> None:
    """Whatever ends the process, the result is that of one process."""
    here = os.getpid()
    parse = loader._parse_valid

    def fail(*given: object) -> object:
        if os.getpid() == here:
            return parse(*given)  # type: ignore[arg-type]
        if way == "killed":
            os.kill(os.getpid(), 9)
        if way == "interrupted":
            os.kill(os.getpid(), signal.SIGINT)
        if way == "no status":
            return parse(*given)  # type: ignore[arg-type]
        if way == "raised":
            raise KeyboardInterrupt
        os._exit(1)

    def find_no_status(process: int, _: int) -> tuple[int, int]:
        os.waitid(os.P_PID, process, os.WEXITED)
        raise ChildProcessError(10, "No child processes")

    monkeypatch.setattr(loader, "_parse_valid", fail)
    if way == "no status":
        monkeypatch.setattr(os, "waitpid", find_no_status)
    handlers = signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    forked = _describe(load_manifests([str(mixed_folder)], may_fork=True))
    assert forks == [28]
    assert handlers == (signal.getsignal(signal.SIGINT), signal.pthread_sigmask(signal.SIG_BLOCK, ()))
    monkeypatch.setattr(loader, "start_parsing", lambda files: None)
    assert forked == _describe(load_manifests([str(mixed_folder)], may_fork=True))


@pytest.mark.parametrize(
    "reason", ["few files", "one processor", "threads", "another system", "no process", "not allowed"]
)
def test_nothing_is_forked_where_it_gains_nothing_or_is_not_safe(
    mixed_folder: Path, monkeypatch: pytest.MonkeyPatch, forks: list[int], reason: str
) -> None:
    """The files are parsed here then, and so they are in a process that imports topiarist for its own work."""
    match reason:
        case "few files":
            monkeypatch.setattr(loader, "MIN_FILES", 29)
        case "one processor":
            monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})
        case "threads":
            monkeypatch.setattr(threading, "active_count", lambda: 2)
        case "another system":
            monkeypatch.setattr(sys, "platform", "darwin")
        case "no process":

            def refuse() -> int:
                raise BlockingIOError(11, "Resource temporarily unavailable")

            monkeypatch.setattr(os, "fork", refuse)
    assert len(load_manifests([str(mixed_folder)], may_fork=reason != "not allowed").manifests) == 24
    assert forks == []


@pytest.mark.slow
def test_large_files_are_parsed_before_all_are_read(
    mixed_folder: Path, monkeypatch: pytest.MonkeyPatch, forks: list[int]
) -> None:
    """What waits is bounded, and the result does not depend on it."""
    whole = _describe(load_manifests([str(mixed_folder)], may_fork=True))
    monkeypatch.setattr(loader, "_MAX_WAITING_BYTES", 600)
    forks.clear()
    assert _describe(load_manifests([str(mixed_folder)], may_fork=True)) == whole
    assert len(forks) > 5
