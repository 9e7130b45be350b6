"""What a request carries into an engine that drafts: the tokens of the code it rewrites."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from vivace.engines.base import Chat
from vivace.speculation.leniency import Terms, named_words
from vivace.speculation.sources import instruction, old_text

__all__ = ["OLD", "carried", "terms_of"]

OLD = "vivace_old"
"""Under this name a request carries the tokens that its answer will repeat."""
_LENIENCY = "vivace_leniency"

_CLOSING = re.compile(r"^(`{3,}|~{3,})\s*\Z", re.MULTILINE)
_LINE = re.compile(r"[^\n]*\n+")
"""With the empty lines behind it: tokenizers take these together."""
_IMPORTS = ("import", "from", "#include", "use", "using")

Encode = Callable[[str], list[int]]


def carried(chat: Chat, encode: Encode) -> dict[str, Any]:
    """Nothing, where there is no old code; plain data, as it goes to another process."""
    old = old_text(chat.items, chat.prediction)
    if not old:
        return {}
    ids = encode(old)
    nats = chat.prediction.leniency if chat.prediction is not None else 0.0
    if not nats:
        return {OLD: ids}
    terms = Terms(
        nats=nats,
        end=_common(ids, encode(_CLOSING.sub("", old))),
        free=frozenset(_tokens_named(instruction(chat.items), encode)),
        breaks=frozenset(encode(line)[-1] for line in _LINE.findall(old)),
        openings=frozenset(encode(word)[0] for word in _IMPORTS),
    )
    return {OLD: ids, _LENIENCY: msgspec.to_builtins(terms)}


def terms_of(given: Mapping[str, Any]) -> Terms | None:
    """The leniency that a request carries, if it does."""
    terms = given.get(_LENIENCY)
    return msgspec.convert(terms, Terms) if terms else None


def _tokens_named(text: str, encode: Encode) -> set[int]:
    """Of the words that look like code, as they stand at the start of a line and behind a space."""
    return {
        token for word in named_words(text) for each in (word, f" {word}") for token in encode(each)
    }


def _common(some: Sequence[int], other: Sequence[int]) -> int:
    """How many tokens both begin with."""
    pairs = zip(some, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(some), len(other)))
