"""Authentication: bearer keys, and the web pages and names that may speak to this server."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable

from vivace.addresses import host_name, is_loopback
from vivace.config import LOCAL, KeyConfig
from vivace.errors import ConfigError, Forbidden, Unauthorized
from vivace.gateway.keyring import Keyring, admitted

__all__ = ["Keys", "check_host", "check_origin"]

log = logging.getLogger("vivace.keys")


class Keys:
    """Keys of the configuration, and those of ``vivace keys``, which come and go meanwhile."""

    def __init__(self, keys: Iterable[KeyConfig], keyring: Keyring | None = None) -> None:
        self._configured = tuple(keys)
        self._keyring = keyring
        self._owners: dict[str, str] = {}
        """By the hash of each key; who needs none has none."""
        self._names: dict[str, str] = {}
        """Of each owner who may speak."""
        self._complaint = ""
        self.needed = False
        """Once there was a key, nobody comes in without one, even when the last is revoked."""
        self._read()

    def _read(self) -> None:
        made = self._keyring.entries() if self._keyring is not None else []
        keys, problems = admitted(self._configured, made)
        for problem in problems:
            log.warning("%s", problem)
        self.needed = self.needed or bool(keys) or self._has_file()
        self._owners = {key.sha256: key.owner for key in keys} if self.needed else {"": LOCAL}
        self._names = {key.owner: key.name for key in keys} if self.needed else {LOCAL: LOCAL}

    def _has_file(self) -> bool:
        return self._keyring is not None and self._keyring.path.exists()

    def look(self) -> dict[str, str]:
        """Take up a change of the file; returns the owners of what was taken back, and their names.

        One whose key is another now is among them: what the old key opened must end.
        """
        owners, names = self._owners, self._names
        try:
            if self._keyring is not None and self._keyring.changed():
                self._read()
            self._complaint = ""
        except ConfigError as error:  # the keys we know stay until it is put right
            if str(error) != self._complaint:
                log.warning("%s The keys known so far stay.", str(error))
            self._complaint = str(error)
        gone = () if self._owners is owners else owners.items() - self._owners.items()
        return {owner: names[owner] for _, owner in gone}

    def knows(self, owner: str) -> bool:
        """Whether an owner that came in may still speak."""
        return owner in self._names

    def owner_of(self, authorization: str | None, api_key: str | None = None) -> str:
        """Whose the key is in an Authorization header, or in the ``x-api-key`` of Anthropic's
        clients; refuses an unknown one.

        Such a client sends both when a person has set both, one of them for another server: so the
        first that is known counts.
        """
        if not self.needed:
            return LOCAL
        scheme, _, token = (authorization or "").partition(" ")
        given = [key for key in (token if scheme.lower() == "bearer" else "", api_key) if key]
        if not given:
            raise Unauthorized(
                "Send your key in the header 'Authorization: Bearer KEY' or 'x-api-key: KEY'."
            )
        for key in given:
            # Found by its hash, whose bytes nobody can choose: the time it takes tells nothing.
            owner = self._owners.get(hashlib.sha256(key.strip().encode()).hexdigest())
            if owner is not None:
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


def check_host(hosts: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse browsers that got here by a name which is not ours (DNS rebinding).

    Whoever owns a name can let it point to this machine. To a browser their page is then this
    server's own, so it sends no Origin, and the name in Host is all that tells. A request without
    Host, as HTTP/1.0 has them, comes from no browser.
    """
    for host in hosts:
        name = host_name(host)
        if name is None or not (is_loopback(name) or name in allowed):
            raise Forbidden(
                f"This server is not known by the name in the Host header, {host!r}. Use localhost "
                "or 127.0.0.1, or if it is to be reached by that name, add it to "
                "server.allowed_hosts.",
                code="host_not_allowed",
            )
