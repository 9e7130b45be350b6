"""A text file as it was read, and how a new text becomes bytes without touching what it need not.

In ``text`` every line ends in ``\\n``, whatever it ends in on disk. ``encode`` gives each line that
was there before its own ending back, and a new one the ending of its neighbour; it takes texts that
still have their ``\\r`` just as well. A lone ``\\r`` ends a line only where no ``\\n`` does.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from vivace.workspace.errors import CannotWrite, NotText, PathRefused, explain
from vivace.workspace.paths import SafePath, open_folder

__all__ = [
    "LARGEST",
    "Document",
    "LineEnding",
    "Version",
    "of_text",
    "read",
    "read_in",
    "version_of",
]

LineEnding = Literal["\n", "\r\n", "\r", "mixed"]

LARGEST = 5 * 1024 * 1024
"""Bytes. No person edits a larger file by hand, and no model reads one."""
_BOM = b"\xef\xbb\xbf"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_EXACT = 4_000_000
"""Up to so many pairs of lines, the search for untouched ones leaves none out."""


@dataclass(frozen=True)
class Version:
    """What a file was when it was read. The hash decides; the rest is a cheap hint."""

    sha256: str
    inode: int
    modified_ns: int


def version_of(data: bytes, status: os.stat_result) -> Version:
    return Version(hashlib.sha256(data).hexdigest(), status.st_ino, status.st_mtime_ns)


@dataclass(frozen=True)
class Document:
    path: SafePath
    data: bytes
    """What is on disk."""
    text: str
    """The same to be read and edited: without byte order mark, every line ending in ``\\n``."""
    bom: bool
    line_ending: LineEnding
    mode: int
    version: Version | None
    """None for a file that is not there yet."""

    @classmethod
    def new(cls, path: SafePath) -> Document:
        """A file that is to be made."""
        return cls(path, b"", "", bom=False, line_ending="\n", mode=0o666, version=None)

    @property
    def encoding(self) -> Literal["utf-8", "utf-8-sig"]:
        return "utf-8-sig" if self.bom else "utf-8"

    @property
    def final_newline(self) -> bool:
        return self.text.endswith("\n")

    def encode(self, text: str) -> bytes:
        """The bytes of a new text; refused where this file could not be read again."""
        if "\0" in text:
            raise CannotWrite(f"{self.path} was not touched: the new text holds a NUL character.")
        if self.line_ending == "mixed":
            text = _with_endings_of(self.data.removeprefix(_BOM).decode(), text)
        else:
            text = _with_ending(self.line_ending, text)
        try:
            data = (_BOM if self.bom else b"") + text.encode()
        except UnicodeEncodeError as error:
            raise CannotWrite(
                f"{self.path} was not touched: the new text holds half a character "
                f"(U+{ord(text[error.start]):04X})."
            ) from error
        if len(data) > LARGEST:
            raise CannotWrite(
                f"{self.path} was not touched: it would have {_megabytes(len(data))} MB, and edits "
                f"stop at {_megabytes(LARGEST)} MB."
            )
        return data


def read(path: SafePath) -> Document:
    """The file, or NotText with the reason."""
    try:
        with open_folder(path) as folder:
            found = read_in(folder, path)
    except FileNotFoundError as error:
        raise NotText(f"There is no file {path}.") from error
    except OSError as error:
        raise explain(path, error, NotText) from error
    data, status = found
    return _document(
        path, data, status.st_size, stat.S_IMODE(status.st_mode), version_of(data, status)
    )


def of_text(path: SafePath, text: str) -> Document:
    """The file as an editor has it, whatever is on disk; or NotText with the reason."""
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise NotText(f"{path} is not text: it holds half a character.") from error
    return _document(path, data, len(data), 0o666, None)


def _document(
    path: SafePath, data: bytes, size: int, mode: int, version: Version | None
) -> Document:
    if len(data) > LARGEST:
        raise NotText(
            f"{path} is too large to edit: it has {_megabytes(size)} MB, and edits stop "
            f"at {_megabytes(LARGEST)} MB. Split it, or edit it by hand."
        )
    text = _decode(path, data)
    ending = _line_ending(text)
    return Document(
        path,
        data,
        text.replace("\r", "\n") if ending == "\r" else text.replace("\r\n", "\n"),
        bom=data.startswith(_BOM),
        line_ending=ending,
        mode=mode,
        version=version,
    )


def read_in(folder: int, path: SafePath) -> tuple[bytes, os.stat_result]:
    """A file's bytes, a little more than ``LARGEST`` at most, from its open folder."""
    # Not to block: whoever opens a pipe waits for somebody to write to it.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    handle = os.open(path.name, flags, dir_fd=folder)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise PathRefused(f"{path} was refused: it is no ordinary file any more.")
    with open(handle, "rb") as file:  # noqa: PTH123 - a handle
        return file.read(LARGEST + 1), status


