"""What each client has to be told to use a Vivace server.

Pure: from the server and the person's folders to the files and lines. Every recipe names the page
of the client's documentation that it was checked against, with the day.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from vivace import models
from vivace.cli.json_settings import as_json, loaded, merged, pruned, table
from vivace.cli.settings_files import MARK, CannotEdit, Edit, WholeFile
from vivace.models import Fim

__all__ = ["CLIENTS", "SMALLEST", "Client", "Endpoint", "Person", "Recipe", "Served"]

SMALLEST = 8192
"""The context to count on while nobody knows better: the default of an engine."""


class Served(Struct, frozen=True):
    """A model that the server has."""

    name: str
    context: int = SMALLEST
    tier: bool = False
    """Whether a request's ``service_tier`` can name it."""
    efforts: tuple[str, ...] = ()
    """How much it can be asked to think."""
    effort: str | None = None
    """How much it thinks when nobody asks."""

    @property
    def fim(self) -> Fim | None:
        known = models.find(self.name)
        return known.fim if known is not None else None


class Endpoint(Struct, frozen=True):
    url: str
    """Up to and including ``/v1``."""
    served: tuple[Served, ...]
    """Not empty; the first is the one to use."""
    key_env: str | None = None
    """The environment variable that holds the key, for a server that asks for one."""

    @property
    def model(self) -> Served:
        return self.served[0]

    @property
    def filler(self) -> Served | None:
        """The model for completions at the cursor."""
        return next((model for model in self.served if model.fim is not None), None)


class Person(Struct, frozen=True):
    """Where a person's programs keep their settings."""

    home: Path
    environment: Mapping[str, str]
    program: str = "vivace"
    """What starts us: our name where that is on PATH."""

    def folder(self, variable: str, otherwise: str) -> Path:
        named = self.environment.get(variable)
        return Path(named) if named else self.home / otherwise


class Recipe(Struct, frozen=True, kw_only=True):
    edits: tuple[Edit, ...] = ()
    snippet: str = ""
    """For clients without a settings file."""
    extension: bool = False
    """Whether it needs our extension of VS Code."""
    notes: tuple[str, ...] = ()
    """What is left to the person, in the order of doing it."""


class Client(Struct, frozen=True):
    title: str
    documentation: str
    recipe: Callable[[Endpoint, Person], Recipe]
    needs_model: bool = True
    """Whether it is told a model's name, so that the server has to be asked."""


def _quote(text: str) -> str:
    """A string as JSON, TOML, YAML and Python all read it."""
    return json.dumps(text, ensure_ascii=False)


# -- Continue -------------------------------------------------------------------------------------

# "Configuring Models, Rules, and Tools" (docs.continue.dev/guides/configuring-models-rules-tools)
# and "config.yaml Reference" (docs.continue.dev/reference), checked 2026-11-15: a file in
# ~/.continue/models adds one model, and no more than one, to every config. That leaves the person's
# config.yaml alone. Continue (2.0.0, its last) writes the fill-in-the-middle prompt
# itself, by the model's name, and sends it to /completions, except for models whose name begins
# with "gpt" or "o".
_CONTINUE = "Configuring Models, Rules, and Tools, docs.continue.dev, checked 2026-11-15"


def _continue(endpoint: Endpoint, person: Person) -> Recipe:
    folder = person.folder("CONTINUE_GLOBAL_DIR", ".continue")
    chat = _continue_model(endpoint, endpoint.model, ("chat", "edit", "apply"))
    edits = [WholeFile(folder / "models/vivace.yaml", chat)]
    notes = [_CONTINUE_ENDED, "Reload the editor's window, then choose the model in its panel."]
    if endpoint.key_env:
        notes.insert(
            0,
            "Editors do not see your shell's variables. Put the key into "
            f"{folder / '.env'}: {endpoint.key_env}=YOUR-KEY",
        )
    if (filler := endpoint.filler) is not None:
        text = _continue_model(endpoint, filler, ("autocomplete",))
        edits.append(WholeFile(folder / "models/vivace-autocomplete.yaml", text))
    else:
        notes.append(_NO_FILLER.format("autocomplete"))
    return Recipe(edits=tuple(edits), notes=tuple(notes))


# Its README, and a maintainer's word in its issue 12629 of June 2026, read 2026-11-17.
_CONTINUE_ENDED = (
    "Continue is no longer maintained: 2.0.0 of June 2026 was its last release. Instead: vivace "
    "connect vscode (or jetbrains) for completions and edits, vivace connect vscode-chat or cline "
    "for chat, vivace run claude (or codex, opencode) for an agent."
)
_NO_FILLER = "No model of this server is known to fill in the middle, so {} is left out."


