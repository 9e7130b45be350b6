"""In a throwaway copy, what is installed leads to the copy: with real editable installs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

import pytest

from tests.workspace.test_throwaway import git
from vivace.workspace.installed import environment_for
from vivace.workspace.throwaway import throwaway

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "shop"
version = "1"

[tool.setuptools]
{packages}
"""
AUTOMATIC = "packages.find.where = ['{}']"
RENAMED = "packages = ['shop']\npackage-dir = {{ shop = '{}' }}"
WAYS = [
    pytest.param("src/shop", AUTOMATIC.format("src"), "lenient", id="a path"),
    pytest.param("shop", AUTOMATIC.format("."), "lenient", id="a finder"),
    pytest.param("shop", AUTOMATIC.format("."), "compat", id="a path to the root"),
    pytest.param("src/shop", AUTOMATIC.format("src"), "strict", id="a tree of links"),
    pytest.param("code", RENAMED.format("code"), "lenient", id="a finder of other names"),
    pytest.param("code", RENAMED.format("code"), "strict", id="links of other names"),
]
BUILD = """
import sys
from setuptools.build_meta import build_editable
print(build_editable(sys.argv[1], {"editable_mode": sys.argv[2]}))
"""
FIRST = """
import importlib.util, sys

class Finder:  # as meson-python's and scikit-build-core's
    def find_spec(self, name, path=None, target=None):
        files = {{"shop": "__init__.py", "shop.price": "price.py"}}
        if name in files:
            inner = ["{package}"] if name == "shop" else None
            return importlib.util.spec_from_file_location(
                name, f"{package}/{{files[name]}}", submodule_search_locations=inner
            )

sys.meta_path.insert(0, Finder())
"""
Install = Callable[[Path, str], str]


