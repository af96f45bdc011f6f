"""A strict reader of JUnit reports: elements, attributes and counts as in Jenkins' ``junit-10.xsd``."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple
from xml.etree import ElementTree as ET

OUTCOMES = ("failure", "error", "skipped")
_RESULT = frozenset({"type", "message"})
ATTRIBUTES = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "id", "package"},
    "testcase": {"name", "classname", "time", "group"},
    **dict.fromkeys(OUTCOMES, _RESULT),
    "system-out": frozenset(),
}
"""The attributes of each element that is allowed."""

CHILDREN = {"testsuites": {"testsuite"}, "testsuite": {"testcase"}, "testcase": {*OUTCOMES, "system-out"}}
"""The elements that may be in each element; in all others there is only text."""


class JunitCase(NamedTuple):
    """A test case: ``outcome`` is empty if it passed, ``text`` is what a CI system shows of it."""

    suite: str
    name: str
    outcome: str = ""
    reason: str = ""
    text: str = ""


def read_junit(text: str) -> list[JunitCase]:
    """Return the test cases of a report, after a check of its form; each has one name, and one outcome at most."""
    root = ET.fromstring(text.encode())
    assert root.tag == "testsuites"
    for element in root.iter():
        assert {*element.keys()} <= ATTRIBUTES[element.tag], element.tag
        assert {child.tag for child in element} <= CHILDREN.get(element.tag, set()), element.tag
        assert not len(element) or not (element.text or "").strip(), element.tag
    found = []
    for suite in root:
        cases = [_read_case(case) for case in suite]
        outcomes = Counter(case.outcome for case in cases)
        assert {case.suite for case in cases} == {suite.get("name")}
        counted = [int(suite.get(name, "")) for name in ("tests", "failures", "errors", "skipped")]
        assert counted == [len(cases), *(outcomes[outcome] for outcome in OUTCOMES)]
        found += cases
    names = Counter((case.suite, case.name) for case in found)
    # GitLab ignores a second test case of the same name, and Jenkins fails without any test case.
    assert names
    assert max(names.values()) == 1, names.most_common(1)
    return found


def _read_case(case: ET.Element) -> JunitCase:
    suite, name = case.get("classname", ""), case.get("name", "")
    assert suite
    assert name
    assert len(case) <= 1
    for child in case:
        assert child.text
        if child.tag == "system-out":
            return JunitCase(suite, name, text=child.text)
        assert child.text.startswith(child.get("message", "-")), "GitLab shows the text only"
        return JunitCase(suite, name, child.tag, child.get("type", ""), child.text)
    return JunitCase(suite, name)
