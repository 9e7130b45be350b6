"""Renames as data, and how to find out whether the code still does what it did: by running it."""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

__all__ = ["CASES", "Case", "output_of"]

_FOLDER = Path(__file__).parent
_COMMANDS: dict[str, tuple[str, ...]] = {
    "py": ("python3 main.py",),
    "mjs": ("node main.mjs",),
    "cjs": ("node main.cjs",),
    "js": ("node main.js",),
    "ts": ("tsc --strict --target es2022 --module nodenext --skipLibCheck main.ts", "node main.js"),
    "c": ("cc -Werror=implicit-function-declaration -o main *.c", "./main"),
    "cpp": ("c++ -std=c++17 -o main main.cpp", "./main"),
    "go": ("go run .",),
    "rs": ("rustc --edition 2021 -A warnings -o main main.rs", "./main"),
    "java": ("javac Main.java", "java Main"),
}
_SECONDS = 240
"""Only a hang should reach it: a compiler may take a while on a busy machine."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    ask: str
    files: Mapping[str, str]
    outcome: str
    """Without a language server: ``done``, or a word of the reason why not."""
    target: str = ""
    """The file that is named; the main one unless it says so."""
    alone: bool = False
    """Whether no other file has the name, and that is known."""
    server: str = ""
    """With a language server, where that is otherwise."""

    @property
    def path(self) -> str:
        return self.target or next(iter(self.files))

    @property
    def main(self) -> str:
        return next(name for name in self.files if Path(name).stem in ("main", "Main"))

    @property
    def elsewhere(self) -> frozenset[str] | None:
        return frozenset() if self.alone else None


def _cases() -> list[Case]:
    found: list[Case] = []
    for path in sorted(_FOLDER.glob("*.toml")):
        raw = tomllib.loads(path.read_text())["case"]
        found += msgspec.convert(raw, list[Case])
    return found


CASES = _cases()


def output_of(files: Mapping[str, str], main: str, folder: Path) -> str | None:
    """What the program says, or why it does not run; None where the tools are missing."""
    folder.mkdir()
    for name, text in files.items():
        (folder / name).write_text(text)
    if main.endswith(".go"):
        (folder / "go.mod").write_text("module main\n\ngo 1.18\n")
    said = ""
    for command in _COMMANDS[main.rpartition(".")[2]]:
        if not command.startswith("./") and shutil.which(command.split()[0]) is None:
            return None
        done = subprocess.run(
            command, shell=True, cwd=folder, capture_output=True, text=True, timeout=_SECONDS
        )
        said = done.stdout
        if done.returncode:
            return f"failed: {command}\n{done.stderr}"
    return said
