"""What each agent has to be told: Codex, Claude Code, opencode, and any that takes tools.

Pure, as ``clients.py`` is, and checked against the agents themselves where it says so. ``vivace
connect`` writes it to files; ``vivace run`` (``agent_starts.py``) gives the same for one run.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from vivace.cli.clients import Client, Endpoint, Person, Recipe, Served
from vivace.cli.json_settings import JsonTable, as_json
from vivace.cli.settings_files import MARK, TomlTable, WholeFile
from vivace.config import STAND_INS
from vivace.protocol.codex import card

__all__ = [
    "AGENTS",
    "CLAUDE_ROOM",
    "CODEX_ROOM",
    "OPENCODE_ROOM",
    "Room",
    "claude_settings",
    "codex_catalogue",
    "codex_choice",
    "codex_provider",
    "opencode_provider",
    "stands_for",
    "toml_value",
]

_LONGEST_ANSWER = 32_000


class Room(Struct, frozen=True):
    """How much of a context an agent fills before anybody has said anything."""

    agent: str
    begins_with: str
    """In tokens of tools and instructions, as its own words count them."""
    needs: int = 32_768

    def advice(self, endpoint: Endpoint) -> tuple[str, ...]:
        """Where the agent's own words leave little of the model's context."""
        model = endpoint.model
        if model.context >= self.needs:
            return ()
        advice = (
            f"{model.name} has a context of {model.context} tokens, and {self.agent} fills "
            f"{self.begins_with} before your first word. Give the engine more if the machine can: "
            f"vivace up --context {self.needs}, or context = {self.needs} in vivace.toml."
        )
        return (advice,)


def toml_value(value: object) -> str:
    """A string or a truth value, as JSON and TOML both write it."""
    return json.dumps(value, ensure_ascii=False)


# -- Codex CLI ------------------------------------------------------------------------------------

# "Advanced Configuration" (developers.openai.com/codex/config-advanced), checked 2026-11-15:
# since 0.134.0 a profile is a file, NAME.config.toml beside config.toml, with top-level keys. The
# provider stands in config.toml all the same: a conversation remembers its provider's name, and
# is resumed without the profile. Accepted by Codex CLI 0.166.0.
_CODEX = "Advanced Configuration, developers.openai.com/codex/config-advanced, checked 2026-11-15"

# 0.166.0 begins with about 5,200 tokens, and more where plugins or MCP servers are set up.
CODEX_ROOM = Room("Codex", "over 5000")


def _codex(endpoint: Endpoint, person: Person) -> Recipe:
    home = person.folder("CODEX_HOME", ".codex")
    provider = f"# See {_CODEX}.\n{_toml(codex_provider(endpoint))}"
    profile = (
        f"# Written by {MARK}; see {_CODEX}.\n{_toml(codex_choice(endpoint, 'vivace.models.json'))}"
    )
    return Recipe(
        edits=(
            TomlTable(home / "config.toml", "model_providers.vivace", provider),
            WholeFile(home / "vivace.config.toml", profile),
            WholeFile(home / "vivace.models.json", codex_catalogue(endpoint)),
        ),
        notes=(
            *_taken_from("Codex", endpoint),
            "Start it with: codex --profile vivace",
            *CODEX_ROOM.advice(endpoint),
        ),
    )


def codex_provider(endpoint: Endpoint) -> dict[str, object]:
    provider: dict[str, object] = {
        "name": "Vivace",
        "base_url": endpoint.url,
        "wire_api": "responses",
        "supports_websockets": True,
    }
    return provider | ({"env_key": endpoint.key_env} if endpoint.key_env else {})


def codex_choice(endpoint: Endpoint, catalogue: str) -> dict[str, object]:
    """The provider above instead of the person's usual one; ``catalogue`` is a file's path."""
    return {
        "model": endpoint.model.name,
        "model_provider": "vivace",
        "model_catalog_json": catalogue,
    }


def codex_catalogue(endpoint: Endpoint) -> str:
    tiers = [model.name for model in endpoint.served if model.tier]
    cards = [
        card(model.name, model.context, place, tiers, efforts=model.efforts, effort=model.effort)
        for place, model in enumerate(endpoint.served, 1)
    ]
    return as_json({"written_by": MARK, "models": cards})


def _toml(values: Mapping[str, object]) -> str:
    return "".join(f"{name} = {toml_value(value)}\n" for name, value in values.items())


def _taken_from(agent: str, endpoint: Endpoint) -> tuple[str, ...]:
    return (f"{agent} takes the key from ${endpoint.key_env}.",) if endpoint.key_env else ()


# -- Claude Code ----------------------------------------------------------------------------------

# "Environment variables" and "LLM gateway" (code.claude.com/docs), checked 2026-11-17; run with
# Claude Code 2.1.325. A settings file of our own, named when it is started, leaves the person's own
# settings, and the account they use at other times, alone.
#
# CLAUDE_CODE_MAX_CONTEXT_TOKENS counts for names that it does not know (tried; that it does for no
# others is read in the program), so each of its names must mean one of ours. From that it takes the
# room for the answer, which by default is 32,000 tokens: a small context would be full before the
# first word.
# Where "opus" means a name that it does not know, it writes "opus[1m]" over "opus" in the person's
# own settings, unless CLAUDE_CODE_DISABLE_1M_CONTEXT is set (tried).
# CLAUDE_CODE_AUTO_COMPACT_WINDOW is at least 100,000 (read in the program).
_CLAUDE = "Environment variables and LLM gateway, code.claude.com/docs, checked 2026-11-17"

_QUIET = (
    "To have it tell its maker nothing of how it is used, add to env: "
    '"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"'
)
CLAUDE_ROOM = Room("Claude Code", "about 12000")
_LEAST_COMPACT_WINDOW = 100_000


def _claude(endpoint: Endpoint, person: Person) -> Recipe:
    path = person.folder("CLAUDE_CONFIG_DIR", ".claude") / "vivace.json"
    return Recipe(
        edits=(WholeFile(path, as_json({"written_by": MARK, **claude_settings(endpoint)})),),
        notes=(
            *_taken_from("Claude Code", endpoint),
            f"Start it with: claude --settings {path}",
            _QUIET,
            *CLAUDE_ROOM.advice(endpoint),
        ),
    )


def claude_settings(endpoint: Endpoint) -> dict[str, Any]:
    # A command prints the key, so that it stands in no file.
    key = {"apiKeyHelper": f"printenv {endpoint.key_env}"} if endpoint.key_env else {}
    return {**key, "env": _environment(endpoint)}


def _environment(endpoint: Endpoint) -> dict[str, str]:
    models = {word.upper(): stands_for(tier, endpoint) for word, tier in STAND_INS.items()}
    context = min(model.context for model in (endpoint.model, *models.values()))
    environment = {"ANTHROPIC_BASE_URL": endpoint.url.removesuffix("/v1")}
    if endpoint.key_env is None:
        environment["ANTHROPIC_AUTH_TOKEN"] = "none"  # noqa: S105 - it wants one even so
    environment["ANTHROPIC_MODEL"] = endpoint.model.name
    environment |= {f"ANTHROPIC_DEFAULT_{name}_MODEL": each.name for name, each in models.items()}
    environment["CLAUDE_CODE_DISABLE_1M_CONTEXT"] = "1"
    environment["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(context)
    environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(min(_LONGEST_ANSWER, context // 4))
    if context >= _LEAST_COMPACT_WINDOW:
        environment["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(context)
    return environment


def stands_for(tier: str, endpoint: Endpoint) -> Served:
    """The tier of this name, or else the model that is used."""
    return next((model for model in endpoint.served if model.name == tier), endpoint.model)


# -- opencode -------------------------------------------------------------------------------------

# "Config" and "Providers" (opencode.ai/docs), and packages/opencode/src/{config,provider} of
# github.com/anomalyco/opencode, checked 2026-11-17; run with opencode 1.18.33. It carries
# @ai-sdk/openai-compatible with it, so nothing is fetched for that. {env:NAME} is replaced when the
# file is read. A file without $schema is written anew by opencode, with it.
_OPENCODE = "Config and Providers, opencode.ai/docs, checked 2026-11-17"

OPENCODE_ROOM = Room("opencode", "over 7000")


def _opencode(endpoint: Endpoint, person: Person) -> Recipe:
    path = person.folder("XDG_CONFIG_HOME", ".config") / "opencode/opencode.json"
    head = {"$schema": "https://opencode.ai/config.json"}
    return Recipe(
        edits=(JsonTable(path, ("provider", "vivace"), opencode_provider(endpoint), head),),
        notes=(
            *_taken_from("opencode", endpoint),
            f"Start it with: opencode --model vivace/{endpoint.model.name}",
            "If you have set small_model, which writes titles, titles are still asked of that.",
            *OPENCODE_ROOM.advice(endpoint),
        ),
    )


def opencode_provider(endpoint: Endpoint) -> dict[str, Any]:
    options = {"baseURL": endpoint.url}
    if endpoint.key_env:
        options["apiKey"] = f"{{env:{endpoint.key_env}}}"
    return {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Vivace",
        "options": options,
        "models": {
            model.name: {
                "name": model.name,
                "limit": {
                    "context": model.context,
                    "output": min(_LONGEST_ANSWER, model.context // 4),
                },
            }
            for model in endpoint.served
        },
    }


# -- edits as tools: vivace mcp --------------------------------------------------------------------

_MCP = (
    "Codex CLI 0.166.0 and Claude Code 2.1.325, tried 2026-11-17; VS Code by its MCP configuration "
    "reference of that day; Cursor untried"
)
_KEY = "VIVACE_KEY"


def _mcp(endpoint: Endpoint, person: Person) -> Recipe:
    command = [person.program, "mcp", "--url", endpoint.url]
    keyed = endpoint.key_env is not None
    key = (f"vivace mcp takes the server's key from ${_KEY}.",) if keyed else ()
    return Recipe(
        snippet="\n".join(
            (
                f"# {_MCP}.",
                "",
                "# Codex CLI: in ~/.codex/config.toml, or the project's .codex/config.toml",
                _codex_tools(command, keyed=keyed),
                "# Claude Code: in the project's folder",
                f"claude mcp add vivace -- {shlex.join(command)}",
                "",
                "# Cursor: in .cursor/mcp.json",
                _server("mcpServers", command),
                "# VS Code: in .vscode/mcp.json",
                _server("servers", command, type="stdio"),
            )
        ),
        notes=(
            *key,
            "It edits in the folder that it is started in, or in the one given behind 'mcp'.",
            "What it wrote is taken back by: vivace undo",
        ),
    )


def _codex_tools(command: list[str], *, keyed: bool) -> str:
    program, *arguments = command
    table = (
        "[mcp_servers.vivace]\n"
        f"command = {json.dumps(program)}\n"
        f"args = {json.dumps(arguments)}\n"
        "startup_timeout_sec = 30\n"
    )
    return table + (f"env_vars = {json.dumps([_KEY])}\n" if keyed else "")


def _server(table: str, command: list[str], **more: str) -> str:
    program, *arguments = command
    arguments.append("${workspaceFolder}")
    server = {**more, "command": program, "args": arguments}
    return json.dumps({table: {"vivace": server}}, indent=2) + "\n"


AGENTS: Mapping[str, Client] = MappingProxyType(
    {
        "codex": Client("Codex CLI", _CODEX, _codex),
        "claude": Client("Claude Code", _CLAUDE, _claude),
        "opencode": Client("opencode", _OPENCODE, _opencode),
        "mcp": Client("any agent that speaks MCP: edits as tools", _MCP, _mcp, needs_model=False),
    }
)
