"""The numbers of ZooKeeper requests, written a second time for the tests."""

from __future__ import annotations

OPERATIONS = {
    -11: "closeSession",
    1: "create",
    2: "delete",
    3: "exists",
    4: "getData",
    5: "setData",
    6: "getACL",
    7: "setACL",
    8: "getChildren",
    9: "sync",
    11: "ping",
    12: "getChildren2",
    14: "multi",
    15: "create2",
    16: "reconfig",
    18: "removeWatches",
    19: "createContainer",
    20: "deleteContainer",
    21: "createTTL",
    22: "multiRead",
    100: "auth",
    101: "setWatches",
    102: "sasl",
    105: "setWatches2",
}
"""Names of requests by opcode. The first frame of a connection has none and is counted as ``connect``."""

WRITES = frozenset({"create", "delete", "setData", "setACL", "multi", "create2", "reconfig", "createContainer"}) | {
    "deleteContainer",
    "createTTL",
}
