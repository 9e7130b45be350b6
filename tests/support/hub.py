"""A model hub on loopback, with its redirects and headers, and a home that knows no other.

Point ``HF_ENDPOINT`` at ``Hub.url``. It can be told to break off, to spoil what it sends, to be
slow, to ask for a token, and to go away.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import NamedTuple
from urllib.parse import unquote

from tests.support.waiting import eventually

_PIECE = 1 << 20


class Held(NamedTuple):
    """A file of a repository."""

    path: Path
    sha256: str | None


class Sent(NamedTuple):
    """One transfer: where in the file it began, and how much went out."""

    file: str
    start: int
    size: int


class Hub:
    """``with Hub() as hub``: listens at ``hub.url`` until the block ends."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], Held] = {}
        self.gated: dict[str, str] = {}
        """Repositories for those who accepted their terms, and the token of one who did."""
        self.asked: list[str] = []
        """Method and path of every request."""
        self.sent: list[Sent] = []
        self.cuts: deque[int] = deque()
        """Each transfer takes one, and breaks off after that many bytes."""
        self.leaves_after_cut = False
        self.spoils: int | None = None
        """The byte of the file that is sent wrong."""
        self.pace = 0.0
        """Bytes per second of each transfer; 0 is as fast as it goes."""
        self.holds_after: int | None = None
        """Each transfer sends no more than these first bytes of a file until this is None again."""
        self._port = 0
        self._server: _Server | None = None

    def hold(
        self, repo: str, path: Path, *, sha256: str | None = None, name: str | None = None
    ) -> None:
        """Have this file in a repository; with a hash it is announced as the hub does."""
        self.files[repo, name or path.name] = Held(path, sha256)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def sends(self, start: int) -> bool:
        """Whether the piece that begins there may be sent yet."""
        return self.holds_after is None or start < self.holds_after

    @property
    def downloads(self) -> list[str]:
        """The transfers that were asked for."""
        return [line for line in self.asked if line.startswith("GET /elsewhere/")]

    def arrive(self) -> None:
        """Listen, at the same address as before if there was one."""
        self._server = _Server(self, self._port)
        self._port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def leave(self) -> None:
        """Answer nobody any more."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def __enter__(self) -> Hub:
        self.arrive()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, hub: Hub, port: int) -> None:
        self.hub = hub
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):  # the client may leave
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        hub, path = self.server.hub, unquote(self.path)
        hub.asked.append(f"{self.command} {path}")
        elsewhere = path.startswith("/elsewhere/")
        place = path.removeprefix("/elsewhere").removeprefix("/api/models").strip("/")
        repo, _, rest = place.partition("/resolve/")
        if not elsewhere and self._is_closed(repo):
            return
        if path.startswith("/api/models/"):
            self._describe(repo)
            return
        name = rest.partition("/")[2]
        held = hub.files.get((repo, name))
        if held is None:
            self.send_error(404)
        elif elsewhere:
            self._transfer(name, held)
        else:
            self._redirect(held)

    def _is_closed(self, repo: str) -> bool:
        """As the hub says it: who is nobody gets 401, and whose token is not enough 403."""
        needed, given = self.server.hub.gated.get(repo), self.headers.get("Authorization")
        if needed is None or given == f"Bearer {needed}":
            return False
        self._head(403 if given else 401, **{"X-Error-Code": "GatedRepo", "Content-Length": "0"})
        return True

    def _describe(self, repo: str) -> None:
        names = [name for owner, name in self.server.hub.files if owner == repo]
        if not names:
            self.send_error(404)
            return
        body = json.dumps({"id": repo, "siblings": [{"rfilename": name} for name in names]})
        self._head(200, **{"Content-Type": "application/json", "Content-Length": str(len(body))})
        self.wfile.write(body.encode())

    def _redirect(self, held: Held) -> None:
        """Large files lie elsewhere; the redirect itself says what they are."""
        headers = {"Location": f"/elsewhere{self.path}", "Content-Length": "0"}
        headers["X-Linked-Size"] = str(held.path.stat().st_size)
        if held.sha256 is not None:
            headers["X-Linked-Etag"] = f'"{held.sha256}"'
        self._head(302, **headers)

    def _transfer(self, name: str, held: Held) -> None:
        hub = self.server.hub
        total = held.path.stat().st_size
        asked = self.headers.get("Range")
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        headers = {"Content-Length": str(total - start)}
        if asked:
            headers["Content-Range"] = f"bytes {start}-{total - 1}/{total}"
        self._head(206 if asked else 200, **headers)
        if self.command == "HEAD":
            return
        cut = hub.cuts.popleft() if hub.cuts else None
        end = total if cut is None else min(total, start + cut)
        sent = 0
        try:
            for piece in self._pieces(held.path, start, end):
                self.wfile.write(piece)
                sent += len(piece)
        finally:
            hub.sent.append(Sent(name, start, sent))
        if cut is not None and hub.leaves_after_cut:
            hub.leave()

    def _pieces(self, path: Path, start: int, end: int) -> Iterator[bytes]:
        hub = self.server.hub
        with path.open("rb") as file:
            file.seek(start)
            while start < end:
                eventually(partial(hub.sends, start), 3600)
                piece = bytearray(file.read(min(_PIECE, end - start)))
                if hub.spoils is not None and start <= hub.spoils < start + len(piece):
                    piece[hub.spoils - start] ^= 0xFF
                if hub.pace:
                    time.sleep(len(piece) / hub.pace)
                yield bytes(piece)
                start += len(piece)

    def _head(self, status: int, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


class CleanHome:
    """A person who has never run Vivace: empty folders, and a hub to download from."""

    def __init__(self, folder: Path, hub_url: str) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        # Built from nothing, so that no proxy, key or setting of this machine plays a part.
        self.environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "HOME": str(folder),
            "XDG_CACHE_HOME": str(folder / ".cache"),
            "XDG_CONFIG_HOME": str(folder / ".config"),
            "XDG_DATA_HOME": str(folder / ".local/share"),
            "XDG_STATE_HOME": str(folder / ".local/state"),
            "VIVACE_CACHE": str(self.cache),
            "HF_ENDPOINT": hub_url,
        }

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "vivace.cli", *arguments]

    def clear(self) -> None:
        """Models are large, and test folders are kept for a while."""
        shutil.rmtree(self.cache, ignore_errors=True)
