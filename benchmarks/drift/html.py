"""The pages of a drift report with 20,000 findings, and of a plan of 20,000 topics, in a real browser.

Milliseconds from a key to the drawn table.

The time ends with the frame after the one that draws the table, so it includes all other load of the machine. ``cpu``
is the processor time of the page's main thread for the same key: script, layout, paint, and the requests of this file.
Also the time to open and to sort the page, and its size. These figures have no gate.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.common import describe_machine, measure_seconds
from playwright.sync_api import CDPSession, Page, sync_playwright

from support import plan_pages
from support.drift import generated_reports

GOAL_MS, GOAL_OPEN_SECONDS = 50, 2
"""Milliseconds of processor time for a key, and seconds to open a page."""

SEARCHES = ("team07 retention", "events-0001", "zzz", "config.min.insync.replicas prod-eu")

_TIMING_SCRIPT = """() => {
  window.taken = [];
  const watch = (event) => {
    const shown = () => window.taken.push(performance.now() - event.timeStamp);
    requestAnimationFrame(() => requestAnimationFrame(shown));
  };
  for (const name of ["input", "click"]) window.addEventListener(name, watch, true);
}"""


def read_cpu(session: CDPSession) -> float:
    """Return the processor time of the page's main thread so far, in milliseconds."""
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    return float(metrics["TaskDuration"]) * 1000


def measure_keys(page: Page, session: CDPSession) -> tuple[list[float], list[float]]:
    """Return the milliseconds and the processor time for each key of every search, and for each backspace."""
    done: list[float] = []
    cpu: list[float] = []
    for text in SEARCHES:
        page.locator("#search").focus()
        for key in (*text, *["Backspace"] * len(text)):
            before, began = page.evaluate("window.taken.length"), read_cpu(session)
            page.keyboard.press(key)
            page.wait_for_function("before => window.taken.length > before", arg=before)
            cpu.append(read_cpu(session) - began)
            done.append(page.evaluate("window.taken.at(-1)"))
    return done, cpu


def measure_sorts(page: Page) -> list[float]:
    """Return the milliseconds to sort by each column, ascending and descending."""
    done: list[float] = []
    for button in page.locator("#table th button").all():
        for _ in range(2):
            before = page.evaluate("window.taken.length")
            button.click()
            page.wait_for_function("before => window.taken.length > before", arg=before)
            done.append(page.evaluate("window.taken.at(-1)"))
    return done


def summarize_times(milliseconds: list[float]) -> dict[str, float]:
    """Return median, 99th percentile and maximum."""
    ordered = sorted(milliseconds)
    return {
        "median_ms": round(statistics.median(ordered), 1),
        "p99_ms": round(ordered[int(len(ordered) * 0.99)], 1),
        "worst_ms": round(ordered[-1], 1),
        "times": len(ordered),
    }


def measure(clusters: int, findings: int) -> dict[str, Any]:
    """Measure the page of one report of this size; the page may hold only a part of the findings."""
    with TemporaryDirectory() as name:
        out = Path(name, "report")
        generated_reports.write_report(out, generated_reports.make_findings(clusters, findings), days=60)
        return {"clusters": clusters, "findings": findings, **measure_page(generated_reports.page_path(out))}


def measure_plan(topics: int, brokers: int) -> dict[str, Any]:
    """Measure the page of a plan of this size, and the time to write it."""
    plan = plan_pages.make_plan(topics, brokers=brokers)
    with TemporaryDirectory() as name:
        path = Path(name, "plan.html")
        seconds = measure_seconds(lambda: plan_pages.write_page(path, [plan]))
        return {"topics": topics, "brokers": brokers, "write_seconds": round(seconds, 2), **measure_page(path)}


def measure_page(path: Path) -> dict[str, Any]:
    """Open a page once and measure it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["TOPIARIST_CHROMIUM"])
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        began = read_cpu(session)
        seconds = measure_seconds(lambda: page.goto(path.as_uri()))
        open_cpu = read_cpu(session) - began
        page.evaluate(_TIMING_SCRIPT)
        times, cpu = measure_keys(page, session)
        made = {
            "bytes": path.stat().st_size,
            "open_seconds": round(seconds, 2),
            "open_cpu_seconds": round(open_cpu / 1000, 2),
            "key": summarize_times(times),
            "key_cpu": summarize_times(cpu),
            "sort": summarize_times(measure_sorts(page)),
            "elements": page.evaluate("document.querySelectorAll('*').length"),
        }
        browser.close()
    holds = made["key_cpu"]["p99_ms"] < GOAL_MS and made["open_seconds"] < GOAL_OPEN_SECONDS
    return {**made, "goal_ms": GOAL_MS, "goal_open_seconds": GOAL_OPEN_SECONDS, "holds": holds}


def main() -> int:
    """Print the figures of a full page, of a fleet with more findings than a page holds, and of plans."""
    pages = [measure(*size) for size in ((200, 20_000), (1000, 200_000))]
    plans = [measure_plan(*size) for size in ((200, 6), (20_000, 300), (100_000, 300))]
    figures = {"command": "make bench-page", "machine": describe_machine(), "pages": pages, "plans": plans}
    print(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
