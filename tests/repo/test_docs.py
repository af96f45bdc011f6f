"""The pages and help texts: existing references, complete lists, generated parts, and which way a text holds for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from docs_site.source import find_files

from support.checkout import ROOT
from support.repo.pages import CHART, PAGES, anchors, blocks, code, joined_lines, links, table, tables
from topiarist import __version__
from topiarist.adapters.zookeeper.codec import paths
from topiarist.cli.main import COMMANDS, cli
from topiarist.errors import Exit, Reason
from topiarist.kubernetes import approval, status_writer

PACKAGE = ROOT / "operator" / "topiarist"
REASONS = ROOT / "docs" / "reasons.md"
COMMANDS_PAGE = ROOT / "docs" / "cli.md"
KUBERNETES = ROOT / "docs" / "kubernetes.md"
CUSTOM_RESOURCES = ROOT / "docs" / "custom-resources.md"

SITE = frozenset(find_files())
"""The files of the repository that the documentation site has."""

OTHER_COMMANDS = ("zookeeper-contract.md", "changed-words.md", "testing.md", "CHANGELOG.md")

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
each_page_of_ours = pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in OTHER_COMMANDS], ids=lambda page: page.name
)
"""All pages but those that name commands and options of Kafka, or old ones of topiarist."""


def command(name: str) -> click.Command:
    found = cli.get_command(click.Context(cli), name)
    assert found is not None, f"topiarist {name}: there is no such command"
    return found


def options(found: click.Command) -> set[str]:
    return {word for param in found.params for word in (*param.opts, *param.secondary_opts)} | {"--help", "-h"}


EVERY_OPTION = {word for name in COMMANDS for word in options(command(name))} | {"--version"}


@each_page
def test_every_link_leads_somewhere(page: Path) -> None:
    """Every link names an existing file, and an existing heading of its page."""
    for link in links(page.read_text()):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text()), link


@each_page
def test_every_item_and_row_has_its_line(page: Path) -> None:
    """No list item and no table row begins within a line: a reader would see one paragraph."""
    assert not [*joined_lines(page.read_text())]


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("- One.\n- Two.\n", []),
        ("- One. - Two.\n", ["- One. - Two."]),
        ("1. One. 2. Two.\n", ["1. One. 2. Two."]),
        ("one -\n", []),
        ("| a | b |\n| --- | --- |\n| 1 | 2 | | 3 | 4 |\n", ["| 1 | 2 | | 3 | 4 |"]),
        ("| a | b |\n| --- | --- |\n| `x | y` | |\n", []),
    ],
)
def test_joined_items_and_rows_are_found(text: str, joined: list[str]) -> None:
    """Items and rows within a line are found, and no others."""
    assert [*joined_lines(text)] == joined


@each_page
def test_commands_of_several_pages_fit_each_other(page: Path) -> None:
    """The operator has one namespace, other than that of Strimzi's resources; nothing is installed by a bare name."""
    text = page.read_text()
    assert page.name == "strimzi.md" or not re.findall(r"(?:-n|--namespace)[ =]kafka\b", text)
    by_name = re.findall(r"(?:pipx?|uv) [a-z ]*\binstall '?topiarist\b(?![-/])", text)
    assert not by_name or page.name in ("install.md", "CHANGELOG.md")


@each_page
def test_parts_of_outputs_are_those_of_the_tests(page: Path) -> None:
    """A block below ``part of: FILE`` is in the file, which an example or an assertion proves."""
    for block in blocks(page.read_text()):
        mark, _, file = block.marker.partition("part of: ")
        if not mark and file:
            assert block.text.rstrip() in (ROOT / file).read_text(), f"{file}: has no such part"


@each_page
def test_one_thing_has_no_plural(page: Path) -> None:
    """No generated part, and no output shown, has ``1 files``."""
    found = re.findall(r"(?<![\w.,:/>=^-])(?<![>=-] )(?<!or )(?<!to )(?<!of )1 [a-z]+s\b", page.read_text())
    verbs_and_units = {"1 as", "1 comes", "1 has", "1 is", "1 ms", "1 needs"}
    assert not {*found} - verbs_and_units


