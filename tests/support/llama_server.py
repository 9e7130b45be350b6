"""A played ``llama-server`` for PATH: healthy, and answers any chat with words at a steady pace."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["put_into"]

# What the engine asks of a server before it is ready, and a chat; it ignores no signal. With a key
# in its environment it asks for that key, as the real one does.
_STAND_IN = """
import http.server, json, os, socketserver, sys, time

if "--help" in sys.argv:
    print("--spec-type ngram-simple")
    sys.exit()

class Played(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(401 if "LLAMA_API_KEY" in os.environ else 200)
        self.end_headers()

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        words = asked.get("max_tokens", 10)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for _ in range(words):
            self.tell(choices=[{"index": 0, "delta": {"content": "word "}}])
            time.sleep(0.01)
        last = {"index": 0, "delta": {}, "finish_reason": "length"}
        usage = {"prompt_tokens": 10, "completion_tokens": words, "total_tokens": 10 + words}
        self.tell(choices=[last], usage=usage)
        self.wfile.write(b"data: [DONE]\\n\\n")

    def tell(self, **chunk):
        self.wfile.write(b"data: %s\\n\\n" % json.dumps(chunk).encode())
        self.wfile.flush()

    def address_string(self):
        return "local"

    def log_message(self, *args):
        pass

class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def handle_error(self, *about):
        pass  # the client may leave

Server(sys.argv[sys.argv.index("--host") + 1], Played).serve_forever()
"""


def put_into(folder: Path, *, first: str = "") -> None:
    """Write the program; ``first`` is what it runs before anything else."""
    program = folder / "llama-server"
    program.write_text(f"#!{sys.executable}\n{first}\n{_STAND_IN}")
    program.chmod(0o755)
