"""Transactions on the wire: requests and answers, compared with kazoo's independent implementation."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.exceptions import EXCEPTIONS, BadVersionError, KazooException, RolledBackError
from kazoo.protocol import serialization as theirs
from kazoo.security import ACL, Id

from topiarist.adapters.zookeeper.write.transaction import MultiRequest, Operation, OperationType

ACLS = ((31, "world", "anyone"), (1, "sasl", "kafka"))
PATHS = st.sampled_from(["/brokers/topics/orders", "/ü/x", "/a"])

OPERATIONS = st.one_of(
    st.builds(Operation, st.just(OperationType.CHECK), PATHS, version=st.integers(-1, 9)),
    st.builds(Operation, st.just(OperationType.SET), PATHS, st.binary(max_size=9), st.integers(-1, 9)),
    st.builds(Operation, st.just(OperationType.DELETE), PATHS, version=st.integers(-1, 9)),
    st.builds(
        Operation,
        st.just(OperationType.CREATE),
        PATHS,
        st.binary(max_size=9),
        st.just(-1),
        st.just(ACLS),
        st.booleans(),
    ),
)


def their_operation(operation: Operation) -> object:
    """Return the same operation as a kazoo object."""
    acl = [ACL(permissions, Id(scheme, identity)) for permissions, scheme, identity in operation.acl]
    path = f"/kafka{operation.path}"
    match operation.type:
        case OperationType.CHECK:
            return theirs.CheckVersion(path, operation.version)
        case OperationType.SET:
            return theirs.SetData(path, operation.data, operation.version)
        case OperationType.DELETE:
            return theirs.Delete(path, operation.version)
    return theirs.Create(path, operation.data, acl, 2 if operation.sequential else 0)


def answer(*parts: bytes) -> bytes:
    """Return the body of a reply, with its end marker."""
    return b"".join(parts) + pack("!iBi", -1, 1, -1)


def failed(code: int) -> bytes:
    """Return the reply of one operation that failed with this code."""
    return pack("!iBii", -1, 0, code, code)


DONE = {
    OperationType.CHECK: pack("!iBi", 13, 0, 0),
    OperationType.DELETE: pack("!iBi", 2, 0, 0),
    OperationType.CREATE: pack("!iBii", 1, 0, 0, 3) + b"/ab",
    OperationType.SET: pack("!iBi", 5, 0, 0) + bytes(68),
}


@given(st.lists(OPERATIONS, max_size=6))
def test_a_request_is_what_kazoo_would_send(operations: list[Operation]) -> None:
    """A request equals kazoo's byte for byte, with chroot and ACLs; its size is that of the frame with headers."""
    multi = MultiRequest("/kafka", operations)
    assert multi.serialize() == bytes(theirs.Transaction(list(map(their_operation, operations))).serialize())
    assert multi.size == 12 + len(multi.serialize())


@given(
    st.lists(st.one_of(st.sampled_from(list(OperationType)), st.sampled_from(sorted(EXCEPTIONS))), max_size=8),
    st.binary(),
)
def test_an_answer_is_read_as_kazoo_reads_it(results: list[OperationType | int], before: bytes) -> None:
    """Any mix of results at any position in the buffer is decoded as kazoo decodes it."""
    body = before + answer(*(failed(result) if isinstance(result, int) else DONE[result] for result in results))
    found = MultiRequest("", []).deserialize(body, len(before))
    wanted = theirs.Transaction.deserialize(body, len(before))
    assert [type(one) if isinstance(one, Exception) else True for one in found] == [
        type(one) if isinstance(one, Exception) else True for one in wanted
    ]


@pytest.mark.parametrize("code", [-200, -99, 7])
def test_an_error_that_kazoo_does_not_know_is_one_all_the_same(code: int) -> None:
    """An unknown error code of a newer server becomes an error with its number, not a crash."""
    found = MultiRequest("", []).deserialize(answer(failed(0), failed(code), failed(BadVersionError.code)), 0)
    assert list(map(type, found)) == [RolledBackError, KazooException, BadVersionError]
    assert str(found[1]) == f"error {code}"
