"""The summary of a drift report as Markdown: each sentence and table, and what is left out without a number."""

from __future__ import annotations

from typing import Any

import pytest

from topiarist.drift.outputs.folder import format_summary

EMPTY: dict[str, Any] = {
    "asOf": "2026-01-31T12:00:00Z",
    "previous": None,
    "clusters": {"declared": 1, "compared": 1, "unknown": 0},
    "topics": {"compared": 1, "inSync": 1},
    "findings": {"total": 0, "new": 0, "worse": 0, "resolved": 0, "notEvaluated": 0, "byClass": {}, "byReason": {}},
    "byCluster": [],
    "incomplete": [],
    "bySeverity": {},
    "causes": {"total": 0, "first": []},
    "byResponsible": [],
    "accepted": {"total": 0},
    "exceptions": {"unmatched": []},
    "oldestFinding": None,
    "timeToRepair": None,
    "crossClusterDifferences": {"total": 0, "topics": []},
    "unbalanced": [],
    "inputs": {"broken": 0, "superseded": [], "unknownClusters": []},
}
"""The summary of a report without findings."""

FINDINGS = {"total": 1234, "new": 1100, "worse": 1, "resolved": 2200, "notEvaluated": 4}
CLASSES = {"invalid": 3, "config": 6, "missing": 1225}
REASONS = {"Unmanaged": 5, "NotOwned": 1600, "Ignored": 5}
OLDEST = {"firstSeen": "2026-01-01T00:00:00Z", "cluster": "eu", "topic": "or|ders", "class": "config"}

FULL = EMPTY | {
    "previous": "2026-01-30T12:00:00Z",
    "clusters": {"declared": 2000, "compared": 1999, "unknown": 1},
    "topics": {"compared": 50_000, "inSync": 48_000},
    "findings": FINDINGS | {"byClass": CLASSES, "byReason": REASONS},
    "byCluster": [
        {"cluster": "calm", "findings": 0, "byClass": {}, "problem": None},
        {"cluster": "eu", "findings": 2, "byClass": {"config": 2}, "problem": None},
        {"cluster": "us|1", "findings": 1229, "byClass": {"missing": 1225, "config": 4}, "problem": None},
        {"cluster": "ap", "findings": 2, "byClass": {"config": 2}, "problem": None},
        {"cluster": "edge", "findings": 0, "byClass": {}, "problem": "it has *no* snapshot"},
    ],
    "incomplete": [{"cluster": "eu", "file": "eu.jsonl", "rows": 2, "notJudged": 3, "message": "line 7: *x*"}],
    "bySeverity": {"Critical": 1225, "Low": 9},
    "causes": {
        "total": 1200,
        "first": [
            {
                **{"severity": "Critical", "effectReason": "messages older than 1 minute will be deleted"},
                **{"topics": ["or|ders"], "topicCount": 1, "clusters": [*"abcdef"], "clusterCount": 102},
                "differences": [
                    {"class": "config", "field": "config.retention.ms", "expected": "604800000", "actual": "60000"},
                    {"class": "unmanaged", "field": "config.segment.bytes", "expected": None, "actual": "1024"},
                    *({"class": "fault", "field": name, "expected": None, "actual": None} for name in "abc"),
                ],
                "findings": 1020,
            },
            *(
                {
                    **{"severity": severity, "effectReason": "others *wait*", "findings": 1},
                    **{"topics": [topic], "topicCount": 1, "clusters": ["us"], "clusterCount": 1},
                    "differences": [{"class": "stuck", "field": "", "expected": None, "actual": None}],
                }
                for severity, topic in (("Critical", ""), *(("Critical", f"t{number}") for number in range(70)))
            ),
        ],
    },
    "byResponsible": [
        {"responsible": "bil|ling", "findings": 1230, "new": 1100, "bySeverity": {"Critical": 1225, "Low": 5}},
        {"responsible": None, "findings": 4, "new": 0, "bySeverity": {"Low": 4}},
    ],
    "accepted": {"total": 7},
    "exceptions": {"unmatched": [{"name": "a"}, {"name": "b"}]},
    "oldestFinding": OLDEST,
    "timeToRepair": {"days": 30, "resolved": 12, "medianSeconds": 7200},
    "crossClusterDifferences": {
        "total": 2001,
        "topics": [
            {
                "topic": "or|ders",
                "field": "config.retention.ms",
                "values": [{"value": value, "number": number} for value, number in (("5", 1500), (None, 1))],
            },
            {
                "topic": "users",
                "field": "partitions",
                "values": [{"value": str(number), "number": 1} for number in range(6)],
            },
        ],
    },
    "unbalanced": [
        {
            "cluster": "eu",
            "load": "leaders",
            "mean": 1050.5,
            "most": {"broker": 3, "partitions": 3100},
            "least": {"broker": 4, "partitions": 2},
        }
    ],
    "inputs": {"broken": 2, "superseded": [{}, {}], "unknownClusters": [{}]},
}
"""A summary in which everything has a number."""

_ROWS = [f"| Critical | `t{number}` | `us` | stuck | others `*wait*` | 1 |" for number in range(8)]
_NAMES = [f"`t{number}`" for number in sorted(range(8, 70), key=str)]

