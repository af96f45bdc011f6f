"""Carry out the moves of a plan, and then its elections: what the port ``Cluster.move`` asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from topiarist.adapters.kafka_admin.moves.election import Elector
from topiarist.adapters.kafka_admin.moves.look import MoveReader, MoveSession
from topiarist.adapters.kafka_admin.moves.mover import Mover
from topiarist.adapters.kafka_admin.records.codec import RecordsStore
from topiarist.errors import TopiaristError
from topiarist.model.outcome import Outcome, Result
from topiarist.model.plan import Plan
from topiarist.ports import MoveOptions


def move(
    session: MoveSession,
    reader: MoveReader,
    records: RecordsStore,
    plan: Plan,
    options: MoveOptions,
    stop: Callable[[], bool],
) -> Iterator[Outcome]:
    """Yield one outcome for each actionable topic with moves or elections; raise the error that ended the run."""
    electing = any(topic.elections() for topic in plan.actionable_topics())
    has_own_batch = plan.batch is not None and plan.batch.owner == plan.owner
    try:
        # A plan of elections alone does not wait for the reassignments of other clients.
        if not electing or has_own_batch or any(topic.moves() for topic in plan.actionable_topics()):
            yield from Mover(session, reader, records, plan, options, stop).execute()
    except TopiaristError:
        yield from (Outcome(each.topic, Result.SKIPPED) for each in plan.actionable_topics() if each.elections())
        raise
    if electing:
        yield from Elector(session, reader, records, plan, options, stop).execute()
