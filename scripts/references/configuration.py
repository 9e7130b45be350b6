"""What may stand in vivace.toml: a page, an example and a schema for editors.

All three come from the structs of ``vivace.config``: types, units and examples from their
annotations, the meaning from the words below each key.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct
from msgspec import inspect as types

from scripts.references.docstrings import attributes, markdown
from scripts.references.tables import code, page, table
from vivace.config import Config

__all__ = ["FIRST", "Key", "Section", "example", "schema", "schema_text", "sections", "text"]

FIRST = "0.1.0"
"""The version that had everything which does not say otherwise."""
_SINCE = re.compile(r" ?Since (\d+\.\d+\.\d+)\.$")
_ENGINE = "llamacpp"
"""The one that the example is about; the others are for whoever needs them."""


class Key(Struct, frozen=True):
    name: str
    type: str
    unit: str
    default: Any
    """``NODEFAULT`` where one must be given."""
    example: Any
    """What stands in the example instead of a default that says nothing."""
    meaning: str
    since: str


class Section(Struct, frozen=True):
    """A table of vivace.toml."""

    path: str
    """As its head has it, such as ``server``; empty for what stands above all tables."""
    kind: str
    """Of an engine."""
    listed: bool
    """Whether there may be several."""
    words: str
    keys: tuple[Key, ...]

    @property
    def title(self) -> str:
        return f"{self.path} of kind {self.kind}" if self.kind else self.path or "Top of the file"

    @property
    def head(self) -> str:
        return f"[[{self.path}]]" if self.listed else f"[{self.path}]" if self.path else ""


def sections() -> list[Section]:
    return list(_sections(types.type_info(Config), "", listed=False))


def _sections(found: types.Type, path: str, *, listed: bool) -> Iterator[Section]:
    """A struct's own keys first, then the tables in it."""
    assert isinstance(found, types.StructType)
    words = attributes(found.cls)
    plain = [each for each in found.fields if not list(_tables(each.type))]
    keys = tuple(_key(each, words.get(each.name, "")) for each in plain)
    kind = str(found.tag or "")
    yield Section(path, kind, listed, markdown(found.cls.__doc__ or ""), keys)
    for each in found.fields:
        for inner, several in _tables(each.type):
            yield from _sections(inner, f"{path}.{each.name}".lstrip("."), listed=several)


def _tables(found: types.Type) -> Iterator[tuple[types.Type, bool]]:
    """The structs in a field's type, and whether it is a list of them."""
    match _bare(found):
        case types.StructType() as struct:
            yield struct, False
        case types.VarTupleType(item_type=types.StructType() as struct):
            yield struct, True
        case types.VarTupleType(item_type=types.UnionType(types=kinds)):
            yield from ((kind, True) for kind in kinds)


def _key(found: types.Field, words: str) -> Key:
    since = _SINCE.search(words)
    default = found.default
    if found.default_factory is not NODEFAULT:
        default = found.default_factory()
    metadata = _metadata(found.type)
    return Key(
        found.name,
        _type(found.type),
        (metadata.extra or {}).get("unit", "") if metadata else "",
        default,
        _example(found.type, metadata),
        _SINCE.sub("", words),
        since[1] if since else FIRST,
    )


def _metadata(found: types.Type) -> types.Metadata | None:
    if isinstance(found, types.UnionType):
        return next(filter(None, map(_metadata, found.types)), None)
    return found if isinstance(found, types.Metadata) else None


def _example(found: types.Type, metadata: types.Metadata | None) -> Any:
    given = ((metadata and metadata.extra_json_schema) or {}).get("examples")
    if given:
        return given[0]
    match _bare(found):
        case types.LiteralType(values=(first, *_)):
            return first
    return None


def _bare(found: types.Type) -> types.Type:
    """Without what is said about it, and without None: TOML has no word for that."""
    if isinstance(found, types.Metadata):
        return _bare(found.type)
    if isinstance(found, types.UnionType):
        kinds = [each for each in found.types if not isinstance(each, types.NoneType)]
        if len(kinds) == 1:
            return _bare(kinds[0])
    return found


def _type(found: types.Type) -> str:
    match _bare(found):
        case types.BoolType():
            return "boolean"
        case types.StrType():
            return "string"
        case types.IntType(ge=least, le=most):
            return f"integer {_range(least, most)}".strip()
        case types.FloatType(gt=above, ge=least):
            return f"number {'' if above is None else f'> {above:g}'}{_range(least, None)}".strip()
        case types.LiteralType(values=values):
            return " or ".join(code(_toml(each)) for each in values)
        case types.VarTupleType(item_type=item):
            return f"list of {_type(item)}s"
        case types.DictType(value_type=types.AnyType()):
            return "table"
        case types.DictType(value_type=value):
            return f"table of {_type(value)}s"
    raise NotImplementedError(f"scripts/references/configuration.py has no word for {found}")


