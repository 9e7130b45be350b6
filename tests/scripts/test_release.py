"""scripts/release.py: every build packs the same bytes, and all that was to be packed."""

from __future__ import annotations

import gzip
import io
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import vivace
from tests.scripts.test_fetch import load_script
from tests.support.files import ROOT

release = load_script("release")

EPOCH = 1_800_000_000


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources as they are, without what is only built."""
    tree = tmp_path_factory.mktemp("sources") / "tree"
    for part in ("src", "editors/neovim"):
        shutil.copytree(
            ROOT / part,
            tree / part,
            symlinks=True,
            ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"),
        )
    for part in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / part, tree)
    return tree


@pytest.fixture(scope="module")
def wheel(tree: Path) -> Path:
    into = tree.parent / "packages"
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(into)]
    subprocess.run([sys.executable, "-m", "pip", "wheel", *options, str(tree)], check=True)
    [made] = into.glob("*.whl")
    return made


@pytest.mark.release
def test_the_wheel_has_all_that_pyproject_names_and_nothing_else(wheel: Path, tree: Path) -> None:
    release.check_contents(wheel, tree)
    held = release.held(wheel)
    for name in ("models.toml", "py.typed", "cli/neovim/lua/vivace.lua", "cli/main.py"):
        assert f"vivace/{name}" in held
    assert sum(name.startswith("vivace/findings/rules/") for name in held) > 100


def test_every_pattern_of_package_data_finds_something(tree: Path) -> None:
    data = tomllib.loads((tree / "pyproject.toml").read_text())["tool"]["setuptools"]
    for pattern in data["package-data"]["vivace"]:
        if not pattern.endswith(".vsix"):  # there if it was built before
            assert list((tree / "src/vivace").glob(pattern)), pattern


@pytest.mark.release
def test_what_a_wheel_lacks_or_has_besides_is_named(
    wheel: Path, tree: Path, tmp_path: Path
) -> None:
    lacking, larger = tmp_path / "lacking.whl", tmp_path / "larger.whl"
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(lacking, "w") as archive:
        for name in whole.namelist():
            if name != "vivace/models.toml":
                archive.writestr(name, whole.read(name))
    shutil.copy(wheel, larger)
    with zipfile.ZipFile(larger, "a") as archive:
        archive.writestr("tests/test_config.py", "")
    with pytest.raises(release.Failed, match=r"lacks vivace/models\.toml"):
        release.check_contents(lacking, tree)
    with pytest.raises(release.Failed, match=r"has besides tests/test_config\.py"):
        release.check_contents(larger, tree)


def packed(path: Path, *, time: int, user: str, names: list[str]) -> Path:
    """A source distribution as somebody's setuptools leaves it."""
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(f"vivace-1/{name}")
            member.mtime, member.uname, member.uid = time, user, time
            member.mode = 0o664 if user == "ada" else 0o644
            content = f"This is {name}.".encode()
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def test_a_source_distribution_forgets_who_packed_it_and_when(tmp_path: Path) -> None:
    one = packed(tmp_path / "one.tar.gz", time=1, user="ada", names=["b", "a"])
    other = packed(tmp_path / "other.tar.gz", time=2, user="root", names=["a", "b"])
    assert one.read_bytes() != other.read_bytes()

    for each in (one, other):
        release.repack(each, EPOCH)

    assert one.read_bytes() == other.read_bytes()
    with tarfile.open(one) as archive:
        members = archive.getmembers()
        [first, _] = members
        content = archive.extractfile(first)
        assert content is not None
        assert content.read() == b"This is a."
    assert [member.name for member in members] == ["vivace-1/a", "vivace-1/b"]
    assert {(each.mtime, each.uid, each.uname, each.mode) for each in members} == {
        (EPOCH, 0, "", 0o644)
    }
    with gzip.open(one) as file:
        file.read(1)
        assert file.mtime == EPOCH


def test_two_builds_that_differ_are_refused(tmp_path: Path) -> None:
    one, other = tmp_path / "one.whl", tmp_path / "other.whl"
    one.write_text("a")
    other.write_text("a")
    release.compare(one, other, "when it is built again")
    other.write_text("b")
    with pytest.raises(release.Failed, match="not the same when it is built again"):
        release.compare(one, other, "when it is built again")


def test_the_bill_of_materials_has_the_version_and_names_no_file_of_the_machine() -> None:
    bill = {"metadata": {"component": {"name": "vivace"}}, "components": []}
    assert release.finished(bill, "1.2.3")["metadata"]["component"]["version"] == "1.2.3"
    with pytest.raises(release.Failed, match="file of this machine"):
        release.finished(bill | {"components": [{"url": "file:///home/ada/x.whl"}]}, "1.2.3")


def test_the_changelog_has_this_version_after_what_is_not_released() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    first, second, *_ = re.findall(r"^## \[(.+?)\](.*)$", text, re.MULTILINE)
    assert first == ("Unreleased", "")
    assert second[0] == vivace.__version__
    assert re.fullmatch(r" - (not yet released|\d{4}-\d{2}-\d{2})", second[1])


# -- the lock -------------------------------------------------------------------------------------


def locked() -> dict[str, str]:
    text = release.LOCK.read_text("utf-8")
    return dict(re.findall(r"^([\w.-]+)==([\w.+-]+)", text, re.MULTILINE))


def needed() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return [*project["dependencies"], *project["optional-dependencies"]["llamacpp"]]


@pytest.mark.parametrize("requirement", needed())
def test_the_lock_has_what_the_server_needs(requirement: str) -> None:
    """Otherwise: scripts/release --lock."""
    asked = re.match(r"([\w.-]+)>=([\w.]+)", requirement)
    assert asked, requirement

    def number(version: str) -> list[int]:
        return [int(part) for part in version.split(".")]

    assert number(locked()[asked[1]]) >= number(asked[2])


def test_everything_in_the_lock_has_a_hash_and_nothing_an_address() -> None:
    text = release.LOCK.read_text("utf-8")
    entries = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    assert len(entries) == len(locked())
    assert [entry for entry in entries if "--hash=sha256:" not in entry] == []
    assert "://" not in text
