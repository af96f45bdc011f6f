"""Imports of other tools' files: every field of an input is mapped to a document, or named as left out."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from topiarist.adapters.manifests.diagnose import parse_texts, read_foreign_files
from topiarist.adapters.manifests.source import File
from topiarist.errors import Diagnostic
from topiarist.importers.formats import FORMATS, import_documents
from topiarist.importers.topic import ForeignDocument
from topiarist.schema.check import check

EXAMPLES = Path(__file__).parents[2] / "examples" / "import"
FILES = {
    "asyncapi": ["version-2.yaml", "version-3.yaml"],
    "cfk": ["topics.yaml"],
    "jikkou": ["topics.yaml"],
    "julie": ["descriptor.yaml", "plans.yaml"],
    "kafka-gitops": ["gitops.yaml", "topics.yaml"],
    "koperator": ["topics.yaml"],
    "strimzi": ["topics.yaml"],
    "terraform": ["state.json"],
    "topicctl": ["topics.yaml"],
}
UNKNOWN = "planted-unknown-field"


def _read(name: str) -> list[ForeignDocument]:
    found: list[ForeignDocument] = []
    for path in FILES[name]:
        found += _parse((EXAMPLES / name / path).read_bytes())
    return found


def _parse(data: bytes) -> list[ForeignDocument]:
    documents = [*parse_texts(File("x.yaml", data))]
    assert not any(isinstance(each, Diagnostic) for each in documents)
    return [each for each in documents if isinstance(each, ForeignDocument)]


def _mappings(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict):
        yield path
        for key, each in value.items():
            yield from _mappings(each, (*path, key))
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _mappings(each, (*path, index))


def _mentions(result: Any, text: str) -> bool:
    return text in str(result.documents) or any(text in str(each) for each in result.left_out)


PLACES = [
    (name, number, path)
    for name in FORMATS
    for number, document in enumerate(_read(name))
    for path in _mappings(document.body)
    # A state of Terraform has much that is no topic, and may be secret: only the values of topics are shown.
    if name != "terraform" or path[-3:] == ("resources", 0, "values")
]


@pytest.mark.parametrize(("name", "number", "path"), PLACES)
def test_a_field_that_no_importer_knows_is_named(name: str, number: int, path: tuple[Any, ...]) -> None:
    """Whatever mapping it is in: it or a mapping above is named, or it is a config or a label of a document."""
    documents = copy.deepcopy(_read(name))
    inner = documents[number].body
    for step in path:
        inner = inner[step]
    inner[UNKNOWN] = UNKNOWN
    result = import_documents(name, documents, {"": "prod"})
    above = [".".join(map(str, path[:length])) for length in range(len(path) + 1)]
    fields = {each.field for each in (*result.left_out, *result.passed_over)}
    assert _mentions(result, UNKNOWN) or not fields.isdisjoint(above)


@pytest.mark.parametrize("name", FORMATS)
def test_every_document_is_valid(name: str) -> None:
    """Topics that a manifest cannot describe are left out, so that the result validates."""
    result = import_documents(name, _read(name), {"": "prod"})
    assert result.documents
    assert not any(map(check, result.documents))
    assert {body["metadata"]["name"] for body in result.documents} == {
        *{b["metadata"]["name"] for b in result.documents}
    }
    assert len({body["metadata"]["name"] for body in result.documents}) == len(result.documents)


KEYS = [
    "a",
    "b",
    "meta",
    "metadata",
    "spec",
    "name",
    "kind",
    "topics",
    "projects",
    "settings",
    "config",
    "configs",
    "values",
    "root_module",
    "resources",
    "items",
    "asyncapi",
    "channels",
    "servers",
    "bindings",
    "kafka",
    "topicConfiguration",
    "$ref",
    "partitions",
    "replicas",
    "placement",
    "plans",
    "data",
]
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["3.0.0", "2.6.0", "#/channels/a", "#/a"])
    | st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)


@given(st.sampled_from(sorted(FORMATS)), st.lists(JSON, max_size=3))
@example("asyncapi", [{"asyncapi": "2.6.0", "servers": {"a": "kafka"}, "channels": {"a": {"servers": "a"}, "b": 1}}])
@example(
    "terraform", [{"values": {"root_module": {"resources": [{"type": "aws_msk_topic", "values": {"configs": []}}]}}}]
)
def test_no_input_ends_in_an_exception(name: str, bodies: list[Any]) -> None:
    """Documents of any shape are left out, and what is imported is valid."""
    documents = [each for body in bodies for each in _parse(json.dumps(body).encode())]
    result = import_documents(name, documents)
    assert not any(map(check, result.documents))


def test_secrets_of_other_resources_are_never_shown() -> None:
    """A state of Terraform has passwords in outputs and resources, and in the topics of Confluent Cloud."""
    for file in ("state.json", "planned.json"):
        data = (EXAMPLES / "terraform" / file).read_bytes()
        assert b"planted-Hedge15" in data
        assert not _mentions(import_documents("terraform", _parse(data)), "planted-Hedge15")


def test_files_are_read_with_lines_and_errors_have_places(tmp_path: Path) -> None:
    """Anchors are allowed; an endless alias, broken YAML and binary data are errors."""
    (tmp_path / "a.yaml").write_text("x: &x {a: 1}\ny: *x\n---\n---\n- 5\n")
    (tmp_path / "b.yaml").write_text("&x [*x]\n")
    (tmp_path / "c.yaml").write_bytes(b"a: \xff\n")
    (tmp_path / "d.yaml").write_text("a: [1,\n")
    (tmp_path / "e.yaml").write_text(
        "a: &a [1,1,1,1,1,1,1,1,1]\n"
        + "".join(f"{chr(98 + n)}: &{chr(98 + n)} [{','.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(8))
    )
    (tmp_path / "f.yaml").write_text("[" * 250 + "]" * 250)
    first, second, *errors = read_foreign_files([str(tmp_path)])
    assert isinstance(first, ForeignDocument)
    assert (first.body, first.line_of(("y", "a")), first.line_of(("z",))) == ({"x": {"a": "1"}, "y": {"a": "1"}}, 1, 1)
    assert isinstance(second, ForeignDocument)
    assert second.line_of((0,)) == 5
    assert [isinstance(each, Diagnostic) and Path(each.location.file).name for each in errors] == [
        "b.yaml",
        "c.yaml",
        "d.yaml",
        "e.yaml",
        "f.yaml",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: *x", "found the alias *x"),
        ("a: !Ref x", "found the tag !Ref"),
        ("a: !!binary eA==", "found the tag !!binary"),
        ("? [a]\n: b", "found a list or a mapping as a key"),
        ("'1.10': a\n1.10: b", "found the field 1.10 twice"),
        ("<<: {a: 1}\n<<: {b: 1}", "found the field << twice"),
    ],
)
def test_what_has_no_one_meaning_is_an_error(text: str, message: str) -> None:
    """Nothing of such a document is read; the next document of the file is."""
    found = [*parse_texts(File("x.yaml", f"{text}\n---\nb\n".encode()))]
    assert str(found[0]).partition(": ")[2].startswith(message)
    assert [each.body for each in found if isinstance(each, ForeignDocument)] == ["b"]


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("{a: !!str null, b: ! 'x', c: !!int '3', d: !!null ''}", {"a": "null", "b": "x", "c": "3", "d": ""}),
        ("{a: null, b: ~, c: , d: NULL, e: '', f: \"~\"}", dict.fromkeys("abcd") | {"e": "", "f": "~"}),
        (
            "a: &a {x: 1, y: 1}\nb: {<<: [{x: 2}, *a], z: 3}",
            {"a": {"x": "1", "y": "1"}, "b": {"x": "2", "y": "1", "z": "3"}},
        ),
        ("%YAML 1.2\n---\n{true: 0o17, 'no': 1e3}", {"true": "0o17", "no": "1e3"}),
    ],
)
def test_scalars_are_texts(text: str, body: Any) -> None:
    """Words for no value are None unless they have quotes or a tag; merge keys are resolved, earlier mappings first."""
    assert [each.body for each in _parse(text.encode())] == [body]