def _continue_model(endpoint: Endpoint, model: Served, roles: tuple[str, ...]) -> str:
    label = "Vivace autocomplete" if "autocomplete" in roles else "Vivace"
    lines = [
        f"# Written by {MARK}; see {_CONTINUE}.",
        f"name: {label}",
        "version: 0.0.1",
        "schema: v1",
        "models:",
        f"  - name: {_quote(f'{label}: {model.name}')}",
        "    provider: openai",
        f"    model: {_quote(model.name)}",
        f"    apiBase: {_quote(endpoint.url)}",
        "    useResponsesApi: false",
        f"    roles: [{', '.join(roles)}]",
        "    defaultCompletionOptions:",
        f"      contextLength: {model.context}",
    ]
    if "chat" in roles:
        lines.insert(-2, "    capabilities: [tool_use]")
    if endpoint.key_env:
        lines.insert(9, f"    apiKey: ${{{{ secrets.{endpoint.key_env} }}}}")
    return "\n".join(lines) + "\n"


# -- Zed ------------------------------------------------------------------------------------------

# "Use API Access" (zed.dev/docs/ai/use-api-access) and "Edit Prediction"
# (zed.dev/docs/ai/edit-prediction), checked 2026-11-15. Zed infers the format of a prediction's
# prompt from a few exact names only, so it is named here; the address is the whole one.
_ZED = "Use API Access and Edit Prediction, zed.dev/docs/ai, checked 2026-11-15"

_ZED_KEY = (
    "Zed wants a key even where the server asks for none. Enter it (or any word) in Zed's settings "
    "of the provider 'vivace', or start Zed with VIVACE_API_KEY set."
)

_ZED_FORMATS: Mapping[str, str] = MappingProxyType(
    {
        "<|fim_prefix|>": "qwen",
        "<fim_prefix>": "star_coder",
        "<｜fim▁begin｜>": "deepseek_coder",  # noqa: RUF001 - the model's own marker
        "<|code_prefix|>": "glm",
    }
)


def _zed(endpoint: Endpoint, person: Person) -> Recipe:
    notes = [_ZED_KEY, "Choose the model in the agent panel."]
    settings: dict[str, Any] = {
        "language_models": {
            "openai_compatible": {
                "vivace": {
                    "api_url": endpoint.url,
                    "available_models": [
                        {"name": model.name, "max_tokens": model.context}
                        for model in endpoint.served
                    ],
                }
            }
        }
    }
    filler = endpoint.filler
    form = _ZED_FORMATS.get(filler.fim.prefix) if filler and filler.fim else None
    if filler is not None and form is not None:
        settings["edit_predictions"] = {
            "provider": "open_ai_compatible_api",
            "open_ai_compatible_api": {
                "api_url": f"{endpoint.url}/completions",
                "model": filler.name,
                "prompt_format": form,
                "max_output_tokens": 128,
            },
        }
        notes.append("A provider of edit predictions that you chose before is left as it is.")
        if endpoint.key_env:
            notes.append(
                "Edit predictions take the key from ZED_OPEN_AI_COMPATIBLE_EDIT_PREDICTION_API_KEY."
            )
    else:
        notes.append(_NO_FILLER.format("edit prediction"))
    return Recipe(edits=(_ZedSettings(_zed_path(person), settings),), notes=tuple(notes))


def _zed_path(person: Person) -> Path:
    if sys.platform == "win32":
        return person.folder("APPDATA", "AppData/Roaming") / "Zed/settings.json"
    if sys.platform == "darwin":
        return person.home / ".config/zed/settings.json"
    return person.folder("XDG_CONFIG_HOME", ".config") / "zed/settings.json"


class _ZedSettings(Struct, frozen=True):
    """Our keys in Zed's settings; a file with comments is left to the person who wrote them."""

    path: Path
    settings: dict[str, Any]

    @property
    def text(self) -> str:
        return as_json(self.settings)

    def holds(self, text: str) -> bool:
        settings = loaded(text)
        return '"vivace"' in text if settings is None else bool(_zed_ours(settings))

    def apply(self, before: str | None) -> str:
        now = loaded(before) if before is not None and before.strip() else {}
        if now is None:
            raise CannotEdit(
                f"{self.path} has comments, or is not JSON, and a program would lose them. Put "
                f"these keys in by hand:\n\n{self.text}"
            )
        ours = dict(self.settings)
        if "provider" in table(now, "edit_predictions") and not _zed_predicts(now):
            ours.pop("edit_predictions", None)
        after = merged(now, ours)
        return before if before is not None and after == now else as_json(after)

    def without(self, text: str) -> str | None:
        now = loaded(text)
        if now is None:
            raise CannotEdit(
                f"{self.path} has comments, or is not JSON, and a program would lose them. Take "
                "out language_models.openai_compatible.vivace and edit_predictions by hand."
            )
        if _zed_predicts(now):
            predictions = now["edit_predictions"]
            del predictions["provider"], predictions["open_ai_compatible_api"]
        table(now, "language_models", "openai_compatible").pop("vivace", None)
        left = pruned(now, ("language_models", "openai_compatible"), ("edit_predictions",))
        return as_json(left) if left else None


