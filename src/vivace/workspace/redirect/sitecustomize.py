"""What every Python runs first that a check starts in a throwaway copy of the work tree.

A project that is installed in editable form is imported from the original, by a path in a ``.pth``
file or by a finder of the build system's. Here everything that would come from the original comes
from the copy. Only what git ignores, and so no edit changes, is still taken from the original
where the copy does not have it: generated modules and compiled extensions.

Python finds this file by PYTHONPATH, the trees by the environment. It runs on any Python from 3.7
on, and must get in nobody's way.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import spec_from_file_location

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

ORIGINAL = "_VIVACE_ORIGINAL"
COPY = "_VIVACE_COPY"


class Trees:
    """The original work tree and its copy; both paths are free of links."""

    def __init__(self, original: str, copy: str) -> None:
        self._original = original
        self._copy = copy

    def in_copy(self, path: str) -> str | None:
        """Where the copy has of its own what lies here in the original."""
        real = os.path.realpath(path)
        if _inside(real, self._copy) or not _inside(real, self._original):
            return None
        moved = self._copy + real[len(self._original) :]
        own = os.path.realpath(moved)  # what is installed is only linked to in the copy
        return moved if os.path.exists(own) and _inside(own, self._copy) else None  # noqa: PTH110

    def in_original(self, path: str) -> str | None:
        """The folder in the original that this folder of the copy was made from."""
        real = os.path.realpath(path)
        before = self._original + real[len(self._copy) :]
        return before if _inside(real, self._copy) and os.path.isdir(before) else None  # noqa: PTH112

    def copy_first(self, folders: Iterable[str]) -> list[str]:
        """The folders to look through: those of the copy first, the original's at the end."""
        found = [self.in_copy(each) or each for each in folders]
        fallback = [self.in_original(each) for each in found]
        return list(dict.fromkeys([*found, *filter(None, fallback)]))


class Redirect:
    """Asks all finders after it, and takes what they find in the original from the copy."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        finders = sys.meta_path
        for finder in finders[finders.index(self) + 1 :] if self in finders else ():
            if hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return self._redirected(spec)
        return None

    def _redirected(self, spec: ModuleSpec) -> ModuleSpec:
        folders = spec.submodule_search_locations
        moved = self._trees.in_copy(spec.origin) if spec.has_location and spec.origin else None
        if moved is not None:
            beside = None if folders is None else [os.path.dirname(moved), *folders]  # noqa: PTH120
            found = spec_from_file_location(spec.name, moved, submodule_search_locations=beside)
            spec = found or spec
        if spec.submodule_search_locations is not None:
            before = list(spec.submodule_search_locations)
            after = self._trees.copy_first(before)
            if after != before:
                spec.submodule_search_locations = after
        return spec


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _redirect(environment: Mapping[str, str]) -> None:
    trees = Trees(environment[ORIGINAL], environment[COPY])
    paths = [[trees.in_copy(each), each] if each else [each] for each in sys.path]
    sys.path[:] = [each for pair in paths for each in pair if each is not None]
    sys.meta_path.insert(0, Redirect(trees))


def _run_the_next() -> None:
    """There may be another sitecustomize, which we stand before."""
    ours = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
    sys.path[:] = [each for each in sys.path if os.path.abspath(each) != ours]  # noqa: PTH100
    this = sys.modules.pop("sitecustomize")
    try:
        import_module("sitecustomize")
    except ImportError:
        sys.modules["sitecustomize"] = this


if __name__ == "sitecustomize":
    if ORIGINAL in os.environ and COPY in os.environ:
        _redirect(os.environ)
    _run_the_next()
