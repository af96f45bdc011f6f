"""The file of ``--report``: one JSON line per topic and per moved partition, written when its outcome is final.

``apply`` writes it during the run. A run that cannot write its report sends nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from topiarist.adapters.atomic_files import LineFile
from topiarist.errors import Exit, TopiaristError
from topiarist.model.moves import MoveProgress
from topiarist.model.outcome import Outcome, ReconcileReport, worst_exit_code
from topiarist.model.plan import Plan, TopicPlan
from topiarist.output import report as rendering


class ReportFile:
    """A context manager that writes the report to ``path``; with None it writes nothing.

    ``error`` is the first error of a line that could not be written after something was sent. After it nothing more is
    written to the file.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._file: LineFile | None = None
        self._stack = ExitStack()
        self._written_outcomes: dict[tuple[str, str], tuple[TopicPlan, Outcome]] = {}
        self.error: TopiaristError | None = None

    def __enter__(self) -> Self:
        """Open the file; raise ``TopiaristError`` if that fails, before any connection is made."""
        self._file = self._stack.enter_context(LineFile(self._path)) if self._path is not None else None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def write_header(self, plans: Sequence[Plan], *, owner: str, form: str, fingerprint: str | None) -> None:
        """Write the header, and the refused topics of the plans.

        Raises ``TopiaristError`` if that fails, before anything is sent.
        """
        if self._file is None:
            return
        self._file.add_line(
            rendering.format_header(plans, at=_utc_timestamp(), owner=owner, mode=form, fingerprint=fingerprint),
            last=True,
        )
        for plan in plans:
            for topic in plan.topics:
                if topic.refusals and not topic.is_actionable and not topic.observe_only:
                    self._write_topic(plan, topic, rendering.make_refused_outcome(topic))

    def write_outcome(self, plan: Plan, topic: TopicPlan, outcome: Outcome) -> None:
        """Write the outcome of a topic; store the first failure in ``error`` and do not raise it."""
        if self.error is None:
            try:
                self._write_topic(plan, topic, outcome)
            except TopiaristError as error:
                self.error = error

    def write_moves(self, plan: Plan, progress: MoveProgress) -> None:
        """Write the moves that were finished since the last report; store the first failure in ``error``."""
        if self._file is None or self.error is not None or not progress.finished:
            return
        topics = {topic.topic: topic for topic in plan.topics}
        try:
            for move in progress.finished:
                line = rendering.format_move(plan, topics[move.topic], move, batch=progress.batch, at=_utc_timestamp())
                self._file.add_line(line)
        except TopiaristError as error:
            self.error = error

    def write_changed_outcomes(self, reports: Sequence[ReconcileReport]) -> None:
        """Write the outcomes again that changed during the wait."""
        for report in reports:
            topics = {topic.topic: topic for topic in report.plan.topics}
            for outcome in report.outcomes:
                topic, before = self._written_outcomes.get((report.plan.cluster, outcome.topic), (None, None))
                if before != outcome:
                    self.write_outcome(report.plan, topic or topics[outcome.topic], outcome)

    def write_summary(self, reports: Sequence[ReconcileReport], code: int) -> int:
        """Write the summary; return the exit code of the run, an error if the report is incomplete."""
        reasons = [report.error.reason for report in reports if report.error]
        if self._file is not None and self.error is None:
            try:
                results = [outcome.result for _, outcome in self._written_outcomes.values()]
                line = rendering.format_summary(results, at=_utc_timestamp(), code=code, reasons=reasons)
                self._file.add_line(line, last=True)
            except TopiaristError as error:
                self.error = error
        return code if self.error is None or code > max(Exit) else int(worst_exit_code([Exit(code), Exit.ERROR]))

    def _write_topic(self, plan: Plan, topic: TopicPlan, outcome: Outcome) -> None:
        if self._file is not None:
            self._file.add_line(rendering.format_topic(plan, topic, outcome, at=_utc_timestamp()))
        self._written_outcomes[plan.cluster, topic.topic] = (topic, outcome)


def _utc_timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
