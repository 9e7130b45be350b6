"""JavaScript and TypeScript in Node.js; TypeScript's own compiler takes its types away."""

from __future__ import annotations

import re
from pathlib import Path

from bench.edit_sets.packages import unpacked
from bench.edit_sets.running import RUN_SECONDS, execute, tool
from bench.edit_sets.schema import Package
from bench.edit_sets.workspace import Workspace

__all__ = ["TYPESCRIPT", "builds", "run"]

TYPESCRIPT = Package(
    registry="npm",
    name="typescript",
    version="5.9.3",
    archive="typescript-5.9.3.tgz",
    sha256="10e108c9cf7d5f2879053dff18515fb405abf2ccef63eaaf017d9c571687a1d3",
)
_HERE = Path(__file__).parent
_IMPORT = re.compile(r"^\s*(import\b(?!\s*\()|export\b)|^await\b", re.MULTILINE)


def builds(work: Workspace) -> str | None:
    if work.task.language == "typescript":
        return _typescript(work, "typescript_parse.cjs", work.file)
    ways = (("--check",), ("--experimental-default-type=module", "--check"))
    commands = ([tool("node"), *way, str(work.file)] for way in ways)
    said = [execute(command, work.folder, RUN_SECONDS) for command in commands]
    return None if None in said else said[0]


def run(work: Workspace, program: str) -> str | None:
    script = _beside(work, program)
    try:
        if work.task.language == "typescript":
            return _typescript(work, "typescript_run.cjs", script)
        return execute([tool("node"), script], work.folder, RUN_SECONDS)
    finally:
        script.unlink()


def _beside(work: Workspace, program: str) -> Path:
    """The program where the file is, so that it is found by ./NAME; or behind the file's text."""
    suffix = work.file.suffix
    if work.inside:
        program = f"{work.text()}\n{program}"
    elif work.task.language == "javascript":
        suffix = ".mjs" if _IMPORT.search(program) else ".cjs"
    script = work.file.with_name(f"edit_check{suffix}")
    script.write_text(program, "utf-8")
    return script


def _typescript(work: Workspace, helper: str, script: Path) -> str | None:
    compiler = unpacked(TYPESCRIPT) / "package" / "lib" / "typescript.js"
    command: list[str | Path] = [tool("node"), _HERE / helper, compiler, script]
    return execute(command, work.folder, RUN_SECONDS)
