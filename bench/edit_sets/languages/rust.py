"""Rust: a crate without dependencies, compiled with the program as one more module of the file.

The program is called by its symbol, so it may use what is private, and the crate's own tests need
not compile.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from bench.edit_sets.running import COMPILE_SECONDS, RUN_SECONDS, execute, tool
from bench.edit_sets.workspace import Workspace

__all__ = ["builds", "run"]

_PROGRAM = """
#[allow(dead_code, unused)]
mod edit_check {{
    extern crate std;
    use super::*;
    #[no_mangle]
    pub extern "C" fn edit_check_program() {{
{program}
    }}
}}
"""
_MAIN = """
extern crate {name};
extern "C" {{ fn edit_check_program(); }}
fn main() {{ unsafe {{ edit_check_program() }} }}
"""


def builds(work: Workspace) -> str | None:
    return _library(work, _manifest(work), "--emit=metadata")


def run(work: Workspace, program: str) -> str | None:
    manifest, text = _manifest(work), work.text()
    work.file.write_text(text + _PROGRAM.format(program=program), "utf-8")
    failed = _library(work, manifest, "--emit=link")
    work.file.write_text(text, "utf-8")
    if failed:
        return failed
    name = _name(manifest)
    main, binary = work.folder / "edit_check.rs", work.folder / "edit_check"
    main.write_text(_MAIN.format(name=name), "utf-8")
    command = [tool("rustc"), "--edition=2021", "--cap-lints=allow", "-o", str(binary)]
    command += ["--extern", f"{name}={_output(work)}", str(main)]
    failed = execute(command, work.folder, COMPILE_SECONDS)
    return failed or execute([binary], work.folder, RUN_SECONDS)


def _library(work: Workspace, manifest: dict[str, Any], emit: str) -> str | None:
    crate = manifest.get("package", {})
    major, minor, patch = [*str(crate.get("version", "0")).split("."), "0", "0"][:3]
    environment = {
        "CARGO_PKG_NAME": str(crate.get("name", "")),
        "CARGO_PKG_VERSION": str(crate.get("version", "")),
        "CARGO_PKG_VERSION_MAJOR": major,
        "CARGO_PKG_VERSION_MINOR": minor,
        "CARGO_PKG_VERSION_PATCH": patch,
        "CARGO_MANIFEST_DIR": str(_crate(work)),
    }
    command = [tool("rustc"), "--crate-type=rlib", f"--crate-name={_name(manifest)}", emit]
    command += [f"--edition={crate.get('edition', '2015')}", "--cap-lints=allow"]
    for feature in _features(work, manifest):
        command += ["--cfg", f'feature="{feature}"']
    command += [*work.build.flags, "-o", str(_output(work)), str(_root(work, manifest))]
    return execute(command, work.folder, COMPILE_SECONDS, environment)


def _output(work: Workspace) -> Path:
    return work.folder / "libedited.rlib"


def _crate(work: Workspace) -> Path:
    folder = work.file.parent
    while not (folder / "Cargo.toml").is_file() and folder != work.root:
        folder = folder.parent
    return folder


def _manifest(work: Workspace) -> dict[str, Any]:
    path = _crate(work) / "Cargo.toml"
    return tomllib.loads(path.read_text("utf-8")) if path.is_file() else {}


def _name(manifest: dict[str, Any]) -> str:
    name = manifest.get("lib", {}).get("name") or manifest.get("package", {}).get("name", "edited")
    return str(name).replace("-", "_")


def _root(work: Workspace, manifest: dict[str, Any]) -> Path:
    if work.build.root is not None:
        return work.root / work.build.root
    path: str = manifest.get("lib", {}).get("path", "src/lib.rs")
    return _crate(work) / path


def _features(work: Workspace, manifest: dict[str, Any]) -> list[str]:
    """The default ones and what they switch on, unless the task names its own."""
    if work.build.features is not None:
        return list(work.build.features)
    table: dict[str, list[str]] = manifest.get("features", {})
    chosen: list[str] = []
    waiting = ["default"] if "default" in table else []
    while waiting:
        feature = waiting.pop()
        if feature in table and feature not in chosen:
            chosen.append(feature)
            waiting += table[feature]
    return chosen
