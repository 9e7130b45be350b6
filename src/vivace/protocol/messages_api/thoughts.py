"""Thoughts that a client is to give back without having been shown them.

A thinking block carries a signature, which its client keeps as it is. Where the client wants no
thoughts (``display: "omitted"``) the signature holds them, so that they are there again when the
conversation goes on after a tool's result. Nothing is secret about them: it is the client's own
conversation.
"""

from __future__ import annotations

import base64
import binascii

from vivace.protocol.messages_api.types import ThinkingBlock

__all__ = ["SHOWN", "signature_of", "thought_in"]

SHOWN = "vivace"
"""The signature of thoughts that stand beside it: clients want one that is not empty."""
_KEPT = "vivace."


def signature_of(thought: str) -> str:
    return _KEPT + base64.b64encode(thought.encode()).decode()


def thought_in(block: ThinkingBlock) -> str:
    """Empty for the thoughts of another server that keeps them to itself."""
    if block.thinking or not block.signature.startswith(_KEPT):
        return block.thinking
    try:
        return base64.b64decode(block.signature.removeprefix(_KEPT), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
