"""A file that is wanted, where it lies while it comes, and what is said when it cannot come."""

from __future__ import annotations

import dataclasses
import errno
import shutil
from pathlib import Path

from vivace.download.progress import megabytes
from vivace.errors import DownloadError

__all__ = ["Wanted", "check_space", "disk_error", "gave_up", "kept", "stated"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wanted:
    name: str
    url: str
    path: Path
    size: int | None = None
    sha256: str | None = None
    """Lower-case. What is None is asked of the server; a file in the cache is taken as it is."""
    by_hand: str = "give a local file with --model PATH"
    """What a person without a network can do instead."""

    @property
    def part(self) -> Path:
        """What came so far; a later run goes on from there."""
        return self.path.with_name(self.path.name + ".part")

    @property
    def came(self) -> int:
        return self.part.stat().st_size if self.part.is_file() else 0

    @property
    def missing(self) -> int | None:
        """Bytes still to come, if that is known."""
        return None if self.size is None else self.size - self.came


def gave_up(wanted: Wanted, trouble: str, kept: str = "") -> DownloadError:
    return DownloadError(
        f"{wanted.name}: {trouble}. Check the connection and run again, or {wanted.by_hand}.{kept}"
    )


def check_space(wanted: Wanted, needed: int) -> None:
    if needed > _free(wanted.path.parent):
        raise _no_space(wanted, needed)


def disk_error(wanted: Wanted, error: OSError) -> DownloadError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _no_space(wanted, wanted.missing, kept(wanted))
    return DownloadError(
        f"{wanted.name}: {error.filename or wanted.path} cannot be used: "
        f"{error.strerror or error}. Choose another place with VIVACE_CACHE."
    )


def kept(wanted: Wanted) -> str:
    if wanted.sha256 is None or not wanted.came:
        return ""
    size = megabytes(wanted.came)
    return f" {size} are kept in {wanted.part}, from where the next run goes on."


def stated(size: int | None) -> str:
    return "any size" if size is None else f"{size} bytes"


def _no_space(wanted: Wanted, needed: int | None, kept: str = "") -> DownloadError:
    folder = wanted.path.parent
    need = "more is" if needed is None else f"{megabytes(needed)} {'more ' if kept else ''}are"
    return DownloadError(
        f"{wanted.name}: not enough space in {folder}: {need} needed, "
        f"{megabytes(_free(folder))} are free. Make room, choose another place "
        f"with VIVACE_CACHE, or choose a smaller model.{kept}"
    )


def _free(folder: Path) -> int:
    there = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(there).free
