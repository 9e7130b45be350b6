"""Clients that keep to no protocol: sockets, and the bytes that they send."""

from __future__ import annotations

import base64
import json
import os
import socket as tcp
import struct
from contextlib import suppress
from typing import Protocol

from tests.support.http import bearer
from tests.support.waiting import PATIENCE_S

FLOOD = f"""
[[replies]]
when = "flood"
then = [{{ do = "say", text = "{" " * 200_000}", times = 40 }}, {{ do = "stall", seconds = 3600 }}]
[[replies]]
when = "lump"
then = [{{ do = "say", text = "{" " * 200_000}", times = 40 }}]
"""
"""More than all buffers on the way hold, in few tokens; then to stay, or to end."""


class HasPort(Protocol):
    @property
    def port(self) -> int: ...


def plug(
    server: HasPort, data: bytes = b"", *, attacker: bool = True, buffer: int = 0
) -> tcp.socket:
    one = tcp.socket()
    if buffer:
        one.setsockopt(tcp.SOL_SOCKET, tcp.SO_RCVBUF, buffer)
    one.bind(("127.0.0.2" if attacker else "127.0.0.1", 0))
    one.settimeout(PATIENCE_S)
    one.connect(("127.0.0.1", server.port))
    one.sendall(data)
    return one


def request(head: str, body: object = None, owner: str = "ada") -> bytes:
    sent = b"" if body is None else json.dumps(body).encode()
    lines = [f"{head} HTTP/1.1", "host: localhost", f"content-length: {len(sent)}"]
    lines += [f"{name}: {value}" for name, value in bearer(owner).items()]
    return "\r\n".join([*lines, "", ""]).encode() + sent


def handshake(owner: str = "ada") -> bytes:
    key = base64.b64encode(os.urandom(16)).decode()
    lines = ["GET /v1/responses HTTP/1.1", "host: localhost", "upgrade: websocket"]
    lines += ["connection: upgrade", "sec-websocket-version: 13", f"sec-websocket-key: {key}"]
    lines += [f"{name}: {value}" for name, value in bearer(owner).items()]
    return "\r\n".join([*lines, "", ""]).encode()


def frame(data: bytes, opcode: int = 1, *, fin: bool = True) -> bytes:
    head = bytes([(0x80 if fin else 0) | opcode])
    length = len(data)
    if length < 126:
        size = bytes([0x80 | length])
    elif length < 65_536:
        size = bytes([0x80 | 126]) + struct.pack("!H", length)
    else:
        size = bytes([0x80 | 127]) + struct.pack("!Q", length)
    return head + size + bytes(4) + data


def heard(one: tcp.socket) -> bytes:
    """All it is told, until it is left."""
    said = b""
    with suppress(ConnectionResetError):
        while data := one.recv(65_536):
            said += data
    return said


def create(text: str, **body: object) -> dict[str, object]:
    return {"model": "local-model", "input": text, "store": False, **body}
