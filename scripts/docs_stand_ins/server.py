"""``vivace serve`` for pages that are tried: the configuration as it is, its engines scripted.

    python3 server.py [CONFIG]

Takes the place of the server that ran before, and returns when it is ready; without CONFIG it only
ends that one.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PATIENCE_S = 60


def stand_in(engine: dict[str, Any]) -> dict[str, Any]:
    same = ("name", "model", "context", "slots", "reserved")
    kept = {name: engine[name] for name in same if name in engine}
    return kept | {"kind": "scripted", "script": str(HERE / "replies.toml")}


def toml(value: Any) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(k)} = {toml(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def scripted(text: str) -> str:
    config = tomllib.loads(text)
    config["engines"] = [stand_in(engine) for engine in config["engines"]]
    return "".join(f"{name} = {toml(value)}\n" for name, value in config.items())


def answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5)
    except OSError:
        return False
    return True


def stop(state: Path, port: int) -> None:
    noted = state / "server.pid"
    if not noted.exists():
        return
    os.kill(int(noted.read_text()), signal.SIGTERM)
    noted.unlink()
    while answers(port):
        time.sleep(0.05)


def start(config: Path, state: Path, port: int) -> None:
    beside = config.with_name(".scripted.toml")  # where its keys are
    beside.write_text(scripted(config.read_text("utf-8")), "utf-8")
    where = {"VIVACE_HOST": "127.0.0.1", "VIVACE_PORT": str(port)}
    with (state / "server.log").open("ab") as log:
        command = [os.environ["DOCS_PYTHON"], "-m", "vivace.cli", "serve", "-c", str(beside)]
        server = subprocess.Popen(
            command, env=os.environ | where, stdout=log, stderr=log, start_new_session=True
        )
    (state / "server.pid").write_text(str(server.pid))
    deadline = time.monotonic() + PATIENCE_S
    while server.poll() is None and time.monotonic() < deadline:
        if answers(port):
            return
        time.sleep(0.1)
    sys.exit(f"The server did not start:\n{(state / 'server.log').read_text('utf-8')}")


if __name__ == "__main__":
    _state, _port = Path(os.environ["DOCS_STATE"]), int(os.environ["DOCS_PORT"])
    stop(_state, _port)
    if len(sys.argv) > 1:
        start(Path(sys.argv[1]).resolve(), _state, _port)
