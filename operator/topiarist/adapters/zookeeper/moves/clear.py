"""Clear what an ended run of moves left: put its throttles back, and delete the record of its last batch.

The next run of the same owner does this by itself. A user does it by hand if no run is going to continue.
"""

from __future__ import annotations

from topiarist.adapters.zookeeper.codec import paths
from topiarist.adapters.zookeeper.connection.session import Session
from topiarist.adapters.zookeeper.moves.batch_writer import (
    HINT_CONTINUE,
    MAX_ATTEMPTS,
    WriterSettings,
    decode_record,
    lock_for_batch,
)
from topiarist.adapters.zookeeper.read.bulk_read import read_znodes, sync
from topiarist.errors import Reason, TopiaristError
from topiarist.model.moves import ClearedMoves

_REQUEST_MESSAGE = "there is a reassignment request: brokers may still copy, and need the throttles until they are done"


def clear_moves(session: Session, settings: WriterSettings) -> ClearedMoves | None:
    """Clear the record of the last batch under the lock; return None, with nothing written, if there is none.

    Raises ``TopiaristError``: ReassignmentInProgress while there is a reassignment request.
    """
    sync(session)
    (node,) = read_znodes(session, [paths.MOVES])
    if decode_record(node) is None:
        return None
    remarks: dict[str, None] = {}
    for _ in range(MAX_ATTEMPTS):
        with lock_for_batch(session, settings, lambda: False, remarks.setdefault) as writer:
            assert writer is not None  # the run cannot be stopped
            if writer.record is None:
                return None
            if writer.has_request:
                raise TopiaristError(Reason.REASSIGNMENT_IN_PROGRESS, _REQUEST_MESSAGE, HINT_CONTINUE)
            if writer.end():
                return ClearedMoves(writer.record, tuple(remarks))
    message = f"the znodes of the throttles changed {MAX_ATTEMPTS} times in a row while they were written"
    raise TopiaristError(Reason.STATE_CONFLICT, message, "run the command again")
