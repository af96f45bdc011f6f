"""Sessions of Spark, the stores that they reach, and their errors as those of users."""

from __future__ import annotations

import os
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PySparkRuntimeError

from support.waiting import wait_until
from topiarist.drift.spark import session
from topiarist.drift.spark.session import (
    HINT_SHARED,
    Storage,
    create_local_session,
    is_distributed,
    start_session,
    suppress_banner,
    translate_errors,
    without_pyarrow,
)
from topiarist.errors import Reason, TopiaristError
from unit.drift.spark.conftest import Place
from unit.drift.spark.local_store import STORE, JavaError, Throwable

TRACE = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\nValueError: found 3, wanted 4\n\n'

CAUSES = [
    (
        "UnsupportedFileSystemException",
        'No FileSystem for scheme "s3a"',
        "Spark has no file system for this address",
        "--packages",
    ),
    ("ClassNotFoundException", "S3A: FileSystem not found", "Spark has no file system for this address", "--packages"),
    ("OutOfMemoryError", "GC overhead", "Spark ran out of memory", "--driver-memory"),
    ("SparkException", "Java heap space", "Spark ran out of memory", "--driver-memory"),
    ("RuntimeException", "a is not a Parquet file", "found no Parquet, or an incomplete file", None),
    ("RuntimeException", "no Parquet magic", "found no Parquet, or an incomplete file", None),
    ("RuntimeException", "CorruptStatistics", "found no Parquet, or an incomplete file", None),
    ("FileNotFoundException", "File a is absent", "Spark found no such file or folder", HINT_SHARED),
    ("AnalysisException", "[PATH_NOT_FOUND] a", "Spark found no such file or folder", HINT_SHARED),
    ("SparkException", "[FAILED_READ_FILE.FILE_NOT_EXIST] a", "Spark found no such file or folder", HINT_SHARED),
    ("AccessControlException", "x", "Spark has no permission for this", None),
    ("AccessDeniedException", "x", "Spark has no permission for this", None),
    ("IOException", "Permission denied: user=x", "Spark has no permission for this", None),
    ("IllegalStateException", None, "Spark failed: IllegalStateException: ", None),
    ("PythonException", TRACE, "Spark failed: PythonException: ValueError: found 3, wanted 4", None),
    ("SparkException", "\n Job aborted\n\tat x.y(Z.java)", "Spark failed: SparkException: Job aborted", None),
]


def translated(error: Exception, path: str = "") -> TopiaristError:
    """Return the translation of an error."""
    with pytest.raises(TopiaristError) as raised, translate_errors(path=path):
        raise error
    assert raised.value.__cause__ is error
    return raised.value


@pytest.mark.parametrize(("name", "text", "message", "hint"), CAUSES)
def test_a_known_cause_has_plain_words_and_a_hint(name: str, text: str | None, message: str, hint: str | None) -> None:
    """The message begins with plain words and has the cause in parentheses; the hint says what to do, if anything."""
    error = translated(JavaError(name, text))
    said = str(error.args[0])
    assert said.startswith(message)
    assert "\n" not in said
    assert message.startswith("Spark failed") or said == f"{message} ({name}: {text})"
    assert (hint in error.hint) if hint else error.hint == ""
    assert error.reason is Reason.SPARK_FAILED


@pytest.mark.parametrize("depth", [1, 3, 40])
def test_the_innermost_cause_is_named(depth: int) -> None:
    """However deep the causes are, the first cause is the one that users see."""
    cause = Throwable("UnknownHostException", "bucket")
    for number in range(depth):
        cause = Throwable(f"Outer{number}", "job aborted", cause)
    assert "Spark failed: UnknownHostException: bucket" in str(translated(JavaError("Outermost", "", cause)))


def test_causes_in_a_circle_end() -> None:
    """An exception that is its own cause is named like any other."""
    error = JavaError("CircularException", "round")
    error.java_exception._cause = error.java_exception
    assert "Spark failed: CircularException: round" in str(translated(error))


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            Py4JNetworkError("Answer from Java side is empty"),
            "Spark failed: the JVM of Spark has ended: Answer from Java side",
        ),
        (ConnectionRefusedError(111, "refused"), "Spark failed: the JVM of Spark has ended: [Errno 111] refused"),
        (Py4JError(""), "Spark failed: the JVM of Spark has ended: Py4JError"),
        (PySparkRuntimeError("[JAVA_GATEWAY_EXITED] It exited"), "the JVM of Spark did not start ([JAVA_GATEWAY"),
        (PySparkException("[UNRESOLVED_COLUMN] a\nb"), "Spark failed: [UNRESOLVED_COLUMN] a"),
        (PySparkException(" \n"), "Spark failed: "),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_without_a_java_exception_is_named(error: Exception, message: str) -> None:
    """Errors of PySpark are named by their first line; an error of the connection says that the JVM has ended."""
    said = str(translated(error).args[0])
    assert said.startswith(message)
    assert "\n" not in said


