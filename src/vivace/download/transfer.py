"""One file from one server into its part file, over as many connections as it takes."""

from __future__ import annotations

import dataclasses
import re
import time
from http.client import HTTPResponse
from urllib.parse import urljoin

from vivace.download import web
from vivace.download.progress import Progress
from vivace.download.wanted import Wanted, check_space, gave_up, kept, stated
from vivace.errors import DownloadError

__all__ = ["completed", "download"]

CHUNK = 1 << 18
BARREN_TRIES = 3  # in a row; a try that brought bytes starts the count again
REDIRECTS = 5


def completed(wanted: Wanted) -> Wanted:
    """With the size and the hash that the server names, where they are not given."""
    if None not in (wanted.size, wanted.sha256):
        return wanted
    barren = 0
    while True:
        try:
            size, sha256 = _described(wanted)
        except web.Trouble as error:
            barren += 1
            if barren == BARREN_TRIES:
                raise gave_up(wanted, str(error)) from error
            time.sleep(barren)
        except web.Refused as error:
            raise _refused(wanted, error) from error
        else:
            return dataclasses.replace(
                wanted,
                size=size if wanted.size is None else wanted.size,
                sha256=wanted.sha256 or sha256,
            )


def download(wanted: Wanted, progress: Progress) -> None:
    """Append to the part file until it is as long as it should be."""
    wanted.part.touch()
    size = wanted.size
    most, barren = wanted.came, 0
    while size is None or wanted.came < size:
        try:
            size = _receive(wanted, size, progress)
            trouble = f"the connection to {web.host(wanted.url)} ended early"
        except web.Trouble as error:
            trouble = str(error)
        except web.Refused as error:
            if error.code != 416:
                raise _refused(wanted, error) from error
            wanted.part.unlink(missing_ok=True)  # the server's file ends before ours
            trouble = str(error)
        have = wanted.came
        if size is not None and have >= size:
            return
        most, barren = (have, 0) if have > most else (most, barren + 1)
        if barren == BARREN_TRIES:
            raise gave_up(wanted, trouble, kept(wanted))
        time.sleep(barren)


def _receive(wanted: Wanted, size: int | None, progress: Progress) -> int:
    """One connection: append to the part file until the server stops; return the whole size."""
    start = wanted.came
    with web.opened(wanted.url, start) as response:
        begins, total = _extent(response)
        if begins not in (0, start):
            wanted.part.unlink()
            raise web.Trouble(f"{web.host(wanted.url)} did not send what was asked for")
        if size is None and total is not None:
            check_space(wanted, total - begins)
        if None not in (size, total) and size != total:
            raise DownloadError(
                f"{wanted.name}: {wanted.url} has {stated(total)}, not {stated(size)}, so it is "
                f"another file. Check the connection, or {wanted.by_hand}."
            )
        size = size if total is None else total
        done = begins
        # A server without ranges sends the whole file again.
        with wanted.part.open("ab" if begins else "wb") as out:
            while (size is None or done <= size) and (data := web.read(response, CHUNK)):
                out.write(data)
                done += len(data)
                progress(done, size or 0)
    return done if size is None else size


def _extent(response: HTTPResponse) -> tuple[int, int | None]:
    """Where in the file the answer begins, and how long the file is."""
    begins, total = 0, None
    if response.status == 206:
        given = re.fullmatch(
            r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", "").strip()
        )
        if not given:
            raise web.Trouble("the server did not say which part of the file it sends")
        begins = int(given[1])
        total = int(given[2]) if given[2] != "*" else None
    if total is None and (length := _number(response.headers.get("Content-Length"))) is not None:
        total = begins + length
    return begins, total


def _described(wanted: Wanted) -> tuple[int | None, str | None]:
    """A model hub answers with a redirect whose own headers describe the file."""
    url = wanted.url
    for _ in range(REDIRECTS):
        headers = web.described(url)
        linked = headers.get("X-Linked-Etag", "").removeprefix("W/").strip('"').lower()
        sha256 = linked if re.fullmatch("[0-9a-f]{64}", linked) else None
        size = _number(headers.get("X-Linked-Size"))
        location = headers.get("Location")
        if size is not None or sha256 or not location:
            return size if location else size or _number(headers.get("Content-Length")), sha256
        web.check_redirect(url, target := urljoin(url, location))
        url = target
    raise DownloadError(f"{wanted.name}: {wanted.url} redirects in circles.")


def _refused(wanted: Wanted, refused: web.Refused) -> DownloadError:
    hint = refused.hint or "Check the name"
    return DownloadError(f"{wanted.name}: {refused} for {wanted.url}. {hint}, or {wanted.by_hand}.")


def _number(text: str | None) -> int | None:
    return int(text) if text and text.strip().isdecimal() else None
