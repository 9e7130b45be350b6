"""Python: the standard library, the package and what it needs; nothing else is importable."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from bench.edit_sets.running import RUN_SECONDS, execute
from bench.edit_sets.workspace import Workspace

__all__ = ["builds", "look", "run"]


def builds(work: Workspace) -> str | None:
    try:
        ast.parse(work.text())
    except (SyntaxError, ValueError) as error:
        return f"does not parse: {error}"
    return None


def run(work: Workspace, program: str) -> str | None:
    paths = [str(_import_root(work)), str(work.needs)]
    start = f"import sys\nsys.path[:0] = {paths!r}\n"
    return _execute(work, start, program)


def look(work: Workspace, program: str, **texts: str) -> str | None:
    """A program that only looks at texts, which are its global names."""
    return _execute(work, "".join(f"{name} = {text!r}\n" for name, text in texts.items()), program)


def _execute(work: Workspace, start: str, program: str) -> str | None:
    script = work.folder / "edit_check.py"
    # Compiled apart, so that a traceback counts the lines of the program.
    script.write_text(f"{start}exec(compile({program!r}, 'check', 'exec'), globals())\n", "utf-8")
    command = [sys.executable, "-I", "-S", "-B", "-X", "utf8", str(script)]
    return execute(command, work.folder, RUN_SECONDS)


def _import_root(work: Workspace) -> Path:
    """The folder above the outermost package that the file is in."""
    if work.build.root is not None:
        return work.root / work.build.root
    folder = work.file.parent
    while (folder / "__init__.py").is_file() and folder != work.root:
        folder = folder.parent
    return folder
