"""Who may speak to this server: bearer keys, and the web pages that were allowed."""

from __future__ import annotations

import hashlib
import hmac
import logging
import time
from collections.abc import Iterable

from vivace.config import KeyConfig
from vivace.errors import ConfigError, Forbidden, Unauthorized
from vivace.keyring import Keyring

__all__ = ["LOCAL", "Keys", "check_origin"]

log = logging.getLogger("vivace.keys")

_LOOK_AGAIN = 1.0

LOCAL = "local"
"""The owner of everything on a server without keys."""


class Keys:
    """Keys of the configuration, and those of ``vivace keys``, which come and go meanwhile."""

    def __init__(self, keys: Iterable[KeyConfig], keyring: Keyring | None = None) -> None:
        self._configured = tuple(keys)
        self._keyring = keyring
        self._owners: dict[str, str] = {}
        self._looked = -_LOOK_AGAIN
        self._needed = False
        """Once there was a key, nobody comes in without one, even when the last is revoked."""
        self._read()

    def _read(self) -> None:
        made = self._keyring.entries() if self._keyring is not None else []
        self._owners = {key.sha256: key.name for key in (*self._configured, *made)}
        self._needed = self._needed or bool(self._owners) or self._has_file()

    def _has_file(self) -> bool:
        return self._keyring is not None and self._keyring.path.exists()

    def _look(self) -> None:
        """A revoked key is refused within a second, without a restart."""
        if self._keyring is None or time.monotonic() - self._looked < _LOOK_AGAIN:
            return
        self._looked = time.monotonic()
        try:
            if self._keyring.changed():
                self._read()
        except ConfigError as error:  # the keys we know stay until it is put right
            log.warning("%s", error)

    def knows(self, owner: str) -> bool:
        """Whether an owner that came in may still speak."""
        self._look()
        return not self._needed or owner in self._owners.values()

    def owner_of(self, authorization: str | None) -> str:
        """The name of the key in an Authorization header; refuses an unknown one."""
        self._look()
        if not self._needed:
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
