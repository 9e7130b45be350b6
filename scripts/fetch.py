"""Brings test data and models into the cache, as scripts/manifest.toml names them.

How a file is fetched, resumed, verified and remembered is vivace.download's.

Environment, besides that of vivace.download:
    VIVACE_FETCH   a program to ask first, as `$VIVACE_FETCH NAME PART_FILE`. It writes
                   the file, or exits with 3, untouched, for "I don't have it"
"""

from __future__ import annotations

import argparse
import difflib
import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vivace.download.files import bring, cache_root
from vivace.download.hub import hub_url
from vivace.download.progress import megabytes, progress_line
from vivace.download.wanted import Wanted
from vivace.errors import DownloadError

MANIFEST = Path(__file__).with_name("manifest.toml")
NOT_HERE = 3


class UnknownName(Exception):
    """The message says which names there are."""


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
                return hub_url(repository, path, revision)
        raise DownloadError(f"{self.name}: the manifest has no usable source: {self.source}")

    @property
    def wanted(self) -> Wanted:
        return Wanted(
            name=self.name,
            url=self.url,
            path=self.path,
            size=self.size,
            sha256=self.sha256,
            by_hand=f"put the file at {self.path} by hand",
        )


def load(kind: str, manifest: Path = MANIFEST) -> list[Entry]:
    rows = tomllib.loads(manifest.read_text("utf-8"))["entry"]
    return [entry for entry in (Entry(**row) for row in rows) if entry.kind == kind]


def fetch(entry: Entry) -> str:
    """Make sure the file is there; return what was done."""

    def substitute(wanted: Wanted, part: Path) -> bool:
        say(f"{wanted.name}: {entry.licence}")
        return ask_substitute(wanted, part)

    started = time.monotonic()
    with progress_line(entry.name) as progress:
        if not bring(entry.wanted, progress, tell=say, substitute=substitute):
            return "present"
    return f"fetched {megabytes(entry.size)} in {time.monotonic() - started:.0f} s"


def ask_substitute(wanted: Wanted, part: Path) -> bool:
    program = os.environ.get("VIVACE_FETCH")
    if not program:
        return False
    say(f"{wanted.name}: asking {program}")
    try:
        code = subprocess.run([program, wanted.name, part], check=False).returncode
    except OSError as error:
        raise DownloadError(f"{wanted.name}: VIVACE_FETCH cannot be run: {error}") from error
    if code == NOT_HERE:
        return False
    if code != 0 or not part.is_file():
        # Half a file from elsewhere must not become the start of a resumed download.
        part.unlink(missing_ok=True)
        raise DownloadError(f"{wanted.name}: {program} failed (exit {code})")
    return True


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def choose(entries: Sequence[Entry], names: Sequence[str]) -> list[Entry]:
    if not names:
        return [entry for entry in entries if entry.default]
    known = {entry.name: entry for entry in entries}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
            raise UnknownName(f"no entry is called {name}; {hint}")
    return [known[name] for name in names]


def main(kind: str, argv: Sequence[str], manifest: Path = MANIFEST) -> int:
    parser = argparse.ArgumentParser(prog=f"scripts/{kind}", description=f"Bring {kind}.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="else all that tests need")
    parser.add_argument("--path", action="store_true", help="only print where the file is kept")
    args = parser.parse_args(argv)
    try:
        chosen = choose(load(kind.removesuffix("s"), manifest), args.names)
    except UnknownName as error:
        say(str(error))
        return 2
    failed = False
    for entry in chosen:
        if args.path:
            print(entry.path)
            continue
        try:
            print(f"{entry.name}: {fetch(entry)}: {entry.path}", flush=True)
        except DownloadError as error:
            say(str(error))
            failed = True
    return int(failed)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1], sys.argv[2:]))
    except KeyboardInterrupt:
        say("\nstopped; run again to resume")
        sys.exit(130)
