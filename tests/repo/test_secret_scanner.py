"""The search for planted secrets in output, processes, logs and files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support import secret_scanner


def _fresh(name: str) -> str:
    """Return a secret that no other test uses."""
    return secret_scanner.register_secret("-".join(("planted", name)))


def test_a_secret_in_the_output_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    """The scanner reports a secret in captured output."""
    print(f"the password is {_fresh('output')}")
    with pytest.raises(AssertionError, match="1 planted secret"):
        capsys.readouterr()


def test_a_secret_in_the_output_of_a_process_is_found() -> None:
    """The scanner reports a secret in the output of a process."""
    code = f"import sys; sys.stderr.write({_fresh('process')!r})"
    with pytest.raises(AssertionError, match="in a process's output"):
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)


def test_a_secret_in_a_file_is_found(tmp_path: Path) -> None:
    """The scanner reports a secret at any depth, in text or bytes."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "plan.json").write_bytes(b"\xff" + _fresh("file").encode())
    with pytest.raises(AssertionError, match=r"plan\.json"):
        secret_scanner.assert_no_secrets_in_files(tmp_path)
    (tmp_path / "deep" / "plan.json").unlink()


def test_output_that_nobody_takes_is_searched_too(pytestconfig: pytest.Config) -> None:
    """The hooks of the plugin are active in this test run and check uncaptured output."""
    hook = pytestconfig.pluginmanager.hook
    for name in ("pytest_runtest_makereport", "pytest_runtest_teardown"):
        implementations = getattr(hook, name).get_hookimpls()
        assert any(one.function is getattr(secret_scanner, name) for one in implementations), name
