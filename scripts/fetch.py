"""Brings test data and models into the cache, as scripts/manifest.toml names them.

A file arrives as FILE.part, which a later run resumes. It gets its name only
once its SHA-256 is the manifest's, and FILE.ok remembers that, so that a model
of a gigabyte is not hashed on every run.

Environment:
    VIVACE_CACHE   where files are kept (else $XDG_CACHE_HOME/vivace, ~/.cache/vivace)
    VIVACE_FETCH   a program to ask first, as `$VIVACE_FETCH NAME PART_FILE`. It writes
                   the file, or exits with 3, untouched, for "I don't have it"
    HF_ENDPOINT    a mirror of the model hub
"""

from __future__ import annotations

import argparse
import difflib
import fcntl
import hashlib
import os
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path

MANIFEST = Path(__file__).with_name("manifest.toml")
CHUNK = 1 << 18
TIMEOUT_S = 30
BARREN_TRIES = 3  # in a row; a try that brought bytes starts the count again
NOT_HERE = 3


class FetchError(Exception):
    """An entry could not be brought; the message is for the person."""


@dataclass(frozen=True)
class Entry:
    name: str
    kind: str
    file: str
    sha256: str
    size: int
    licence: str
    default: bool
    source: dict[str, str]

    @property
    def path(self) -> Path:
        folder = {"data": "data", "model": "models"}[self.kind]
        return cache_root() / folder / self.file

    @property
    def url(self) -> str:
        match self.source:
            case {"github": repository, "commit": commit, "path": path}:
                return f"https://raw.githubusercontent.com/{repository}/{commit}/{path}"
            case {"huggingface": repository, "revision": revision, "path": path}:
                hub = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
                return f"{hub.rstrip('/')}/{repository}/resolve/{revision}/{path}"
        raise FetchError(f"the manifest has no usable source: {self.source}")


