"""Splits a GGUF file as llama.cpp does, so that what is brought in pieces can be run.

Only what a split needs is read: the bytes of the metadata are copied as they are, and three keys
are written anew into every piece.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import BinaryIO, NamedTuple

__all__ = ["split"]

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9
_ALIGNMENT = 32


class _Tensor(NamedTuple):
    head: bytes
    """Name, dimensions and type, as in the file."""
    start: int
    end: int


def split(whole: Path, folder: Path, pieces: int) -> list[Path]:
    """Into so many files, of about as many tensors each."""
    with whole.open("rb") as file:
        magic, _, tensor_count, key_count = struct.unpack("<4sIQQ", file.read(24))
        assert magic == b"GGUF"
        begins = file.tell()
        for _ in range(key_count):
            _skip_string(file)
            _skip_value(file, _number(file, "<I"))
        keys = _between(file, begins, file.tell())
        tensors = _tensors(file, tensor_count, whole.stat().st_size)
        share = -(-len(tensors) // pieces)
        paths = []
        for number in range(pieces):
            path = folder / f"{whole.stem}-{number + 1:05d}-of-{pieces:05d}.gguf"
            mine = tensors[number * share : (number + 1) * share]
            ours = _key("split.no", "<IH", 2, number) + _key("split.count", "<IH", 2, pieces)
            ours += _key("split.tensors.count", "<Ii", 5, len(tensors))
            first = number == 0
            head = struct.pack("<4sIQQ", b"GGUF", 3, len(mine), 3 + (key_count if first else 0))
            _write(file, path, head + ours + (keys if first else b""), mine)
            paths.append(path)
    return paths


def _key(name: str, form: str, kind: int, value: int) -> bytes:
    return struct.pack("<Q", len(name)) + name.encode() + struct.pack(form, kind, value)


def _write(file: BinaryIO, path: Path, head: bytes, tensors: list[_Tensor]) -> None:
    offset, heads = 0, b""
    for tensor in tensors:
        heads += tensor.head + struct.pack("<Q", offset)
        offset += _aligned(tensor.end - tensor.start)
    with path.open("wb") as out:
        out.write(head + heads)
        for tensor in tensors:
            out.write(b"\0" * (_aligned(out.tell()) - out.tell()))
            out.write(_between(file, tensor.start, tensor.end))
        out.write(b"\0" * (_aligned(out.tell()) - out.tell()))


def _tensors(file: BinaryIO, count: int, size: int) -> list[_Tensor]:
    heads, offsets = [], []
    for _ in range(count):
        begins = file.tell()
        _skip_string(file)
        file.seek(8 * _number(file, "<I") + 4, 1)
        heads.append(_between(file, begins, file.tell()))
        offsets.append(_number(file, "<Q"))
    data = _aligned(file.tell())
    ends = sorted([*offsets, size - data])
    return [
        _Tensor(head, data + offset, data + ends[ends.index(offset) + 1])
        for head, offset in zip(heads, offsets, strict=True)
    ]


def _skip_value(file: BinaryIO, kind: int) -> None:
    if kind == _STRING:
        _skip_string(file)
    elif kind == _ARRAY:
        inner, length = _number(file, "<I"), _number(file, "<Q")
        if inner in _SIZES:
            file.seek(_SIZES[inner] * length, 1)
        else:
            for _ in range(length):
                _skip_value(file, inner)
    else:
        file.seek(_SIZES[kind], 1)


def _skip_string(file: BinaryIO) -> None:
    file.seek(_number(file, "<Q"), 1)


def _number(file: BinaryIO, form: str) -> int:
    (number,) = struct.unpack(form, file.read(struct.calcsize(form)))
    return int(number)


def _between(file: BinaryIO, begins: int, ends: int) -> bytes:
    file.seek(begins)
    return file.read(ends - begins)


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT
