"""Requests to the hub: who is told the token, which redirects are followed, what went wrong."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.message import Message
from http.client import HTTPException, HTTPMessage, HTTPResponse
from typing import IO, cast
from urllib.parse import urlsplit

from vivace import __version__
from vivace.download.hub import hub_page, is_hub, token
from vivace.errors import DownloadError

__all__ = ["Refused", "Trouble", "check_redirect", "described", "host", "opened", "read"]

TIMEOUT_S = 30


class Trouble(Exception):
    """The network failed in a way that may pass."""


class Refused(Exception):
    """The server said no, and will again."""

    def __init__(self, message: str, code: int, headers: Message, hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.headers = headers
        self.hint = hint
        """What the person has to do; empty where the name or the address is to be checked."""


@contextmanager
def opened(url: str, start: int = 0) -> Iterator[HTTPResponse]:
    """The answer to a GET, from this byte on."""
    request = _request(url)
    if start:
        request.add_header("Range", f"bytes={start}-")
    with _sent(request, urllib.request.build_opener(_Redirects)) as answer:
        yield answer


def described(url: str) -> Message:
    """The headers of the answer to a HEAD, be it a redirect; none if the server knows no HEAD."""
    request = _request(url)
    request.method = "HEAD"
    try:
        with _sent(request, urllib.request.build_opener(_Stay)) as answer:
            return answer.headers
    except Refused as refused:
        if 300 <= refused.code < 400:
            return refused.headers
        if refused.code in (405, 501):  # it may still answer GET
            return Message()
        raise


def read(response: HTTPResponse, size: int) -> bytes:
    try:
        return response.read(size)
    except (OSError, HTTPException) as error:
        raise Trouble(f"the connection was cut: {_reason(error)}") from error


def check_redirect(old: str, new: str) -> None:
    if urlsplit(old).scheme == "https" != urlsplit(new).scheme:
        raise DownloadError(f"{old} redirects to an address that is not https; not followed.")


def host(url: str) -> str:
    return urlsplit(url).netloc


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows, but takes the token along only within the hub."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        check_redirect(req.full_url, newurl)
        request = super().redirect_request(req, fp, code, msg, headers, newurl)
        if request:
            _authorize(request)
        return request


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


@contextmanager
def _sent(
    request: urllib.request.Request, opener: urllib.request.OpenerDirector
) -> Iterator[HTTPResponse]:
    try:
        answer = cast("HTTPResponse", opener.open(request, timeout=TIMEOUT_S))
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(request.full_url, error) from error
    except (OSError, HTTPException) as error:
        reason = f"{host(request.full_url)} cannot be reached ({_reason(error)})"
        raise Trouble(reason) from error
    with answer:
        yield answer


def _request(url: str) -> urllib.request.Request:
    if urlsplit(url).scheme not in ("http", "https"):
        raise DownloadError(f"{url} is not an http(s) address. Is HF_ENDPOINT right?")
    request = urllib.request.Request(  # noqa: S310 - checked above
        url, headers={"User-Agent": f"vivace/{__version__}"}
    )
    _authorize(request)
    return request


def _authorize(request: urllib.request.Request) -> None:
    if is_hub(request.full_url) and (ours := token()):
        request.add_unredirected_header("Authorization", f"Bearer {ours}")


def _refusal(url: str, error: urllib.error.HTTPError) -> Trouble | Refused:
    answer = f"{host(url)} answered {error.code} {error.reason}".rstrip()
    if error.code in (408, 429) or (error.code >= 500 and error.code != 501):
        return Trouble(answer)
    closed = error.code in (401, 403) and is_hub(url)
    hint = _way_in(url, error.headers) if closed else ""
    return Refused(answer, error.code, error.headers, hint)


def _way_in(url: str, headers: Message) -> str:
    """What opens a repository that is not open to all."""
    if headers.get("X-Error-Code") == "GatedRepo":
        terms = f"It is for those who accept its terms: do so at {hub_page(url)}"
        if token():
            return f"{terms} as the person whose token is used here, and run again"
        return f"{terms}, set HF_TOKEN to a token of yours (or run hf auth login), and run again"
    if token():
        return "There is no such repository, or your token may not read it: give it that right"
    return (
        "There is no such repository, or it is not public: set HF_TOKEN to a token that may read it"
    )


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    return getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
