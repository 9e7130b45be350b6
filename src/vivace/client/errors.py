"""What a client of a gateway has to tell the person."""

from __future__ import annotations

from vivace.errors import VivaceError

__all__ = ["ClientError", "half_a_character", "no_server"]


class ClientError(VivaceError):
    """The gateway cannot be reached, or said no."""

    def __init__(
        self,
        message: str,
        code: str | None = None,
        param: str | None = None,
        *,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        """``status`` is HTTP's word for it; ``retry_after`` seconds it may go better."""
        super().__init__(message)
        self.code = code
        self.param = param
        self.status = status
        self.retry_after = retry_after


def half_a_character() -> ClientError:
    return ClientError(
        "The text has half a character in it (a lone surrogate), which cannot be sent.",
        "invalid_text",
    )


def no_server(url: str) -> ClientError:
    return ClientError(
        f"No server answers at {url}. Start one with 'vivace up', or name another with --url.",
        "no_server",
    )
