"""Parse connect strings, and keep kazoo's last warning about a server that does not answer.

``open_session`` uses both.
"""

from __future__ import annotations

import logging

from kazoo.hosts import collect_hosts

from topiarist.errors import Reason, TopiaristError
from topiarist.text import quote


def parse_connect_string(connect: str) -> list[tuple[str, int]]:
    """Return the hosts and ports of a connect string; raise ``WrongUsage`` if it is malformed."""
    addresses, slash, chroot = connect.partition("/")
    if "," in chroot:
        raise _connect_string_error(connect, "one chroot, after the last host, is for all of them")
    parts = chroot.removesuffix("/").split("/") if slash and chroot else []
    if connect != connect.strip() or "" in addresses.split(",") or not {"", ".", ".."}.isdisjoint(parts):
        raise _connect_string_error(connect, "a host or a part of the chroot is missing, or there is a blank too many")
    try:
        hosts: list[tuple[str, int]] = collect_hosts(connect)[0]
    except ValueError:
        raise _connect_string_error(connect, "a port is a number from 1 to 65535") from None
    return hosts


def _connect_string_error(connect: str, why: str) -> TopiaristError:
    return TopiaristError(
        Reason.WRONG_USAGE, f"{quote(connect)} is not a connect string: {why}", "write host1:2181,host2:2181/chroot"
    )


class LastConnectError(logging.Handler):
    """A log handler that keeps kazoo's last warning, for the message about a failed connection.

    ``unresolved_hosts`` has the host names that have no address.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""
        self.unresolved_hosts: set[str] = set()
        self.logger = logging.Logger("kazoo", logging.WARNING)
        self.logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a warning; ignore errors, which are kazoo's own stack traces."""
        if record.levelno != logging.WARNING or not isinstance(record.args, tuple) or not record.args:
            return
        detail = str(record.args[0])
        if str(record.msg).startswith("Cannot resolve"):
            self.unresolved_hosts.add(detail)
            self.text = f"{detail} has no address"
        else:
            self.text = detail.removeprefix("socket connection error: ")
