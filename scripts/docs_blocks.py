"""The blocks of code on a page, tried: shell and Python are run in the order of the page, in one
shell, and settings are read.

A page has a home and a small project of its own (``docs_stand_ins/project``) in a temporary folder,
and a real ``vivace serve`` whose engine plays prepared answers (``docs_stand_ins/replies.toml``).
What needs a model, a person or the network has a stand-in: ``docs_stand_ins`` says which and how.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from docs_pages import Block, blocks_of

__all__ = ["Trial", "marked_share", "script_of", "try_page", "unreadable"]

ROOT = Path(__file__).resolve().parents[1]
STAND_INS = ROOT / "scripts/docs_stand_ins"
RUN = ("sh", "python")
_SETTINGS = (
    *("version", "server", "limits", "store", "engines", "tiers", "keys", "models"),
    *("fleet", "node"),
)
_PAGE_SECONDS = 300
_MARK = "<failed at line>"
_PORT = "8765"
_BEGIN = f"""\
expected=0
stop() {{ printf '{_MARK}%s\\n' "$1"; exit 1; }}
failed() {{ if (($1 != expected)); then echo "ended with status $1"; stop "$2"; fi; }}
ended_as_expected() {{
  if (($1 != expected)); then echo "ended with status $1, not $expected"; stop "$2"; fi
  expected=0
}}
set -E -o pipefail
trap 'failed $? $LINENO' ERR
"""
"""Every command must end with 0, or with what the block before it says."""


@dataclass(frozen=True)
class Trial:
    """What became of a page."""

    page: str
    ran: int
    failure: str = ""


# -- what is only read ----------------------------------------------------------------------------


def unreadable(blocks: Iterable[Block]) -> Iterator[tuple[int, str]]:
    """Blocks of data that are none, each with its line and the reason."""
    for block in blocks:
        try:
            _read(block)
        except (ValueError, yaml.YAMLError) as error:
            yield block.line, f"is not {block.language}: {error}"


def _read(block: Block) -> None:
    if block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "yaml":
        yaml.safe_load(block.text)
    elif block.language == "json":
        whole = block.text.lstrip().startswith(("{", "["))
        json.loads(block.text if whole else "{" + block.text + "}")


def marked_share(blocks: Sequence[Block]) -> float:
    """Of those that could be run, how many are marked as not to be."""
    meant = [block for block in blocks if block.language in RUN]
    return sum(1 for block in meant if block.not_run) / max(1, len(meant))


# -- what is run ----------------------------------------------------------------------------------


def script_of(blocks: Iterable[Block]) -> tuple[str, dict[int, int]]:
    """One shell script of all blocks, and which of its lines stands on which line of the page."""
    lines = _BEGIN.splitlines()
    places: dict[int, int] = {}
    for block in blocks:
        if not (commands := _commands(block)):
            continue
        before, code, after = commands
        lines += before
        places[len(lines)] = block.line
        for offset, line in enumerate(code):
            lines.append(line)
            places[len(lines)] = block.line + offset
        lines += after
    return "\n".join(lines) + "\n", places


def _commands(block: Block) -> tuple[list[str], list[str], list[str]] | None:
    """Lines of ours, those of the page, and lines of ours."""
    code = block.text.splitlines()
    if block.not_run:
        return None
    if block.language == "sh":
        if not block.ends_with:
            return [], code, []
        return [f"expected={block.ends_with}"], code, ["ended_as_expected $? $LINENO"]
    if block.language == "python":
        return ["python3 - <<'END_OF_BLOCK'"], code, ["END_OF_BLOCK"]
    if block.language == "toml" and (name := _settings_file(block.text)):
        check = f"VIVACE_HOST=127.0.0.1 vivace config check -c {name}"
        added = _completion(block.text) if name != "vivace.toml" else []
        return [f"cat >{name} <<'END_OF_BLOCK'", *added], code, ["END_OF_BLOCK", check]
    return None


def _settings_file(text: str) -> str:
    """Where settings of ours are written to be checked; nowhere if they are somebody else's."""
    found = tomllib.loads(text)
    if not set(found) <= set(_SETTINGS):
        return ""
    return "vivace.toml" if "version" in found else "part.toml"


