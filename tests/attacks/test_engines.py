"""What stands behind the gateway is reached through it alone, and its secrets are its own."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil
import pytest

from tests.support import llama_server
from tests.support.process import Serve

SECRETS = {"RENTED_KEY": "sk-of-a-rented-endpoint", "LLAMA_API_KEY": "of-a-llama-server"}


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[psutil.Process]]:
    """A gateway that knows secrets, with engines of several kinds; all the processes it is."""
    folder = tmp_path_factory.mktemp("engines")
    llama_server.put_into(folder)
    rented = {"name": "rented", "kind": "openai", "model": "m", "url": "http://127.0.0.1:9/v1"}
    engines = [
        {"name": "llama", "kind": "llamacpp", "model": "l", "path": "model.gguf"},
        {**rented, "key_env": "RENTED_KEY"},
    ]
    environment = {**SECRETS, "PATH": f"{folder}:{os.environ['PATH']}"}
    with Serve(folder, tables={"engines": engines}, environment=environment) as server:
        gateway = psutil.Process(server.process.pid)
        yield [gateway, *gateway.children(recursive=True)]


def test_nothing_listens_but_the_gateway_itself(family: list[psutil.Process]) -> None:
    gateway, *engines = family
    assert engines
    assert [each for process in engines for each in process.net_connections("inet")] == []
    listening = [each for each in gateway.net_connections("inet") if each.status == "LISTEN"]
    assert len(listening) == 1


def test_no_command_line_shows_a_secret(family: list[psutil.Process]) -> None:
    """Every user of a machine sees everybody's command lines."""
    lines = " ".join(" ".join(process.cmdline()) for process in family)
    assert "llama-server" in lines
    assert [secret for secret in SECRETS.values() if secret in lines] == []
