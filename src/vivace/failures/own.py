"""Which files of the project a printed path means, and which of these are its tests."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable

from msgspec import Struct
from msgspec.structs import replace

from vivace.failures.failure import Failure, Frame

__all__ = ["Project", "is_test"]

_TEST = re.compile(
    r"(?:^|/)(?:tests?|__tests__|spec|testing)/|(?:^|/)(?:test_[^/]*|conftest)\.\w+$"
    r"|[^/]*(?:[._-]test|_tests|[._-]spec)\.\w+$|(?:^|/)tests?\.\w+$|[^/]*Tests?\.(?:java|kt)$",
)
_MOST_FRAMES = 20


def is_test(path: str) -> bool:
    """By the customs of each language; what is inline in Rust is not told by a path."""
    return _TEST.search(path) is not None


class Project(Struct, frozen=True):
    """The project as a command sees it."""

    root: str
    """Absolute."""
    files: frozenset[str]
    """From the root down, divided by ``/``: what git does not ignore."""
    here: str = ""
    """Where the command runs, from the root down."""

    def own(self, failure: Failure) -> Failure:
        """The same with only the frames that are the person's own, as paths from the root down."""
        frames: list[Frame] = []
        for frame in failure.frames:
            path = self.file(frame.path)
            if path is not None and len(frames) < _MOST_FRAMES:
                own = replace(frame, path=path)
                if own not in frames:
                    frames.append(own)
        return replace(failure, frames=tuple(frames))

    def file(self, printed: str) -> str | None:
        """The file a printed path means; None where it is none of the project's, or could be
        several."""
        path = printed.strip().replace("\\", "/").removeprefix("file://")
        if not path or "\0" in path:
            return None
        if path.startswith("/"):
            path = posixpath.normpath(path)
            inside = path.startswith(self.root.rstrip("/") + "/")
            inner = path[len(self.root.rstrip("/")) + 1 :] if inside else ""
            return inner if inner in self.files else None
        for folder in (self.here, ""):
            found = posixpath.normpath(posixpath.join(folder, path))
            if found in self.files:
                return found
        return _only(self._ending_with(posixpath.normpath(path)))

    def _ending_with(self, path: str) -> Iterable[str]:
        """Compilers and test runners print from the folder of a package, which may be any."""
        while path.startswith("../"):
            path = path[3:]
        return [each for each in self.files if each == path or each.endswith(f"/{path}")]


def _only(found: Collection[str] | Iterable[str]) -> str | None:
    listed = list(found)
    return listed[0] if len(listed) == 1 else None
