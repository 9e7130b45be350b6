"""The WebSocket at the level of frames: every case gets the close code it deserves, and nobody
else notices.

Modelled on the categories of Autobahn's fuzzing suite (framing, pings, reserved bits, opcodes,
fragmentation, UTF-8, closing, sizes), which itself drives only servers that echo.
"""

from __future__ import annotations

import base64
import json
import os
import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.attacks.conftest import SCRIPT
from tests.support.process import Serve
from tests.support.socket import Socket

CONT, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
MEGABYTE = 1_000_000

Frame = tuple[int, bytes]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    with Serve(
        tmp_path_factory.mktemp("frames"),
        SCRIPT,
        rate=100_000,
        tables={"limits": {"body_megabytes": 1}, "store": {"path": ":memory:"}},
    ) as running:
        yield running
    assert running.errors == []


@pytest.fixture(scope="module")
def bystander(server: Serve) -> Iterator[Socket]:
    """One connection that is open throughout, with a turn before and after each case."""
    with server.socket() as socket:
        yield socket


@pytest.fixture(autouse=True)
def _nobody_else_notices(bystander: Socket) -> Iterator[None]:
    yield
    assert bystander.turn("hi")["type"] == "response.completed"


class Peer:
    """A client that sends any bytes, and reads frames."""

    def __init__(self, server: Serve) -> None:
        self._plug = server.raw(timeout=20)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = ["GET /v1/responses HTTP/1.1", "host: localhost", "upgrade: websocket"]
        lines += ["connection: upgrade", "sec-websocket-version: 13", f"sec-websocket-key: {key}"]
        self._plug.sendall("\r\n".join([*lines, "", ""]).encode())
        self._heard = b""
        while b"\r\n\r\n" not in self._heard:
            self._heard += self._plug.recv(65_536)
        head, _, self._heard = self._heard.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 "), head

    def send(self, *pieces: bytes) -> None:
        with suppress(ConnectionError):  # what follows a fault may find it closed already
            for piece in pieces:
                self._plug.sendall(piece)

    def _take(self, count: int) -> bytes:
        while len(self._heard) < count:
            data = self._plug.recv(65_536)
            if not data:
                raise EOFError
            self._heard += data
        taken, self._heard = self._heard[:count], self._heard[count:]
        return taken

    def read(self) -> Frame:
        head, length = self._take(2)
        assert head & 0x70 == 0, "a server that agreed on no extension sets no reserved bits"
        assert length & 0x80 == 0, "a server masks nothing"
        if length == 126:
            [length] = struct.unpack("!H", self._take(2))
        elif length == 127:
            [length] = struct.unpack("!Q", self._take(8))
        return head & 0x0F, self._take(length)

    def close_code(self) -> int | None:
        """Read on until it is closed; None for a close without a code."""
        while (said := self.read())[0] != CLOSE:
            pass
        with suppress(ConnectionError), pytest.raises(EOFError):
            self.read()  # nothing may follow, and the server hangs up
        return struct.unpack("!H", said[1][:2])[0] if said[1] else None

    def answer(self) -> str:
        """The type of the last event of one turn, or of an error."""
        while True:
            opcode, data = self.read()
            assert opcode == TEXT, (opcode, data)
            kind = str(json.loads(data)["type"])
            if kind in ("response.completed", "error"):
                return kind

    def close(self) -> None:
        self._plug.close()


@pytest.fixture
def peer(server: Serve) -> Iterator[Peer]:
    one = Peer(server)
    yield one
    one.close()


