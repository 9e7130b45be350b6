"""What the measurements of the language server share: a gateway, and who types before it."""

from __future__ import annotations

import contextlib
import random
import re
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench import _files
from bench._edit_engine import serving
from bench._editor import Buffer, Editor
from bench._server import served

MODEL = "qwen2.5-coder-0.5b"
NEW_LINE = "    area ="
"""What is begun at a place; a space behind it is worth asking for what follows."""
SUGGESTION = "value * offset + total"
ANSWER = f" {SUGGESTION}\n\nx"
"""What is shown of it is whole with its last token."""
GO_ON = "Go on."
"""Where this is found, the answer is long, and all on one line."""

_SCRIPT = f"""
[[replies]]
when = "{GO_ON}"
then = [{{ do = "say", text = " word", times = 100000 }}]
[[replies]]
then = [{{ do = "say", text = '''{ANSWER}''' }}]
"""
_SCRIPTED = f"""
version = 1
[server]
port = {{port}}
[store]
path = ":memory:"
[[engines]]
name = "scripted"
kind = "scripted"
model = "{MODEL}"
script = "script.toml"
context = 32768
"""
_LLAMACPP = f"""
version = 1
[server]
port = {{{{port}}}}
[store]
path = ":memory:"
[[engines]]
name = "llama.cpp"
kind = "llamacpp"
model = "{MODEL}"
path = "{{path}}"
context = 4096
slots = {{slots}}
batch_size = {{batch}}
"""
_FUNCTION = '''\
def scale_{n}(value: float, offset: int) -> float:
    """Scale a value by {n}, and move it."""
    total = value * {n}
    if total > offset:
        total -= offset
    return total + offset


'''
_LAST = "        total -= offset\n"


def long_file(lines: int, first: int = 0) -> str:
    """Functions that are numbered from ``first`` on."""
    count = -(-lines // _FUNCTION.count("\n"))
    return "".join(_FUNCTION.format(n=first + number) for number in range(count))


def place_in(text: str, dice: random.Random) -> int:
    """Where a line may be begun, in a function anywhere in the text."""
    at = text.find(_LAST, dice.randrange(len(text)))
    return (at if at >= 0 else text.index(_LAST)) + len(_LAST)


def begin_line(buffer: Buffer, dice: random.Random) -> int:
    """Somewhere; returns where the next key goes."""
    at = place_in(buffer.text, dice)
    buffer.replace(at, at, f"{NEW_LINE}\n")
    return at + len(NEW_LINE)


class Gateway:
    def __init__(self, port: int, folder: Path, pid: int = 0) -> None:
        self.port = port
        self.pid = pid
        """Of its process, where somebody needs that."""
        self.folder = folder
        """For the files that are open in editors."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def editor(self, **settings: Any) -> contextlib.AbstractAsyncContextManager[Editor]:
        return Editor.started(self.folder, self.url, **settings)

    def turns(self) -> int:
        """That were begun, whether they have ended or not."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics") as answer:
            figures = answer.read().decode()
        found = re.findall(r"^vivace_turns_(?:running|total)\{.*\} (\S+)", figures, re.MULTILINE)
        return sum(int(float(each)) for each in found)


@contextlib.contextmanager
def _gateway(config: str) -> Iterator[Gateway]:
    with (
        tempfile.TemporaryDirectory() as folder,
        served(config, script_toml=_SCRIPT) as (port, process),
    ):
        yield Gateway(port, Path(folder), process.pid)


def scripted(**capacity: float) -> contextlib.AbstractContextManager[Gateway]:
    """Before an engine that plays prepared answers; it reads in no time, unless told otherwise."""
    given = "".join(f"{name} = {value}\n" for name, value in capacity.items())
    return _gateway(_SCRIPTED + given)


def llamacpp(*, slots: int, batch: int = 512) -> contextlib.AbstractContextManager[Gateway]:
    return _gateway(_LLAMACPP.format(path=_files.model(MODEL), slots=slots, batch=batch))


@contextlib.contextmanager
def vllm() -> Iterator[Gateway]:
    with tempfile.TemporaryDirectory() as folder, serving("vllm", MODEL) as endpoint:
        yield Gateway(int(endpoint.url.rpartition(":")[2]), Path(folder))
