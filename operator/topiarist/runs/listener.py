"""Messages and outcomes of a run: a listener gets them while the run works.

Nothing in ``topiarist.runs`` prints or logs. The command line implements the listener with its terminal, and a caller
of the interface may collect the messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from topiarist.errors import Diagnostic, TopiaristError

if TYPE_CHECKING:
    from topiarist.model.moves import MoveProgress
    from topiarist.model.outcome import Outcome
    from topiarist.model.plan import Plan, TopicPlan


class RunListener:
    """A receiver of the messages of a run; each method does nothing.

    Texts may contain characters of manifests and servers that a terminal interprets. Methods may be called from several
    threads. ``owns_process`` is true if the process does nothing beside the run. The run may then read standard input,
    and fork the process to parse many files on two processors.
    """

    owns_process = False

    def on_message(self, text: str, *, important: bool = False) -> None:
        """Receive a message of one or more lines; one that is not ``important`` may be left out."""

    def on_detail(self, text: str) -> None:
        """Receive a message of one line that only a verbose caller needs."""

    def on_pause(self, text: str) -> None:
        """Receive why the run makes no progress now: an address that does not answer yet, or a throttled cluster."""

    def on_error(self, error: TopiaristError, cluster: str = "") -> None:
        """Receive an error that does not end the run: that of one cluster, or of documents that are left out."""

    def on_warnings(self, warnings: Sequence[Diagnostic]) -> None:
        """Receive the warnings about manifests, sorted by location."""

    def on_outcome(self, plan: Plan, topic: TopicPlan, outcome: Outcome) -> None:
        """Receive the outcome of a topic of ``plan``."""

    def on_late_outcome(self, plan: Plan, topic: TopicPlan, outcome: Outcome) -> None:
        """Receive an outcome that replaces an earlier one: the run has waited for the controller."""

    def on_move_progress(self, plan: Plan, progress: MoveProgress) -> None:
        """Receive how far the moves and elections of ``plan`` are."""

    def on_cluster_finished(self, plan: Plan) -> None:
        """Receive that nothing more is sent to the cluster of ``plan``."""


SILENT = RunListener()
"""A listener that ignores all messages."""
