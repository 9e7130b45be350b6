"""Every error Vivace raises on purpose.

    VivaceError
    ├── ConfigError              vivace.toml or the environment is wrong; the message says where
    ├── DownloadError            a file could not be brought; the message says what to do
    ├── EditError                an edit does not fit the text; the message says where and why
    ├── RequestError             the client asked for something it cannot have
    │   ├── InvalidRequest       400  malformed, or contradicts the conversation
    │   ├── Unauthorized         401  no key, or one that is not known
    │   ├── Forbidden            403  the key or the Origin may not do this
    │   ├── NotFound             404  no such model or response
    │   ├── TooLarge             413  body, frame or field over its bound
    │   ├── TooManyRequests      429  over a limit; try again later
    │   └── Unavailable          503  draining, or no engine can take it
    ├── EngineError              an engine failed while a turn was running
    │   └── EngineDied           the engine itself is gone, not just this request
    └── StoreError               a turn could not be kept or read

A ``RequestError`` is the client's to fix and goes over the wire as it is. An ``EngineError`` is
ours: it ends the turn with ``response.failed``.
"""

from __future__ import annotations

__all__ = [
    "ConfigError",
    "DownloadError",
    "EditError",
    "EngineDied",
    "EngineError",
    "Forbidden",
    "InvalidRequest",
    "NotFound",
    "RequestError",
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


class RequestError(VivaceError):
    """What the client sent cannot be done; carries its own wire form."""

    status = 400
    type = "invalid_request_error"
    default_code: str | None = None

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


class TooLarge(RequestError):
    status = 413
    default_code = "request_too_large"


class TooManyRequests(RequestError):
    status = 429
    type = "rate_limit_error"
    default_code = "rate_limit_exceeded"


class Unavailable(RequestError):
    status = 503
    type = "server_error"
    default_code = "server_unavailable"


class EngineError(VivaceError):
    """An engine could not finish a turn."""

    code = "server_error"


class EngineDied(EngineError):
    """The engine is gone; nothing else can run on it until it is started again."""

    code = "engine_died"


class StoreError(VivaceError):
    """A turn could not be kept or read."""
