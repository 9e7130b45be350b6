"""What each agent has to be told: one that speaks another maker's API, and any that takes tools.

Pure, as ``clients.py`` is, and checked against the agents themselves where it says so.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from types import MappingProxyType

from vivace.cli.clients import Client, Endpoint, Person, Recipe, Served, narrow
from vivace.cli.settings_files import MARK, WholeFile
from vivace.config import STAND_INS

__all__ = ["AGENTS"]

# -- Claude Code ----------------------------------------------------------------------------------

# "Environment variables" and "LLM gateway" (code.claude.com/docs), checked 2026-11-17; run with
# Claude Code 2.1.325. A settings file of our own, named when it is started, leaves the person's own
# settings, and the account they use at other times, alone.
#
# CLAUDE_CODE_MAX_CONTEXT_TOKENS counts for names that it does not know (tried; that it does for no
# others is read in the program), so each of its names must mean one of ours. From that it takes the
# room for the answer, which by default is 32,000 tokens: a small context would be full before the
# first word.
# CLAUDE_CODE_AUTO_COMPACT_WINDOW is at least 100,000 (read in the program).
_CLAUDE = "Environment variables and LLM gateway, code.claude.com/docs, checked 2026-11-17"

_QUIET = (
    "To have it tell its maker nothing of how it is used, add to env: "
    '"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"'
)
_CLAUDE_NEEDS = 32_768
"""It begins with about 12,000 tokens of tools and instructions."""
_LEAST_COMPACT_WINDOW = 100_000
_LONGEST_ANSWER = 32_000


def _claude(endpoint: Endpoint, person: Person) -> Recipe:
    path = person.folder("CLAUDE_CONFIG_DIR", ".claude") / "vivace.json"
    settings = {"written_by": MARK, **_key(endpoint), "env": _environment(endpoint)}
    text = json.dumps(settings, indent=2, ensure_ascii=False) + "\n"
    key = f"Claude Code takes the key from ${endpoint.key_env}."
    return Recipe(
        edits=(WholeFile(path, text),),
        notes=(
            *((key,) if endpoint.key_env else ()),
            f"Start it with: claude --settings {path}",
            _QUIET,
            *narrow(endpoint, "Claude Code", "about 12000", _CLAUDE_NEEDS),
        ),
    )


def _key(endpoint: Endpoint) -> dict[str, str]:
    """A command that prints it, so that it stands in no file."""
    return {"apiKeyHelper": f"printenv {endpoint.key_env}"} if endpoint.key_env else {}


def _environment(endpoint: Endpoint) -> dict[str, str]:
    models = {word.upper(): _stands_for(tier, endpoint) for word, tier in STAND_INS.items()}
    context = min(model.context for model in (endpoint.model, *models.values()))
    environment = {"ANTHROPIC_BASE_URL": endpoint.url.removesuffix("/v1")}
    if endpoint.key_env is None:
        environment["ANTHROPIC_AUTH_TOKEN"] = "none"  # noqa: S105 - it wants one even so
    environment["ANTHROPIC_MODEL"] = endpoint.model.name
    environment |= {f"ANTHROPIC_DEFAULT_{name}_MODEL": each.name for name, each in models.items()}
    environment["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = str(context)
    environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = str(min(_LONGEST_ANSWER, context // 4))
    if context >= _LEAST_COMPACT_WINDOW:
        environment["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = str(context)
    return environment


def _stands_for(tier: str, endpoint: Endpoint) -> Served:
    return next((model for model in endpoint.served if model.name == tier), endpoint.model)


# -- edits as tools: vivace mcp --------------------------------------------------------------------

_MCP = (
    "Codex CLI 0.166.0, tried 2026-11-17; VS Code by its MCP configuration reference of that day; "
    "Claude Code and Cursor untried"
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
                _json("mcpServers", command),
                "# VS Code: in .vscode/mcp.json",
                _json("servers", command, type="stdio"),
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


def _json(table: str, command: list[str], **more: str) -> str:
    program, *arguments = command
    arguments.append("${workspaceFolder}")
    server = {**more, "command": program, "args": arguments}
    return json.dumps({table: {"vivace": server}}, indent=2) + "\n"


AGENTS: Mapping[str, Client] = MappingProxyType(
    {
        "claude": Client("Claude Code", _CLAUDE, _claude),
        "mcp": Client("any agent that speaks MCP: edits as tools", _MCP, _mcp, needs_model=False),
    }
)