def frame(
    opcode: int,
    data: bytes = b"",
    *,
    fin: bool = True,
    reserved: int = 0,
    mask: bytes | None = b"\x37\xfa\x21\x3d",
    length: int | None = None,
    wide: int = 0,
) -> bytes:
    """``length`` says another than there is; ``wide`` writes it in 2 or 8 bytes."""
    count = len(data) if length is None else length
    wide = wide or (0 if count < 126 else 2 if count < 65_536 else 8)
    bit = 0 if mask is None else 0x80
    size = {
        0: lambda: bytes([bit | count]),
        2: lambda: bytes([bit | 126]) + struct.pack("!H", count),
        8: lambda: bytes([bit | 127]) + struct.pack("!Q", count),
    }[wide]()
    head = bytes([(0x80 if fin else 0) | (reserved << 4) | opcode]) + size
    if mask is None:
        return head + data
    key = mask * (len(data) // 4 + 1)
    return head + mask + bytes(a ^ b for a, b in zip(data, key, strict=False))


def create(text: str = "hi") -> bytes:
    return json.dumps({"type": "response.create", "input": text, "store": False}).encode()


def padded(size: int) -> bytes:
    """A whole request of exactly so many bytes."""
    return create() + b" " * (size - len(create()))


def closing(code: int, reason: bytes = b"") -> bytes:
    return frame(CLOSE, struct.pack("!H", code) + reason)


SNOW = json.dumps(
    {"type": "response.create", "input": "\u00e9 \u2603 \U0001f600", "store": False},
    ensure_ascii=False,
).encode()
MID = SNOW.index("\U0001f600".encode())

# -- framing, fragmentation: what must be understood ----------------------------------------------

UNDERSTOOD: dict[str, list[bytes]] = {
    "text": [frame(TEXT, create())],
    "binary": [frame(BINARY, create())],
    "mask of zeros": [frame(TEXT, create(), mask=bytes(4))],
    "mask of ones": [frame(TEXT, create(), mask=b"\xff" * 4)],
    "126 bytes": [frame(TEXT, padded(126))],
    "125 bytes": [frame(TEXT, padded(125))],
    "127 bytes": [frame(TEXT, padded(127))],
    "65535 bytes": [frame(TEXT, padded(65_535))],
    "65536 bytes": [frame(TEXT, padded(65_536))],
    "as large as allowed": [frame(TEXT, padded(MEGABYTE))],
    "length in 2 bytes that fits 1": [frame(TEXT, create(), wide=2)],
    "length in 8 bytes that fits 1": [frame(TEXT, create(), wide=8)],
    "byte by byte": [bytes([byte]) for byte in frame(TEXT, create())],
    "two fragments": [frame(TEXT, create()[:9], fin=False), frame(CONT, create()[9:])],
    "two fragments at once": [frame(TEXT, create()[:9], fin=False) + frame(CONT, create()[9:])],
    "binary fragments": [frame(BINARY, create()[:9], fin=False), frame(CONT, create()[9:])],
    "a fragment for each byte": [
        frame(TEXT, fin=False),
        *(frame(CONT, bytes([byte]), fin=False) for byte in create()),
        frame(CONT),
    ],
    "empty fragments": [
        frame(TEXT, fin=False),
        frame(CONT, fin=False),
        frame(CONT, create(), fin=False),
        frame(CONT),
    ],
    "fragments as large as allowed": [
        frame(TEXT, padded(MEGABYTE)[:500_000], fin=False),
        frame(CONT, padded(MEGABYTE)[500_000:]),
    ],
    "UTF-8": [frame(TEXT, SNOW)],
    "UTF-8 split inside a character": [
        frame(TEXT, SNOW[: MID + 2], fin=False),
        frame(CONT, SNOW[MID + 2 :]),
    ],
    "UTF-8 split at each byte": [
        frame(TEXT, fin=False),
        *(frame(CONT, bytes([byte]), fin=False) for byte in SNOW),
        frame(CONT),
    ],
    "pong that nobody asked for": [frame(PONG, b"unasked"), frame(TEXT, create())],
    "ten empty pongs": [frame(PONG) * 10 + frame(TEXT, create())],
    "pong between fragments": [
        frame(TEXT, create()[:9], fin=False),
        frame(PONG, b"x"),
        frame(CONT, create()[9:]),
    ],
}


@pytest.mark.parametrize("pieces", UNDERSTOOD.values(), ids=UNDERSTOOD)
def test_what_is_allowed_is_understood(peer: Peer, pieces: list[bytes]) -> None:
    peer.send(*pieces)
    assert peer.answer() == "response.completed"


# -- pings ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "payload", [b"", b"hello", b"\x00\xff\xfe", b"x" * 125], ids=["empty", "text", "binary", "125"]
)
def test_a_ping_is_answered_with_its_own_words(peer: Peer, payload: bytes) -> None:
    peer.send(frame(PING, payload))
    assert peer.read() == (PONG, payload)


