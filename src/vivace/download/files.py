"""Brings files from the network into the cache, whole and verified, or says why not.

A file arrives as ``FILE.part``, which a later run resumes. It gets its name only once it is the
file that was wanted, and ``FILE.ok`` remembers its hash, so that a model of a gigabyte is not
hashed at every start and a start without a network works.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TextIO

from vivace.download.progress import Progress, megabytes
from vivace.download.transfer import completed, download
from vivace.download.wanted import Wanted, check_space, disk_error, stated
from vivace.errors import DownloadError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = ["Substitute", "Tell", "bring", "bring_all", "cache_root"]

Tell = Callable[[str], None]
"""Gets a line for the person."""

Substitute = Callable[[Wanted, Path], bool]
"""Asked before the network: writes the file to the path, or leaves it and returns False."""


def cache_root(environment: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    if chosen := environment.get("VIVACE_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = environment.get("XDG_CACHE_HOME")
    if not base and platform == "win32":
        base = environment.get("LOCALAPPDATA")
    return Path(base or "~/.cache").expanduser().absolute() / "vivace"


def bring_all(
    files: Sequence[Wanted], progress: Progress | None = None, *, tell: Tell | None = None
) -> bool:
    """Files that belong together: there must be room for all before the first one comes."""
    if len(files) == 1:
        return bring(files[0], progress, tell=tell)
    absent = {each.path: completed(each) for each in files if not each.path.is_file()}
    if absent:
        check_space(files[0], sum(each.missing or 0 for each in absent.values()))
    whole = sum(each.size or 0 for each in absent.values())
    before, fetched = 0, False
    for each in files:
        wanted = absent.get(each.path, each)
        fetched |= bring(wanted, progress and _within(progress, before, whole), tell=tell)
        before += wanted.size or 0
    return fetched


def _within(progress: Progress, before: int, whole: int) -> Progress:
    """Of one file, told as part of all."""
    return lambda done, _: progress(before + done, whole)


def bring(
    wanted: Wanted,
    progress: Progress | None = None,
    *,
    tell: Tell | None = None,
    substitute: Substitute | None = None,
) -> bool:
    """Make sure the file is there and is the right one; was it fetched?"""
    tell = tell or (lambda _: None)
    try:
        if _is_present(wanted):
            return False
        wanted.path.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(wanted, tell):
            if _is_present(wanted):
                return False
            wanted = completed(wanted)
            if _is_usable(wanted, tell):
                return False
            _fetch(wanted, progress or (lambda *_: None), tell, substitute)
            return True
    except OSError as error:  # the network's are dealt with where they happen
        raise disk_error(wanted, error) from error


def _fetch(wanted: Wanted, progress: Progress, tell: Tell, substitute: Substitute | None) -> None:
    part = wanted.part
    if wanted.sha256 is None or wanted.came > (wanted.size or sys.maxsize):
        # Without a hash nothing would notice that the part is of another file.
        part.unlink(missing_ok=True)
    if wanted.missing is not None:
        check_space(wanted, wanted.missing)
    if not (substitute and substitute(wanted, part)):
        size = f"{megabytes(wanted.size)} " if wanted.size else ""
        tell(f"{wanted.name}: {size}from {wanted.url}")
        try:
            download(wanted, progress)
        except BaseException:
            if wanted.sha256 is None:
                part.unlink(missing_ok=True)
            raise
    with part.open("r+b") as file:
        os.fsync(file.fileno())  # the stamp would vouch for what a power cut took away
    found = _hashed(part)
    if wanted.size not in (None, found.size) or wanted.sha256 not in (None, found.sha256):
        part.unlink()
        raise DownloadError(
            f"{wanted.name}: refused and removed, as what came is not the expected file.\n"
            f"  expected {wanted.sha256 or 'any hash'}, {stated(wanted.size)}\n"
            f"  received {found.sha256}, {stated(found.size)}\n"
            f"Run again to fetch it from the start. If that ends the same way, the file at "
            f"{wanted.url} is another one: {wanted.by_hand}."
        )
    part.replace(wanted.path)
    found.put(wanted.path)


# -- what is there already -----------------------------------------------------


class _Stamp(NamedTuple):
    sha256: str
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: Path) -> _Stamp | None:
        try:
            sha256, size, mtime_ns = _ok(path).read_text("utf-8").split()
            return cls(sha256, int(size), int(mtime_ns))
        except (OSError, ValueError):
            return None

    def put(self, path: Path) -> None:
        with suppress(OSError):  # then it is hashed again next time
            _ok(path).write_text(f"{self.sha256} {self.size} {self.mtime_ns}\n")


def _is_present(wanted: Wanted) -> bool:
    """Changes no file, as it is asked without the lock and in folders that cannot be written."""
    if not wanted.path.is_file():
        return False
    stamp = _Stamp.of(wanted.path)
    known = wanted.sha256 or (stamp.sha256 if stamp else None)
    stat = wanted.path.stat()
    if stamp and stamp == (known, stat.st_size, stat.st_mtime_ns):
        return True
    if known is None:
        return False
    found = _hashed(wanted.path)
    if found.sha256 != known:
        return False
    found.put(wanted.path)
    return True


def _is_usable(wanted: Wanted, tell: Tell) -> bool:
    """As above, once all is known that can be known; what is wrong is removed."""
    if not wanted.path.is_file():
        return False
    if _is_present(wanted):
        return True
    if wanted.sha256 is None and _Stamp.of(wanted.path) is None:  # put there by hand
        found = _hashed(wanted.path)
        if wanted.size in (None, found.size):
            found.put(wanted.path)
            return True
    tell(f"{wanted.name}: the cached file is not the expected one; removed, fetching it again")
    wanted.path.unlink()
    return False


def _hashed(path: Path) -> _Stamp:
    with path.open("rb") as file:
        stat = os.fstat(file.fileno())
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return _Stamp(sha256, stat.st_size, stat.st_mtime_ns)


def _ok(path: Path) -> Path:
    return path.with_name(path.name + ".ok")


@contextmanager
def _only_one(wanted: Wanted, tell: Tell) -> Iterator[None]:
    """Two runs that append to one part file would spoil it."""
    with wanted.path.with_name(f".{wanted.path.name}.lock").open("w") as lock:
        if not _lock(lock, wait=False):
            tell(f"{wanted.name}: waiting for another run that fetches it")
            while not _lock(lock, wait=True):
                pass
        yield


if sys.platform == "win32":

    def _lock(file: TextIO, *, wait: bool) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
        except OSError:  # LK_LOCK gives up after ten seconds
            return False
        return True

else:

    def _lock(file: TextIO, *, wait: bool) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True
