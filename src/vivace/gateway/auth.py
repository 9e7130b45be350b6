"""Who may speak to this server: bearer keys, and the web pages that were allowed."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable

from vivace.config import KeyConfig
from vivace.errors import Forbidden, Unauthorized

__all__ = ["LOCAL", "Keys", "check_origin"]

LOCAL = "local"
"""The owner of everything on a server without keys."""


class Keys:
    def __init__(self, keys: Iterable[KeyConfig]) -> None:
        self._owners = {key.sha256: key.name for key in keys}

    def owner_of(self, authorization: str | None) -> str:
        """The name of the key in an Authorization header; refuses an unknown one."""
        if not self._owners:
            return LOCAL
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not key:
            raise Unauthorized("Send your key in the header 'Authorization: Bearer KEY'.")
        given = hashlib.sha256(key.strip().encode()).hexdigest()
        for digest, owner in self._owners.items():
            if hmac.compare_digest(digest, given):
                return owner
        raise Unauthorized("This key is not known here; ask whoever runs this server.")


def check_origin(origin: str | None, allowed: Iterable[str]) -> None:
    """Refuse browsers showing a page nobody allowed; such a page could use a local server."""
    if origin is not None and origin not in allowed:
        raise Forbidden(
            f"Web pages from {origin} may not use this server. To allow them, add the origin to "
            "server.allowed_origins.",
            code="origin_not_allowed",
        )
