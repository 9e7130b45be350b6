"""Which language servers there are, and how each is kept from running what the project names.

A server reads a project that may come from anybody, and many a project names programs: a toolchain
of its own, a wrapper of the compiler, an interpreter, a version of the server itself. Only a server
that is on the PATH is started, told to download nothing and to use the programs of the person.
docs/run/threat-model.md says what was tried with each.
"""

from __future__ import annotations

import os
import shutil
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from vivace.interpreter import python_command

__all__ = ["Server", "server_for"]

_MAX_FOLDERS = 20_000
"""Folders of a project that are looked into, in about a second."""


class Server(msgspec.Struct, frozen=True):
    command: tuple[str, ...]
    options: Mapping[str, Any] = {}
    """Sent with ``initialize``."""
    settings: Mapping[str, Any] = {}
    """Settings by section, for servers that ask for them."""
    environment: Mapping[str, str] = {}
    reads_first: bool = False
    """Whether it answers from what it has read so far, so that one must wait until it has."""

    @property
    def name(self) -> str:
        return Path(self.command[0]).name.removesuffix("-langserver")


def server_for(language: str, root: Path) -> Server | None:
    """Return the server for a language in the project at ``root``; None where none is installed, or
    it cannot be kept from running what the project names."""
    made = _SERVERS.get(language)
    return next(made(root), None) if made else None


def _on_path(*programs: str) -> Iterator[str]:
    for program in programs:
        if found := shutil.which(program):
            yield os.path.abspath(found)  # noqa: PTH100 - links are kept


def _python(root: Path) -> Iterator[Server]:
    # Without an interpreter, basedpyright runs .venv/bin/python of the project to ask for its path.
    interpreter = next(_on_path("python3", "python"), python_command()[0])
    settings = {"python": {"pythonPath": interpreter}}
    for program in _on_path("basedpyright-langserver", "pyright-langserver"):
        yield Server((program, "--stdio"), settings=settings)


def _typescript(root: Path) -> Iterator[Server]:
    for program in _on_path("typescript-language-server"):
        # Without a valid path, it runs node_modules/typescript of the project.
        if (tsserver := _tsserver(Path(program))) is not None:
            options = {
                "disableAutomaticTypingAcquisition": True,  # it would ask the registry for types
                "preferences": {"providePrefixAndSuffixTextForRename": True},
                "tsserver": {"path": str(tsserver)},
            }
            yield Server((program, "--stdio"), options)


def _tsserver(program: Path) -> Path | None:
    """Return the TypeScript that is installed with the language server, as Node.js finds it, or the
    one on the PATH. TypeScript 7 has none."""
    packages = [above / "node_modules/typescript" for above in program.resolve().parents]
    packages += [Path(found).resolve().parents[1] for found in _on_path("tsserver")]
    scripts = (package / "lib/tsserver.js" for package in packages)
    return next((script for script in scripts if script.is_file()), None)


def _c(root: Path) -> Iterator[Server]:
    for program in _on_path("clangd"):
        yield Server((program, "--background-index=false", "--log=error"), reads_first=True)


def _go(root: Path) -> Iterator[Server]:
    offline = {"GOPROXY": "off", "GOTOOLCHAIN": "local"}
    for program in _on_path("gopls"):
        yield Server((program,), environment=offline, reads_first=True)


def _rust(root: Path) -> Iterator[Server]:
    # Named, or else a rust-project.json is looked for, whose "sysroot" has programs that are run.
    manifests = [root / "Cargo.toml", *sorted(root.glob("*/Cargo.toml"))]
    projects = [str(manifest) for manifest in manifests if manifest.is_file()]
    options = {
        "cargo": {"buildScripts": {"enable": False}},
        "procMacro": {"enable": False},
        "checkOnSave": False,
        "linkedProjects": projects[:1] if manifests[0].is_file() else projects,
    }
    environment = {
        "CARGO_NET_OFFLINE": "true",
        "RUSTUP_TOOLCHAIN": os.environ.get("RUSTUP_TOOLCHAIN") or _rust_toolchain(),
    }
    for program in _on_path("rust-analyzer"):
        if projects and not _configures_cargo(root):
            yield Server((program,), options, environment=environment, reads_first=True)


def _rust_toolchain() -> str:
    """Return the person's toolchain: rustup would start the one that ``rust-toolchain.toml`` names,
    which may be a folder of the project."""
    home = Path(os.environ.get("RUSTUP_HOME") or "~/.rustup").expanduser()
    try:
        settings = tomllib.loads((home / "settings.toml").read_text("utf-8"))
    except (OSError, ValueError):
        settings = {}
    return str(settings.get("default_toolchain", "none"))


def _configures_cargo(root: Path) -> bool:
    """Return whether the project has settings of cargo's, or may have: they name compilers and
    wrappers, and set any variable of the environment. Any package in it can be the one that counts
    (``package.workspace``), so all folders are looked into."""
    for count, (folder, inner, _) in enumerate(os.walk(root)):
        if count >= _MAX_FOLDERS:
            return True
        # A link counts as what it leads to; some file systems know no capitals.
        own = (Path(folder, name) for name in inner if name.casefold() == ".cargo")
        settings = (each / name for each in own for name in ("config", "config.toml"))
        if any(os.path.lexists(each) and not _only_aliases(each) for each in settings):
            return True
    return False


def _only_aliases(settings: Path) -> bool:
    """Return whether cargo's settings only abbreviate commands, as for xtask, which runs nothing by
    itself."""
    try:
        return set(tomllib.loads(settings.read_text("utf-8"))) <= {"alias"}
    except (OSError, ValueError):
        return False


_SERVERS: dict[str, Callable[[Path], Iterator[Server]]] = {
    "python": _python,
    "javascript": _typescript,
    "typescript": _typescript,
    "tsx": _typescript,
    "c": _c,
    "cpp": _c,
    "go": _go,
    "rust": _rust,
}
