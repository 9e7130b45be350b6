"""Other programs that look for vulnerabilities, if they are installed: what they find in a folder.

None of them is one of our dependencies, and none is installed by us. Programs are looked for on the
PATH; ESLint's packages and semgrep's rules are not programs, so their folders are named.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bench.finding_sets import Language

__all__ = ["Bandit", "Eslint", "Reported", "Semgrep", "Tool", "missing"]

_SCRIPTS: tuple[Language, ...] = ("javascript", "typescript")
_ESLINT_SETTINGS = """\
import security from "{folder}/node_modules/eslint-plugin-security/index.js";
import typescript from "{folder}/node_modules/typescript-eslint/dist/index.js";
const all = Object.fromEntries(
  Object.keys(security.rules).map((name) => [`security/${{name}}`, "warn"]));
export default [
  {{ files: ["**/*.js"], plugins: {{ security }}, rules: all,
     languageOptions: {{ parserOptions: {{ ecmaFeatures: {{ jsx: true }} }} }} }},
  {{ files: ["**/*.ts"], plugins: {{ security }}, rules: all,
     languageOptions: {{ parser: typescript.parser }} }},
];
"""


@dataclass(frozen=True)
class Reported:
    """A finding of whatever program."""

    path: str
    """From the folder it was given."""
    first: int
    """Counted from 1."""
    last: int
    cwes: frozenset[int] = field(default_factory=frozenset)
    """Empty where it does not tell."""


class Tool(Protocol):
    """A program with its rules."""

    @property
    def name(self) -> str: ...
    @property
    def languages(self) -> tuple[Language, ...]: ...
    def lacks(self) -> str | None:
        """What is missing to run it."""

    def version(self) -> str: ...
    def found(self, folder: Path) -> Iterator[Reported]: ...


def missing(program: str) -> str | None:
    return None if shutil.which(program) else f"{program} is not on the PATH"


def _output(*command: str, cwd: Path | None = None) -> str:
    ran = subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)
    if not ran.stdout.strip():
        raise RuntimeError(f"{command[0]} says nothing: {ran.stderr[-500:]}")
    return ran.stdout


def _below(path: str, folder: Path) -> str:
    return str(Path(path).resolve().relative_to(folder.resolve()))


@dataclass(frozen=True)
class Bandit:
    name: str = "bandit"
    languages: tuple[Language, ...] = ("python",)

    def lacks(self) -> str | None:
        return missing("bandit")

    def version(self) -> str:
        return _output("bandit", "--version").split()[1]

    def found(self, folder: Path) -> Iterator[Reported]:
        said = json.loads(_output("bandit", "-q", "-r", "-f", "json", str(folder)))
        for each in said["results"]:
            rows = each["line_range"] or [each["line_number"]]
            cwe = each.get("issue_cwe", {}).get("id")
            cwes = frozenset([int(cwe)] if cwe else [])
            yield Reported(_below(each["filename"], folder), min(rows), max(rows), cwes)


@dataclass(frozen=True)
class Eslint:
    packages: str
    """A folder in whose ``node_modules`` eslint, eslint-plugin-security and typescript-eslint
    are."""
    name: str = "eslint-plugin-security"
    languages: tuple[Language, ...] = _SCRIPTS

    @property
    def _modules(self) -> Path:
        return Path(self.packages).resolve() / "node_modules"

    def lacks(self) -> str | None:
        if not self.packages or not (self._modules / "eslint-plugin-security").is_dir():
            return "--eslint names no folder with eslint-plugin-security in its node_modules"
        return missing("node")

    def version(self) -> str:
        told = json.loads((self._modules / "eslint-plugin-security/package.json").read_text())
        return str(told["version"])

    def found(self, folder: Path) -> Iterator[Reported]:
        settings = folder / "eslint.config.mjs"
        settings.write_text(_ESLINT_SETTINGS.format(folder=self._modules.parent))
        program = str(self._modules / "eslint/bin/eslint.js")
        try:
            said = json.loads(_output("node", program, "-f", "json", ".", cwd=folder))
        finally:
            settings.unlink()
        for file in said:
            for each in file["messages"]:
                if each.get("ruleId"):
                    last = each.get("endLine") or each["line"]
                    yield Reported(_below(file["filePath"], folder), each["line"], last)


@dataclass(frozen=True)
class Semgrep:
    rules: str
    """A copy of its public rules, of which those about security count."""
    name: str = "semgrep"
    languages: tuple[Language, ...] = (
        *("python", "javascript", "typescript", "c", "cpp", "go", "rust", "java"),
    )

    def lacks(self) -> str | None:
        if not self.rules or not Path(self.rules).is_dir():
            return "--semgrep-rules names no folder of rules; without, it asks a server for them"
        return missing("semgrep")

    def version(self) -> str:
        return _output("semgrep", "--version").strip()

    def found(self, folder: Path) -> Iterator[Reported]:
        names = ("python", "javascript", "typescript", "c", "go", "rust", "java")
        configs = [f"--config={Path(self.rules) / name}" for name in names]
        options = ("--json", "--quiet", "--metrics=off", "--disable-version-check")
        said = json.loads(
            _output("semgrep", "scan", *options, "--no-git-ignore", *configs, str(folder))
        )
        for each in said["results"]:
            about = each["extra"].get("metadata", {})
            if about.get("category") == "security":
                first, last = each["start"]["line"], each["end"]["line"]
                yield Reported(_below(each["path"], folder), first, last, frozenset(_cwes(about)))


def _cwes(about: dict[str, Any]) -> Iterator[int]:
    told = about.get("cwe", [])
    for each in [told] if isinstance(told, str) else told:
        digits = str(each).upper().removeprefix("CWE-").partition(":")[0].strip()
        if digits.isdecimal():
            yield int(digits)
