"""One file replaced, made or removed, wholly or not at all.

The new bytes go into a temporary file beside the old one (``stage``), which then takes its name
(``commit``). Both first look whether the file still is what was read. Between that look and the
rename lie microseconds in which another program's save would be lost; everything before is seen.

A file with several hard links is refused: the new one would be a file of its own, and to write into
the old one could be cut short.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Iterator

from vivace.workspace.bytecode import discard_bytecode
from vivace.workspace.document import Version, read_in, version_of
from vivace.workspace.errors import CannotWrite, FileChanged, explain
from vivace.workspace.paths import SafePath, open_folder

__all__ = [
    "commit",
    "discard",
    "is_temporary",
    "missing_folders",
    "remove",
    "remove_folder",
    "replace",
    "stage",
    "temporary_name",
]

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""What file systems answer that have no hard links."""


def replace(path: SafePath, data: bytes, before: Version | None) -> None:
    """Put these bytes in place of what was read; None where there must be no file yet."""
    temporary = temporary_name()
    folders = missing_folders(path)
    try:
        stage(path, data, before, temporary)
        commit(path, before, temporary)
    finally:
        discard(path, temporary)
        for folder in reversed(folders):
            remove_folder(folder)


def temporary_name() -> str:
    return f".vivace-{secrets.token_hex(8)}.tmp"


def is_temporary(name: str) -> bool:
    return re.fullmatch(r"\.vivace-[0-9a-f]{16}\.tmp", name) is not None


def stage(
    path: SafePath, data: bytes, before: Version | None, temporary: str, mode: int | None = None
) -> None:
    """Write the new bytes beside the file, with its permissions, safely on the disk.

    ``mode`` is for a file that was removed and comes back.
    """
    with _explained(path), open_folder(path, make=before is None) as folder:
        old = _look(folder, path, before)
        if old is not None:
            _refuse_unwritable(folder, path, old)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        handle = os.open(temporary, flags, 0o666 if old is None else 0o600, dir_fd=folder)
        try:
            with open(handle, "wb") as file:  # noqa: PTH123 - a handle
                file.write(data)
                file.flush()
                if old is not None:
                    _make_alike(handle, folder, path, old)
                elif mode is not None:
                    os.fchmod(handle, mode)
                os.fsync(handle)
        except BaseException:
            os.unlink(temporary, dir_fd=folder)
            raise


def commit(path: SafePath, before: Version | None, temporary: str) -> None:
    """Let the temporary file take the file's place."""
    with _explained(path), open_folder(path) as folder:
        _look(folder, path, before)
        if before is None:
            _give_new_name(folder, path, temporary)
        else:
            os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        discard_bytecode(folder, path.name)
        os.fsync(folder)


def remove(path: SafePath, before: Version) -> None:
    """Remove the file that was read."""
    with _explained(path), open_folder(path) as folder:
        old = _look(folder, path, before)
        assert old is not None
        _refuse_unwritable(folder, path, old)
        os.unlink(path.name, dir_fd=folder)
        os.fsync(folder)


def discard(path: SafePath, temporary: str) -> None:
    """Remove the temporary file, if it is there."""
    with contextlib.suppress(OSError), open_folder(path) as folder:
        os.unlink(temporary, dir_fd=folder)


def missing_folders(path: SafePath) -> list[SafePath]:
    """The folders that ``stage`` would make for a new file, from the outermost in."""
    folders = [SafePath(path.root, path.parts[:length]) for length in range(1, len(path.parts))]
    return [folder for folder in folders if not os.path.lexists(folder.absolute)]


def remove_folder(path: SafePath) -> None:
    """Remove a folder that was made for a file, if it is empty."""
    with contextlib.suppress(OSError), open_folder(path) as folder:
        os.rmdir(path.name, dir_fd=folder)


def _look(folder: int, path: SafePath, before: Version | None) -> os.stat_result | None:
    """The file's status, if it is what was read; None if there was none and is none."""
    try:
        data, status = read_in(folder, path)
    except FileNotFoundError:
        if before is None:
            return None
        raise FileChanged(
            f"{path} was not touched: it was removed after it was read. Try again."
        ) from None
    except OSError as error:
        if before is None or error.errno not in (errno.EACCES, errno.EPERM):
            raise
        raise FileChanged(f"{path} was not touched: it cannot be read any more.") from error
    if before is None:
        raise FileChanged(f"{path} was not touched: a file of this name has appeared. Try again.")
    if version_of(data, status).sha256 != before.sha256:
        raise FileChanged(f"{path} was not touched: it was changed after it was read. Try again.")
    return status


def _refuse_unwritable(folder: int, path: SafePath, status: os.stat_result) -> None:
    """A rename would not ask for leave to write, so it is asked for here."""
    if status.st_nlink > 1:
        raise CannotWrite(
            f"{path} was not touched: it has {status.st_nlink} hard links, and the others would "
            "keep the old text. Make it a file of its own first: "
            f"cp -p {path.name} copy && mv copy {path.name}"
        )
    if not status.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH):  # root may always
        raise CannotWrite(
            f"{path} was not touched: it is read-only. If it may be changed: chmod u+w {path.name}"
        )
    os.close(os.open(path.name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder))


def _give_new_name(folder: int, path: SafePath, temporary: str) -> None:
    """A link is refused where the name is taken meanwhile; a rename would take it over."""
    try:
        os.link(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        raise FileChanged(
            f"{path} was not touched: a file of this name has appeared. Try again."
        ) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.rename(temporary, path.name, src_dir_fd=folder, dst_dir_fd=folder)
    else:
        os.unlink(temporary, dir_fd=folder)


def _make_alike(handle: int, folder: int, path: SafePath, old: os.stat_result) -> None:
    """Owner, permissions and attributes of the old file, as far as the system lets us."""
    mode = stat.S_IMODE(old.st_mode)
    mine = os.fstat(handle)
    if (mine.st_uid, mine.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(handle, old.st_uid, old.st_gid)
        except OSError:
            # Another's file becomes ours: it must not lend our rights to who runs it, nor give
            # our group what was meant for another.
            mode &= ~(stat.S_ISUID | stat.S_ISGID)
            try:
                os.fchown(handle, -1, old.st_gid)
            except OSError:
                mode &= ~stat.S_IRWXG | ((mode & stat.S_IRWXO) << 3)
    if sys.platform == "linux":
        source = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        try:
            _copy_attributes(source, handle)
        finally:
            os.close(source)
    os.fchmod(handle, mode)


if sys.platform == "linux":

    def _copy_attributes(source: int, target: int) -> None:
        with contextlib.suppress(OSError):  # not every file system has any
            for name in os.listxattr(source):
                with contextlib.suppress(OSError):  # some are the system's alone
                    os.setxattr(target, name, os.getxattr(source, name))


@contextlib.contextmanager
def _explained(path: SafePath) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise explain(path, error) from error
