"""What Codex is told otherwise than other clients: refusals in the form that it recovers from, and
models in the form of its catalogue; and what it says otherwise than it means.

To Codex a status of 4xx and an error frame end the turn, whatever they say. It waits only for a
``response.failed`` whose message has the words "try again in 3s", and makes room only for one that
says ``context_length_exceeded``. Other clients keep the statuses, which their SDKs try again.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from vivace.errors import RequestError
from vivace.protocol.events import ResponseProblem
from vivace.protocol.requests import CreateResponse

__all__ = ["card", "failure_of", "is_codex", "meant"]

_TOO_LONG = frozenset({"context_length_exceeded", "request_too_large"})
"""Where a shorter conversation helps."""
_HANDLED = frozenset(
    {
        "previous_response_not_found",
        "server_shutting_down",
        "websocket_connection_limit_reached",
    }
)
"""What it recovers from in any case: it connects again and sends everything."""
_FOR_NOW = frozenset({429, 503})
_FOR_GOOD = frozenset({400, 404, 413, 429})
_OWN_ADVICE = re.compile(r"[.;] try again\b.*$", re.IGNORECASE | re.DOTALL)


def is_codex(headers: Mapping[str, str]) -> bool:
    """By its ``originator``: ``codex_cli_rs``, ``codex_exec``, ``codex-tui``, ``Codex Desktop``.

    Editors that start its app-server have it say their own name there, beside Codex's headers.
    """
    originator = headers.get("originator", "")
    its_own = originator.lower().startswith("codex")
    return its_own or (bool(originator) and "x-codex-window-id" in headers)


def failure_of(error: RequestError) -> ResponseProblem | None:
    """How a turn fails that is refused for this; None where Codex makes more of the error itself.

    Every code but these two and ``invalid_prompt`` is tried again at once, five times.
    """
    if error.code in _HANDLED:
        return None
    if error.code in _TOO_LONG:
        return ResponseProblem("context_length_exceeded", error.message)
    if error.status in _FOR_NOW and error.retry_after is not None:
        return ResponseProblem("rate_limit_exceeded", _with_wait(error.message, error.retry_after))
    if error.status in _FOR_GOOD:
        return ResponseProblem("invalid_prompt", error.message)
    return None


def _with_wait(message: str, seconds: float) -> str:
    """Codex reads a number of seconds or milliseconds, and no minutes."""
    wait = f"{math.ceil(seconds * 1000)}ms" if 0 < seconds < 1 else f"{max(1, math.ceil(seconds))}s"
    return f"{_OWN_ADVICE.sub('', message).rstrip('.')}. Try again in {wait}."


# -- tiers ----------------------------------------------------------------------------------------

_FAST, _FAST_ON_THE_WIRE = "fast", "priority"
"""Codex takes the one for an older word of the other, wherever it stands, and drops a tier of that
name on the way to its request. So it is told the other, and then it even shows that it is fast."""


def meant(create: CreateResponse) -> CreateResponse:
    """A request of Codex's, with the tier that was chosen there by its own name."""
    if create.body.service_tier != _FAST_ON_THE_WIRE:
        return create
    return replace(create, body=replace(create.body, service_tier=_FAST))


# -- the catalogue --------------------------------------------------------------------------------

# Short, because small models do what stands in short instructions.
_INSTRUCTIONS = """\
You are a coding agent. You and the user share a workspace on their machine, and you reach it \
through your tools.

- Look before you change: read the files that matter, and search for where a name is used.
- Change files with apply_patch, and only what the task needs. Keep to the style of the code \
around it.
- After a change, run what shows that it works: the tests, the type checker, or the program.
- If a command fails, read its output and mend the cause. Do not repeat it unchanged.
- Never discard work that is not yours, and never commit or push unless you were asked to.
- When the task is done, say in a few sentences what you changed and how you know that it works. \
If something is left undone or unsure, say so.
"""


_LEVELS = {
    "none": "Answers at once, without thinking first",
    "minimal": "Thinks as little as it can",
    "low": "Thinks briefly",
    "medium": "Thinks before it answers",
    "high": "Thinks long, for what is hard",
    "xhigh": "Thinks as long as it can",
}


def card(
    name: str,
    context: int,
    place: int,
    tiers: Sequence[str] = (),
    *,
    efforts: Sequence[str] = (),
    effort: str | None = None,
) -> dict[str, Any]:
    """A model in the form of Codex's own catalogue, which this one stands in for.

    ``tiers`` are those that can be chosen for it by ``service_tier``; each becomes a command.
    ``efforts`` are how much it can be asked to think, and ``effort`` how much it does when nobody
    asks.
    """
    return {
        "slug": name,
        "display_name": name,
        "description": "Served by Vivace.",
        "priority": place,
        "visibility": "list",
        "supported_in_api": True,
        "base_instructions": _INSTRUCTIONS,
        "shell_type": "unified_exec",
        "apply_patch_tool_type": "freeform",
        # The tools are sent once and not with every turn, and a word of the user's interrupts the
        # answer at once instead of waiting for its end.
        "use_responses_lite": True,
        "context_window": context,
        "truncation_policy": {"mode": "tokens", "limit": min(10_000, context // 4)},
        "input_modalities": ["text"],
        "supported_reasoning_levels": [
            {"effort": each, "description": _LEVELS.get(each, each)} for each in efforts
        ],
        "default_reasoning_level": effort if effort in efforts else None,
        "service_tiers": [
            {
                "id": _FAST_ON_THE_WIRE if tier == _FAST else tier,
                "name": tier,
                "description": f"Answered by {tier}.",
            }
            for tier in tiers
        ],
        "support_verbosity": False,
        "default_verbosity": None,
        "experimental_supported_tools": [],
        "availability_nux": None,
        "upgrade": None,
    }