def _range(least: float | None, most: float | None) -> str:
    if least is None:
        return ""
    return f"≥ {least:g}" if most is None else f"{least:g} to {most:g}"


# -- the page -------------------------------------------------------------------------------------

_INTRODUCTION = """
`vivace.toml` says what `vivace serve` serves; `vivace config check` says whether it is right.
Another file is named with `--config` or `VIVACE_CONFIG`. An unknown key is an error, answered with
the nearest right one. Of the environment, `VIVACE_HOST` and `VIVACE_PORT` win over the file.

[vivace.toml](vivace.toml) has every key with its default, to copy from. With
[vivace.schema.json](vivace.schema.json) an editor completes and checks the file as you type: for
Taplo or Even Better TOML, make its first line `#:schema` and the path or address of the schema.
"""


def text() -> str:
    return page("Configuration", _INTRODUCTION, *map(_section, sections()))


def _section(section: Section) -> str:
    head = "" if not section.head else code(section.head) + _kind(section) + ". "
    heads = ("key", "type", "default", "unit", "since", "meaning")
    rows = [
        (code(key.name), key.type, _default(key), key.unit, key.since, key.meaning)
        for key in section.keys
    ]
    return f"## {section.title}\n\n{head}{section.words}\n\n{table(heads, rows)}"


def _kind(section: Section) -> str:
    return " with " + code(f"kind = {_toml(section.kind)}") if section.kind else ""


def _default(key: Key) -> str:
    if key.default is NODEFAULT:
        return "required"
    return code(_toml(key.default)) if _says_something(key.default) else "none"


def _says_something(value: Any) -> bool:
    return value is not None and value not in ((), {})


# -- the example ----------------------------------------------------------------------------------

_HEAD = """\
# Every key that vivace.toml may have. What stands behind a # without a space is the default, or an
# example where there is none: take the # away to change it. Then: vivace config check
"""
_WIDTH = 100


def example() -> str:
    blocks = [_HEAD]
    for section in sections():
        in_use = section.kind == _ENGINE or not (section.listed or "." in section.path)
        lines = [""] if section.path else []
        lines += _comment(section.words)
        if section.head:
            lines.append(("" if in_use else "#") + section.head)
        if section.kind:
            lines.append(("" if in_use else "#") + f"kind = {_toml(section.kind)}")
        for key in section.keys:
            lines += ["", *_comment(key.meaning + (f" ({key.unit})" if key.unit else ""))]
            lines.append(_setting(key, in_use=in_use))
        blocks.append("\n".join(lines) + "\n")
    return "\n".join(blocks)


def _comment(words: str) -> list[str]:
    return textwrap.wrap(words, _WIDTH, initial_indent="# ", subsequent_indent="# ")


def _setting(key: Key, *, in_use: bool) -> str:
    if key.default is NODEFAULT:
        return ("" if in_use else "#") + f"{key.name} = {_toml(key.example)}"
    if _says_something(key.default):
        return f"#{key.name} = {_toml(key.default)}"
    return f"#{key.name} = {_toml(key.example)}  # none by default"


def _toml(value: Any) -> str:
    match value:
        case dict():
            pairs = (f"{name} = {_toml(each)}" for name, each in value.items())
            return f"{{ {', '.join(pairs)} }}"
        case list() | tuple():
            return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(value)


# -- the schema -----------------------------------------------------------------------------------


def schema_text() -> str:
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


def schema() -> dict[str, Any]:
    """As msgspec has it, in the words of the page and without what TOML does not have."""
    text = json.dumps(msgspec.json.schema(Config))
    made = json.loads(text.replace(r"\\Z", "$"))  # which here is the end itself
    for name, kind in _structs().items():
        words = attributes(kind)
        definition = made["$defs"][name]
        definition["description"] = markdown(kind.__doc__ or "")
        for key, value in definition["properties"].items():
            definition["properties"][key] = _property(value, words.get(key, ""))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "vivace.toml",
        **made,
    }


def _structs() -> dict[str, type[Struct]]:
    found: dict[str, type[Struct]] = {}

    def look(kind: types.Type) -> None:
        assert isinstance(kind, types.StructType)
        found[kind.cls.__name__] = kind.cls
        for each in kind.fields:
            for inner, _ in _tables(each.type):
                look(inner)

    look(types.type_info(Config))
    return found


def _property(made: dict[str, Any], words: str) -> dict[str, Any]:
    choices = [each for each in made.pop("anyOf", ()) if each != {"type": "null"}]
    if len(choices) == 1:
        made |= choices[0]
    elif choices:
        made["anyOf"] = choices
    if "default" in made and made["default"] is None:
        del made["default"]
    if words:
        made["description"] = words
    return made
