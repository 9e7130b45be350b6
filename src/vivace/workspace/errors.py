"""What can go wrong with the person's files.

    WorkspaceError
    ├── PathRefused      the path leads where no edit may go
    │   └── Protected    only a person may have it changed, by naming it
    ├── NotText          the file is there, but nothing that can be edited as text
    ├── FileChanged      the file is no longer what was read
    ├── CannotWrite      the file could not be replaced; it is as it was
    ├── CannotUndo       there is nothing to take back, or not without losing newer work
    └── GitFailed        git could not do what was asked

Every message is for the person: what happened, and what to do next. Whichever it is, the files are
as they were before, unless the message says otherwise.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable

from vivace.errors import VivaceError

__all__ = [
    "CannotUndo",
    "CannotWrite",
    "FileChanged",
    "GitFailed",
    "NotText",
    "PathRefused",
    "Protected",
    "WorkspaceError",
    "explain",
    "reason",
]


class WorkspaceError(VivaceError):
    """A file of the person's cannot be read or changed as asked."""


class PathRefused(WorkspaceError):
    """The path leads out of the workspace, or to something that no edit may touch."""


class Protected(PathRefused):
    """A change there runs code or opens doors; ``why`` says how."""

    def __init__(self, path: object, why: str) -> None:
        super().__init__(
            f"{path} was refused: {why}. To have it changed all the same, name it yourself."
        )
        self.path = path
        self.why = why


class NotText(WorkspaceError):
    """The file cannot be edited as text."""


class FileChanged(WorkspaceError):
    """The file is not what it was when it was read."""


class CannotWrite(WorkspaceError):
    """The file could not be replaced."""


class CannotUndo(WorkspaceError):
    """An edit cannot be taken back; ``paths`` are the files that stand in the way."""

    def __init__(self, message: str, paths: Iterable[str] = ()) -> None:
        super().__init__(message)
        self.paths = tuple(paths)


class GitFailed(WorkspaceError):
    """git is not there, or did not do what was asked."""


_REASONS = {
    errno.EACCES: "you may not do that here. Check the permissions of the file and its folder",
    errno.EPERM: "the system does not allow it. Check the file's owner and attributes",
    errno.EROFS: "it is on a file system that can only be read",
    errno.ENOSPC: "the disk is full. Make room and try again",
    errno.EDQUOT: "your quota on this disk is used up. Make room and try again",
    errno.ENAMETOOLONG: "the name is too long for this file system. Choose a shorter one",
    errno.EMFILE: "too many files are open",
    errno.ETXTBSY: "it is a program that is running. Stop it first",
}


def explain(path: object, error: OSError, to: type[WorkspaceError] = CannotWrite) -> WorkspaceError:
    """The system's error in the person's words."""
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return PathRefused(
            f"{path} was not touched: something on the way to it is a link or no folder."
        )
    if error.errno in (errno.ENXIO, errno.EISDIR):
        return PathRefused(f"{path} was not touched: it is no ordinary file any more.")
    if error.errno == errno.ENOENT:
        return FileChanged(f"{path} was not touched: it, or its folder, does not exist any more.")
    return to(f"{path} was not touched: {reason(error)}.")


def reason(error: OSError) -> str:
    return _REASONS.get(error.errno or 0, error.strerror or "the system gave no reason")
