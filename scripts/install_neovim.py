"""Brings real Neovims into the cache, for the tests that drive our plugin.

They are Debian's: trixie has the older one, for which our Lua draws the ghost text itself, forky
the newer one, which draws it.

Environment:
    VIVACE_CACHE    where they are kept, under editors/
    DEBIAN_MIRROR   where they come from; unset: from where this system has its packages
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from debian import CannotInstall, unpacked, write_starter

from vivace.download.files import cache_root

SUITES = ("trixie", "forky")


def folder_of(suite: str) -> Path:
    return cache_root() / "editors" / f"neovim-{suite}"


def install(suite: str) -> None:
    folder = folder_of(suite)
    if (folder / ".ready").exists():
        say(f"ready: {folder}")
        return
    version = unpacked(suite, "neovim", folder)
    write_starter(folder, "nvim", VIMRUNTIME=f"{folder}/usr/share/nvim/runtime")
    (folder / ".ready").touch()
    say(f"neovim {version} of {suite}: {folder}")


def say(line: str) -> None:
    print(f"install-neovim: {line}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/install-neovim", description=__doc__)
    parser.add_argument("suites", nargs="*", metavar="SUITE", default=list(SUITES))
    parser.add_argument("--path", action="store_true", help="print where they are, and no more")
    given = parser.parse_args()
    try:
        for suite in given.suites:
            if given.path:
                print(folder_of(suite))
            else:
                install(suite)
    except CannotInstall as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
