"""A release, built and tried before anybody publishes it: ``scripts/release`` says how.

What is built comes from the last commit alone, in folders of its own, by tools of fixed versions.
The wheel is made from the source distribution, so that both are of the same files.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
PACKAGES = DIST / "release"
"""The wheel and the source distribution, and nothing else: all of it is uploaded."""
EXTENSION = DIST / "vivace.vsix"
LOCK = ROOT / "deploy/requirements.lock"
SMOKE = ROOT / "scripts/smoke.py"
PYTHONS = ("3.11", "3.12", "3.13")
SIZES = ("", "lsp", "laptop")
"""Installs whose size is told, beside the server's by the lock."""
VLLM = "an environment with vLLM for CPU has 2.5 GB (scripts/install-vllm); not tried here"
LOCK_HEADER = """\
# What a server with llama.cpp is made of, each file by its hash: written by scripts/release --lock.
#
#   pip install --require-hashes -r deploy/requirements.lock
#   pip install --no-deps vivace-VERSION-py3-none-any.whl
"""


class Failed(Exception):
    """What is wrong, and what to do."""


def say(text: str) -> None:
    print(f"release: {text}", flush=True)


def run(*command: str | Path, cwd: Path | None = None, **environment: str) -> str:
    """Standard output; what it says besides is shown when it fails."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        command,
        cwd=cwd or ROOT,
        env=inherited | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode:
        words = " ".join(map(str, command))
        raise Failed(f"{words}\nended with {ran.returncode}:\n{ran.stdout}{ran.stderr}".rstrip())
    return ran.stdout


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="vivace-release-") as name:
        yield Path(name)


# -- building -------------------------------------------------------------------------------------


def sources(tree: Path, commit: str, extension: Path | None) -> Path:
    """A commit, and the extension where the package looks for it."""
    tree.mkdir(parents=True)
    archive = tree.with_suffix(".tar")
    run("git", "-c", "tar.umask=0022", "archive", "--output", archive, commit)
    with tarfile.open(archive) as files:
        files.extractall(tree, filter="tar")
    if extension is not None:
        (tree / "dist").mkdir()
        shutil.copyfile(extension, tree / "dist/vivace.vsix")
    return tree


def repack(sdist: Path, epoch: int) -> None:
    """The same files always make the same bytes: setuptools leaves the time of the build, its
    user and the order of the disk in them."""
    with tarfile.open(sdist) as before:
        members = sorted(before.getmembers(), key=lambda member: member.name)
        contents = [before.extractfile(each) if each.isreg() else None for each in members]
        packed = sdist.with_suffix(".part")
        with (
            packed.open("wb") as file,
            gzip.GzipFile("", "wb", 9, file, mtime=epoch) as compressed,
            tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as after,
        ):
            for member, content in zip(members, contents, strict=True):
                member.mtime = epoch
                member.uid = member.gid = 0
                member.uname = member.gname = ""
                member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
                member.pax_headers = {}
                after.addfile(member, content)
    packed.replace(sdist)


def package(kind: str, tree: Path, into: Path, epoch: int) -> Path:
    tools = (sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir", into)
    run(*tools, tree, cwd=tree, SOURCE_DATE_EPOCH=str(epoch))
    [made] = into.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return made


def build(place: Path, tree: Path, epoch: int) -> tuple[Path, Path]:
    """The source distribution, and the wheel that is made of it."""
    into = place / "packages"
    sdist = package("sdist", tree, into, epoch)
    repack(sdist, epoch)
    with tarfile.open(sdist) as files:
        files.extractall(place / "unpacked", filter="data")
    [unpacked] = (place / "unpacked").iterdir()
    return sdist, package("wheel", unpacked, into, epoch)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def compare(made: Path, again: Path, what: str) -> None:
    if digest(made) != digest(again):
        raise Failed(
            f"{made.name} is not the same {what}. To see where they differ, build both with "
            "scripts/release --build in two clones and compare them with diffoscope."
        )


def carried(tree: Path) -> set[str]:
    """What the wheel of these sources has to hold, by pyproject.toml."""
    settings = tomllib.loads((tree / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    source = tree / settings["packages"]["find"]["where"][0]
    data = {
        path
        for name, patterns in settings["package-data"].items()
        for pattern in patterns
        for path in (source / name).glob(pattern)
    }
    files = {*source.rglob("*.py"), *data}
    return {str(path.relative_to(source)) for path in files if path.is_file()}


def held(wheel: Path) -> set[str]:
    names = zipfile.ZipFile(wheel).namelist()
    return {name for name in names if ".dist-info/" not in name}


def check_contents(wheel: Path, tree: Path) -> None:
    expected, found = carried(tree), held(wheel)
    for names, what in ((expected - found, "lacks"), (found - expected, "has besides")):
        if names:
            listed = ", ".join(sorted(names))
            raise Failed(f"{wheel.name} {what} {listed}: see package-data in pyproject.toml")


def the_extension(wanted: bool) -> Path | None:
    if not wanted:
        say("without the VS Code extension: nothing that is published is built so")
        return None
    if shutil.which("npm") is None:
        raise Failed(
            "the VS Code extension needs npm: install Node.js 20 or newer, or leave it "
            "out with --without-extension"
        )
    run("scripts/extension", EXTENSION)
    return EXTENSION


def build_all(extension: Path | None) -> Path:
    """The wheel, in dist/release beside its source distribution; the same from wherever."""
    if changed := run("git", "status", "--porcelain"):
        raise Failed(f"these are not committed, and a release is built from commits:\n{changed}")
    os.umask(0o022)  # archives have the modes of files
    commit, epoch = run("git", "log", "-1", "--format=%H %ct").split()
    with folder() as once, folder() as again, folder() as straight:
        trees = [sources(each / "tree", commit, extension) for each in (once, again, straight)]
        sdist, wheel = build(once, trees[0], int(epoch))
        os.environ["TZ"] = "Pacific/Kiritimati"  # at the other end of the day
        for made, repeated in zip((sdist, wheel), build(again, trees[1], int(epoch)), strict=True):
            compare(made, repeated, "when it is built again")
        direct = package("wheel", trees[2], straight / "packages", int(epoch))
        compare(wheel, direct, "when it is built without the source distribution")
        check_contents(wheel, trees[2])
        shutil.rmtree(PACKAGES, ignore_errors=True)
        PACKAGES.mkdir(parents=True)
        for made in (sdist, wheel):
            shutil.copyfile(made, PACKAGES / made.name)
    run(sys.executable, "-m", "twine", "check", "--strict", *PACKAGES.iterdir())
    sums = [f"{digest(path)}  {path.name}\n" for path in sorted(PACKAGES.iterdir())]
    (DIST / "SHA256SUMS").write_text("".join(sums))
    for path in sorted(PACKAGES.iterdir()):
        say(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes, built twice alike")
    return PACKAGES / wheel.name


# -- trying ---------------------------------------------------------------------------------------


def is_python(program: str | Path, version: str) -> bool:
    tell = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        return run(program, "-c", tell).strip() == version
    except (OSError, Failed):
        return False


def find_python(version: str) -> str | Path | None:
    """One that is there, or that uv can bring."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    there = [f"python{version}", *sorted(pyenv.glob(f"{version}.*/bin/python"))]
    if found := next((each for each in there if is_python(each, version)), None):
        return found
    try:
        run(tool("uv"), "python", "install", version)
        return run(tool("uv"), "python", "find", "--managed-python", version).strip()
    except Failed:
        return None


