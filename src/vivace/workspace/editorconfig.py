"""``.editorconfig``: which of its sections are about a file."""

from __future__ import annotations

import re

__all__ = ["sections_for"]

_GLOB = re.compile(r"\*\*/?|\*|\?|\[!?[^\]/]+\]|\{|\}|,|\\?.", re.DOTALL)
_WILD = {"**": ".*", "*": "[^/]*", "?": "[^/]"}


def sections_for(text: str, relative: str) -> tuple[dict[str, str], bool]:
    """The settings for a file, by its path from here, and whether no folder above has a say."""
    settings: dict[str, str] = {}
    is_root, inside, applies = False, False, False
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("[") and line.endswith("]"):
            inside, applies = True, _fits(line[1:-1], relative)
        elif line and line[0] not in "#;" and "=" in line:
            name, _, value = (part.strip().lower() for part in line.partition("="))
            value = re.split(r"\s[#;]", value)[0].strip()
            if applies:
                settings[name] = value
            elif not inside and name == "root":
                is_root = value == "true"
    return settings, is_root


def _fits(glob: str, relative: str) -> bool:
    """Whether a section is about a file; a glob without a slash is about its name anywhere."""
    if len(glob) > 200 or glob.count("*") > 8:
        return False  # nobody means these, and they can take for ever
    pattern = _pattern(glob.removeprefix("/"))
    anywhere = "" if "/" in glob else "(?:.*/)?"
    try:
        return re.fullmatch(anywhere + pattern, relative) is not None
    except re.error:
        return False


def _pattern(glob: str) -> str:
    """The glob as a regular expression; ``{a,b}`` is one of them, ``{1..3}`` a number between."""
    depth, parts = 0, []
    glob = re.sub(r"\{(-?\d+)\.\.(-?\d+)\}", _numbers, glob)
    for part in _GLOB.findall(glob):
        if part == "{":
            depth += 1
            parts.append("(?:")
        elif part == "}" and depth:
            depth -= 1
            parts.append(")")
        elif part == "," and depth:
            parts.append("|")
        elif part == "**/":
            parts.append("(?:.*/)?")
        elif part[0] == "[" and len(part) > 2:
            parts.append(part.replace("[!", "[^").replace("\\", "\\\\"))
        else:
            parts.append(_WILD.get(part) or re.escape(part.removeprefix("\\")))
    return "".join(parts) + ")" * depth


def _numbers(found: re.Match[str]) -> str:
    first, last = sorted((int(found[1]), int(found[2])))
    return "{" + ",".join(str(number) for number in range(first, min(last, first + 100) + 1)) + "}"
