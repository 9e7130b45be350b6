"""How the project formats its code, in a few words that a model can follow.

Only known settings are told, and only values that look like settings: these files may come from
anybody, and what they say goes into the prompt.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from vivace.workspace.document import read
from vivace.workspace.editorconfig import settings_in
from vivace.workspace.errors import WorkspaceError
from vivace.workspace.paths import SafePath, Workspace

__all__ = ["formatting_for"]

_MOST_DOTS = 100
_VALUE = re.compile(r"[A-Za-z0-9_.+-]{1,24}")
_COLON = re.compile(
    r"^(?P<name>[A-Za-z]\w*):[ \t]*['\"]?(?P<value>[^\s'\"#]+)['\"]?[ \t]*(?:#.*)?$", re.MULTILINE
)
_PYTHON = frozenset({".py", ".pyi"})
_RUST = frozenset({".rs"})
_C = frozenset({".c", ".cc", ".cpp", ".cxx", ".h", ".hh", ".hpp", ".hxx", ".m", ".mm"})
_WEB = frozenset(
    {
        ".js",
        ".jsx",
        ".mjs",
        ".cjs",
        ".ts",
        ".tsx",
        ".mts",
        ".cts",
        ".css",
        ".scss",
        ".less",
        ".html",
    }
    | {".vue", ".json", ".md", ".yaml", ".yml"}
)
_EDITORCONFIG = (
    "indent_style indent_size tab_width max_line_length end_of_line insert_final_newline "
    "trim_trailing_whitespace charset quote_type"
)
_PRETTIER = (
    "printWidth tabWidth useTabs semi singleQuote jsxSingleQuote quoteProps trailingComma "
    "bracketSpacing bracketSameLine arrowParens endOfLine"
)
_CLANG = (
    "BasedOnStyle IndentWidth TabWidth UseTab ColumnLimit PointerAlignment BreakBeforeBraces "
    "AllowShortFunctionsOnASingleLine NamespaceIndentation"
)
_RUSTFMT = "max_width tab_spaces hard_tabs edition imports_granularity group_imports newline_style"

_Read = Callable[[str], str | None]
"""The text of a file by its name, from the folder that is looked at; None if there is none."""


def formatting_for(workspace: Workspace, path: SafePath) -> str:
    """One line for each tool: ``.editorconfig: indent_size = 4, ...``; empty if none is set up."""
    suffix = PurePosixPath(path.name).suffix
    lines = [_line(".editorconfig", _editorconfig(workspace, path), _EDITORCONFIG)]
    for kinds, tool in _TOOLS:
        if suffix in kinds:
            lines.append(
                next((line for each in _readers(workspace, path) if (line := tool(each))), "")
            )
    return "\n".join(line for line in lines if line)


def _line(tool: str, found: Mapping[str, Any], known: str) -> str:
    parts = []
    for name in known.split():
        value = found.get(name)
        shown = json.dumps(value) if isinstance(value, bool) else str(value)
        if value is not None and _VALUE.fullmatch(shown):
            parts.append(f"{name} = {shown}")
    return f"{tool}: {', '.join(parts)}" if parts else ""


def _readers(workspace: Workspace, path: SafePath) -> Iterator[_Read]:
    """For each folder from the file's up to the root."""
    for depth in reversed(range(len(path.parts))):
        folder = path.parts[:depth]
        yield partial(_text, workspace, folder)


def _text(workspace: Workspace, folder: tuple[str, ...], file: str) -> str | None:
    name = "/".join([*folder, file])
    if not (workspace.root / name).is_file():
        return None
    try:
        # Only to be read: what protects a file is against being changed.
        return read(workspace.resolve(name, allow=[name])).text
    except WorkspaceError:
        return None


def _ruff(read: _Read) -> str:
    own = read("ruff.toml") or read(".ruff.toml")
    found = _toml(own) if own is not None else _table(_toml(read("pyproject.toml")), "tool", "ruff")
    layout = _table(found, "format")
    flat = {name.replace("-", "_"): value for name, value in (layout | found).items()}
    return _line("ruff", flat, "line_length indent_width indent_style quote_style target_version")


def _black(read: _Read) -> str:
    found = _table(_toml(read("pyproject.toml")), "tool", "black")
    flat = {name.replace("-", "_"): value for name, value in found.items()}
    return _line("black", flat, "line_length skip_string_normalization skip_magic_trailing_comma")


def _prettier(read: _Read) -> str:
    for name in (".prettierrc", ".prettierrc.json", ".prettierrc.yaml", ".prettierrc.yml"):
        if (text := read(name)) is not None:
            return _line("prettier", _json(text) or _colons(text), _PRETTIER)
    if (text := read(".prettierrc.toml")) is not None:
        return _line("prettier", _toml(text), _PRETTIER)
    return _line("prettier", _table(_json(read("package.json")), "prettier"), _PRETTIER)


def _clang_format(read: _Read) -> str:
    text = read(".clang-format") or read("_clang-format") or ""
    return _line("clang-format", _colons(text), _CLANG)


def _rustfmt(read: _Read) -> str:
    return _line("rustfmt", _toml(read("rustfmt.toml") or read(".rustfmt.toml")), _RUSTFMT)


_TOOLS: tuple[tuple[frozenset[str], Callable[[_Read], str]], ...] = (
    (_PYTHON, _ruff),
    (_PYTHON, _black),
    (_WEB, _prettier),
    (_C, _clang_format),
    (_RUST, _rustfmt),
)


def _toml(text: str | None) -> dict[str, Any]:
    lines = (text or "").split("\n")
    if max(line.count(".") for line in lines) > _MOST_DOTS:
        return {}  # nobody means such keys, and tomllib takes the square of them in memory
    try:
        return tomllib.loads(text or "")
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _json(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _colons(text: str) -> dict[str, Any]:
    """The outermost ``key: value`` lines of a YAML file, which is all that these have of it."""
    return {found["name"]: found["value"] for found in _COLON.finditer(text)}


def _table(found: object, *names: str) -> dict[str, Any]:
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _editorconfig(workspace: Workspace, path: SafePath) -> dict[str, str]:
    """The settings for a file; those of a nearer folder, and of a later section, overrule."""
    found: list[dict[str, str]] = []
    for up, reader in enumerate(_readers(workspace, path), start=1):
        if reader(".editorconfig") is None:  # none there that may be read
            continue
        folder = workspace.root.joinpath(*path.parts[:-up])
        settings, is_root = settings_in(folder / ".editorconfig", path.absolute)
        found.append(settings)
        if is_root:
            break
    merged: dict[str, str] = {}
    for settings in reversed(found):
        merged |= settings
    return {name: value for name, value in merged.items() if value != "unset"}