@pytest.mark.parametrize("page", [page for page in PAGES if page in SITE], ids=lambda page: page.name)
def test_every_link_stays_within_the_site(page: Path) -> None:
    """A page of the site links only to what the site has: a file that it copies, or a folder with such files."""
    for link in links(page.read_text()):
        target = (page.parent / link.partition("#")[0]).resolve() if not link.startswith("#") else page
        assert target in SITE or any(target in path.parents for path in SITE), link


@each_page
def test_every_file_that_is_named_exists(page: Path) -> None:
    """Every named file with its folder exists below the repository or below the package."""
    named = re.compile(
        r"(?:[\w.-]+/)+[\w.-]*[.](?:py|md|json|toml|txt)|(?:tests|tools|benchmarks|operator|docs)/[\w/.-]*"
    )
    for text in code(page.read_text()):
        if match := named.fullmatch(text):
            assert any((root / match[0]).exists() for root in (ROOT, PACKAGE)), match[0]


@each_page_of_ours
def test_every_command_and_option_exists(page: Path) -> None:
    """Every command in a page exists; every option belongs to its command, or to any command."""
    for text in code(page.read_text()):
        words = text.split("#")[0].split("|")[0].split()
        known = EVERY_OPTION
        for at, word in enumerate(words[:-1]):
            if (
                word == "topiarist"
                and words[0] not in ("from", "import")
                and words[at + 1].isalpha()
                and words[at + 1].islower()
            ):
                two_words = " ".join(words[at + 1 : at + 3])
                known = options(command(two_words if two_words in COMMANDS else words[at + 1]))
                break
        else:
            if words and words[0] in COMMANDS and len(words) > 1:
                known = options(command(words[0]))
            elif words and not words[0].startswith("-"):
                continue
        short = r"|-[a-z](?= [a-z]+$)" if known is not EVERY_OPTION else ""
        for option in re.findall(rf"(?<![\w-])(?:--[a-z][a-z-]*{short})", " ".join(words)):
            assert option in known, text


def test_the_words_that_changed_are_not_those_of_the_present_version() -> None:
    """No column of older words has the version of the checkout as its head, and present options are right."""
    page = (ROOT / "docs" / "internals" / "changed-words.md").read_text()
    assert f"| {__version__} |" not in page
    assert "-o json" not in page


def test_both_pages_name_the_same_releases_of_helm() -> None:
    """The chart's page promises what was tried, as the page about Kubernetes says."""
    promised, wanted = (re.findall(r"Helm (\d or \d)\W", page.read_text()) for page in (CHART, KUBERNETES))
    (tried,) = re.findall(r"with Helm (\d)[.\d]+ and (\d)[.\d]+,", KUBERNETES.read_text())
    assert promised == wanted == [" or ".join(tried)]


