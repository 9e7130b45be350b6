"""What each editor has to be told to start ``vivace lsp``.

Pure, as ``clients`` is, but for the plugin that comes with us. Every recipe names what it was
checked against, with the day: a page of the editor's documentation, or the editor itself.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType

from vivace.cli.clients import Client, Endpoint, Person, Recipe
from vivace.cli.settings_files import MARK, ShippedFile, TomlTable, WholeFile

__all__ = ["EDITORS"]


def _command(endpoint: Endpoint, person: Person) -> list[str]:
    return [person.program, "lsp", "--url", endpoint.url]


def _quote(text: str) -> str:
    """A string as JSON, TOML, Lua and Lisp all read it."""
    return json.dumps(text, ensure_ascii=False)


def _key_by_hand(endpoint: Endpoint) -> str:
    return f"{_KEY}=YOUR-KEY" if endpoint.key_env else ""


_KEY = "VIVACE_KEY"
"""Where ``vivace lsp`` looks for the server's key, so that none stands in a settings file."""

_DEFAULT_URL = "http://127.0.0.1:8765/v1"
"""Of ``vivace up``, and of our extension."""

_TRY = "If nothing comes while you type: vivace doctor"


# -- Neovim ---------------------------------------------------------------------------------------

# What lies in the site folder is found without a line in the person's init.lua, and with plugin
# managers too.
_NEOVIM = ":help lsp and :help packpath; run with 0.10.4 and 0.12.4 on 2026-11-16"


def _neovim(endpoint: Endpoint, person: Person) -> Recipe:
    name = person.environment.get("NVIM_APPNAME") or "nvim"
    site = person.folder("XDG_DATA_HOME", ".local/share") / name / "site"
    plugin = files("vivace.cli").joinpath("neovim/lua/vivace.lua").read_text("utf-8")
    command = ", ".join(map(_quote, _command(endpoint, person)))
    lines = [
        f"-- Written by {MARK}; see {_NEOVIM}.",
        'require("vivace").setup({',
        f"  cmd = {{ {command} }},",
        *([f"  key_env = {_quote(endpoint.key_env)},"] if endpoint.key_env else []),
        "})",
    ]
    return Recipe(
        edits=(
            ShippedFile(site / "lua/vivace.lua", f"-- Written by {MARK}.\n{plugin}"),
            WholeFile(site / "plugin/vivace.lua", "\n".join(lines) + "\n"),
        ),
        notes=(
            "Start Neovim (0.10 or newer) anew and type; Tab accepts, unless it is mapped already.",
            ":VivaceEdit edits as you say, :VivaceStatus tells why nothing comes.",
            _TRY,
        ),
    )


# -- Emacs ----------------------------------------------------------------------------------------

# "Adding support for languages" (emacs-lsp.github.io/lsp-mode/page/adding-new-language) and
# lsp-inline-completion.el of lsp-mode, checked 2026-11-16. Inline completions are on by default,
# two seconds after the last key. Eglot has none.
_EMACS = "Adding support for languages, emacs-lsp.github.io/lsp-mode, checked 2026-11-16"


def _emacs(endpoint: Endpoint, person: Person) -> Recipe:
    command = " ".join(map(_quote, _command(endpoint, person)))
    key = ""
    if endpoint.key_env:
        value = f'(or (getenv {_quote(endpoint.key_env)}) "")'
        key = f"    :environment-fn (lambda () (list (cons {_quote(_KEY)} {value})))\n"
    text = (
        f";;; vivace.el --- Vivace in lsp-mode -*- lexical-binding: t -*-\n"
        f";; Written by {MARK}; see {_EMACS}.\n"
        "(with-eval-after-load 'lsp-mode\n"
        "  (lsp-register-client\n"
        "   (make-lsp-client\n"
        "    :server-id 'vivace\n"
        f"    :new-connection (lsp-stdio-connection '({command}))\n"
        f"{key}"
        "    :activation-fn (lambda (&rest _) t)\n"
        "    :add-on? t  ; beside the language's own server\n"
        "    :multi-root t\n"
        "    :priority -2)))\n"
        "(setq lsp-inline-completion-idle-delay 0.2)\n"
    )
    folder = _emacs_folder(person)
    return Recipe(
        edits=(WholeFile(folder / "vivace.el", text),),
        notes=(
            'Put into your init file: (load (locate-user-emacs-file "vivace"))',
            "It needs lsp-mode with inline completions (2025 or newer); Eglot has none.",
            "M-x lsp starts it in a buffer.",
            _TRY,
        ),
    )


def _emacs_folder(person: Person) -> Path:
    """As Emacs chooses: the older place wins if it is there."""
    older = person.home / ".emacs.d"
    newer = person.folder("XDG_CONFIG_HOME", ".config") / "emacs"
    return newer if newer.is_dir() and not older.is_dir() else older