def test_pings_are_answered_in_their_order(peer: Peer) -> None:
    peer.send(b"".join(frame(PING, bytes([number])) for number in range(10)))
    assert [peer.read() for _ in range(10)] == [(PONG, bytes([number])) for number in range(10)]


def test_a_ping_between_fragments_is_answered_before_the_message(peer: Peer) -> None:
    peer.send(frame(TEXT, create()[:9], fin=False), frame(PING, b"now"))
    assert peer.read() == (PONG, b"now")
    peer.send(frame(CONT, create()[9:]))
    assert peer.answer() == "response.completed"


def test_a_message_that_is_empty_is_answered_with_an_error(peer: Peer) -> None:
    peer.send(frame(TEXT), frame(TEXT, b"[" * 1000))
    assert [peer.answer(), peer.answer()] == ["error", "error"]
    peer.send(frame(TEXT, create()))
    assert peer.answer() == "response.completed"


# -- what ends the connection, and with which code --------------------------------------------

PROTOCOL_ERROR, BAD_DATA, TOO_BIG, NORMAL = 1002, 1007, 1009, 1000

FATAL: dict[str, tuple[int, list[bytes]]] = {
    # reserved bits
    "reserved bit 1": (PROTOCOL_ERROR, [frame(TEXT, create(), reserved=4)]),
    "reserved bit 2": (PROTOCOL_ERROR, [frame(TEXT, create(), reserved=2)]),
    "reserved bit 3": (PROTOCOL_ERROR, [frame(TEXT, create(), reserved=1)]),
    "all reserved bits": (PROTOCOL_ERROR, [frame(BINARY, create(), reserved=7)]),
    "reserved bit of a ping": (PROTOCOL_ERROR, [frame(PING, reserved=4)]),
    "reserved bit of a close": (PROTOCOL_ERROR, [frame(CLOSE, reserved=2)]),
    "reserved bit of a fragment": (
        PROTOCOL_ERROR,
        [frame(TEXT, b"{", fin=False), frame(CONT, b"}", reserved=4)],
    ),
    # opcodes
    **{
        f"opcode {opcode}": (PROTOCOL_ERROR, [frame(opcode, b"x")])
        for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)
    },
    "opcode 3 after a good message": (PROTOCOL_ERROR, [frame(TEXT, create()) + frame(3)]),
    # masks
    "no mask": (PROTOCOL_ERROR, [frame(TEXT, create(), mask=None)]),
    "ping without a mask": (PROTOCOL_ERROR, [frame(PING, b"x", mask=None)]),
    "close without a mask": (PROTOCOL_ERROR, [frame(CLOSE, b"\x03\xe8", mask=None)]),
    # control frames
    "ping in fragments": (PROTOCOL_ERROR, [frame(PING, b"x", fin=False)]),
    "pong in fragments": (PROTOCOL_ERROR, [frame(PONG, b"x", fin=False)]),
    "close in fragments": (PROTOCOL_ERROR, [frame(CLOSE, fin=False)]),
    "ping of 126 bytes": (PROTOCOL_ERROR, [frame(PING, b"x" * 126)]),
    "pong of 126 bytes": (PROTOCOL_ERROR, [frame(PONG, b"x" * 126)]),
    "close of 126 bytes": (PROTOCOL_ERROR, [closing(1000, b"x" * 124)]),
    # fragmentation
    "continuation of nothing": (PROTOCOL_ERROR, [frame(CONT, b"{}")]),
    "unfinished continuation of nothing": (PROTOCOL_ERROR, [frame(CONT, b"{", fin=False)]),
    "continuation after the end": (
        PROTOCOL_ERROR,
        [frame(TEXT, b"{", fin=False) + frame(CONT, b"}") + frame(CONT, b"}")],
    ),
    "text inside a message": (
        PROTOCOL_ERROR,
        [frame(TEXT, b"{", fin=False), frame(TEXT, create())],
    ),
    "binary inside a message": (
        PROTOCOL_ERROR,
        [frame(TEXT, b"{", fin=False), frame(BINARY, create(), fin=False)],
    ),
    "close inside a message": (PROTOCOL_ERROR, [frame(TEXT, b"{", fin=False), closing(1000)]),
    # UTF-8
    "a byte that is never UTF-8": (BAD_DATA, [frame(TEXT, b'{"a":"\xff"}')]),
    "a lone continuation byte": (BAD_DATA, [frame(TEXT, b'{"a":"\x80"}')]),
    "a character that is cut off": (BAD_DATA, [frame(TEXT, b'{"a":"\xf0\x9f\x98')]),
    "an overlong slash": (BAD_DATA, [frame(TEXT, b'{"a":"\xc0\xaf"}')]),
    "a surrogate": (BAD_DATA, [frame(TEXT, b'{"a":"\xed\xa0\x80"}')]),
    "beyond Unicode": (BAD_DATA, [frame(TEXT, b'{"a":"\xf4\x90\x80\x80"}')]),
    "a character split and never finished": (
        BAD_DATA,
        [frame(TEXT, SNOW[: MID + 2], fin=False), frame(CONT, b'"}')],
    ),
    # sizes
    "a byte too large": (TOO_BIG, [frame(TEXT, padded(MEGABYTE + 1))]),
    "much too large, and sent to its end": (TOO_BIG, [frame(TEXT, bytes(10 * MEGABYTE))]),
    "a length of 4 GB": (TOO_BIG, [frame(TEXT, b"{", length=2**32)]),
    "a length of 2^63": (TOO_BIG, [frame(TEXT, b"{", length=2**63)]),
    "the largest length": (TOO_BIG, [frame(BINARY, b"{", length=2**64 - 1)]),
    "fragments that are too large together": (
        TOO_BIG,
        [frame(TEXT, b" " * 600_000, fin=False), frame(CONT, b" " * 600_000)],
    ),
    # closing
    "a close of one byte": (PROTOCOL_ERROR, [frame(CLOSE, b"\x03")]),
    "a close reason that is no UTF-8": (BAD_DATA, [closing(1000, b"\xff\xfe")]),
    **{
        f"close code {code}": (PROTOCOL_ERROR, [closing(code)])
        for code in (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65_535)
    },
}