@each_page
def test_every_make_target_exists(page: Path) -> None:
    """Every ``make X`` in a page is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for text in code(page.read_text()):
        for line in re.findall(r"^make ((?:[A-Z]+=\S+ |-s )*[a-z-]+)", text):
            assert line.split()[-1] in targets, text


@each_page
def test_every_manifest_shown_is_valid(page: Path) -> None:
    """Every manifest in a page passes ``validate``."""
    for block in blocks(page.read_text()):
        if block.language == "yaml" and "apiVersion" in block.text:
            words = [sys.executable, "-m", "topiarist", "validate", "-"]
            done = subprocess.run(words, input=block.text, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_help_text(name: str) -> None:
    """``--help`` and the generated command reference explain each option."""
    assert not [param.opts for param in command(name).params if isinstance(param, click.Option) and not param.help]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_says_which_options_have_a_twin(name: str) -> None:
    """The help names the options with an environment variable in one sentence, with one variable as an example.

    Where options without a variable are fewer, it names these.
    """
    found = command(name)
    text = " ".join(found.get_help(click.Context(found)).split())
    shown = [param for param in found.params if isinstance(param, click.Option) and not param.hidden]
    # An option with its variable in its own help needs no sentence.
    if any(option.envvar and not option.show_envvar for option in shown):
        sentence = re.search(
            r"(All options except )?((?:--[\w-]+, )*--[\w-]+) can also be set as environment variables,"
            r" for example (\S+) as (\w+)[.]",
            text,
        )
        assert sentence
        named = sentence[2].split(", ")
        assert named == [max(option.opts, key=len) for option in shown if bool(option.envvar) != bool(sentence[1])]
        assert len(named) <= (len(shown) + 1) / 2, "the other options are fewer"
        assert sentence[4] == "TOPIARIST_" + sentence[3].removeprefix("--").upper().replace("-", "_")
    else:
        assert "environment variable" not in text


def test_every_reason_is_explained() -> None:
    """Each reason in the code has exactly one row, with its exit code and its retry advice; no other reason has a
    row.
    """
    sources = "".join(file.read_text() for file in PACKAGE.rglob("*.py") if file != PACKAGE / "errors.py")
    given = {name for name in Reason.__members__ if f"Reason.{name}" in sources} | {"INVALID_MANIFEST"}
    rows = tables(REASONS.read_text(), "reason")
    listed = [(row[0], row[1], row[2]) for row in rows]
    wanted = [
        (reason.value, str(int(reason.exit_code)), "yes" if reason.retryable else "no")
        for name, reason in Reason.__members__.items()
        if name in given
    ]
    assert sorted(listed) == sorted(wanted)
    assert all(len(row) == 5 and row[3] and row[4] for row in rows)


def test_every_annotation_is_explained() -> None:
    """The page explains exactly the annotations that the operator reads."""
    known = {name for names in approval.ANNOTATIONS_BY_KIND.values() for name in names}
    assert {row[0] for row in table(KUBERNETES.read_text(), "annotation")} == {
        f"topiarist.dev/{name}" for name in known
    }


def test_every_event_is_explained() -> None:
    """The page explains every Event with its own reason; all other Events use the reason of their topic."""
    listed = {row[0] for row in table(CUSTOM_RESOURCES.read_text(), "event")}
    assert {
        *status_writer._CHANGE_REASONS.values(),
        *status_writer._EVENT_REASONS.values(),
        "DriftDetected",
        "DriftCorrected",
    } <= listed


def test_every_reason_to_look_into_exists() -> None:
    """Every reason in the operator guide's troubleshooting exists, except for names that are no reasons."""
    rows = table(KUBERNETES.read_text(), "reason")
    named = {word for row in rows[1:] for word in re.findall(r"\w+", row[0])}
    assert named <= {status_writer.INVALID_RULE, *(reason.value for reason in Reason)}
    operators = {row[0] for row in tables(REASONS.read_text(), "reason") if row[3].startswith("Kubernetes:")}
    assert operators <= named


def test_every_exit_code_is_explained() -> None:
    """One page explains all exit codes in order."""
    assert [row[0] for row in table(COMMANDS_PAGE.read_text(), "code")] == [str(int(code)) for code in Exit]


