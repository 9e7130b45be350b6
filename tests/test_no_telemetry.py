"""Nothing is told to anybody: what can reach the network is a short list, and the only address
that comes with Vivace is that of the hub, from which a person has a model downloaded."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import vivace
from tests.support.hub import CleanHome

ROOT = Path(vivace.__file__).parent
SPEAKS = {
    "vivace.cli.top": "asks the server it is shown",
    "vivace.cli.up": "asks whether its port is free",
    "vivace.client.connection": "the server of --url, VIVACE_URL or this machine",
    "vivace.client.dialling": "the same",
    "vivace.client.endpoint": "the same",
    "vivace.client.fleet": "the same",
    "vivace.client.get": "the same",
    "vivace.client.lane_socket": "the same",
    "vivace.client.models": "the same",
    "vivace.client.server_version": "the same",
    "vivace.counters.bell": "the Valkey of fleet.valkey in vivace.toml",
    "vivace.counters.line": "the same",
    "vivace.download.transfer": "the hub, when a model is asked for",
    "vivace.download.web": "the same",
    "vivace.engines.link_socket": "between gateways and the engine nodes of fleet.engines",
    "vivace.engines.llamacpp": "its own socket in a folder of its own",
    "vivace.engines.openai": "the engine's url in vivace.toml",
    "vivace.engines.remote": "engine nodes of fleet.engines in vivace.toml",
    "vivace.gateway.app": "listens",
    "vivace.gateway.fleet": "looks up the names of engine nodes",
    "vivace.gateway.wire_websocket": "answers",
    "vivace.inbound": "listens",
    "vivace.node.app": "answers",
    "vivace.node.door": "listens",
    "vivace.store.connections": "the PostgreSQL of store.url in vivace.toml",
    "vivace.store.migrating": "the same",
    "vivace.store.postgres": "the same",
    "vivace.store.postgres_health": "the same",
}
NETWORK = (
    *("aiohttp", "asyncpg", "ftplib", "http.client", "httpx", "httpx2", "imaplib", "poplib"),
    *("redis", "requests", "smtplib", "socket", "socketserver", "urllib.request", "urllib3"),
    *("webbrowser", "websockets", "xmlrpc"),
)
ADDRESS = re.compile(r"(?:https?|wss?)://((?:[a-z0-9-]+\.)+[a-z]{2,})")
SHOWN = ("cwe.mitre.org", "docs.oasis-open.org", "opencode.ai")
"""Addresses that stand in reports and settings, for people and schemas."""


def sources() -> dict[str, str]:
    return {
        ".".join(("vivace", *path.relative_to(ROOT).with_suffix("").parts)): path.read_text()
        for path in ROOT.rglob("*.py")
    }


def reaches_the_network(source: str) -> bool:
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {each.name for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    return any(name == one or name.startswith(f"{one}.") for name in names for one in NETWORK)


def test_only_these_modules_can_reach_the_network() -> None:
    found = {name for name, source in sources().items() if reaches_the_network(source)}
    assert found == set(SPEAKS)


def test_the_only_address_that_comes_with_it_is_the_hub_s() -> None:
    hosts = {
        host
        for source in sources().values()
        for host in re.findall(
            r"(?:https?|wss?)://([a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,})", source
        )
        if host not in SHOWN and not host.endswith("example.com")
    }
    assert hosts == {"huggingface.co"}


WATCHED = """
import sys
def watch(event, arguments):
    if event in ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname"):
        print("reached out:", event, arguments[1:], file=sys.stderr)
sys.addaudithook(watch)
from vivace.cli.main import main
main()
"""


def test_a_check_and_what_it_tells_of_itself_reach_out_to_nobody(tmp_path: Path) -> None:
    home = CleanHome(tmp_path, "http://127.0.0.1:9")
    (tmp_path / "a.py").write_text("import os\n\n\ndef f(name):\n    os.system(name)\n")
    for arguments in (["check"], ["stats"], ["--version"]):
        ran = subprocess.run(
            [sys.executable, "-c", WATCHED, *arguments],
            cwd=tmp_path,
            env=home.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.stdout
        assert "reached out" not in ran.stderr
        assert "Traceback" not in ran.stderr
