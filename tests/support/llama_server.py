"""A ``llama-server`` for PATH: healthy and no more, for what the program around it does."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["put_into"]

# What the engine asks of a server before it is ready, and nothing else; it ignores no signal. With
# a key in its environment it asks for that key, as the real one does.
_STAND_IN = """
import http.server, os, socketserver, sys

class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(401 if "LLAMA_API_KEY" in os.environ else 200)
        self.end_headers()

    def address_string(self):
        return "local"

    def log_message(self, *args):
        pass

socketserver.UnixStreamServer(sys.argv[sys.argv.index("--host") + 1], Health).serve_forever()
"""


def put_into(folder: Path, *, first: str = "") -> None:
    """``first`` is what it does before anything else."""
    program = folder / "llama-server"
    program.write_text(f"#!{sys.executable}\n{first}\n{_STAND_IN}")
    program.chmod(0o755)
