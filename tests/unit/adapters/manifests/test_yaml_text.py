"""The strict loader: one meaning for every scalar, only plain data, and documents or errors for any bytes."""

from __future__ import annotations

import io
import re
from decimal import Decimal
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from topiarist.adapters.manifests import diagnose
from topiarist.adapters.manifests.diagnose import DiagnosedDocument
from topiarist.adapters.manifests.loader import load_manifests
from topiarist.adapters.manifests.source import MAX_DEPTH, File
from topiarist.adapters.manifests.yaml_text import (
    AmbiguousScalar,
    NeedsDiagnosis,
    ScalarCache,
    StrictParser,
    dump_documents,
    parse_plain_key,
    parse_plain_scalar,
)
from topiarist.errors import Diagnostic

HEAD = "apiVersion: topiarist.dev/v1\nkind: Topic\nmetadata: {name: a}\nspec:\n  config:\n"

SCALARISH = st.one_of(
    st.text(alphabet="0123456789abcdefxoXOB_+-.:eEpP", min_size=1, max_size=12),
    st.from_regex(r"[-+]?[0-9_]{0,4}[.:]?[0-9_]{0,4}([eE][-+]?[0-9]{1,2})?", fullmatch=True),
    st.from_regex(
        r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ][0-9]{1,2}:[0-9]{2}:[0-9]{2}(\.[0-9]{0,3})?Z?)?", fullmatch=True
    ),
    st.sampled_from(
        ["yes", "No", "ON", "off", "y", "N", "true", "True", "null", "~", "", ".inf", "-.INF", ".nan", "="]
    ),
    st.from_regex(r"[A-Za-z][A-Za-z0-9._-]{0,8}", fullmatch=True),
)


def fast(data: bytes) -> list[Any]:
    """Return the bodies that the fast pass reads from a text, or raise ``NeedsDiagnosis``."""
    return [parsed.body for parsed in StrictParser().parse_documents(File("f.yaml", data))]


def core_schema(text: str) -> object:
    """Return the value of an unquoted scalar in the core schema of YAML 1.2."""
    if re.fullmatch(r"null|Null|NULL|~|", text):
        return None
    if re.fullmatch(r"true|True|TRUE|false|False|FALSE", text):
        return text.lower() == "true"
    if re.fullmatch(r"[-+]?[0-9]+", text):
        return int(text)
    for prefix, base in (("0o", 8), ("0x", 16)):
        if re.fullmatch(prefix + ("[0-7]+" if base == 8 else "[0-9a-fA-F]+"), text):
            return int(text[2:], base)
    if re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", text):
        return float(text)
    if re.fullmatch(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", text):
        return float(text.replace(".", "", 1))
    return text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("0", 0),
        ("-1", -1),
        ("604800000", 604800000),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0.5", Decimal("0.5")),
        ("0.50", Decimal("0.50")),
        ("-0.001", Decimal("-0.001")),
        ("compact,delete", "compact,delete"),
        ("2.8-IV1", "2.8-IV1"),
        ("1.2.3", "1.2.3"),
        ("10.0.0.1:2181", "10.0.0.1:2181"),
        ("zk1:2181,zk2:2181/kafka", "zk1:2181,zk2:2181/kafka"),
        ("2001-01-01-orders", "2001-01-01-orders"),
        ("1h", "1h"),
        ("_1", "_1"),
        ("yEs", "yEs"),
        ("inf", "inf"),
        ("<<<", "<<<"),
    ],
)
def test_reads_what_has_one_meaning(text: str, value: object) -> None:
    """Text, plain numbers and the two booleans need no quotes, and numbers keep every digit."""
    found = parse_plain_scalar(text)
    assert (found, type(found), str(found)) == (value, type(value), str(value))