TEXT = """\
### Drift: 1,234 findings: 1,100 new, 1 worse, 2,200 resolved

1,999 of 2,000 clusters compared, as of `2026-01-31T12:00:00Z`; 48,000 of 50,000 topics match their manifests. \
Findings by severity: 1,225 critical, 9 low. \
The oldest, config of `or|ders` on `eu`, was first seen at `2026-01-01T00:00:00Z`. \
Half of the 12 findings that were resolved in the last 30 days stayed for 2 hours or less. \
7 differences accepted by exceptions or the baseline. 2 exceptions without any difference. \
3 invalid manifests could not be compared. 4 earlier findings could not be evaluated again.

The first to look at:

| severity | topics | clusters | differences | effect | findings |
| :-- | :-- | :-- | :-- | :-- | :-- |
| Critical | `or`&#124;`ders` | `a`, `b`, `c`, `d` and 98 more | `config.retention.ms` `60000` (1 minute), wanted \
`604800000` (7 days); `config.segment.bytes` `1024` (1 KiB); fault `a`; fault `b` and 1 more | \
messages older than 1 minute will be deleted | 1,020 |
| Critical | the whole cluster | `us` | stuck | others `*wait*` | 1 |
{rows}
| and 1,190 more |  |  |  |  |  |

Other topics with critical findings: {names} and 12 more.

| cluster | missing | config | invalid |
| :-- | --: | --: | --: |
| `us`&#124;`1` | 1,225 | 4 |  |
| `ap` |  | 2 |  |
| `eu` |  | 2 |  |

| responsible | findings | new | Critical | Low |
| :-- | --: | --: | --: | --: |
| `bil`&#124;`ling` | 1,230 | 1,100 | 1,225 | 5 |
| `none` | 4 | 0 |  | 4 |

| reason | findings |
| :-- | --: |
| NotOwned | 1,600 |
| Ignored | 5 |
| Unmanaged | 5 |

2,001 cross-cluster differences:

| topic | field | values |
| :-- | --: | --: |
| `or`&#124;`ders` | `config.retention.ms` | `5` on 1,500 clusters, not set on 1 cluster |
| `users` | `partitions` | `0` on 1 cluster, `1` on 1 cluster, `2` on 1 cluster, `3` on 1 cluster and 2 more |
| and 1,999 more |  |  |

| cluster | imbalance | mean | most | least |
| :-- | --: | --: | --: | --: |
| `eu` | leaders | 1,050.5 | 3,100 on 3 | 2 on 4 |

**1 cluster could not be compared:**

- `edge`: it has `*no*` snapshot

**1 cluster could be compared only in part:**

- `eu`: 3 topics not judged, 2 invalid rows in `eu.jsonl`: line 7: `*x*`

Input that was not used: 2 invalid rows (see broken.jsonl); 2 snapshots replaced by a newer one; \
1 snapshot of clusters that are not part of this run.
""".replace("{rows}", "\n".join(_ROWS)).replace("{names}", ", ".join(_NAMES[:50]))


def test_a_full_summary_has_every_sentence_and_table() -> None:
    """Each number of a summary is shown once, where it belongs; the largest come first, and text is escaped."""
    assert format_summary(FULL) == TEXT


def test_a_summary_without_findings_is_one_sentence() -> None:
    """The text leaves out what has no number, and changes if there is no previous report."""
    assert format_summary(EMPTY) == (
        "### Drift: 0 findings\n\n1 of 1 cluster compared, as of `2026-01-31T12:00:00Z`; "
        "1 of 1 topic match their manifests.\n"
    )


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"selection": "team=shop"}, "**Only topics selected by `team=shop` were compared.**"),
        ({"oldestFinding": OLDEST | {"cluster": "", "topic": ""}}, "The oldest, config, was first seen at"),
        ({"oldestFinding": OLDEST | {"topic": ""}}, "The oldest, config on `eu`, was first seen at"),
        ({"inputs": EMPTY["inputs"] | {"superseded": [{}]}}, "not used: 1 snapshot replaced by a newer one."),
        ({"previous": "2026-01-30T12:00:00Z"}, "0 findings: 0 new, 0 resolved\n"),
    ],
)
def test_a_sentence_is_there_with_its_number(changes: dict[str, Any], sentence: str) -> None:
    """Each sentence stands alone, with the parts that are known."""
    assert sentence in format_summary(EMPTY | changes)


def test_a_time_to_repair_without_a_repair_is_left_out() -> None:
    """A history without a resolved finding has no median."""
    assert "Half of" not in format_summary(EMPTY | {"timeToRepair": {"days": 30, "resolved": 0, "medianSeconds": None}})


@pytest.mark.parametrize(
    ("rows", "limit"),
    [
        ({"byCluster": [{"cluster": "c", "findings": 1, "byClass": {"config": 1}, "problem": None}]}, 20),
        ({"byResponsible": [{"responsible": "c", "findings": 1, "new": 0, "bySeverity": {}}]}, 10),
        ({"byCluster": [{"cluster": "c", "findings": 0, "byClass": {}, "problem": "x"}]}, 10),
        ({"incomplete": [{"cluster": "c", "file": "c", "rows": 1, "notJudged": 1, "message": "x"}]}, 10),
    ],
)
def test_a_long_list_is_cut(rows: dict[str, list[Any]], limit: int) -> None:
    """Only the first rows of a table or list are shown, with the number of the others."""
    ((name, row),) = rows.items()
    for more in (0, 1, 1500):
        changes: dict[str, Any] = {name: row * (limit + more)}
        text = format_summary(EMPTY | {"findings": FULL["findings"]} | changes)
        shown = [line for line in text.splitlines() if line.startswith(("| `c` |", "- `c`"))]
        assert len(shown) == limit
        assert text.count(f"and {more:,} more") == bool(more)
        assert text.count(" more") == bool(more)
