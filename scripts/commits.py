"""Collects real one-file edits from git repositories, for ``scripts/bench edits --data FILE``.

usage: commits.py FILE.jsonl.gz REPOSITORY... [--each 30]

Of each repository the newest commits that changed one file of code and nothing else: 1 to 60 lines
of it, in a file of 40 to 500. Mind the licences of what you take.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

LANGUAGES = {".py": "py", ".ts": "ts", ".rs": "rs", ".cpp": "cpp", ".cc": "cpp", ".h": "cpp"}


def git(repository: str, *words: str) -> str:
    ran = subprocess.run(["git", "-C", repository, *words], capture_output=True, check=True)
    return ran.stdout.decode("utf-8", "replace")


def edits(repository: str) -> Iterator[dict[str, object]]:
    name = "/".join(Path(repository).resolve().parts[-2:])
    log = git(repository, "log", "--no-merges", "--numstat", "--format=%x00%H%x01%s")
    for entry in log.split("\0")[1:]:
        head, *changes = [line for line in entry.splitlines() if line]
        commit, _, message = head.partition("\1")
        if len(changes) != 1:
            continue
        added, removed, path = changes[0].split("\t")
        language = LANGUAGES.get(Path(path).suffix)
        if language is None or not 1 <= int(added) + int(removed) <= 60:
            continue
        try:
            before, after = (
                git(repository, "show", f"{at}:{path}") for at in (f"{commit}~1", commit)
            )
        except subprocess.CalledProcessError:  # the file came with this commit, or went
            continue
        if 40 <= after.count("\n") <= 500:
            yield {
                "repo": name,
                "commit": commit,
                "path": path,
                "language": language,
                "message": message,
                "added": int(added),
                "removed": int(removed),
                "before": before,
                "after": after,
            }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("repositories", nargs="+")
    parser.add_argument("--each", type=int, default=30, help="at most so many of each")
    options = parser.parse_args()
    with gzip.open(options.file, "wt", encoding="utf-8") as file:
        for repository in options.repositories:
            count = 0
            for edit in edits(repository):
                file.write(json.dumps(edit) + "\n")
                count += 1
                if count == options.each:
                    break
            print(f"{repository}: {count} edits", file=sys.stderr)


if __name__ == "__main__":
    main()
