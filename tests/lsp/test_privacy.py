"""What no model may read leaves the machine in no way, nor does it get into the log.

The real program, with all in its log that can be there, asks a server that keeps every byte. Each
file that must not be read has a word of its own, which is looked for in all of it.
"""

from __future__ import annotations

import asyncio
import subprocess
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.lsp.editor import Buffer, Editor, vivace
from tests.support.editing import LOADED, SHOP, code
from tests.support.plain_endpoint import PlainEndpoint, Refusal, sse

TOKEN = "ghp_" + "a1B2" * 9
KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl{word}\n"
CODE = "def f():\n    {word} = 1\n    return "

SECRETS = {
    # what git ignores, however it is told to
    "ignored": ("out.log", CODE),
    "ignored by a nested file": ("sub/local.py", CODE),
    "ignored by exclude": ("mine.py", CODE),
    "in an ignored folder": ("private/a.py", CODE),
    "cell of an ignored notebook": ("vscode-notebook-cell:{root}/private/n.ipynb#W0", CODE),
    "shown by git": ("git:{root}/main.py?HEAD", CODE),
    "git's own": (".git/config", "[remote]\n\turl = https://me:{word}@example.com\n\t"),
    # names for secrets
    "environment": (".env", "KEY={word}\nX="),
    "local environment": (".env.local", "KEY={word}\nX="),
    "environment in capitals": ("Prod.ENV", "KEY={word}\nX="),
    "backup of an environment": (".env~", "KEY={word}\nX="),
    "environment by an escaped name": ("file://{root}/%2Eenv.test", "KEY={word}\nX="),
    "untitled environment": ("untitled:.env", "KEY={word}\nX="),
    "key": ("server.pem", "{word}\n"),
    "SSH key": ("deploy/id_ed25519", "{word}\n"),
    "AWS": (".aws/credentials", "[default]\naws_secret_access_key = {word}\n"),
    "npm": (".npmrc", "_authToken={word}\n"),
    "PyPI": (".pypirc", "password: {word}\n"),
    "netrc": (".netrc", "login me password {word}\n"),
    "Kubernetes": (".kube/config", "token: {word}\n"),
    "keystore": ("release.jks", "\0\1{word}\0"),
    "Terraform": ("prod.tfvars", 'password = "{word}"\n'),
    "what was typed in a shell": (".bash_history", "curl -H 'X: {word}'\n"),
    # what holds a secret under a harmless name
    "token in code": ("client.py", f'TOKEN = "{TOKEN}"\n{{word}} = 1\nx = '),
    "token far from the cursor": ("long.py", f"{TOKEN}\n" + "x = 1\n" * 3000 + "{word} = "),
    "key in a text": ("notes.txt", KEY),
    "binary": ("data.bin", "\0\1{word}\0\nx = "),
    # links
    "link out of the workspace": ("link.py", CODE),
    "in a folder that is a link": ("way/other.py", CODE),
    "link to a secret": ("harmless.txt", "KEY={word}\n"),
}
"""The file or its URI, and its text."""

WORDS = {kind: f"marker{number:02}zqx" for number, kind in enumerate(SECRETS)}
SHOWN, PASTED, RULES = "shownzqx", "pastedzqx", "ruleszqx"
"""Words of a file that may be read, of what comes into one later, of rules that git ignores."""


def infilled(body: dict[str, Any]) -> list[bytes]:
    return sse({"content": "2", "stop": False}, {"content": "", "stop": True})


