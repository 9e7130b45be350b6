"""How an agent is started so that it uses a server for this one run.

Pure. What is set is what ``agents.py`` says; here it goes into options and the environment, which
count more than the person's settings and leave their files alone. Their MCP servers, rules and all
other settings work as ever.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from msgspec import Struct

from vivace.cli.agents import (
    CLAUDE_ROOM,
    CODEX_ROOM,
    OPENCODE_ROOM,
    Room,
    claude_settings,
    codex_catalogue,
    codex_choice,
    codex_provider,
    opencode_provider,
    stands_for,
    toml_value,
)
from vivace.cli.clients import Endpoint
from vivace.cli.json_settings import loaded, merged
from vivace.cli.settings_files import WholeFile
from vivace.errors import ConfigError

__all__ = ["AGENT_STARTS", "AgentStart", "Asked", "Start"]


class Asked(Struct, frozen=True):
    """What the person gives the agent, and where we may keep a file."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: Path


class Start(Struct, frozen=True, kw_only=True):
    arguments: tuple[str, ...] = ()
    """They stand before the person's own."""
    environment: Mapping[str, str] = {}
    files: tuple[WholeFile, ...] = ()
    """Of our own, in our own folder."""


class AgentStart(Struct, frozen=True):
    program: str
    package: str
    """Its name at npm."""
    room: Room
    start: Callable[[Endpoint, Asked], Start]


# -- Codex CLI ------------------------------------------------------------------------------------


def _codex(endpoint: Endpoint, asked: Asked) -> Start:
    """All by -c; only the catalogue of models has to be a file.

    It stays, one for each server, since nobody can say when Codex reads it for the last time: so
    nothing is left to be done after the run, and Codex can take the place of our process.
    """
    name = hashlib.sha256(endpoint.url.encode()).hexdigest()[:16]
    catalogue = WholeFile(asked.folder / f"codex-{name}.models.json", codex_catalogue(endpoint))
    provider = {
        f"model_providers.vivace.{key}": value for key, value in codex_provider(endpoint).items()
    }
    values = provider | codex_choice(endpoint, str(catalogue.path))
    overrides = [f"{key}={toml_value(value)}" for key, value in values.items()]
    return Start(
        arguments=tuple(word for each in overrides for word in ("-c", each)), files=(catalogue,)
    )


# -- Claude Code ----------------------------------------------------------------------------------

# Other ways out, which would count more than the address: another maker's cloud, and a key for
# Anthropic, which is nobody else's business. Empty is as good as not set (tried with 2.1.325 for
# the keys and Bedrock).
_OTHER_WAYS = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_USE_VERTEX",
)


def _claude(endpoint: Endpoint, asked: Asked) -> Start:
    """By --settings, since "env" in the person's settings counts more than the environment.

    It takes one only. Who gives their own has it, and the environment says the rest.
    """
    settings = claude_settings(endpoint)
    settings["env"] = dict.fromkeys(_OTHER_WAYS, "") | settings["env"]
    options = itertools.takewhile(lambda word: word != "--", asked.arguments)
    theirs = any(word.partition("=")[0] == "--settings" for word in options)
    environment = dict(settings["env"])
    if theirs and endpoint.key_env:
        environment["ANTHROPIC_AUTH_TOKEN"] = asked.environment[endpoint.key_env]
    return Start(
        arguments=() if theirs else ("--settings", json.dumps(settings, ensure_ascii=False)),
        environment=environment,
    )


# -- opencode -------------------------------------------------------------------------------------


def _opencode(endpoint: Endpoint, asked: Asked) -> Start:
    """By a variable that it merges over all of the person's files."""
    variable = "OPENCODE_CONFIG_CONTENT"
    theirs = loaded(asked.environment.get(variable) or "{}")
    if theirs is None:
        raise ConfigError(f"${variable} is set here and is not plain JSON; unset it for this run.")
    ours = {
        "provider": {"vivace": opencode_provider(endpoint)},
        "model": f"vivace/{endpoint.model.name}",
        "small_model": f"vivace/{stands_for('fast', endpoint).name}",
    }
    text = json.dumps(merged(theirs, ours), ensure_ascii=False)
    return Start(environment={variable: text})


AGENT_STARTS: Mapping[str, AgentStart] = MappingProxyType(
    {
        "codex": AgentStart("codex", "@openai/codex", CODEX_ROOM, _codex),
        "claude": AgentStart("claude", "@anthropic-ai/claude-code", CLAUDE_ROOM, _claude),
        "opencode": AgentStart("opencode", "opencode-ai", OPENCODE_ROOM, _opencode),
    }
)