def test_a_captured_exception_is_asked_for_its_cause() -> None:
    """An exception that PySpark made of one of Java's is named by the cause of that one."""
    error = PySparkException("an outer message")
    error._origin = Throwable("SparkException", "x", Throwable("AccessControlException", "y"))  # type: ignore[attr-defined]
    assert str(translated(error).args[0]) == "Spark has no permission for this (AccessControlException: y)"


def test_a_jvm_that_ends_meanwhile_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the JVM cannot be asked for the cause, the Python message is used."""

    def fail(_: Throwable) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(Throwable, "getCause", fail)
    error = PySparkException("an outer message")
    error._origin = Throwable("SparkException", "x")  # type: ignore[attr-defined]
    assert str(translated(error).args[0]) == "Spark failed: an outer message"


def test_the_path_comes_first_and_long_causes_are_cut() -> None:
    """The message starts with the path, and the text of a cause has a limited length."""
    said = str(translated(JavaError("IOException", "x" * 5000), "s3a://bucket/a").args[0])
    assert said.startswith("s3a://bucket/a: Spark failed: IOException: xxx")
    assert 300 < len(said) < 500


def test_errors_of_topiarist_pass_unchanged() -> None:
    """An error that topiarist raised keeps its reason and its message, and the given reason is for all others."""
    mine = TopiaristError(Reason.UNWRITABLE, "x: cannot be written")
    with pytest.raises(TopiaristError) as raised, translate_errors(Reason.UNREADABLE):
        raise mine
    assert raised.value is mine
    with pytest.raises(TopiaristError) as raised, translate_errors(Reason.UNREADABLE):
        raise JavaError("IOException", "x")
    assert raised.value.reason is Reason.UNREADABLE


MISSING = f"{STORE}/missing"


@pytest.fixture
def storage(place: Place) -> Storage:
    """Return a store with some files, which are at two depths and hidden or not."""
    for name in ("one.jsonl", "a/two.jsonl", ".hidden", "a/_SUCCESS", "_b/three.jsonl"):
        (place.store / name).parent.mkdir(exist_ok=True)
        (place.store / name).write_bytes(f"{name}\nsecond\nthird".encode())
    return Storage(place.spark)  # type: ignore[arg-type]


def test_files_are_found_at_any_depth(storage: Storage) -> None:
    """Hidden files and markers are left out; a file is itself, also if its name begins with a point."""
    assert storage.list_files(STORE) == [f"{STORE}/{name}" for name in ("_b/three.jsonl", "a/two.jsonl", "one.jsonl")]
    assert storage.list_files(f"{STORE}/.hidden") == [f"{STORE}/.hidden"]


def test_names_tell_nothing_a_file_and_a_folder_apart(storage: Storage) -> None:
    """No names, one empty name, and the names in the folder."""
    assert storage.list_names(MISSING) is None
    assert storage.list_names(f"{STORE}/one.jsonl") == [""]
    assert storage.list_names(f"{STORE}/a") == ["_SUCCESS", "two.jsonl"]


@pytest.mark.parametrize("chunk", [1, 9, 10, 11, 1 << 20])
@pytest.mark.parametrize("content", ["", "first", "first\n", "one.jsonl\nsecond\n\n"])
def test_a_first_line_ends_with_its_newline(
    storage: Storage, place: Place, monkeypatch: pytest.MonkeyPatch, content: str, chunk: int
) -> None:
    """The first line is read in any number of pieces, and the rest is not."""
    monkeypatch.setattr(session, "_CHUNK_BYTES", chunk)
    (place.store / "one.jsonl").write_text(content)
    assert storage.read_first_line(f"{STORE}/one.jsonl").decode() == "".join(content.splitlines(keepends=True)[:1])
    assert b"".join(storage.read_chunks(f"{STORE}/one.jsonl")).decode() == content
    assert place.spark.configuration.open_streams == 0


def test_a_file_and_a_row_have_limits(storage: Storage, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file and a first line of the largest size are read; a byte more is an error that names both sizes."""
    address = f"{STORE}/one.jsonl"
    for name, line in (("MAX_BYTES", b"x" * 2048), ("MAX_ROW_BYTES", b"x" * 2047 + b"\n")):
        with monkeypatch.context() as patch:
            patch.setattr(session, name, 2048)
            (place.store / "one.jsonl").write_bytes(line)
            assert storage.read_first_line(address) == line
            (place.store / "one.jsonl").write_bytes(b"x" + line)
            with pytest.raises(TopiaristError, match=r"found .* (more than|wanted at most) 2 KiB") as raised:
                storage.read_first_line(address)
            assert str(raised.value.args[0]).startswith(address)
            assert raised.value.reason is Reason.SNAPSHOT_UNUSABLE


