"""What a server says, as far as a client needs it. It may be anybody's: every field is checked.

Only what is read here is here; the rest of an event is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from vivace.client.errors import ClientError
from vivace.retry_after import retry_after

__all__ = ["Failure", "Response", "ServerEvent", "Steered", "decode_event"]

_LONGEST_MESSAGE = 2000

_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed"})

_TRY_AGAIN = re.compile(r"try again in ([0-9]{1,6}(?:\.[0-9]{1,3})?) ?(ms|s)\b", re.IGNORECASE)
"""Where an answer has begun there are no headers any more: the words have to say it."""


class Failure(Struct):
    message: str = ""
    code: str | int | None = None
    param: str | None = None
    headers: Any = None
    """What HTTP would have said beside it, where it did not come by HTTP."""

    def told(
        self, status: int | None = None, headers: Mapping[str, str] | None = None
    ) -> ClientError:
        words = self.message or "The server gave no reason."
        return ClientError(
            f"{words[:_LONGEST_MESSAGE]}..." if len(words) > _LONGEST_MESSAGE else words,
            None if self.code is None else str(self.code),
            self.param,
            status=status,
            retry_after=retry_after(headers or self._headers()) or self._said_in_words(),
        )

    def _headers(self) -> Mapping[str, str]:
        given = self.headers if isinstance(self.headers, dict) else {}
        return {name: each for name, each in given.items() if isinstance(each, str)}

    def _said_in_words(self) -> float | None:
        found = _TRY_AGAIN.search(self.message[:_LONGEST_MESSAGE])
        return float(found[1]) / (1000 if found[2].lower() == "ms" else 1) if found else None


class _Usage(Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: Any = None
    output_tokens_details: Any = None


class _Incomplete(Struct):
    reason: str | None = None


class Response(Struct):
    id: str
    status: str | None = None
    model: str | None = None
    usage: _Usage | None = None
    error: Failure | None = None
    incomplete_details: _Incomplete | None = None
    routing: Any = None
    fill: Any = None
    """A gateway's own words; elsewhere they may be anything."""

    @property
    def output_tokens(self) -> int:
        return self.usage.output_tokens if self.usage else 0

    @property
    def tokens_read(self) -> int:
        """Of the input, those that the engine did not know already; 0 where nobody counts."""
        if self.usage is None:
            return 0
        details = self.usage.input_tokens_details
        known = details.get("cached_tokens") if isinstance(details, dict) else None
        return self.usage.input_tokens - (known if isinstance(known, int) else 0)

    @property
    def drafted_tokens(self) -> int:
        """How many of them were drafted; another endpoint may not tell."""
        details = self.usage.output_tokens_details if self.usage else None
        drafted = details.get("accepted_prediction_tokens") if isinstance(details, dict) else None
        return drafted if isinstance(drafted, int) else 0

    @property
    def tier(self) -> str | None:
        """Where the gateway sent it."""
        tier = self.routing.get("tier") if isinstance(self.routing, dict) else None
        return tier if isinstance(tier, str) else None

    @property
    def fills(self) -> bool:
        """Whether the server has understood that there is a gap."""
        return self.fill is True

    @property
    def cut_off(self) -> bool:
        """Whether it was ended for its length."""
        details = self.incomplete_details
        return details is not None and details.reason == "max_output_tokens"


class Steered(Struct):
    """What became of words said in the middle of an answer."""

    id: str | None = None
    input: Any = None
    when: Any = None

    @property
    def ends_thinking(self) -> bool:
        """Whether no words were said, only that the answer is to begin."""
        return isinstance(self.when, str) and self.when == "end_thinking"


class ServerEvent(Struct, kw_only=True):
    type: str
    stream_id: str | None = None
    sequence_number: Any = None
    delta: Any = None
    response: Response | None = None
    steer: Steered = msgspec.field(default_factory=Steered)
    error: Failure | None = None
    message: Any = None
    code: Any = None
    param: Any = None
    status: Any = None

    @property
    def ends(self) -> bool:
        """Whether it is the last of its response."""
        return self.type in _TERMINAL

    @property
    def why_broken(self) -> ClientError | None:
        """Of the last one: why the answer is not whole, unless for its length."""
        response = self.response
        if response is not None and response.error is not None:
            return response.error.told()
        if self.type == "response.completed" or (response is not None and response.cut_off):
            return None
        return ClientError("The server broke the answer off; ask again.")

    @property
    def text(self) -> str:
        """What it adds to the answer."""
        spoken = self.type == "response.output_text.delta" and isinstance(self.delta, str)
        return self.delta if spoken else ""

    @property
    def thinks(self) -> bool:
        """Whether it adds to what is thought before the answer."""
        return self.type == "response.reasoning_text.delta"

    @property
    def failure(self) -> Failure:
        """Of an ``error``, which has it inside or is it."""
        if self.error is not None:
            return self.error
        given = {"message": self.message, "code": self.code, "param": self.param}
        try:
            return msgspec.convert({name: x for name, x in given.items() if x is not None}, Failure)
        except msgspec.ValidationError:
            return Failure()


_DECODER = msgspec.json.Decoder(ServerEvent)


def decode_event(data: str | bytes) -> ServerEvent | None:
    """None for what is no event of the Responses API."""
    try:
        return _DECODER.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
