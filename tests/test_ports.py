"""Ports for servers that take a while to start."""

from __future__ import annotations

import itertools
import socket
from pathlib import Path

import pytest

from tests.support import ports
from tests.support.ports import free_port

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_no_port_is_given_twice_though_nobody_listens_yet() -> None:
    given = [free_port() for _ in range(200)]
    assert len(set(given)) == len(given)


def test_a_port_that_somebody_listens_on_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers, again = itertools.tee(itertools.count(12_345))
    monkeypatch.setattr(ports, "_numbers", numbers)
    first = free_port()
    monkeypatch.setattr(ports, "_numbers", again)
    with socket.create_server(("127.0.0.1", first)):
        assert free_port() != first


@pytest.mark.skipif(not RANGE.exists(), reason="Linux says here which ports it gives out")
def test_who_connects_meanwhile_is_not_given_it() -> None:
    first, last = map(int, RANGE.read_text().split())
    assert free_port() not in range(first, last + 1)