def run(command: Sequence[str], folder: Path, **environment: str) -> str:
    ran = subprocess.run(
        [*command],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


@pytest.fixture(scope="module")
def empty_venv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment that has pytest and nothing of ours."""
    folder = tmp_path_factory.mktemp("venv") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (packages(folder) / "others.pth").write_text(sysconfig.get_path("purelib"))
    return folder


def packages(venv: Path) -> Path:
    return next(venv.glob("lib/python*/site-packages"))


@pytest.fixture
def install(empty_venv: Path, tmp_path: Path) -> Install:
    """Install a project in editable form; returns the environment's Python."""
    # Not imported: it fails in a process that has looked for pip before, as vivace.extras does.
    if int(metadata.version("setuptools").partition(".")[0]) < 77:
        pytest.skip("needs setuptools 77 or newer")

    def into_venv(project: Path, mode: str) -> str:
        venv = project / ".venv"
        shutil.copytree(empty_venv, venv, symlinks=True)
        script = [sys.executable, "-c", BUILD, str(tmp_path), mode]
        wheel = run([*script], project).splitlines()[-1]
        with zipfile.ZipFile(tmp_path / wheel) as archive:
            archive.extractall(packages(venv))
        return str(venv / "bin" / "python")

    return into_venv


def project_at(root: Path, package: str, settings: str) -> Path:
    folder = root / package
    folder.mkdir(parents=True)
    (root / "pyproject.toml").write_text(PROJECT.format(packages=settings))
    (root / ".gitignore").write_text(".venv\n_built.py\nbuild\n*.egg-info\n__pycache__\n")
    (folder / "__init__.py").write_text("")
    (folder / "price.py").write_text("def price():\n    return 1\n")
    (folder / "_built.py").write_text("VERSION = '1.2.3'\n")  # as build systems leave it
    (root / "tests").mkdir()
    (root / "tests" / "test_price.py").write_text(
        "from shop.price import price\n\n\ndef test_it():\n    assert price() == 2\n"
    )
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")
    return folder


@pytest.mark.parametrize(("package", "settings", "mode"), WAYS)
def test_an_editable_install_is_imported_from_the_copy(
    root: Path, install: Install, package: str, settings: str, mode: str
) -> None:
    project_at(root, package, settings)
    python = install(root, mode)
    # Without the current folder on its path, as for an installed command.
    ask = [python, "-P", "-c", "from shop.price import price; print(price())"]
    built = [python, "-P", "-c", "from shop._built import VERSION; print(VERSION)"]
    with throwaway(root) as copy:
        (copy / package / "price.py").write_text("def price():\n    return 2\n")
        own = environment_for(root, copy, os.environ)
        assert run(ask, copy) == "1"  # what the mend is for
        assert run(ask, copy, **own) == "2"
        assert run(built, copy, **own) == "1.2.3"


@pytest.mark.parametrize("with_git", [True, False], ids=["git", "plain"])
def test_tests_pass_with_the_edit_alone(root: Path, install: Install, with_git: bool) -> None:
    project_at(root, "shop", AUTOMATIC.format("."))
    python = install(root, "lenient")
    if not with_git:
        shutil.rmtree(root / ".git")
    tests = [python, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    with throwaway(root) as copy:
        own = environment_for(root, copy, {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"})
        with pytest.raises(AssertionError):
            run(tests, copy, **own)
        (copy / "shop" / "price.py").write_text("def price():\n    return 2\n# edited\n")
        assert "1 passed" in run(tests, copy, **own)


def test_a_finder_that_goes_before_all_paths_is_redirected(root: Path, install: Install) -> None:
    package = project_at(root, "shop", AUTOMATIC.format("."))
    python = install(root, "lenient")
    site = packages(root / ".venv")
    for path in site.glob("__editable__*"):
        path.unlink()
    (site / "_rebuilding.py").write_text(FIRST.format(package=package))
    (site / "rebuilding.pth").write_text("import _rebuilding\n")
    ask = [python, "-P", "-c", "from shop.price import price; print(price())"]
    with throwaway(root) as copy:
        (copy / "shop" / "price.py").write_text("def price():\n    return 2\n")
        assert run(ask, copy) == "1"
        assert run(ask, copy, **environment_for(root, copy, os.environ)) == "2"


def test_a_namespace_is_imported_from_the_copy(root: Path, install: Install) -> None:
    settings = "packages = ['ours.shop']"
    package = project_at(root, "ours/shop", settings)
    python = install(root, "lenient")
    ask = [python, "-P", "-c", "from ours.shop.price import price; print(price())"]
    with throwaway(root) as copy:
        (copy / package.relative_to(root) / "price.py").write_text("def price():\n    return 2\n")
        own = environment_for(root, copy, os.environ)
        assert run(ask, copy) == "1"
        assert run(ask, copy, **own) == "2"


def test_another_sitecustomize_still_runs(root: Path, install: Install) -> None:
    project_at(root, "shop", AUTOMATIC.format("."))
    python = install(root, "lenient")
    theirs = packages(root / ".venv") / "sitecustomize.py"
    theirs.write_text("import sys\nsys.theirs = 'ran'\n")
    ask = [python, "-P", "-c", "import sitecustomize, sys; print(sys.theirs)"]
    with throwaway(root) as copy:
        assert run(ask, copy, **environment_for(root, copy, os.environ)) == "ran"


def test_search_paths_lead_to_the_copy_where_it_has_something_of_its_own(root: Path) -> None:
    (root / "bin").mkdir()
    (root / "bin" / "tool").write_text("")
    (root / ".gitignore").write_text(".venv\nsecret\n")
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / "secret").write_text("")
    git(root, "init", "-q")
    before = {
        "PATH": f"{root}/bin:{root}/.venv/bin:/usr/bin:relative:",
        "PYTHONPATH": f"{root}/bin",
        "SECRET": f"{root}/secret",
        "WORDS": f"see {root}/bin",
    }
    with throwaway(root) as copy:
        after = environment_for(root, copy, before)
    assert after["PATH"] == f"{copy}/bin:{root}/.venv/bin:/usr/bin:relative:"
    assert after["PYTHONPATH"].endswith(f"/redirect:{copy}/bin")
    assert after["SECRET"] == before["SECRET"]
    assert after["WORDS"] == before["WORDS"]


def test_a_workspace_of_node_is_the_copys_and_other_packages_are_linked(root: Path) -> None:
    for package in ("lib", "app"):
        (root / "packages" / package).mkdir(parents=True)
        (root / "packages" / package / "index.js").write_text(f"// {package}\n")
    modules = root / "node_modules"
    (modules / "left-pad").mkdir(parents=True)
    (modules / "left-pad" / "cli.js").write_text("")
    (modules / "@ours").mkdir()
    (modules / "@ours" / "lib").symlink_to("../../packages/lib")
    (modules / ".bin").mkdir()
    (modules / ".bin" / "pad").symlink_to("../left-pad/cli.js")
    (modules / ".bin" / "app").symlink_to(root / "packages" / "app" / "index.js")
    nested = root / "packages" / "app" / "node_modules"
    nested.mkdir()
    (nested / "lib").symlink_to("../../lib")
    (root / ".gitignore").write_text("node_modules\n")
    git(root, "init", "-q")
    with throwaway(root) as copy:
        packages_of_copy = Path(os.path.realpath(copy)) / "packages"

        def real(path: str) -> Path:
            return Path(os.path.realpath(copy / path))

        assert real("node_modules/@ours/lib") == packages_of_copy / "lib"
        assert real("node_modules/.bin/app") == packages_of_copy / "app" / "index.js"
        assert real("packages/app/node_modules/lib") == packages_of_copy / "lib"
        assert real("node_modules/left-pad") == modules / "left-pad"
        assert real("node_modules/.bin/pad") == modules / "left-pad" / "cli.js"
    assert (modules / "left-pad" / "cli.js").exists()
    assert (root / "packages" / "lib" / "index.js").exists()
