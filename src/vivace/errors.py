"""Every error Vivace raises on purpose.

    VivaceError
    ├── ConfigError              vivace.toml or the environment is wrong; the message says where
    ├── DownloadError            a file could not be brought; the message says what to do
    ├── EditError                an edit does not fit the text; the message says where and why
    ├── RuleError                a file of rules cannot be read; the message says where and why
    ├── RequestError             the client asked for something it cannot have
    │   ├── InvalidRequest       400  malformed, or contradicts the conversation
    │   │   └── ContextOverflow  400  longer than the model takes
    │   ├── Unauthorized         401  no key, or one that is not known
    │   ├── Forbidden            403  the key or the Origin may not do this
    │   ├── NotFound             404  no such model or response
    │   ├── KeyBusy              409  an idempotency key whose turn cannot be told of here yet
    │   ├── CannotDrain          409  nobody else could go on with its work
    │   ├── TooLarge             413  body, frame or field over its bound
    │   ├── KeyReuse             422  an idempotency key that stands for another request
    │   ├── TooManyRequests      429  over a limit; try again later
    │   ├── ServerFault          500  a fault of ours, or a stored turn that cannot be read
    │   └── Unavailable          503  draining, or no engine can take it
    │       └── StoreAway        503  what it needs of the store is not to be had now
    ├── EngineError              an engine failed while a turn was running
    │   ├── EngineRefused        it will not do what was asked, and no other would
    │   │   └── EngineOverflow   it found the conversation longer than it takes
    │   ├── EngineBusy           it has too much to do, and says when to come back
    │   │   └── EngineFull       too many wait for it already, or one would wait too long
    │   ├── EngineDied           the engine itself is gone, not just this request
    │   │   ├── EngineAbsent     it was not there when it was asked
    │   │   ├── EngineSilent     it has work, and finishes none of it
    │   │   ├── EngineDrained    it shall have no more work, which is no fault
    │   │   ├── HeldElsewhere    it works for another gateway by now, which has taken the turn
    │   │   └── CannotContinue   it cannot go on from what another has said, which is no fault
    │   └── GaveUp               too many engines died under one turn
    ├── LogError                 what a turn has said cannot be told again: its log is damaged
    └── StoreError               a turn could not be kept or read

A ``RequestError`` is the client's to fix and goes over the wire as it is. An ``EngineError`` is
ours: it is tried on another engine where that may help, and else ends the turn with
``response.failed``.
"""

from __future__ import annotations

from typing import Literal

__all__ = [
    "Blame",
    "CannotContinue",
    "CannotDrain",
    "ConfigError",
    "ContextOverflow",
    "DownloadError",
    "EditError",
    "EngineAbsent",
    "EngineBusy",
    "EngineDied",
    "EngineDrained",
    "EngineError",
    "EngineFull",
    "EngineOverflow",
    "EngineRefused",
    "EngineSilent",
    "Forbidden",
    "GaveUp",
    "HeldElsewhere",
    "InvalidRequest",
    "KeyBusy",
    "KeyReuse",
    "LinkError",
    "LogError",
    "NotFound",
    "RequestError",
    "RuleError",
    "ServerFault",
    "StoreAway",
    "StoreError",
    "TooLarge",
    "TooManyRequests",
    "Unauthorized",
    "Unavailable",
    "VivaceError",
]


class VivaceError(Exception):
    """The root: catch this to catch everything Vivace raises on purpose."""


class ConfigError(VivaceError):
    """The configuration cannot be used as it stands."""


class DownloadError(VivaceError):
    """A file could not be brought; the message is for the person and says what to do."""


class EditError(VivaceError):
    """An edit cannot be read, or does not fit the text it is for; nothing was changed."""


class RuleError(VivaceError):
    """A file of rules for findings cannot be used; the message names the file and the line."""


class RequestError(VivaceError):
    """What the client sent cannot be done; carries its own wire form."""

    status = 400
    type = "invalid_request_error"
    default_code: str | None = None
    tokens: int | None = None
    """How long a conversation is that does not fit, for clients that make room by as much."""
    limit: int | None = None
    """And how long one may be, the answer's first token with it."""

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.param = param
        self.retry_after = retry_after


class InvalidRequest(RequestError):
    default_code = "invalid_value"


class ContextOverflow(InvalidRequest):
    default_code = "context_length_exceeded"

    def __init__(self, message: str, tokens: int, limit: int) -> None:
        super().__init__(message, param="input")
        self.tokens = tokens
        self.limit = limit


