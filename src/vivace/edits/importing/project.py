"""The person's own project, as an edit has to know it: who exports what, and what it depends on.

A plain value that is made elsewhere, from files that were read there. ``Modules`` is the same as
one of these files sees it: what it may import, and under which name.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from vivace.syntax.exports import UNREAD, Exports
from vivace.syntax.imported import Imported
from vivace.syntax.languages import SCRIPTS, language_of

__all__ = ["FAMILIES", "Manifest", "Modules", "Project", "folder_of"]

FAMILIES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(SCRIPTS, SCRIPTS),
    **dict.fromkeys(("c", "cpp"), ("c", "cpp")),
}
"""Languages that import each other; the others import themselves."""
_TRIAL = re.compile(
    r"(^|/)(tests?|testing|__tests__|__mocks__|spec|specs|examples?|bench(marks?)?|docs?|fixtures)/"
    r"|(^|/)(test_[^/]*|conftest|setup|[^/]*[._-](test|spec))\.\w+$"
)
"""Files that use the project and are not used by it."""

_SOURCES = re.compile(r"(^|/)(src|lib|python)$")

_TELLING = re.compile(r"[A-Z]|\w_\w")
_MANIFESTS = {"go": "go.mod", "rust": "Cargo.toml"} | dict.fromkeys(SCRIPTS, "package.json")
"""What says where a package ends, outside of which its imports mean nothing."""


class Manifest(Struct, frozen=True):
    """What a file such as package.json says of the folder it is in."""

    kind: str
    folder: str
    name: str = ""
    declared: tuple[str, ...] = ()
    """Packages it depends on, under the names they are imported by."""


class Project:
    def __init__(
        self,
        files: Mapping[str, Exports],
        paths: Iterable[str] = (),
        manifests: Sequence[Manifest] = (),
        *,
        complete: bool = True,
    ) -> None:
        """``paths`` are those of all files, ``complete`` says that those that matter were read."""
        self.files = files
        self.paths = frozenset(paths) | frozenset(files)
        self.manifests = manifests
        self.complete = complete

    @cached_property
    def homes(self) -> Mapping[str, Sequence[str]]:
        """Name -> the files that export it."""
        found: dict[str, list[str]] = {}
        for path, exports in self.files.items():
            for name in {*exports.names, exports.default} - {""}:
                found.setdefault(name, []).append(path)
        return found

    @cached_property
    def customs(self) -> Mapping[str, Sequence[tuple[str, Imported]]]:
        """Name -> how files import it, each with its file."""
        found: dict[str, list[tuple[str, Imported]]] = {}
        for path, exports in self.files.items():
            for each in exports.imported:
                found.setdefault(each.name, []).append((path, each))
        return found

    @cached_property
    def folders(self) -> Mapping[str, Sequence[str]]:
        """Folder -> the files in it that were read."""
        found: dict[str, list[str]] = {}
        for path in self.files:
            found.setdefault(folder_of(path), []).append(path)
        return found

    @cached_property
    def places(self) -> frozenset[str]:
        """Every file, with its suffix and without, and every folder with files."""
        found = set(self.paths)
        for path in self.paths:
            found.add(posixpath.splitext(path)[0])
            while path := folder_of(path):
                found.add(path)
        return frozenset(found)

    @cached_property
    def ends(self) -> frozenset[str]:
        """The same by every end of its path."""
        parts = (place.split("/") for place in self.places)
        return frozenset("/".join(each[at:]) for each in parts for at in range(len(each)))

    def manifest(self, kind: str, path: str) -> Manifest | None:
        """The nearest of a kind above a file."""
        above = [each for each in self.manifests if each.kind == kind and _holds(each, path)]
        return max(above, key=lambda each: len(each.folder), default=None)

    def declared(self, path: str) -> Iterator[str]:
        for each in self.manifests:
            if _holds(each, path):
                yield from each.declared
                if each.kind != "pyproject.toml":  # whose modules are known by their files
                    yield each.name


def _holds(manifest: Manifest, path: str) -> bool:
    return not manifest.folder or path.startswith(manifest.folder + "/")


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


class Modules:
    """What a file can import from its own project."""

    def __init__(self, project: Project, path: str) -> None:
        self.project = project
        self.path = path
        language = language_of(path)
        self._name = language.name if language else ""
        self._family = FAMILIES.get(self._name, (self._name,))

    @property
    def complete(self) -> bool:
        return self.project.complete

    def exporting(self, name: str) -> list[str]:
        """The files that export a name to this one; tests do so only to each other."""
        if not self.complete:
            return []  # another may export it too
        found = [each for each in self.project.homes.get(name, ()) if self._can_import(each)]
        if _TRIAL.search(self.path):
            return found
        return [each for each in found if not _TRIAL.search(each)]

    def custom(self, name: str) -> Imported | None:
        """The one way in which the project imports a name, if it is plain that it is meant.

        A name that could be any variable's has to be imported so in two files.
        """
        found = [
            (path, each)
            for path, each in self.project.customs.get(name, ())
            if self._can_import(path) and (_TRIAL.search(self.path) or not _TRIAL.search(path))
        ]
        ways = {each for _, each in found}
        plain = _TELLING.search(name) or len(found) > 1 or self._name == "go"
        same = all(self._manifest_of(path) == self._manifest_of(self.path) for path, _ in found)
        return ways.pop() if self.complete and len(ways) == 1 and plain and same else None

    def _manifest_of(self, path: str) -> Manifest | None:
        kind = _MANIFESTS.get(self._name)
        return self.project.manifest(kind, path) if kind else None

    def _can_import(self, path: str) -> bool:
        language = language_of(path)
        return path != self.path and language is not None and language.name in self._family

    def neighbours(self) -> Iterator[Exports]:
        """The other files of the same package, in Go and Java."""
        own = self.project.files.get(self.path, UNREAD).package
        for path in self.project.folders.get(folder_of(self.path), ()):
            exports = self.project.files[path]
            if path != self.path and self._can_import(path) and _same_package(exports, own):
                yield exports

    @cached_property
    def near(self) -> frozenset[str]:
        """What these files define, all of which this one sees."""
        return frozenset(name for each in self.neighbours() for name in (*each.names, *each.own))

    def has(self, module: str) -> bool:
        """Whether what is imported is the project's, or of a package it depends on."""
        if module.startswith("."):
            return self._has_relative(module)
        if any(_is_of(module, each) for each in self.project.declared(self.path) if each):
            return True
        if self._name == "python":
            return any(self._is_python(root, module) for root in self.roots())
        aliased = module.startswith(("@/", "~/")) or self._name in ("c", "cpp")
        return aliased and module.strip('"').lstrip("@~/") in self.project.ends

    def _has_relative(self, module: str) -> bool:
        here = folder_of(self.path)
        if self._name == "python":
            name = module.lstrip(".")
            for _ in range(len(module) - len(name) - 1):
                here = folder_of(here)
            return not name or self._is_python(here, name)
        target = posixpath.normpath(posixpath.join(here, module))
        bare = re.sub(r"\.[cm]?jsx?$", "", target)
        return target == "." or not self.project.places.isdisjoint((target, bare))

    def _is_python(self, root: str, module: str) -> bool:
        base = posixpath.join(root, module.replace(".", "/"))
        ends = (".py", ".pyi", "/__init__.py")
        there = not self.project.paths.isdisjoint(base + end for end in ends)
        return there or base in self.project.folders

    def roots(self) -> set[str]:
        """The folders that Python finds modules in, as far as one can tell."""
        usual = {""} | {each for each in self.project.places if _SOURCES.search(each)}
        return usual | {self.root_of(self.path)}

    def root_of(self, path: str) -> str:
        """The folder that a Python module is named from."""
        folder = folder_of(path)
        while folder and posixpath.join(folder, "__init__.py") in self.project.paths:
            folder = folder_of(folder)
        return folder

    def reaches(self, start: str, step: Callable[[str], Iterable[str]]) -> set[str]:
        """All files that one comes to from a file by the steps."""
        found: set[str] = set()
        waiting = [start]
        while waiting:
            for each in step(waiting.pop()):
                if each not in found:
                    found.add(each)
                    waiting.append(each)
        return found


def _same_package(exports: Exports, own: str) -> bool:
    plain = {exports.package.removesuffix("_test"), own.removesuffix("_test")}
    return exports.unread or len(plain) == 1


def _is_of(module: str, package: str) -> bool:
    """Whether a module is in a package, both as they are imported."""
    return module == package or module.startswith((package + ".", package + "/", package + "::"))
