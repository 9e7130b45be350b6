"""What a client of a gateway has to tell the person."""

from __future__ import annotations

from vivace.errors import VivaceError

__all__ = ["ClientError"]


class ClientError(VivaceError):
    """The gateway cannot be reached, or said no."""

    def __init__(self, message: str, code: str | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.param = param