def test_the_demo_is_what_make_demo_runs() -> None:
    """``make demo`` runs only the script that the integration tests run."""
    recipe = re.search(r"^demo:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe
    assert recipe[1] == "\t@$(SCRIPT) demo\n"


PERFORMANCE = "docs/internals/performance.md"
FIGURES = {
    "date": "2000-01-31",
    "command": "make bench",
    "machine": {"cpus": 2, "cpu": "a | b", "memory_gib": 4.0, "system": "Linux", "python": "3.11", "java": "openjdk"},
    "figures": [
        {"goal": "G1", "what": "plan", "measured": "0.7 s", "wanted": "1 s", "gate": "0 writes", "holds": True},
        {"goal": "G6'", "what": "more", "measured": "x | y", "wanted": "9 s", "gate": "ratio 2", "holds": False},
        {"goal": "G3", "what": "less", "measured": "1 s", "wanted": "2 s", "gate": "none", "holds": True},
        {"goal": "G15", "what": "many", "measured": "7 s", "wanted": "9 s", "gate": "none", "holds": True},
    ],
}


def test_the_table_of_figures_is_made_from_json(tmp_path: Path) -> None:
    """The tool replaces only the text between the marks of the page of figures."""
    for name in ("tools/bench_table.py", PERFORMANCE):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    (tmp_path / "figures.json").write_text(json.dumps(FIGURES))
    subprocess.run([sys.executable, str(tmp_path / "tools/bench_table.py"), str(tmp_path / "figures.json")], check=True)
    before, _, rest = (ROOT / PERFORMANCE).read_text().partition("<!-- bench:begin -->\n")
    after = "<!-- bench:end -->" + rest.partition("<!-- bench:end -->")[2]
    written = (tmp_path / PERFORMANCE).read_text()
    assert written.startswith(f"{before}<!-- bench:begin -->\n")
    assert written.endswith(after)
    whole = written.removeprefix(f"{before}<!-- bench:begin -->\n").removesuffix(after)
    assert "| G1 | plan | 0.7 s | 1 s | 0 writes | yes |\n| G6' | more | x \\| y | 9 s | ratio 2 | **no** |\n" in whole
    assert "| G3 | less | 1 s | 2 s | none |  |\n" in whole
    assert "by `make bench` on 2000-01-31" in whole


def test_the_table_of_figures_is_not_made_from_anything_else(tmp_path: Path) -> None:
    """Without figures the tool reports an error, exits with 1 and writes nothing."""
    page = ROOT / PERFORMANCE
    before = page.read_text()
    for report in ({}, {**FIGURES, "figures": []}):
        (tmp_path / "figures.json").write_text(json.dumps(report))
        words = [sys.executable, str(ROOT / "tools" / "bench_table.py"), str(tmp_path / "figures.json")]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (done.returncode, page.read_text()) == (1, before)
        assert "not a file of figures" in done.stderr


MOST_PAGES, MOST_WORDS = 36, 70_000
"""The pages for readers and their words, without ``docs/internals``. Both only go down."""


def test_the_pages_for_readers_stay_few_and_short() -> None:
    """A new page replaces another one, and a page that grows makes room elsewhere."""
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    words = {str(page.relative_to(ROOT)): len(page.read_text().split()) for page in pages}
    assert len(pages) <= MOST_PAGES
    assert sum(words.values()) <= MOST_WORDS, sorted(words.items(), key=lambda item: -item[1])[:10]


_OF_ONE_WAY = re.compile(
    r"znode|\bone (?:checked )?transaction|transactions in progress|in a transaction|config change notification"
    r"|DIGEST-MD5|jute\.maxbuffer|under (?:a )?KRaft|is a KRaft controller"
    r"|(?<![\w.])/(?:admin|brokers|cluster|config|controller|controller_epoch|feature|migration|topiarist)\b(?!/README)",
    re.IGNORECASE,
)
"""Words of ZooKeeper mode, and of what only one way guarantees or refuses."""

_NAMED_WAY = re.compile(r"ZooKeeper|through (?:its |the )?brokers|Admin API|\b[FM]\d+: ", re.IGNORECASE)
"""Names of a way; the faults F1 to M39 are those of ZooKeeper mode."""

_NOT_FOR_BOTH_WAYS = {
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "architecture.md",
    "changed-words.md",
    "interleavings.md",
    "operator-campaigns.md",
    "performance.md",
    "python-reference.md",
    "records-contract.md",
    "testing.md",
}
"""Pages about the code and its tests, and lists of older words and measured figures."""


_NO_PROSE = re.compile(r"^ *```.*?^ *```$|<!-- bench:begin -->.*?<!-- bench:end -->", re.DOTALL | re.MULTILINE)


class Passage(NamedTuple):
    """A paragraph, an item of a list or a row of a table, with the headings and the item or table above it."""

    context: str
    text: str

    @property
    def problem(self) -> str:
        """Return the words that hold for one way, if neither the text nor its context names a way."""
        found = _OF_ONE_WAY.search(self.text)
        return found[0] if found and not _NAMED_WAY.search(f"{self.context} {self.text}") else ""


def passages(page: str) -> Iterator[Passage]:
    """Yield the passages of a page that are neither code nor measured figures."""
    headings: list[str] = []
    above, lines = "", list[str]()
    for line in [*_NO_PROSE.sub("", page).splitlines(), ""]:
        if lines and re.match(r"(?:[-*]|\d+\.) |\||#+ |$", line.strip()):
            text = " ".join(lines)
            is_part = text.startswith((" ", "|")) and bool(above)
            yield Passage(" ".join([*headings, above if is_part else ""]), text)
            above, lines = above if is_part else text, []
        if heading := re.match(r"(#+) (.*)", line):
            headings[len(heading[1]) - 1 :] = [heading[2]]
        elif line.strip():
            lines.append(line)
        else:
            above = ""


def help_texts() -> Iterator[tuple[str, str]]:
    """Yield each paragraph of help, and the help of each option, with the command."""
    for name in COMMANDS:
        command = cli.get_command(click.Context(cli), name)
        assert command is not None
        options = [param.help or "" for param in command.params if isinstance(param, click.Option)]
        for text in [*(command.help or "").split("\n\n"), *(command.epilog or "").split("\n\n"), *options]:
            yield name, " ".join(text.split())


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name not in _NOT_FOR_BOTH_WAYS], ids=lambda page: page.name
)
def test_a_page_names_the_way_of_what_holds_for_one(page: Path) -> None:
    """A passage with words of ZooKeeper mode, or with what one way guarantees, says through what it holds."""
    found = [each for each in passages(page.read_text()) if each.problem]
    assert [f"{each.problem}: {each.text[:160]}" for each in found] == []


