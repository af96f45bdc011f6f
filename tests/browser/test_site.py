"""The documentation site: built without a network, links whole, readable at two widths and in both schemes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from docs_site.__main__ import build
from playwright.sync_api import Browser, Page, Request, expect

from support.http_folder import serve
from topiarist import __version__
from topiarist.errors import Reason

WIDTHS = (400, 1400)
PAGES = (
    "index.html",
    "docs/index.html",
    "docs/tutorial.html",
    "docs/cli.html",
    "docs/reasons.html",
    "docs/drift.html",
    "docs/internals/architecture.html",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the built site; the build finds no broken link, and nothing that is loaded from elsewhere."""
    folder = tmp_path_factory.mktemp("site") / "site"
    assert build(folder) == []
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Serve the site on a free port."""
    with serve(site) as address:
        yield address


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    """Return the colours that the browser asks for."""
    return str(request.param)


@pytest.fixture
def page(browser: Browser, scheme: str, address: str) -> Iterator[Page]:
    """Yield a page of a fresh browser: a choice of colours that one keeps would be that of the next."""
    foreign: list[str] = []

    def remember(request: Request) -> None:
        if not request.url.startswith((address, "data:", "blob:")):
            foreign.append(request.url)

    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    page.on("request", remember)
    yield page
    context.close()
    assert foreign == []


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_barrier(page: Page, address: str, name: str, width: int) -> None:
    """axe finds nothing, and nothing but wide code and tables scrolls sideways."""
    page.set_viewport_size({"width": width, "height": 900})
    page.goto(f"{address}/{name}")
    expect(page.locator("h1").first).to_be_visible()
    found = [
        f"{each['id']}: {node['html'][:120]}"
        for each in Axe().run(page).response["violations"]
        for node in each["nodes"]
    ]
    assert found == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def search(page: Page, address: str, words: str) -> None:
    """Type words into the search of a page that is whole: before, a key is one of the page's own shortcuts."""
    page.goto(f"{address}/index.html")
    page.wait_for_load_state("networkidle")
    page.keyboard.press("Control+k")
    page.wait_for_function("document.activeElement !== document.body")
    page.keyboard.type(words)


def test_the_search_finds_sections_without_a_server(page: Page, address: str) -> None:
    """A search for a field finds its page."""
    search(page, address, "coPartitionGroup")
    expect(page.get_by_text("Topics with equal numbers of partitions").first).to_be_visible()


SEARCHED = {
    "rollback": "deleting",
    "docker": "quickstart",
    "rename": "add-a-topic",
    "dry run": "cli",
    "CRD": "custom-resources",
    "RBAC": "kubernetes",
    "reconcile": "kubernetes",
}
"""Words that readers search for, and the page that answers."""


@pytest.mark.parametrize("word", SEARCHED)
def test_the_search_finds_the_words_of_readers(page: Page, address: str, word: str) -> None:
    """The page that answers is among the results, though its heading may have another word."""
    search(page, address, word)
    expect(page.locator(f"a[href*='{SEARCHED[word]}.html?h=']").first).to_be_visible()


def test_a_page_links_to_its_source_and_names_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser: Browser
) -> None:
    """Built by the workflow of a forge, it has the repository, an edit link and the version, and asks no forge."""
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://github.com")
    monkeypatch.setenv("GITHUB_REPOSITORY", "acme/topiarist")
    assert build(tmp_path / "site") == []
    asked: list[str] = []
    with serve(tmp_path / "site") as address:
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{address}/docs/security.html")
        edit = page.locator("a[rel=edit]")
        expect(edit).to_have_attribute("href", "https://github.com/acme/topiarist/edit/main/docs/security.md")
        expect(page.locator("a[href='https://github.com/acme/topiarist']").first).to_be_visible()
        expect(page.locator("footer")).to_contain_text(f"Topiarist {__version__}")
        outputs = page.locator("pre").count()
        assert page.locator("button[data-md-type=copy]").count() == outputs
        page.close()
    assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


@pytest.mark.parametrize("name", ["docs/internals/architecture.html", "docs/apply.html", "docs/kubernetes.html"])
def test_diagrams_are_drawn(page: Page, address: str, name: str) -> None:
    """Each is drawn in the colours of the page, and drawn again when the reader changes them."""
    page.goto(f"{address}/{name}")
    diagrams = page.locator("div.diagram")
    expect(diagrams.first.locator("svg")).to_be_visible()
    assert diagrams.count() == page.locator("div.diagram > svg").count()
    before = diagrams.first.inner_html()
    page.locator(".md-header__option label:visible").first.click()
    expect(diagrams.first.locator("svg")).to_be_visible()
    is_drawn_again = "([part, before]) => part.querySelector('svg') && part.innerHTML !== before"
    page.wait_for_function(is_drawn_again, arg=[diagrams.first.element_handle(), before])
    assert "Syntax error" not in page.content()


COVERED = """() => [...document.querySelectorAll("pre")].filter(block => {
  const code = block.querySelector("code");
  const button = block.querySelector("button[data-md-type=copy]").getBoundingClientRect();
  code.scrollLeft = code.scrollWidth;
  const text = document.createRange();
  text.selectNodeContents(code);
  return [...text.getClientRects()].some(line => line.width && line.right > button.left && line.left < button.right
    && line.bottom > button.top && line.top < button.bottom);
}).map(block => block.innerText.slice(0, 80))"""


@pytest.mark.parametrize("name", ["index.html", "docs/quickstart.html"])
def test_the_copy_button_never_covers_the_end_of_a_line(page: Page, address: str, name: str) -> None:
    """On a phone a reader scrolls the end of a long line clear of it."""
    page.set_viewport_size({"width": 400, "height": 900})
    page.goto(f"{address}/{name}")
    expect(page.locator("button[data-md-type=copy]").first).to_be_attached()
    assert page.evaluate(COVERED) == []


def test_every_page_of_the_list_for_machines_is_there(site: Path) -> None:
    """llms.txt names each page of the index, with its content."""
    lines = [line for line in (site / "llms.txt").read_text().splitlines() if line.startswith("- ")]
    assert len(lines) >= 38
    for line in lines:
        found = re.fullmatch(r"- \[[^]]+\]\(([^)]+)\): .+", line)
        assert found, line
        assert (site / found[1]).is_file(), line


def test_every_reason_has_a_heading(site: Path) -> None:
    """The headings come from the table that explain prints."""
    anchors = set(re.findall(r'<h3 id="(\w+)">', (site / "docs" / "reasons.html").read_text()))
    assert {reason.value.lower() for reason in Reason} <= anchors
