"""What a command found: line by line for a person, or as JSON for programs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal

import msgspec
from msgspec import Struct

from vivace.cli.output import put, say, styled

__all__ = ["Finding", "report"]

_COLOURS = {"ok": "green", "wrong": "red", "hint": "yellow"}


class Finding(Struct, frozen=True):
    check: str
    state: Literal["ok", "wrong", "hint"]
    found: str
    advice: str = ""


async def report(found: AsyncIterator[Finding], *, as_json: bool) -> bool:
    """Each as soon as it is known, or all at the end; whether all is well."""
    findings: list[Finding] = []
    async for finding in found:
        findings.append(finding)
        if not as_json:
            _tell(finding)
    well = all(finding.state != "wrong" for finding in findings)
    if as_json:
        told = {"well": well, "checks": findings}
        put(msgspec.json.format(msgspec.json.encode(told), indent=2).decode() + "\n")
    return well


def _tell(finding: Finding) -> None:
    say(
        styled(f"{finding.state:6}", fg=_COLOURS[finding.state]),
        f"{finding.check:9}",
        finding.found,
    )
    if finding.advice:
        say(f"{'':15}{finding.advice}")
