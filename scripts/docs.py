"""The documentation: built as a site, and held to what it says. ``scripts/docs --help``"""

from __future__ import annotations

import argparse
import http.server
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from docs_blocks import RUN, marked_share, try_page, unreadable
from docs_pages import Block, blocks_of, broken_links, for_the_site, links_of, named_pages
from docs_walk import walk

ROOT = Path(__file__).resolve().parents[1]
BUILT = ROOT / "build/docs"
SITE = BUILT / "site"
_MOST_MARKED = 0.2
_CODE = ("action.yml", ".ci", "bench", "chaos", "editors", "scripts", "src", "tests")
_TRIED = ("README.md", "docs/index.md", "docs/start/", "docs/use/", "docs/run/")
"""Where every block of code is run."""


def pages() -> dict[str, str]:
    """All that git knows, or would take, by their path."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    files = {name: ROOT / name for name in sorted(filter(None, listed.split("\0")))}
    return {name: path.read_text("utf-8") for name, path in files.items() if path.is_file()}


# -- the site -------------------------------------------------------------------------------------


def build() -> int:
    """The site, from a copy in which no link leads out of it. Warnings fail."""
    shutil.rmtree(BUILT, ignore_errors=True)
    shutil.copytree(ROOT / "docs", BUILT / "docs")
    shutil.copyfile(ROOT / "zensical.toml", BUILT / "zensical.toml")
    repository = os.environ.get("VIVACE_REPOSITORY", "").rstrip("/")
    for name, text in pages().items():
        if name.startswith("docs/"):
            told = for_the_site(name, text, ["docs/"], repository)
            (BUILT / name).write_text(told, "utf-8")
    command = [Path(os.environ["DOCS_VENV"]) / "bin/zensical", "build", "--clean", "--strict"]
    return subprocess.run(command, cwd=BUILT, check=False).returncode


def serve(port: int) -> None:
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(SITE))
    print(f"docs: http://127.0.0.1:{port}; Ctrl-C ends it", flush=True)
    http.server.ThreadingHTTPServer(("127.0.0.1", port), handler).serve_forever()


# -- what must hold -------------------------------------------------------------------------------


def check(only: list[str]) -> int:
    found = pages()
    wrong = [*broken_links(ROOT, found), *_navigation(found), *_named(found), *_data(found)]
    tried = {name: text for name, text in found.items() if name.startswith(_TRIED)}
    blocks = [block for text in tried.values() for block in blocks_of(text)]
    wrong += _marks(blocks)
    if only:
        tried = {name: text for name, text in tried.items() if name in only}
    with ThreadPoolExecutor(max(2, (os.cpu_count() or 2) // 2)) as pool:
        for trial in pool.map(try_page, tried, tried.values()):
            print(f"docs: {trial.page}: {trial.ran} blocks {'FAILED' if trial.failure else 'ran'}")
            wrong += [trial.failure] if trial.failure else []
    for each in wrong:
        print(f"docs: {each}", file=sys.stderr)
    return 1 if wrong else 0


def _navigation(found: dict[str, str]) -> Iterator[str]:
    """Each page is led to, and each way leads to a page."""
    listed = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))["project"]["nav"]
    led = {f"docs/{name}" for name in _leaves(listed)}
    decisions = links_of(found.get("docs/decisions/index.md", ""))
    led |= {f"docs/decisions/{link.target}" for link in decisions}
    there = {name for name in found if name.startswith("docs/")}
    yield from (f"zensical.toml: {name} is not there" for name in sorted(led - there))
    yield from (f"{name}: nav of zensical.toml leads nowhere to it" for name in sorted(there - led))


def _leaves(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
        return
    for each in entry.values() if isinstance(entry, dict) else entry:
        yield from _leaves(each)


def _named(found: dict[str, str]) -> Iterator[str]:
    """Pages that code names."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *_CODE], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path.suffix == ".md" or not path.is_file() or name.startswith("tests/scripts/test_docs"):
            continue
        for line, page in named_pages(path.read_bytes().decode("utf-8", "replace")):
            if page not in found:
                yield f"{name}:{line}: names {page}, which is not there"


def _data(found: dict[str, str]) -> Iterator[str]:
    for name, text in found.items():
        yield from (f"{name}:{line}: {why}" for line, why in unreadable(blocks_of(text)))


def _marks(blocks: list[Block]) -> Iterator[str]:
    meant = sum(1 for block in blocks if block.language in RUN)
    share = marked_share(blocks)
    print(f"docs: {meant} blocks to run, {share:.0%} of them marked as not run")
    if share > _MOST_MARKED:
        yield f"{share:.0%} of the blocks are marked as not run, more than {_MOST_MARKED:.0%}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/docs", description=__doc__)
    parser.add_argument("--check", action="store_true", help="also links, and every block of code")
    parser.add_argument("--serve", action="store_true", help="show it at http://127.0.0.1:8000")
    parser.add_argument("--walk", action="store_true", help="the page for a laptop, for real")
    parser.add_argument("--port", type=int, default=8000, help="where --serve shows it")
    parser.add_argument("page", nargs="*", help="with --check: run the blocks of these pages only")
    options = parser.parse_args()
    if options.walk:
        return walk()
    status = build()
    if options.check:
        status = check(options.page) or status
    if options.serve:
        serve(options.port)
    return status


if __name__ == "__main__":
    sys.exit(main())