@pytest.mark.parametrize(("code", "pieces"), FATAL.values(), ids=FATAL)
def test_what_is_not_allowed_ends_the_connection(
    peer: Peer, code: int, pieces: list[bytes]
) -> None:
    peer.send(*pieces)
    assert peer.close_code() == code


@pytest.mark.parametrize(
    "code", [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999]
)
def test_a_close_is_returned_with_its_code(peer: Peer, code: int) -> None:
    peer.send(closing(code, b"goodbye"))
    assert peer.close_code() == code


def test_a_close_without_a_code_is_returned_without_one(peer: Peer) -> None:
    peer.send(frame(CLOSE))
    assert peer.close_code() is None


def test_nothing_is_heard_after_a_close(peer: Peer) -> None:
    peer.send(closing(1000) + frame(PING, b"x") + frame(TEXT, create()) + frame(3))
    assert peer.close_code() == NORMAL


def test_broken_text_with_a_close_behind_it_is_still_only_one_end(peer: Peer) -> None:
    peer.send(frame(TEXT, b"\xff") + closing(1000))
    assert peer.close_code() in (BAD_DATA, NORMAL)


def test_a_close_in_the_middle_of_a_turn_ends_it(peer: Peer, server: Serve) -> None:
    peer.send(frame(TEXT, create("endless")))
    assert peer.read()[0] == TEXT
    peer.send(closing(1000))
    assert peer.close_code() == NORMAL


def test_a_fault_in_the_middle_of_a_turn_ends_it_quietly(peer: Peer) -> None:
    peer.send(frame(TEXT, create("endless")))
    assert peer.read()[0] == TEXT
    peer.send(frame(3))
    assert peer.close_code() == PROTOCOL_ERROR


def test_many_small_fragments_cost_their_bytes_and_no_more(peer: Peer, server: Serve) -> None:
    peer.send(frame(TEXT, b"{", fin=False))
    fragments = frame(CONT, b"  ", fin=False, mask=bytes(4)) * 100_000
    held = []
    for _ in range(3):  # the first shows what reading takes, the others what keeping does
        peer.send(fragments, frame(PING, b"all read?"))
        assert peer.read() == (PONG, b"all read?")
        held.append(server.resident)
    assert held[2] < held[0] + 4_000_000
