"""A WebSocket client that only counts, so that it is never what a benchmark measures.

Messages are not parsed: bytes are read in large pieces and the deltas in them are counted by their
text. A library client costs more per message than the gateway we want to see the limit of.
"""

from __future__ import annotations

import base64
import os
import socket


def open_socket(port: int) -> socket.socket:
    key = base64.b64encode(os.urandom(16)).decode()
    request = (
        f"GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(request.encode())
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(4096)
    assert b" 101 " in answer, answer
    return connection


def send_text(connection: socket.socket, text: str) -> None:
    """One masked text frame (the mask is zeros: legal, and nothing to compute)."""
    data = text.encode()
    if len(data) < 126:
        head = bytes([0x81, 0x80 | len(data)])
    else:
        head = bytes([0x81, 0x80 | 126]) + len(data).to_bytes(2, "big")
    connection.sendall(head + bytes(4) + data)
