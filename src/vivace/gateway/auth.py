"""Authentication: bearer keys, and the web pages and names that may speak to this server."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable

from vivace.addresses import host_name, is_loopback
from vivace.config import LOCAL, KeyConfig
from vivace.errors import ConfigError, Forbidden, StoreAway, StoreError, Unauthorized
from vivace.gateway.keyring import Keyring, Made, admitted

__all__ = ["Keys", "check_host", "check_origin"]

log = logging.getLogger("vivace.keys")

_STAY = "The keys known so far stay."


class Keys:
    """Keys of the configuration, and those of ``vivace keys``, which come and go meanwhile."""

    def __init__(
        self, keys: Iterable[KeyConfig], keyrings: Iterable[Keyring] = (), *, closed: bool = False
    ) -> None:
        """``closed``: nobody comes in without a key, though there be none. Of two keys that could
        be taken for each other, the one of the first keyring counts."""
        self._configured = tuple(keys)
        self._made: dict[Keyring, Made | None] = {each: each.known() for each in keyrings}
        """None of one that has not been read yet: nobody can say who may come in by it."""
        self._owners: dict[str, str] = {}
        """By the hash of each key; who needs none has none."""
        self._names: dict[str, str] = {}
        """Of each owner who may speak."""
        self._admins: frozenset[str] = frozenset()
        self._complaints: dict[Keyring, str] = {}
        self._problems: list[str] = []
        self._revoked = set[str]()
        """Owners that were known here and are no more."""
        self._closed = closed
        self._choose()

    @property
    def keyrings(self) -> list[Keyring]:
        return [*self._made]

    @property
    def needed(self) -> bool:
        """Once there was a key, nobody comes in without one, even when the last is revoked; nor
        while it is not known whether there is one."""
        return self._closed or bool(self.unread)

    @property
    def unread(self) -> list[str]:
        """The places of keys that could not be read since the server started."""
        return [keyring.place for keyring, made in self._made.items() if made is None]

    def _choose(self) -> None:
        read = [(ring.place, made) for ring, made in self._made.items() if made is not None]
        keys, problems = admitted(
            self._configured, *((place, made.entries) for place, made in read)
        )
        for problem in problems:
            if problem not in self._problems:
                log.warning("%s", problem)
        self._problems = problems
        self._closed = self._closed or bool(keys) or any(made.ever for _, made in read)
        if not keys and self._closed and not self.unread:
            log.warning("nobody may come in: there is no key. Make one: vivace keys create NAME")
        self._owners = {key.sha256: key.owner for key in keys} if self.needed else {"": LOCAL}
        self._names = {key.owner: key.name for key in keys} if self.needed else {LOCAL: LOCAL}
        self._admins = frozenset(key.owner for key in keys if key.admin)
        self._revoked -= self._names.keys()

    async def look(self, keyring: Keyring) -> dict[str, str]:
        """Take up a change; returns the owners of what was taken back, and their names.

        One whose key is another now is among them: what the old key opened must end.
        """
        try:
            made = await keyring.look()
        except (ConfigError, StoreError) as error:  # the keys we know stay until it is put right
            if str(error) != self._complaints.get(keyring):
                known = "No key of it is known yet." if self._made[keyring] is None else _STAY
                log.warning("%s %s", str(error), known)
            self._complaints[keyring] = str(error)
            return {}
        if self._complaints.pop(keyring, None):
            log.info("the keys of %s can be read again", keyring.place)
        if made is None:
            return {}
        owners, names = self._owners, self._names
        self._made[keyring] = made
        self._choose()
        self._revoked |= names.keys() - self._names.keys()
        return {owner: names[owner] for _, owner in owners.items() - self._owners.items()}

    def knows(self, owner: str) -> bool:
        """Whether an owner that came in may still speak; raises ``StoreAway`` if only keys that
        have not been read could tell."""
        if owner not in self._names and self.unread:
            raise self._unknown_yet()
        return owner in self._names

    def was_revoked(self, owner: str) -> bool:
        """Return whether this server saw the owner's key go. Another gateway may be configured with
        keys that were never known here."""
        return owner in self._revoked

    def check_admin(self, owner: str) -> None:
        """Refuse whoever may use the server and not run it. Where nobody needs a key, nobody has
        shown that they run it."""
        if owner not in self._admins:
            raise Forbidden(
                "This takes an admin key. Make one where the server runs: vivace keys create NAME "
                "--admin; and give it with VIVACE_KEY or --key.",
                code="admin_key_required",
            )

    async def close(self) -> None:
        for keyring in self._made:
            await keyring.close()

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
        if not given and not self.unread:
            raise Unauthorized(
                "Send your key in the header 'Authorization: Bearer KEY' or 'x-api-key: KEY'."
            )
        for key in given:
            # Found by its hash, whose bytes nobody can choose: the time it takes tells nothing.
            owner = self._owners.get(hashlib.sha256(key.strip().encode()).hexdigest())
            if owner is not None:
                return owner
        if self.unread:
            raise self._unknown_yet()
        raise Unauthorized("This key is not known here; ask whoever runs this server.")

    def _unknown_yet(self) -> StoreAway:
        # Not where they are: whoever asks has not come in.
        return StoreAway(
            StoreError(
                "Nobody can say yet who may come in: the store that has the keys has not answered "
                "since this server started. Try again."
            )
        )


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