@pytest.mark.parametrize(
    "text",
    [
        *("yes", "Yes", "YES", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF", "y", "Y", "n", "N"),
        *("True", "TRUE", "False", "FALSE", "null", "Null", "NULL", "~", "=", "<<", ""),
        *("010", "0o17", "0O17", "0x10", "0X1F", "0b1", "0B1", "0b-1", "0o-7", "-0x1F", "0x1p-2", "0x_1"),
        *("1_000", "1_", "+1", "-0", "-0.0", "007", "08", "00.5", ".5", "5.", "._5", "+.5", "+1.5", "."),
        *("1e3", "1E3", "1.5e3", "1.5e+3", "1e-3", ".inf", "-.INF", "+.Inf", ".nan", ".NaN", "+inf", "-inf"),
        *("12:30", "12:30:45", "1:2", "01:30", "190:20:30.15"),
        *("2001-01-01", "2001-1-1", "2001-12-14t21:59:43.10-05:00", "2001-12-14 21:59:43", "2001-12-14 21:59:43.1 -5"),
        *("9223372036854775808", "-9223372036854775809", "9" * 5000),
        *("0.12345678901234567890", "123456789012345678.1", "0." + "9" * 5000),
    ],
)
def test_refuses_what_yaml_versions_read_differently(text: str) -> None:
    """Scalars that YAML 1.1, YAML 1.2 or kubectl read differently are refused with a hint to quote them."""
    with pytest.raises(AmbiguousScalar) as caught:
        parse_plain_scalar(text)
    assert "quote it" in caught.value.hint or caught.value.message == "found no value"


@pytest.mark.parametrize(("key", "accepted"), [("1", True), ("true", True), ("a", True), ("1.5", False), ("y", False)])
def test_keys_are_text(key: str, accepted: bool) -> None:
    """A key is its text; a fraction is refused as a key, because kubectl shortens 1.50."""
    if accepted:
        assert parse_plain_key(key) == key
    else:
        with pytest.raises(AmbiguousScalar):
            parse_plain_key(key)


@given(SCALARISH)
@example("0.1")
@example("1__0")
def test_an_accepted_scalar_means_the_same_to_every_version(text: str) -> None:
    """PyYAML (YAML 1.1) and the core schema of YAML 1.2 read every accepted scalar as topiarist does."""
    try:
        ours = parse_plain_scalar(text)
    except AmbiguousScalar:
        return
    old = yaml.SafeLoader.yaml_implicit_resolvers
    tags = [tag for tag, pattern in (*old.get(text[:1], ()), *old.get(None, ())) if pattern.match(text)]
    kinds = {"tag:yaml.org,2002:int": int, "tag:yaml.org,2002:float": Decimal, "tag:yaml.org,2002:bool": bool}
    assert type(ours) is (kinds[tags[0]] if tags else str)
    theirs = core_schema(text)
    assert type(theirs) is (float if isinstance(ours, Decimal) else type(ours))
    assert theirs == (float(ours) if isinstance(ours, Decimal) else ours)


def test_remembered_meanings_are_bounded() -> None:
    """The scalar cache has a maximum size, so that a hostile file cannot fill the memory."""
    meanings = ScalarCache(parse_plain_scalar)
    meanings["x" * (ScalarCache.MAX_TEXT_LENGTH + 1)]
    for number in range(ScalarCache.MAX_SIZE + 10):
        meanings[f"t{number}"]
    assert len(meanings) == ScalarCache.MAX_SIZE


@pytest.mark.parametrize(
    "text",
    [
        "a: &x 1",
        "a: *x",
        "a: !!str 1",
        "a: ! 1",
        "! a: 1",
        'a: ! "yes"',
        "&x {a: 1}",
        "a: !!python/object/apply:os.system [id]",
        "<<: {a: 1}",
        "a: 1\na: 2",
        '1: a\n"1": b',
        "? [a]\n: b",
        "%YAML 1.1\n---\na: 1",
        "a:",
        "- ",
        'a: "\\0"',
        'a: "\\x7f"',
        'a: "\\N"',
        'a: "\\ud800"',
        "a: \x07",
        "a: \u2028b",
        "# \x85b: c",
        "a: \ufeffb",
        "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
        "a: b: c",
        "a: [1",
        'a: "b',
        "\ta: b",
        "a: b\n...\nc: d",
    ],
)
def test_refuses_all_but_plain_data(text: str) -> None:
    """Anchors, aliases, tags, merge keys, duplicate keys, directives and control characters are refused.

    The thorough pass reports each of them.
    """
    data = text.encode("utf-8", "surrogatepass")
    with pytest.raises(NeedsDiagnosis):
        fast(data)
    ours, *found = diagnose.diagnose_documents(File("f.yaml", b"apiVersion: topiarist.dev/v1\n---\n" + data))
    assert any(isinstance(document, Diagnostic) or document.issues for document in (ours, *found))


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("a: b", {"a": "b"}),
        ("\ufeffa: b", {"a": "b"}),
        ("a:\tb\r\nc: 'd'\r\n", {"a": "b", "c": "d"}),
        ('{"a": [1, "x", true, 0.5, {}]}', {"a": [1, "x", True, Decimal("0.5"), {}]}),
        ("a: |\n  b\n  c\n", {"a": "b\nc\n"}),
        ('a: "\\t\\u2028é😀"', {"a": "\t\u2028é😀"}),
        ("ä: ü", {"ä": "ü"}),
        ("[" * MAX_DEPTH + "]" * MAX_DEPTH, None),
        ("# nothing\n", None),
    ],
)
def test_reads_plain_documents(text: str, body: object) -> None:
    """Block and flow style, quotes, a byte order mark, tabs and CRLF are accepted."""
    found = fast(text.encode())
    assert body is None or found == [body]
    assert not any(
        isinstance(document, DiagnosedDocument) and document.issues
        for document in diagnose.diagnose_documents(File("f", text.encode()))
    )


