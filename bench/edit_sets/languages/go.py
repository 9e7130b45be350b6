"""Go: the program is a test file of the same package; only its own tests are run."""

from __future__ import annotations

import re

from bench.edit_sets.packages import cache
from bench.edit_sets.running import COMPILE_SECONDS, RUN_SECONDS, execute, tool
from bench.edit_sets.workspace import Workspace

__all__ = ["builds", "run"]

_PACKAGE = re.compile(r"^package\s+(\w+)", re.MULTILINE)


def builds(work: Workspace) -> str | None:
    _drop_tests(work)
    return _go(work, "build", "-o", "/dev/null", ".")


def run(work: Workspace, program: str) -> str | None:
    _drop_tests(work)
    named = _PACKAGE.search(work.text())
    if named is None:
        return "the file has no package clause"
    beside = work.file.with_name("edit_check_test.go")
    beside.write_text(f"package {named[1]}\n//line check:1\n{program}\n", "utf-8")
    binary = work.folder / "edit_check"
    failed = _go(work, "test", "-c", "-vet=off", "-o", str(binary), ".")
    beside.unlink()
    if failed:
        return failed
    command = [str(binary), "-test.run=^TestCheck"]
    return execute(command, work.folder, RUN_SECONDS, within=work.file.parent)


def _drop_tests(work: Workspace) -> None:
    """The package's own tests may need what is not here."""
    for test in work.file.parent.glob("*_test.go"):
        if test != work.file:
            test.unlink()


def _go(work: Workspace, *arguments: str) -> str | None:
    built = cache() / "go-build"
    built.mkdir(parents=True, exist_ok=True)
    above, found, _ = str(work.file.parent.relative_to(work.folder)).partition("/src/")
    environment = {
        "GOCACHE": str(built),
        "GOPROXY": "off",
        "GOTOOLCHAIN": "local",
        "GOFLAGS": "" if found else "-mod=mod",
        "GO111MODULE": "off" if found else "on",
        "GOPATH": str(work.folder / above) if found else str(work.folder / "gopath"),
        "CGO_ENABLED": "0",
    }
    command = [tool("go"), arguments[0], *work.build.flags, *arguments[1:]]
    return execute(command, work.folder, COMPILE_SECONDS, environment, work.file.parent)
