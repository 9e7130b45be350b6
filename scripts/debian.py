"""Debian's packages, unpacked into a folder with all the libraries they need.

What is taken runs on any x86-64 Linux and touches nothing of the system. Suites move: what is in
the index today is taken, and only if Debian signed that index and every package has the hash it
names.

Environment:
    DEBIAN_MIRROR   where they come from; unset: from where this system has its packages
"""

from __future__ import annotations

import functools
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Collection, Iterator
from pathlib import Path

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
INDEX = "main/binary-amd64/Packages.xz"
LIBRARIES = "usr/lib/x86_64-linux-gnu"

Package = dict[str, str]


class CannotInstall(Exception):
    """The message says why."""


@functools.cache
def mirror() -> str:
    """Of Debian's own packages, without its end."""
    if given := os.environ.get("DEBIAN_MIRROR"):
        return given.rstrip("/")
    asked = ["apt-get", "indextargets", "--format", "$(CODENAME) $(REPO_URI)"]
    asked += ["Created-By: Packages", "Origin: Debian", "Label: Debian"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
    except (FileNotFoundError, subprocess.CalledProcessError):
        told = []
    if len(told) < 2:
        raise CannotInstall("this system has no packages from Debian: set DEBIAN_MIRROR.")
    return told[1].rstrip("/")


def get(path: str) -> bytes:
    address = f"{mirror()}/{path}"
    try:
        with urllib.request.urlopen(address, timeout=60) as answer:
            data: bytes = answer.read()
    except OSError as error:
        raise CannotInstall(f"{address} cannot be fetched: {error}") from error
    return data


def verified(path: str, sha256: str) -> bytes:
    data = get(path)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise CannotInstall(f"{path} is not what Debian signed: its hash is another.")
    return data


def signed_release(suite: str) -> str:
    """What Debian says of a suite, once its signature is found to be good."""
    with tempfile.TemporaryDirectory() as folder:
        given, plain = Path(folder, "InRelease"), Path(folder, "Release")
        given.write_bytes(get(f"dists/{suite}/InRelease"))
        command = ["gpgv", "--keyring", str(KEYRING), "--output", str(plain), str(given)]
        try:
            ran = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError as error:
            raise CannotInstall(f"needs gpgv (Debian: apt-get install gpgv): {error}") from error
        if ran.returncode != 0:
            raise CannotInstall(f"the signature of {suite} is not good:\n{ran.stderr}")
        return plain.read_text()


def packages_of(suite: str) -> dict[str, Package]:
    """By their names."""
    told = re.search(rf"^ ([0-9a-f]{{64}}) +\d+ {INDEX}$", signed_release(suite), re.MULTILINE)
    if told is None:
        raise CannotInstall(f"{suite} names no {INDEX}.")
    index = lzma.decompress(verified(f"dists/{suite}/{INDEX}", told[1])).decode()
    rows = (dict(_fields(row)) for row in index.split("\n\n") if row.strip())
    return {row["Package"]: row for row in rows}


def _fields(row: str) -> Iterator[tuple[str, str]]:
    for line in row.splitlines():
        name, colon, value = line.partition(": ")
        if colon and not line.startswith(" "):
            yield name, value


def needed(
    packages: dict[str, Package], name: str, without: Collection[str] = ()
) -> dict[str, Package]:
    """The package and all that it depends on; of alternatives the first that exists."""
    found: dict[str, Package] = {}
    waiting = [name]
    while waiting:
        package = packages[waiting.pop()]
        if package["Package"] in found or package["Package"] in without:
            continue
        found[package["Package"]] = package
        for group in filter(None, package.get("Depends", "").split(",")):
            names = (re.match(r"[a-z0-9.+-]+", one.strip()) for one in group.split("|"))
            chosen = next((one[0] for one in names if one and one[0] in packages), None)
            waiting += [chosen] if chosen else []
    return found


def unpacked(suite: str, name: str, folder: Path, without: Collection[str] = ()) -> str:
    """Its version. ``without``: what it depends on, but is not needed here."""
    wanted = needed(packages_of(suite), name, without)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for each, package in wanted.items():
        file = folder / f"{each}.deb"
        file.write_bytes(verified(package["Filename"], package["SHA256"]))
        subprocess.run(["dpkg-deb", "-x", file, folder], check=True)
        file.unlink()
    return wanted[name]["Version"]


def write_starter(folder: Path, program: str, *more: str, **environment: str) -> None:
    """One of its programs with its own libraries, under one path like any other. ``more``: folders
    in which it has libraries of its own."""
    libraries = folder / LIBRARIES
    search = ":".join([str(libraries), *(str(libraries / each) for each in more)])
    starter = folder / program
    starter.write_text(
        "#!/bin/sh\n"
        + "".join(f"export {name}='{value}'\n" for name, value in environment.items())
        + f"exec '{libraries}/ld-linux-x86-64.so.2' --library-path '{search}' "
        + f"'{folder}/usr/bin/{program}' \"$@\"\n"
    )
    starter.chmod(0o755)