def responses(body: dict[str, Any]) -> list[bytes] | Refusal:
    if "fill" in body:
        return Refusal(400, {"error": {"code": 400, "message": "'input' is required"}})
    response = {"id": "r", "model": "m", "status": "completed"}
    return sse(
        {"type": "response.created", "response": response},
        {"type": "response.output_text.delta", "delta": code(LOADED[LOADED.index("def load") :])},
        {"type": "response.completed", "response": response},
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    outside = tmp_path / "outside"
    for folder in (root / "sub", root / "private", root / "deploy", outside):
        folder.mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    (root / ".gitignore").write_text("*.log\nprivate/\nAGENTS.md\n")
    (root / "sub" / ".gitignore").write_text("local.py\n")
    (root / ".git" / "info" / "exclude").write_text("mine.py\n")
    (root / "AGENTS.md").write_text(f"Mind {RULES}.\n")
    (root / "way").symlink_to(outside)
    (outside / "linked.py").write_text(CODE.format(word=WORDS["link out of the workspace"]))
    (root / "link.py").symlink_to(outside / "linked.py")
    (root / ".env").write_text("KEY=1\n")
    (root / "harmless.txt").symlink_to(".env")
    return root


class Desk:
    """Somebody who works in one file after the other, and is back in this one each time."""

    def __init__(self, editor: Editor, root: Path) -> None:
        self.editor = editor
        self.root = root
        self._lines = count()
        lines = "".join(f"value_{each} = 4\n" for each in range(len(SECRETS) + 9))
        self._main = editor.open(root / "main.py", lines)

    def open(self, name: str, text: str) -> Buffer:
        """A file that is on disk as it is in the editor, or a URI."""
        if ":" in name:
            return self.editor.open(name.format(root=self.root), text)
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            path.write_text(text)
        return self.editor.open(path, text)

    async def is_closed_to_models(self, buffer: Buffer, typed: str) -> None:
        for key in f" {typed}":
            buffer.type(key)
        assert await buffer.complete() is None, buffer.uri
        end = buffer.document.position(len(buffer.text))
        await self.editor.command("vivace.cursor", {"uri": buffer.uri, "position": end})
        ended = await self.editor.edit(buffer, "close the file")
        assert ended["status"] == "failed", buffer.uri
        assert await self.editor.offered(buffer, "never closed") == [], buffer.uri

    async def completes_beside(self) -> None:
        """Elsewhere than before, so that what else is open is looked at anew."""
        assert await self._main.complete(f"value_{next(self._lines)} = 4") is not None


def test_0_bytes_of_what_no_model_may_read_leave_the_machine_or_get_into_a_log(
    root: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    told: list[object] = []

    async def session(url: str) -> None:
        always = {"completion": {"timing": "always"}}
        async with vivace(root, url, verbose=True, options=always) as (editor, _):
            desk = Desk(editor, root)
            for kind, (name, text) in SECRETS.items():
                buffer = desk.open(name, text.replace("{word}", WORDS[kind]))
                await desk.is_closed_to_models(buffer, WORDS[kind])
                await desk.completes_beside()
            later = desk.open("later.py", "x = 4")
            assert await later.complete() is not None
            later.type(f"\n{PASTED} = '{TOKEN}'\n")
            await desk.is_closed_to_models(later, PASTED)
            await desk.completes_beside()
            shown = desk.open("shown.py", f"{SHOP}{SHOWN} = ")
            shown.type("4")
            assert await shown.complete() is not None
            await desk.completes_beside()
            assert (await editor.edit(shown, "close the file in load()"))["status"] == "applied"
            client = editor.client
            told.extend([client.log_messages, client.messages, editor.statuses, editor.shown])

    with PlainEndpoint({"/infill": infilled, "/v1/responses": responses}) as endpoint:
        asyncio.run(session(endpoint.url))
        heard = b"\n".join(endpoint.heard).decode()
    log = capfd.readouterr().err
    assert "DEBUG" in log
    words = {**WORDS, "pasted": PASTED, "ignored rules": RULES, "token": TOKEN}
    assert [kind for kind, word in words.items() if word in heard] == []
    assert [kind for kind, word in words.items() if word in log] == []
    assert [kind for kind, word in words.items() if word in repr(told)] == []
    # What may be read does arrive, in each of these ways, and even that is not in the log.
    fills = [body for path, body in endpoint.asked if path == "/infill"]
    assert any(SHOWN in body["input_prefix"] for body in fills)
    assert any(SHOWN in repr(body["input_extra"]) for body in fills)
    assert any("def load" in repr(body["input"]) for _, body in endpoint.asked if "input" in body)
    assert SHOWN not in log