def _zed_ours(settings: dict[str, Any]) -> dict[str, Any]:
    return table(settings, "language_models", "openai_compatible", "vivace")


def _zed_predicts(settings: dict[str, Any]) -> bool:
    """Whether the edit predictions in the file stand there by our hand."""
    predictions = table(settings, "edit_predictions")
    asked = table(predictions, "open_ai_compatible_api").get("api_url")
    return (
        predictions.get("provider") == "open_ai_compatible_api"
        and asked == f"{_zed_ours(settings).get('api_url')}/completions"
    )


# -- without a settings file ----------------------------------------------------------------------

# "Connect", OpenAI API reference for Python
# (developers.openai.com/api/reference/python/resources/responses/methods/connect), and "Streaming
# responses" (developers.openai.com/api/docs/guides/streaming-responses), checked 2026-11-15; run
# with openai 3.49.0.
_SDK = "Connect, OpenAI API reference for Python, developers.openai.com, checked 2026-11-15"


def _sdk(endpoint: Endpoint, person: Person) -> Recipe:
    key = f"os.environ[{_quote(endpoint.key_env)}]" if endpoint.key_env else '"none"'
    model = _quote(endpoint.model.name)
    snippet = f"""\
# pip install "openai[realtime]"
# See {_SDK}.
{"import os" + chr(10) * 2 if endpoint.key_env else ""}from openai import OpenAI

client = OpenAI(base_url={_quote(endpoint.url)}, api_key={key})

# One answer, whole.
response = client.responses.create(model={model}, input="Say hello.")
print(response.output_text)

# An answer while it is written.
for event in client.responses.create(model={model}, input="Say hello.", stream=True):
    if event.type == "response.output_text.delta":
        print(event.delta, end="", flush=True)
print()

# A conversation on one WebSocket: every turn sends only what is new.
previous = None
with client.responses.connect() as connection:
    for question in ("Say hello.", "And once more."):
        more = {{"previous_response_id": previous}} if previous else {{}}
        connection.response.create(model={model}, input=question, **more)
        for event in connection:
            if event.type == "response.output_text.delta":
                print(event.delta, end="", flush=True)
            elif event.type == "response.completed":
                previous = event.response.id
                break
            elif event.type in ("response.failed", "response.incomplete", "error"):
                raise SystemExit(event.to_json())
        print()
"""
    return Recipe(snippet=snippet)


# "Streaming responses" (developers.openai.com/api/docs/guides/streaming-responses), checked
# 2026-11-15.
_CURL = "Streaming responses, developers.openai.com/api/docs/guides, checked 2026-11-15"


def _curl(endpoint: Endpoint, person: Person) -> Recipe:
    headers = "-H 'Content-Type: application/json'"
    if endpoint.key_env:
        headers += f' -H "Authorization: Bearer ${endpoint.key_env}"'
    url = shlex.quote(f"{endpoint.url}/responses")

    def command(flags: str, **body: object) -> str:
        sent = {"model": endpoint.model.name, "input": "Say hello.", **body}
        data = shlex.quote(json.dumps(sent, ensure_ascii=False))
        return f"curl {flags} {url} \\\n  {headers} \\\n  -d {data}\n"

    return Recipe(
        snippet=(
            f"# See {_CURL}.\n\n"
            f"# One answer, whole.\n{command('-sS')}\n"
            f"# An answer while it is written.\n{command('-sSN', stream=True)}"
        )
    )


CLIENTS: Mapping[str, Client] = MappingProxyType(
    {
        "sdk": Client("the OpenAI SDK for Python", _SDK, _sdk),
        "curl": Client("curl", _CURL, _curl),
        "continue": Client("Continue, in VS Code or JetBrains", _CONTINUE, _continue),
        "zed": Client("Zed", _ZED, _zed),
    }
)
