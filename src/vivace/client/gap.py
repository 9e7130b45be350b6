"""A gap in a document, as it is asked to be filled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

__all__ = ["Gap", "those_given"]


class Gap(Struct, frozen=True, kw_only=True):
    """What is asked for, whoever is asked."""

    fill: Mapping[str, Any]
    """As the wire has it (docs/how/completions.md)."""
    model: str = ""
    max_tokens: int = 64
    stop: tuple[str, ...] = ()
    background: bool = False
    cache_key: str = ""
    generate: bool = True
    """False: the server reads the gap and writes nothing."""

    def body(self) -> dict[str, Any]:
        """Of ``response.create``."""
        return {
            "fill": self.fill,
            "generate": self.generate,
            "max_output_tokens": self.max_tokens,
            "temperature": 0,  # what is most likely, and the same again when it is asked again
            "store": False,
            **those_given(
                model=self.model,
                stop=self.stop,
                service_tier="flex" if self.background else "",
                prompt_cache_key=self.cache_key,
            ),
        }

    def text(self, name: str) -> str:
        return self.fill.get(name) or ""


def those_given(**fields: object) -> dict[str, object]:
    """Without those that are empty."""
    return {name: each for name, each in fields.items() if each}
