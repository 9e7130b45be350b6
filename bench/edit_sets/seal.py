"""Packs a folder of tasks into one file, so that it can be kept unread, and unpacks it.

The same tasks give the same bytes, so the hash that is written down before the work on edits
begins shows that nothing was changed afterwards.
"""

from __future__ import annotations

import hashlib
import io
import lzma
import tarfile
from pathlib import Path

from bench.edit_sets.errors import BadSet

__all__ = ["open_sealed", "seal"]


def seal(folder: Path, target: Path) -> str:
    """Writes the sealed file; returns its SHA-256."""
    files = sorted(folder.glob("*.toml"))
    if not files:
        raise BadSet(f"{folder}: there is no TOML file to seal")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for file in files:
            content = file.read_bytes()
            member = tarfile.TarInfo(file.name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    raw = lzma.compress(packed.getvalue(), preset=9)
    target.write_bytes(raw)
    return hashlib.sha256(raw).hexdigest()


def open_sealed(sealed: Path, sha256: str, folder: Path) -> list[Path]:
    """Unpacks it into the folder, if it is the file that was sealed."""
    raw = sealed.read_bytes()
    actual = hashlib.sha256(raw).hexdigest()
    if actual != sha256:
        raise BadSet(f"{sealed}: sha256 is {actual}, not {sha256}: this is not what was sealed")
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(raw))) as archive:
        archive.extractall(folder, filter="data")
        return sorted(folder / name for name in archive.getnames())
