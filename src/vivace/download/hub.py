"""Where the model hub is, what its files are called, and whose token is sent there."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlsplit

__all__ = ["first_of", "hub_page", "hub_url", "is_hub", "listing_url", "parts_of", "token"]

_PART = re.compile(r"-(\d{5})-of-(\d{5})(?=\.gguf$)", re.IGNORECASE)


def hub_url(repo: str, file: str, revision: str = "main") -> str:
    return f"{_hub()}/{quote(repo)}/resolve/{quote(revision, safe='')}/{quote(file)}"


def listing_url(repo: str) -> str:
    """Where the hub says which files a repository has."""
    return f"{_hub()}/api/models/{quote(repo)}"


def hub_page(url: str) -> str:
    """Where a person reads about the repository of this file or listing."""
    page = url.partition("/resolve/")[0]
    return page.replace(f"{_hub()}/api/models/", f"{_hub()}/", 1)


def is_hub(url: str) -> bool:
    return _origin(url) == _origin(_hub())


def parts_of(file: str) -> tuple[str, ...]:
    """Every file that belongs to this one: models of many gigabytes are split."""
    found = _PART.search(file)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        return (file,)
    return tuple(
        _PART.sub(f"-{number:05d}-of-{found[2]}", file) for number in range(1, int(found[2]) + 1)
    )


def first_of(file: str) -> str:
    """The file to load: engines find the others beside it."""
    return parts_of(file)[0]


def token(environment: Mapping[str, str] = os.environ) -> str | None:
    """As the hub's own tools find it, so that who has logged in there needs nothing more."""
    given = environment.get("HF_TOKEN") or environment.get("HUGGING_FACE_HUB_TOKEN")
    if given is None:
        home = environment.get("HF_HOME")
        if not home:
            home = f"{environment.get('XDG_CACHE_HOME') or '~/.cache'}/huggingface"
        path = Path(environment.get("HF_TOKEN_PATH") or f"{home}/token").expanduser()
        try:
            given = path.read_text("utf-8")
        except (OSError, ValueError):
            return None
    # One line of printable characters, or it would not be a header.
    return given.strip() if re.fullmatch(r"\s*[!-~]+\s*", given) else None


def _hub() -> str:
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)
