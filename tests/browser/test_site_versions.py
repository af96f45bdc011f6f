"""The published site: a folder for each minor version, a list of them in each page, and addresses without a version."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from axe_playwright_python.sync_playwright import Axe
from docs_site.versions import build_versions, find_releases
from playwright.sync_api import Browser, expect

from support.checkout import ROOT
from support.http_folder import serve


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a clone with two releases of one minor version, and a tag that is none."""
    clone = tmp_path_factory.mktemp("clone") / "topiarist"
    subprocess.run(["git", "clone", "--quiet", "--shared", str(ROOT), str(clone)], check=True)
    for tag in ("v0.1.9", "v0.1.10", "v1", "chart-0.2.0"):
        subprocess.run(["git", "tag", tag], cwd=clone, check=True)
    return clone


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """Return the built site, which has no broken link."""
    folder = tmp_path_factory.mktemp("site") / "site"
    assert build_versions(folder, repository) == []
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Serve the site on a free port."""
    with serve(site) as address:
        yield address


def test_the_newest_tag_of_a_minor_version_counts(repository: Path) -> None:
    """Versions are compared by number, and other tags are none."""
    assert find_releases(repository) == {"0.1": "v0.1.10"}


def test_a_page_leads_to_each_version(browser: Browser, address: str) -> None:
    """The first page leads to the newest release. Its pages list all versions, and axe finds nothing."""
    page = browser.new_page()
    page.goto(f"{address}/index.html")
    page.wait_for_url(f"{address}/0.1/index.html")
    listed = page.locator(".md-version")
    expect(listed.get_by_role("button")).to_have_text("0.1.10")
    assert listed.locator("a").all_text_contents() == ["0.1.10", "development"]
    assert Axe().run(page).response["violations"] == []
    listed.get_by_role("button").focus()
    listed.get_by_text("development").click()
    page.wait_for_url(f"{address}/dev/**")
    expect(page.locator("h1").first).to_be_visible()
    page.close()


def test_addresses_without_a_version(site: Path) -> None:
    """Schemas and the list for machines are at the top, and the list leads to pages of the newest release."""
    assert json.loads((site / "schemas" / "topic.json").read_text())["$id"].endswith("/schemas/topic.json")
    assert yaml.safe_load((ROOT / "charts/topiarist/Chart.yaml").read_text())["icon"].endswith("dev/icon.svg")
    assert (site / "icon.svg").read_bytes() == (ROOT / "docs/pictures/icon.svg").read_bytes()
    links = [line.partition("](")[2].partition(")")[0] for line in (site / "llms.txt").read_text().splitlines()]
    assert len([*filter(None, links)]) > 30
    assert all((site / link).is_file() for link in filter(None, links))
