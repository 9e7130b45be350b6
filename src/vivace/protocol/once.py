"""Idempotency keys: a client's word for one request, by which it may send it again.

The key comes in the header ``Idempotency-Key`` or as the field ``idempotency_key``. Whether a
request is the same as the one before is told by its fingerprint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Annotated, Any

from msgspec import Meta, Struct

from vivace.errors import InvalidRequest, KeyReuse, RequestError

__all__ = ["HEADER", "IdempotencyKey", "Once", "key_of", "key_reused", "needs_store", "once_of"]

HEADER = "idempotency-key"
FIELD = "idempotency_key"

_LONGEST = 256
IdempotencyKey = Annotated[str, Meta(min_length=1, max_length=_LONGEST)]

_BESIDE = frozenset(
    {
        FIELD,  # by which it is looked up
        # How the answer is told, not what it is: whoever lost a stream may ask for the whole.
        "stream",
        "stream_options",
        # Of the way it came: a request may be sent again on another lane, or over HTTP.
        "type",
        "stream_id",
        # Of this try alone: it names its trace.
        "client_metadata",
    }
)
"""What a fingerprint leaves out. All else must be the same, what is unknown here too."""


class Once(Struct, frozen=True):
    """A request that may be sent again."""

    key: str
    fingerprint: bytes


def key_of(header: str | None, field: str | None) -> str | None:
    """The key of a request; refuses one that is none, and two that differ."""
    if header is not None and field is not None and header != field:
        raise InvalidRequest(
            "The header Idempotency-Key and the field idempotency_key differ; send one of them.",
            param=FIELD,
        )
    key = field if header is None else header
    if key is not None and not (0 < len(key) <= _LONGEST and key.isprintable()):
        raise InvalidRequest(
            f"An idempotency key has 1 to {_LONGEST} printable characters.", param=FIELD
        )
    return key


def once_of(kind: str, key: str | None, body: Mapping[str, Any]) -> Once | None:
    """``kind`` is what the body asks for, with whom it is asked of; ``body`` is as it was sent, but
    for the order of its fields and those that are null, which mean nothing."""
    if key is None:
        return None
    said = {name: each for name, each in body.items() if name not in _BESIDE and each is not None}
    try:  # by the standard library, for which no number is too long
        canonical = json.dumps([kind, said], sort_keys=True, separators=(",", ":"))
    except RecursionError:
        raise InvalidRequest("The request is nested too deeply.", code="invalid_json") from None
    return Once(key, blake2b(canonical.encode(), digest_size=32).digest())


def needs_store() -> RequestError:
    return InvalidRequest(
        "A key needs a record: with store=false nobody could know the request again. Leave out "
        "store or the idempotency key.",
        code="idempotency_key_needs_store",
        param=FIELD,
    )


def key_reused() -> RequestError:
    return KeyReuse(
        "This idempotency key stands for another request of yours. Send that one as it was, or "
        "choose a new key for this one; a key is known for 24 hours.",
        param=FIELD,
    )
