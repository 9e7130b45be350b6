"""Answers that begin with a given text, in the forms that engines can be held to."""

from __future__ import annotations

import re

__all__ = ["grammar", "pattern"]


def grammar(beginning: str) -> str:
    """For llama.cpp, in its own notation of grammars (GBNF)."""
    literal = re.sub(r'["\\\x00-\x1f\x7f]', lambda found: f"\\x{ord(found[0]):02x}", beginning)
    return f'root ::= "{literal}" .*'


def pattern(beginning: str) -> str:
    """A regular expression that all backends of vLLM's structured outputs read alike."""
    return re.sub(r"[\\^$.|?*+()\[\]{}]", r"\\\g<0>", beginning) + r"[\s\S]*"