def cache_root() -> Path:
    if chosen := os.environ.get("VIVACE_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "vivace"


def load(kind: str, manifest: Path = MANIFEST) -> list[Entry]:
    rows = tomllib.loads(manifest.read_text("utf-8"))["entry"]
    return [entry for entry in (Entry(**row) for row in rows) if entry.kind == kind]


# -- one file ------------------------------------------------------------------


def bring(entry: Entry) -> str:
    """Make sure the file is there and is the right one; return what was done."""
    if is_present(entry):
        return "present"
    entry.path.parent.mkdir(parents=True, exist_ok=True)
    with only_one(entry.path.parent):
        if is_present(entry):
            return "present"
        started = time.monotonic()
        part = beside(entry.path, ".part")
        if not ask_substitute(entry, part):
            download(entry, part)
        if (found := digest(part)) != entry.sha256:
            part.unlink()
            raise FetchError(
                "refused and removed: the SHA-256 differs\n"
                f"  expected {entry.sha256}\n  received {found}"
            )
        part.replace(entry.path)
        remember(entry)
        return f"fetched {megabytes(entry.size)} in {time.monotonic() - started:.0f} s"


def is_present(entry: Entry) -> bool:
    if not entry.path.is_file():
        return False
    stamp = beside(entry.path, ".ok")
    if stamp.is_file() and stamp.read_text() == fingerprint(entry):
        return True
    if digest(entry.path) == entry.sha256:
        remember(entry)
        return True
    say(f"{entry.name}: the cached file is not the manifest's; removed, fetching it again")
    entry.path.unlink()
    return False


def fingerprint(entry: Entry) -> str:
    stat = entry.path.stat()
    return f"{entry.sha256} {stat.st_size} {stat.st_mtime_ns}\n"


def remember(entry: Entry) -> None:
    beside(entry.path, ".ok").write_text(fingerprint(entry))


def ask_substitute(entry: Entry, part: Path) -> bool:
    program = os.environ.get("VIVACE_FETCH")
    if not program:
        return False
    say(f"{entry.name}: asking {program}")
    try:
        code = subprocess.run([program, entry.name, part], check=False).returncode
    except OSError as error:
        raise FetchError(f"VIVACE_FETCH cannot be run: {error}") from error
    if code == NOT_HERE:
        return False
    if code != 0 or not part.is_file():
        # Half a file from elsewhere must not become the start of a resumed download.
        part.unlink(missing_ok=True)
        raise FetchError(f"{program} failed (exit {code})")
    return True


def download(entry: Entry, part: Path) -> None:
    say(f"{entry.name}: {megabytes(entry.size)} ({entry.licence}) from {entry.url}")
    if size_of(part) > entry.size:
        part.unlink()
    barren = 0
    while (before := size_of(part)) < entry.size:
        try:
            receive(entry, part)
            trouble = "the connection ended early"
        except urllib.error.HTTPError as error:
            if error.code == 416:  # the server's file ends before ours
                part.unlink()
            if error.code < 500 and error.code not in (408, 429):
                raise FetchError(f"the server answered {error.code} {error.reason}") from error
            trouble = f"the server answered {error.code}"
        except (OSError, HTTPException) as error:
            trouble = str(getattr(error, "reason", error))
        barren = 0 if size_of(part) > before else barren + 1
        if barren == BARREN_TRIES:
            raise FetchError(f"{trouble}; {megabytes(size_of(part))} kept, run again to resume")
        if size_of(part) < entry.size:
            time.sleep(barren)


def receive(entry: Entry, part: Path) -> None:
    """One connection: append to the part file until the server stops sending."""
    start = size_of(part)
    request = urllib.request.Request(entry.url, headers={"User-Agent": "vivace-fetch"})
    if start:
        request.add_header("Range", f"bytes={start}-")
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
        if response.status != 206:  # a server without ranges sends the whole file again
            start = 0
        with part.open("r+b" if start else "wb") as out, closing(Progress(entry)) as bar:
            out.seek(start)
            while data := response.read(CHUNK):
                out.write(data)
                bar.show(out.tell())
                if out.tell() > entry.size:
                    break  # not the file we know; the hash will say so


# -- small things --------------------------------------------------------------


class Progress:
    """One line that is rewritten on a terminal; nothing in a log."""

    def __init__(self, entry: Entry) -> None:
        self._name, self._total = entry.name, entry.size
        self._on = sys.stderr.isatty()
        self._shown_at = 0.0

    def show(self, done: int) -> None:
        now = time.monotonic()
        if self._on and now - self._shown_at > 0.1:
            self._shown_at = now
            percent = 100 * done // self._total
            line = f"{self._name}: {percent:3d}%  {megabytes(done)} of {megabytes(self._total)}"
            print(f"\r{line}\x1b[K", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._on:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Two runs that append to one part file would spoil it."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another run to finish")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def size_of(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


# -- the command ---------------------------------------------------------------


def choose(entries: Sequence[Entry], names: Sequence[str]) -> list[Entry]:
    if not names:
        return [entry for entry in entries if entry.default]
    known = {entry.name: entry for entry in entries}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
            raise FetchError(f"no entry is called {name}; {hint}")
    return [known[name] for name in names]


def main(kind: str, argv: Sequence[str], manifest: Path = MANIFEST) -> int:
    parser = argparse.ArgumentParser(prog=f"scripts/{kind}", description=f"Bring {kind}.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="else all that tests need")
    parser.add_argument("--path", action="store_true", help="only print where the file is kept")
    args = parser.parse_args(argv)
    try:
        chosen = choose(load(kind.removesuffix("s"), manifest), args.names)
    except FetchError as error:
        say(str(error))
        return 2
    failed = False
    for entry in chosen:
        if args.path:
            print(entry.path)
            continue
        try:
            print(f"{entry.name}: {bring(entry)}: {entry.path}", flush=True)
        except FetchError as error:
            say(f"{entry.name}: {error}")
            failed = True
    return int(failed)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], sys.argv[2:]))
    except KeyboardInterrupt:
        say("\nstopped; run again to resume")
        sys.exit(130)
