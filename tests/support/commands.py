"""``vivace`` commands inside the test's own process, for what needs no terminal and no signal.

A process of Python takes half a second to begin; a command takes some milliseconds.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import IO, Any, cast
from unittest import mock

from click.testing import CliRunner

from vivace.cli.main import main

__all__ = ["run_command"]


def run_command(
    *arguments: str, folder: Path, environment: Mapping[str, str], piped: str | bytes = ""
) -> CompletedProcess[str]:
    """Run it in ``folder``, as a process would with this environment and no other variable."""
    with (
        contextlib.chdir(folder),
        mock.patch.dict(os.environ, environment, clear=True),
        mock.patch.object(sys, "argv", ["vivace", *arguments]),
        _same_logging(),
        # The runner's own way to call a command would leave out how main() tells of errors.
        CliRunner().isolation(cast("IO[Any]", _stdin(piped))) as (out, errors, _),
    ):
        status = 0
        try:
            main()
        except SystemExit as end:
            status = _status(end)
        sys.stdout.flush()
        sys.stderr.flush()
        told, complained = out.getvalue(), errors.getvalue()
    return CompletedProcess(list(arguments), status, _text(told), _text(complained))


def _stdin(piped: str | bytes) -> io.BytesIO:
    return io.BytesIO(piped.encode() if isinstance(piped, str) else piped)


def _text(data: bytes) -> str:
    """As ``subprocess`` reads it with ``text=True``."""
    return data.decode().replace("\r\n", "\n").replace("\r", "\n")


def _status(end: SystemExit) -> int:
    if isinstance(end.code, str):
        sys.stderr.write(f"{end.code}\n")
        return 1
    return end.code or 0


@contextlib.contextmanager
def _same_logging() -> Iterator[None]:
    """Let a command set up logging as in a process of its own, and take all of it back."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    hooks = sys.excepthook, threading.excepthook, sys.unraisablehook
    root.handlers.clear()  # pytest's, with which basicConfig() would do nothing
    try:
        # What a gateway in another thread logs is nothing that the command says.
        with mock.patch.object(logging, "lastResort", logging.NullHandler()):
            yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        sys.excepthook, threading.excepthook, sys.unraisablehook = hooks
