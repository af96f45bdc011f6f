"""Clear what an ended run of moves left: put its throttles back, and delete the record of its moves.

The next run of the same owner does this by itself. A user does it by hand if no run is going to continue.
"""

from __future__ import annotations

from topiarist.adapters.kafka_admin.moves.batch_writer import HINT_CONTINUE, BatchWriter
from topiarist.adapters.kafka_admin.moves.look import MoveReader, MoveSession
from topiarist.adapters.kafka_admin.records.codec import RecordsStore
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import ClearedMoves
from topiarist.text import format_count


def clear_moves(session: MoveSession, reader: MoveReader, records: RecordsStore) -> ClearedMoves | None:
    """Clear the record of the moves under the lock; return None, with nothing written, if there is none.

    Raises ``TopiaristError``: ReassignmentInProgress while a move of the record is in flight.
    """
    if records.read().moves is None:
        return None
    known = records.acquire(lambda: False)
    try:
        if known.moves is None:
            return None
        look = reader.look(())
        moves = known.moves.moves
        # A target of another client counts too: its brokers may copy the same replicas.
        copying = [move for move in moves if look.target_of((move.topic, move.partition))]
        if copying:
            message = f"{format_count(len(copying), 'partition')} in flight: brokers copy, and need the throttles"
            raise TopiaristError(Reason.REASSIGNMENT_IN_PROGRESS, message, HINT_CONTINUE)
        remarks: dict[str, None] = {}
        BatchWriter(session, reader, records, known.moves, remarks.setdefault).end()
        return ClearedMoves(known.moves, tuple(remarks))
    finally:
        records.release()