class Unauthorized(RequestError):
    status = 401
    type = "authentication_error"
    default_code = "invalid_api_key"


class Forbidden(RequestError):
    status = 403
    type = "permission_error"
    default_code = "forbidden"


class NotFound(RequestError):
    status = 404
    default_code = "not_found"


class KeyBusy(RequestError):
    status = 409
    type = "server_error"
    default_code = "idempotency_key_in_use"


class CannotDrain(RequestError):
    status = 409
    default_code = "cannot_be_drained"


class TooLarge(RequestError):
    status = 413
    default_code = "request_too_large"


class KeyReuse(RequestError):
    status = 422
    default_code = "idempotency_key_reused"


class TooManyRequests(RequestError):
    status = 429
    type = "rate_limit_error"
    default_code = "rate_limit_exceeded"


class ServerFault(RequestError):
    """Not the client's to fix: it learns that, and the log has the place."""

    status = 500
    type = "server_error"
    default_code = "server_error"


class Unavailable(RequestError):
    status = 503
    type = "server_error"
    default_code = "server_unavailable"


Blame = Literal["never", "compared", "always"]


class EngineError(VivaceError):
    """An engine could not finish a turn, and it cannot be said whether the turn was at fault."""

    code = "server_error"
    elsewhere = True
    """Whether another engine may be tried."""
    blame: Blame = "compared"
    """Whether it counts against the engine; "compared": if another then does what this one did not,
    so that nobody can have an engine shut out by sending it what no engine takes."""

    def __init__(
        self, message: str, *, retry_after: float | None = None, blame: Blame | None = None
    ) -> None:
        """``retry_after``: seconds for which the engine wants to be left alone."""
        super().__init__(message)
        self.retry_after = retry_after
        self.blame = blame or self.blame


class EngineRefused(EngineError):
    """The engine will not do what was asked, and another would not either."""

    code = "invalid_prompt"
    elsewhere = False
    blame: Blame = "never"


class EngineOverflow(EngineRefused):
    """The conversation is longer than the engine takes, by its own count."""

    code = "context_length_exceeded"


class EngineBusy(EngineError):
    """The engine has too much to do, which is no fault of it."""

    code = "rate_limit_exceeded"
    blame: Blame = "never"


class EngineFull(EngineBusy):
    """Too many wait for the engine already, or this one would wait too long. That is said before it
    waits at all, and to this one alone: another key may have its share left."""

    def __init__(
        self, message: str, *, code: str, seconds: float, retry_after: float | None = None
    ) -> None:
        """``code``: which of the two, as a client is told. ``seconds``: how long it would wait."""
        super().__init__(message, retry_after=retry_after)
        self.code = code
        self.seconds = seconds


class EngineDied(EngineError):
    """The engine is gone; nothing else can run on it until it is started again."""

    code = "engine_died"
    blame: Blame = "always"


class EngineAbsent(EngineDied):
    """The engine was not there when it was asked, so it did not die of what it was asked."""


class EngineSilent(EngineDied):
    """The engine has work and finishes none of it, for anyone."""


class EngineDrained(EngineDied):
    """The engine is to have no more work, so what it has goes on elsewhere."""

    blame: Blame = "never"


class HeldElsewhere(EngineDied):
    """Another gateway holds the turn by now, and hears its engine."""

    blame: Blame = "never"


class CannotContinue(EngineDied):
    """The engine cannot go on from what another one has said before it died."""

    blame: Blame = "never"


class GaveUp(EngineError):
    """So many engines died under one turn that it may be the turn they die of."""

    code = "gave_up"
    elsewhere = False
    blame: Blame = "always"


class LinkError(VivaceError):
    """What came over a link to another process cannot be understood; the link is closed."""


class LogError(VivaceError):
    """The log of a turn, or what is kept of one, cannot be read."""


class StoreError(VivaceError):
    """A turn could not be kept or read."""

    def __init__(self, message: str, *, uncertain: bool = False) -> None:
        """``uncertain``: what was to be written may be on record all the same."""
        super().__init__(message)
        self.uncertain = uncertain


class StoreAway(Unavailable):
    """The same for a client, which may try again."""

    default_code = "store_unavailable"

    def __init__(self, error: StoreError) -> None:
        super().__init__(str(error), retry_after=1)