@pytest.mark.parametrize(("length", "tail"), [(4, b"hird"), (100, b"one.jsonl\nsecond\nthird")])
def test_a_tail_is_the_end_or_the_whole(storage: Storage, place: Place, length: int, tail: bytes) -> None:
    """The last bytes of a file are read, or all of a shorter file."""
    assert storage.read_tail(f"{STORE}/one.jsonl", length) == tail
    assert place.spark.configuration.open_streams == 0


def test_files_are_copied_and_stay(storage: Storage, place: Place, tmp_path: Path) -> None:
    """A copy replaces its target, creates its folders, leaves its source, and adds no file of checksums."""
    here = tmp_path / "here"
    here.mkdir()
    storage.download(f"{STORE}/one.jsonl", here / "copy")
    assert [path.name for path in here.iterdir()] == ["copy"]
    assert (here / "copy").read_bytes() == (place.store / "one.jsonl").read_bytes()
    for text in ("new", "newer"):
        (here / "copy").write_text(text)
        storage.upload(here / "copy", f"{STORE}/new/folder/copy")
        assert (place.store / "new" / "folder" / "copy").read_text() == (here / "copy").read_text() == text


def test_folders_are_made_moved_and_removed(storage: Storage, place: Place) -> None:
    """A folder is made with its parents, moved with its content, and removed with it; nothing to remove is no error."""
    storage.make_folder(f"{STORE}/x/y", "x")
    storage.make_folder(f"{STORE}/x/y", "x")
    assert (place.store / "x" / "y").is_dir()
    storage.move(f"{STORE}/a", f"{STORE}/x/a")
    assert (place.store / "x" / "a" / "two.jsonl").exists()
    assert not (place.store / "a").exists()
    storage.remove(f"{STORE}/x")
    storage.remove(f"{STORE}/x")
    assert not (place.store / "x").exists()


@pytest.mark.parametrize(
    ("act", "named", "reason"),
    [
        (lambda it: it.list_files(MISSING), MISSING, Reason.UNREADABLE),
        (lambda it: it.list_names("s3x://a"), "s3x://a", Reason.UNREADABLE),
        (lambda it: it.read_first_line(MISSING), MISSING, Reason.SNAPSHOT_UNUSABLE),
        (lambda it: [*it.read_chunks(MISSING)], MISSING, Reason.UNREADABLE),
        (lambda it: [*it.read_chunks(MISSING, Reason.SNAPSHOT_UNUSABLE)], MISSING, Reason.SNAPSHOT_UNUSABLE),
        (lambda it: it.read_tail(MISSING, 4), MISSING, Reason.SNAPSHOT_UNUSABLE),
        (lambda it: it.download(MISSING, Path("/nonexistent/x")), MISSING, Reason.UNREADABLE),
        (lambda it: it.upload(Path("/nonexistent/x"), MISSING), MISSING, Reason.UNWRITABLE),
        (lambda it: it.make_folder(f"{STORE}/one.jsonl/x", "the report"), "the report", Reason.UNWRITABLE),
        (lambda it: it.move(MISSING, f"{STORE}/new"), f"{STORE}/new", Reason.UNWRITABLE),
        (lambda it: it.move(f"{STORE}/a", f"{STORE}/_b"), f"{STORE}/_b", Reason.UNWRITABLE),
        (lambda it: it.move("s3x://a", f"{STORE}/new"), f"{STORE}/new", Reason.UNWRITABLE),
        (lambda it: it.remove("s3x://a"), "s3x://a", Reason.UNWRITABLE),
    ],
)
def test_an_error_names_the_address(
    storage: Storage, act: Callable[[Storage], object], named: str, reason: Reason
) -> None:
    """The error of each operation begins with the address that the user knows, and has the reason of the operation."""
    with pytest.raises(TopiaristError) as raised:
        act(storage)
    assert str(raised.value.args[0]).startswith(f"{named}: ")
    assert raised.value.reason is reason


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
    """What is written while Spark starts is dropped, and stderr is the same file afterwards; no thread is left."""
    before, threads = os.fstat(2), {*threading.enumerate()}
    with suppress_banner():
        assert os.fstat(2) != before
        os.write(2, b"WARNING: a banner\n")
    assert os.fstat(2).st_ino == before.st_ino
    print("and on", file=sys.stderr)
    assert capfd.readouterr().err == "and on\n"
    wait_until(lambda: threads.issuperset(threading.enumerate()), "the end of the thread that dropped the output")


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
