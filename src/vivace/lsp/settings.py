"""What a person can set in their editor, as it comes in ``initializationOptions`` and with
``workspace/didChangeConfiguration``.

Where the server is and its key are not among them: they come by the environment, so that no
repository's settings can send code elsewhere.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from vivace.completion.pace import Timing
from vivace.errors import ConfigError

__all__ = ["Completion", "Findings", "Settings", "read_settings"]

_SECTION = "vivace"


class Completion(Struct, frozen=True, rename="camel"):
    enabled: bool = True
    timing: Timing = "auto"
    characters: Annotated[int, Meta(ge=500)] | None = None
    """Of a file in a prompt; None: by how fast the engine reads."""


class Findings(Struct, frozen=True, rename="camel"):
    enabled: bool = True
    """Whether what is wrong with code is marked as it is typed."""
    bugs: bool = True
    """Whether bugs are, beside what makes code unsafe."""


class Settings(Struct, frozen=True, rename="camel"):
    model: str = ""
    """Which model answers; empty: the server's first."""
    deep_model: str = ""
    """Which model is asked for an edit where the first one's is refused."""
    completion: Completion = Completion()
    findings: Findings = Findings()


def read_settings(given: Any) -> Settings:
    """Whatever is not ours is left alone; of what is ours, the first wrong value is named."""
    section = given.get(_SECTION, given) if isinstance(given, dict) else {}
    try:
        return msgspec.convert(section or {}, Settings)
    except msgspec.ValidationError as error:
        raise ConfigError(f"A setting of Vivace cannot be used: {error}.") from None
