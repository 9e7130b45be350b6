"""How many examples a property is tried with, by suite."""

from __future__ import annotations

from hypothesis import settings

_RELEASE_EXAMPLES = 100
_CHANGE_EXAMPLES = 30
_FAST_EXAMPLES = 10


def load_profile(name: str | None, *, release: bool) -> None:
    """Load the profile called ``name``, else that of the suite.

    A change is judged by the same examples each time, so that it is never refused for an old fault
    that a new seed finds; the suite of a release looks for new ones. No profile has a deadline: how
    long an example takes depends on the machine, and says nothing about the code.
    """
    settings.register_profile("release", deadline=None, max_examples=_RELEASE_EXAMPLES)
    fixed = settings(deadline=None, derandomize=True, database=None)
    settings.register_profile("change", fixed, max_examples=_CHANGE_EXAMPLES)
    settings.register_profile("fast", fixed, max_examples=_FAST_EXAMPLES)
    settings.load_profile(name or ("release" if release else "change"))


def examples(most: int) -> int:
    """Scale ``most``, a property's own number of examples in a release, to the loaded profile."""
    return max(1, most * settings().max_examples // _RELEASE_EXAMPLES)
