"""What a project says it depends on: pyproject.toml, package.json, go.mod, Cargo.toml and the like.

A file that cannot be read says nothing; whose it is, its own tools will tell.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from vivace.edits.importing.project import Manifest, folder_of

__all__ = ["is_manifest", "manifest_of"]

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)")
_IMPORTED_AS = {
    "attrs": "attr",
    "beautifulsoup4": "bs4",
    "opencv_python": "cv2",
    "pillow": "PIL",
    "protobuf": "google",
    "pyjwt": "jwt",
    "pymysql": "pymysql",
    "pyyaml": "yaml",
    "scikit_learn": "sklearn",
}
"""Packages of Python that are imported under names one cannot guess."""
_GO_MODULE = re.compile(r"^module\s+(\S+)", re.MULTILINE)
_GO_REQUIRED = re.compile(r"^(?:require\s+|\s+)([\w.-]+\.[\w.-]+/\S+)\s+v", re.MULTILINE)
_GROUP = re.compile(r"<groupId>\s*([\w.-]+)\s*</groupId>")


def is_manifest(path: str) -> bool:
    return _reader(path) is not None


def manifest_of(path: str, text: str) -> Manifest | None:
    read = _reader(path)
    if read is None:
        return None
    try:
        name, declared = read(text)
    except (ValueError, AttributeError, TypeError):  # not TOML or JSON, or of another shape
        return None
    folder, _, kind = path.rpartition("/")
    folder = folder.removesuffix("requirements").rstrip("/")  # which holds lists for all above it
    return Manifest(kind, folder, name, tuple(sorted(set(declared))))


_Read = Callable[[str], tuple[str, Iterable[str]]]


def _reader(path: str) -> _Read | None:
    name = path.rpartition("/")[2]
    if folder_of(path).rpartition("/")[2] == "requirements" and name.endswith(".txt"):
        return _requirements
    return next((read for pattern, read in _READERS if fnmatchcase(name, pattern)), None)


def _pyproject(text: str) -> tuple[str, Iterable[str]]:
    table = tomllib.loads(text)
    project = table.get("project", {})
    poetry = table.get("tool", {}).get("poetry", {})
    groups = [*project.get("optional-dependencies", {}).values()]
    groups += table.get("dependency-groups", {}).values()
    groups.append(project.get("dependencies", []))
    wanted = [each for group in groups for each in group if isinstance(each, str)]
    wanted += poetry.get("dependencies", {})
    for group in poetry.get("group", {}).values():
        wanted += group.get("dependencies", {})
    name = str(project.get("name") or poetry.get("name") or "")
    return name.replace("-", "_"), _python_names(wanted)


def _requirements(text: str) -> tuple[str, Iterable[str]]:
    return "", _python_names(line for line in text.splitlines() if not line.startswith(("#", "-")))


def _python_names(requirements: Iterable[str]) -> Iterator[str]:
    for each in requirements:
        found = _REQUIREMENT.match(each)
        if found is not None:
            name = re.sub(r"[-.]+", "_", found[1])
            yield from (name, name.lower(), name.lower().removeprefix("python_"))
            if (other := _IMPORTED_AS.get(name.lower())) is not None:
                yield other


def _package(text: str) -> tuple[str, Iterable[str]]:
    table = json.loads(text)
    kinds = ("dependencies", "devDependencies", "peerDependencies", "optionalDependencies")
    declared = {name for kind in kinds for name in table.get(kind, {})}
    # The types of a package are declared apart from it.
    return str(table.get("name", "")), declared | {
        each.removeprefix("@types/") for each in declared
    }


def _go(text: str) -> tuple[str, Iterable[str]]:
    module = _GO_MODULE.search(text)
    return module[1] if module else "", _GO_REQUIRED.findall(text)


def _cargo(text: str) -> tuple[str, Iterable[str]]:
    table = tomllib.loads(text)
    tables: list[dict[str, Any]] = [table, table.get("workspace", {})]
    tables += table.get("target", {}).values()
    kinds = ("dependencies", "dev-dependencies", "build-dependencies")
    names = {name for each in tables for kind in kinds for name in each.get(kind, {})}
    own = str(table.get("package", {}).get("name", ""))
    return own.replace("-", "_"), {name.replace("-", "_") for name in names}


def _pom(text: str) -> tuple[str, Iterable[str]]:
    return "", _GROUP.findall(text)


_READERS: tuple[tuple[str, _Read], ...] = (
    ("pyproject.toml", _pyproject),
    ("requirements*.txt", _requirements),
    ("package.json", _package),
    ("go.mod", _go),
    ("Cargo.toml", _cargo),
    ("pom.xml", _pom),
)