def _completion(text: str) -> list[str]:
    """What a part of the settings lacks to be a whole."""
    found = tomllib.loads(text)
    engine = '{name = "local", kind = "scripted", model = "MODEL"}'
    tiers = '[{name = "fast", engines = ["local"]}, {name = "deep", engines = ["local"]}]'
    lines = ["version = 1"]
    if "engines" not in found and "tiers" not in found:
        lines += [f"engines = [{engine}]", f"tiers = {tiers}"]
    return lines


def try_page(name: str, text: str) -> Trial:
    script, places = script_of(blocks_of(text))
    ran = sum(1 for each in blocks_of(text) if each.language in RUN and not each.not_run)
    if not places:
        return Trial(name, 0)
    with tempfile.TemporaryDirectory(prefix="vivace-docs-") as folder:
        port = _free_port()
        file, environment = _prepare(Path(folder), script.replace(_PORT, str(port)), port)
        server = [sys.executable, str(STAND_INS / "server.py")]
        subprocess.run([*server, f"{folder}/vivace.toml"], env=environment, check=True)
        try:
            status = _run(file, environment)
        finally:
            subprocess.run(server, env=environment, check=True)
        output = (Path(folder) / "output").read_text("utf-8", "replace")
        return Trial(name, ran, _told(name, output, status, places))


def _run(file: Path, environment: dict[str, str]) -> int | None:
    """Its status; none if it took too long."""
    with (file.parent / "output").open("wb") as output:
        shell = subprocess.Popen(
            ["bash", str(file)],
            cwd=file.parent / "shop",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        return shell.wait(_PAGE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(shell.pid, signal.SIGKILL)
        shell.wait()
        return None


def _told(name: str, output: str, status: int | None, places: dict[int, int]) -> str:
    if status == 0:
        return ""
    said, _, where = output.rpartition(_MARK)
    number = int(where) if said else 0
    line = max((line for each, line in places.items() if each <= number), default=0)
    why = "fails" if status is not None else f"takes more than {_PAGE_SECONDS} s"
    last = "\n".join(f"    {each}" for each in (said or output).splitlines()[-25:])
    return f"{name}:{line}: {why}\n{last}"


def _prepare(folder: Path, script: str, port: int) -> tuple[Path, dict[str, str]]:
    (folder / "home").mkdir()
    project = folder / "shop"
    project.mkdir()
    for source in (STAND_INS / "project").glob("*.txt"):
        shutil.copyfile(source, project / source.stem)
    for place in (folder, project):
        shutil.copyfile(STAND_INS / "vivace.toml", place / "vivace.toml")
    file = folder / "page.sh"
    file.write_text(script, "utf-8")
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    environment = kept | {
        "HOME": str(folder / "home"),
        "PATH": os.pathsep.join([str(STAND_INS), str(Path(sys.executable).parent), os.defpath]),
        "PYTHONPATH": str(ROOT / "src"),
        "VIVACE_URL": f"http://127.0.0.1:{port}/v1",
        "COLUMNS": "100",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # as fast as where only pytest is installed
        "DOCS_ROOT": str(ROOT),
        "DOCS_STAND_INS": str(STAND_INS),
        "DOCS_PYTHON": sys.executable,
        "DOCS_STATE": str(folder),
        "DOCS_PORT": str(port),
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": "user.name",
        "GIT_CONFIG_VALUE_0": "Ada",
        "GIT_CONFIG_KEY_1": "user.email",
        "GIT_CONFIG_VALUE_1": "ada@example.com",
    }
    _history(project, environment)
    return file, environment


def _history(project: Path, environment: dict[str, str]) -> None:
    """A branch with a change that is not committed."""

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=project, env=environment, check=True)

    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-q", "-m", "A shop")
    git("checkout", "-q", "-b", "faster")
    with (project / "shop.py").open("a", encoding="utf-8") as file:
        file.write("\n\ndef is_empty(cart):\n    return len(cart) == 0\n")


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
