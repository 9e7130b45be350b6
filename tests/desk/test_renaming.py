"""Renames by language servers: the same cases as without one, and none breaks."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from tests.edits.renaming.rename_cases import CASES, Case, output_of
from vivace.desk.asking import Made
from vivace.desk.person import Unattended
from vivace.desk.renaming import renamed_by_server
from vivace.desk.targets import Target
from vivace.syntax.languages import language_of
from vivace.workspace.document import read
from vivace.workspace.errors import Protected
from vivace.workspace.language_servers import server_for
from vivace.workspace.paths import Workspace

_OPEN = [case for case in CASES if case.outcome != "done"]


def _id(case: Case) -> str:
    return f"{case.main.rpartition('.')[2]}-{case.name}"


def rename(root: Path, case: Case) -> list[Made] | None:
    root.mkdir()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for name, text in case.files.items():
        (root / name).write_text(text)
    workspace = Workspace(root)
    target = Target(read(workspace.resolve(case.path)))
    return asyncio.run(renamed_by_server(workspace, target, case.ask, Unattended()))


# A server that renames every word it is shown, but in files whose name begins with "left".
_EVERYWHERE = """#!{python}
import json, re, sys
texts = {{}}
def edits(old, new, text):
    for row, line in enumerate(text.split("\\n")):
        for found in re.finditer(rf"\\b{{old}}\\b", line):
            units = [len(line[:at].encode("utf-16-le")) // 2 for at in found.span()]
            start, end = ({{"line": row, "character": at}} for at in units)
            yield {{"range": {{"start": start, "end": end}}, "newText": new}}
while True:
    length = 0
    while (line := sys.stdin.buffer.readline().strip()):
        length = int(line.split(b":")[1])
    if not length:
        sys.exit()
    got = json.loads(sys.stdin.buffer.read(length))
    method, params, result = got["method"], got["params"], None
    if method == "textDocument/didOpen":
        texts[params["textDocument"]["uri"]] = params["textDocument"]["text"]
    if method == "textDocument/rename":
        line = texts[params["textDocument"]["uri"]].split("\\n")[params["position"]["line"]]
        old = re.match(r"\\w+", line[params["position"]["character"]:])[0]
        result = {{"changes": {{
            uri: list(edits(old, params["newName"], text))
            for uri, text in texts.items() if "/left" not in uri
        }}}}
    if "id" in got:
        body = json.dumps({{"jsonrpc": "2.0", "id": got["id"], "result": result}}).encode()
        sys.stdout.buffer.write(b"Content-Length: %d\\r\\n\\r\\n" % len(body) + body)
        sys.stdout.buffer.flush()
"""


@pytest.fixture
def own_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    path = tmp_path / "bin" / "basedpyright-langserver"
    path.write_text(_EVERYWHERE.format(python=sys.executable))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}:{os.environ['PATH']}")


def two_files(user: str) -> Case:
    files = {
        "lib.py": "def load():\n    return 1\n",
        user: 'ä = "𝄞"; from lib import load; print(load(), "𝄞", load)\n',
    }
    return Case(name="", ask="rename load to read", files=files, outcome="", target="lib.py")


@pytest.mark.usefixtures("own_server")
def test_all_files_that_have_the_name_are_edited_at_once(tmp_path: Path) -> None:
    edits = rename(tmp_path / "work", two_files("main.py"))
    assert edits is not None
    assert {str(made.target.path): made.outcome.text for made in edits} == {
        "lib.py": "def read():\n    return 1\n",
        "main.py": 'ä = "𝄞"; from lib import read; print(read(), "𝄞", read)\n',
    }
    assert all(made.outcome.good for made in edits)
    assert {made.model for made in edits} == {"basedpyright"}


@pytest.mark.usefixtures("own_server")
def test_a_use_that_the_server_left_speaks_against_all_of_it(tmp_path: Path) -> None:
    edits = rename(tmp_path / "work", two_files("left.py"))
    assert edits is not None
    [finding] = edits[0].outcome.problems
    assert finding.code == "rename"
    assert "`load` in line 1 of left.py may be the same" in finding.person


@pytest.mark.usefixtures("own_server")
def test_a_protected_file_is_not_changed_by_a_rename_in_another(tmp_path: Path) -> None:
    with pytest.raises(Protected, match=r"sitecustomize\.py was refused"):
        rename(tmp_path / "work", two_files("sitecustomize.py"))


@pytest.mark.usefixtures("own_server")
def test_a_protected_file_that_stays_as_it_is_does_not_stop_a_rename(tmp_path: Path) -> None:
    case = two_files("main.py")
    files = {**case.files, "left-gdb.py": "# what load() needs\n"}
    edits = rename(tmp_path / "work", msgspec.structs.replace(case, files=files))
    assert edits is not None
    assert {str(made.target.path) for made in edits} == {"lib.py", "main.py"}


def test_a_server_is_not_started_for_what_the_scopes_prove(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vivace.desk.renaming.running", None)
    files = {"main.py": "def _f(x):\n    return x\n"}
    case = Case(name="", ask="rename x to y", files=files, outcome="done")
    assert rename(tmp_path / "work", case) is None


@pytest.mark.parametrize("case", _OPEN, ids=_id)
def test_what_a_server_renames_without_doubt_still_runs(case: Case, tmp_path: Path) -> None:
    language = language_of(case.path)
    edits = rename(tmp_path / "work", case)
    if language is None or server_for(language.name, tmp_path / "work") is None:
        pytest.skip(f"no language server for {case.path} is on the PATH")
    if not edits or not all(made.outcome.good for made in edits):
        assert case.server != "done"
        return
    files = dict(case.files) | {str(made.target.path): made.outcome.text for made in edits}
    before = output_of(case.files, case.main, tmp_path / "before")
    if before is None:
        pytest.skip(f"what {case.main} needs to run is not installed")
    assert output_of(files, case.main, tmp_path / "after") == before, files
