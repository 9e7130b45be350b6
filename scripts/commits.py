"""Collects real edits of single files, which ``scripts/bench edits`` replays.

Without a REPOSITORY, all edits that scripts/commits.toml names, each by its commit and its path, so
that everybody replays the same. A REPOSITORY is

    owner/name          one of those, fetched from GitHub: only what is needed, kept in the cache
    owner/name=FOLDER   the same from a clone that is there already
    FOLDER              one of your own: its newest commits that changed one file of code and
                        nothing else, 1 to 60 lines of it, in a file of 40 to 500
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vivace.download.files import cache_root

TABLE = Path(__file__).with_name("commits.toml")
FILE = "commit-edits.jsonl.gz"
LANGUAGES = {".py": "py", ".ts": "ts", ".rs": "rs", ".cpp": "cpp", ".cc": "cpp", ".h": "cpp"}

Row = dict[str, object]


class Unusable(Exception):
    """The message says which repository, what is wrong with it, and what to do."""


@dataclass(frozen=True)
class Repository:
    """One of the table; ``edits`` are commits with the path of the file each of them changed."""

    name: str
    licence: str
    edits: tuple[tuple[str, str], ...]


def load(table: Path = TABLE) -> dict[str, Repository]:
    found = {}
    for row in tomllib.loads(table.read_text("utf-8"))["repository"]:
        pairs = (edit.partition(" ") for edit in row["edits"])
        edits = tuple((commit, path) for commit, _, path in pairs)
        found[row["name"]] = Repository(row["name"], row["licence"], edits)
    return found


def git(folder: Path, *words: str) -> str:
    ran = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, check=True)
    return ran.stdout.decode("utf-8", "replace")


# -- the edits of the table -----------------------------------------------------------------------


def fetched(repository: Repository) -> Path:
    """A bare clone with the named commits and those before them; files come as they are read."""
    folder = cache_root() / "repositories" / repository.name
    url = f"https://github.com/{repository.name}"
    commits = dict.fromkeys(commit for commit, _ in repository.edits)
    try:
        if not (folder / "HEAD").exists():
            folder.mkdir(parents=True, exist_ok=True)
            git(folder, "init", "--quiet", "--bare")
            git(folder, "remote", "add", "origin", url)
        git(folder, "fetch", "--quiet", "--depth=2", "--filter=blob:none", "origin", *commits)
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode("utf-8", "replace").strip()
        raise Unusable(
            f"{repository.name} could not be fetched from {url}: {said}\n"
            f"If you have a clone of it: scripts/commits {repository.name}=FOLDER"
        ) from error
    return folder


def named_edits(repository: Repository, folder: Path) -> Iterator[Row]:
    for commit, path in repository.edits:
        try:
            row = edit_of(folder, commit, path)
        except subprocess.CalledProcessError as error:
            raise Unusable(
                f"{repository.name}: {folder} has no commit {commit} with {path} before and after "
                f"it; run git fetch there, or let scripts/commits {repository.name} fetch its own"
            ) from error
        yield {"repo": repository.name, "licence": repository.licence, **row}


def edit_of(folder: Path, commit: str, path: str) -> Row:
    """What a commit did to one file."""
    # The first word to git is the one that brings both texts at once into a clone without them.
    counts = git(folder, "diff", "--numstat", f"{commit}~1", commit, "--", path).split("\t")
    before, after = (git(folder, "show", f"{at}:{path}") for at in (f"{commit}~1", commit))
    return {
        "commit": commit,
        "path": path,
        "language": LANGUAGES[Path(path).suffix],
        "message": git(folder, "log", "-1", "--format=%s", commit).strip(),
        "added": int(counts[0]),
        "removed": int(counts[1]),
        "before": before,
        "after": after,
    }


# -- the edits of a repository of one's own -------------------------------------------------------


def newest_edits(folder: Path) -> Iterator[Row]:
    name = "/".join(folder.resolve().parts[-2:])
    try:
        log = git(folder, "log", "--no-merges", "--numstat", "--format=%x00%H")
    except subprocess.CalledProcessError as error:
        raise Unusable(f"{folder} is no git repository with commits") from error
    for entry in log.split("\0")[1:]:
        commit, *changes = [line for line in entry.splitlines() if line]
        if len(changes) != 1:
            continue
        added, removed, path = changes[0].split("\t")
        if Path(path).suffix not in LANGUAGES or not 1 <= int(added) + int(removed) <= 60:
            continue
        try:
            row = edit_of(folder, commit, path)
        except subprocess.CalledProcessError:  # the file came with this commit, or went
            continue
        if 40 <= str(row["after"]).count("\n") <= 500:
            yield {"repo": name, "licence": "", **row}


# -- the command ----------------------------------------------------------------------------------


def collected(asked: str, known: dict[str, Repository], each: int) -> Iterator[Row]:
    name, _, folder = asked.partition("=")
    if name in known:
        repository = known[name]
        return named_edits(repository, Path(folder) if folder else fetched(repository))
    if folder or not Path(asked).is_dir():
        raise Unusable(f"{name} is neither a folder nor one of {', '.join(known)}")
    return itertools.islice(newest_edits(Path(asked)), each)


def write(path: Path, rows: Iterator[Row]) -> None:
    """At once: half of them would pass for all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    try:
        with gzip.open(part, "wt", encoding="utf-8") as file:
            for count, row in enumerate(rows, 1):
                file.write(json.dumps(row) + "\n")
                print(f"\r{count} edits, {row['repo']:<40}", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/commits",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("repositories", nargs="*", metavar="REPOSITORY")
    default = cache_root() / "data" / FILE
    parser.add_argument("--file", type=Path, default=default, help="where to write [%(default)s]")
    parser.add_argument("--each", type=int, default=30, help="at most so many of each of your own")
    parser.add_argument("--table", type=Path, default=TABLE, help="another table of edits")
    options = parser.parse_args(argv)
    known = load(options.table)
    rows = (
        row
        for asked in options.repositories or known
        for row in collected(asked, known, options.each)
    )
    try:
        write(options.file, rows)
    except Unusable as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    print(options.file)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
