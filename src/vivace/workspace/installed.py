"""What is installed leads to the original work tree; in a copy of it, it has to lead to the copy.

For Node that is a matter of links. For Python, and for search paths, it is one of the environment
that a command gets.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from vivace.workspace.redirect import sitecustomize
from vivace.workspace.redirect.sitecustomize import Trees

__all__ = ["INSTALLED", "environment_for", "link_installed"]

_NODE = "node_modules"
INSTALLED = frozenset({_NODE, ".venv", "venv"})


def link_installed(source: Path, target: Path, trees: Trees) -> None:
    """Link the installed packages of the original into the copy."""
    if source.name == _NODE:
        _link_node(source, target, trees)
    else:
        target.symlink_to(source)


def _link_node(source: Path, target: Path, trees: Trees) -> None:
    """One link for each package: those of the project itself (workspaces) lead into the copy."""
    target.mkdir()
    for package in source.iterdir():
        here = target / package.name
        if package.is_symlink():
            here.symlink_to(trees.in_copy(str(package)) or package)
        elif package.is_dir() and (package.name.startswith("@") or package.name == ".bin"):
            _link_node(package, here, trees)
        else:
            here.symlink_to(package)


def environment_for(root: Path, copy: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The environment of a command that is to work with the copy and not with the original."""
    original, copied = os.path.realpath(root), os.path.realpath(copy)
    trees = Trees(original, copied)
    moved = {name: _moved(value, trees) for name, value in environment.items()}
    python = [str(Path(sitecustomize.__file__).parent), moved.get("PYTHONPATH", "")]
    return moved | {
        sitecustomize.ORIGINAL: original,
        sitecustomize.COPY: copied,
        "PYTHONPATH": os.pathsep.join(filter(None, python)),
        "UV_NO_SYNC": "1",  # or else uv run makes the original's environment one of the copy's
    }


def _moved(value: str, trees: Trees) -> str:
    """A path, or a list of them, with those that lie in the original moved to the copy."""
    return os.pathsep.join(
        (trees.in_copy(each) or each) if each.startswith(os.sep) else each
        for each in value.split(os.pathsep)
    )