def _decode(path: SafePath, data: bytes) -> str:
    if data.startswith(_UTF_16):
        raise NotText(f"{path} is UTF-16. Only UTF-8 is edited; convert it first (iconv -t UTF-8).")
    if b"\0" in data:
        raise NotText(f"{path} is not text: it holds NUL bytes.")
    try:
        return data.removeprefix(_BOM).decode()
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise NotText(
            f"{path} is not UTF-8 (line {line} holds the byte 0x{error.object[error.start]:02x}). "
            "Convert it first, from Latin-1 for example: iconv -f LATIN1 -t UTF-8."
        ) from error


def _line_ending(text: str) -> LineEnding:
    newlines = text.count("\n")
    if not newlines:
        return "\r" if "\r" in text else "\n"
    returns = text.count("\r")
    if not returns:
        return "\n"
    # Anything odd is mixed, which keeps every line as it is.
    windows = text.count("\r\n")
    return "\r\n" if windows == newlines == returns else "mixed"


class _Line(NamedTuple):
    content: str
    ending: str
    """Empty behind the last ``\\n``; more than one ``\\r`` where somebody's tool left them."""


def _lines(text: str) -> list[_Line]:
    found = []
    for line in re.findall(r"[^\n]*\n|[^\n]+", text):
        content = line.rstrip("\r\n")
        found.append(_Line(content, line[len(content) :]))
    return found


def _with_ending(ending: str, text: str) -> str:
    if ending == "\r":
        return text.replace("\r\n", "\n").replace("\n", "\r")
    return "".join(
        line.content + (ending if line.ending.endswith("\n") else "") for line in _lines(text)
    )


def _with_endings_of(before: str, after: str) -> str:
    """A new text in which each line that was there before is what it was, to the last ``\\r``."""
    old, new = _lines(before), _lines(after)
    kept = _untouched([line.content for line in old], [line.content for line in new])
    ended = [line.ending for line in old if line.ending.endswith("\n")]
    near = Counter(ended).most_common(1)[0][0]
    parts: list[str] = []
    for line, place in zip(new, kept, strict=True):
        own = old[place].ending if place is not None else ""
        ends = line.ending.endswith("\n")
        if own.endswith("\n"):
            near = own
        # The last line may have lost its end, or found one: then it is a new line in this.
        fits = own.endswith("\n") == ends
        parts += [line.content, own if fits else near if ends else ""]
    return "".join(parts)


def _untouched(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    """For each new line, the old one that it is, or that it is put in the place of."""
    kept: list[int | None] = [None] * len(new)
    most = min(len(old), len(new))
    start = next((place for place in range(most) if old[place] != new[place]), most)
    rest = most - start
    end = next((back for back in range(rest) if old[-1 - back] != new[-1 - back]), rest)
    kept[:start] = range(start)
    for back in range(end):
        kept[-1 - back] = len(old) - 1 - back
    a, b = old[start : len(old) - end], new[start : len(new) - end]
    matcher = SequenceMatcher(None, a, b, autojunk=len(a) * len(b) > _EXACT)
    for _, in_old, to_old, in_new, to_new in matcher.get_opcodes():
        if to_old - in_old == to_new - in_new:  # the same lines, or as many others for them
            kept[start + in_new : start + to_new] = range(start + in_old, start + to_old)
    return kept


def _megabytes(size: int) -> str:
    return f"{size / 1024 / 1024:.1f}".removesuffix(".0")
