"""The session of Spark: its settings, what is hidden while it starts, and what executors receive."""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]

from support.waiting import wait_until
from topiarist.drift.spark import session
from topiarist.drift.spark.session import (
    create_local_session,
    is_distributed,
    start_session,
    suppress_banner,
    without_pyarrow,
)


class Builder:
    """A builder of sessions that keeps what it is told."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}

    def config(self, key: str, value: str) -> Builder:
        """Keep a setting."""
        self.settings[key] = value
        return self

    def master(self, value: str) -> Builder:
        """Keep the master."""
        return self.config("master", value)

    def appName(self, value: str) -> Builder:  # noqa: N802
        """Keep the name."""
        return self.config("name", value)

    def getOrCreate(self) -> Builder:  # noqa: N802
        """Return the builder, which the caller takes for a session."""
        self.settings["pyarrow"] = str(sys.modules.get("pyarrow", "not imported"))
        return self


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Builder:
    """Return the builder of sessions; no variable of Spark is set."""
    for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    found = Builder()
    monkeypatch.setattr(session, "SparkSession", SimpleNamespace(builder=found))
    return found


def test_a_local_session_uses_this_machine_only(builder: Builder) -> None:
    """The session has one thread a core, listens on the loopback address, and is quiet; times are in UTC."""
    create_local_session("2g")
    assert builder.settings | {"pyarrow": ""} == {
        "master": "local[*]",
        "name": "topiarist drift",
        "spark.driver.memory": "2g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "OFF",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "8",
        "spark.sql.session.timeZone": "UTC",
        "pyarrow": "",
    }
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    assert os.environ["SPARK_LOCAL_IP"] == "127.0.0.1"


def test_variables_of_the_user_are_kept(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python or address that the user chose is used."""
    monkeypatch.setenv("PYSPARK_PYTHON", "python-of-mine")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.2")
    create_local_session()
    assert (os.environ["PYSPARK_PYTHON"], os.environ["SPARK_LOCAL_IP"]) == ("python-of-mine", "127.0.0.2")
    assert builder.settings["spark.driver.memory"] == "3g"


@pytest.mark.parametrize(
    ("quiet", "is_terminal", "shown"), [(False, True, "true"), (True, True, "false"), (False, False, "false")]
)
def test_progress_is_for_terminals(
    builder: Builder, monkeypatch: pytest.MonkeyPatch, quiet: bool, is_terminal: bool, shown: str
) -> None:
    """Progress bars are drawn on a terminal, unless the user wants no messages."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)
    start_session(quiet=quiet)
    assert builder.settings["spark.ui.showConsoleProgress"] == shown


class Submitted:
    """A driver that ``spark-submit`` started: its configuration, its console, and what it sends to executors."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, root: Path, **given: str) -> None:
        self.given = {name.replace("_", "."): value for name, value in given.items()}
        self.console: Any = None
        self.sent: list[tuple[str, str]] = []
        self._python_includes: list[str] = []
        self._jvm = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=self)))
        self.is_initialized = False
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
        monkeypatch.setattr(session, "SparkContext", self)
        monkeypatch.setattr(session, "SparkConf", self.get_conf)
        monkeypatch.setattr(session, "SparkFiles", SimpleNamespace(getRootDirectory=lambda: str(root)))
        monkeypatch.setattr(Builder, "sparkContext", self, raising=False)

    def _ensure_initialized(self) -> None:
        self.is_initialized = True

    def get_conf(self) -> Any:
        """Return the options of ``spark-submit``, which are known after the start of the JVM only."""
        assert self.is_initialized
        return SimpleNamespace(get=self.given.get, contains=self.given.__contains__)

    def addPyFile(self, path: str) -> None:  # noqa: N802
        """Keep the path of an archive of Python code."""
        self.sent.append(("python", path))

    def addArchive(self, path: str) -> None:  # noqa: N802
        """Keep the path of an archive of files."""
        self.sent.append(("archive", path))


def raise_py4j_error() -> bool:
    """Raise what py4j raises for a method that the JVM lacks."""
    raise Py4JError("no such method")


@pytest.mark.parametrize(
    ("console", "quiet", "shown"),
    [
        (None, False, "false"),
        (SimpleNamespace(isTerminal=lambda: True), False, "true"),
        (SimpleNamespace(isTerminal=lambda: True), True, "false"),
        (SimpleNamespace(isTerminal=lambda: False), False, "false"),
        (SimpleNamespace(isTerminal=raise_py4j_error), False, "true"),
    ],
)
def test_a_submitted_run_asks_the_console_of_the_jvm(
    builder: Builder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, console: Any, quiet: bool, shown: str
) -> None:
    """A submitted run draws progress bars if the console of the JVM is a terminal; times are in UTC."""
    driver = Submitted(monkeypatch, tmp_path)
    monkeypatch.setattr(driver._jvm.java.lang, "System", SimpleNamespace(console=lambda: console))
    start_session(quiet=quiet)
    assert builder.settings.pop("pyarrow")
    assert builder.settings == {
        "name": "topiarist drift",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": shown,
    }


