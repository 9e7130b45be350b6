"""Brings a file from the network into the cache, whole and verified, or says why not.

A file arrives as ``FILE.part``, which a later run resumes. It gets its name only once it is the
file that was wanted, and ``FILE.ok`` remembers its hash, so that a model of a gigabyte is not
hashed at every start and a start without a network works.

Environment:
    VIVACE_CACHE   where files are kept (else ``$XDG_CACHE_HOME/vivace``, ``~/.cache/vivace``,
                   on Windows ``%LOCALAPPDATA%\\vivace``)
    HF_ENDPOINT    a mirror of the model hub
    HF_TOKEN       sent to the hub, and to nobody it redirects to
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import re
import shutil
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from email.message import Message
from http.client import HTTPException, HTTPMessage, HTTPResponse
from pathlib import Path
from typing import IO, NamedTuple, TextIO, cast
from urllib.parse import quote, urljoin, urlsplit

from vivace import __version__
from vivace.errors import DownloadError

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

__all__ = [
    "Progress",
    "Substitute",
    "Tell",
    "Wanted",
    "bring",
    "cache_root",
    "hub_url",
    "megabytes",
    "progress_line",
]

CHUNK = 1 << 18
TIMEOUT_S = 30
BARREN_TRIES = 3  # in a row; a try that brought bytes starts the count again
REDIRECTS = 5


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wanted:
    name: str
    url: str
    path: Path
    size: int | None = None
    sha256: str | None = None
    """Lower-case. What is None is asked of the server; a file in the cache is taken as it is."""
    by_hand: str = "give a local file with --model PATH"
    """What a person without a network can do instead."""


Progress = Callable[[int, int], None]
"""Gets the bytes that are there and the whole size, 0 if unknown. May raise to stop."""

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


def hub_url(repo: str, file: str, revision: str = "main") -> str:
    return f"{_hub()}/{quote(repo)}/resolve/{quote(revision, safe='')}/{quote(file)}"


def bring(
    wanted: Wanted,
    progress: Progress | None = None,
    *,
    tell: Tell | None = None,
    substitute: Substitute | None = None,
) -> bool:
    """Make sure the file is there and is the right one; was it fetched?"""
    tell = tell or (lambda _: None)
    part = _beside(wanted.path, ".part")
    try:
        if _is_present(wanted):
            return False
        wanted.path.parent.mkdir(parents=True, exist_ok=True)
        with _only_one(wanted, tell):
            if _is_present(wanted):
                return False
            wanted = _completed(wanted)
            if _is_usable(wanted, tell):
                return False
            _fetch(wanted, part, progress or (lambda *_: None), tell, substitute)
            return True
    except OSError as error:  # the network's are dealt with where they happen
        raise _disk_error(wanted, part, error) from error


# -- what is there already -----------------------------------------------------


class _Stamp(NamedTuple):
    sha256: str
    size: int
    mtime_ns: int

    @classmethod
    def of(cls, path: Path) -> _Stamp | None:
        try:
            sha256, size, mtime_ns = _beside(path, ".ok").read_text("utf-8").split()
            return cls(sha256, int(size), int(mtime_ns))
        except (OSError, ValueError):
            return None

    def put(self, path: Path) -> None:
        with suppress(OSError):  # then it is hashed again next time
            _beside(path, ".ok").write_text(f"{self.sha256} {self.size} {self.mtime_ns}\n")


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


# -- one file ------------------------------------------------------------------


class _Trouble(Exception):
    """The network failed in a way that may pass."""


def _fetch(
    wanted: Wanted, part: Path, progress: Progress, tell: Tell, substitute: Substitute | None
) -> None:
    if wanted.sha256 is None or _size(part) > (wanted.size or sys.maxsize):
        # Without a hash nothing would notice that the part is of another file.
        part.unlink(missing_ok=True)
    if wanted.size is not None:
        _check_space(wanted, wanted.size - _size(part))
    if not (substitute and substitute(wanted, part)):
        size = f"{megabytes(wanted.size)} " if wanted.size else ""
        tell(f"{wanted.name}: {size}from {wanted.url}")
        try:
            _download(wanted, part, progress)
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
            f"  expected {wanted.sha256 or 'any hash'}, {_bytes(wanted.size)}\n"
            f"  received {found.sha256}, {_bytes(found.size)}\n"
            f"Run again to fetch it from the start. If that ends the same way, the file at "
            f"{wanted.url} is another one: {wanted.by_hand}."
        )
    part.replace(wanted.path)
    found.put(wanted.path)


def _download(wanted: Wanted, part: Path, progress: Progress) -> None:
    part.touch()
    size = wanted.size
    most, barren = _size(part), 0
    while size is None or _size(part) < size:
        try:
            size = _receive(wanted, size, part, progress)
            trouble = f"the connection to {_host(wanted.url)} ended early"
        except _Trouble as error:
            trouble = str(error)
        have = _size(part)
        if size is not None and have >= size:
            return
        most, barren = (have, 0) if have > most else (most, barren + 1)
        if barren == BARREN_TRIES:
            raise _gave_up(wanted, trouble, _kept(wanted, part))
        time.sleep(barren)


def _receive(wanted: Wanted, size: int | None, part: Path, progress: Progress) -> int:
    """One connection: append to the part file until the server stops; return the whole size."""
    start = _size(part)
    with _open(wanted, start) as response:
        begins, total = _extent(response)
        if begins not in (0, start):
            part.unlink()
            raise _Trouble(f"{_host(wanted.url)} did not send what was asked for")
        if size is None and total is not None:
            _check_space(wanted, total - begins)
        if None not in (size, total) and size != total:
            raise DownloadError(
                f"{wanted.name}: {wanted.url} has {_bytes(total)}, not {_bytes(size)}, so it is "
                f"another file. Check the connection, or {wanted.by_hand}."
            )
        size = size if total is None else total
        done = begins
        # A server without ranges sends the whole file again.
        with part.open("ab" if begins else "wb") as out:
            while (size is None or done <= size) and (data := _read(response)):
                out.write(data)
                done += len(data)
                progress(done, size or 0)
    return done if size is None else size


def _extent(response: HTTPResponse) -> tuple[int, int | None]:
    """Where in the file the answer begins, and how long the file is."""
    begins, total = 0, None
    if response.status == 206:
        given = re.fullmatch(
            r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", "").strip()
        )
        if not given:
            raise _Trouble("the server did not say which part of the file it sends")
        begins = int(given[1])
        total = int(given[2]) if given[2] != "*" else None
    if total is None and (length := _number(response.headers.get("Content-Length"))) is not None:
        total = begins + length
    return begins, total


# -- the server ----------------------------------------------------------------


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows, but takes the token along only within the hub."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        _check_redirect(req.full_url, newurl)
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request:
            _authorize(request)
        return request


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def _open(wanted: Wanted, start: int) -> HTTPResponse:
    request = _request(wanted.url)
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        answer = urllib.request.build_opener(_Redirects).open(request, timeout=TIMEOUT_S)
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 416:  # the server's file ends before ours
                _beside(wanted.path, ".part").unlink(missing_ok=True)
            raise _refusal(wanted, error) from error
    except (OSError, HTTPException) as error:
        raise _unreached(wanted.url, error) from error
    return cast("HTTPResponse", answer)


def _read(response: HTTPResponse) -> bytes:
    try:
        return response.read(CHUNK)
    except (OSError, HTTPException) as error:
        raise _Trouble(f"the connection was cut: {_reason(error)}") from error


def _completed(wanted: Wanted) -> Wanted:
    """With the size and the hash that the server names, where they are not given."""
    if None not in (wanted.size, wanted.sha256):
        return wanted
    barren = 0
    while True:
        try:
            size, sha256 = _described(wanted)
        except _Trouble as error:
            barren += 1
            if barren == BARREN_TRIES:
                raise _gave_up(wanted, str(error)) from error
            time.sleep(barren)
        else:
            return dataclasses.replace(
                wanted,
                size=size if wanted.size is None else wanted.size,
                sha256=wanted.sha256 or sha256,
            )


def _described(wanted: Wanted) -> tuple[int | None, str | None]:
    """A model hub answers with a redirect whose own headers describe the file."""
    url = wanted.url
    for _ in range(REDIRECTS):
        headers = _head(wanted, url)
        linked = headers.get("X-Linked-Etag", "").removeprefix("W/").strip('"').lower()
        sha256 = linked if re.fullmatch("[0-9a-f]{64}", linked) else None
        size = _number(headers.get("X-Linked-Size"))
        location = headers.get("Location")
        if size is not None or sha256 or not location:
            return size if location else size or _number(headers.get("Content-Length")), sha256
        _check_redirect(url, target := urljoin(url, location))
        url = target
    raise DownloadError(f"{wanted.name}: {wanted.url} redirects in circles.")


def _head(wanted: Wanted, url: str) -> Message:
    request = _request(url)
    request.method = "HEAD"
    try:
        with urllib.request.build_opener(_Stay).open(request, timeout=TIMEOUT_S) as answer:
            return cast("HTTPResponse", answer).headers
    except urllib.error.HTTPError as error:
        with error:
            if 300 <= error.code < 400:
                return error.headers
            if error.code in (405, 501):  # it may still answer GET
                return Message()
            raise _refusal(wanted, error) from error
    except (OSError, HTTPException) as error:
        raise _unreached(url, error) from error


def _request(url: str) -> urllib.request.Request:
    if urlsplit(url).scheme not in ("http", "https"):
        raise DownloadError(f"{url} is not an http(s) address. Is HF_ENDPOINT right?")
    request = urllib.request.Request(  # noqa: S310 - checked above
        url, headers={"User-Agent": f"vivace/{__version__}"}
    )
    _authorize(request)
    return request


def _authorize(request: urllib.request.Request) -> None:
    token = os.environ.get("HF_TOKEN", "").strip()
    if token and _origin(request.full_url) == _origin(_hub()):
        request.add_unredirected_header("Authorization", f"Bearer {token}")


def _check_redirect(old: str, new: str) -> None:
    if urlsplit(old).scheme == "https" != urlsplit(new).scheme:
        raise DownloadError(f"{old} redirects to an address that is not https; not followed.")


def _hub() -> str:
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


# -- what to say ---------------------------------------------------------------


def _refusal(wanted: Wanted, error: urllib.error.HTTPError) -> Exception:
    answer = f"{_host(wanted.url)} answered {error.code} {error.reason}".rstrip()
    if error.code >= 500 or error.code in (408, 416, 429):
        return _Trouble(answer)
    hint = f"Check the name, or {wanted.by_hand}."
    if error.code in (401, 403) and _origin(wanted.url) == _origin(_hub()):
        hint = (
            "There is no such repository, or it is not public: set HF_TOKEN to a token that may "
            f"read it, or {wanted.by_hand}."
        )
    return DownloadError(f"{wanted.name}: {answer} for {wanted.url}. {hint}")


def _unreached(url: str, error: Exception) -> _Trouble:
    return _Trouble(f"{_host(url)} cannot be reached ({_reason(error)})")


def _gave_up(wanted: Wanted, trouble: str, kept: str = "") -> DownloadError:
    return DownloadError(
        f"{wanted.name}: {trouble}. Check the connection and run again, or {wanted.by_hand}.{kept}"
    )


def _check_space(wanted: Wanted, needed: int) -> None:
    if needed > _free(wanted.path.parent):
        raise _no_space(wanted, needed)


def _free(folder: Path) -> int:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(there).free


def _no_space(wanted: Wanted, needed: int | None, kept: str = "") -> DownloadError:
    folder = wanted.path.parent
    need = "more is" if needed is None else f"{megabytes(needed)} {'more ' if kept else ''}are"
    return DownloadError(
        f"{wanted.name}: not enough space in {folder}: {need} needed, "
        f"{megabytes(_free(folder))} are free. Make room, choose another place "
        f"with VIVACE_CACHE, or choose a smaller model.{kept}"
    )


def _disk_error(wanted: Wanted, part: Path, error: OSError) -> DownloadError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        needed = None if wanted.size is None else wanted.size - _size(part)
        return _no_space(wanted, needed, _kept(wanted, part))
    return DownloadError(
        f"{wanted.name}: {error.filename or wanted.path} cannot be used: "
        f"{error.strerror or error}. Choose another place with VIVACE_CACHE."
    )


def _kept(wanted: Wanted, part: Path) -> str:
    if wanted.sha256 is None or not (size := _size(part)):
        return ""
    return f" {megabytes(size)} are kept in {part}, from where the next run goes on."


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return getattr(reason, "strerror", None) or str(reason) or type(reason).__name__


def _host(url: str) -> str:
    return urlsplit(url).netloc


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def _bytes(size: int | None) -> str:
    return "any size" if size is None else f"{size} bytes"


def _number(text: str | None) -> int | None:
    return int(text) if text and text.strip().isdecimal() else None


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


@contextmanager
def progress_line(name: str, stream: TextIO | None = None) -> Iterator[Progress | None]:
    """One line that is rewritten on a terminal; nothing in a log."""
    out = stream or sys.stderr
    if not out.isatty():
        yield None
        return
    shown_at = 0.0

    def show(done: int, total: int) -> None:
        nonlocal shown_at
        if (now := time.monotonic()) - shown_at > 0.1:
            shown_at = now
            line = f"{100 * done // total:3d}%  " if total else ""
            line += megabytes(done) + (f" of {megabytes(total)}" if total else "")
            out.write(f"\r{name}: {line}\x1b[K")
            out.flush()

    try:
        yield show
    finally:
        if shown_at:
            out.write("\r\x1b[K")
            out.flush()
