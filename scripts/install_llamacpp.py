"""Brings a real llama.cpp into the cache, as people have one: its server and its tools.

It is Debian's, of forky, with kernels for every x86-64 processor of which it takes the best there
is; the wheel that the tests use (xllamacpp) knows AVX2 alone. It also has what makes one
quantisation of another.

Environment:
    VIVACE_CACHE    where it is kept
    DEBIAN_MIRROR   where it comes from; unset: from where this system has its packages
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from debian import LIBRARIES, CannotInstall, unpacked, write_starter

from vivace.download.files import cache_root

SUITE = "forky"
PROGRAMS = ("llama-server", "llama-bench", "llama-quantize")
NOT_NEEDED = ("debconf", "wget")
"""What its package only needs to be set up in a system."""


def folder() -> Path:
    return cache_root() / "llamacpp"


def install() -> None:
    here = folder()
    if (here / ".ready").exists():
        say(f"ready: {here}")
        return
    version = unpacked(SUITE, "llama.cpp-tools", here, NOT_NEEDED)
    for program in PROGRAMS:
        write_starter(here, program, "llama")
    libraries = here / LIBRARIES
    for kernels in (libraries / "ggml/backends0").glob("*.so"):
        # Looked for beside the program, which is the loader here.
        (libraries / kernels.name).symlink_to(kernels)
    (here / ".ready").touch()
    say(f"llama.cpp {version} of {SUITE}: {here}")


def say(line: str) -> None:
    print(f"install-llamacpp: {line}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/install-llamacpp", description=__doc__)
    parser.add_argument("--path", action="store_true", help="print where it is, and no more")
    if parser.parse_args().path:
        print(folder())
        return 0
    try:
        install()
    except CannotInstall as error:
        say(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