def test_help_texts_name_the_way_of_what_holds_for_one() -> None:
    """The same for ``--help`` of every command and option."""
    assert [f"{name}: {text[:160]}" for name, text in help_texts() if Passage("", text).problem] == []


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ("| the cluster is frozen, or under KRaft | refused |", True),
        ("Each topic is one checked transaction, under the same lock.", True),
        ("Topiarist writes `/admin/delete_topics/TOPIC`.", True),
        ("- The ownership record at `/topiarist/topics/TOPIC`\n  names the owner.", True),
        ("# Through ZooKeeper\n\nOne transaction makes all changes.", False),
        ("# Through ZooKeeper\n\n# Deleting\n\nA znode.", True),
        ("| a | through ZooKeeper |\n| --- | --- |\n| a topic | one transaction |", False),
        ("1. In ZooKeeper mode:\n   - a znode.\n2. A znode.", True),
        ("```\nzookeeper-shell.sh get /admin\n```\n", False),
        ("Through ZooKeeper.\n\nA znode.", True),
    ],
)
def test_passages_that_name_no_way_are_found(page: str, wrong: bool) -> None:
    """The sentences that were wrong are found; a heading, a table's head or the item above names the way."""
    assert any(each.problem for each in passages(page)) == wrong


def test_the_words_of_one_way_are_those_of_the_code() -> None:
    """Each path in ZooKeeper that the code knows is among the words."""
    known = {value for name, value in vars(paths).items() if name.isupper() and isinstance(value, str)}
    assert paths.DELETION_REQUESTS in known
    assert [path for path in known if not _OF_ONE_WAY.search(path)] == []
