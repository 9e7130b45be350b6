"""How the edited file is compiled and run, one module per language."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.edit_sets.errors import NoTool
from bench.edit_sets.languages import c_family, go, java, node, python, rust
from bench.edit_sets.running import tool
from bench.edit_sets.schema import Language
from bench.edit_sets.workspace import Workspace

__all__ = ["LANGUAGES", "Toolchain", "missing"]


@dataclass(frozen=True)
class Toolchain:
    tools: tuple[str, ...]
    builds: Callable[[Workspace], str | None]
    """What the language's own compiler says against the file, or None."""
    run: Callable[[Workspace, str], str | None]
    """What goes wrong when this program uses the file, or None."""


_NODE = Toolchain(("node",), node.builds, node.run)

LANGUAGES: dict[Language, Toolchain] = {
    "python": Toolchain((), python.builds, python.run),
    "javascript": _NODE,
    "typescript": _NODE,
    "c": Toolchain(("cc",), c_family.builds, c_family.run),
    "cpp": Toolchain(("c++",), c_family.builds, c_family.run),
    "go": Toolchain(("go",), go.builds, go.run),
    "rust": Toolchain(("rustc",), rust.builds, rust.run),
    "java": Toolchain(("javac", "java"), java.builds, java.run),
}


def missing(language: Language) -> str | None:
    """Which of its programs is not installed, with what to do, or None."""
    try:
        for name in LANGUAGES[language].tools:
            tool(name)
    except NoTool as error:
        return str(error)
    return None
