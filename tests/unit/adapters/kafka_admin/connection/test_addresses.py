"""Addresses of brokers: what is accepted, and the error for everything else."""

from __future__ import annotations

import time

import pytest

from topiarist.adapters.kafka_admin.connection.connector import (
    format_address,
    parse_bootstrap_servers,
    run_with_deadline,
)
from topiarist.errors import Reason, TopiaristError


def test_addresses_are_parsed() -> None:
    """Names, IPv4 and IPv6 addresses keep their order, and doubles are removed."""
    text = "b1.example:9092,127.0.0.1:1,[2001:db8::1]:65535,b1.example:9092"
    found = parse_bootstrap_servers(text)
    assert found == [("b1.example", 9092), ("127.0.0.1", 1), ("2001:db8::1", 65535)]
    assert ",".join(map(format_address, found)) == text.removesuffix(",b1.example:9092")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "a broker is empty"),
        ("a:1,", "a broker is empty"),
        ("a:1, b:1", "contains blanks"),
        ("a", "needs a port"),
        ("a:", "needs a port"),
        ("a:x", "needs a port"),
        ("a:0", "needs a port"),
        ("a:65536", "needs a port"),
        ("a:+1", "needs a port"),
        ("a:٣", "needs a port"),
        (":9092", "a host is empty"),
        ("::1:9092", "in brackets"),
        ("[::1:9092", "in brackets"),
        ("[host]:9092", "in brackets"),
        ("kafka://a:9092", "a scheme or a path"),
        ("a:9092/chroot", "a scheme or a path"),
    ],
)
def test_other_text_is_refused(text: str, words: str) -> None:
    """The error has the text, the cause and an example."""
    with pytest.raises(TopiaristError, match=words) as caught:
        parse_bootstrap_servers(text)
    assert caught.value.reason is Reason.WRONG_USAGE
    assert caught.value.hint == "write host1:9092,host2:9092"


def test_work_with_a_deadline() -> None:
    """The value and the exception of the work reach the caller; late work ends in a timeout."""
    assert run_with_deadline(lambda: 7, time.monotonic() + 5.0, "late") == 7
    with pytest.raises(ZeroDivisionError):
        run_with_deadline(lambda: 1 // 0, time.monotonic() + 5.0, "late")
    with pytest.raises(TimeoutError, match="late"):
        run_with_deadline(lambda: time.sleep(0.2), time.monotonic(), "late")