@pytest.mark.parametrize(("master", "python"), [("local[4]", sys.executable), ("", sys.executable), ("yarn", None)])
def test_a_submitted_run_keeps_its_options(
    builder: Builder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, master: str, python: str | None
) -> None:
    """Options of the user are kept; only on this machine the Python of workers is that of the driver."""
    options = {"spark_master": master} if master else {}
    Submitted(monkeypatch, tmp_path, spark_ui_showConsoleProgress="true", **options)
    start_session()
    assert "spark.ui.showConsoleProgress" not in builder.settings
    assert os.environ.get("PYSPARK_PYTHON") == python


def test_executors_receive_the_packages_once(builder: Builder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The package and its libraries are in archives, compiled ones apart and on the path; a second start sends none."""
    driver = Submitted(monkeypatch, tmp_path)
    monkeypatch.setattr(session, "_EXECUTOR_PACKAGES", ("json",))
    monkeypatch.setattr(session, "_NATIVE_PACKAGES", ("yaml",))
    monkeypatch.setattr(driver._jvm.java.lang, "System", SimpleNamespace(console=lambda: None))
    start_session()
    assert [kind for kind, _ in driver.sent] == ["python", "archive"]
    names = [zipfile.ZipFile(path).namelist() for _, path in driver.sent]
    assert {"json/__init__.py", "json/decoder.py"} <= {*names[0]}
    assert "yaml/__init__.py" in names[1]
    assert not [name for name in (*names[0], *names[1]) if "__pycache__" in name]
    assert names == [sorted(each) for each in names]
    assert driver._python_includes == [Path(driver.sent[1][1]).name] == ["topiarist-native.zip"]
    with zipfile.ZipFile(driver.sent[0][1]) as archive:
        assert archive.read("json/decoder.py") == Path(sys.modules["json.decoder"].__file__ or "").read_bytes()
        assert archive.infolist()[0].date_time == (1980, 1, 1, 0, 0, 0)
    start_session()
    assert len(driver.sent) == 2
    assert builder.settings


def test_executors_need_this_package_and_its_libraries() -> None:
    """The names of the packages are those that can be imported here, with compiled ones apart."""
    assert session._EXECUTOR_PACKAGES == ("topiarist", "kazoo")
    assert session._NATIVE_PACKAGES == ("jsonschema_rs", "msgspec", "yaml")


@pytest.mark.parametrize(
    ("master", "expected"), [("local[*]", False), ("local", False), (None, False), ("yarn", True), ("spark://a", True)]
)
def test_executors_of_a_cluster_are_elsewhere(master: str | None, expected: bool) -> None:
    """Only a local master has its executors on this machine."""
    context: Any = SimpleNamespace(sparkContext=SimpleNamespace(master=master))
    assert is_distributed(context) is expected


def test_pyarrow_is_hidden_unless_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside of the block an import of pyarrow fails; afterwards it is possible. A loaded pyarrow stays."""
    monkeypatch.delitem(sys.modules, "pyarrow", raising=False)
    with without_pyarrow(), pytest.raises(ImportError):
        import pyarrow  # noqa: F401
    assert "pyarrow" not in sys.modules
    with pytest.raises(ValueError, match="x"), without_pyarrow():
        raise ValueError("x")
    assert "pyarrow" not in sys.modules
    loaded: Any = SimpleNamespace()
    monkeypatch.setitem(sys.modules, "pyarrow", loaded)
    with without_pyarrow():
        assert sys.modules["pyarrow"] is loaded
    assert sys.modules["pyarrow"] is loaded


def test_sessions_are_made_without_pyarrow(builder: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark must not import pyarrow when it starts: the memory is for the report."""
    monkeypatch.delitem(sys.modules, "pyarrow", raising=False)
    create_local_session()
    assert builder.settings["pyarrow"] == "None"


def write_and_fail() -> None:
    """Write to stderr as a JVM does that cannot start."""
    os.write(2, b"no Java ")
    os.write(2, b"here\n")
    raise OSError


def test_output_of_a_start_is_hidden(capfd: pytest.CaptureFixture[str]) -> None:
    """What is written while Spark starts is dropped, and stderr is the same file afterwards."""
    before = os.fstat(2)
    with suppress_banner():
        assert os.fstat(2) != before
        os.write(2, b"WARNING: a banner\n")
    assert os.fstat(2).st_ino == before.st_ino
    print("and on", file=sys.stderr)
    assert capfd.readouterr().err == "and on\n"


def test_output_of_a_start_that_fails_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    """If the start fails, everything that was written is shown."""
    with pytest.raises(OSError), suppress_banner():  # noqa: PT011
        write_and_fail()
    assert capfd.readouterr().err == "no Java here\n"


def test_output_after_the_start_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    """A process that started meanwhile keeps its stderr: what it writes later is passed on, in order."""
    shown: list[str] = []
    with suppress_banner():
        os.write(2, b"a banner\n")
        inherited = os.dup(2)

    def arrived(text: str) -> Callable[[], bool]:
        def read() -> bool:
            shown.append(capfd.readouterr().err)
            return "".join(shown) == text

        return read

    os.write(inherited, b"bars ")
    wait_until(arrived("bars "), "what was written after the start")
    os.write(inherited, b"more bars")
    os.close(inherited)
    wait_until(arrived("bars more bars"), "what was written at the end")