def tool(name: str) -> Path:
    return Path(sys.executable).with_name(name)


def environment(python: str | Path, place: Path) -> Path:
    """The Python of a new environment that has nothing, not even pip."""
    run(tool("uv"), "venv", "--quiet", "--no-project", "--python", python, place)
    return place / "bin/python"


def install(python: Path, *what: str | Path) -> None:
    run(tool("uv"), "pip", "install", "--quiet", "--no-config", "--python", python, *what)


def size(python: Path) -> str:
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run(python, "-c", ask).strip())
    files = [path for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    packages = len(list(site.glob("*.dist-info")))
    bytes_ = sum(path.stat().st_size for path in files)
    return f"{bytes_ / 1e6:.1f} MB in {packages} packages, without byte code"


def smoke(python: Path, wheel: Path) -> None:
    with folder() as empty:
        home = {"HOME": str(empty), "XDG_STATE_HOME": str(empty), "XDG_DATA_HOME": str(empty)}
        work = empty / "work"
        work.mkdir()
        script = shutil.copy(SMOKE, empty)
        run(python, "-P", script, version_of(wheel), cwd=work, **home)


def version_of(wheel: Path) -> str:
    return wheel.name.split("-")[1]


def try_all(wheel: Path, versions: Sequence[str]) -> None:
    for version in versions:
        python = find_python(version)
        if python is None:
            say(f"Python {version}: cannot be had here, so it is untried")
            continue
        with folder() as place:
            installed = environment(python, place / "env")
            install(installed, wheel)
            smoke(installed, wheel)
            say(f"Python {version}: installed and tried")


def measure(wheel: Path) -> None:
    for extra in SIZES:
        with folder() as place:
            python = environment(sys.executable, place / "env")
            install(python, f"{wheel}[{extra}]" if extra else wheel)
            say(f"size of vivace{f'[{extra}]' if extra else ''}: {size(python)}")
    say(f"size of vivace[vllm]: {VLLM}")


def describe_server(wheel: Path) -> None:
    """The server as the lock has it: tried, measured, and listed (a software bill of materials)."""
    bill = DIST / f"vivace-{version_of(wheel)}.cdx.json"
    with folder() as place:
        python = environment(sys.executable, place / "env")
        install(python, "--require-hashes", "-r", LOCK)
        install(python, "--no-deps", wheel)
        smoke(python, wheel)
        say(f"size of a server by {LOCK.relative_to(ROOT)}: {size(python)}")
        listing = ("environment", "--output-reproducible", "--of", "JSON", "--pyproject")
        run(tool("cyclonedx-py"), *listing, ROOT / "pyproject.toml", "-o", bill, python)
    listed = finished(json.loads(bill.read_text("utf-8")), version_of(wheel))
    bill.write_text(json.dumps(listed, indent=2, sort_keys=True) + "\n", "utf-8")
    say(f"{bill.relative_to(ROOT)}: {len(listed['components'])} components")


def finished(bill: dict[str, Any], version: str) -> dict[str, Any]:
    """With the version, which pyproject.toml does not have; it must not say where things lay."""
    bill["metadata"]["component"]["version"] = version
    if "file://" in json.dumps(bill):
        raise Failed("the bill of materials names a file of this machine")
    return bill


# -- dependencies ---------------------------------------------------------------------------------


def lock() -> None:
    made = run(
        *(tool("uv"), "pip", "compile", "--quiet", "--no-header", "--no-config", "--upgrade"),
        *("--universal", "--python-version", PYTHONS[0], "--generate-hashes"),
        *("--no-emit-index-url", "--no-emit-find-links", "--extra", "llamacpp", "pyproject.toml"),
    )
    if found := re.search(r"\w+://\S+", made):
        raise Failed(f"the lock would name an address ({found[0]}): is a package index set?")
    LOCK.write_text(LOCK_HEADER + made, encoding="utf-8")
    say(f"{LOCK.relative_to(ROOT)}: {len(re.findall(r'(?m)^[^ #]+==', made))} packages")


def audit() -> None:
    """A package that could not be asked about counts as a failure, not as one that is well."""
    options = ("--strict", "--require-hashes", "--disable-pip", "--progress-spinner", "off")
    try:
        run(tool("pip-audit"), *options, "-r", LOCK)
    except Failed as failed:
        if re.search(r"could not be audited|ConnectionError|ServiceError", str(failed)):
            last = str(failed).splitlines()[-1]
            raise Failed(
                f"the advisories could not be asked, so nothing is known: {last}"
            ) from None
        raise
    say(f"no known vulnerability in {LOCK.relative_to(ROOT)}")


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/release", description=__doc__)
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--build", action="store_true", help="only build and compare")
    only.add_argument("--lock", action="store_true", help=f"write {LOCK.name} anew")
    only.add_argument("--audit", action="store_true", help=f"known vulnerabilities in {LOCK.name}")
    parser.add_argument("--python", action="append", help="try only in these versions")
    parser.add_argument("--without-extension", action="store_true")
    asked = parser.parse_args(argv)
    try:
        if asked.lock:
            lock()
        elif asked.audit:
            audit()
        else:
            wheel = build_all(the_extension(not asked.without_extension))
            if not asked.build:
                try_all(wheel, asked.python or PYTHONS)
                measure(wheel)
                describe_server(wheel)
    except Failed as failed:
        print(f"release: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
