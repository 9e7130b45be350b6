"""A real Neovim without a screen, typed into over its own protocol."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pynvim

from tests.support.files import ROOT
from tests.support.waiting import PATIENCE_S, eventually


def installed(suite: str) -> Path | None:
    script = ROOT / "scripts/install-neovim"
    ran = subprocess.run([script, "--path", suite], capture_output=True, text=True, check=True)
    folder = Path(ran.stdout.strip())
    return folder / "nvim" if (folder / ".ready").exists() else None


class Neovim:
    """One that runs, and can be typed into."""

    def __init__(self, program: Path, folder: Path, text: str, server: Sequence[str]) -> None:
        self._socket = folder / "socket"
        self._nvim: Any = None
        self.file = folder / "code.py"
        self.file.write_text(text)
        init = folder / "init.lua"
        init.write_text(
            f"vim.opt.runtimepath:prepend({json.dumps(str(ROOT / 'editors/neovim'))})\n"
            "vim.cmd('filetype on')\n"
            "vim.o.swapfile = false\n"
            "vim.o.autoindent = false\n"
            f"require('vivace').setup({_lua({'cmd': server})})\n"
        )
        self._process = subprocess.Popen(
            [program, "--headless", "--listen", self._socket, "-u", init, self.file],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            eventually(self._attached)
            eventually(lambda: self.lua("#vim.lsp.get_clients({ bufnr = 0 })") == 1)
            eventually(lambda: self.lua("vim.lsp.get_clients()[1].initialized") is True)
        except BaseException:
            self.close()
            raise

    def _attached(self) -> bool:
        """The socket's file is there before anybody listens."""
        with contextlib.suppress(OSError):
            self._nvim = pynvim.attach("socket", path=str(self._socket))
        return self._nvim is not None

    def keys(self, keys: str) -> None:
        self._nvim.input(keys)

    def lua(self, expression: str) -> Any:
        return self._nvim.exec_lua(f"return {expression}")

    @property
    def text(self) -> str:
        lines: list[str] = self.lua("vim.api.nvim_buf_get_lines(0, 0, -1, false)")
        return "\n".join(lines)

    @property
    def ghost(self) -> str:
        """All that is drawn and is not in the text, but for what diagnostics say."""
        marks = self.lua("vim.api.nvim_buf_get_extmarks(0, -1, 0, -1, { details = true })")
        spaces = self.lua("vim.api.nvim_get_namespaces()")
        said = {number for name, number in spaces.items() if "diagnostic" in name}
        lines = [
            "".join(piece[0] for piece in line)
            for *_, mark in marks
            if mark["ns_id"] not in said
            for line in [*filter(None, [mark.get("virt_text")]), *mark.get("virt_lines", [])]
        ]
        return "\n".join(lines)

    @property
    def waits(self) -> bool:
        """Whether a request to the language server has no answer yet."""
        states: list[str] = self.lua(
            "vim.tbl_map(function(each) return each.type end,"
            " vim.tbl_values(vim.lsp.get_clients()[1].requests))"
        )
        return "pending" in states

    def tell_changes(self) -> None:
        """Have the language server know the text as it is, which Neovim tells it a moment later."""
        start = "{ line = 0, character = 0 }"
        asked = (
            "{ textDocument = { uri = vim.uri_from_bufnr(0) }, context = { diagnostics = {} },"
            f" range = {{ start = {start}, ['end'] = {start} }} }}"
        )
        limit = int(1000 * PATIENCE_S)
        method = "textDocument/codeAction"
        buffer = "vim.api.nvim_get_current_buf()"
        assert self.lua(f"vim.lsp.buf_request_sync({buffer}, '{method}', {asked}, {limit}) ~= nil")

    def close(self) -> None:
        if self._nvim is not None:
            self._nvim.close()
        self._process.terminate()
        self._process.wait(PATIENCE_S)


def _lua(value: object) -> str:
    return f"vim.json.decode({json.dumps(json.dumps(value))})"
