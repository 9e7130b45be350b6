"""How many examples a property is tried with, in a full run and in a fast one."""

from __future__ import annotations

from hypothesis import settings

FAST = "fast"
"""The profile of ``scripts/test --fast``."""
_USUAL = 100


def register_profiles() -> None:
    # How long an example takes depends on the machine, and says nothing about the code.
    settings.register_profile("vivace", deadline=None, max_examples=_USUAL)
    settings.register_profile(FAST, deadline=None, max_examples=10)
    settings.load_profile("vivace")


def examples(most: int) -> int:
    """So many, or the part of them that the profile takes: for tests that set their own number."""
    return max(1, most * settings().max_examples // _USUAL)
