"""The recorded session of the documentation is what the commands print today."""

from __future__ import annotations

import pictures
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pictures")]


@pytest.fixture(scope="module")
def session() -> list[pictures.Recorded]:
    """Return the session, run once on a real ZooKeeper."""
    return pictures.record_session()


def test_the_session_tells_its_story(session: list[pictures.Recorded]) -> None:
    """A plan, its application, and nothing to do afterwards, in colors."""
    first, applied, again = session
    assert "Plan: 1 to create, 1 to adopt, 1 refused." in first.text
    assert "Applied: 3 done." in applied.text
    assert "No changes: 3 topics match their manifests." in again.text
    assert all("\x1b[" in recorded.output for recorded in session if "--summary" not in recorded.command)
    lines = sum(recorded.text.count("\n") + 2 for recorded in session)
    assert lines <= pictures.ROWS


def test_the_pictures_are_of_today(session: list[pictures.Recorded]) -> None:
    """``make pictures`` draws them anew after a change of an output."""
    recorded = "\n".join(pictures.list_cast(session)) + "\n"
    assert recorded == (pictures.PICTURES / "session.cast").read_text(), "run: make pictures"
    assert pictures.draw_session(session) == (pictures.PICTURES / "session.svg").read_text(), "run: make pictures"


def test_the_picture_loads_nothing() -> None:
    """It is shown by forges and package indexes, which refuse what is loaded from elsewhere."""
    text = (pictures.PICTURES / "session.svg").read_text()
    assert "url(http" not in text
    assert "<script" not in text
    assert text.count("http") == text.count('xmlns="http://www.w3.org/2000/svg"')
