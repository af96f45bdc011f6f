"""SARIF output: valid by the SARIF schema, with rules, regions and stable fingerprints."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given

from support.checkout import ROOT
from topiarist import __version__
from topiarist.errors import Diagnostic, Location, Reason
from topiarist.output.ci import to_sarif
from unit.output.markdown.test_escape import outside

SCHEMA = json.loads((ROOT / "tests" / "third-party" / "sarif-2.1.0.json").read_text())
JUDGE = jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)

ZERO = Diagnostic(Location("/repo/topics/a b.yaml", 9, 15), "partitions: found 0, wanted 1", "leave the line out")
WHOLE = Diagnostic(Location("topics/b.yaml"), "cannot be read", "", Reason.UNREADABLE.value)


def log(*found: Diagnostic, warnings: tuple[Diagnostic, ...] = (), more: int = 0) -> dict[str, Any]:
    """Return the only run of a log, after validation by the schema."""
    content = json.loads(to_sarif(found, warnings, suppressed_count=more, root="/repo"))
    JUDGE.validate(content)
    (run,) = content["runs"]
    assert isinstance(run, dict)
    return run


def test_each_error_is_a_result_at_its_region() -> None:
    """Each result has rule, level, text, the file as git names it, line and column; an error of a whole file has no
    region.
    """
    run = log(ZERO, WHOLE, warnings=(ZERO._replace(hint=""),))
    assert [(result["ruleId"], result["level"], result["message"]["text"]) for result in run["results"]] == [
        ("InvalidManifest", "error", "partitions: found 0, wanted 1\nleave the line out"),
        ("Unreadable", "error", "cannot be read"),
        ("Doubtful", "warning", "partitions: found 0, wanted 1"),
    ]
    assert [result["locations"][0]["physicalLocation"] for result in run["results"][:2]] == [
        {
            "artifactLocation": {"uri": "topics/a%20b.yaml", "uriBaseId": "%SRCROOT%"},
            "region": {"startLine": 9, "startColumn": 15},
        },
        {"artifactLocation": {"uri": "topics/b.yaml", "uriBaseId": "%SRCROOT%"}},
    ]


def test_a_policys_word_is_a_rule_of_its_own() -> None:
    """Denials of a policy, warnings of a policy and manifest errors have different rules."""
    denied, warned = (ZERO._replace(reason=word) for word in ("PolicyDenied", "PolicyWarning"))
    run = log(denied, warnings=(warned,))
    assert [(result["ruleId"], result["level"]) for result in run["results"]] == [
        ("PolicyDenied", "error"),
        ("PolicyWarning", "warning"),
    ]
    assert all("policy" in rule["shortDescription"]["text"] for rule in run["tool"]["driver"]["rules"])


def test_each_rule_is_described_once() -> None:
    """The log lists each violated rule once, and each result refers to its rule."""
    run = log(ZERO, WHOLE, ZERO)
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["InvalidManifest", "Unreadable"]
    assert [rules[result["ruleIndex"]]["id"] for result in run["results"]] == [r["ruleId"] for r in run["results"]]
    assert log(ZERO._replace(reason="Denied"))["tool"]["driver"]["rules"] == [
        {"id": "Denied", "shortDescription": {"text": "A manifest that violates a rule."}}
    ]


def test_a_fingerprint_does_not_depend_on_the_line() -> None:
    """Added lines do not change a fingerprint; another file, message or rule does, and a duplicate error has its
    own.
    """

    def prints(*found: Diagnostic) -> list[str]:
        return [result["partialFingerprints"]["topiarist/v1"] for result in log(*found)["results"]]

    (first,) = prints(ZERO)
    # A release that computes another one makes every alert of a repository new.
    assert first == "616bf1f9a738b1679d35621e730a308a89d0ed84b311334e3481858fd775f277"
    assert prints(ZERO._replace(location=ZERO.location._replace(line=99, column=1))) == [first]
    assert prints(ZERO._replace(location=ZERO.location._replace(file="topics/a b.yaml"))) == [first]
    other, moved = (ZERO._replace(message=f"claimed by a.yaml:{n}:1, see line {n}") for n in (6, 12))
    assert prints(other) == prints(moved)
    others = (ZERO._replace(message="x"), ZERO._replace(reason="X"), ZERO._replace(location=Location("x", 9, 15)))
    assert len({first, *prints(*others), *prints(ZERO, ZERO)}) == 5


@pytest.mark.parametrize(
    ("file", "name"), [("/home-of/x/secret.yaml", "secret.yaml"), ("../a.yaml", "a.yaml"), ("<stdin>", "<stdin>")]
)
def test_no_path_of_the_machine_is_in_it(file: str, name: str) -> None:
    """The log names a file outside the working folder without its folders."""
    run = log(Diagnostic(Location(file, 1, 1), "found x"))
    assert run["results"][0]["locations"] == [{"message": {"text": name}}]
    assert "/repo" not in json.dumps(run)


def test_nothing_wrong_is_a_log_without_results() -> None:
    """A run without errors is a log without results, so that code scanning closes earlier results."""
    assert log()["results"] == []


def test_what_was_only_counted_is_said() -> None:
    """The log states that there are more errors than results."""
    (invocation,) = log(ZERO, more=9_900)["invocations"]
    (note,) = invocation["toolExecutionNotifications"]
    assert note["message"]["text"] == "9,900 more errors were counted and not kept."


def test_a_message_holds_neither_links_nor_placeholders() -> None:
    """Links and placeholders in a SARIF message are escaped to plain text."""
    text = log(ZERO._replace(message="[a](b) {0} {env: prod}", hint=""))["results"][0]["message"]["text"]
    assert text == "\\[a\\](b) {{0}} {env: prod}"
    assert log(ZERO._replace(message="[1,2]", hint=""))["results"][0]["message"]["text"] == "[1,2]"


@given(outside, outside)
def test_every_log_is_valid(file: str, message: str) -> None:
    """Every log is valid for any file name and message."""
    log(Diagnostic(Location(file or "x", 1, 1), message or "x"))


def test_a_log_says_how_it_is_to_be_read() -> None:
    """The log has the version of its format, the tool, the unit of its columns and the base of its paths."""
    content = json.loads(to_sarif([ZERO], root="/repo"))
    assert content["version"] == "2.1.0"
    (run,) = content["runs"]
    assert (run["columnKind"], [*run["originalUriBaseIds"]]) == ("unicodeCodePoints", ["%SRCROOT%"])
    assert (run["tool"]["driver"]["name"], run["tool"]["driver"]["version"]) == ("topiarist", __version__)
    assert "invocations" not in run
    counted = log(ZERO, more=1)["invocations"][0]
    assert counted["executionSuccessful"]
    assert counted["toolExecutionNotifications"][0]["level"] == "warning"
