"""Large JSON arrays of objects, decoded a part at a time.

A decoder takes a document in one call, during which no other thread of the interpreter runs. An
array of megabytes is cut where one of its elements ends, so that each call is short.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec

__all__ = ["PART_BYTES", "decode_array"]

T = TypeVar("T")

PART_BYTES = 64_000
"""Bytes that are decoded at once: about 0.7 ms for small items of a conversation (measured)."""


def decode_array(
    decode: Callable[[bytes], list[T]], data: bytes, part_bytes: int = PART_BYTES
) -> Iterator[list[T]]:
    """Yield the elements of the array that ``data`` is, those of one part after the other.

    A part has about ``part_bytes``, and more if a single element has. ``decode`` is given each as
    an array, and some that end inside of an element, for which it must raise ``DecodeError``. What
    it raises for damaged data is raised here, perhaps after the elements before were yielded.
    """
    if not (data.startswith(b"[{") and data.endswith(b"}]")):
        yield decode(data)
        return
    start, end = 1, len(data) - 1
    while start < end:
        size = part_bytes
        while True:
            stop = data.find(b"},{", start + size, end) + 1 or end
            try:
                elements = decode(b"[%b]" % data[start:stop])
            except msgspec.ValidationError:
                raise
            except msgspec.DecodeError:
                # Unless the data is damaged, this cut is inside of an element: what is open there
                # is not closed by the bracket. Twice as far, so that the trials cost little.
                if stop == end:
                    raise
                size = 2 * (stop - start)
            else:
                break
        yield elements
        start = stop + 1