# -- Helix ----------------------------------------------------------------------------------------

# "Languages" (docs.helix-editor.com/languages.html), checked 2026-11-16. Helix shows no inline
# completions (its pull request 14876 is open): items of its list of completions, edits and code
# actions only.
_HELIX = "Languages, docs.helix-editor.com/languages.html, checked 2026-11-16"


def _helix(endpoint: Endpoint, person: Person) -> Recipe:
    program, *arguments = _command(endpoint, person)
    path = person.folder("XDG_CONFIG_HOME", ".config") / "helix/languages.toml"
    body = (
        f"# See {_HELIX}.\n"
        f"command = {_quote(program)}\n"
        f"args = [{', '.join(map(_quote, arguments))}]\n"
    )
    example = '[[language]]\n  name = "rust"\n  language-servers = ["rust-analyzer", "vivace"]'
    notes = [
        f"Name it behind the other servers of each language that should have it:\n  {example}",
        "Ctrl-x in insert mode asks for a suggestion, which stands last in the list.",
        "Space-a offers its edits. Helix shows no suggestion behind the cursor yet.",
    ]
    if endpoint.key_env:
        notes.insert(0, f"Start Helix with {_key_by_hand(endpoint)} in its environment.")
    return Recipe(edits=(TomlTable(path, "language-server.vivace", body),), notes=tuple(notes))


# -- JetBrains ------------------------------------------------------------------------------------

# "User-defined language server" and "LSP support" of LSP4IJ
# (github.com/redhat-developer/lsp4ij/blob/main/docs), checked 2026-11-16. Inline completions came
# with its pull request 1552 in May 2026.
_JETBRAINS = "User-defined language server, github.com/redhat-developer/lsp4ij, checked 2026-11-16"


# "Use third-party and local models" (jetbrains.com/help/ai-assistant/use-custom-models.html).
_AI_ASSISTANT = "Use third-party and local models, jetbrains.com/help, checked 2026-11-17; untried"


def _jetbrains(endpoint: Endpoint, person: Person) -> Recipe:
    key = _key_by_hand(endpoint)
    environment = f"     Environment variables: {key}\n" if key else ""
    return Recipe(
        snippet=(
            f"# See {_JETBRAINS}.\n"
            "1. Install the plugin LSP4IJ, of June 2026 or newer.\n"
            "2. Settings, Languages & Frameworks, Language Servers, [+]:\n"
            "     Server name: Vivace\n"
            f"     Command: {shlex.join(_command(endpoint, person))}\n"
            f"{environment}"
            "3. In its Mappings tab, under File name patterns, name the files that shall have it,\n"
            "   such as *.py with the language id python.\n"
            "4. Type; Tab accepts. Edits are under Alt+Enter.\n"
            "\n"
            f"# Its AI Assistant can chat with the same server. See {_AI_ASSISTANT}.\n"
            "5. Settings, Tools, AI Assistant, Providers & API keys, Third-party AI providers:\n"
            "     Provider: OpenAI-compatible\n"
            f"     URL: {endpoint.url}\n"
            "     API key: yours, or any word where the server asks for none\n"
        )
    )


# -- VS Code --------------------------------------------------------------------------------------

_VSCODE = "editors/vscode/README.md; run with Code 1.100.3 on 2026-11-16"


def _vscode(endpoint: Endpoint, person: Person) -> Recipe:
    settings = {}
    if person.program != "vivace":  # which is looked for on PATH
        settings["vivace.command"] = person.program
    if endpoint.url != _DEFAULT_URL:
        settings["vivace.address"] = endpoint.url
    notes = ["Type; Tab accepts. Click Vivace in the status bar to start a server."]
    if endpoint.key_env:
        notes.insert(0, "Give it the key: command palette, Vivace: Set the Server's Key")
    if settings:
        lines = json.dumps(settings, indent=2, ensure_ascii=False)
        notes.insert(0, f"Put into your user settings:\n{lines}")
    return Recipe(extension=True, notes=(*notes, _TRY))


EDITORS: Mapping[str, Client] = MappingProxyType(
    {
        "vscode": Client("VS Code", _VSCODE, _vscode, needs_model=False),
        "neovim": Client("Neovim", _NEOVIM, _neovim, needs_model=False),
        "emacs": Client("Emacs, by lsp-mode", _EMACS, _emacs, needs_model=False),
        "jetbrains": Client("JetBrains, by LSP4IJ", _JETBRAINS, _jetbrains, needs_model=False),
        "helix": Client("Helix", _HELIX, _helix, needs_model=False),
    }
)
