"""What is typed into the settings of chat panels in editors.

They keep them where no other program should write. Pure, as ``clients.py`` is; none of these was
tried with the panel itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from vivace.cli.clients import Client, Endpoint, Person, Recipe
from vivace.cli.json_settings import as_json

__all__ = ["PANELS"]

_LONGEST_ANSWER = 32_000

# "OpenAI Compatible" (docs.cline.bot/provider-config/openai-compatible).
_CLINE = "OpenAI Compatible, docs.cline.bot/provider-config, checked 2026-11-17; untried"


def _cline(endpoint: Endpoint, person: Person) -> Recipe:
    model = endpoint.model
    return Recipe(
        snippet=(
            f"# See {_CLINE}.\n"
            "In Cline's panel, the gear:\n"
            "  API Provider: OpenAI Compatible\n"
            f"  Base URL: {endpoint.url}\n"
            f"  API Key: {_key(endpoint)}\n"
            f"  Model ID: {model.name}\n"
            f"  Context Window Size: {model.context}\n"
            f"  Max Output Tokens: {_output(model.context)}\n"
        )
    )


# The provider "Custom Endpoint" of VS Code (1.122 and newer) with GitHub Copilot Chat; it took the
# place of "OpenAI Compatible" (github.com/microsoft/vscode, issue 316916). Keys are to be entered
# in its dialogue, which keeps them apart from the file.
_VSCODE_CHAT = (
    "Custom Endpoint, github.com/microsoft/vscode/issues/316916, checked 2026-11-17; untried"
)


def _vscode_chat(endpoint: Endpoint, person: Person) -> Recipe:
    models = [_vscode_model(endpoint, model.name, model.context) for model in endpoint.served]
    listed: dict[str, Any] = {
        "name": "Vivace",
        "vendor": "customendpoint",
        "apiType": "responses",
        "models": models,
    }
    return Recipe(
        snippet=(
            f"# See {_VSCODE_CHAT}.\n"
            "1. VS Code 1.122 or newer: command palette, Chat: Manage Language Models, Add,\n"
            "   Custom Endpoint.\n"
            f"   Name: Vivace. API key: {_key(endpoint)}. API type: Responses.\n"
            "2. In the file that opens (chatLanguageModels.json), keep its apiKey and have the\n"
            "   entry say:\n"
            f"{as_json(listed)}"
            "3. Choose the model in the chat's list; restart VS Code if it is not there.\n"
        )
    )


def _vscode_model(endpoint: Endpoint, name: str, context: int) -> dict[str, Any]:
    output = _output(context)
    return {
        "id": name,
        "name": name,
        "url": f"{endpoint.url}/responses",
        "toolCalling": True,
        "vision": False,
        "maxInputTokens": context - output,
        "maxOutputTokens": output,
    }


def _key(endpoint: Endpoint) -> str:
    named = f"what ${endpoint.key_env} holds" if endpoint.key_env else None
    return named or "any word, since a KEY is wanted"


def _output(context: int) -> int:
    """Room for an answer, which both take from the context."""
    return min(_LONGEST_ANSWER, context // 4)


PANELS: Mapping[str, Client] = MappingProxyType(
    {
        "cline": Client("Cline", _CLINE, _cline),
        "vscode-chat": Client("the chat of VS Code", _VSCODE_CHAT, _vscode_chat),
    }
)
