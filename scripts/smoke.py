"""What is installed, tried by the Python it is installed in: smoke.py VERSION, in an empty folder.

Needs nothing but Vivace, no checkout and no model.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("vivace")
START_S = 60

CONFIG = """version = 1
[server]
port = {port}
[store]
path = ":memory:"
[[engines]]
name = "scripted"
kind = "scripted"
model = "local-model"
script = "script.toml"
"""
SCRIPT = '[[replies]]\nthen = [{ do = "say", text = "All is well." }]\n'
SHOP = """import os


def total(prices):
    result = 0
    for price in prices:
        result += price
    return result


def clear(name):
    os.system("rm " + name)
"""
SKETCH = "def total(prices):\n    return sum(prices)\n"


def vivace(*arguments: str, status: int = 0) -> str:
    ran = subprocess.run(
        [PROGRAM, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if ran.returncode != status:
        words = " ".join(arguments)
        raise SystemExit(f"vivace {words}: status {ran.returncode}\n{ran.stdout}{ran.stderr}")
    return ran.stdout


def expect(holds: bool, what: str) -> None:
    if not holds:
        raise SystemExit(f"not so: {what}")


def is_what_is_installed() -> None:
    """Every module comes from this environment, whatever the machine has besides."""
    import vivace.cli.main  # noqa: F401

    site = Path(sysconfig.get_path("purelib")).resolve()
    loaded = [module for name, module in sys.modules.items() if name.split(".")[0] == "vivace"]
    places = [Path(module.__file__).resolve() for module in loaded if module.__file__]
    expect(all(place.is_relative_to(site) for place in places), f"{places} are in {site}")


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except (OSError, urllib.error.HTTPError):
        return False


def serves(port: int) -> None:
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen([PROGRAM, "serve"], stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + START_S
        while not answers(f"{url}/readyz"):
            expect(server.poll() is None and time.monotonic() < end, "vivace serve gets ready")
            time.sleep(0.1)
        said = vivace("ask", "--quiet", "--url", f"{url}/v1", "How are you?")
        expect(said.strip() == "All is well.", f"vivace ask answers, not {said!r}")
        edits(f"{url}/v1")
    finally:
        server.terminate()
        status = server.wait(30)
    expect(status == 0, f"vivace serve ends well, not with {status}")


def edits(url: str) -> None:
    Path("sketch.py").write_text(SKETCH)
    vivace("edit", "shop.py", "use sum", "--sketch", "sketch.py", "--yes", "--url", url)
    changed = Path("shop.py").read_text()
    expect("return sum(prices)" in changed and "os.system" in changed, "vivace edit changes it")
    vivace("undo")
    expect(Path("shop.py").read_text() == SHOP, "vivace undo takes it back")


def main(version: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    Path("vivace.toml").write_text(CONFIG.format(port=port))
    Path("script.toml").write_text(SCRIPT)
    Path("shop.py").write_text(SHOP)

    is_what_is_installed()
    told = vivace("--version")
    expect(told.strip() == f"vivace, version {version}", f"the version is {version}, not {told!r}")
    expect("is right" in vivace("config", "check"), "vivace config check likes its file")
    found = json.loads(vivace("check", "--format", "json", "shop.py", status=1))
    rules = {each["rule"] for each in found["findings"]}
    expect(rules == {"python-command-injection"}, f"vivace check finds one thing, not {rules}")
    serves(port)


if __name__ == "__main__":
    os.environ["PATH"] = os.defpath
    main(sys.argv[1])