YAMLISH = st.lists(
    st.one_of(
        st.sampled_from(
            [*"abcy01&*!%@|>'\"[]{},:-?#~ \n\t.", "\n  ", ": ", "\n- ", "\n---\n", "\n...\n", "\u2028", "\x07"]
        ),
        st.sampled_from(
            ["apiVersion: topiarist.dev/v1\n", "kind: Topic\n", "spec: {partitions: 1}\n", "metadata: {name: a}\n"]
        ),
    ),
    max_size=40,
).map("".join)


@given(YAMLISH)
@example("a: b\n---\n---\nc: ! d")
@example("? a")
def test_the_fast_pass_and_the_thorough_one_agree(text: str) -> None:
    """The fast pass accepts a file exactly if the thorough pass finds no error, and both read the same values."""
    file = File("f.yaml", text.encode())
    judged = list(diagnose.diagnose_documents(file))
    clean = all(isinstance(document, DiagnosedDocument) and not document.issues for document in judged)
    try:
        bodies = fast(file.data)
    except NeedsDiagnosis:
        # Foreign documents may contain characters that only some readers treat as line breaks.
        assert not clean or "\u2028" in text
        return
    assert clean
    assert bodies == [document.body for document in judged if isinstance(document, DiagnosedDocument)]


@given(st.one_of(st.binary(max_size=200), YAMLISH.map(str.encode), YAMLISH.map(lambda text: (HEAD + text).encode())))
def test_any_bytes_give_documents_or_located_errors(data: bytes) -> None:
    """No content of a file raises an exception, and every error has a location in the file."""
    loaded = load_manifests(["-"], io.BytesIO(data))
    lines = re.split("\r\n|[\r\n\x85\u2028\u2029]", data.decode("utf-8", "replace"))
    for diagnostic in loaded.errors:
        assert diagnostic.location.file == "<stdin>"
        assert 1 <= diagnostic.location.line <= len(lines) + 1
        assert diagnostic.location.column >= 1


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=12)

PLAIN = st.recursive(
    st.one_of(
        TEXT,
        SCALARISH,
        st.integers(-(2**63), 2**63 - 1),
        st.booleans(),
        st.decimals(-1000, 1000, allow_nan=False, places=3).filter(lambda value: value or not value.is_signed()),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SCALARISH, inner, max_size=4),
    max_leaves=12,
)


@given(
    st.lists(st.dictionaries(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])), PLAIN), max_size=3)
)
def test_what_is_dumped_is_read_back(documents: list[dict[str, Any]]) -> None:
    """Documents that topiarist writes are read back equal by its strict loader and by PyYAML."""
    text = dump_documents(documents)
    assert fast(text.encode()) == documents
    assert list(yaml.load_all(text, yaml.CSafeLoader)) == floats(documents)


def floats(value: Any) -> Any:
    """Return the value with a float for each fraction, as other YAML readers return it."""
    if isinstance(value, dict):
        return {key: floats(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [floats(inner) for inner in value]
    return float(value) if isinstance(value, Decimal) else value


@pytest.mark.parametrize(
    "bomb", ["[" * 100_000, "{a: " * 50_000, "- " * 100_000, "a: &a [x,x]\nb: &b [*a,*a]\n" * 10_000]
)
def test_bombs_end_in_a_error(bomb: str) -> None:
    """Deep nesting neither crashes the process nor triggers libyaml's quadratic time, and aliases are not expanded."""
    assert load_manifests(["-"], io.BytesIO((HEAD + "    a:\n      " + bomb).encode())).errors
    assert load_manifests(["-"], io.BytesIO(bomb.encode())).errors
